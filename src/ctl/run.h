/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run - parameters, exit codes and output of commands.
 *
 * Commands with one request and one answer are in run_show.c, others have a file of
 * their own. Each returns the exit code.
 */
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "ctl/client.h"
#include "ctl/show.h"

struct diff;

/* Exit codes; stable, for scripts. */
enum command_exit {
	EXIT_FINE = 0,
	EXIT_PROBLEM = 1, /* not found, or a problem as each command defines it */
	EXIT_USAGE = 2,
	EXIT_NO_VIPD = 3, /* vipd is unreachable, or has another API version */
};

/* Those of `vipctl doctor` and `migrate`. */
enum doctor_exit {
	DOCTOR_WELL = 0, /* at most notes */
	DOCTOR_WARNINGS = 1,
	DOCTOR_ERRORS = 2,
};

enum output {
	OUTPUT_TABLE = 0,
	OUTPUT_WIDE,
	OUTPUT_JSON,
	OUTPUT_NAME, /* of services, one per line */
	OUTPUT_YAML, /* OUTPUT_JSON with `is_yaml` once the command line is parsed */
};

/* Options and arguments of a command. */
struct run {
	struct client client;
	enum output output;
	const char *ns;
	const char *states;
	bool is_yaml;                   /* print JSON as YAML */
	unsigned int watch_s;           /* 0: once */
	unsigned int live_s;            /* trace: how long to follow real packets; 0: not at all */
	bool is_bundle;                 /* dump: support bundle */
	bool is_kernel;                 /* svc: read the kernel, without vipd */
	const char *manifests;          /* diff: folder to compare with; NULL: vipd */
	const char *node;               /* with manifests; NULL: the host's name */
	const char *nodeport_addresses; /* flags of vipd, with manifests; NULL: not given */
	const char *bind_address;
	const char *feature_gates;
	bool serves_localhost;
	const char *ipvs_scheduler;  /* NULL: rr */
	const char *plane;           /* NULL: the plane whose tables exist */
	const char *service;         /* monitor: filter */
	const char *kinds;           /* monitor: filter */
	const char *write_config_to; /* migrate: file, or "-" without a report */
	struct style style;
	const struct cli_command *command;
	int n_args;
	char **args; /* of the command */
};

/* Print an error, as JSON with -o json, else with a hint behind it; return `code`. */
int error_print(int code, const char *hint, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define complain(code, ...) error_print((code), "", __VA_ARGS__)
/* An error of the command line. */
#define usage(...) error_print(EXIT_USAGE, "; see vipctl --help", __VA_ARGS__)
/*
 * Print the error of a failed request; return the exit code. Prints nothing after a failure to
 * write.
 */
int failed(int r, const struct err *err);
/* For failed(): an error of the kernel or of files, not of the connection to vipd. */
int not_vipd(int r);
/*
 * Write to standard output: 0 or -errno. When the command has ended, the first failure is reported
 * and makes the exit code EXIT_PROBLEM; except EPIPE: the reader (head, less) has exited, which is
 * not an error.
 */
int out_write(const char *data, size_t len);
int out_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);
int out_dump(const json_t *json, size_t flags); /* flags of json_dumpf() */
int out_flush(void);                            /* also an earlier failure */
/* Print `json`; return `code`. */
int out_json(const json_t *json, int code);

/*
 * Send a request with parameters: names and values up to a NULL name; a NULL value leaves the
 * parameter out. 0, or the exit code of a failure, which is printed.
 */
MUST_USE int answer_get(json_t **ret, const struct run *run, bool is_write, const char *path, ...)
	__attribute__((sentinel));
/*
 * 0 if vipd is past `waiting` for its first lists: until then its answers lack services that the
 * kernel serves. Else the exit code, and an error is printed.
 */
MUST_USE int source_check(const struct run *run);
/* Print `out` and free it; return `code`. */
int out_text(struct str *out, int code);
/* Print the answer in the format of `run`; may clean its texts. Returns `code`. */
int answer_show(const struct run *run, json_t *answer, int code,
		void (*show)(struct str *out, const json_t *answer, const struct style *style));

/* Append a parameter to the target of a request; nothing for a `value` of NULL. */
void query_add(struct str *target, const char *name, const char *value);

/* vipctl's main(): writes to stdout and stderr, returns the exit code. */
int command_main(int argc, char **argv);

int run_status(const struct run *run);
int run_svc(const struct run *run);
int run_trace(const struct run *run);
int run_dump(const struct run *run);
int run_doctor(const struct run *run);
int run_log(const struct run *run);
int run_migrate(const struct run *run);
int run_diff(const struct run *run);
int run_svc_kernel(const struct run *run);
int run_monitor(const struct run *run);
int run_taken_out(const struct run *run);
int run_top(const struct run *run);
int run_bundle(const struct run *run);
/* Follow packets of the flow in `trace`, an answer of /v1/trace. */
int run_live(const struct run *run, const json_t *trace);

/* Of an answer of /v1/doctor. */
enum doctor_exit doctor_exit(const json_t *answer);
/*
 * Add the desired lines of all services in run->manifests, for the ipvs plane or nftables.
 * Documents that are not served as written are reported on standard error. -EINVAL: an option;
 * other -errno: the folder cannot be read.
 */
MUST_USE int manifests_rows(struct diff *ret, const struct run *run, bool is_ipvs, struct err *err);
