/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/exchange - send the changes of a transaction, and interpret a rejection. */
#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "nft/decode.h"
#include "nl/attr.h"
#include "nl/batch.h"
#include "plane/common.h"

/* A larger batch buffer is freed after its transaction. */
#define BATCH_KEEP ((size_t)4 * 1024 * 1024)

/* --- rejections --- */

/* "ip frontends 10.0.0.1:80/TCP -> pool 7 p3" before the kernel's error. */
static int name_element(const struct plane_common *c, const struct nft_change *ch, int r,
			struct err *err)
{
	struct nft_table_ref table = c->ops->table(c, ch->fam);
	FINI(str_fini) struct str text = { 0 };

	nft_elem_text(&text, ch->fam, ch->set, ch->key,
		      ch->has_new && nft_data_len(ch->set, ch->fam) > 0 ? ch->data : NULL);
	return err_wrap(err, r, "%s %s %s", nft_family_text(nft_table_family(&table)),
			nft_set_desc(ch->set, ch->fam)->name, str_text(&text));
}

/* The error concerns no single element: the set that the message names. */
static int name_set(const struct nlmsghdr *h, int r, struct err *err)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(struct nfgenmsg));
	return err_wrap(
		err, r, "table %s %s, set %s",
		nft_family_text(((const struct nfgenmsg *)mnl_nlmsg_get_payload(h))->nfgen_family),
		nl_attr_str(tb[NFTA_SET_ELEM_LIST_TABLE]), nl_attr_str(tb[NFTA_SET_ELEM_LIST_SET]));
}

static int rejection_code(const struct nl_rejection *f)
{
	bool is_del;

	if (f->msg == NULL)
		return f->error;
	is_del = NFNL_MSG_TYPE(f->msg->nlmsg_type) == NFT_MSG_DELSETELEM;
	if (f->error == -ENOENT) {
		bool is_elem = f->has_offset ? nft_offset_is_elem(f->msg, f->offset) : is_del;

		return is_elem && is_del ? -ESTALE : -ENOTRECOVERABLE;
	}
	if (!is_del && (f->error == -EEXIST || f->error == -EBUSY))
		return -ESTALE;
	return f->error;
}

/* Family of a rejected message as a bit; 0: of a table of both families. */
static uint8_t families_of(const struct nlmsghdr *h)
{
	const struct nfgenmsg *msg = h != NULL ? mnl_nlmsg_get_payload(h) : NULL;
	uint8_t family = msg != NULL ? msg->nfgen_family : NFPROTO_UNSPEC;

	return family == NFPROTO_IPV4   ? 1u << IPFAM_V4
	       : family == NFPROTO_IPV6 ? 1u << IPFAM_V6
					: 0;
}

/*
 * Interpret r < 0 of the commit of c->batch, whose tags are changes: an element that already
 * exists, or does not exist, means that the programmed state is unknown (-ESTALE); a missing table
 * or set, that another process deleted it (-ENOTRECOVERABLE).
 */
static int rejection(const struct plane_common *c, int r, struct plane_result *res, struct err *err)
{
	const struct nl_rejection *f = nl_batch_rejection(c->batch);
	const struct nft_change *ch = f->tag;

	if (f->error == 0) /* no answer, or nothing sent */
		return r == -ENOBUFS ? err_set(err, -EBUSY, "answer lost; outcome unknown") : r;
	r = rejection_code(f);
	res->families = families_of(f->msg);
	if (ch == NULL)
		return f->msg != NULL ? name_set(f->msg, r, err) : r;
	if (r != -ENOTRECOVERABLE)
		res->culprit = ch->svc;
	if (r != -ENOTRECOVERABLE && r != -EPERM) /* else the table is at fault */
		res->families = (uint8_t)(1u << ch->fam);
	return name_element(c, ch, r, err);
}

/* --- sending --- */

enum part {
	PART_REST = 0,
	PART_EARLY,
	PART_EARLY_UNDO,
};

