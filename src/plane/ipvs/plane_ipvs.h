/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs - IPVS chooses the backend; nf_tables tells it who asks for what.
 *
 * A frontend is an element of a map: address . protocol . port -> mark. A pool is one
 * virtual service that is asked for by its mark, however many frontends lead to it;
 * one of a pool with ClientIP affinity is asked for by address and port, because
 * IPVS keeps the client's port in a persistent service with a mark. No address is
 * bound to any device: a policy routing rule delivers what carries a mark.
 *
 * IPVS has no transactions. A commit adds to it first, then changes nf_tables in one
 * batch, then takes away; each prefix of that is a safe state. A backend that leaves
 * gets weight 0 at once and is deleted when its connections are gone or its time
 * is up: tick() looks, once a second, at services that have such backends.
 *
 * Ownership: marks of our tag; virtual services by address with flag 0x20; the table
 *           by its comment; rules and routes by their protocol. Nothing else is
 *           ever touched.
 * Kernel:    linux/ip_vs.h, linux/netfilter/nf_tables.h; Linux 5.10 or newer.
 */
#pragma once

#include "nl/ipvs.h"
#include "nl/sock.h"
#include "plane/ipvs/route.h"
#include "plane/plane.h"

/*
 * How long a backend that left may keep its connections. Fifteen minutes is when TCP
 * itself gives a silent peer up (net.ipv4.tcp_retries2); a client of a backend that
 * is gone is then told with a reset instead of waiting on.
 */
#define IPVS_DRAIN_TIMEOUT_DEFAULT_S 900

struct ipvs_config {
	const char *sched;      /* default scheduler, with flags; NULL: rr */
	uint32_t drain_s;       /* 0 = for ever */
	uint8_t mark_tag;       /* even; 0: the default */
	uint32_t route_table;   /* 0: the default */
	uint32_t rule_priority; /* 0: the default */
	struct ipvs_timeouts timeouts;
	/* What our table shall count. Sets and rules for it come and go in place. */
	enum plane_counting counting;
	bool is_estimating; /* IPVS's own counters and rates move (net.ipv4.vs.run_estimation) */
	/* Virtual services at these addresses are not ours, whatever they carry. Borrowed. */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	const char *sysctl_root; /* "" but for tests; NULL: leave sysctls alone */
	uint32_t (*now_s)(void); /* CLOCK_BOOTTIME, > 0; NULL: the real one */
};

/* The sockets it talks through; taken. */
struct ipvs_socks {
	struct nl_sock *nft;   /* NETLINK_NETFILTER: batches */
	struct nl_sock *query; /* NETLINK_NETFILTER: reading */
	struct nl_sock *genl;  /* NETLINK_GENERIC */
	struct nl_sock *route; /* NETLINK_ROUTE */
	struct nl_sock *watch; /* NETLINK_NETFILTER, of ipvs_held_read_by() only; NULL: none */
};

extern const struct plane_ops ipvs_plane_ops;

/* -EINVAL: the configuration makes no sense, and the sockets stay the caller's. */
MUST_USE int ipvs_plane_open(struct plane **ret, const struct ipvs_socks *socks,
			     const struct ipvs_config *config, struct err *err);

/* As nft_plane_watch_with() of plane/nft/plane_nft.h: who changes the ruleset. */
MUST_USE int ipvs_plane_watch_with(struct plane *p, struct nl_sock *watch, struct err *err);

/* What the plane remembers; for status and tests. */
struct ipvs_plane_stats {
	size_t n_services; /* virtual services of ours in the kernel */
	size_t n_dests;
	size_t n_draining;
	uint64_t n_drained;   /* ended without a connection left */
	uint64_t n_timed_out; /* ended by their deadline */
	uint64_t n_foreign;   /* times check() saw that somebody else changed the ruleset */
};
struct ipvs_plane_stats ipvs_plane_stats(const struct plane *p);

/* A part of its traits, for those who plan without it. */
uint16_t ipvs_pool_class(size_t n, uint32_t affinity_s);

/*
 * net.ipv4.vs.*: what the plane sets them to, whatever its configuration. False behind the last.
 */
bool ipvs_sysctl_wanted(size_t i, const char **name, uint32_t *value);
