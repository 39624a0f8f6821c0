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
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/control.h"
#include "ctl/client.h"
#include "ctl/manual.h"
#include "ctl/run.h"
#include "ctl/show.h"
#include "ctl/yaml.h"

#define TIMEOUT_MS_DEFAULT 10000
#define WATCH_S_DEFAULT 2
#define LIVE_S_DEFAULT 10

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
	struct str out = { 0 };
	int r = 0;

	if (opt.is_yaml) {
		yaml_print(&out, json);
		r = out_write(str_text(&out), out.len);
		str_fini(&out);
		return r < 0 ? EXIT_PROBLEM : code;
	}
	if (json_dumpf(json, stdout, JSON_INDENT(2)) < 0 || out_write("\n", 1) < 0)
		return EXIT_PROBLEM;
	return code;
}

/* On standard error: standard output has answers only. */
static int error_print(int code, const char *text, const char *hint)
{
	char *clean = str_clean(xstrdup(text)); /* it quotes words that need not be UTF-8 */
	json_t *json;

	if (opt.output != OUTPUT_JSON || opt.is_yaml) {
		(void)fprintf(stderr, "vipctl: %s%s\n", clean, hint);
	} else {
		json = json_pack("{s:i, s:{s:s, s:i}}", "api", CONTROL_API_VERSION, "error", "text",
				 clean, "exit_code", code);
		(void)json_dumpf(json, stderr, JSON_COMPACT);
		(void)fputs("\n", stderr);
		json_decref(json);
	}
	free(clean);
	return code;
}

int complain(int code, const char *fmt, ...)
{
	struct err text;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text.text, sizeof(text.text), fmt, ap);
	va_end(ap);
	return error_print(code, text.text, "");
}

int usage(const char *fmt, ...)
{
	struct err text;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text.text, sizeof(text.text), fmt, ap);
	va_end(ap);
	return error_print(EXIT_USAGE, text.text, "; see vipctl --help");
}

int failed(int r, const struct err *err)
{
	if (r == -ENODATA)
		return error_print(EXIT_PROBLEM, err->text, "");
	return error_print(r == -EINVAL ? EXIT_USAGE : EXIT_NO_VIPD, err->text, "");
}

/* --- typing mistakes --- */

#define WORD_MAX 32

/* Letters to insert, remove or replace; two that changed places count as one. */
static size_t distance(const char *a, const char *b)
{
	uint8_t d[WORD_MAX + 1][WORD_MAX + 1];
	size_t n = strlen(a);
	size_t m = strlen(b);

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			size_t best = i + j;

			if (i > 0 && j > 0)
				best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (i > 0)
				best = MIN(best, (size_t)d[i - 1][j] + 1);
			if (j > 0)
				best = MIN(best, (size_t)d[i][j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, (size_t)d[i - 2][j - 2] + 1);
			d[i][j] = (uint8_t)best;
		}
	return d[n][m];
}

struct guess {
	const char *best;
	size_t distance;
};

static void guess_try(struct guess *g, const char *typed, const char *word)
{
	size_t n = distance(typed, word);

	if (n < g->distance && n < strlen(word)) {
		g->distance = n;
		g->best = word;
	}
}

/* --- the command line --- */

static int run_completion(const struct run *run);

