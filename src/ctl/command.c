/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/command - vipctl's tables of commands and options.
 *
 * Options may be anywhere on the command line. An option that the command does not take is an
 * error.
 */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/control.h"
#include "ctl/run.h"
#include "settings/yaml.h"

#define TIMEOUT_S_DEFAULT 10

enum colour {
	COLOUR_AUTO = 0,
	COLOUR_ALWAYS,
	COLOUR_NEVER,
};

/* The command line. */
struct line {
	struct run run;
	enum colour colour;
	unsigned int timeout_s;
	bool needs_version;
	bool needs_help;
};

/* The only state of the process. */
static struct line line = { .run.client.path = CONTROL_SOCKET_PATH };
static int out_error; /* errno of the first failure to write to standard output; 0: none */

/* --- output --- */

static void style_decide(void)
{
	struct style *style = &line.run.style;
	struct winsize size = { 0 };
	bool is_terminal = isatty(STDOUT_FILENO);
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	style->is_wide = line.run.output == OUTPUT_WIDE;
	(void)setlocale(LC_CTYPE, "");
	style->is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	if (line.colour == COLOUR_AUTO)
		style->has_colour = is_terminal && (no_colour == NULL || *no_colour == '\0') &&
				    term != NULL && strcmp(term, "dumb") != 0;
	else
		style->has_colour = line.colour == COLOUR_ALWAYS;
	if (is_terminal && !style->is_wide && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		style->width = size.ws_col;
}

/* stdio discards what it could not write: only the first failure is certain to be reported. */
static int out_failed(void)
{
	if (out_error == 0)
		out_error = errno;
	return -out_error;
}

int out_write(const char *data, size_t len)
{
	return fwrite(data, 1, len, stdout) == len ? 0 : out_failed();
}

int out_printf(const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vprintf(fmt, ap);
	va_end(ap);
	return n >= 0 ? 0 : out_failed();
}

int out_dump(const json_t *json, size_t flags)
{
	return json_dumpf(json, stdout, flags) == 0 ? 0 : out_failed();
}

int out_flush(void)
{
	if (fflush(stdout) != 0)
		(void)out_failed();
	return -out_error;
}

static int out_finish(int code)
{
	int r = out_flush();

	if (r == 0 || r == -EPIPE)
		return code;
	(void)fprintf(stderr, "vipctl: standard output: %s\n", strerror(-r));
	return EXIT_PROBLEM;
}

int out_json(const json_t *json, int code)
{
	FINI(str_fini) struct str out = { 0 };

	if (line.run.is_yaml) {
		yaml_print(&out, json);
		(void)out_write(str_text(&out), out.len);
	} else {
		(void)out_dump(json, JSON_INDENT(2));
		(void)out_write("\n", 1);
	}
	return code;
}

int out_text(struct str *out, int code)
{
	(void)out_write(str_text(out), out->len);
	str_fini(out);
	return code;
}

/* Errors go to standard error, answers to standard output. */
int error_print(int code, const char *hint, const char *fmt, ...)
{
	json_auto_t *json = NULL;
	struct err text;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text.text, sizeof(text.text), fmt, ap);
	va_end(ap);
	(void)str_clean(text.text); /* may quote arguments that are not UTF-8 */
	if (line.run.output != OUTPUT_JSON || line.run.is_yaml) {
		(void)fprintf(stderr, "vipctl: %s%s\n", text.text, hint);
	} else {
		json = json_pack("{s:i, s:{s:s, s:i}}", "api", CONTROL_API_VERSION, "error", "text",
				 text.text, "exit_code", code);
		(void)json_dumpf(json, stderr, JSON_COMPACT);
		(void)fputs("\n", stderr);
	}
	return code;
}

int failed(int r, const struct err *err)
{
	if (out_error != 0) /* the cause of `r`; out_finish() reports it */
		return EXIT_FINE;
	if (r == -ENODATA)
		return complain(EXIT_PROBLEM, "%s", err->text);
	if (r == -EPERM) /* the kernel; the control socket returns EACCES */
		return error_print(EXIT_PROBLEM, "; run as root or with CAP_NET_ADMIN", "%s",
				   err->text);
	return complain(r == -EINVAL ? EXIT_USAGE : EXIT_NO_VIPD, "%s", err->text);
}

int not_vipd(int r)
{
	return r >= 0 || r == -EPERM ? r : -ENODATA;
}

/* --- commands and options --- */

static int run_completion(const struct run *run);

#define FORMATS "table wide json yaml"

