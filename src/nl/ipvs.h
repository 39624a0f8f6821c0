/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/ipvs - the IPVS family of generic netlink: virtual services and destinations.
 *
 *     open -> resolve -> services, dests (dumps); send (changes) ... -> close
 *
 * Changes go many to a datagram, each acknowledged by itself: IPVS has no
 * transactions. What comes after a refused one in the same datagram is done
 * nevertheless; datagrams after it are not sent.
 *
 * The kernel has no notifications for this family, and no way to read a single
 * destination: a dump takes all of one service.
 *
 * Kernel: linux/ip_vs.h; net/netfilter/ipvs/ip_vs_ctl.c ip_vs_genl_*.
 */
#pragma once

#include "base/ip.h"
#include "nl/sock.h"

/* Messages a datagram: as many acknowledgements fit the smallest receive buffer. */
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

/*
 * The upper threshold of a drain without a deadline. A higher one is refused with EINVAL by newer
 * kernels, stable ones included.
 */
#define IPVS_THRESH_NONE ((uint32_t)INT32_MAX)

struct ipvs_dest {
	struct ip_addr addr;
	uint16_t port; /* host order */
	uint16_t fwd;  /* IP_VS_CONN_F_FWD_MASK: 0 is masquerading */
	uint32_t weight;
	/* They limit connections, and mean nothing at weight 0: drains are kept there. */
	uint32_t u_thresh; /* not below the other, not above IPVS_THRESH_NONE */
	uint32_t l_thresh;
	/* Told by dumps only. */
	uint32_t active;
	uint32_t inactive;
};

enum ipvs_cmd {
	IPVS_SERVICE_NEW = 1,
	IPVS_SERVICE_SET,
	IPVS_SERVICE_DEL,
	IPVS_DEST_NEW,
	IPVS_DEST_SET,
	IPVS_DEST_DEL,
};

struct ipvs_op {
	uint8_t cmd;                 /* enum ipvs_cmd */
	bool is_done;                /* the kernel answered */
	int result;                  /* 0, or -errno; valid when done */
	struct ipvs_service service; /* its key alone where destinations are meant */
	struct ipvs_dest dest;
	void *tag;
};

/* Seconds; 0 = as it is. */
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
/* Find the family's number; asking loads the module. -EOPNOTSUPP: the kernel has no IPVS. */
MUST_USE int ipvs_wire_resolve(struct ipvs_wire *w, struct err *err);

/* All virtual services of this network namespace, ours or not. `begin` as in nl/dump.h. */
MUST_USE int ipvs_wire_services(struct ipvs_wire *w, void (*begin)(void *arg),
				void (*fn)(void *arg, const struct ipvs_service *s), void *arg,
				struct err *err);
/* One of them; -ESRCH when there is none. */
MUST_USE int ipvs_wire_service(struct ipvs_wire *w, const struct ipvs_key *key,
			       void (*fn)(void *arg, const struct ipvs_service *s), void *arg,
			       struct err *err);
/* The destinations of one; none when there is no such service. */
MUST_USE int ipvs_wire_dests(struct ipvs_wire *w, const struct ipvs_key *key,
			     void (*begin)(void *arg),
			     void (*fn)(void *arg, const struct ipvs_dest *d), void *arg,
			     struct err *err);
/*
 * Perform the operations in order. 0: all were done. -ECANCELED: the kernel refused
 * some, see their results; those not done were not sent. -ENOBUFS: an answer was
 * lost. `n_ok` is raised by each that was acknowledged.
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
