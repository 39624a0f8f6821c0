/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state/context - state for the API, health and metrics servers; filled by vipd.c.
 *
 * All pointers are borrowed and must outlive the servers. Servers change no services
 * through it; they drain and eject endpoints, and start node checks.
 */
#pragma once

#include <jansson.h>

#include "plane/plane.h"
#include "sync/sync.h"

/* An invalid document, object or file of a source. */
struct serve_source_error {
	char *where; /* "/etc/vipd/web.yaml: document 2", "service shop/cart" */
	char *text;
	uint64_t since_ns; /* now_ns() of the first occurrence; 0 = unknown */
};

struct serve_source_errors { /* as VEC() */
	struct serve_source_error *v;
	size_t n;
	size_t cap;
	size_t n_all; /* `v` has the first ones, for display */
};

/* Filled for every answer; serve_source_info_fini() frees it. */
struct serve_source_info {
	char *text;             /* "manifests in /etc/vipd/services" */
	bool is_complete;       /* the first complete list was received */
	char *waiting_for;      /* what is missing before; NULL = unknown */
	uint64_t last_event_ns; /* 0 = none yet */
	char *unknown;          /* the first object without a valid version; NULL = none */
	struct serve_source_errors errors;
	struct serve_source_errors notes; /* ignored parts and foreign objects */
};

/* One list and watch, or one folder: for the metrics. */
struct serve_source_stats {
	const char *name;   /* "services" */
	uint64_t is_synced; /* 1: the first complete list was received */
	uint64_t is_failing;
	uint64_t last_event_ns; /* 0 = none yet */
	uint64_t objects;
	uint64_t invalid; /* included in `objects` */
	uint64_t lists;
	uint64_t watches;
	uint64_t events;
	uint64_t bytes;
};

/*
 * All may be NULL. stats() returns false if there is no list or folder `i`; rejected() returns why
 * a file of configuration or credentials is not in force, or NULL. Borrowed.
 */
struct serve_source {
	void (*describe)(void *arg, struct serve_source_info *ret);
	bool (*stats)(void *arg, size_t i, struct serve_source_stats *ret);
	const char *(*rejected)(void *arg);
	void *arg;
};

/* Counters of daemon/failover.h and daemon/eject.h, since the start. */
struct serve_failovers {
	uint64_t moves;     /* TCP handshakes */
	uint64_t udp_moves; /* flows of UDP */
	uint64_t ejections; /* begun */
};

/* What to do about a missing Node object. */
#define SERVE_NODE_NAME "--hostname-override must be the name of this node's Node object"

/*
 * The bridge of --pod-bridge-interface, if no interface has its name; NULL: one has it, or the mode
 * of detect-local needs none. A CNI plugin may create it with the first pod.
 */
const char *serve_missing_bridge(const struct model *m);
#define SERVE_NO_BRIDGE \
	"no interface has the name %s: pods count as clients outside of the cluster and are masqueraded"

struct check_runs;
struct drains;
struct failover;
struct health;
struct health_services;
struct monitor;
struct history;

struct serve_context {
	const struct model *model;
	const struct plan *plan;
	const struct sync *sync;
	const struct plane *plane;
	const struct health *health;                   /* NULL before it is open */
	const struct history *history;                 /* NULL before it is open */
	const struct health_services *health_services; /* NULL before it is open */
	struct check_runs *checks;                     /* of this node; NULL: none */
	struct drains *drains;                         /* of operators; NULL: not available */
	const struct failover *failover;               /* of handshakes; NULL: --failover=off */
	struct monitor *monitor;                       /* subscribers; NULL: not available */
	struct serve_source source;
	struct serve_failovers failovers;
	json_t *options;              /* in force, by name: texts, "" if not set; NULL: none */
	char *configz;                /* answer of /configz; NULL: no debugging pages */
	enum plane_counting counting; /* of the plane */
	uint64_t started_ns;          /* now_ns() */
};

void serve_source_info_fini(struct serve_source_info *info);
