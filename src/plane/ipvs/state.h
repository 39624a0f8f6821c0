/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/state - what the parts of the plane share: virtual services as they are
 * held and wanted, and the plane itself.
 */
#pragma once

#include "base/htable.h"
#include "base/list.h"
#include "base/str.h"
#include "base/vec.h"
#include "nft/change.h"
#include "nft/keymap.h"
#include "nft/refs.h"
#include "nft/watch.h"
#include "nl/batch.h"
#include "plane/ipvs/layout.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/ipvs/sched.h"

enum ipvs_dst_flags {
	DST_WANTED = 1 << 0,
	DST_HELD = 1 << 1,    /* the kernel has it */
	DST_LEAVING = 1 << 2, /* weight 0, to be deleted */
	DST_ODD = 1 << 3,     /* the kernel has it, but not as we make them */
	DST_NEW = 1 << 4,     /* made by the commit under way */
	DST_QUEUED = 1 << 5,  /* the commit under way has an operation for it */
	DST_LOOKED = 1 << 6,  /* since it leaves: `active` and `inactive` are known */
};

/* A destination of a virtual service. */
struct ipvs_dst {
	struct ip_addr addr;
	uint16_t port;
	uint8_t flags;
	uint16_t weight; /* held */
	uint16_t want_weight;
	uint32_t since_s;    /* CLOCK_BOOTTIME: it began to drain; 0 = it does not */
	uint32_t deadline_s; /* CLOCK_BOOTTIME: the end of its drain; 0 = none */
	uint32_t active;     /* while leaving, as of the last look */
	uint32_t inactive;
};

/* A virtual service. */
struct ipvs_vs {
	struct hnode node; /* in plane.vss */
	struct ipvs_key key;
	struct list leaving;   /* in plane.leaving while destinations, or it itself, are to go */
	struct list sibling;   /* of a VIP:port service: in its pool's `classics` */
	struct list classics;  /* of a pool with affinity */
	struct ipvs_vs *pool;  /* of a VIP:port service, while it is wanted */
	const struct name *ns; /* whom it serves, for people; NULL: unknown */
	const struct name *name;
	uint32_t drain_s;
	uint8_t proto; /* enum l4proto; 0 = unknown, of a mark found in the kernel */
	bool is_wanted;
	bool is_held;
	bool is_shadow;  /* a pool that only its VIP:port services balance: not in the kernel */
	bool is_touched; /* by the commit under way */
	bool is_whole;   /* the commit names all it shall hold */
	bool is_new;     /* made by it */
	bool is_spared;  /* of a service that was refused while the kernel was compared */
	bool is_foreign; /* read: the kernel has one with this key that is not vipd's */
	struct ipvs_sched sched; /* wanted */
	uint32_t timeout_s;      /* wanted; 0 = no persistence */
	uint8_t held_sched;
	uint32_t held_flags;
	uint32_t held_timeout_s;
	struct svc *svc;            /* of the commit under way */
	VEC(struct ipvs_dst) dests; /* sorted by address and port */
};

/* How something was before the commit under way. */
struct ipvs_undo {
	struct ipvs_vs *vs;
	bool is_dst;
	struct ip_addr addr;
	uint16_t port;
	uint8_t flags; /* of the destination */
	uint16_t want_weight;
	/* of the service */
	bool is_wanted;
	bool is_shadow;
	struct ipvs_sched sched;
	uint32_t timeout_s;
	struct ipvs_vs *pool;
};

/* Virtual services as they were listed; those from `at` on are to be read. */
struct ipvs_list {
	VEC(struct ipvs_service) v;
	size_t at;
};

/* Elements of our table as the kernel has them; loaded phase only. */
struct ipvs_copy {
	struct nft_keymap sets[IPFAM_N][NFTSET_END]; /* key -> data and one byte: asked for */
	struct plan *plan;                           /* who was told of the ids; NULL: nobody */
};

