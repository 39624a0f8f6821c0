/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/refs - counts in a key table, and the addresses in their grace period in a list. */
#include "nft/refs.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void nft_refs_init(struct nft_refs *r, size_t key_len)
{
	*r = (struct nft_refs){ 0 };
	nft_keymap_init(&r->tab, key_len, sizeof(uint32_t));
	list_init(&r->in_order);
}

static struct nft_retained *retained_find(const struct nft_refs *r, const void *addr)
{
	if (r->retained.count == 0)
		return NULL;
	return htable_find(&r->retained, hash_bytes(addr, r->tab.key_len), struct nft_retained, e,
			   memcmp(e->addr, addr, r->tab.key_len) == 0);
}

static void unstamped_next(struct nft_refs *r)
{
	r->unstamped = r->unstamped->next;
	if (r->unstamped == &r->in_order)
		r->unstamped = NULL;
}

static void retained_free(struct nft_refs *r, struct nft_retained *e)
{
	if (e == NULL)
		return;
	htable_remove(&r->retained, &e->node);
	if (r->unstamped == &e->order)
		unstamped_next(r);
	list_del(&e->order);
	free(e);
}

void nft_refs_clear(struct nft_refs *r)
{
	nft_refs_restart(r);
	while (r->retained.count > 0)
		retained_free(r, nft_refs_oldest(r));
	htable_fini(&r->retained);
}

void nft_refs_restart(struct nft_refs *r)
{
	nft_keymap_clear(&r->tab);
}

uint32_t nft_refs_count(const struct nft_refs *r, const void *addr)
{
	const void *p = nft_keymap_find(&r->tab, addr);
	uint32_t n = 0;

	if (p != NULL)
		memcpy(&n, p, sizeof(n));
	return n;
}

bool nft_refs_in_grace(const struct nft_refs *r, const void *addr)
{
	return retained_find(r, addr) != NULL;
}

void nft_refs_set(struct nft_refs *r, const void *addr, uint32_t count)
{
	if (count == 0)
		(void)nft_keymap_del(&r->tab, addr);
	else
		memcpy(nft_keymap_put(&r->tab, addr, NULL), &count, sizeof(count));
	retained_free(r, retained_find(r, addr)); /* `addr` may be a part of it */
}

bool nft_refs_is_known(const struct nft_refs *r, const void *addr)
{
	return nft_refs_count(r, addr) > 0 || nft_refs_in_grace(r, addr);
}

void nft_refs_keep(struct nft_refs *r, const void *addr)
{
	nft_refs_set(r, addr, nft_refs_count(r, addr) + 1);
}

void nft_refs_grace(struct nft_refs *r, const void *addr)
{
	struct nft_retained *e;

	if (nft_refs_in_grace(r, addr))
		return;
	(void)nft_keymap_del(&r->tab, addr);
	e = xcalloc(1, sizeof(*e) + r->tab.key_len);
	memcpy(e->addr, addr, r->tab.key_len);
	htable_insert(&r->retained, &e->node, hash_bytes(addr, r->tab.key_len));
	list_add_tail(&r->in_order, &e->order);
	if (r->unstamped == NULL)
		r->unstamped = &e->order;
}

void nft_refs_stamp(struct nft_refs *r, uint32_t now_s)
{
	for (int i = 0; i < NFT_REFS_STAMP_MAX && r->unstamped != NULL; i++) {
		list_entry(r->unstamped, struct nft_retained, order)->since_s = now_s;
		unstamped_next(r);
	}
}

struct nft_retained *nft_refs_oldest(const struct nft_refs *r)
{
	return list_is_empty(&r->in_order)
		       ? NULL
		       : list_entry(r->in_order.next, struct nft_retained, order);
}