static const struct cli_command commands[] = {
	{ "status", "", "state of vipd and of its syncs", "w",
	  "  Exit code 1 before the first sync, or if the output has PROBLEMS. -o wide adds\n"
	  "  totals and the effective options.\n",
	  .values = FORMATS, .run = run_status },
	{ "svc", "[WHAT]", "services: addresses, endpoints, reasons", "nskwD",
	  "  Without WHAT: one line per service port. POOL shows backends in the kernel / known\n"
	  "  endpoints: 3/5; L marks a pool of this node's endpoints only: 1L/5.\n"
	  "  WHAT is NAMESPACE/NAME or a part of it, ADDRESS[:PORT][/PROTOCOL] (of a VIP, a node\n"
	  "  port, an endpoint), or the name of a pod. If one service matches, the output has its\n"
	  "  frontends, pools, and every endpoint of slices that have the port, with its slot or the\n"
	  "  reason why it is not used. Exit code 1 if that is not the given NAMESPACE/NAME; -o json\n"
	  "  then prints only an error, and -o name the match.\n"
	  "  --state LIST shows services in these states: ok, no-endpoints, dropping, conflict,\n"
	  "  pending, rejected, not-proxied, no-service.\n"
	  "  --kernel reads the kernel, without vipd: one line per frontend; with WHAT, frontends\n"
	  "  that contain it. On the ipvs plane, if its table exists or --plane selects it, also the\n"
	  "  rules of policy routing, and virtual services without a frontend.\n",
	  .words = ":services", .values = "table wide json yaml name", .run = run_svc },
	{ "diff", "", "differences of kernel and programmed state", "wMNAOPGID",
	  "  Reads the kernel and compares it with the state that vipd has programmed. Without a\n"
	  "  difference it prints nothing and the exit code is 0, else 1. With --manifests the\n"
	  "  kernel is compared with the services in DIR, without vipd; endpoints that are drained\n"
	  "  (`vipctl drain`) or ejected are differences then. On the ipvs plane draining backends\n"
	  "  are no difference; weights, schedulers, affinity and policy routing are compared as\n"
	  "  well.\n",
	  .values = FORMATS, .run = run_diff },
	{ "monitor", "", "events as they occur", "SK",
	  "  One line for every object that is added, changed or removed, and for every sync: the\n"
	  "  kernel operations and their delay after the event. Runs until interrupted.\n"
	  "  --service NAMESPACE/NAME: this service only. --kind LIST: these kinds only: service,\n"
	  "  endpointslice, node, servicecidr, addresses, sync, rejected, kernel, silent, ejected.\n"
	  "  -o json prints one JSON object per line. A subscriber that is too slow gets the number\n"
	  "  of lost events.\n",
	  .values = "table json", .run = run_monitor },
	{ "top", "", "services by connection rate, and syncs", "w",
	  "  New and rejected connections per second, as counted by the kernel\n"
	  "  (vipd --metrics-per-service). Keys: r t x n sort by rate, total, rejected, name; e\n"
	  "  shows endpoints; arrows and page keys scroll; q quits. --watch=SECONDS sets the\n"
	  "  period. Without a terminal: one sample of one second. Scripts read /v1/counts.\n",
	  .values = "table", .run = run_top },
	{ "drain", "[NS/NAME ENDPOINT]", "no new connections to an endpoint", "",
	  "  ENDPOINT is a pod's name or an address. From this node it gets no new connections;\n"
	  "  established ones continue. It remains drained over restarts of vipd, until `undrain`.\n"
	  "  By its name only this pod is drained: another pod that the slices list with the address\n"
	  "  and port keeps them in use; drain the address then.\n"
	  "  Without arguments: list drained endpoints.\n",
	  .words = ":services", .values = FORMATS, .run = run_taken_out },
	{ "undrain", "NS/NAME ENDPOINT", "use a drained endpoint again", "",
	  "  ENDPOINT as for drain. Exit code 1 if it is not drained.\n", .words = ":services",
	  .values = FORMATS, .run = run_taken_out },
	{ "eject", "[NS/NAME ENDPOINT]", "like drain, until restart; at most half of all", "",
	  "  ENDPOINT is a pod's name or an address. From this node it gets no new connections until\n"
	  "  `admit` or a restart of vipd, but still counts as ready. At most half of the endpoints of\n"
	  "  a service can be ejected. Without arguments: list ejected endpoints, those that vipd\n"
	  "  ejected (--failover=eject) included.\n",
	  .words = ":services", .values = FORMATS, .run = run_taken_out },
	{ "admit", "NS/NAME ENDPOINT", "use an ejected endpoint again", "",
	  "  Also one that vipd ejected: it needs new failures to be ejected again.\n",
	  .words = ":services", .values = FORMATS, .run = run_taken_out },
	{ "trace", "SRC DST:PORT [POD]", "path of a connection, step by step", "wL",
	  "  SRC is an address, ADDRESS:PORT, the name of a pod, or `host`. DST:PORT is\n"
	  "  ADDRESS:PORT[/PROTOCOL] (udp, sctp; else tcp), or NAMESPACE/NAME[:PORT][/PROTOCOL] for\n"
	  "  the service's cluster IP (without PROTOCOL tcp, if the port has several). The result is\n"
	  "  computed from the objects, without a packet; with POD (or its address) only that\n"
	  "  endpoint is shown. Exit code 1 if no endpoint is reached. --live then follows the first\n"
	  "  packets of new connections of this flow through the kernel's rules, for SECONDS and at\n"
	  "  most 10 connections: in this network namespace, with a table of its own that the\n"
	  "  kernel removes when vipctl exits.\n",
	  .values = FORMATS, .run = run_trace },
	{ "dump", "[WHAT]", "all state as JSON, without times", "nBD",
	  "  WHAT as for svc. Two dumps of one state are equal, byte by byte. --bundle: the state of\n"
	  "  vipd, of this node, of every service and of the kernel, as one JSON object for support.\n"
	  "  It contains no secrets.\n",
	  .words = ":services", .values = "json", .run = run_dump },
	{ "doctor", "", "check this node, and list remedies", "D",
	  "  vipd checks features and settings of the kernel, other owners of service addresses, the\n"
	  "  clock and its resource limits. Without a running vipd, or with --plane for the plane that\n"
	  "  vipd does not use, vipctl makes the checks.\n",
	  .values = FORMATS, .run = run_doctor },
	{ "log", "[AREA LEVEL]", "show or change vipd's log levels", "",
	  "  AREA is a listed area, or all; LEVEL is error, warn, notice, info or debug. SUPPRESSED\n"
	  "  counts suppressed repetitions of lines. At the next start the flags apply again (-v,\n"
	  "  --vmodule, --log-level).\n",
	  .values = FORMATS, .run = run_log },
	{ "migrate", "FILE [-- FLAGS]", "compare kube-proxy's settings with vipd", "C",
	  "  FILE is kube-proxy's configuration, or its ConfigMap as kubectl prints it; - is standard\n"
	  "  input. Flags of kube-proxy follow after --, with or without FILE. The table has the\n"
	  "  settings that stay the same, differ or have no effect, and the findings of doctor.\n"
	  "  --write-config-to writes vipd's configuration; with - only that, to standard output.\n"
	  "  Nothing else is changed. Exit code 2 also for a setting that vipd rejects.\n",
	  .values = FORMATS, .run = run_migrate },
	{ "completion", "SHELL", "completion for bash, zsh or fish", "",
	  "  For the current shell: source <(vipctl completion bash)\n", .words = "bash zsh fish",
	  .run = run_completion },
};