/* Sysctls, and what they were: see sysctl.c. */
#define IPVS_SYSCTLS 6
#define IPVS_EARLIER_TAG (IPVS_SYSCTLS + 3) /* behind the timeouts: of an earlier --ipvs-mark */
#define IPVS_REMEMBERED (IPVS_EARLIER_TAG + 1)

struct ipvs_plane {
	struct plane plane; /* first: plane.h */
	struct ipvs_config config;
	struct ipvs_marks marks;
	struct ipvs_sched sched; /* the default */
	struct ipvs_route_config route_config;
	struct ipvs_wire *wire;
	struct nl_sock *cmd;
	struct nl_sock *query;
	struct nl_sock *route;
	struct nl_batch *batch;
	struct ipvs_layout *layout;
	struct nft_changes changes;
	struct nft_refs vips[IPFAM_N];
	struct nft_refs cluster_ips[IPFAM_N];
	struct nft_refs hairpins[IPFAM_N];
	struct htable vss;
	struct list leaving;
	VEC(struct ipvs_vs *) touched;
	VEC(struct ipvs_undo) undo;
	VEC(struct ipvs_op) ops;
	struct ipvs_copy *loaded;
	/* load() under way: what was read so far. `query` has no other use then. */
	struct {
		struct ipvs_copy *loaded; /* NULL: none is */
		struct ipvs_list services;
		enum ipfam fam; /* the set that is read */
		enum nft_set_id set;
		struct nft_walk walk;
		uint32_t genid;
	} load;
	const struct model *model;
	struct nl_sock *watch_nl; /* or NULL */
	struct nft_watch watch;
	bool is_genid_known;
	uint32_t genid;
	uint64_t env_generation;
	bool has_env;
	uint32_t was[IPVS_REMEMBERED]; /* as sysctl.c has it: each value plus one; 0 = unknown */
	bool has_sysctls;              /* set by this process: a change is a foreign one */
	uint32_t missing_scheds;       /* bits by number: the kernel has no such module */
	uint64_t tick_at;
	uint64_t round_at;    /* when the look at `leaving` under way began */
	size_t n_unlooked;    /* services that it has not come to */
	uint64_t events_seen; /* of objects, when flows of datagrams were last thought of */
	uint64_t routes_at;
	bool is_retiring; /* another plane serves, see plane.h retire */
	uint64_t retire_until;
	struct ipvs_plane_stats stats;
};

static inline struct ipvs_plane *ipvs_plane_of(struct plane *p)
{
	return container_of(p, struct ipvs_plane, plane);
}

/* The counter of a counted set; NULL for others. */
static inline struct nft_refs *ipvs_refs(struct ipvs_plane *p, enum ipfam fam, enum nft_set_id set)
{
	return set == IPVSSET_VIPS          ? &p->vips[fam]
	       : set == IPVSSET_CLUSTER_IPS ? &p->cluster_ips[fam]
	       : set == IPVSSET_HAIRPINS    ? &p->hairpins[fam]
					    : NULL;
}

/* Are its keys frontends: address . protocol . port? */
static inline bool ipvs_set_is_by_tuple(enum nft_set_id set)
{
	return set == IPVSSET_FE || set == IPVSSET_FE_IN || set == IPVSSET_FE_OUT ||
	       set == IPVSSET_GUARDED || set == IPVSSET_MASQ || set == IPVSSET_MASQ_HOSTS ||
	       set == IPVSSET_IDLE || set == IPVSSET_COUNTED || set == IPVSSET_REFUSED;
}

/* What a service's annotations, or else the configuration, say. */
struct ipvs_tuning {
	struct ipvs_sched sched;
	uint32_t drain_s;
};
/*
 * Fill `ret` with what is in force. What cannot be honoured is replaced by the default
 * and, if `remark` is not NULL, told there.
 */
void ipvs_tuning_read(struct ipvs_tuning *ret, const struct ipvs_plane *p, const struct service *s,
		      struct str *remark);

/* CLOCK_BOOTTIME: IPVS and its deadlines outlive the process, not the kernel; no one sets it. */
uint32_t ipvs_now_s(const struct ipvs_plane *p);

