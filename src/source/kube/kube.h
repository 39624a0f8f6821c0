/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/kube - list and watch Services, EndpointSlices, our Node and ServiceCIDRs.
 *
 *     kube_open -> changed, ... synced ... changed, changed, ... -> kube_close
 *
 * Section 1 of doc/behaviour.md. Each kind is listed once and then watched. A watch that ends is
 * resumed at its last version; if that version is lost, a list follows. Objects that a list lacks
 * are deleted. No failure of the server is fatal: the model keeps its last state, and kube_status()
 * has the cause (IN-18).
 *
 * kube_open() calls no callback; requests start in the event loop.
 */
#pragma once

#include <event2/event.h>

#include "model/model.h"
#include "source/decode/decode.h"

struct events;
struct kube;
struct ledger;
struct str;

/* Time limits and pauses with their defaults (kube_config_init()). */
struct kube_timing {
	uint64_t connect_ns;     /* 10 s: TCP and TLS to one address */
	uint64_t head_ns;        /* 60 s: until an answer begins (a server may queue the request) */
	uint64_t idle_ns;        /* 30 s: silence in a list, and of a watch after its timeout */
	uint64_t list_ns;        /* 600 s: all pages of a list */
	uint64_t bookmark_ns;    /* 150 s, plus a random time up to 150 s: longest silence of a
				    watch with bookmarks */
	uint64_t quiet_ns;       /* 20 s: silence of an HTTP/2 connection before a probe */
	uint64_t probe_ns;       /* 15 s: from the probe until the connection is shut */
	uint64_t keepalive_ns;   /* 30 s: TCP keepalive */
	uint64_t turn_ns;        /* 1 ms: for answers in one turn of the event loop */
	uint64_t backoff_min_ns; /* 0.8 s, IN-11 */
	uint64_t backoff_max_ns; /* 30 s */
	uint64_t calm_ns;        /* 2 min without a failure reset the backoff */
	uint64_t steady_ns;      /* 10 s: an older watch has recovered; its loss resets it, too */
	uint64_t watch_min_s;    /* 300, IN-10 */
	uint64_t watch_max_s;    /* 600 */
	uint64_t unsupported_ns; /* 1 h: no watch-lists, or field selectors, after a rejection */
	uint64_t others_ns;      /* 5 s for Node and ServiceCIDRs after the others, IN-20 */
	uint64_t plugin_ns;      /* 30 s for an exec plugin */
	uint64_t events_ns;      /* 0: no Events; period in which problems become Events */
};

struct kube_config {
	const char *kubeconfig;  /* --kubeconfig; NULL or "": none */
	const char *master;      /* --master: URLs separated by commas */
	bool is_json;            /* --kube-api-content-type; false: protobuf */
	const char *account_dir; /* of the pod's service account */
	double qps;              /* lists and watches per second; 0: default, < 0: no limit */
	int burst;               /* 0: default */
	struct kube_timing timing;
};

/* Defaults of sections 1 and 14. */
void kube_config_init(struct kube_config *c);

/* For a Kubernetes Event about an object. */
struct kube_problem {
	enum object_kind kind;
	const char *ns; /* "" for kinds without namespace */
	const char *name;
	const char *reason; /* a word: "AddressConflict" */
	const char *text;
};

/* False: the rate of Events is used up, for all further problems of this period, too. */
bool kube_problem_add(struct events *e, const struct kube_problem *problem);

/* Callbacks must not call kube_close(). */
struct kube_callbacks {
	/* Called once: Services and EndpointSlices are synced (IN-15); the other kinds are synced
	 * or late (IN-20). */
	void (*synced)(void *arg);
	/* The model changed, or the result of kube_is_complete(). */
	void (*changed)(void *arg);
	/*
	 * At the end of a period: call kube_problem_add() for each problem that is no rejection
	 * by this source. May be NULL.
	 */
	void (*problems)(void *arg, struct events *e);
	void *arg;
};

/*
 * Fill the configured model `m`. Its node_name selects the Node to watch (none: no Node). `config`
 * is borrowed until kube_close().
 * -EINVAL, -ENOENT: invalid configuration; `err` names file and field.
 */
MUST_USE int kube_open(struct kube **ret, struct event_base *base, struct model *m,
		       const struct kube_config *config, const struct kube_callbacks *callbacks,
		       struct err *err);
/*
 * Read the kubeconfig and its files again, run its plugin again, and end the pauses after
 * failures. Open watches continue.
 */
void kube_read_again(struct kube *k);
/* The model stays as it is. Accepts NULL. */
void kube_close(struct kube *k);
DEFINE_AUTO(struct kube *, kube_close);

/* --- status --------------------------------------------------------------- */

enum kube_state {
	KUBE_STATE_WAITING = 0, /* in a pause after a failure, or before the first request */
	KUBE_STATE_LISTING,
	KUBE_STATE_WATCHING,
};

/* All texts are borrowed until the next turn of the event loop. */
struct kube_reflector_status {
	const char *resource; /* "services" */
	enum kube_state state;
	bool is_complete;       /* synced: a list was completed */
	const char *error;      /* current failure; "": none */
	uint64_t error_ns;      /* start of the failure; 0: none */
	uint32_t failures;      /* consecutive */
	uint64_t last_event_ns; /* bookmarks too; 0: none */
	const char *version;    /* resource version; "" before the first list */
	uint8_t encoding;       /* enum stream_encoding of the last answer */
	size_t objects;         /* on the server */
	uint64_t lists;         /* answered; all but the first are relists */
	uint64_t watches;
	uint64_t events;
	uint64_t bytes;              /* of bodies */
	const struct ledger *ledger; /* invalid objects */
};

struct kube_status {
	const char *server; /* in use */
	bool is_http2;
	uint64_t requests;
	uint64_t connections;
	uint64_t failovers;
	uint64_t probes;
	uint64_t dead_connections;
	const char *rejected; /* as access_rejected() */
};

struct kube_status kube_status(const struct kube *k);
/* Is the server's address the cluster IP of the API server? A text for people; NULL: no. */
const char *kube_server_warning(const struct kube *k);
/*
 * After synced(): true if a valid version of every Service and EndpointSlice is known, and of the
 * Node, with addresses, unless a complete list lacks it. `why`, unless NULL, gets the first object
 * without one.
 */
bool kube_is_complete(const struct kube *k, struct str *why);
/* False: there is no reflector `i`. */
bool kube_reflector_status(const struct kube *k, size_t i, struct kube_reflector_status *ret);
