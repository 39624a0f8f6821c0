/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs - nf_tables marks packets of frontends, IPVS chooses the backend by mark.
 *
 *  A frontend is an element of a map: address . protocol . port -> mark. A pool is one virtual
 *  service by mark, whatever the number of its frontends. A pool with ClientIP affinity has virtual
 *  services by address and port instead: in a persistent service by mark, IPVS keeps the client's
 *  port. README.md lists the invariants.
 *
 *  Ownership: marks with vipd's tag; virtual services by address with flag 0x20; the table by its
 *             comment; rules and routes by their protocol. Other objects are never changed.
 *  Kernel:    linux/ip_vs.h, linux/netfilter/nf_tables.h; Linux 5.10 or newer.
 */
#pragma once

#include "nl/ipvs.h"
#include "nl/sock.h"
#include "plane/ipvs/route.h"
#include "plane/plane.h"

/* Flag of a virtual service by address and port: it is vipd's. */
#define IPVS_FLAG_OURS 0x0020U

struct ipvs_config {
	const char *sched;      /* default scheduler, with flags; NULL: rr */
	uint32_t drain_s;       /* 0 = no timeout */
	uint8_t mark_tag;       /* even; 0: the default */
	uint32_t route_table;   /* 0: the default */
	uint32_t rule_priority; /* 0: the default */
	struct ipvs_timeouts timeouts;
	/* Counters of vipd's table. Sets and rules for them are added and removed in place. */
	enum plane_counting counting;
	bool is_estimating; /* net.ipv4.vs.run_estimation: IPVS's own counters and rates */
	/*
	 * Virtual services at these addresses stay, whatever their flags, unless a Service needs
	 * address, port and protocol, vipd's table leads to them, or vipd drains them. Borrowed.
	 */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	const char *sysctl_root; /* "" except in tests; NULL: do not touch sysctls */
	uint32_t (*now_s)(void); /* CLOCK_BOOTTIME, > 0; NULL: the real one */
};

/* Sockets of the plane; taken. */
struct ipvs_socks {
	struct nl_sock *nft;   /* NETLINK_NETFILTER: batches */
	struct nl_sock *query; /* NETLINK_NETFILTER: reading */
	struct nl_sock *genl;  /* NETLINK_GENERIC */
	struct nl_sock *route; /* NETLINK_ROUTE */
	/* NETLINK_GENERIC: large services, read in steps. NULL: no commit, no tick. */
	struct nl_sock *large;
	struct nl_sock
		*watch; /* NETLINK_NETFILTER, for ipvs_programmed_read_from() only; NULL: none */
	struct nl_sock *rules; /* NETLINK_ROUTE: notifications of RTNLGRP_*_RULE. NULL: polling */
};

extern const struct plane_ops ipvs_plane_ops;

/* -EINVAL: invalid configuration; the sockets remain the caller's. */
MUST_USE int ipvs_plane_open(struct plane **ret, const struct ipvs_socks *socks,
			     const struct ipvs_config *config, struct err *err);

/* Is it a virtual service by an address in one of the `n` prefixes? */
bool ipvs_is_excluded(const struct ipvs_key *k, const struct ip_prefix *v, size_t n);

/*
 * Before the first load(): evidence for ejections (plane/failover.h), of handshakes without an
 * answer for `limit_ms`; 0: remove the tables of an earlier process.
 */
void ipvs_plane_failover(struct plane *p, uint64_t limit_ms);

/* The value that the plane requires of net.ipv4.vs.NAME. */
struct ipvs_sysctl {
	const char *name;
	uint32_t value; /* of the first IPVS_SYSCTLS_FIXED; the configuration decides others */
	uint32_t no;    /* of the previous value in `remembered` */
};
#define IPVS_SYSCTLS 7
#define IPVS_SYSCTLS_FIXED (IPVS_SYSCTLS - 1) /* the last one is run_estimation */
extern const struct ipvs_sysctl ipvs_sysctls[IPVS_SYSCTLS];
