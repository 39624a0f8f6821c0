/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/select - endpoints that may serve a service port on this node, or the reason why not.
 *
 * Sections 4 and 5 of doc/behaviour.md: slices are merged by (port name,
 * protocol), duplicates resolved, and the cluster set and the local set chosen.
 * Pure; the caller frees the result.
 */
#pragma once

#include "model/model.h"

/* Reason why an endpoint is not in a set; exclusion_text() for display. */
enum exclusion {
	EXCLUSION_NONE = 0,    /* in the set */
	EXCLUSION_NOT_READY,   /* neither ready nor a fallback */
	EXCLUSION_TERMINATING, /* terminating while others are ready (POL-04, POL-07) */
	EXCLUSION_NOT_SERVING, /* terminating and no longer serving */
	EXCLUSION_OTHER_NODE,  /* hinted for other nodes (POL-14) */
	EXCLUSION_OTHER_ZONE,  /* hinted for other zones (POL-15) */
	EXCLUSION_NOT_LOCAL,   /* local set: on another node, or no node known */
	EXCLUSION_DRAINED,     /* by an operator (model/drain.h) */
	EXCLUSION_WEIGHTLESS,  /* vipd.io/weights says 0 (BAL-03) */
	EXCLUSION_EJECTED,     /* no new connections from this node (model/eject.h) */
	EXCLUSION_SET_UNUSED,  /* no frontend of the port uses this set (POL-02) */
};
const char *exclusion_text(enum exclusion e);

enum topology_mode {
	TOPOLOGY_OFF = 0,
	TOPOLOGY_SAME_NODE,
	TOPOLOGY_SAME_ZONE,
};
const char *topology_text(enum topology_mode t);

/* In order of precedence. */
enum ejection {
	EJECTION_NONE = 0,
	EJECTION_MANUAL,
	EJECTION_OWN, /* by this process */
};

/* One merged endpoint of a service port; identity is (addr, port) (EPS-10). */
struct endpoint {
	struct ip_addr addr;
	uint16_t port;                     /* host order */
	uint8_t flags;                     /* enum endpoint_flags */
	bool is_local;                     /* EPS-12 */
	bool is_drained;                   /* counts as not ready (model/drain.h, BAL-03) */
	uint8_t weight;                    /* of vipd.io/weights; 1 without */
	uint8_t ejection;                  /* enum ejection: left out of sets (model/eject.h) */
	uint8_t cluster;                   /* enum exclusion for the cluster set; NONE = in it */
	uint8_t local;                     /* enum exclusion for the local set */
	const struct slice_endpoint *from; /* borrowed: node, pod, hints */
};
BEGINS_LIKE_ENDPOINT(struct endpoint);

/* Numbers of endpoints on which a set as a whole depends. */
struct selection_sums {
	int32_t ready;
	int32_t ready_local;
	int32_t node_hinted; /* of the ready ones */
	int32_t node_ours;
	int32_t zone_hinted;
	int32_t zone_ours;
	int32_t fallback; /* serving and terminating */
	int32_t twice;    /* entries of slices beyond the first one of an endpoint */
};

struct selection {
	VEC(struct endpoint) endpoints; /* sorted by ip_endpoint_cmp() */
	enum topology_mode topology;
	bool uses_cluster; /* SVC-03 */
	bool uses_local;
	bool has_any;             /* POL-10 */
	bool is_cluster_fallback; /* POL-04 was taken */
	bool is_local_fallback;   /* POL-08 was taken */
	size_t n_cluster;
	size_t n_local;
	struct selection_sums sums;
	const struct weights *weights; /* borrowed; NULL: all are 1 */
	bool has_drains;               /* some of the service, perhaps not on this port */
};

/*
 * The selection for port `port` (index into svc->service->ports) and family
 * `fam`. svc->service must not be NULL. `ret` is initialised here and is good
 * until the next change of the model; selection_fini() frees it.
 */
void select_endpoints(struct selection *ret, const struct model *m, const struct svc *svc,
		      size_t port, enum ipfam fam);
/* As select_endpoints(), but `endpoints` only, without weights and sets. */
void select_merged(struct selection *ret, const struct model *m, const struct svc *svc, size_t port,
		   enum ipfam fam);
/*
 * What the tracked changes of slices (model/track.h) do to a selection with `sums`: the endpoints
 * that go and those that come, in no order, and its new sums. An endpoint that changed is in both.
 * No set becomes empty, and none that was empty gets endpoints. False: other endpoints may enter or
 * leave a set; the service then needs select_endpoints().
 */
bool select_changes(struct selection *gone, struct selection *come, struct selection_sums *sums,
		    const struct model *m, const struct svc *svc, size_t port, enum ipfam fam);
void selection_fini(struct selection *s);
/* The first endpoint with that address, on any port; others follow it. NULL: none. */
struct endpoint *selection_find(const struct selection *s, const struct ip_addr *a);
/* EPS-12 */
bool select_is_local(const struct model *m, const struct slice_endpoint *e);
/* The work of selecting `n` endpoints of a port: the number of endpoints, without weights. */
size_t select_work(const struct svc *svc, size_t n);

/* NULL when the service is proxied (section 2), else the reason for display. */
const char *service_skip_reason(const struct service *s);
/* Is there a service, and is it proxied? Accepts NULL. */
bool service_is_proxied(const struct service *s);
/* Does `fam` of the service have a cluster IP and so frontends (SEL-04)? */
bool service_has_family(const struct service *s, enum ipfam fam);
/* SVC-01, for this family and port. */
bool service_is_external(const struct service *s, size_t port, enum ipfam fam);
/* The weights of its endpoints; NULL: all are 1. */
const struct weights *service_weights(const struct service *s);
/* ETP Local after SVC-28 (only external kinds). */
bool service_is_etp_local(const struct service *s);
/*
 * EPS-24: distinct local ready addresses of a service and family, over all ports; in steps, as
 * these may be many. Begin with zeros, step until it returns false; the result is `v.n`. Free `v`.
 * The result is of no use if the service changes meanwhile. `max`: select_work() of a step, at
 * least one port.
 */
struct local_ready {
	VEC(struct ip_addr) v; /* sorted, none twice */
	size_t port;
};
bool local_ready_step(struct local_ready *l, const struct model *m, const struct svc *svc,
		      enum ipfam fam, size_t max);
/* A step of about 5 ms. */
#define SELECT_STEP_WORK 20000
