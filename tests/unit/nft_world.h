/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/nft_world - model, plan, sync and nftables plane over a kernel, fake or real.
 *
 *     world_open -> world_service, world_slice ... -> world_settle -> world_check -> world_close
 *
 * world_check() compares what the kernel holds, read back through netlink and
 * printed, with what the accepted rows say, printed by a second, simpler
 * translation that knows nothing of batches, counts or slots that move.
 */
#pragma once

#include "base/str.h"
#include "nl/sock.h"
#include "plane/nft/plane_nft.h"
#include "sync/sync.h"

struct world_kernel {
	struct nl_sock *(*connect)(void *ctx);
	void *ctx;
	bool resizes; /* hash tables: a dump may lack elements meanwhile */
};

/* nft_plane_guard(), if set. */
enum world_guard {
	WORLD_GUARD_UNSET = 0,
	WORLD_GUARD_ON,
	WORLD_GUARD_OFF,
};

struct world {
	const struct world_kernel *kernel;
	struct model m;
	struct plan p;
	struct plane *plane;
	struct sync *s;
	uint64_t now;
	bool is_table_owner;    /* of the next life */
	enum world_guard guard; /* the same */
	enum plane_counting counting;
};

/* Node "n1" with podCIDR 10.0.0.0/16, node port address 192.168.0.1 and fd01::1. */
void world_open(struct world *w, const struct world_kernel *kernel);
void world_close(struct world *w);
/* Restart the process; `w->m` stays. Nothing is synced yet. */
void world_restart(struct world *w);

/* Restart with another level of counting. */
void world_count(struct world *w, enum plane_counting counting);

/* Objects as in tests/unit/objects.h. */
void world_service(struct world *w, const char *name, const char *text);
void world_slice(struct world *w, const char *name, const char *service, const char *text);
void world_no_service(struct world *w, const char *name);
void world_no_slice(struct world *w, const char *name);

/*
 * Sync until nothing is pending, moving the clock over backoffs. Returns the number of kernel
 * operations. Fails the test when it does not come to rest.
 */
size_t world_settle(struct world *w);
/* Like world_settle(), but a rejected service or a failed address family may remain. */
size_t world_settle_refused(struct world *w);
/*
 * After a transaction the kernel may resize the hash table of a map. Meanwhile a dump lacks
 * elements (nft_rhash_walk(), net/netfilter/nft_set_hash.c), and adoption would write them once
 * more: wait until dumps have all.
 */
void world_await(const struct world *w);
/* Let the plane find stray addresses of an earlier process. */
void world_walk(struct world *w);
/* Advance the clock and call tick(). */
void world_wait(struct world *w, uint64_t ns);
/* Number of commits of all processes. */
uint32_t world_genid(const struct world *w);
/* Audit all services; returns the number of kernel operations. */
size_t world_audit(struct world *w);
/* Load the kernel state again; rows keep their ids. */
size_t world_reload(struct world *w);

/* Elements of services in the format of fake_print_elements(); the caller frees. */
char *world_elements(const struct world *w);
/* Like world_kernel(), computed from the rows. */
char *world_expected(const struct world *w);
/*
 * Assert that both are equal, except for addresses in their grace period, whose number is the
 * plane's.
 */
void world_check(const struct world *w);

struct svc *world_svc(struct world *w, const char *name);

struct nft_plane_stats {
	size_t n_in_grace;   /* addresses, both families */
	size_t n_shorten;    /* pools whose affinity entries must be shortened, both families */
	bool is_loaded;      /* the loaded phase (plane/plane.h) */
	bool is_table_owner; /* this process owns the tables */
	bool has_guard;      /* nft_plane_guard(): exists, and owned by this process */
};
struct nft_plane_stats nft_plane_stats(struct plane *plane);
