/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/fake/state - internal state, shared by fake, answer and print. */
#pragma once

#include "fake/fake.h"
#include "fake/object.h"

/* Failure scheduled for the k-th event; 0: none. */
struct trap {
	size_t k;
	int error;
};

struct fake {
	struct list tables;
	uint64_t next_handle;
	uint32_t genid;
	struct fake_count count;
	size_t n_operations;
	struct trap send;
	struct trap refuse;
	struct trap lose;
	struct trap interrupt;
	bool is_interrupting; /* all dumps from now on */
	size_t n_torn;        /* number of element dumps to be torn */
	void (*loading)(void *arg);
	void *loading_arg;
	bool no_offsets;
	uint32_t no_table_flags;
	uint64_t expires_ms;
	bool no_hash;
	int denied; /* an errno, or 0 */
	struct {
		enum fake_failing what;
		uint8_t family;
		int error;
	} failing;
	bool is_truce;
	size_t recv_limit;
	struct {
		enum nft_set_id set;
		uint8_t key[ELEM_KEY_MAX];
		size_t len;
		int error;
	} refuse_key;
	size_t n_connections;
};

/* One datagram waiting to be read. */
struct datagram {
	struct list link;
	size_t len;
	uint8_t bytes[];
};

/* One socket. */
struct connection {
	struct fake *fake;
	struct list queue;
	size_t n_queued;
	bool is_lost; /* an answer did not fit */
	bool is_dump; /* the request under work is one */
};

/* Counts down; true at the event. */
static inline bool trap_springs(const struct fake *f, struct trap *t)
{
	return !f->is_truce && t->k > 0 && --t->k == 0;
}

/* --- answer.c --- */

void answer_clear(struct connection *c);
/* Takes the datagram from the queue into `data`; results as nl_io.recv. */
ssize_t answer_take(struct connection *c, void *data, size_t size);
/* Drop what was queued since `mark` datagrams, as if the buffer had overflowed. */
void answer_lose(struct connection *c, size_t mark);

/* Verdict on message `h`: 0 acknowledges. `at` is the attribute to point at, or NULL. */
void answer_verdict(struct connection *c, const struct nlmsghdr *h, int error,
		    const struct nlattr *at);
void answer_genid(struct connection *c, const struct nlmsghdr *h);
void answer_table(struct connection *c, const struct nlmsghdr *h, const struct table *t);
void answer_chain(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		  const struct chain *ch);
/* One element of a keyed read. */
void answer_elem(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		 const struct set *s, const struct elem *e);
/* Whole dumps, with DONE. `name` limits them to a table, a chain or a set; may be NULL. */
void answer_dump_tables(struct connection *c, const struct nlmsghdr *h, uint16_t intr);
void answer_dump_chains(struct connection *c, const struct nlmsghdr *h, const char *table,
			uint16_t intr);
void answer_dump_rules(struct connection *c, const struct nlmsghdr *h, const char *table,
		       const char *chain, uint16_t intr);
void answer_dump_sets(struct connection *c, const struct nlmsghdr *h, const char *table,
		      uint16_t intr);
void answer_dump_elems(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		       const struct set *s, uint16_t intr);
