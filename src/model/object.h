/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/object - the Kubernetes objects that vipd reads, reduced to the fields it uses.
 *
 * Sources decode into these values; they are plain data, counted: the model and a file of
 * manifests may share one. An object in the model never changes.
 * A decoder fills in the parsed fields of the object; model/select and plan decide
 * what they mean for traffic.
 *
 * Source: core/v1 Service and Node, discovery.k8s.io/v1 EndpointSlice,
 * networking.k8s.io/v1 ServiceCIDR. IDs in brackets are rows of
 * doc/behaviour.md.
 */
#pragma once

#include "base/ip.h"
#include "base/name.h"
#include "base/vec.h"

/*
 * Limits of one object. A decoder leaves out further entries of lists of a Service, which the API
 * does not limit, and rejects other objects above a limit.
 */
#define SERVICE_PORTS_MAX 20000
#define SERVICE_ADDRS_MAX 1024   /* each of external IPs, ingress entries */
#define SLICE_ENDPOINTS_MAX 1000 /* the API's limit */
#define SLICE_PORTS_MAX 20000    /* the API's limit */
#define HINTS_MAX 64
/*
 * Source ranges, and their elements in the kernel: for each port, a range is 1 to 8 prefixes whose
 * lengths are multiples of SERVICE_RANGE_STEP bits (0003). Further ranges count as invalid.
 */
#define SERVICE_RANGES_MAX 1024
#define SERVICE_RANGE_ELEMENTS_MAX 32768 /* without those of SVC-25 */
#define SERVICE_RANGE_STEP 4
/*
 * Frontends, without those of node ports. Further addresses are left out; so many are served with
 * any number of ports (SVC-15).
 */
#define SERVICE_FRONTENDS_MAX 32768U
#define SERVICE_ADDRS_MIN 4U
#define AFFINITY_DEFAULT_S 10800 /* SVC-31 */
#define AFFINITY_MAX_S 86400

enum service_type {
	SERVICE_TYPE_UNSET = 0,
	SERVICE_TYPE_CLUSTERIP,
	SERVICE_TYPE_NODEPORT,
	SERVICE_TYPE_LOADBALANCER,
	SERVICE_TYPE_EXTERNALNAME,
};

struct service_port {
	const struct name *name; /* never NULL; "" when unnamed */
	uint8_t proto;           /* enum l4proto */
	uint8_t pad;
	uint16_t port;      /* 1..65535, host order */
	uint16_t node_port; /* 0 = none */
	uint16_t pad_2;
};
_Static_assert(sizeof(struct service_port) == 16, "compared as raw bytes");

/* A source range of one port is 2 to the power of so many elements in the kernel (0003). */
static inline unsigned int service_range_bits(const struct ip_prefix *r)
{
	return -(unsigned int)r->len % SERVICE_RANGE_STEP;
}

/* status.loadBalancer.ingress[] with an IP; hostname-only entries are not kept. */
struct service_ingress {
	struct ip_addr addr;
	bool is_proxy_mode; /* ipMode: Proxy, not captured (SVC-16) */
};
_Static_assert(sizeof(struct service_ingress) == 21, "compared as raw bytes");

/* Annotations for load balancing, as written (model/tuning.h). NULL: not given. */
struct service_tuning {
	const struct name *scheduler;     /* vipd.io/scheduler, kube-router.io/service.scheduler */
	bool is_kube_router;              /* from kube-router's annotation */
	const struct name *weights;       /* vipd.io/weights */
	const struct name *drain_timeout; /* vipd.io/drain-timeout */
	const struct name *forwarding;    /* vipd.io/forwarding, kube-router.io/service.dsr */
	bool is_dsr;                      /* from kube-router's annotation */
	struct weights *by_name; /* of `weights`, when normalised; NULL: none, or an error */
	char *weights_error;     /* why `weights` are not in force; NULL: no error */
};