static const struct command commands[] = {
	{ "status", "", "is vipd well, what did it do, what does it owe", "w",
	  "  Ends with 1 when there is something to complain about: services that the\n"
	  "  kernel refused, objects that cannot be read, conflicts. -o wide adds totals and\n"
	  "  the options in force.\n",
	  run_status },
	{ "svc", "[WHAT]", "where addresses lead, and why not to a certain pod", "nskwD",
	  "  Without WHAT: one line a service port. POOL tells backends in the kernel / known\n"
	  "  endpoints: 3/5; L marks a pool of this node's endpoints only: 1L/5.\n"
	  "  WHAT is NAMESPACE/NAME, or a part of it, an address with or without a port (of a\n"
	  "  VIP, a node port, an endpoint), or the name of a pod. If it means one service,\n"
	  "  its page is shown: frontends, pools, and every endpoint with its slot or the\n"
	  "  reason it has none.\n"
	  "  --state LIST shows services in these states: ok, no-endpoints, dropping, conflict,\n"
	  "  pending, rejected, not-proxied, no-service.\n"
	  "  --kernel reads what the kernel holds, without vipd: one line a frontend, with WHAT\n"
	  "  those that contain it. Of the ipvs plane, if its table is there or --plane says so, also\n"
	  "  the rules of policy routing, and virtual services that no frontend leads to.\n",
	  run_svc },
	{ "diff", "", "what the kernel holds against what it shall hold", "wMNAID",
	  "  Reads the kernel by itself and compares with what vipd says it acknowledged. Prints\n"
	  "  nothing and ends with 0 when all is well, else 1. With --manifests no vipd is asked:\n"
	  "  what it would make of the folder is compared. On the ipvs plane backends that leave are\n"
	  "  no difference; weights, schedulers, affinity and policy routing are compared as well.\n",
	  run_diff },
	{ "monitor", "", "what happens, while it happens", "SK",
	  "  One line for every object that comes or goes, and for what the kernel took for it:\n"
	  "  the operations, and how long after the event. Until it is interrupted.\n"
	  "  --service NAMESPACE/NAME: only of that service. --kind LIST: only these: service,\n"
	  "  endpointslice, node, servicecidr, addresses, sync, rejected, kernel. -o json prints\n"
	  "  a line of JSON an event. Who is too slow is told how many events were lost.\n",
	  run_monitor },
	{ "top", "", "the busiest services and endpoints, and the sync", "w",
	  "  Connections a second, asked for and refused, as far as the kernel counts them\n"
	  "  (vipd --metrics-per-service). Keys: r t x n sort by rate, total, refused, name; e\n"
	  "  shows endpoints; arrows and pages; q ends. --watch=SECONDS is the period. Not on a\n"
	  "  terminal, it shows one second, once.\n",
	  run_top },
	{ "drain", "[NS/NAME ENDPOINT]", "take an endpoint out of a service, until undone", "",
	  "  ENDPOINT is a pod's name or an address. It gets no new connections, on this node; those\n"
	  "  that stand go on. It stays so over restarts of vipd, until `undrain`, and is listed\n"
	  "  without arguments.\n",
	  run_drain },
	{ "undrain", "NS/NAME ENDPOINT", "let a drained endpoint serve again", "", "",
	  run_undrain },
	{ "trace", "SRC DST:PORT [POD]", "where a connection would go, step by step, and why", "wL",
	  "  SRC is an address, the name of a pod, or `host`. DST:PORT is ADDRESS:PORT[/PROTOCOL]\n"
	  "  (udp, sctp; else tcp), or NAMESPACE/NAME[:PORT] for the service's cluster IP. Told\n"
	  "  from what the objects say, without a packet; with POD (or its address) only that\n"
	  "  endpoint is shown. Ends with 1 when no endpoint would be reached. --live then follows\n"
	  "  the first packets of new connections of this flow through the kernel's rules, for\n"
	  "  10 seconds and 10 connections at most: in this network namespace, by a table of its\n"
	  "  own that goes with vipctl, however that ends.\n",
	  run_trace },
	{ "dump", "[WHAT]", "everything as JSON, without times: for tests and reports", "nBD",
	  "  WHAT as for svc. Two dumps of the same state are the same bytes. --bundle: what vipd\n"
	  "  says of itself, of this node and of every service, and what the kernel holds, as one\n"
	  "  JSON object for somebody who helps; there are no secrets in it.\n",
	  run_dump },
	{ "doctor", "", "is this node fit for a service proxy, and what to do if not", "D",
	  "  vipd looks again at the kernel's features and settings, at other owners of the\n"
	  "  same addresses, at the clock and at its own limits. Where no vipd answers, vipctl\n"
	  "  looks itself; so it does with --plane for another plane than vipd's: would this node be\n"
	  "  fit for it? Ends with 0 when there are at most notes, 1 when there are\n"
	  "  warnings, 2 when there are errors.\n",
	  run_doctor },
	{ "log", "[AREA LEVEL]", "levels of vipd's log, and changing them while it runs", "",
	  "  AREA is one of those that are listed, or all; LEVEL is error, warn, notice, info\n"
	  "  or debug. HELD-BACK counts lines that were not written because they repeat.\n"
	  "  The next start begins with what the flags say (-v, --vmodule, --log-level).\n",
	  run_log },
	{ "completion", "SHELL", "a script that completes for bash, zsh or fish", "",
	  "  To be read by the shell: source <(vipctl completion bash)\n", run_completion },
	{ 0 },
};

