/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model - the state of the cluster, and the services that a change affects.
 *
 *     sources --put/del--> model --dirty services--> plan
 *
 * One entry (struct svc) exists for every service name that a Service or an
 * EndpointSlice names: the two may arrive in any order (IN-14). A change
 * that alters nothing marks nothing (IN-13, IN-31, IN-32). A slice whose
 * service label changes leaves the old service and enters the new one (IN-36).
 * Entries vanish with their last object (IN-37).
 *
 * Pure: no I/O, no kernel, and no clock except in walk.c. The caller passes the time where needed.
 * Ownership: the model has references to the objects put in. svc pointers are borrowed and
 * stay valid while the entry exists; entries are only freed in model_reap().
 */
#pragma once

#include "base/list.h"
#include "model/object.h"

struct svc_track;

/* One service name: the Service object, its slices, and state of the plan and the sync. */
struct svc {
	struct hnode node; /* in model.services */
	struct list dirty; /* in model.dirty while changes are pending */
	struct list all;   /* in model.all */
	const struct name *ns;
	const struct name *name;
	struct service *service; /* NULL while only slices name it */
	struct list slices;      /* of struct slice_entry, in order of name */
	/* Some of `slices`, in this order: a search for a name starts at one. */
	VEC(struct slice_entry *) marks;
	/*
	 * The plan's rows of this service (plan/rows.h): owned by the plan, the
	 * model only keeps the pointers and does not free an entry that has one.
	 */
	void *rows;
	void *claims; /* the plan's: frontends that this service claims (plan/claims.c) */
	struct svc_track *track; /* of a large service: model/track.h; NULL: none */
	uint32_t n_slices;
	uint32_t service_no;    /* raised when `service` is replaced or deleted */
	uint32_t adopted_load;  /* the sync's: number of the load that last compared this service */
	uint32_t remark;        /* the plane's: hash of the remark in the log; 0 = none */
	uint32_t list_no;       /* last list with `service`: model_list_end() */
	bool is_claimed;        /* the plan's: only endpoints changed since `claims` was made */
	bool is_unchanged;      /* the plan's: nothing changed since plan_claim() */
	bool is_large;          /* the plan's: plan_is_large() then */
	bool is_in_transaction; /* the sync's: taken from the dirty list, outcome open */
	uint64_t dirty_since_ns; /* arrival of the oldest event not yet synced; 0 = clean */
	int64_t trigger_ns; /* oldest trigger time not yet synced, Unix ns; 0 = none (MET-06) */
};

struct slice_entry {
	struct hnode node; /* in model.slices */
	uint32_t list_no;  /* last list with `slice` */
	struct list link;  /* in svc.slices */
	struct svc *svc;
	struct slice *slice;
};

/* How packets from pods are detected (section 6.1). */
enum detect_local {
	DETECT_LOCAL_UNSET = 0, /* not at all */
	DETECT_LOCAL_CLUSTER_CIDR,
	DETECT_LOCAL_NODE_CIDR,
	DETECT_LOCAL_BRIDGE,
	DETECT_LOCAL_PREFIX,
};

#define IFNAME_MAX 16 /* with the terminator; linux/if.h IFNAMSIZ */

/* Decided by flags and configuration; fixed for the life of the model. */
struct model_config {
	const struct name *node_name; /* counted; NULL or empty: nothing is local (EPS-12) */
	enum detect_local detect_local;
	char detect_ifname[IFNAME_MAX]; /* bridge name, or interface name prefix */
	VEC(struct ip_prefix) cluster_cidrs;
	VEC(struct ip_prefix) service_cidrs; /* from flags, beside ServiceCIDR objects */
	bool has_nodeport_cidrs; /* `nodeport_cidrs` is set; false: "primary" (SVC-09) */
	VEC(struct ip_prefix) nodeport_cidrs; /* --nodeport-addresses (SVC-10) */
	struct ip_addr bind_addr[IPFAM_N];    /* --bind-address replaces the node IP (LIFE-14) */
	bool serves_localhost;                /* node ports also on loopback addresses (IPT-12) */
	bool is_masquerade_all;
	bool preserves_local_source; /* external, ETP Cluster, endpoint on this node (MASQ-07) */
	bool is_tcp_liberal;         /* of conntrack: no rule drops INVALID packets (NFT-46) */
	bool no_external_ips;        /* gate AllowServiceExternalIPs off (SVC-13) */
	bool tracks_addrs;           /* model_has_addr(), addr_event(): cost memory */
	int64_t triggers_since_ns;   /* Unix ns; newer trigger times replace older ones (IN-40) */
};