#define CLI_SETTINGS line
#define TEXT(member) CLI_VALUE(CLI_TEXT, CLI_AT(run.member))
#define BOOL(member) CLI_VALUE(CLI_BOOL, CLI_AT(member))
#define CHOICE(member) CLI_VALUE(CLI_CHOICE, CLI_AT(member))
#define SECONDS(member) CLI_VALUE(CLI_INT, CLI_AT(member), 1, 3600)

static const struct cli_option options[] = {
	{ "output", "FORMAT", CHOICE(run.output), "table, wide, json, yaml, or name (svc)", "table",
	  .words = "table wide json name yaml", .letter = 'o', .is_by_command = true,
	  .group = "Options" },
	{ "namespace", "NAME", TEXT(ns), "services of this namespace only", .letter = 'n',
	  .command_letter = 'n' },
	{ "state", "LIST", TEXT(states), "services in these states only", .command_letter = 's',
	  .words = "ok no-endpoints dropping conflict pending rejected not-proxied no-service" },
	{ "kernel", NULL, BOOL(run.is_kernel), "read the kernel, without vipd",
	  .command_letter = 'k' },
	{ "live", "[=SECONDS]", SECONDS(run.live_s), "follow real packets", "10",
	  .command_letter = 'L' },
	{ "bundle", NULL, BOOL(run.is_bundle), "write a support bundle (JSON)",
	  .command_letter = 'B' },
	{ "manifests", "DIR", TEXT(manifests), "compare with the manifests in DIR",
	  .command_letter = 'M' },
	{ "node", "NAME", TEXT(node), "name of this node, with --manifests",
	  .command_letter = 'N' },
	{ "nodeport-addresses", "LIST", TEXT(nodeport_addresses), "vipd's flag, for --manifests",
	  .command_letter = 'A' },
	{ "iptables-localhost-nodeports", NULL, BOOL(run.serves_localhost),
	  "vipd's flag, for --manifests", .command_letter = 'O' },
	{ "bind-address", "IP", TEXT(bind_address), "vipd's flag, for --manifests",
	  .command_letter = 'P' },
	{ "feature-gates", "LIST", TEXT(feature_gates), "vipd's flag, for --manifests",
	  .command_letter = 'G' },
	{ "ipvs-scheduler", "NAME", TEXT(ipvs_scheduler), "vipd's flag, for --manifests", "rr",
	  .command_letter = 'I' },
	{ "plane", "NAME", CLI_VALUE(CLI_WORD, CLI_AT(run.plane)),
	  "nftables or ipvs [that of the kernel]", .words = "nftables ipvs",
	  .command_letter = 'D' },
	{ "service", "NS/NAME", TEXT(service), "events of this service only",
	  .command_letter = 'S' },
	{ "kind", "LIST", TEXT(kinds), "events of these kinds only", .command_letter = 'K',
	  .words =
		  "service endpointslice node servicecidr addresses sync rejected kernel silent ejected" },
	{ "write-config-to", "FILE", TEXT(write_config_to), "write vipd's configuration",
	  .command_letter = 'C' },
	{ "watch", "[=SECONDS]", SECONDS(run.watch_s), "repeat every SECONDS", "2", .letter = 'w',
	  .command_letter = 'w' },
	{ "socket", "PATH", CLI_VALUE(CLI_TEXT, CLI_AT(run.client.path), 1),
	  "control socket [$VIPCTL_SOCKET]" },
	{ "timeout", "SECONDS", SECONDS(timeout_s), "give up after SECONDS without progress",
	  "10" },
	{ "color", "WHEN", CHOICE(colour), "auto, always or never; honours $NO_COLOR", "auto",
	  .words = "auto always never" },
	{ "help", NULL, BOOL(needs_help), "help, also for a single command", .letter = 'h' },
	{ "version", NULL, BOOL(needs_version), "version and control API", .letter = 'V' },
};

