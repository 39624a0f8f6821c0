/* SPDX-License-Identifier: GPL-2.0-or-later */
/*  plane/ipvs/state - the plane, and its virtual services as desired and as programmed. */
#pragma once

#include "base/htable.h"
#include "base/list.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/tuning.h"
#include "plane/common.h"
#include "plane/ipvs/layout.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/translate.h"

enum ipvs_dst_flags {
	DST_PROGRAMMED = 1 << 0, /* the kernel has it */
	DST_DRAINING = 1 << 1,   /* gets no new connections, to be deleted */
	DST_DIFFERS = 1 << 2,    /* programmed with limits */
	DST_NEW = 1 << 3,        /* made by the commit under way */
	DST_TOUCHED = 1 << 4,    /* the commit under way names it */
	DST_COUNTED = 1 << 5,    /* `active` and `inactive` are known */
	DST_RECENT = 1 << 6,     /* acknowledged while the service is being read (ipvs_large) */
};

/* A destination of a virtual service. */
struct ipvs_dst {
	struct ip_addr addr;
	uint16_t port;
	uint8_t flags;
	uint8_t was_flags;           /* before the commit under way, if it is touched ... */
	uint16_t was_desired_weight; /* ... this, too */
	bool is_serving;             /* at the last reading of the slices (drain.c) ... */
	bool is_unlimited;           /* ... and drains without a deadline meanwhile */
	uint16_t weight;             /* programmed */
	uint16_t desired_weight;     /* 0: not desired */
	uint32_t fwd;                /* programmed; as in nl/ipvs.h */
	uint32_t since_s;            /* CLOCK_BOOTTIME: start of its drain; 0 = not draining */
	uint32_t deadline_s;         /* CLOCK_BOOTTIME: the end of its drain; 0 = no timeout */
	uint32_t gone_s; /* CLOCK_BOOTTIME: no slice has listed the address since then; 0 = none */
	uint32_t active; /* while draining, at the last check */
	uint32_t inactive;
	uint32_t place; /* in the kernel's list at that check */
};
BEGINS_LIKE_ENDPOINT(struct ipvs_dst);
BEGINS_LIKE_ENDPOINT(struct ipvs_dest);

/*
 * Stored as the deadline of a draining backend that still serves: its drain timeout starts when it
 * no longer serves.
 */
#define IPVS_DRAIN_UNLIMITED (IPVS_THRESH_NONE - 1)

static inline bool ipvs_dst_has_deadline(const struct ipvs_dst *d)
{
	return d->deadline_s != 0 && d->deadline_s != IPVS_DRAIN_UNLIMITED;
}

struct ipvs_desired {
	struct ipvs_vs *pool; /* of a VIP:port service, while it is desired */
	bool exists;
	bool is_vip_only; /* not in the kernel: all clients reach the pool through its VIP:port
			     services */
	struct scheduler sched;
	uint32_t timeout_s;  /* 0 = no persistence */
	uint32_t forwarding; /* of a VIP:port service; as in model/tuning.h */
};

