/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/rendezvous - assign the slots of a table to members, so that a change moves few slots.
 *
 * Each member ranks all slots in an order of its own, and a slot belongs to the member that
 * ranks it best (rendezvous hashing: Thaler and Ravishankar, 1998). A member that leaves gives
 * up its slots and no other changes hands; a new member takes slots and gives none. The order
 * of a member is a permutation of the slots, as in Maglev, not a hash of each slot: shares are
 * then more even, and the table is filled in about RENDEZVOUS_SLOTS * 10 steps for any number of
 * members. A member of weight w counts as w members.
 *
 * The table depends on the set of members only: not on their order, the host or the process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_BITS 14
#define RENDEZVOUS_SLOTS (1 << RENDEZVOUS_BITS)
/* A weight of all members together: more would be assigned less than one slot. */
#define RENDEZVOUS_WEIGHT_MAX (1 << 20)

struct rendezvous_member {
	uint64_t id;     /* a hash; distinct */
	uint32_t weight; /* at least 1; the sum is at most RENDEZVOUS_WEIGHT_MAX */
};

/* Fill `table` with indices into `v`; `n` is 1 to 65535. */
void rendezvous_assign(uint16_t table[static RENDEZVOUS_SLOTS], const struct rendezvous_member *v,
		       size_t n);

/*
 * The slot of a key, as nftables computes it: jhash of `len` bytes, scaled. Key and seed as in
 * the rule. Source: Bob Jenkins, lookup3.c (2006); linux/jhash.h.
 */
uint32_t rendezvous_slot(const void *key, size_t len, uint32_t seed);