static const struct ctl_option options[] = {
	{ "output", 'o', "FORMAT", CTL_OPTION_COMMON, "table, wide, json, yaml, or name (svc)",
	  "table wide json yaml name" },
	{ "namespace", 'n', "NAME", CTL_OPTION_SOME, "only services of this namespace", NULL },
	{ "state", 's', "LIST", CTL_OPTION_SOME, "only services in these states",
	  "ok no-endpoints dropping conflict pending rejected not-proxied no-service" },
	{ "kernel", 'k', NULL, CTL_OPTION_SOME, "what the kernel holds, without vipd", NULL },
	{ "live", 'L', "[=SECONDS]", CTL_OPTION_SOME, "and what happens to real packets, 10 s",
	  NULL },
	{ "bundle", 'B', NULL, CTL_OPTION_SOME, "all there is to be told, for who helps", NULL },
	{ "manifests", 'M', "DIR", CTL_OPTION_SOME, "compare with what this folder says", NULL },
	{ "node", 'N', "NAME", CTL_OPTION_SOME, "of this node, with --manifests", NULL },
	{ "nodeport-addresses", 'A', "LIST", CTL_OPTION_SOME, "as vipd has it, with --manifests",
	  NULL },
	{ "ipvs-scheduler", 'I', "NAME", CTL_OPTION_SOME,
	  "as vipd has it, with --manifests on the ipvs plane; rr", NULL },
	{ "plane", 'D', "NAME", CTL_OPTION_SOME,
	  "nftables or ipvs; unless said, the one whose tables the kernel holds", "nftables ipvs" },
	{ "service", 'S', "NS/NAME", CTL_OPTION_SOME, "only of this service", NULL },
	{ "kind", 'K', "LIST", CTL_OPTION_SOME, "only such events",
	  "service endpointslice node servicecidr addresses sync rejected kernel" },
	{ "watch", 'w', "[=SECONDS]", CTL_OPTION_SOME, "again and again, every 2 s", NULL },
	{ "socket", 'P', "PATH", CTL_OPTION_COMMON, "of vipd's control socket; else $VIPCTL_SOCKET",
	  NULL },
	{ "timeout", 'T', "SECONDS", CTL_OPTION_COMMON,
	  "without progress until vipctl gives up, 10", NULL },
	{ "color", 'C', "WHEN", CTL_OPTION_COMMON, "auto, always or never; NO_COLOR is honoured",
	  "auto always never" },
	{ "help", 'h', "[=man]", CTL_OPTION_COMMON, "also for a single command", NULL },
	{ "version", 'V', NULL, CTL_OPTION_COMMON, "of vipctl and of the control API", NULL },
	{ 0 },
};
#define OPTIONS_N (ARRAY_SIZE(options) - 1)

