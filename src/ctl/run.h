/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run - what every command is given, and how it ends.
 *
 * Commands that ask once and show the answer stand in run_show.c, others have a file of
 * their own. Each returns the exit code (enum command_exit).
 */
#pragma once

#include <jansson.h>

#include "ctl/client.h"
#include "ctl/command.h"
#include "ctl/show.h"

enum output {
	OUTPUT_TABLE = 0,
	OUTPUT_WIDE,
	OUTPUT_JSON,
	OUTPUT_NAME, /* of services, one a line */
};

/* What was asked for. */
struct run {
	struct client client;
	enum output output;
	const char *ns;
	const char *states;
	const char *colour;    /* "auto", "always", "never" */
	bool is_yaml;          /* JSON is to be written as YAML */
	unsigned int watch_s;  /* 0: once */
	unsigned int live_s;   /* trace: follow real packets for so long; 0: do not */
	bool is_bundle;        /* dump: all there is to be told */
	bool is_kernel;        /* svc: ask the kernel, not vipd */
	const char *manifests; /* diff: against what this folder says; NULL: vipd */
	const char *node;      /* with manifests */
	const char *nodeport_addresses;
	const char *ipvs_scheduler;
	const char *plane;   /* whose tables; NULL: those that are there */
	const char *service; /* monitor: only of this one */
	const char *kinds;   /* monitor: only these */
	struct style style;
	int n_args;
	char **args; /* behind the command */
};

/* Prints an error, as JSON with -o json; yields `code`. */
int complain(int code, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says what is wrong with the command line. */
int usage(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* What a failed request means to the one who asked: says it, yields the exit code. */
int failed(int r, const struct err *err);
/* 0 or -errno; a reader that is gone (head, less) is no error of ours. */
int out_write(const char *data, size_t len);
/* Prints `json`; yields `code`, unless it cannot be written. */
int out_json(const json_t *json, int code);

/* Append a parameter to the target of a request; nothing for a `value` of NULL. */
void query_add(struct str *target, const char *name, const char *value);

int run_status(const struct run *run);
int run_svc(const struct run *run);
int run_trace(const struct run *run);
int run_dump(const struct run *run);
int run_doctor(const struct run *run);
int run_log(const struct run *run);
int run_diff(const struct run *run);
int run_svc_kernel(const struct run *run);
int run_monitor(const struct run *run);
int run_drain(const struct run *run);
int run_undrain(const struct run *run);
int run_top(const struct run *run);
int run_bundle(const struct run *run);
/* Follows packets of what `trace`, an answer of /v1/trace, is about. */
int run_live(const struct run *run, const json_t *trace);
