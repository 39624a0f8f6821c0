/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/trace - where the first packet of a connection would go, and why.
 *
 *     plan_trace_init(&t, plan, &query)
 *     for every service, in any order, over any number of turns of the loop:
 *             plan_trace_visit(&t, svc)
 *     plan_trace_decide(&t)
 *     ... read t ...
 *     plan_trace_fini(&t)
 *
 * Decides from the model, by the functions that build rows, in the order of a plane's
 * rules: frontend, source ranges, policy, pool, masquerading (sections 3 to 7 of
 * doc/behaviour.md). Each result has its reason, also "untouched", and so has each
 * endpoint that is not used.
 *
 * Between two calls the trace keeps names, copies, and slices that it references; no other
 * pointer into the model.
 * Pure: a given model yields one trace.
 */
#pragma once

#include "explain/balancing.h"
#include "model/select.h"
#include "plan/plan.h"

/* Other related services: at most so many of a relation but claims are kept, all are counted. */
#define PLAN_TRACE_OTHERS_MAX 16

struct plan_trace_query {
	/* The client: an address, or else the pod of this name, or else this host. */
	struct ip_addr src;
	const struct name *src_pod; /* counted, taken by plan_trace_init(); NULL = none */
	uint16_t src_port;          /* 0 = unknown */
	struct ip_addr dst;
	uint16_t port;
	uint8_t proto;                 /* enum l4proto */
	struct plan_balancer balancer; /* of the plane; zeroed: by the pool alone */
};

enum plan_trace_why {
	PLAN_TRACE_WHY_UNSET = 0,
	/* A frontend matches. */
	PLAN_TRACE_WHY_POOL,
	PLAN_TRACE_WHY_NO_ENDPOINT,     /* REJ-01 */
	PLAN_TRACE_WHY_INTERNAL_POLICY, /* REJ-02 */
	PLAN_TRACE_WHY_EXTERNAL_POLICY, /* REJ-03 */
	PLAN_TRACE_WHY_RANGES,          /* REJ-10 */
	/* No frontend matches. */
	PLAN_TRACE_WHY_OTHER_PORT,  /* a cluster IP, but not a port of it (REJ-05) */
	PLAN_TRACE_WHY_UNALLOCATED, /* unused address of a service CIDR (REJ-06) */
	/* As in enum plan_trace_relation. */
	PLAN_TRACE_WHY_NOT_CAPTURED,        /* ipMode Proxy (SVC-16) */
	PLAN_TRACE_WHY_EXTERNAL_OFF,        /* external IPs are not served here (SVC-13) */
	PLAN_TRACE_WHY_NOT_PROXIED,         /* section 2 */
	PLAN_TRACE_WHY_VIP_OTHER_PORT,      /* an external address, but not a port of it */
	PLAN_TRACE_WHY_NODE_PORT_ELSEWHERE, /* served on other addresses (REJ-14) */
	/* No service is related. */
	PLAN_TRACE_WHY_NO_NODE_PORT, /* an address of node ports, but not a node port */
	PLAN_TRACE_WHY_ENDPOINT,     /* the address of an endpoint, not of a service */
	PLAN_TRACE_WHY_UNKNOWN,      /* in no object */
};

/* Relation of another service to the destination; the first one is the reason (decide_none()). */
enum plan_trace_relation {
	PLAN_TRACE_CLAIMS = 0, /* claims the frontend too; precedence decides (SEL-14) */
	PLAN_TRACE_NOT_CAPTURED,
	PLAN_TRACE_EXTERNAL_OFF,
	PLAN_TRACE_NOT_PROXIED,
	PLAN_TRACE_HAS_ADDRESS,    /* with other ports */
	PLAN_TRACE_HAS_NODE_PORT,  /* on other addresses */
	PLAN_TRACE_HAS_CLUSTER_IP, /* with other ports, and it is no address of this host */
	PLAN_TRACE_RELATION_N,
};

struct plan_trace_other {
	const struct name *ns; /* counted */
	const struct name *name;
	uint8_t relation; /* enum plan_trace_relation */
	uint8_t kind;     /* enum plan_frontend_kind of the address */
};