/* A virtual service. */
struct ipvs_vs {
	struct hnode node; /* in plane.vss */
	struct ipvs_key key;
	struct list draining;     /* in plane.draining while the service or a destination is to be
				     deleted, or the service differs */
	struct list touched;      /* in plane.touched: part of the commit under way */
	struct list sibling;      /* of a VIP:port service: in `vip_services` of its pool */
	struct list vip_services; /* of a pool with affinity or forwarding */
	struct ipvs_desired desired;
	struct ipvs_desired was; /* before the commit under way, if it is touched */
	const struct name *ns;   /* Service it belongs to, for logs; NULL: unknown */
	const struct name *name;
	uint32_t drain_s;
	uint8_t proto;         /* enum l4proto; 0 = unknown, of a mark found in the kernel */
	bool is_of_cluster_ip; /* at the load: a frontend of a cluster IP leads to it */
	bool is_referenced;    /* programmed.c has printed it at a frontend */
	bool is_programmed;
	bool is_whole;            /* the commit names all its destinations */
	bool is_part;             /* ... of a large service: only those that it names are added */
	bool is_new;              /* added by the commit under way */
	bool is_swept;            /* by ipvs_ops_sweep() */
	bool is_kept;             /* not for sweep(): rejected at the load, or excluded */
	bool is_foreign;          /* the kernel has a foreign service with this key */
	bool is_read;             /* for the audit under way, by ipvs_audit_read() */
	bool is_awaited;          /* the audit waits for the read under way */
	bool is_verified;         /* a large service is being read for PLANE_COMMIT_VERIFY */
	bool has_serving;         /* the commit under way has read is_serving of destinations */
	uint64_t events_seen;     /* of the model, when a draining UDP service was last compared */
	uint32_t n_lacking;       /* of an adopted pool: backends that the kernel lacked */
	uint8_t programmed_sched; /* 0: unknown, or none after a rejected change */
	uint32_t programmed_flags;
	uint32_t programmed_timeout_s;
	struct svc *svc;            /* of the commit under way */
	VEC(struct ipvs_dst) dests; /* sorted by address and port */
};

/* Should the kernel have the virtual service? */
static inline bool ipvs_vs_is_desired(const struct ipvs_vs *vs)
{
	return vs->desired.exists && !vs->desired.is_vip_only;
}

/* Return whether the kernel has a desired destination in its desired state. */
static inline bool ipvs_dst_is_good(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	return d->flags & DST_PROGRAMMED && !(d->flags & (DST_DIFFERS | DST_DRAINING)) &&
	       d->weight == d->desired_weight && d->fwd == vs->desired.forwarding &&
	       d->since_s == 0;
}

/* Listed virtual services; destinations of those from `at` on are not read yet. */
struct ipvs_list {
	struct ipvs_services all;
	size_t at;
	struct ipvs_vs *vs;      /* its destinations are being read; NULL: none */
	struct ipvs_dests found; /* those of `vs` so far */
	uint32_t seq;
};

/* Destinations of one large service, read in steps while commits go on. */
struct ipvs_large {
	struct ipvs_wire *wire; /* a second socket: a dump takes several steps */
	struct ipvs_vs *vs;     /* NULL: none */
	struct ipvs_dests found;
	uint32_t seq;
	uint32_t n_restarts;
	bool is_stale; /* a destination was deleted: the dump may have left out another one */
};

/*
 * Numbers of previous values in the map `remembered`; those of sysctls are in ipvs_sysctls. A
 * number never changes its meaning.
 */
#define IPVS_PREVIOUS_TIMEOUTS 6 /* three */
#define IPVS_PREVIOUS_TAG 9      /* of an earlier --ipvs-mark */
#define IPVS_PREVIOUS_N 11

struct ipvs_plane {
	struct plane_common common; /* first: plane/common.h */
	struct ipvs_config config;
	/* As configured; of a plane that retires, or is only read, as in the kernel. */
	struct ipvs_route_config routing;
	struct scheduler sched; /* the default */
	struct ipvs_wire *wire;
	struct ipvs_large large;
	struct nl_sock *route;
	struct nl_sock *rules; /* or NULL */
	struct ipvs_layout layout;
	struct htable vss;
	struct list draining;
	struct list touched; /* virtual services: by the commit under way */
	VEC(struct ipvs_op) ops;
	/* State of load(). `query` has no other use meanwhile. */
	struct {
		struct plane_loaded *loaded; /* NULL: no load is under way */
		struct ipvs_list services;
		enum ipfam fam; /* the next set to read */
		enum nft_set_id set;
		struct nft_walk walk;
		uint32_t genid;
	} load;
	const struct model *model;
	uint32_t previous[IPVS_PREVIOUS_N]; /* each value plus one (sysctl.c); 0 = unknown */
	bool has_sysctls;        /* this process has set them: a difference is a foreign change */
	uint32_t missing_scheds; /* bits by scheduler number, since the load: the kernel lacks the
				    module */
	bool is_sched_replaced;  /* a missing one, of an operation that was sent */
	size_t n_renewed;        /* schedulers, by the commit or tick under way */
	size_t n_deleted[2];     /* destinations: in this period, and in the one before */
	uint64_t deleted_at;     /* end of the period */
	uint64_t tick_at;
	uint64_t round_at;         /* start of the round of checks over `draining` */
	size_t n_round;            /* services not yet checked in this round */
	size_t n_compared;         /* endpoints of the model, with draining backends ... */
	uint64_t n_ports_compared; /* ... and ports of their slices; so far */
	uint64_t routes_at;
	bool is_retiring; /* another plane serves, see plane.h retire */
	uint64_t retire_until;
	struct plane_drains drained; /* without n_draining */
};

