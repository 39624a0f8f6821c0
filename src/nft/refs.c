/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/refs - counts in a key table, and the FIFO of addresses in their grace period. */
#include "nft/refs.h"

#include <assert.h>
#include <string.h>

#define IN_GRACE UINT32_C(0x80000000)
#define FIFO_KEEP 1024 /* capacity that an empty FIFO keeps */

static uint32_t value_get(const struct nft_refs *r, const void *addr)
{
	const void *p = nft_keymap_find(&r->tab, addr);
	uint32_t v = 0;

	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return v;
}

static void value_set(struct nft_refs *r, const void *addr, uint32_t v)
{
	if (v == 0)
		(void)nft_keymap_del(&r->tab, addr);
	else
		memcpy(nft_keymap_put(&r->tab, addr, NULL), &v, sizeof(v));
}

void nft_refs_init(struct nft_refs *r, size_t key_len)
{
	*r = (struct nft_refs){ 0 };
	nft_keymap_init(&r->tab, key_len, sizeof(uint32_t));
}

void nft_refs_clear(struct nft_refs *r)
{
	nft_keymap_clear(&r->tab);
	vec_fini(&r->fifo);
	r->head = 0;
	r->n_stamped = 0;
	r->n_in_grace = 0;
}

uint32_t nft_refs_count(const struct nft_refs *r, const void *addr)
{
	uint32_t v = value_get(r, addr);

	return v & IN_GRACE ? 0 : v;
}

bool nft_refs_in_grace(const struct nft_refs *r, const void *addr)
{
	return (value_get(r, addr) & IN_GRACE) != 0;
}

void nft_refs_set(struct nft_refs *r, const void *addr, uint32_t count)
{
	assert((count & IN_GRACE) == 0);
	if (value_get(r, addr) & IN_GRACE)
		r->n_in_grace--;
	value_set(r, addr, count);
}

bool nft_refs_is_known(const struct nft_refs *r, const void *addr)
{
	return value_get(r, addr) != 0;
}

void nft_refs_keep(struct nft_refs *r, const void *addr)
{
	nft_refs_set(r, addr, nft_refs_count(r, addr) + 1);
}

/* Has the address been unused since this entry was made? */
static bool is_current(const struct nft_refs *r, const struct nft_grace *l)
{
	return value_get(r, l->addr) == (IN_GRACE | l->seq);
}

/*
 * Drop stale entries when they are the majority: addresses that leave and return within their grace
 * period do not make the FIFO grow.
 */
static void fifo_compact(struct nft_refs *r)
{
	size_t n_stamped = 0;
	size_t kept = 0;

	if (r->fifo.n - r->head < 2 * r->n_in_grace + FIFO_KEEP)
		return;
	for (size_t i = r->head; i < r->fifo.n; i++) {
		if (!is_current(r, &r->fifo.v[i]))
			continue;
		n_stamped += i < r->head + r->n_stamped;
		r->fifo.v[kept++] = r->fifo.v[i];
	}
	vec_cut(&r->fifo, kept);
	r->n_stamped = n_stamped;
	r->head = 0;
}

void nft_refs_grace(struct nft_refs *r, const void *addr)
{
	struct nft_grace *l;

	if (value_get(r, addr) & IN_GRACE)
		return;
	r->seq = (r->seq + 1) & ~IN_GRACE;
	r->seq += r->seq == 0;
	fifo_compact(r);
	l = vec_push(&r->fifo);
	*l = (struct nft_grace){ .seq = r->seq };
	memcpy(l->addr, addr, r->tab.key_len);
	value_set(r, addr, IN_GRACE | r->seq);
	r->n_in_grace++;
}

void nft_refs_inherit(struct nft_refs *r, struct nft_refs *old)
{
	for (size_t i = old->head; i < old->fifo.n; i++) {
		const struct nft_grace *l = &old->fifo.v[i];

		if (!is_current(old, l))
			continue;
		nft_refs_grace(r, l->addr);
		r->fifo.v[r->fifo.n - 1].since_s = l->since_s;
		r->n_stamped += i < old->head + old->n_stamped;
	}
}

void nft_refs_grace_rest(struct nft_refs *r, const struct nft_refs *old)
{
	nft_keymap_for_each (e, &old->tab)
		if (nft_keymap_find(&r->tab, e.key) == NULL)
			nft_refs_grace(r, e.key);
}

void nft_refs_stamp(struct nft_refs *r, uint32_t now_s)
{
	for (size_t i = r->head + r->n_stamped; i < r->fifo.n; i++)
		r->fifo.v[i].since_s = now_s;
	r->n_stamped = r->fifo.n - r->head;
}

/* Drop stale entries: afterwards the FIFO begins with a current entry, or is empty. */
static void drop_stale(struct nft_refs *r)
{
	while (r->head < r->fifo.n && !is_current(r, &r->fifo.v[r->head])) {
		r->head++;
		r->n_stamped -= r->n_stamped > 0;
	}
	if (r->head == r->fifo.n) {
		r->head = r->fifo.n = 0;
		if (r->fifo.cap > FIFO_KEEP)
			vec_fini(&r->fifo);
	} else if (r->head > r->fifo.n / 2) {
		memmove(r->fifo.v, r->fifo.v + r->head,
			(r->fifo.n - r->head) * sizeof(r->fifo.v[0]));
		vec_cut(&r->fifo, r->fifo.n - r->head);
		r->head = 0;
	}
}

size_t nft_refs_due(struct nft_refs *r, uint32_t now_s, uint32_t wait_s, uint8_t *addrs, size_t max)
{
	size_t len = r->tab.key_len;
	size_t n = 0;

	drop_stale(r);
	if (r->n_stamped == 0)
		return 0;
	assert(r->fifo.v != NULL);
	for (size_t i = r->head; i < r->head + r->n_stamped && n < max; i++) {
		const struct nft_grace *l = &r->fifo.v[i];

		if (now_s - l->since_s < wait_s)
			break;
		if (is_current(r, l))
			memcpy(addrs + len * n++, l->addr, len);
	}
	return n;
}

uint32_t nft_refs_next_due(struct nft_refs *r, uint32_t wait_s)
{
	drop_stale(r);
	if (r->n_stamped == 0)
		return 0;
	assert(r->fifo.v != NULL);
	return r->fifo.v[r->head].since_s + wait_s;
}
