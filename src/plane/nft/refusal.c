/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/refusal.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "plane/nft/decode.h"

/* "ip frontends 10.0.0.1:80/TCP -> pool 7 p3" in front of the kernel's words. */
static int name_element(const struct nft_change *ch, const struct nft_table_ref *table, int r,
			struct err *err)
{
	const char *family = table->family == NFPROTO_INET ? "inet"
			     : ch->fam == IPFAM_V6         ? "ip6"
							   : "ip";
	struct str text = { 0 };

	nft_elem_text(&text, ch->fam, ch->set, ch->key,
		      ch->has_new && nft_data_len(ch->set, ch->fam) > 0 ? ch->data : NULL);
	r = err_wrap(err, r, "%s %s %s", family, nft_set_desc(ch->set, ch->fam)->name,
		     str_text(&text));
	str_fini(&text);
	return r;
}

static int refusal_code(const struct nl_refusal *f)
{
	bool is_del;

	if (f->msg == NULL)
		return f->error == -ERESTART ? -EBUSY : f->error;
	is_del = NFNL_MSG_TYPE(f->msg->nlmsg_type) == NFT_MSG_DELSETELEM;
	if (f->error == -ENOENT) {
		bool is_elem = f->has_offset ? nft_offset_is_elem(f->msg, f->offset) : is_del;

		return is_elem && is_del ? -ESTALE : -ENOTRECOVERABLE;
	}
	/* ENOTEMPTY: a range that overlaps another; EBUSY: one half of it does */
	if (!is_del && (f->error == -EEXIST || f->error == -ENOTEMPTY || f->error == -EBUSY))
		return -ESTALE;
	return f->error;
}

int nft_refusal(const struct nl_batch *b, const struct nft_table_ref tables[IPFAM_N], int r,
		struct plane_result *res, struct err *err)
{
	const struct nl_refusal *f = nl_batch_refusal(b);
	const struct nft_change *ch = f->tag;

	if (f->error == 0) /* no verdict, or nothing sent */
		return r == -ENOBUFS ? err_set(err, -EBUSY, "verdict lost, outcome unknown") : r;
	r = refusal_code(f);
	if (ch == NULL)
		return r;
	if (r != -ENOTRECOVERABLE)
		res->culprit = ch->svc;
	return name_element(ch, &tables[ch->fam], r, err);
}