/* --- vs.c --- */

struct ipvs_key ipvs_key_mark(enum ipfam fam, uint32_t mark);
struct ipvs_key ipvs_key_vip(const struct ip_addr *addr, uint8_t proto, uint16_t port);
struct ipvs_vs *ipvs_vs_find(const struct ipvs_plane *p, const struct ipvs_key *key);
/* Made when there is none. */
struct ipvs_vs *ipvs_vs_get(struct ipvs_plane *p, const struct ipvs_key *key);
/* Nobody wants it and the kernel does not have it. */
void ipvs_vs_free(struct ipvs_plane *p, struct ipvs_vs *vs);
void ipvs_vss_clear(struct ipvs_plane *p);
struct ipvs_dst *ipvs_dst_find(const struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port);
/* Made when there is none; pointers to others of this service are stale then. */
struct ipvs_dst *ipvs_dst_get(struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port);
/* Read the list of virtual services, and forget those that are known. */
MUST_USE int ipvs_vss_list(struct ipvs_plane *p, struct ipvs_list *l, struct err *err);
/* Those of the list that are ours, with destinations, a few at a time. 1: there are more. */
#define IPVS_READ_DESTS 2000
MUST_USE int ipvs_vss_read(struct ipvs_plane *p, struct ipvs_list *l, struct err *err);
/* One service again. */
MUST_USE int ipvs_vs_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err);

/* --- translate.c --- */

MUST_USE int ipvs_translate(struct ipvs_plane *p, const struct plan_op *ops, size_t n,
			    struct svc **culprit, struct err *err);
/* Mark a service as part of the commit under way, and remember how it was. */
void ipvs_vs_touch(struct ipvs_plane *p, struct ipvs_vs *vs, struct svc *svc);

/* --- servers.c: what IPVS is told --- */

/* What is wanted and not held. On failure `culprit` is who the kernel refused. */
MUST_USE int ipvs_servers_add(struct ipvs_plane *p, struct plane_result *res, struct err *err);
/* What is held and not wanted begins to leave. */
MUST_USE int ipvs_servers_remove(struct ipvs_plane *p, struct plane_result *res, struct err *err);
/*
 * The commit failed: wants are as they were, and what was added goes. `is_refused`: in the loaded
 * phase the sweep spares what the kernel has of these services.
 */
void ipvs_servers_undo(struct ipvs_plane *p, bool is_refused);
/* The commit is over. */
void ipvs_servers_done(struct ipvs_plane *p);
/* Perform p->ops and note what became of them. */
MUST_USE int ipvs_ops_send(struct ipvs_plane *p, struct plane_result *res, struct err *err);
void ipvs_op_dest(struct ipvs_plane *p, enum ipvs_cmd cmd, struct ipvs_vs *vs,
		  const struct ipvs_dst *d, uint32_t weight);
/* Weight 0, since when, and until when (0: without end). */
void ipvs_op_drain(struct ipvs_plane *p, struct ipvs_vs *vs, const struct ipvs_dst *d,
		   uint32_t since_s, uint32_t deadline_s);
void ipvs_op_service(struct ipvs_plane *p, enum ipvs_cmd cmd, struct ipvs_vs *vs);

/* --- drain.c --- */

/* Of a drain that began then, with this timeout; 0 = none. */
uint32_t ipvs_drain_deadline(uint32_t since_s, uint32_t drain_s);
/* The destination begins to leave: an operation is appended. True when that deletes it. */
bool ipvs_drain_begin(struct ipvs_plane *p, struct ipvs_vs *vs, struct ipvs_dst *d);
/* Another drain timeout may be in force for it: operations are appended. */
void ipvs_drain_retime(struct ipvs_plane *p, struct ipvs_vs *vs);
/* There may be something to wait for. */
void ipvs_drain_watch(struct ipvs_plane *p, struct ipvs_vs *vs);
uint64_t ipvs_drain_tick(struct ipvs_plane *p, uint64_t now);
/* plane.h leaving, drains. */
void ipvs_drain_tell(const struct plane *plane, const struct svc *svc,
		     void (*fn)(void *arg, const struct plane_draining *l), void *arg);
