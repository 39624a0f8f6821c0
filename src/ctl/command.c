/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/command - one table of commands, one of options.
 *
 * Options may stand anywhere. A command says which of them it knows; another one is
 * a usage error rather than silently of no effect.
 */
#include "ctl/command.h"

#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/control.h"
#include "ctl/client.h"
#include "ctl/doctor.h"
#include "ctl/run.h"
#include "ctl/show.h"
#include "ctl/value.h"

#define TIMEOUT_MS_DEFAULT 10000

struct command {
	const char *name;
	const char *args;
	const char *summary;
	const char *options; /* letters of those it knows beside the common ones */
	const char *help;
	int (*run)(const struct command *cmd);
};

/* vipctl does one thing and ends: this is its only state. */
static struct run opt = { .client = { CONTROL_SOCKET_PATH, TIMEOUT_MS_DEFAULT }, .colour = "auto" };

/* --- output --- */

static void style_decide(void)
{
	struct winsize size = { 0 };
	bool is_terminal = isatty(STDOUT_FILENO);
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	(void)setlocale(LC_CTYPE, "");
	opt.style.is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	if (strcmp(opt.colour, "auto") == 0)
		opt.style.has_colour = is_terminal && (no_colour == NULL || *no_colour == '\0') &&
				       term != NULL && strcmp(term, "dumb") != 0;
	else
		opt.style.has_colour = strcmp(opt.colour, "always") == 0;
	if (is_terminal && opt.output != OUTPUT_WIDE &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		opt.style.width = size.ws_col;
}

static enum show_width show_width(void)
{
	return opt.output == OUTPUT_WIDE ? SHOW_WIDE : SHOW_NORMAL;
}

int out_write(const char *data, size_t len)
{
	return fwrite(data, 1, len, stdout) == len ? 0 : errno == EPIPE ? -EPIPE : -errno;
}

static int out_finish(int code)
{
	if (fflush(stdout) == 0 || errno == EPIPE)
		return code;
	(void)fprintf(stderr, "vipctl: standard output: %s\n", strerror(errno));
	return EXIT_PROBLEM;
}

int out_json(const json_t *json, int code)
{
	if (json_dumpf(json, stdout, JSON_INDENT(2)) < 0 || out_write("\n", 1) < 0)
		return EXIT_PROBLEM;
	return code;
}

int usage(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("vipctl: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputs("; see vipctl --help\n", stderr);
	return EXIT_USAGE;
}

int failed(int r, const struct err *err)
{
	(void)fprintf(stderr, "vipctl: %s\n", err->text);
	if (r == -ENODATA)
		return EXIT_PROBLEM;
	return r == -EINVAL ? EXIT_USAGE : EXIT_NO_VIPD;
}

/* --- status --- */

static int run_status(const struct command *cmd)
{
	struct str out = { 0 };
	struct err err;
	json_t *status;
	int code;
	int r;

	if (opt.n_args > 0)
		return usage("'%s': status takes no argument", opt.args[0]);
	(void)cmd;
	r = client_get_json(&status, &opt.client, "/v1/status", &err);
	if (r < 0)
		return failed(r, &err);
	code = status_is_well(status) ? EXIT_FINE : EXIT_PROBLEM;
	if (opt.output == OUTPUT_JSON) {
		code = out_json(status, code);
	} else {
		value_clean(status);
		show_status(&out, status, &opt.style, show_width());
		(void)out_write(str_text(&out), out.len);
	}
	str_fini(&out);
	json_decref(status);
	return code;
}

/* --- svc --- */

void query_add(struct str *target, const char *name, const char *value)
{
	if (value == NULL)
		return;
	str_printf(target, "%s%s=", strchr(target->text, '?') ? "&" : "?", name);
	client_encode(target, value);
}

/* A list in one array; 0 or a negative errno. */
static int list_get(json_t **ret, const char *name, const char *text, struct err *err)
{
	struct str target = { 0 };
	json_t *page;
	int r;

	str_puts(&target, "/v1/services?limit=all");
	query_add(&target, "namespace", opt.ns);
	query_add(&target, "name", name);
	query_add(&target, "q", text);
	query_add(&target, "state", opt.states);
	r = client_get_json(&page, &opt.client, target.text, err);
	str_fini(&target);
	if (r < 0)
		return r;
	*ret = json_incref(json_object_get(page, "items"));
	if (*ret == NULL)
		*ret = json_array();
	json_decref(page);
	return 0;
}

static int list_show(json_t *items)
{
	struct str out = { 0 };

	if (opt.output == OUTPUT_JSON) {
		json_t *json = json_pack("{s:i, s:O}", "api", CONTROL_API_VERSION, "items", items);
		int code = out_json(json, EXIT_FINE);

		json_decref(json);
		return code;
	}
	if (json_array_size(items) == 0) {
		(void)fputs("no services\n", stderr);
		return EXIT_FINE;
	}
	value_clean(items);
	show_services(&out, items, &opt.style, show_width());
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return EXIT_FINE;
}

static int page_show(const char *ns, const char *name)
{
	struct str target = { 0 };
	struct str out = { 0 };
	struct err err;
	json_t *page;
	int code = EXIT_FINE;
	int r;

	str_puts(&target, "/v1/services/");
	client_encode(&target, ns);
	str_puts(&target, "/");
	client_encode(&target, name);
	r = client_get_json(&page, &opt.client, target.text, &err);
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	if (opt.output == OUTPUT_JSON) {
		code = out_json(page, code);
	} else {
		value_clean(page);
		show_service(&out, page, &opt.style);
		(void)out_write(str_text(&out), out.len);
	}
	str_fini(&out);
	json_decref(page);
	return code;
}

/* The one that is meant, if it is one: alone, or the only one of exactly this name. */
static const json_t *meant(const json_t *items, const char *text)
{
	const json_t *found = NULL;
	size_t n = 0;

	if (json_array_size(items) == 1)
		return json_array_get(items, 0);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);

		if (strcmp(value_text(item, "name"), text) == 0) {
			found = item;
			n++;
		}
	}
	return n == 1 ? found : NULL;
}

