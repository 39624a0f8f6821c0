/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/kube - list and watch Services, EndpointSlices, our Node and ServiceCIDRs.
 *
 *     kube_open -> changed, ... synced ... changed, changed, ... -> kube_close
 *
 * Section 1 of doc/behaviour.md. Each kind is listed once and then watched for as
 * long as the program lives: a watch that ends is resumed where it stopped, one
 * that cannot be resumed is replaced by a list, and what a list no longer has is
 * deleted. Nothing that goes wrong outside is fatal: the model keeps its last
 * state, and kube_status() says what is missing and why (IN-18).
 *
 * Nothing is sent before kube_open() has returned to the loop, and no callback
 * comes from within it.
 */
#pragma once

#include <event2/event.h>

#include "model/model.h"

struct kube;
struct str;

/* Limits and pauses; kube_config_init() has what stands behind each. */
struct kube_timing {
	uint64_t connect_ns;     /* 10 s: TCP and TLS to one address */
	uint64_t head_ns;        /* 60 s: until an answer begins (a server may queue us) */
	uint64_t idle_ns;        /* 30 s: silence in a list, and of a watch that should be over */
	uint64_t list_ns;        /* 600 s: from the first page of a list to the end of the last */
	uint64_t bookmark_ns;    /* 150 s: silence of a watch that has had bookmarks before */
	uint64_t quiet_ns;       /* 20 s: silence of an HTTP/2 connection that is asked about ... */
	uint64_t probe_ns;       /* 15 s: ... for this long before it is given up */
	uint64_t keepalive_ns;   /* 30 s: silence of TCP itself */
	uint64_t backoff_min_ns; /* 0.8 s, IN-11 */
	uint64_t backoff_max_ns; /* 30 s */
	uint64_t calm_ns;        /* 2 min without trouble: back to the shortest pause */
	uint64_t watch_min_s;    /* 300, IN-10 */
	uint64_t watch_max_s;    /* 600 */
	uint64_t others_ns;      /* 5 s for Node and ServiceCIDRs once the others are in, IN-20 */
	uint64_t plugin_ns;      /* 30 s for an exec plugin */
};

struct kube_config {
	const char *kubeconfig;   /* --kubeconfig; NULL or "": none */
	const char *master;       /* --master: one URL or several, with commas */
	const char *content_type; /* --kube-api-content-type; NULL or "": protobuf */
	const char *account_dir;  /* of the pod's service account */
	double qps;               /* lists and watches begun per second; < 0: no limit */
	int burst;
	struct kube_timing timing;
};

/* Defaults of sections 1 and 14. */
void kube_config_init(struct kube_config *c);

/* May mark work to be done in the loop, but not close. */
struct kube_callbacks {
	/* Once: Services and EndpointSlices are complete (IN-15), the rest too or late (IN-20). */
	void (*synced)(void *arg);
	/* Something that matters changed in the model, or kube_is_complete() did. */
	void (*changed)(void *arg);
	void *arg;
};

/*
 * Watch for `m`, which is configured: its node_name says which Node is ours
 * (none: no Node is watched). -EINVAL, -ENOENT: the configuration cannot be
 * used; `err` names file and field.
 */
MUST_USE int kube_open(struct kube **ret, struct event_base *base, struct model *m,
		       const struct kube_config *config, const struct kube_callbacks *callbacks,
		       struct err *err);
/*
 * Read the kubeconfig and the files it names again, run its plugin again, and end the pauses
 * after failures. Open watches go on: they are as current as the server.
 */
void kube_read_again(struct kube *k);
/* The model stays as it is. Accepts NULL. */
void kube_close(struct kube *k);

/* --- what people want to know --------------------------------------------- */

enum kube_state {
	KUBE_STATE_WAITING = 0, /* a pause after trouble, or about to begin */
	KUBE_STATE_LISTING,
	KUBE_STATE_WATCHING,
};
const char *kube_state_text(enum kube_state s);

/* An object of which the last good version stays, or of which entries are skipped. */
struct kube_remark {
	const char *ns; /* "" for kinds without */
	const char *name;
	bool is_refused;
	const char *text;
};

/* All texts are borrowed until the loop is returned to. */
struct kube_reflector_status {
	const char *resource; /* "services" */
	enum kube_state state;
	bool is_complete;       /* a list has been completed, ever */
	const char *error;      /* of the trouble we are in; "" when there is none */
	uint64_t error_ns;      /* when that trouble began; 0: none */
	uint64_t retry_ns;      /* when it is tried again; 0: it is being tried */
	uint32_t failures;      /* in a row */
	uint64_t last_event_ns; /* any sign of life, bookmarks too; 0: never */
	const char *version;    /* resource version; "" before the first list */
	const char *encoding;   /* "protobuf", "json", "" */
	size_t objects;         /* on the server */
	size_t refused;         /* of them */
	size_t remarked;        /* refused, or with entries skipped */
	uint64_t unreadable;    /* without a name to blame, ever */
	uint64_t lists;         /* that the server began to answer; after the first: relists */
	uint64_t watches;
	uint64_t events;
	uint64_t bytes; /* of bodies */
};

struct kube_status {
	const char *server; /* in use */
	bool is_http2;
	bool is_synced;
	uint64_t requests;
	uint64_t connections;
	uint64_t failovers;
	uint64_t probes;
	uint64_t dead_connections;
};

struct kube_status kube_status(const struct kube *k);
/*
 * Is some version of every Service and EndpointSlice known? `why`, unless NULL, gets the first
 * one of which only rejected versions were seen.
 */
bool kube_is_complete(const struct kube *k, struct str *why);
size_t kube_n_reflectors(const struct kube *k);
void kube_reflector_status(const struct kube *k, size_t i, struct kube_reflector_status *ret);
/* Of reflector `i`; there may be more remarked objects than remarks. */
size_t kube_n_remarks(const struct kube *k, size_t i);
struct kube_remark kube_remark(const struct kube *k, size_t i, size_t n);
