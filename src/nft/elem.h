/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/elem - netlink messages with set elements: many per message, written directly.
 *
 *     nft_elem_put(), ... -> nl_batch_commit()      write
 *     nft_elems_dump(), nft_elems_get()               read
 *
 * A message holds elements of one set; its list attribute has a 16 bit length,
 * so it is cut below 64 KB. Elements are written byte by byte: at a million per
 * second, libmnl's helpers would be most of the cost.
 *
 * Reading by key is linear in the number of keys, missing ones included. A dump is quadratic in the
 * size of the set, as the kernel starts each piece of the answer at the first bucket:
 * `endpoints` and `endpoint_addrs` are never dumped in one go.
 *
 * Keys and data are the bytes of nft/sets.h.
 *
 * Kernel: linux/netfilter/nf_tables.h (NFTA_SET_ELEM_*); net/netfilter/nf_tables_api.c
 *         nf_tables_newsetelem, nf_tables_delsetelem, nf_tables_getsetelem.
 */
#pragma once

#include "nft/change.h"
#include "nl/batch.h"
#include "nl/dump.h"

/* One table of ours, for messages. */
struct nft_table_ref {
	const char *name;
	enum ipfam fam;
	uint8_t family; /* NFPROTO_*; 0: that of `fam` */
};
/* NFPROTO_* */
uint8_t nft_table_family(const struct nft_table_ref *table);

enum nft_write {
	NFT_WRITE_DEL = 0,
	NFT_WRITE_ADD,
};

/* Appends elements to a batch. Zero it, set `batch` and the tables. */
struct nft_elem_writer {
	struct nl_batch *batch;
	struct nft_table_ref tables[IPFAM_N];
	uint64_t timeout_ms;  /* of the next elements; 0: that of the set */
	uint64_t left_ms;     /* ... and the time until they expire */
	struct nlmsghdr *msg; /* the current message, or NULL */
	struct nlattr *list;
	enum nft_write write;
	enum ipfam fam;
	enum nft_set_id set;
	size_t n; /* elements so far */
};

/* `data` is NULL for sets and for NFT_WRITE_DEL. `tag`: see nl/batch.h. */
void nft_elem_put(struct nft_elem_writer *w, enum nft_write write, enum ipfam fam,
		  enum nft_set_id set, const void *key, const void *data, const void *tag);

/* One element of an answer; `data` is NULL in sets. Both are valid during the call. */
typedef void nft_elem_fn(void *arg, const uint8_t *key, const uint8_t *data);

/*
 * Read every element of a set; a scoped dump (nl/dump.h). Skips elements that cannot be ours
 * (another length, a verdict).
 */
MUST_USE int nft_elems_dump(struct nl_sock *nl, const struct nft_table_ref *table,
			    enum nft_set_id set, nft_elem_fn *fn, void *arg, struct err *err);

/* A dump in pieces, and its current element. */
struct nft_walk {
	const struct nlattr *elem;
	uint64_t expires_ms; /* 0 = never */
	size_t n;            /* elements since the dump began */
	/* of nft_elems_dump_step() */
	enum ipfam fam;
	enum nft_set_id set;
	nft_elem_fn *fn;
	void *arg;
	uint32_t seq;
	bool is_begun;
	unsigned int starts;
};
/*
 * nft_elems_dump() one datagram at a time: with a zeroed walk, for the request, and then until it
 * returns 0, or -errno; 1: there is more. Concurrent changes may be included or not. `nl` must have
 * no other use meanwhile. When the dump begins again, `fn` gets the first elements again.
 */
MUST_USE int nft_elems_dump_step(struct nft_walk *w, struct nl_sock *nl,
				 const struct nft_table_ref *table, enum nft_set_id set,
				 nft_elem_fn *fn, void *arg, struct err *err);
/* The next step begins at the first element. 1, or -EAGAIN: too often. */
MUST_USE int nft_elems_dump_again(struct nft_walk *w, struct err *err);

/* A key to look up, and the element that the kernel has there. */
struct nft_lookup {
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];
	bool is_found;       /* only then are the other results valid */
	uint64_t packets;    /* of its counter; 0 when it has none */
	uint64_t expires_ms; /* time until it expires; 0 = never */
};

/*
 * Look up the `n` keys of `v`. -ENOTRECOVERABLE when the table or the set is gone.
 */
MUST_USE int nft_elems_get(struct nl_sock *nl, const struct nft_table_ref *table,
			   enum nft_set_id set, struct nft_lookup *v, size_t n, struct err *err);

/* Is the attribute at `offset` of a rejected message one of its elements? */
bool nft_offset_is_elem(const struct nlmsghdr *msg, uint32_t offset);