/* Anything but NAMESPACE/NAME: look for it, show the page of what is meant, or the list. */
static int svc_search(const char *text)
{
	const json_t *one;
	struct err err;
	json_t *items;
	int code;
	int r = list_get(&items, NULL, text, &err);

	if (r < 0)
		return failed(r, &err);
	one = meant(items, text);
	if (json_array_size(items) == 0) {
		(void)fprintf(
			stderr,
			"vipctl: no service has '%s' in its name, as an address or as a pod\n",
			text);
		code = EXIT_PROBLEM;
	} else if (one != NULL) {
		code = page_show(value_text(one, "namespace"), value_text(one, "name"));
	} else {
		code = list_show(items);
	}
	json_decref(items);
	return code;
}

static int run_svc(const struct command *cmd)
{
	struct err err;
	json_t *items;
	const char *slash;
	char *ns;
	int code;
	int r;

	(void)cmd;
	if (opt.n_args > 1)
		return usage("'%s': svc takes one argument", opt.args[1]);
	if (opt.is_kernel)
		return run_svc_kernel(&opt);
	if (opt.n_args == 0) {
		r = list_get(&items, NULL, NULL, &err);
		if (r < 0)
			return failed(r, &err);
		code = list_show(items);
		json_decref(items);
		return code;
	}
	slash = strchr(opt.args[0], '/');
	if (slash == NULL || opt.states != NULL)
		return svc_search(opt.args[0]);
	ns = xstrndup(opt.args[0], (size_t)(slash - opt.args[0]));
	if (opt.ns != NULL && strcmp(opt.ns, ns) != 0)
		code = usage("'%s' names another namespace than -n", opt.args[0]);
	else
		code = page_show(ns, slash + 1);
	free(ns);
	return code;
}

static int run_diff_command(const struct command *cmd)
{
	(void)cmd;
	return run_diff(&opt);
}

static int run_monitor_command(const struct command *cmd)
{
	(void)cmd;
	return run_monitor(&opt);
}

static int run_drain_command(const struct command *cmd)
{
	return strcmp(cmd->name, "drain") == 0 ? run_drain(&opt) : run_undrain(&opt);
}

/* --- trace --- */