static inline struct ipvs_plane *ipvs_plane_of(struct plane *p)
{
	return container_of(p, struct ipvs_plane, common.plane);
}

/* Settings of a Service: its annotations, else the configuration. */
struct ipvs_tuning {
	struct scheduler sched;
	uint32_t drain_s;
};
/* Slots of mh's table, unless the kernel was built with another number. */
#define IPVS_MH_DESTS_MAX 4093
/* By the annotations of a service (NULL: none), if they are valid, else the default. */
struct scheduler ipvs_sched_of(const struct service *s, struct scheduler by_default);
/*
 * Scheduler of a virtual service with `n` destinations. `by_mark_s`: affinity, if it is one by
 * mark: it hashes client addresses in place of persistence, if the kernel can (`missing`: bits by
 * number). mh with more destinations than slots is replaced by the default.
 */
struct scheduler ipvs_sched_in_force(struct scheduler sched, struct scheduler by_default,
				     uint32_t by_mark_s, size_t n, uint32_t missing);
/*
 * Can a request for this scheduler stop the kernel? Modules lblc and lblcr must be loaded before
 * (doc/design/0007-ipvs-plane.md, Limits): net/netfilter/ipvs/ip_vs_ctl.c (__ip_vs_mutex),
 * net/core/net_namespace.c (pernet_ops_rwsem).
 */
bool ipvs_sched_is_unsafe(const struct ipvs_plane *p, uint8_t no);
/* Was the module of a missing scheduler loaded meanwhile? */
bool ipvs_sched_is_loaded(const struct ipvs_plane *p);
/*
 * Fill `ret` with the settings in force. An unsupported setting is replaced by the default and, if
 * `remark` is not NULL, described there.
 */
void ipvs_tuning_read(struct ipvs_tuning *ret, const struct ipvs_plane *p, const struct service *s,
		      struct str *remark);
void ipvs_remark(const struct plane *plane, const struct svc *svc, struct str *ret);

/* CLOCK_BOOTTIME: not settable, and it starts with the kernel, as the state of IPVS does. */
uint32_t ipvs_now_s(const struct ipvs_plane *p);

/* --- vs.c --- */

static inline struct ipvs_key ipvs_key_mark(enum ipfam fam, uint32_t mark)
{
	return (struct ipvs_key){ .fam = (uint8_t)fam, .mark = mark };
}
static inline struct ipvs_key ipvs_key_vip(const struct ip_addr *addr, uint8_t proto, uint16_t port)
{
	return (struct ipvs_key){
		.fam = (uint8_t)ip_fam(addr), .proto = proto, .port = port, .addr = *addr
	};
}
struct ipvs_vs *ipvs_vs_find(const struct ipvs_plane *p, struct ipvs_key key);
static inline struct ipvs_vs *ipvs_vs_by_mark(const struct ipvs_plane *p, enum ipfam fam,
					      uint32_t mark)
{
	return ipvs_vs_find(p, ipvs_key_mark(fam, mark));
}
/* By the mark of the pool; NULL: none. */
struct ipvs_vs *ipvs_vs_of_pool(const struct ipvs_plane *p, const struct plan_pool *pool);
/* Of its destinations that do not drain, by the first one; NULL: masquerade. */
uint32_t ipvs_vs_forwarding(const struct ipvs_vs *vs);
/* Creates the service if there is none. */
struct ipvs_vs *ipvs_vs_get(struct ipvs_plane *p, struct ipvs_key key);
/* The kernel has the service like this. */
void ipvs_vs_programmed(struct ipvs_vs *vs, const struct ipvs_service *s);
/* Not desired; one that is programmed is foreign to vipd until ipvs_vs_read(), or the next load. */
void ipvs_vs_free(struct ipvs_plane *p, struct ipvs_vs *vs);
void ipvs_vss_clear(struct ipvs_plane *p);
/* Position of the first destination that is not before `at`, which begins like an ip_endpoint. */
size_t ipvs_dst_place(const struct ipvs_vs *vs, const void *at);
/* The destination at `at`, which begins like an ip_endpoint. */
struct ipvs_dst *ipvs_dst_find(const struct ipvs_vs *vs, const void *at);
/* Creates the destination if there is none, which invalidates pointers to others of `vs`. */
struct ipvs_dst *ipvs_dst_get(struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port);
/* List the virtual services of the kernel, and clear p->vss. */
MUST_USE int ipvs_vss_list(struct ipvs_plane *p, struct ipvs_list *l, struct err *err);
/*
 * Read vipd's services of the list with destinations, about IPVS_READ_DESTS a call. 1: call it
 * again; until then p->wire has no other use.
 */