/* The beginning of every object. */
struct object_head {
	const struct name *ns; /* NULL for kinds without namespace */
	const struct name *name;
	uint32_t refs;
};

struct service {
	const struct name *ns; /* as struct object_head */
	const struct name *name;
	uint32_t refs;
	int64_t created_s; /* creationTimestamp, Unix seconds; 0 = unknown, counts as newest */
	uint8_t type;      /* enum service_type */
	bool is_headless;  /* clusterIP empty or "None" (SEL-01) */
	bool has_proxy_name_label; /* service.kubernetes.io/service-proxy-name (SEL-03) */
	bool is_itp_local;         /* spec.internalTrafficPolicy: Local */
	bool is_etp_local;         /* spec.externalTrafficPolicy: Local, before SVC-28 */
	uint32_t affinity_s;       /* 0 = None, else the ClientIP timeout in seconds 1..86400 */
	uint16_t health_check_node_port; /* as written; 0 = none (SVC-26 is applied later) */
	/* Source ranges that could not be parsed, or above the limit (SVC-23: fail closed). */
	uint32_t n_bad_source_ranges;
	/* Of `external_ips` and `ingress` in the object: above a limit (SVC-15). */
	uint32_t n_left_out_addrs;
	struct ip_addr cluster_ip[IPFAM_N]; /* unset: none of the family (SEL-05) */
	VEC(struct service_port) ports;
	VEC(struct ip_addr) external_ips;
	VEC(struct service_ingress) ingress;
	VEC(struct ip_prefix) source_ranges;
	struct service_tuning *tuning; /* NULL: no such annotation */
};

struct slice_port {
	const struct name *name; /* never NULL: ports with a null name are not kept (EPS-05) */
	uint8_t proto;
	uint8_t pad;
	uint16_t port; /* 1..65535: null and 0 are not kept (EPS-06) */
	/* When normalised, of `ports.v[i]`: the index of the i-th port by protocol and number. */
	uint32_t by_number;
};
_Static_assert(sizeof(struct slice_port) == 16, "compared as raw bytes");

enum endpoint_flags {
	ENDPOINT_READY = 1 << 0,
	ENDPOINT_SERVING = 1 << 1,
	ENDPOINT_TERMINATING = 1 << 2,
};

/* Zone or node hints (EPS-13). In a place: sorted by text, no duplicates. */
struct hints {
	const struct name **names;
	uint32_t n;
};

/*
 * What endpoints have in common: few nodes and hints, many endpoints. Interned, so equal places are
 * one pointer.
 */
struct slice_place {
	struct hnode hnode;
	uint32_t refs;
	const struct name *node; /* NULL = unknown: never local (EPS-12) */
	const struct name *zone; /* for display; NULL = unknown */
	struct hints zones;
	struct hints nodes;
	const struct name *names[]; /* of both hints */
};

struct slice_endpoint {
	struct ip_addr addr; /* the first address (EPS-09), of the slice's family */
	uint8_t flags;       /* enum endpoint_flags after null defaults (EPS-11) */
	/*
	 * targetRef.name if its kind is Pod, else NULL; for display. Not interned: each
	 * name occurs once, and there are more pods than other names.
	 */
	char *pod;
	struct slice_place *place; /* never NULL */
};
_Static_assert(sizeof(struct slice_endpoint) == 40, "one per endpoint: kept small");

struct slice {
	const struct name *ns; /* as struct object_head */
	const struct name *name;
	uint32_t refs;
	const struct name *service; /* label kubernetes.io/service-name (EPS-02) */
	enum ipfam fam;             /* addressType; others are not kept (EPS-01) */
	uint64_t version;           /* resourceVersion as a number, 0 unknown (EPS-15) */
	/* endpoints.kubernetes.io/last-change-trigger-time, Unix ns; 0 = absent (IN-40). */
	int64_t trigger_ns;
	VEC(struct slice_port) ports;
	VEC(struct slice_endpoint) endpoints;
	char *pods; /* when normalised: the block that all endpoints' `pod` point into */
};