static int trace_show(json_t *trace)
{
	int code = trace_is_balanced(trace) ? EXIT_FINE : EXIT_PROBLEM;
	struct str out = { 0 };

	if (opt.output == OUTPUT_JSON)
		return out_json(trace, code);
	value_clean(trace);
	if (value_has(trace, "problem"))
		(void)fprintf(stderr, "vipctl: %s\n", value_text(trace, "problem"));
	else
		show_trace(&out, trace, &opt.style, show_width(),
			   opt.n_args > 2 ? opt.args[2] : NULL);
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return code;
}

static int run_trace(const struct command *cmd)
{
	struct str target = { 0 };
	struct err err;
	json_t *trace;
	int code;
	int r;

	(void)cmd;
	if (opt.n_args < 2 || opt.n_args > 3)
		return usage(
			"trace takes two arguments, SRC and DST:PORT[/PROTO], and perhaps POD");
	str_puts(&target, "/v1/trace");
	query_add(&target, "from", opt.args[0]);
	query_add(&target, "to", opt.args[1]);
	r = client_get_json(&trace, &opt.client, target.text, &err);
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	code = trace_show(trace);
	json_decref(trace);
	return code;
}

/* --- dump --- */

static int sink_stdout(void *arg, const char *data, size_t len)
{
	(void)arg;
	return out_write(data, len);
}

static int run_dump(const struct command *cmd)
{
	struct str target = { 0 };
	struct err err = { 0 };
	int r;

	(void)cmd;
	if (opt.n_args > 1)
		return usage("'%s': dump takes one argument", opt.args[1]);
	str_puts(&target, "/v1/dump");
	query_add(&target, "namespace", opt.ns);
	if (opt.n_args == 1)
		query_add(&target, "q", opt.args[0]);
	r = client_get(&opt.client, target.text, sink_stdout, NULL, &err);
	str_fini(&target);
	return r == 0 || r == -EPIPE ? EXIT_FINE : failed(r, &err);
}

/* --- doctor, log --- */

/* The answer as it is wanted. Ends with `code`, unless it cannot be written. */
static int answer_show(json_t *answer, int code,
		       void (*show)(struct str *out, const json_t *answer,
				    const struct style *style))
{
	struct str out = { 0 };

	if (opt.output == OUTPUT_JSON)
		return out_json(answer, code);
	value_clean(answer);
	show(&out, answer, &opt.style);
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return code;
}

static int run_doctor(const struct command *cmd)
{
	json_t *answer;
	int code;

	(void)cmd;
	if (opt.n_args > 0)
		return usage("'%s': doctor takes no argument", opt.args[0]);
	doctor_ask(&answer, &opt.client);
	code = answer_show(answer, (int)doctor_exit(answer), show_doctor);
	json_decref(answer);
	return code;
}

static int run_log(const struct command *cmd)
{
	struct str target = { 0 };
	struct err err;
	json_t *answer;
	int code;
	int r;

	(void)cmd;
	if (opt.n_args != 0 && opt.n_args != 2)
		return usage("log takes no argument, or AREA and LEVEL");
	str_puts(&target, "/v1/log");
	if (opt.n_args == 2) {
		query_add(&target, "area", opt.args[0]);
		query_add(&target, "level", opt.args[1]);
		r = client_put_json(&answer, &opt.client, target.text, &err);
	} else {
		r = client_get_json(&answer, &opt.client, target.text, &err);
	}
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	code = answer_show(answer, EXIT_FINE, show_log);
	json_decref(answer);
	return code;
}

/* --- the command line --- */