static const struct cli vipctl = {
	.name = "vipctl",
	.usage = "Usage: vipctl COMMAND [OPTIONS]\n\n"
		 "Show this node's vipd. Only drain, undrain, eject, admit and log change it.\n",
	.usage_end =
		"\nExit code: 0 success, 1 not found or a problem, 2 usage, 3 vipd unreachable;\n"
		"doctor and migrate: 1 with warnings, 2 with errors.\n",
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.commands = commands,
	.n_commands = ARRAY_SIZE(commands),
};

static int run_completion(const struct run *run)
{
	struct str out = { 0 };

	if (run->n_args != 1 || cli_completion(&out, &vipctl, run->args[0]) < 0)
		return usage("completion takes bash, zsh or fish");
	return out_text(&out, EXIT_FINE);
}

/* --- the command line --- */

/* Options, command and arguments of the command line. */
struct words {
	bool is_given[ARRAY_SIZE(options)];
	const char *output; /* value of --output; NULL: not given */
	char **v;
	int n;
};

static int line_parse(struct words *words, int argc, char **argv)
{
	struct cli_args args = { argc, argv };
	const struct cli_option *o;
	const char *value;
	struct err err;
	int r;

	words->v = xcalloc((size_t)argc + 1, sizeof(*words->v)); /* for the life of the process */
	while ((r = cli_next(&args, &vipctl, &o, &value, &err)) > 0) {
		if (o == NULL) {
			words->v[words->n++] = (char *)(uintptr_t)value;
			continue;
		}
		words->is_given[o - options] = true;
		if (o == &options[0])
			words->output = value;
		if (cli_set(o, &line, value, &err) < 0)
			return usage("--%s: %s", o->name, err.text);
	}
	return r < 0 ? usage("%s", err.text) : 0;
}

static int command_unknown(const char *name)
{
	const char *near = cli_nearest(name, commands, sizeof(*commands), ARRAY_SIZE(commands));

	if (near != NULL)
		return usage("unknown command '%s' (did you mean '%s'?)", name, near);
	return usage("unknown command '%s'", name);
}

static bool is_given(const struct words *words, const char *name)
{
	return words->is_given[cli_find(&vipctl, name, strlen(name)) - options];
}