static const struct ctl_option *option_of(int letter)
{
	for (const struct ctl_option *o = options; o->name != NULL; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

/* What getopt_long() wants; `short_text` has room for a letter and two colons each. */
static void options_for_getopt(struct option long_options[static OPTIONS_N + 1],
			       char short_text[static 3 * OPTIONS_N + 2])
{
	char *p = short_text;

	*p++ = ':'; /* a missing argument is told apart */
	for (size_t i = 0; i < OPTIONS_N; i++) {
		const struct ctl_option *o = &options[i];
		int has_arg = o->arg == NULL   ? no_argument
			      : *o->arg == '[' ? optional_argument
					       : required_argument;

		long_options[i] = (struct option){ o->name, has_arg, NULL, o->letter };
		if (o->letter < 'a')
			continue;
		*p++ = o->letter;
		if (has_arg == required_argument)
			*p++ = ':';
	}
	*p = '\0';
	long_options[OPTIONS_N] = (struct option){ 0 };
}

static int print(struct str *text, int code)
{
	(void)out_write(str_text(text), text->len);
	str_fini(text);
	return code;
}

static int run_completion(const struct run *run)
{
	struct str out = { 0 };

	if (run->n_args != 1 || manual_completion(&out, run->args[0], commands, options) < 0)
		return usage("completion takes bash, zsh or fish");
	return print(&out, EXIT_FINE);
}

/* `how`: NULL, or "man". */
static int help(const struct command *cmd, const char *how)
{
	struct str out = { 0 };

	if (how != NULL && strcmp(how, "man") != 0)
		return usage("'%s': --help takes nothing, or =man", how);
	if (how != NULL)
		manual_man(&out, commands, options);
	else if (cmd != NULL)
		manual_help_command(&out, cmd, options);
	else
		manual_help(&out, commands, options);
	return print(&out, EXIT_FINE);
}

static int output_parse(const char *text)
{
	static const struct {
		const char *text;
		enum output output;
		bool is_yaml;
	} outputs[] = { { "table", OUTPUT_TABLE, false },
			{ "wide", OUTPUT_WIDE, false },
			{ "json", OUTPUT_JSON, false },
			{ "yaml", OUTPUT_JSON, true },
			{ "name", OUTPUT_NAME, false } };

	for (size_t i = 0; i < ARRAY_SIZE(outputs); i++)
		if (strcmp(text, outputs[i].text) == 0) {
			opt.output = outputs[i].output;
			opt.is_yaml = outputs[i].is_yaml;
			return 0;
		}
	return usage("'%s': -o takes table, wide, json, yaml or name", text);
}

static int seconds_parse(unsigned int *ret, const char *name, const char *text)
{
	char *end;
	unsigned long s = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0' || s < 1 || s > 3600)
		return usage("'%s': --%s takes seconds, 1 to 3600", text, name);
	*ret = (unsigned int)s;
	return 0;
}

static int timeout_parse(const char *text)
{
	unsigned int s;
	int code = seconds_parse(&s, "timeout", text);

	if (code == 0)
		opt.client.timeout_ms = s * 1000;
	return code;
}

static int colour_parse(const char *text)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "always") != 0 && strcmp(text, "never") != 0)
		return usage("'%s': --color takes auto, always or never", text);
	opt.colour = text;
	return 0;
}

static int plane_parse(const char *text)
{
	if (strcmp(text, "nftables") != 0 && strcmp(text, "ipvs") != 0)
		return usage("'%s': --plane takes nftables or ipvs", text);
	opt.plane = text;
	return 0;
}

/* What getopt_long() could not use; `word` is the last one that it is done with. */
static int option_bad(int c, const char *word)
{
	struct guess g = { .distance = 3 };
	char name[WORD_MAX];

	if (c == ':')
		return usage("option '%s' wants an argument", word);
	if (optopt != 0 && option_of(optopt) == NULL) /* a letter, maybe of the next word */
		return usage("there is no option '-%c'", optopt);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	if (optopt != 0)
		return usage("option '--%s' takes no argument", name);
	for (const struct ctl_option *o = options; o->name != NULL; o++)
		guess_try(&g, name, o->name);
	if (g.best != NULL)
		return usage("there is no option '--%s' (did you mean '--%s'?)", name, g.best);
	return usage("there is no option '--%s'", name);
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
	case 'S':
		opt.service = optarg;
		return 0;
	case 'K':
		opt.kinds = optarg;
		return 0;
	case 'k':
		opt.is_kernel = true;
		return 0;
	case 'M':
		opt.manifests = optarg;
		return 0;
	case 'N':
		opt.node = optarg;
		return 0;
	case 'A':
		opt.nodeport_addresses = optarg;
		return 0;
	case 'I':
		opt.ipvs_scheduler = optarg;
		return 0;
	case 'D':
		return plane_parse(optarg);
	case 'L':
		opt.live_s = LIVE_S_DEFAULT;
		return optarg != NULL ? seconds_parse(&opt.live_s, "live", optarg) : 0;
	case 'B':
		opt.is_bundle = true;
		return 0;
	case 'w':
		opt.watch_s = WATCH_S_DEFAULT;
		return optarg != NULL ? seconds_parse(&opt.watch_s, "watch", optarg) : 0;
	case 'P':
		opt.client.path = optarg;
		return 0;
	case 'T':
		return timeout_parse(optarg);
	case 'C':
		return colour_parse(optarg);
	default:
		return 0;
	}
}