static const struct command commands[] = {
	{ "status", "", "is vipd well, what did it do, what does it owe", "",
	  "  Ends with 1 when there is something to complain about: services that the\n"
	  "  kernel refused, objects that cannot be read, conflicts. -o wide adds totals and\n"
	  "  the options in force.\n",
	  run_status },
	{ "svc", "[WHAT]", "where addresses lead, and why not to a certain pod", "nsk",
	  "  Without WHAT: one line a service port. POOL tells backends in the kernel / known\n"
	  "  endpoints: 3/5; L marks a pool of this node's endpoints only: 1L/5.\n"
	  "  WHAT is NAMESPACE/NAME, or a part of it, an address with or without a port (of a\n"
	  "  VIP, a node port, an endpoint), or the name of a pod. If it means one service,\n"
	  "  its page is shown: frontends, pools, and every endpoint with its slot or the\n"
	  "  reason it has none.\n"
	  "  --state LIST shows services in these states: ok, rejecting, dropping, conflict,\n"
	  "  pending, refused, not-proxied, no-service.\n"
	  "  --kernel reads what the kernel holds, without vipd: one line a frontend, with WHAT\n"
	  "  those that contain it.\n",
	  run_svc },
	{ "diff", "", "what the kernel holds against what it shall hold", "",
	  "  Reads the kernel by itself and compares with what vipd says it acknowledged. Prints\n"
	  "  nothing and ends with 0 when all is well, else 1.\n",
	  run_diff_command },
	{ "monitor", "", "what happens, while it happens", "mK",
	  "  One line for every object that comes or goes, and for what the kernel took for it:\n"
	  "  the operations, and how long after the event. Until it is interrupted.\n"
	  "  --service NAMESPACE/NAME: only of that service. --kind LIST: only these: service,\n"
	  "  endpointslice, node, servicecidr, addresses, sync, refused, kernel. -o json prints\n"
	  "  a line of JSON an event. Who is too slow is told how many events were lost.\n",
	  run_monitor_command },
	{ "drain", "[NS/NAME ENDPOINT]", "take an endpoint out of a service, until undone", "",
	  "  ENDPOINT is a pod's name or an address. It gets no new connections, on this node; those\n"
	  "  that stand go on. It stays so over restarts of vipd, until `undrain`, and is listed\n"
	  "  without arguments.\n",
	  run_drain_command },
	{ "undrain", "NS/NAME ENDPOINT", "let a drained endpoint serve again", "", "",
	  run_drain_command },
	{ "trace", "SRC DST:PORT [POD]", "where a connection would go, step by step, and why", "",
	  "  SRC is an address, the name of a pod, or `host`. DST:PORT is ADDRESS:PORT[/PROTOCOL]\n"
	  "  (udp, sctp; else tcp), or NAMESPACE/NAME[:PORT] for the service's cluster IP. Told\n"
	  "  from what the objects say, without a packet; with POD (or its address) only that\n"
	  "  endpoint is shown. Ends with 1 when no endpoint would be reached.\n",
	  run_trace },
	{ "dump", "[WHAT]", "everything as JSON, without times: for tests and reports", "n",
	  "  WHAT as for svc. Two dumps of the same state are the same bytes.\n", run_dump },
	{ "doctor", "", "is this node fit for a service proxy, and what to do if not", "",
	  "  vipd looks again at the kernel's features and settings, at other owners of the\n"
	  "  same addresses, at the clock and at its own limits. Where no vipd answers, vipctl\n"
	  "  looks itself. Ends with 0 when there are at most notes, 1 when there are\n"
	  "  warnings, 2 when there are errors.\n",
	  run_doctor },
	{ "log", "[AREA LEVEL]", "levels of vipd's log, and changing them while it runs", "",
	  "  AREA is one of those that are listed, or all; LEVEL is error, warn, notice, info\n"
	  "  or debug. HELD-BACK counts lines that were not written because they repeat.\n"
	  "  The next start begins with what the flags say (-v, --vmodule, --log-level).\n",
	  run_log },
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },  { "namespace", required_argument, NULL, 'n' },
	{ "state", required_argument, NULL, 's' },   { "kernel", no_argument, NULL, 'k' },
	{ "service", required_argument, NULL, 'm' }, { "kind", required_argument, NULL, 'K' },
	{ "socket", required_argument, NULL, 'S' },  { "timeout", required_argument, NULL, 't' },
	{ "color", required_argument, NULL, 'c' },   { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },       { NULL, 0, NULL, 0 },
};

static void help_options(void)
{
	(void)printf("\nOptions:\n"
		     "  -o, --output FORMAT   table, wide or json\n"
		     "  -n, --namespace NAME  only services of this namespace\n"
		     "      --state LIST      svc: only services in these states\n"
		     "      --kernel          svc: what the kernel holds, without vipd\n"
		     "      --service NS/NAME monitor: only of this service\n"
		     "      --kind LIST       monitor: only such events\n"
		     "      --socket PATH     of vipd's control socket (%s)\n"
		     "      --timeout SECONDS without progress until vipctl gives up (%d)\n"
		     "      --color WHEN      auto, always or never; NO_COLOR is honoured\n"
		     "  -h, --help            also for a single command\n"
		     "      --version\n"
		     "\nExit code: 0 fine, 1 not found or a problem, 2 usage, 3 vipd cannot be "
		     "reached.\n",
		     CONTROL_SOCKET_PATH, TIMEOUT_MS_DEFAULT / 1000);
}