/* Derived from the configuration, the Node, the host's addresses and ServiceCIDRs. */
struct model_env {
	const struct name *zone;            /* NULL = none */
	struct ip_addr node_ip[IPFAM_N];    /* unset = unknown */
	VEC(struct ip_addr) nodeport_addrs; /* concrete addresses that serve node ports, sorted */
	VEC(struct ip_prefix) pod_cidrs;    /* sources of pods; empty: see has_detector */
	bool has_detector[IPFAM_N];
	VEC(struct ip_prefix) service_cidrs; /* sorted, no prefix inside another */
	/* The source has not listed them yet: those in the kernel stay (IN-20). */
	bool keeps_pod_cidrs;
	bool keeps_service_cidrs;
};

/* See model/drain.h. */
struct model_drain {
	const struct name *ns; /* counted */
	const struct name *name;
	struct ip_addr addr;
	char *pod; /* NULL = unknown */
};

/* See model/eject.h. */
struct model_ejection {
	const struct name *ns; /* counted */
	const struct name *name;
	struct ip_addr addr;
	uint16_t port;     /* of TCP; 0 = all ports and protocols of the address */
	bool is_manual;    /* by an operator, until one admits it; the rest is 0 then */
	uint32_t failed;   /* TCP handshakes in a row, unanswered or refused */
	uint32_t refused;  /* of these */
	uint64_t since_ns; /* now_ns() */
	uint64_t probe_ns; /* time of the next probe */
};

/* An object event, for vipctl monitor and the history. */
struct model_event {
	enum object_kind kind; /* OTHER: the addresses of the host */
	bool is_delete;
	bool does_matter;      /* the desired state may change */
	const struct name *ns; /* NULL where there is none; names are borrowed */
	const struct name *name;
	const struct name *service; /* of a slice, else NULL */
	size_t endpoints_before;    /* of a slice */
	size_t endpoints_after;
	uint64_t at_ns;
};

struct model_stats {
	size_t services; /* Service objects */
	size_t slices;
	size_t endpoints;        /* entries of all slices */
	size_t other_nodes;      /* Node objects of other nodes in manifests; the source's */
	uint64_t service_events; /* Service events received, effective or not (MET-13) */
	uint64_t slice_events;   /* EndpointSlice events received, effective or not (MET-11) */
	uint64_t addrs_compared; /* by slice events that only change the version */
};

struct model {
	struct model_config config;
	struct model_env env;
	struct htable services;
	struct htable slices;
	struct htable addrs;    /* of all endpoints; only with config.tracks_addrs */
	struct list dirty;      /* services with pending changes, in order of first change */
	uint64_t n_changed;     /* how often a service became dirty, or !is_unchanged while dirty */
	bool has_changes_first; /* the sync's: changes go to the head of `dirty` (adoption) */
	struct list all;        /* every entry; callers that walk it in steps may rotate it */
	struct node *self;      /* own Node object or NULL */
	bool has_node_list;     /* of a source: model_await_node() was called */
	bool is_node_awaited;   /* model_await_node() */
	bool are_cidrs_awaited; /* model_await_service_cidrs() */
	VEC(struct service_cidr *) service_cidrs;
	VEC(struct ip_addr) host_addrs;    /* that could serve node ports, in order of arrival */
	VEC(struct ip_addr) host_sorted;   /* all, each once, for model_is_host_addr() */
	VEC(struct ip_addr) host_expected; /* model_expect_host_addrs() */
	bool has_nodeports[IPFAM_N];       /* some service has, or had, node ports of the family */
	/* Ports that the kernel gives to clients of this host, a bit each; NULL: none */
	uint64_t *client_ports;
	uint64_t env_generation;        /* raised whenever env changes; the sync compares it */
	VEC(struct model_drain) drains; /* in order of request */
	VEC(struct model_ejection) ejections;
	uint32_t list_no[OBJECT_KIND_LIST];    /* of each kind */
	uint64_t n_unlisted[OBJECT_KIND_LIST]; /* services and slices that this list lacks so far */
	struct model_stats stats;
	/* Called after every object event. NULL: no subscriber. */
	void (*event)(void *arg, const struct model_event *event);
	void *event_arg;
	/*
	 * With config.tracks_addrs: an address has entered its first slice, or left its last one.
	 * Called within the object event. NULL: no subscriber.
	 */
	void (*addr_event)(void *arg, const struct ip_addr *addr, bool is_listed);
	void *addr_event_arg;
};

void model_init(struct model *m);
/* Also frees config's lists and node_name. All rows must have been released. */
void model_fini(struct model *m);
/* Call once, after config is filled and before the first object. */
void model_configured(struct model *m);