/* Is the source masqueraded on the way to the backend, and why (section 6.2)? */
enum plan_trace_masq {
	PLAN_TRACE_MASQ_NONE_POD = 0,  /* cluster IP, a pod by detect-local */
	PLAN_TRACE_MASQ_NONE_DETECTOR, /* cluster IP, no detect-local (MASQ-01) */
	PLAN_TRACE_MASQ_NONE_LOCAL,    /* external, policy Local: source preserved */
	PLAN_TRACE_MASQ_NONE_DIRECT,   /* external, vipd.io/forwarding: route or tunnel */
	PLAN_TRACE_MASQ_REMOTE,        /* external, --preserve-local-source: to other nodes only */
	PLAN_TRACE_MASQ_ALL,           /* cluster IP, --masquerade-all (MASQ-05) */
	PLAN_TRACE_MASQ_NOT_POD,       /* cluster IP, no pod by detect-local */
	PLAN_TRACE_MASQ_EXTERNAL,      /* external, policy Cluster (MASQ-07) */
	PLAN_TRACE_MASQ_HOST,          /* external, policy Local, from this host (MASQ-08) */
};

struct plan_trace_endpoint {
	const char *why;                   /* it is not used; NULL: it is */
	const struct slice_endpoint *from; /* in plan_trace.slices */
	uint16_t port;                     /* 0 when its slice does not name the port */
	uint8_t exclusion; /* enum exclusion for the set in question; NONE: see `why` */
	bool is_local;
	uint32_t weight;     /* vipd.io/weights; else 1 */
	bool is_masqueraded; /* if it is used; also a pod's connection to itself (MASQ-09) */
};

/* Is the desired state of the frontend programmed? */
enum plan_trace_programmed {
	PLAN_TRACE_PROGRAMMED_SAME = 0,
	PLAN_TRACE_PROGRAMMED_NOT,   /* the service has no such frontend in the kernel */
	PLAN_TRACE_PROGRAMMED_OTHER, /* with another verdict, or other backends */
};

struct plan_trace {
	const struct plan *plan;
	struct plan_trace_query query;
	/* The source, and what endpoints with its address say about it. */
	bool is_host;
	bool is_pod; /* by detect-local (section 6.1, POL-24) */
	/*
	 * detect-local needs an interface: assumed from the pods of this node. Or this host's
	 * address decides and is not given: assumed to be the Node's.
	 */
	bool is_assumed;
	bool is_src_given;
	bool is_pod_of_this_node;
	const struct name *pod_node; /* counted */
	char *pod;
	const struct name *src_ns; /* counted; of the first pod of that name */
	bool is_ambiguous;         /* pods of several namespaces have the name `src_pod` */
	char *dst_pod;             /* the destination is the address of an endpoint */
	bool is_dst_endpoint;

	enum plan_verdict verdict; /* UNSET: vipd does not handle the packet */
	enum plan_trace_why why;
	struct ip_prefix service_cidr; /* that contains the destination; len 0 and unset = none */
	bool is_cluster_ip;            /* some service has the destination as its cluster IP */

	/* The service whose frontend matches; `ns` is NULL if none does. */
	const struct name *ns; /* counted */
	const struct name *name;
	const struct name *port_name; /* counted */
	uint16_t service_port;
	struct plan_frontend frontend; /* ids as programmed, 0 = none yet */
	bool is_inside;                /* split frontend: the client is a pod or this host */
	enum plan_scope scope;
	uint32_t pool_id; /* 0 = not programmed yet */
	enum plan_trace_masq masq;
	enum topology_mode topology;
	bool is_fallback; /* terminating endpoints, as none is ready (POL-04, POL-08) */
	enum plan_trace_programmed programmed;
	VEC(struct ip_prefix) ranges; /* of a guarded frontend */
	struct ip_prefix range;       /* the range that contains the source; unset = none */
	VEC(struct plan_trace_endpoint) endpoints; /* used ones first, then by address */
	VEC(struct object) slices;                 /* referenced: of the endpoints */
	VEC(struct ip_addr) local_backends; /* of all services, with --preserve-local-source */
	size_t n_used;
	uint64_t weight; /* sum of the endpoints that are used */
	struct plan_balancing balancing;
	/* With hashing, if the source is known: every connection gets this backend. */
	bool is_predicted;
	struct plan_backend predicted;

	VEC(struct plan_trace_other) others; /* by relation, then name */
	size_t n_others[PLAN_TRACE_RELATION_N];
};

/* Initialises `ret`; takes the references of the query. */
void plan_trace_init(struct plan_trace *ret, const struct plan *p,
		     const struct plan_trace_query *query);
void plan_trace_visit(struct plan_trace *t, const struct svc *svc);
/* The source is a pod by name, but no endpoint of the destination's family has that name. */
bool plan_trace_lacks_source(const struct plan_trace *t);
void plan_trace_decide(struct plan_trace *t);
/* Is the source masqueraded on the way to a used endpoint? */
bool plan_trace_masquerades(const struct plan_trace *t);
/* Share of connections of a used endpoint, 0 to 1; negative when it is not predictable. */
double plan_trace_share(const struct plan_trace *t, const struct plan_trace_endpoint *ep);
void plan_trace_fini(struct plan_trace *t);