static int help(const struct command *cmd)
{
	if (cmd != NULL) {
		(void)printf("Usage: vipctl %s%s%s [OPTIONS]\n\n  %s\n\n%s", cmd->name,
			     *cmd->args ? " " : "", cmd->args, cmd->summary, cmd->help);
	} else {
		(void)printf(
			"Usage: vipctl COMMAND [OPTIONS]\n\n"
			"Asks the vipd of this node; only log and drain change anything.\n\nCommands:\n");
		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			(void)printf("  %-7s %-19s %s\n", commands[i].name, commands[i].args,
				     commands[i].summary);
	}
	help_options();
	return EXIT_FINE;
}

static int output_parse(const char *text)
{
	if (strcmp(text, "table") == 0)
		opt.output = OUTPUT_TABLE;
	else if (strcmp(text, "wide") == 0)
		opt.output = OUTPUT_WIDE;
	else if (strcmp(text, "json") == 0)
		opt.output = OUTPUT_JSON;
	else
		return usage("'%s': -o takes table, wide or json", text);
	return 0;
}

static int timeout_parse(const char *text)
{
	char *end;
	unsigned long s = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0' || s < 1 || s > 3600)
		return usage("'%s': --timeout takes seconds, 1 to 3600", text);
	opt.client.timeout_ms = (unsigned int)s * 1000;
	return 0;
}

static int colour_parse(const char *text)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "always") != 0 && strcmp(text, "never") != 0)
		return usage("'%s': --color takes auto, always or never", text);
	opt.colour = text;
	return 0;
}

/* One option; 0, or the exit code. */
static int option_take(int c)
{
	switch (c) {
	case 'o':
		return output_parse(optarg);
	case 'n':
		opt.ns = optarg;
		return 0;
	case 's':
		opt.states = optarg;
		return 0;
	case 'm':
		opt.service = optarg;
		return 0;
	case 'K':
		opt.kinds = optarg;
		return 0;
	case 'k':
		opt.is_kernel = true;
		return 0;
	case 'S':
		opt.client.path = optarg;
		return 0;
	case 't':
		return timeout_parse(optarg);
	case 'c':
		return colour_parse(optarg);
	default: /* getopt has named it already */
		(void)fputs("See vipctl --help\n", stderr);
		return EXIT_USAGE;
	}
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int command_main(int argc, char **argv)
{
	const struct command *cmd;
	bool wants_help = false;
	int c;

	while ((c = getopt_long(argc, argv, "o:n:h", long_options, NULL)) != -1) {
		int code = 0;

		if (c == 'V') {
			(void)printf("vipctl %s, control API %d\n", VIPD_VERSION,
				     CONTROL_API_VERSION);
			return EXIT_FINE;
		}
		if (c == 'h')
			wants_help = true;
		else
			code = option_take(c);
		if (code != 0)
			return code;
	}
	if (optind == argc) {
		if (wants_help)
			return help(NULL);
		return usage("a command is missing");
	}
	cmd = command_find(argv[optind]);
	if (cmd == NULL)
		return usage("there is no command '%s'", argv[optind]);
	if (wants_help)
		return help(cmd);
	if (opt.ns != NULL && strchr(cmd->options, 'n') == NULL)
		return usage("-n has no meaning for %s", cmd->name);
	if (opt.states != NULL && strchr(cmd->options, 's') == NULL)
		return usage("--state has no meaning for %s", cmd->name);
	if (opt.service != NULL && strchr(cmd->options, 'm') == NULL)
		return usage("--service has no meaning for %s", cmd->name);
	if (opt.kinds != NULL && strchr(cmd->options, 'K') == NULL)
		return usage("--kind has no meaning for %s", cmd->name);
	if (opt.is_kernel && strchr(cmd->options, 'k') == NULL)
		return usage("--kernel has no meaning for %s", cmd->name);
	opt.n_args = argc - optind - 1;
	opt.args = argv + optind + 1;
	style_decide();
	return out_finish(cmd->run(cmd));
}