/* Write the changes of a set that add (`is_add`) or delete an element. */
static void set_write(struct nft_elem_writer *w, const struct nft_changes *c, enum ipfam fam,
		      enum nft_set_id set, bool is_add, enum nft_write write)
{
	size_t len = nft_data_len(set, fam);
	bool has_data = write == NFT_WRITE_ADD && len > 0;

	nft_changes_for_each (ch, c, fam, set)
		if (is_add ? nft_change_is_add(ch, len) : nft_change_is_del(ch, len))
			nft_elem_put(w, write, fam, set, ch->key, has_data ? ch->data : NULL, ch);
}

/*
 * Write the changes of a part that add (`is_add`) or delete an element. Early are pairs for a
 * backend, which come before IPVS has it: without its pair a pod that reaches itself through its
 * Service gets no answer.
 */
static void changes_write(struct nft_elem_writer *w, const struct plane_common *c, enum part part,
			  bool is_add)
{
	enum nft_write write = is_add && part != PART_EARLY_UNDO ? NFT_WRITE_ADD : NFT_WRITE_DEL;

	for (int fam = 0; fam < IPFAM_N; fam++)
		for (int set = 0; set < NFTSET_END; set++) {
			bool is_early = is_add && set == IPVSSET_HAIRPINS &&
					(part != PART_REST || c->is_early_sent);

			if (c->changes.sets[fam][set].n > 0 && is_early != (part == PART_REST))
				set_write(w, &c->changes, fam, set, is_add, write);
		}
}

/* Returns the number of transactions, or an error. */
static int part_send(struct plane_common *c, enum part part, struct plane_result *res,
		     struct err *err)
{
	struct nft_elem_writer w = { .batch = c->batch };
	uint64_t before = c->plane.batches.times.sum_ns;
	int r;

	for (int fam = 0; fam < IPFAM_N; fam++)
		w.tables[fam] = c->ops->table(c, fam);
	nl_batch_reset(c->batch);
	if (part == PART_REST)
		changes_write(&w, c, part, false);
	changes_write(&w, c, part, true);
	if (w.n == 0)
		return 0;
	r = nl_batch_commit(c->batch, err);
	res->done.kernel_ns += c->plane.batches.times.sum_ns - before;
	if (r < 0) {
		r = rejection(c, r, res, err);
	} else {
		res->done.n_writes += w.n;
		res->done.n_batches++;
		r = 1;
	}
	if (nl_batch_bytes(c->batch) > BATCH_KEEP) {
		nl_batch_close(c->batch);
		nl_batch_open(&c->batch, c->cmd);
	}
	return r;
}

int plane_transact_early(struct plane_common *c, struct plane_result *res, struct err *err)
{
	int r = part_send(c, PART_EARLY, res, err);

	c->is_early_sent = r > 0;
	return MIN(r, 0);
}

int plane_early_undo(struct plane_common *c, int r, struct plane_result *res, struct err *err)
{
	struct plane_result undo = { 0 };
	bool is_sent = c->is_early_sent;
	struct err own = { 0 };
	bool is_undone;

	c->is_early_sent = false;
	/* Undo after -ESTALE, too: the kernel may reject the difference that is sent next. */
	if (!is_sent || (!plane_is_rejection(r) && r != -ESTALE))
		return r;
	is_undone = part_send(c, PART_EARLY_UNDO, &undo, &own) >= 0;
	res->done.n_batches += undo.done.n_batches;
	res->done.kernel_ns += undo.done.kernel_ns;
	if (is_undone) {
		res->done.n_writes -= undo.done.n_writes;
		return r;
	}
	res->families = 0;
	res->culprit = NULL;
	return err_wrap(err, -EBUSY, "hairpins of a rejected change stay (%s)", own.text);
}

int plane_transact(struct plane_common *c, struct plane_result *res, struct err *err)
{
	int r = part_send(c, PART_REST, res, err);

	return plane_early_undo(c, MIN(r, 0), res, err);
}
