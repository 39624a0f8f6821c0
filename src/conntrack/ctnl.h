/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/ctnl - tracked flows over netlink.
 *
 *     the kernel finds and deletes         ctnl_delete_matching()
 *     vipd finds, the kernel deletes       ctnl_dump(..., fn), ctnl_delete() in fn,
 *                                          ctnl_delete_flush()
 *
 * Both cost one walk over the kernel's hash table, which all network namespaces
 * share. Deleting by filter is preferable: nothing is copied, and the kernel
 * pauses between buckets. A dump disables bottom halves from one filled datagram to
 * the next, so a dump whose filter matches few entries stops all packets of a CPU
 * during the walk: 110 ms with 500,000 entries. Filter a dump only by criteria that
 * a good part of the table matches.
 *
 * These calls block for the walk: use them in the helper process only.
 *
 * Kernel: linux/netfilter/nfnetlink_conntrack.h; net/netfilter/nf_conntrack_netlink.c.
 *         CTA_FILTER in dumps since 5.8, in deletions since 6.11; older kernels reject
 *         it in deletions (EINVAL) and do nothing. The kernel compares IPv6 addresses
 *         with an inverted result, so no filter here has one.
 */
#pragma once

#include "conntrack/job.h"
#include "nl/sock.h"

struct ctnl;

/*
 * Flows with these addresses, as in struct job_flow; NULL: any. In deletions: IPv4, with `from` or
 * `to`.
 */
struct ctnl_match {
	const struct ip_endpoint *from;
	const struct ip_endpoint *to;
	const struct ip_endpoint *by;
	const struct ip_endpoint *back;
	uint8_t proto;
	bool is_translated; /* the destination was translated */
	bool is_default_zone;
};

/* An entry of ctnl_dump(): the flow, and its identification. Valid during the call. */
struct ctnl_entry {
	struct job_flow flow;
	uint8_t family;
	uint32_t status; /* IPS_*: linux/netfilter/nf_conntrack_common.h */
	const struct nlattr *tuple;
	const struct nlattr *zone; /* NULL: default zone, or a zone of one direction in the tuple */
	const struct nlattr *id;
};

/* Takes both sockets (NETLINK_NETFILTER). */
void ctnl_open(struct ctnl **ret, struct nl_sock *query, struct nl_sock *del);
/* ctnl_open() with sockets of this network namespace. Errors as nl_sock_open(). */
MUST_USE int ctnl_connect(struct ctnl **ret, struct err *err);
void ctnl_close(struct ctnl *c);
DEFINE_AUTO(struct ctnl *, ctnl_close);

/*
 * Delete all flows that match; the kernel does not report their number. -EOPNOTSUPP: the
 * kernel cannot filter, or not this family; nothing was done.
 */
MUST_USE int ctnl_delete_matching(struct ctnl *c, const struct ctnl_match *m, struct err *err);

/*
 * Call `fn` for every flow of a family (0: both) and a protocol (0: all; only with a
 * family). Filters where the kernel cannot. Errors as nl_dump().
 */
MUST_USE int ctnl_dump(struct ctnl *c, uint8_t family, uint8_t proto,
		       void (*fn)(void *arg, const struct ctnl_entry *e), void *arg,
		       struct err *err);

/*
 * Look up `n` flows of the default zone by original source and destination, and call `fn` for
 * each that exists. No walk: a few microseconds each.
 */
MUST_USE int ctnl_lookup(struct ctnl *c, const struct ip_flow *v, size_t n,
			 void (*fn)(void *arg, size_t i, const struct ctnl_entry *e), void *arg,
			 struct err *err);

/*
 * Queue a deletion; ctnl_delete_flush() returns errors. The id protects a newer entry with
 * this tuple, unless it has the same address in kernel memory.
 */
void ctnl_delete(struct ctnl *c, const struct ctnl_entry *e);
/* Send the queued deletions, if any. */
void ctnl_delete_now(struct ctnl *c);
/* Forget the queued deletions. */
void ctnl_delete_drop(struct ctnl *c);
/*
 * Send the rest of the queue. Returns 0, or the first error since the last flush. An entry
 * that no longer exists is not an error (CT-10). `n_deleted` counts since the last flush.
 * -EBUSY, if there was no other error: all were deleted but entries that are offloaded to a
 * flow table, which older kernels do not delete.
 */
MUST_USE int ctnl_delete_flush(struct ctnl *c, uint64_t *n_deleted, struct err *err);