/*
 * Objects enter and leave. The model refers to the content of `o`, which is normalised. If it has
 * an equal service or slice already, that one replaces the content of `o`. `ns` is NULL for kinds
 * without namespace. `at_ns` is the event's arrival, for latency only. Return 1 when anything that
 * matters changed, 0 when not.
 *
 * Nodes other than our own are ignored. A deleted Node keeps its last state (IN-24) except
 * for its eligibility (HC-08).
 */
int model_put(struct model *m, struct object *o, uint64_t at_ns);
int model_del(struct model *m, enum object_kind kind, const struct name *ns,
	      const struct name *name, uint64_t at_ns);
/*
 * A complete list of all services or slices (`kind`): model_list_end() deletes those that were
 * neither put nor kept since model_list_begin(), and returns how many of the deletions matter. No
 * effect on other kinds. model_list_keep() keeps the version in the model; false: the model has
 * none.
 */
void model_list_begin(struct model *m, enum object_kind kind);
bool model_list_keep(struct model *m, enum object_kind kind, const struct name *ns,
		     const struct name *name);
size_t model_list_end(struct model *m, enum object_kind kind, uint64_t at_ns);
/*
 * The addresses of this host, from rtnetlink; the list is copied. The last `n_service` are service
 * addresses that another proxy has bound; all others could serve node ports. The first address of a
 * family is what "primary" falls back to when there is neither a Node nor --bind-address.
 */
int model_put_host_addrs(struct model *m, const struct ip_addr *addrs, size_t n, size_t n_service,
			 uint64_t at_ns);
/*
 * Addresses of this host at which a cluster IP is no fault. The list is copied; call it before
 * model_put_host_addrs().
 */
void model_expect_host_addrs(struct model *m, const struct ip_addr *addrs, size_t n);
/*
 * A source has a list of Nodes. `is_awaited`: it is not received yet, or the Node has no addresses
 * yet: node ports do not fall back to the host's addresses. From the first call on, a Node without
 * addresses or pod CIDRs has those of the last copy. Returns whether `is_awaited` is news.
 */
bool model_await_node(struct model *m, bool is_awaited, uint64_t at_ns);
/*
 * Likewise: a source has a list of ServiceCIDRs, which is not received yet. With manifests: some of
 * the objects are not known; so is the Node, if there is none.
 */
bool model_await_service_cidrs(struct model *m, bool is_awaited, uint64_t at_ns);

struct svc *model_find(const struct model *m, const struct name *ns, const struct name *name);
struct slice_entry *model_find_slice(const struct model *m, const struct name *ns,
				     const struct name *name);
/*
 * "IPv6 node ports are not served: ...", a constant for each reason. NULL: they are, the node has
 * no address of the family, or, on primary addresses (SVC-09), no service has needed them yet.
 */
const char *model_nodeports_failure(const struct model *m, enum ipfam fam);
/* Does the family serve node ports on its loopback address? */
bool model_serves_localhost(const struct model *m, enum ipfam fam);
/*
 * Ports that the kernel gives to clients of this host. They are no node ports on loopback
 * addresses: rules there see packets before connection tracking, and cannot distinguish the answers
 * to such a client. Set before the first object.
 */
bool model_is_client_port(const struct model *m, uint16_t port);
void model_client_port_put(struct model *m, uint16_t port, bool is_client);
/* Is `a` an address of this host? Loopback and link-local addresses are not listed. */
bool model_is_host_addr(const struct model *m, const struct ip_addr *a);
/* The first cluster IP of `s` that is an address of this host, and not an expected one, or NULL. */
const struct ip_addr *model_host_cluster_ip(const struct model *m, const struct service *s);
/* Is `a` an endpoint in any slice, ready or not? Only with config.tracks_addrs. */
bool model_has_addr(const struct model *m, const struct ip_addr *a);
/* Look up by text without interning; NULL when unknown. */
struct svc *model_find_text(const struct model *m, const char *ns, const char *name);

/* Mark changes of `svc` as pending; idempotent. The plan marks services a change displaces. */
void model_mark_dirty(struct model *m, struct svc *svc, uint64_t at_ns);
/* The kernel state of `svc` has to change, but not what it claims: mark it dirty. */
void model_mark_displaced(struct model *m, struct svc *svc);
/* The sync of `svc` is done: no longer dirty. Frees the entry if it has become empty. */
void model_clean(struct model *m, struct svc *svc);
/* Free `svc` if it has no object, no slice, no rows and is not dirty. */
void model_reap(struct model *m, struct svc *svc);
/* All entries sorted by namespace and name; caller frees the array with free(). */
struct svc **model_sorted(const struct model *m, size_t *n);