#define IPVS_READ_DESTS 2000
#define IPVS_READ_REQUEST 16 /* work of a request, in destinations */
MUST_USE int ipvs_vss_read(struct ipvs_plane *p, struct ipvs_list *l, struct err *err);
/* Read one service with its destinations. */
MUST_USE int ipvs_vs_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err);
/* Read the destinations; of a large service as ipvs_large_read(). */
MUST_USE int ipvs_dests_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err);
static inline bool ipvs_vs_is_large(const struct ipvs_vs *vs)
{
	return vs->dests.n > IPVS_READ_DESTS;
}
/*
 * Read a large service, about IPVS_READ_DESTS destinations a call. 0: done. 1: more left, or
 * another service is being read. -EAGAIN: destinations were deleted during each of some attempts.
 */
MUST_USE int ipvs_large_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err);
/* plane_ops.audit_read */
MUST_USE int ipvs_audit_read(struct plane *plane, const struct plan_rows *rows, size_t *part,
			     struct err *err);

/*
 * Work of an operation on a destination behind `n` others, in elements of nf_tables. `vs`: NULL if
 * it does not exist yet.
 */
size_t ipvs_dests_work(const struct ipvs_vs *vs, size_t n);
/* plane_ops.backend_work */
size_t ipvs_backend_work(const struct plane *plane, const struct svc *svc,
			 const struct plan_pool *pool, const struct plan_frontend *leading,
			 size_t n_leading);

/* --- translate.c --- */

/* plan_traits.pool_class */
uint16_t ipvs_pool_class(size_t n, uint32_t affinity_s);
/* For plane_translate(). */
void ipvs_translate(struct plane_tr *t, const struct plan_op *op);
/* Make a service part of the commit under way: save what is desired of it for the undo. */
void ipvs_vs_touch(struct ipvs_plane *p, struct ipvs_vs *vs, struct svc *svc);

/* --- commit.c --- */

MUST_USE int ipvs_commit(struct plane *plane, const struct plan_op *ops, size_t n,
			 enum plane_commit_mode mode, struct plane_result *res, struct err *err);
/*
 * Start to drain the services and destinations of the loaded phase that are not desired, in steps.
 * 1: call it again.
 */
MUST_USE int ipvs_ops_sweep(struct ipvs_plane *p, struct plane_result *res, struct err *err);
/* End of a commit. */
void ipvs_ops_done(struct ipvs_plane *p);
/* Send p->ops and record their results. */
MUST_USE int ipvs_ops_send(struct ipvs_plane *p, struct plane_result *res, struct err *err);
void ipvs_op_dest(struct ipvs_plane *p, uint8_t cmd, struct ipvs_vs *vs, const struct ipvs_dst *d,
		  uint32_t weight);