/* Reject options that have no effect with, or without, another option. */
static int pairs_check(const struct words *words, const struct cli_command *cmd)
{
	static const struct {
		const char *command;
		const char *option;
		const char *other;
		bool is_required;
	} pairs[] = {
		{ "svc", "namespace", "kernel", false },
		{ "svc", "state", "kernel", false },
		{ "svc", "plane", "kernel", true },
		{ "dump", "namespace", "bundle", false },
		{ "dump", "plane", "bundle", true },
		{ "trace", "watch", "live", false },
		{ "diff", "node", "manifests", true },
		{ "diff", "nodeport-addresses", "manifests", true },
		{ "diff", "iptables-localhost-nodeports", "manifests", true },
		{ "diff", "bind-address", "manifests", true },
		{ "diff", "feature-gates", "manifests", true },
		{ "diff", "ipvs-scheduler", "manifests", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (strcmp(pairs[i].command, cmd->name) == 0 && is_given(words, pairs[i].option) &&
		    is_given(words, pairs[i].other) != pairs[i].is_required)
			return usage("--%s %s --%s", pairs[i].option,
				     pairs[i].is_required ? "requires" : "excludes",
				     pairs[i].other);
	return 0;
}

static int format_check(const struct words *words, const struct cli_command *cmd)
{
	FINI(str_fini) struct str list = { 0 };

	if (words->output == NULL)
		return 0;
	if (line.run.output == OUTPUT_NAME && line.run.is_kernel)
		return usage("svc --kernel does not take -o name");
	if (str_words_find(cmd->values, words->output, strlen(words->output)) >= 0)
		return 0;
	str_words_print(&list, cmd->values);
	return usage("%s takes -o %s, not %s", cmd->name, list.text, words->output);
}

static int options_check(const struct words *words, const struct cli_command *cmd)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (words->is_given[i] && !cli_takes(cmd, &options[i]))
			return usage("%s does not take --%s", cmd->name, options[i].name);
	if (*cmd->args == '\0' && words->n > 1)
		return usage("'%s': %s takes no argument", words->v[1], cmd->name);
	return pairs_check(words, cmd) != 0 ? EXIT_USAGE : format_check(words, cmd);
}

/* Until interrupted, or until standard output is closed. */
static int watch(const struct cli_command *cmd)
{
	bool is_terminal = isatty(STDOUT_FILENO);
	int code;

	do {
		if (is_terminal)
			(void)out_printf("\033[H\033[2J");
		code = cmd->run(&line.run);
		if (!is_terminal)
			(void)out_printf("\n");
	} while (out_flush() == 0 && sleep(line.run.watch_s) == 0);
	return code;
}

static int command_run(const struct words *words, const struct cli_command *cmd)
{
	struct run *run = &line.run;
	int code = options_check(words, cmd);

	if (code != 0)
		return code;
	run->is_yaml = run->output == OUTPUT_YAML;
	if (run->is_yaml)
		run->output = OUTPUT_JSON;
	run->client.timeout_ms = line.timeout_s * 1000;
	run->command = cmd;
	run->n_args = words->n - 1;
	run->args = words->v + 1;
	style_decide();
	return out_finish(run->watch_s > 0 && cmd->run != run_top ? watch(cmd) : cmd->run(run));
}

int command_main(int argc, char **argv)
{
	const struct cli_command *cmd = NULL;
	static struct words words; /* reachable at the end: not a leak */
	const char *socket = getenv("VIPCTL_SOCKET");
	const char *name = NULL;
	struct str help = { 0 };
	bool is_help;
	int code;

	if (cli_complete(&vipctl, argc, argv))
		return out_finish(EXIT_FINE);
	if (socket != NULL && *socket != '\0')
		line.run.client.path = socket;
	line.timeout_s = TIMEOUT_S_DEFAULT;
	/* -o json also applies to errors in earlier arguments. */
	cli_foresee(&vipctl, &options[0], &line, argc, argv);
	code = line_parse(&words, argc, argv);
	if (code != 0)
		return code;
	if (line.needs_version) {
		(void)out_printf("vipctl %s, control API %d\n", cli_version(), CONTROL_API_VERSION);
		return out_finish(EXIT_FINE);
	}
	/* As `kubectl help COMMAND`. */
	is_help = words.n > 0 && strcmp(words.v[0], "help") == 0;
	if (words.n > is_help)
		name = words.v[is_help];
	if (name != NULL)
		cmd = cli_command_find(&vipctl, name);
	if (name != NULL && cmd == NULL)
		return command_unknown(name);
	if (line.needs_help || is_help) {
		cli_help(&help, &vipctl, cmd);
		return out_finish(out_text(&help, EXIT_FINE));
	}
	return cmd == NULL ? usage("command missing") : command_run(&words, cmd);
}
