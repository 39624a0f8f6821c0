/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/ctnl - tracked flows over netlink.
 *
 *     ctnl_delete_matching()                           the kernel finds and deletes
 *     ctnl_dump(..., fn), ctnl_delete() in fn, ctnl_delete_flush()    we do
 *
 * Both cost one walk over the kernel's hash table, which all network namespaces
 * share. Deleting by filter is the better one: nothing is copied, and the kernel
 * pauses between buckets. A dump holds bottom halves off from one filled datagram to
 * the next, so a dump whose filter matches next to nothing stops all packets of
 * a CPU for as long as the walk lasts: 110 ms with 500,000 entries. Filter a dump
 * only by what a good part of the table matches.
 *
 * All calls block for the walk: they belong into the helper process, not into
 * the event loop.
 *
 * Kernel: linux/netfilter/nfnetlink_conntrack.h; net/netfilter/nf_conntrack_netlink.c.
 *         CTA_FILTER in dumps since 5.8, in deletions since 6.11; older kernels refuse
 *         the latter (EINVAL) and do nothing. Addresses of IPv6 are compared the
 *         wrong way round there, so no filter here has one.
 */
#pragma once

#include "conntrack/job.h"
#include "nl/sock.h"

struct ctnl;

/* Flows to one frontend, or from it; all that is set must be met. */
struct ctnl_match {
	struct job_endpoint to; /* original destination, IPv4 */
	uint8_t proto;
	bool is_mirror; /* not to it: from it, and the source not translated either */
	bool has_by;
	struct job_endpoint by; /* source of the replies; not with is_mirror */
	bool is_translated;     /* the destination was translated */
	bool is_default_zone;
};

/* What ctnl_dump() hands out: flow, and how to name it to the kernel. Good for the call. */
struct ctnl_entry {
	struct job_flow flow;
	uint8_t family;
	const struct nlattr *tuple;
	const struct nlattr *zone; /* NULL: the default one, or one direction's, in the tuple */
	const struct nlattr *id;
};

/* Takes both sockets (NETLINK_NETFILTER). */
void ctnl_open(struct ctnl **ret, struct nl_sock *query, struct nl_sock *del);
void ctnl_close(struct ctnl *c);
DEFINE_AUTO(struct ctnl *, ctnl_close);

/*
 * Delete all flows that match; how many, the kernel does not say. -EOPNOTSUPP: this
 * kernel cannot, or the family has no such filter; nothing was done.
 */
MUST_USE int ctnl_delete_matching(struct ctnl *c, const struct ctnl_match *m, struct err *err);

/*
 * Tell `fn` of every flow of a family (0: both) and a protocol (0: all; only with a
 * family). Where the kernel does not filter, we do. Errors as nl_dump().
 */
MUST_USE int ctnl_dump(struct ctnl *c, uint8_t family, uint8_t proto,
		       void (*fn)(void *arg, const struct ctnl_entry *e), void *arg,
		       struct err *err);

/*
 * Have it deleted, soon; errors come later. The id spares an entry that took its
 * place, unless that lies in the same memory.
 */
void ctnl_delete(struct ctnl *c, const struct ctnl_entry *e);
/* Do not wait any longer with what is queued; nothing when nothing is. */
void ctnl_delete_now(struct ctnl *c);
/*
 * Delete what is left of the queue. 0, or the first error since the last flush. What
 * had vanished by itself is no error (CT-10). `n_deleted` counts since the last flush.
 */
MUST_USE int ctnl_delete_flush(struct ctnl *c, uint64_t *n_deleted, struct err *err);
