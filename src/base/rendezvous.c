/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/rendezvous - round r gives each member the slot that it ranks r-th, if that is free. */
#include "base/rendezvous.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define MASK (RENDEZVOUS_SLOTS - 1)
#define HALF (RENDEZVOUS_BITS / 2)
#define FREE UINT32_MAX

/* Finaliser of splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t mix64(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* One of the `weight` contenders of a member. */
struct contender {
	uint64_t salt;
	uint64_t keys; /* of the permutation */
	uint32_t member;
};

static uint32_t round_of(uint32_t x, uint64_t key)
{
	x = x * ((uint32_t)key | 1) + (uint32_t)(key >> 10);
	x &= MASK;
	return x ^ x >> HALF;
}

/* The slot at this rank: a bijection of RENDEZVOUS_BITS bits. */
static uint32_t slot_at(const struct contender *c, uint32_t rank)
{
	uint32_t x = round_of(rank, c->keys);

	x = round_of(x, c->keys >> 20);
	x = round_of(x, c->keys >> 40);
	return round_of(x, c->salt);
}

/* Of two contenders with equal rank for a slot. */
static bool does_beat(const struct contender *a, const struct contender *b, uint32_t slot)
{
	uint64_t x = mix64(a->salt + slot);
	uint64_t y = mix64(b->salt + slot);

	return x != y ? x < y : a->salt < b->salt;
}

static struct contender *contenders_make(const struct rendezvous_member *v, size_t n, size_t *total)
{
	struct contender *c;
	size_t k = 0;

	*total = 0;
	for (size_t i = 0; i < n; i++)
		*total += v[i].weight;
	assert(*total > 0 && *total <= RENDEZVOUS_WEIGHT_MAX);
	c = xreallocarray(NULL, *total, sizeof(*c));
	for (size_t i = 0; i < n; i++)
		for (uint32_t w = 0; w < v[i].weight; w++) {
			uint64_t salt = mix64(v[i].id + w * UINT64_C(0x9e3779b97f4a7c15));

			c[k++] = (struct contender){ salt, mix64(salt), (uint32_t)i };
		}
	return c;
}

void rendezvous_assign(uint16_t table[static RENDEZVOUS_SLOTS], const struct rendezvous_member *v,
		       size_t n)
{
	AUTO(free) uint32_t *owner = xreallocarray(NULL, RENDEZVOUS_SLOTS, sizeof(*owner));
	AUTO(free) uint32_t *won_at = xreallocarray(NULL, RENDEZVOUS_SLOTS, sizeof(*won_at));
	size_t left = RENDEZVOUS_SLOTS;
	size_t total;
	AUTO(free) struct contender *c = contenders_make(v, n, &total);

	assert(n > 0 && n <= UINT16_MAX);
	memset(owner, 0xff, RENDEZVOUS_SLOTS * sizeof(*owner));
	for (uint32_t rank = 0; left > 0; rank++)
		for (uint32_t i = 0; i < total; i++) {
			uint32_t slot = slot_at(&c[i], rank);

			if (owner[slot] == FREE) {
				left--;
				won_at[slot] = rank;
			} else if (won_at[slot] != rank ||
				   !does_beat(&c[i], &c[owner[slot]], slot)) {
				continue;
			}
			owner[slot] = i;
		}
	for (size_t slot = 0; slot < RENDEZVOUS_SLOTS; slot++)
		table[slot] = (uint16_t)c[owner[slot]].member;
}

/* --- jhash --- */

struct jhash {
	uint32_t a, b, c;
};

static uint32_t rotl(uint32_t x, unsigned int by)
{
	return x << by | x >> (32 - by);
}

static void jhash_mix(struct jhash *h)
{
	h->a -= h->c, h->a ^= rotl(h->c, 4), h->c += h->b;
	h->b -= h->a, h->b ^= rotl(h->a, 6), h->a += h->c;
	h->c -= h->b, h->c ^= rotl(h->b, 8), h->b += h->a;
	h->a -= h->c, h->a ^= rotl(h->c, 16), h->c += h->b;
	h->b -= h->a, h->b ^= rotl(h->a, 19), h->a += h->c;
	h->c -= h->b, h->c ^= rotl(h->b, 4), h->b += h->a;
}

static uint32_t jhash_final(struct jhash *h)
{
	h->c ^= h->b, h->c -= rotl(h->b, 14);
	h->a ^= h->c, h->a -= rotl(h->c, 11);
	h->b ^= h->a, h->b -= rotl(h->a, 25);
	h->c ^= h->b, h->c -= rotl(h->b, 16);
	h->a ^= h->c, h->a -= rotl(h->c, 4);
	h->b ^= h->a, h->b -= rotl(h->a, 14);
	h->c ^= h->b, h->c -= rotl(h->b, 24);
	return h->c;
}

/* Add up to 12 bytes. The kernel reads whole blocks in host order, and the last one bytewise. */
static void jhash_add(struct jhash *h, const uint8_t *p, size_t len, bool is_last)
{
	uint32_t word[3] = { 0 };

	if (!is_last)
		memcpy(word, p, sizeof(word));
	for (size_t i = 0; is_last && i < len; i++)
		word[i / 4] |= (uint32_t)p[i] << 8 * (i % 4);
	h->a += word[0];
	h->b += word[1];
	h->c += word[2];
}

static uint32_t jhash(const uint8_t *p, size_t len, uint32_t seed)
{
	uint32_t init = UINT32_C(0xdeadbeef) + (uint32_t)len + seed;
	struct jhash h = { init, init, init };

	for (; len > 12; len -= 12, p += 12) {
		jhash_add(&h, p, 12, false);
		jhash_mix(&h);
	}
	if (len == 0)
		return h.c;
	jhash_add(&h, p, len, true);
	return jhash_final(&h);
}

uint32_t rendezvous_slot(const void *key, size_t len, uint32_t seed)
{
	return (uint32_t)((uint64_t)jhash(key, len, seed) * RENDEZVOUS_SLOTS >> 32);
}
