/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fake - a kernel's nf_tables in memory, behind struct nl_io.
 *
 *     fake_open -> fake_connect -> nl_batch_commit, nl_dump, nl_query ... -> fake_close
 *
 * It takes the same bytes and gives the same answers as Linux, as far as vipd
 * goes: batches that apply whole or not at all, errors for every bad message
 * and an ACK where one was asked for, extended ACKs that point at the attribute,
 * dumps, keyed reads, one generation a commit. What set elements may and may not
 * do is the table "element semantics" of doc/design/0003-nft-elements.md.
 * tests/kernel runs the same cases against a real kernel.
 *
 * Not modelled: packets, timeouts, and what a rule's expressions mean.
 */
#pragma once

#include "base/str.h"
#include "nft/sets.h"
#include "nl/sock.h"

struct fake;

void fake_open(struct fake **ret);
void fake_close(struct fake *f);
DEFINE_AUTO(struct fake *, fake_close);

/* A socket to it; closed by nl_sock_close() before the fake is. */
struct nl_sock *fake_connect(struct fake *f);
/* The fake as struct nl_io; `io->close` frees it. */
struct nl_io fake_io(struct fake *f);

/* Commits since the start or the last fake_count_reset(). */
struct fake_count {
	size_t n_batches;  /* that changed something */
	size_t n_refused;  /* batches */
	size_t n_messages; /* in committed batches */
	size_t n_adds;     /* elements */
	size_t n_dels;
	size_t n_dumps;
	size_t n_gets; /* keys looked up */
};
struct fake_count fake_count(const struct fake *f);
void fake_count_reset(struct fake *f);
uint32_t fake_genid(const struct fake *f);

/* --- trouble --- */

/* The k-th datagram from now on (from 1) is not accepted: send() gives -`error`. */
void fake_fail_send(struct fake *f, size_t k, int error);
/* The k-th element (or other message) of batches from now on is rejected with -`error`. */
void fake_refuse(struct fake *f, size_t k, int error);
/*
 * Additions to `set` with a key that begins with these bytes are rejected, until fake_refuse_key(f,
 * NFTSET_N, NULL, 0, 0).
 */
void fake_refuse_key(struct fake *f, enum nft_set_id set, const void *key, size_t len, int error);
/* The k-th batch from now on is applied, but its answers are lost. */
void fake_lose_answer(struct fake *f, size_t k);
/* The k-th dump from now on is marked as interrupted; all from then on if `forever`. */
void fake_interrupt_dump(struct fake *f, size_t k, bool forever);
/*
 * The next `n` dumps of sets that need several messages list the first element twice and not the
 * last one, as if the kernel resized their hash tables.
 */
void fake_tear_dumps(struct fake *f, size_t n);
/* A kernel without expression `hash`. */
void fake_no_hash(struct fake *f, bool on);
/* A kernel without these flags of tables: NFT_TABLE_F_OWNER, NFT_FIXED_TABLE_F_PERSIST. */
void fake_no_table_flags(struct fake *f, uint32_t flags);
/* All elements of sets with a timeout end in this time; 0: no listing has the time of an end. */
void fake_expire(struct fake *f, uint64_t ms);
/* A kernel whose errors have no offset. */
void fake_no_offsets(struct fake *f, bool on);
/* Every request that is not a batch gets -`error`; 0: normal. */
void fake_deny(struct fake *f, int error);
/* One address family fails with `error`, until fake_calm(). */
enum fake_failing {
	FAKE_FAILING_NONE = 0,
	FAKE_FAILING_READS,
	FAKE_FAILING_WRITES,
	FAKE_FAILING_ELEMENTS, /* writes of these alone */
};
void fake_fail_family(struct fake *f, enum ipfam fam, enum fake_failing what, int error);
/* At most `n` answers fit the receive buffer; the rest is lost. 0: no limit. */
void fake_recv_limit(struct fake *f, size_t n);
/* While set, no failure happens; scheduled ones stay scheduled. */
void fake_truce(struct fake *f, bool on);
/* No trouble any more. */
void fake_calm(struct fake *f);
/* Number of elements and other messages in batches so far, to choose k. */
size_t fake_operations(const struct fake *f);

/* --- others on the same kernel --- */

/* A foreign commit to another table: only the generation changes. */
void fake_foreign_commit(struct fake *f);
/* A foreign change deletes an element (true: it existed), or adds one. */
bool fake_foreign_del(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key);
void fake_foreign_add(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key,
		      const void *data);
/* A foreign change deletes all tables of a family without an owner. */
void fake_foreign_flush(struct fake *f, enum ipfam fam);
/* vipd's tables have layout version 0. */
void fake_foreign_version(struct fake *f);

/* Called for a request for a match of iptables, whose module the kernel loads. */
void fake_loading(struct fake *f, void (*fn)(void *arg), void *arg);

/* --- what it holds --- */

/* Data of an element (not NULL for sets either), or NULL. */
const uint8_t *fake_find(const struct fake *f, enum ipfam fam, enum nft_set_id set,
			 const void *key);
/* Set the element's packet counter, if it has one. */
void fake_packets(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key,
		  uint64_t packets);
size_t fake_set_size(const struct fake *f, enum ipfam fam, enum nft_set_id set);
size_t fake_chain_count(const struct fake *f, enum ipfam fam);
/* Handle of a table that has a set or a chain of this name; 0: none has. */
uint64_t fake_table_with(const struct fake *f, const char *name);

/*
 * Every element that depends on services, one a line, sorted:
 *     ip frontends 10.96.0.10:53/UDP -> pool 7 p3
 */
void fake_print_elements(const struct fake *f, struct str *out);
/*
 * The same as people see it, without pool numbers and slots:
 *     10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53 10.1.0.5:53
 *     192.0.2.1:80/TCP masq=host guard=10.0.0.0/24 inside -> 10.1.0.4:80; outside -> drop
 */
void fake_print_services(const struct fake *f, struct str *out);
