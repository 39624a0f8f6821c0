/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/dump - ask the kernel and read its answer.
 *
 *     nl_request(buf, sizeof(buf), type, flags) -> mnl_attr_put_*() -> nl_dump() or nl_query()
 *
 * A dump that a change interrupted is read to its end, thrown away and requested
 * again, at most NL_DUMP_TRIES times; begin() tells the reader to forget what it has
 * seen. One dump is consistent in itself; several may differ.
 *
 * Dumps of nf_tables are marked as interrupted by any commit in the namespace. But the
 * kernel continues a dump of one table's rules or sets, or of one set's elements, at a
 * position (cb->args) within that table or set: a commit elsewhere moves nothing there.
 * Such a dump is `is_scoped` and stands. An element can be missed or repeated only when
 * the set itself changes between two pieces: inserts may resize its hash table (net/netfilter/
 * nft_set_hash.c: nft_rhash_walk skips by count), and removals from a set of ranges shift
 * its rules (nft_set_pipapo.c). Who uses a scoped dump must learn of such changes by
 * other means (nft/watch.h) and read the table again.
 *
 * Kernel: NLM_F_DUMP, NLM_F_DUMP_INTR (netlink(7)); nfgenmsg.res_id, where
 *         nf_tables puts the low 16 bits of the generation a message was made in
 *         (set elements are dumped without NLM_F_DUMP_INTR).
 */
#pragma once

#include <linux/netlink.h>

#include "nl/sock.h"

#define NL_DUMP_TRIES 5
/* The kernel rejects a dump before its first piece (-EINTR) when a commit is quicker. */
#define NL_DUMP_STARTS 100

struct nl_reader {
	/* An attempt begins: forget everything. May be NULL for nl_query(). */
	void (*begin)(void *arg);
	/*
	 * One message of the answer, borrowed for the call. Anything but 0 ends the
	 * reading (the rest is drained) and is returned.
	 */
	int (*message)(void *arg, const struct nlmsghdr *h, struct err *err);
	void *arg;
	bool is_scoped; /* a commit to other tables does not spoil the answer */
};

/* Where in the request the kernel saw the problem, as far as it told. */
struct nl_bad {
	bool has_offset;
	uint32_t offset; /* from the request's header to the attribute */
};

/*
 * Write a header, with NLM_F_REQUEST and `flags`, into `buf` and return it. The
 * caller appends its family's header (mnl_nlmsg_put_extra_header) and
 * attributes; nl_dump() and nl_query() set flags and sequence number.
 */
struct nlmsghdr *nl_request(void *buf, size_t size, uint16_t type);
/* The same with the nfgenmsg of nfnetlink; `family` is NFPROTO_*. */
struct nlmsghdr *nl_request_nfnl(void *buf, size_t size, uint16_t type, uint8_t family);

/*
 * All objects that match. 0; -EAGAIN: interrupted too often; -ENOBUFS: the
 * answer overflowed the socket; -errno as the kernel or the reader gave it.
 */
MUST_USE int nl_dump(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd,
		     struct err *err);
/*
 * A request that is no dump (GETGEN, GETSETELEM with keys): messages, then the
 * kernel's verdict. Messages before a refusal are good and were handed out.
 * `bad` may be NULL. Errors as above, -ENOENT for what does not exist.
 */
MUST_USE int nl_query(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd,
		      struct nl_bad *bad, struct err *err);

/*
 * `n` requests that are no dumps, back to back in `requests`, sent as one datagram: the kernel
 * handles one after the other. `fn` is called once for each that is answered, `i` its number:
 * with the answer, or with NULL and the kernel's -errno. Anything but 0 from `fn` is returned
 * once all answers are read. Errors as nl_query(); requests that `fn` was not called for
 * are not answered then.
 */
typedef int nl_each_fn(void *arg, size_t i, const struct nlmsghdr *answer, int error,
		       const struct nl_bad *bad);
MUST_USE int nl_query_each(struct nl_sock *nl, void *requests, size_t len, size_t n, nl_each_fn *fn,
			   void *arg, struct err *err);
