/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/dump - send netlink requests and read the answers.
 *
 *     nl_request(buf, sizeof(buf), type) -> mnl_attr_put_*() -> nl_dump() or nl_query()
 *
 * A dump that a change interrupted is read to its end, discarded and requested again,
 * at most NL_DUMP_TRIES times, after the reader's results are discarded. One dump is
 * consistent; two dumps may show different states.
 *
 * Dumps of nf_tables are marked as interrupted by any commit in the namespace. But the
 * kernel continues a dump of one table's rules or sets, or of one set's elements, at a
 * position (cb->args) within that table or set: a commit to other tables moves nothing.
 * Such a dump is `is_scoped` and valid. An element can be missed or repeated only when
 * the set itself changes between two pieces: inserts may resize its hash table (net/netfilter/
 * nft_set_hash.c: nft_rhash_walk skips by count). Callers of a scoped dump must detect such changes
 * by notifications (nft/watch.h) and read the table again.
 *
 * Kernel: NLM_F_DUMP, NLM_F_DUMP_INTR (netlink(7)); nfgenmsg.res_id, where
 *         nf_tables puts the low 16 bits of a message's generation (set elements are
 *         dumped without NLM_F_DUMP_INTR).
 */
#pragma once

#include <linux/netlink.h>

#include "nl/sock.h"

#define NL_DUMP_TRIES 5
/* The kernel rejects a dump (-EINTR) when a commit precedes its first piece. */
#define NL_DUMP_STARTS 100

struct nl_reader {
	/* An attempt begins: discard all results. May be NULL. */
	void (*begin)(void *arg);
	/* One message of the answer, borrowed for the call. May be NULL if no message matters. */
	void (*message)(void *arg, const struct nlmsghdr *h);
	void *arg;
	bool is_scoped; /* the answer stays valid after a commit to other tables */
	/* Set to 0 when an attempt begins: length of a vector of results. May be NULL. */
	uint32_t *n_results;
};

/* The rejected attribute of a request, if the kernel reported it. */
struct nl_bad {
	bool has_offset;
	uint32_t offset; /* from the request's header to the attribute */
};

/*
 * Write a header with NLM_F_REQUEST into `buf` and return it. The
 * caller appends its family's header (mnl_nlmsg_put_extra_header) and
 * attributes; nl_dump() and nl_query() set flags and sequence number.
 */
struct nlmsghdr *nl_request(void *buf, size_t size, uint16_t type);
/* nl_request() with the nfgenmsg of nfnetlink appended; `family` is NFPROTO_*. */
struct nlmsghdr *nl_request_nfnl(void *buf, size_t size, uint16_t type, uint8_t family);

/*
 * Read all objects that match. 0; -EAGAIN: interrupted too often; -ENOBUFS: the
 * answer overflowed the socket; -errno of the kernel.
 */
MUST_USE int nl_dump(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd,
		     struct err *err);
/*
 * A dump in pieces: send the request, then read one datagram a call. 1: more left. A change may
 * interrupt the dump. The socket must have no other use until the end; a dump that is not read to
 * its end is discarded by the socket's next use. Only `message` of the reader is called.
 */
MUST_USE int nl_dump_begin(struct nl_sock *nl, struct nlmsghdr *req, uint32_t *seq,
			   struct err *err);
MUST_USE int nl_dump_next(struct nl_sock *nl, uint32_t seq, const struct nl_reader *rd,
			  struct err *err);
/*
 * A request that is not a dump (GETGEN, GETSETELEM with keys): messages, then the
 * kernel's result. Messages before an error are valid and were passed to the reader.
 * `bad` may be NULL. Errors as above, -ENOENT for what does not exist.
 */
MUST_USE int nl_query(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd,
		      struct nl_bad *bad, struct err *err);

/*
 * `n` requests that are not dumps, back to back in `requests`, sent as one datagram. `fn` is
 * called once for each answered request `i`, with the answer, or with NULL and the kernel's
 * -errno. A result of `fn` other than 0 is returned after all answers are read. Errors as
 * nl_query(); the requests for which `fn` was not called are then unanswered.
 */
typedef int nl_each_fn(void *arg, size_t i, const struct nlmsghdr *answer, int error,
		       const struct nl_bad *bad);
MUST_USE int nl_query_each(struct nl_sock *nl, void *requests, size_t len, size_t n, nl_each_fn *fn,
			   void *arg, struct err *err);