void ipvs_drain_count(const struct plane *plane, struct plane_drains *ret);

/* --- copy.c --- */

void ipvs_copy_open(struct ipvs_copy **ret);
void ipvs_copy_close(struct ipvs_copy *c);
DEFINE_AUTO(struct ipvs_copy *, ipvs_copy_close);
/* The next elements of p->load, into its copy. 1: there are more. */
MUST_USE int ipvs_copy_read(struct ipvs_plane *p, struct err *err);
/* A mark does not say which protocol its service has; the frontends that lead to it do. */
void ipvs_copy_protocols(const struct ipvs_copy *c, struct ipvs_plane *p);
/* Does a frontend have it? */
bool ipvs_copy_has_protocol(const struct ipvs_copy *c, uint8_t proto);
const uint8_t *ipvs_copy_find(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set,
			      const uint8_t *key);
/* The kernel holds it; `is_wanted`: and somebody asked for it. */
void ipvs_copy_put(struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		   const uint8_t *data, bool is_wanted);
void ipvs_copy_del(struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key);
/* The keys nobody asked for, sorted, for the caller to free. */
uint8_t *ipvs_copy_unwanted(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set,
			    size_t *n);
size_t ipvs_copy_unwanted_count(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set);
/* All of it, into a table that has nothing. */
void ipvs_copy_write(const struct ipvs_copy *c, struct nft_elem_writer *w);
void ipvs_copy_recall(struct ipvs_plane *p, struct plan *plan, struct plan_rows *rows);
void ipvs_copy_let_go(struct ipvs_copy *c);

/* --- count.c: plane_ops.drops, .count_frontends, .count_slots --- */

MUST_USE int ipvs_drops(const struct plane *plane, struct plane_drops *ret, struct err *err);
MUST_USE int ipvs_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
				  const struct plan_frontend *v, size_t n, struct plane_count *ret,
				  struct err *err);
MUST_USE int ipvs_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
			      struct plane_count *ret, struct err *err);

/* --- commit.c --- */

MUST_USE int ipvs_commit(struct plane *plane, const struct plan_op *ops, size_t n,
			 enum plane_commit_mode mode, struct plane_result *res, struct err *err);
/* Send p->changes as they stand. */
MUST_USE int ipvs_transact(struct ipvs_plane *p, struct plane_result *res, struct err *err);
MUST_USE int ipvs_changes_look(struct ipvs_plane *p, struct err *err);
void ipvs_committed(struct ipvs_plane *p, size_t n);

/* --- sysctl.c --- */

/* plane_ops.prepare. The values of before are not remembered: there is no table yet. */
MUST_USE int ipvs_sysctls_prepare(struct plane *plane, struct err *err);

/* What the table remembers of the time before us: it may be gone when that is written again. */
MUST_USE int ipvs_sysctls_recall(struct ipvs_plane *p, struct err *err);

/* Set what IPVS needs; what it was goes into the table, once. */
MUST_USE int ipvs_sysctls_apply(struct ipvs_plane *p, struct plane_result *res, struct err *err);
/* Repair what another process changed since. */
void ipvs_sysctls_watch(struct ipvs_plane *p);
/* As they were before us, as far as the table remembers. */
void ipvs_sysctls_restore(struct ipvs_plane *p);

/* --- tell.c: for people, in the words of explain/text.h --- */

/* plane.h balancing, weight */
void ipvs_tell_balancing(const struct plane *plane, const struct plan_pool *pool, bool is_inside,
			 struct plan_balancing *ret);
uint32_t ipvs_tell_weight(const struct plane *plane, const struct plan_pool *pool,
			  const struct plan_backend *b);
/* What was loaded: every frontend, then services of ours to which none leads (held.h). */
void ipvs_tell_loaded(struct str *out, const struct ipvs_plane *p);