struct node {
	const struct name *ns; /* as struct object_head */
	const struct name *name;
	uint32_t refs;
	const struct name *zone;   /* NULL = no zone; an empty label counts as none (IN-22) */
	bool is_deleting;          /* deletionTimestamp set (HC-08) */
	bool has_autoscaler_taint; /* ToBeDeletedByClusterAutoscaler (HC-08) */
	VEC(struct ip_addr) addrs; /* InternalIPs in order, then ExternalIPs (LIFE-12) */
	VEC(struct ip_prefix) pod_cidrs;
};

struct service_cidr {
	const struct name *ns; /* as struct object_head */
	const struct name *name;
	uint32_t refs;
	VEC(struct ip_prefix) cidrs;
};

enum object_kind {
	OBJECT_KIND_OTHER = 0, /* a kind that vipd does not read */
	OBJECT_KIND_SERVICE,
	OBJECT_KIND_SLICE,
	OBJECT_KIND_NODE,
	OBJECT_KIND_SERVICE_CIDR,
	OBJECT_KIND_LIST, /* "List", "ServiceList", ...: see decode_kind() */
};

/* One object of any kind. */
struct object {
	enum object_kind kind;
	union {
		struct object_head *head; /* NULL: none */
		struct service *service;
		struct slice *slice;
		struct node *node;
		struct service_cidr *cidr;
	};
};

/* A zeroed object with one reference; `kind` is one of the four. */
struct object object_open(enum object_kind kind);
struct object object_ref(const struct object *o);
/* Release the reference `o`, which is empty then. Accepts an empty `o`. */
void object_fini(struct object *o);
/* Release a reference. Accept NULL. */
void service_close(struct service *s);
void slice_close(struct slice *s);
void node_close(struct node *n);
void service_cidr_close(struct service_cidr *c);

/*
 * Sort lists without an order in Kubernetes (endpoints and ports of a slice; addresses
 * and ranges of a service; pod CIDRs of a node) and free spare memory; parse the weights of a
 * service. The model normalises every object that it keeps.
 */
void service_normalise(struct service *s);
void slice_normalise(struct slice *s);
void node_normalise(struct node *n);
/* The first port with this name and protocol in a normalised slice, others follow it; or NULL. */
const struct slice_port *slice_port_find(const struct slice *s, const struct name *name,
					 uint8_t proto);
/*
 * Of the ports with this protocol and number in a normalised slice the i-th one, by name; or NULL.
 * Adds comparisons to `work`.
 */
const struct slice_port *slice_port_at(const struct slice *s, uint8_t proto, uint16_t port,
				       size_t i, uint64_t *work);

/*
 * Equal in all that affects the data plane or is displayed: versions, trigger times and
 * the order of unordered lists do not count (IN-32). Both must be normalised.
 */
bool service_is_equal(const struct service *a, const struct service *b);
bool slice_is_equal(const struct slice *a, const struct slice *b);
/* And their families. */
bool slice_ports_are_equal(const struct slice *a, const struct slice *b);
/* Do two slices have an address in common? Both must be normalised. Adds comparisons to `work`. */
bool slices_overlap(const struct slice *a, const struct slice *b, uint64_t *work);
bool node_is_equal(const struct node *a, const struct node *b);

/*
 * A total order of two struct slice_endpoint by content: address, then usability (ready, serving,
 * other), then names. 0 means that all compared fields are equal.
 */
int slice_endpoint_cmp(const void *a, const void *b);

/*
 * A reference to the place with this content. Takes all references to names; reorders the names of
 * both hints, whose arrays stay the caller's.
 */
struct slice_place *slice_place_make(const struct name *node, const struct name *zone,
				     struct hints zones, struct hints nodes);
struct slice_place *slice_place_ref(struct slice_place *p);
void slice_place_unref(struct slice_place *p);
bool hints_contain(const struct hints *h, const struct name *n);

const char *service_type_text(enum service_type t);