/* Set start and deadline (0: none) of the drain, and weight 0 unless the plane retires. */
void ipvs_op_drain(struct ipvs_plane *p, struct ipvs_vs *vs, const struct ipvs_dst *d,
		   uint32_t since_s, uint32_t deadline_s);
void ipvs_op_service(struct ipvs_plane *p, uint8_t cmd, struct ipvs_vs *vs);
/* Has the programmed service another scheduler, flags or timeout than desired? */
bool ipvs_vs_differs(const struct ipvs_plane *p, const struct ipvs_vs *vs);
/*
 * Renew a service that differs. For another scheduler the kernel waits 10 to 40 ms: a commit
 * changes so many, the ticks that follow change the others, one each.
 */
#define IPVS_RENEWALS 8
void ipvs_op_service_renew(struct ipvs_plane *p, struct ipvs_vs *vs);

/* --- drain.c --- */

/* Deadline of a drain; 0 = none. */
uint32_t ipvs_drain_deadline(uint32_t since_s, uint32_t drain_s);
/* Start to drain a destination: appends an operation. True if that deletes the destination. */
bool ipvs_drain_begin(struct ipvs_plane *p, struct ipvs_vs *vs, struct ipvs_dst *d);
/* Append operations for draining destinations with another drain timeout, or a foreign weight. */
void ipvs_drain_retime(struct ipvs_plane *p, struct ipvs_vs *vs);
/*
 * Add the service to p->draining if it or a destination waits to be deleted, or if it differs from
 * the desired one.
 */
void ipvs_drain_watch(struct ipvs_plane *p, struct ipvs_vs *vs);
uint64_t ipvs_drain_tick(struct ipvs_plane *p, uint64_t now);
/* plane_ops.draining, .drains */
void ipvs_drain_each(const struct plane *plane, const struct svc *svc,
		     void (*fn)(void *arg, const struct plane_draining *l), void *arg);
void ipvs_drain_count(const struct plane *plane, struct plane_drains *ret);

/* --- loaded.c --- */

void ipvs_loaded_open(struct plane_loaded **ret);
void ipvs_loaded_close(struct plane_loaded *c);
/* Read the next elements into p->load.loaded. 1: more left. */
MUST_USE int ipvs_loaded_read(struct ipvs_plane *p, struct err *err);
/*
 * Set protocol and is_of_cluster_ip of services that frontends lead to; those at excluded addresses
 * are vipd's, too.
 */
void ipvs_loaded_set_frontends(const struct plane_loaded *c, struct ipvs_plane *p);
/* The tag of the marks in the maps; 0: the maps are empty. */
uint32_t ipvs_loaded_tag(const struct plane_loaded *c);
/* Does any frontend use the protocol? */
bool ipvs_loaded_has_protocol(const struct plane_loaded *c, uint8_t proto);
/* plane_ops.adopt */
void ipvs_adopt(struct plane *plane, struct plan *plan, struct plan_rows *rows);

/* --- sysctl.c --- */

/* plane_ops.prepare. Does not save previous values: there is no table yet. */
MUST_USE int ipvs_sysctls_prepare(struct plane *plane, struct err *err);

/*
 * Read the previous values that the table has; others in `previous` stay. Called for p->previous
 * before the table is replaced.
 */
MUST_USE int ipvs_previous_read(struct ipvs_plane *p, uint32_t previous[static IPVS_PREVIOUS_N],
				struct err *err);

/* Set the sysctls and timeouts; their previous values go into the table, once. */
MUST_USE int ipvs_sysctls_apply(struct ipvs_plane *p, struct plane_result *res, struct err *err);
/* Repair foreign changes. */
void ipvs_sysctls_watch(struct ipvs_plane *p);
/* No virtual service of an earlier --ipvs-mark is left: others may use that mark. */
MUST_USE int ipvs_sysctls_forget_tag(struct ipvs_plane *p, struct err *err);
/* Restore the values in p->previous. `is_last`: only that of expire_nodest_conn, else all others.
 */
void ipvs_sysctls_restore(struct ipvs_plane *p, bool is_last);

/* --- programmed.c: plane_ops.balancing --- */

plan_balancing_fn ipvs_explain_balancing;
