/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/ipvs - the IPVS family of generic netlink: virtual services and destinations.
 *
 *     open -> resolve -> services, dests (dumps); send (changes) ... -> close
 *
 * A datagram has many changes: IPVS has no transactions. The kernel answers those that it
 * rejects, and the last one. Changes after a rejected one in its datagram are performed; later
 * datagrams are not sent.
 *
 * The kernel has no notifications for this family, and cannot return a single
 * destination: a dump returns all destinations of a service.
 *
 * Kernel: linux/ip_vs.h; net/netfilter/ipvs/ip_vs_ctl.c ip_vs_genl_*.
 */
#pragma once

#include <linux/ip_vs.h>

#include "base/ip.h"
#include "base/vec.h"
#include "nl/sock.h"

/* Messages in a datagram: if all are rejected, the answers fit the smallest receive buffer. */
#define IPVS_BATCH_MAX 128
#define IPVS_SCHED_MAX 16 /* IP_VS_SCHEDNAME_MAXLEN, terminated */

/* Identity of a virtual service: a mark, or an address, a protocol and a port. */
struct ipvs_key {
	uint8_t fam;   /* enum ipfam */
	uint8_t proto; /* enum l4proto; 0 with a mark */
	uint16_t port; /* host order */
	uint32_t mark; /* 0: the other parts */
	struct ip_addr addr;
};
_Static_assert(sizeof(struct ipvs_key) == 28, "hashed and compared as raw bytes");

struct ipvs_service {
	struct ipvs_key key;
	char sched[IPVS_SCHED_MAX];
	uint32_t flags;     /* IP_VS_SVC_F_* */
	uint32_t timeout_s; /* of persistence */
};

struct ipvs_services {
	VEC(struct ipvs_service) v;
};

/*
 * The upper threshold of a drain without a deadline. Newer kernels, stable ones included,
 * reject a higher one with EINVAL.
 */
#define IPVS_THRESH_NONE ((uint32_t)INT32_MAX)

#define IPVS_FWD_OTHER UINT32_C(0x8)

struct ipvs_dest {
	struct ip_addr addr;
	uint16_t port; /* host order */
	/*
	 * IP_VS_CONN_F_FWD_MASK: 0 is masquerading. The upper half is the UDP port of a tunnel
	 * with GUE, without checksum; 0 = IP in IP. IPVS_FWD_OTHER: the kernel has another kind of
	 * tunnel.
	 */
	uint32_t fwd;
	uint32_t weight;
	/* Limits of new connections, without effect where none begin: there they store drains. */
	uint32_t u_thresh; /* not below the other, not above IPVS_THRESH_NONE */
	uint32_t l_thresh;
	/* Connections; set by dumps only. */
	uint32_t active;
	uint32_t inactive;
};

struct ipvs_dests {
	VEC(struct ipvs_dest) v;
};

struct ipvs_op {
	uint8_t cmd;                 /* IPVS_CMD_* of services, or from IPVS_CMD_NEW_DEST */
	bool is_done;                /* sent, and the result is certain */
	int result;                  /* 0 before it is sent; 0, or -errno, when done */
	struct ipvs_service service; /* of a destination: only its key */
	struct ipvs_dest dest;
	void *tag;
};

/* Seconds; 0 = keep. */
struct ipvs_timeouts {
	uint32_t tcp;
	uint32_t tcp_fin;
	uint32_t udp;
};

struct ipvs_wire;

/* Takes the socket (NETLINK_GENERIC). */
void ipvs_wire_open(struct ipvs_wire **ret, struct nl_sock *nl);
void ipvs_wire_close(struct ipvs_wire *w);
DEFINE_AUTO(struct ipvs_wire *, ipvs_wire_close);
/* Find the family's number. -EOPNOTSUPP: the kernel has no IPVS, or has not loaded it. */
MUST_USE int ipvs_wire_resolve(struct ipvs_wire *w, struct err *err);
/*
 * ipvs_wire_resolve() that lets the kernel load the module. From Linux 5.16 the request for the
 * family does; before, one on `nfnl` (NETLINK_NETFILTER; borrowed) for the match `ipvs`, whose
 * module needs that of IPVS (net/netfilter/nft_compat.c nfnl_compat_get_rcu). CAP_NET_ADMIN.
 */
MUST_USE int ipvs_wire_load(struct ipvs_wire *w, struct nl_sock *nfnl, struct err *err);
/*
 * Find the number again the next time. It changes when the module is unloaded and loaded; reads and
 * changes with the old one return -EBUSY.
 */
void ipvs_wire_forget(struct ipvs_wire *w);

/* All virtual services of this network namespace, ours or not; replaces the content of `ret`. */
MUST_USE int ipvs_wire_services(struct ipvs_wire *w, struct ipvs_services *ret, struct err *err);
/* The virtual service with this key; -ESRCH: none. */
MUST_USE int ipvs_wire_service(struct ipvs_wire *w, const struct ipvs_key *key,
			       struct ipvs_service *ret, struct err *err);
/*
 * The destinations of a virtual service in the kernel's order, none when the service does not
 * exist; replaces the content of `ret`.
 */
MUST_USE int ipvs_wire_dests(struct ipvs_wire *w, const struct ipvs_key *key,
			     struct ipvs_dests *ret, struct err *err);
/*
 * Like ipvs_wire_dests(), in pieces: each call of next() appends one datagram, about 100
 * destinations. 1: more left; no other function may be called until then.
 */
MUST_USE int ipvs_wire_dests_begin(struct ipvs_wire *w, const struct ipvs_key *key, uint32_t *seq,
				   struct err *err);
MUST_USE int ipvs_wire_dests_next(struct ipvs_wire *w, const struct ipvs_key *key, uint32_t seq,
				  struct ipvs_dests *ret, struct err *err);
/*
 * Perform the operations in order. 0: all succeeded. -ECANCELED: the kernel rejected
 * some, see their results; operations without is_done were not sent. -ENOBUFS: an answer
 * was lost. Adds the number of acknowledged operations to `n_ok`.
 */
MUST_USE int ipvs_wire_send(struct ipvs_wire *w, struct ipvs_op *ops, size_t n, size_t *n_ok,
			    struct err *err);

MUST_USE int ipvs_wire_timeouts_get(struct ipvs_wire *w, struct ipvs_timeouts *ret,
				    struct err *err);
MUST_USE int ipvs_wire_timeouts_set(struct ipvs_wire *w, const struct ipvs_timeouts *t,
				    struct err *err);

/* "10.0.0.1:80/TCP", "mark 0x5a000007". */
#define IPVS_KEY_TEXT_MAX 72
const char *ipvs_key_text(const struct ipvs_key *k, char buf[static IPVS_KEY_TEXT_MAX]);
/* As ip_addr_str(). */
#define ipvs_key_str(k) ipvs_key_text((k), (char[IPVS_KEY_TEXT_MAX]){ 0 })
