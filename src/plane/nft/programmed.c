/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/programmed - load the state as adoption does, and print it. */
#include "plane/nft/programmed.h"

#include <errno.h>

#include "nft/decode.h"
#include "nft/watch.h"
#include "plane/nft/layout.h"
#include "plane/nft/loaded.h"

static int family_read(struct nft_loaded *h, struct nl_sock *nl, enum ipfam fam, struct err *err)
{
	AUTO(nft_layout_close) struct nft_layout *l = NULL;
	struct nft_reading *rd;
	int r;

	nft_layout_open(&l, nl, fam);
	l->is_readonly = true;
	r = nft_layout_load(l, err);
	if (r < 0)
		return r;
	if (l->state == NFT_LAYOUT_OBSOLETE)
		return err_set(err, -EPROTO, "table %s %s; use the vipctl of the vipd that made it",
			       nft_fam_text(fam), l->misfit);
	nft_reading_open(&rd, h, nl, l);
	do
		r = nft_reading_step(rd, err);
	while (r > 0);
	nft_reading_close(rd);
	return r;
}

/* 1: a table was deleted or modified meanwhile. */
static int tables_read(struct nft_loaded *h, struct nl_sock *nl, struct nft_watch *watch,
		       struct err *err)
{
	int r = 0;

	nft_watch_load_begin(watch);
	for (int fam = 0; r == 0 && fam < IPFAM_N; fam++) {
		nft_loaded_forget(h, fam);
		r = family_read(h, nl, fam, err);
	}
	if (r < 0 && r != -EAGAIN)
		return r;
	watch->is_flood |= r == -EAGAIN;
	return nft_watch_load_end(watch, err);
}

int nft_programmed_text(struct str *out, struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	AUTO(nl_sock_close) struct nl_sock *watch_nl = NULL;
	struct nft_source src;
	AUTO(nft_loaded_close) struct nft_loaded *loaded = NULL;
	struct nft_watch watch;
	int r = nl_sock_open(&nl, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&watch_nl, NETLINK_NETFILTER, err);
	if (r < 0)
		return r;
	nft_loaded_open(&loaded);
	nft_watch_init(&watch);
	r = nft_watch_join(&watch, watch_nl, nl, err);
	for (r = r < 0 ? r : 1; r > 0;)
		r = tables_read(loaded, nl, &watch, err);
	nft_watch_fini(&watch);
	src = plane_loaded_source(&loaded->elems);
	if (r == 0)
		nft_frontends_text(out, &src);
	return r;
}
