/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/refs - counts and grace periods in one key table. */
#include "nft/refs.h"

#include <assert.h>
#include <string.h>

#define IN_GRACE UINT32_C(0x80000000)

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

void nft_refs_grace(struct nft_refs *r, const void *addr)
{
	if (nft_refs_in_grace(r, addr))
		return;
	value_set(r, addr, IN_GRACE);
	r->n_in_grace++;
}

static uint32_t value_at(const struct nft_keymap_pos *pos)
{
	uint32_t v;

	memcpy(&v, pos->val, sizeof(v));
	return v;
}

void nft_refs_inherit(struct nft_refs *r, const struct nft_refs *old)
{
	nft_keymap_for_each (e, &old->tab)
		if (value_at(&e) & IN_GRACE)
			value_set(r, e.key, value_at(&e));
	r->n_in_grace = old->n_in_grace;
}

size_t nft_refs_due(struct nft_refs *r, uint32_t now_s, uint32_t wait_s, uint8_t *addrs, size_t max,
		    uint32_t *next_s)
{
	size_t n = 0;

	*next_s = 0;
	if (r->n_in_grace == 0)
		return 0;
	nft_keymap_for_each (e, &r->tab) {
		uint32_t v = value_at(&e);
		uint32_t due_s;

		if (!(v & IN_GRACE))
			continue;
		if (v == IN_GRACE) {
			v |= now_s;
			memcpy(e.val, &v, sizeof(v));
		}
		due_s = (v & ~IN_GRACE) + wait_s;
		if (due_s <= now_s && n < max)
			memcpy(addrs + r->tab.key_len * n++, e.key, r->tab.key_len);
		else if (*next_s == 0 || due_s < *next_s)
			*next_s = due_s;
	}
	return n;
}