static int command_unknown(const char *name)
{
	struct guess g = { .distance = 3 };

	for (const struct command *c = commands; c->name != NULL; c++)
		guess_try(&g, name, c->name);
	if (g.best != NULL)
		return usage("there is no command '%s' (did you mean '%s'?)", name, g.best);
	return usage("there is no command '%s'", name);
}

static const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* What was said on the command line beside the words. */
struct said {
	bool is_given[UCHAR_MAX + 1]; /* by letter */
	bool wants_help;
	const char *help_how;
};

/* -w=1 is --watch=1: getopt would take the letters one by one. */
static void assignments_expand(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const struct ctl_option *o =
			argv[i][0] == '-' && argv[i][1] >= 'a' && argv[i][2] == '='
				? option_of(argv[i][1])
				: NULL;
		struct str text = { 0 };

		if (o == NULL || o->arg == NULL || *o->arg != '[')
			continue;
		str_printf(&text, "--%s%s", o->name, argv[i] + 2);
		argv[i] = text.text; /* as long as the process */
	}
}

/* -o json counts for errors before it, too. */
static void output_foresee(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "-ojson") == 0 || strcmp(argv[i], "--output=json") == 0 ||
		    ((strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0) &&
		     strcmp(next, "json") == 0))
			opt.output = OUTPUT_JSON;
	}
}

static int options_parse(struct said *said, int argc, char **argv)
{
	struct option long_options[OPTIONS_N + 1];
	char short_text[3 * OPTIONS_N + 2];
	int code = 0;
	int c;

	options_for_getopt(long_options, short_text);
	assignments_expand(argc, argv);
	output_foresee(argc, argv);
	opterr = 0;
	while (code == 0 && (c = getopt_long(argc, argv, short_text, long_options, NULL)) != -1) {
		if (c == '?' || c == ':')
			return option_bad(c, argv[optind - 1]);
		said->is_given[(unsigned char)c] = true;
		if (c == 'h') {
			said->wants_help = true;
			said->help_how = optarg;
		} else if (c != 'V') {
			code = option_take(c);
		}
	}
	return code;
}

static int options_check(const struct said *said, const struct command *cmd)
{
	for (int c = 0; c <= UCHAR_MAX; c++) {
		const struct ctl_option *o = said->is_given[c] ? option_of(c) : NULL;

		if (o != NULL && !manual_takes(cmd, o))
			return usage("--%s has no meaning for %s", o->name, cmd->name);
	}
	if (opt.output == OUTPUT_NAME && strcmp(cmd->name, "svc") != 0)
		return usage("-o name has no meaning for %s", cmd->name);
	return 0;
}

/* Until it is interrupted, or nobody reads any more. */
static int watch(const struct command *cmd)
{
	const struct timespec pause = { opt.watch_s, 0 };
	int code;

	do {
		if (opt.style.width > 0)
			(void)fputs("\033[H\033[2J", stdout);
		code = cmd->run(&opt);
		if (opt.style.width == 0)
			(void)fputs("\n", stdout);
	} while (fflush(stdout) == 0 && nanosleep(&pause, NULL) == 0);
	return code;
}

int command_main(int argc, char **argv)
{
	const struct command *cmd;
	struct said said = { 0 };
	const char *socket = getenv("VIPCTL_SOCKET");
	int code;

	if (socket != NULL && *socket != '\0')
		opt.client.path = socket;
	code = options_parse(&said, argc, argv);

	if (code != 0)
		return code;
	if (said.is_given['V']) {
		(void)printf("vipctl %s, control API %d\n", VIPD_VERSION, CONTROL_API_VERSION);
		return EXIT_FINE;
	}
	if (optind == argc)
		return said.wants_help ? help(NULL, said.help_how) : usage("a command is missing");
	cmd = command_find(argv[optind]);
	if (cmd == NULL)
		return command_unknown(argv[optind]);
	if (said.wants_help)
		return help(cmd, said.help_how);
	code = options_check(&said, cmd);
	if (code != 0)
		return code;
	opt.n_args = argc - optind - 1;
	opt.args = argv + optind + 1;
	style_decide();
	return out_finish(opt.watch_s > 0 && cmd->run != run_top ? watch(cmd) : cmd->run(&opt));
}
