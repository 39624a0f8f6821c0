/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state/context - what the control socket reads; filled by vipd.c.
 *
 * Everything is borrowed and must outlive the servers that were given the context.
 * Nothing is ever changed through it, but that checks of the node are asked for.
 */
#pragma once

#include "plane/plane.h"
#include "sync/sync.h"

/* Something a source could not use: a document, an object, a file. */
struct serve_source_error {
	char *where; /* "/etc/vipd/web.yaml: document 2", "service shop/cart" */
	char *text;
	uint64_t since_ns; /* now_ns() when it was first seen; 0 = unknown */
};

struct serve_source_errors { /* as VEC() */
	struct serve_source_error *v;
	size_t n;
	size_t cap;
};

/* Filled anew for every answer; serve frees it. */
struct serve_source_info {
	char *text;             /* "manifests in /etc/vipd/services" */
	bool is_complete;       /* the first complete list was delivered */
	char *waiting_for;      /* what is missing while it was not; NULL = nothing to say */
	uint64_t last_event_ns; /* 0 = none yet */
	char *unknown;   /* the first object of which no good version is known; NULL = none */
	size_t n_errors; /* all of them; `errors` may hold the first few */
	struct serve_source_errors errors;
	size_t n_notes; /* what is served as far as it goes, or was none of ours; the same */
	struct serve_source_errors notes;
};

struct serve_source {
	void (*describe)(void *arg, struct serve_source_info *ret);
	void *arg;
};

/* One option as it is in force, for people. */
struct serve_option {
	const char *name;
	const char *value;
};

/* What follows when no Node object has this node's name. */
#define SERVE_NO_NODE \
	"/healthz answers 503, and no endpoint counts as local; --hostname-override must be the name of this node's Node object"

struct check_helper;
struct drains;
struct health;
struct monitor;
struct history;

struct serve_context {
	const struct model *model;
	const struct plan *plan;
	const struct sync *sync;       /* NULL before it is open */
	const struct plane *plane;     /* the same */
	const struct health *health;   /* the same */
	const struct history *history; /* the same */
	struct check_helper *checks;   /* of this node; NULL: none */
	struct drains *drains;         /* of operators; NULL: none can be asked for */
	struct monitor *monitor;       /* who looks on; NULL: nobody can */
	struct serve_source source;
	const struct serve_option *options;
	size_t n_options;
	uint64_t started_ns; /* now_ns() */
};

void serve_source_info_fini(struct serve_source_info *info);
