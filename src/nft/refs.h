/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/refs - how often each address is needed, and addresses that linger. The address
 * of an endpoint includes its port.
 *
 * An address stands once in a kernel set however many frontends or backends
 * have it. The plane counts them here; what is counted is what the kernel has
 * acknowledged. An entry is 9 bytes for IPv4, 21 for IPv6, and its share of free room.
 *
 * An address may also linger: nobody needs it, the kernel still holds it, and a
 * FIFO knows since when. When it is needed again, nothing has to be written; the
 * FIFO's entry is recognised as stale by its number.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "nft/keymap.h"

/* One address waiting for its removal. */
struct nft_grace {
	uint8_t addr[20];
	uint32_t seq;
	uint32_t since_s; /* 0: not yet stamped */
};

struct nft_refs {
	struct nft_keymap tab; /* address -> 32 bits: a count, or IN_GRACE and the FIFO's number */
	VEC(struct nft_grace) fifo;
	size_t head;      /* of the FIFO in its vector */
	size_t n_stamped; /* entries from the head that know since when */
	uint32_t seq;
	size_t n_in_grace; /* addresses; the FIFO may hold stale entries besides */
};

/* Keys are `key_len` bytes: an address in network order, or what endpoint_addrs begins with. */
void nft_refs_init(struct nft_refs *r, size_t key_len);
void nft_refs_clear(struct nft_refs *r);

uint32_t nft_refs_count(const struct nft_refs *r, const void *addr);
bool nft_refs_in_grace(const struct nft_refs *r, const void *addr);
/* Set the count; at 0 the address is forgotten. It no longer lingers. */
void nft_refs_set(struct nft_refs *r, const void *addr, uint32_t count);
/* Nobody needs it now, but the kernel holds it. No change if it lingers already. */
void nft_refs_grace(struct nft_refs *r, const void *addr);

/* The kernel holds it, for reasons that are not counted: it lingers without end. */
void nft_refs_pin(struct nft_refs *r, const void *addr);
bool nft_refs_is_known(const struct nft_refs *r, const void *addr);
/* What lingers in `old` lingers here from the same time on; `r` is empty. */
void nft_refs_inherit(struct nft_refs *r, struct nft_refs *old);
/* Whatever is counted or lingers in `old`, and is not known here, begins to linger. */
void nft_refs_grace_rest(struct nft_refs *r, const struct nft_refs *old);

/* Entries that do not know since when they wait, wait since `now_s` (> 0). */
void nft_refs_stamp(struct nft_refs *r, uint32_t now_s);
/*
 * Up to `max` addresses that have lingered `wait_s`, oldest first, into `addrs`
 * (key length each). They go on lingering until nft_refs_set(.., 0).
 */
size_t nft_refs_due(struct nft_refs *r, uint32_t now_s, uint32_t wait_s, uint8_t *addrs,
		    size_t max);
/* When (in seconds) the oldest is due; 0 when none lingers. Stamped entries only. */
uint32_t nft_refs_next_due(struct nft_refs *r, uint32_t wait_s);
