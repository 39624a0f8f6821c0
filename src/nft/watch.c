/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/watch.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <linux/filter.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nft/decode.h"
#include "nl/answer.h"
#include "nl/attr.h"
#include "nl/dump.h"

/* Datagrams read in one call. */
#define READ_MAX 4096
/* Checks that wait for a late notification. */
#define WAITS_MAX 3
/* Loads of our tables while other processes modify them. */
#define LOAD_TRIES 8
/* The kernel packs notifications into NLMSG_GOODSIZE, at most this. */
#define DATAGRAM_MAX 8192

/* Address or pool of a changed element. Compared as raw bytes. */
struct touched {
	uint8_t fam;
	uint8_t is_pool;
	uint8_t pad[2];
	uint8_t bytes[16]; /* an address as long as the family has it; a pool's id */
};
_Static_assert(sizeof(struct touched) == 20, "hashed as raw bytes");

static void genid_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_GEN_MAX + 1];
	uint32_t *genid = arg;

	nl_attr_table(tb, NFTA_GEN_MAX, h, sizeof(struct nfgenmsg));
	*genid = nl_attr_be32(tb[NFTA_GEN_ID], 0);
}

int nft_genid_read(struct nl_sock *nl, uint32_t *genid, struct err *err)
{
	char buf[64];
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(NFT_MSG_GETGEN), AF_UNSPEC);
	int r = nl_query(nl, h, &(struct nl_reader){ .message = genid_message, .arg = genid }, NULL,
			 err);

	switch (r) { /* the first request: fails without the capability or the module */
	case -EPERM:
		return err_set(err, r,
			       "nf_tables: Operation not permitted: vipd needs CAP_NET_ADMIN in "
			       "the user namespace that owns this network namespace; run it as "
			       "root, or give it this capability");
	case -EINVAL: /* nfnetlink has no such subsystem, and its module cannot be loaded */
		return err_set(err, -EOPNOTSUPP, "no nf_tables in this kernel (module nf_tables)");
	default:
		return r < 0 ? err_wrap(err, r, "read ruleset generation") : 0;
	}
}

void nft_watch_init(struct nft_watch *w)
{
	*w = (struct nft_watch){ .buf = xmalloc(DATAGRAM_MAX) };
	nft_keymap_init(&w->touched, sizeof(struct touched), 0);
}

void nft_watch_fini(struct nft_watch *w)
{
	nft_keymap_clear(&w->touched);
	free(w->buf);
}

int nft_watch_join(struct nft_watch *w, struct nl_sock *nl, struct nl_sock *cmd, struct err *err)
{
	/*
	 * BPF loads convert from network order. The name of the table is the first attribute
	 * of messages about elements. The kernel puts several messages of a transaction into one
	 * datagram: one that is longer than its first message may contain an element of vipd's.
	 */
	const uint32_t low_at = htons(1) == 1 ? 3 : 0; /* bytes of nlmsg_len */
	const uint32_t high_at = low_at ^ 1;
	const uint32_t type_at = offsetof(struct nlmsghdr, nlmsg_type);
	const uint32_t name_at =
		sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg) + sizeof(struct nlattr);
	struct sock_filter prog[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, high_at),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 8),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, low_at),
		BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 6),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, type_at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(NFT_TYPE(NFT_MSG_NEWGEN)), 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(NFT_TYPE(NFT_MSG_DELSETELEM)), 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(NFT_TYPE(NFT_MSG_NEWSETELEM)), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, name_at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x76697064 /* "vipd" */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	int r = nl_sock_filter(nl, prog, ARRAY_SIZE(prog), err);

	if (r == 0)
		r = nl_sock_join(nl, NFNLGRP_NFTABLES, err);
	if (r < 0)
		return r;
	nl_sock_mute(cmd, nl, NFNLGRP_NFTABLES);
	w->nl = nl;
	return 0;
}

/* A process may set any name: replace unprintable bytes. */
static void name_copy(struct nft_watch *w, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(w->name) - 1 && name[i] != '\0'; i++)
		w->name[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
	w->name[i] = '\0';
}

static void committed(struct nft_watch *w, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_GEN_MAX + 1];
	uint32_t pid;

	nl_attr_table(tb, NFTA_GEN_MAX, h, sizeof(struct nfgenmsg));
	pid = nl_attr_be32(tb[NFTA_GEN_PROC_PID], 0);
	if (pid == 0)
		return;
	w->is_several |= w->pid != 0 && w->pid != pid;
	w->pid = pid;
	name_copy(w, nl_attr_str(tb[NFTA_GEN_PROC_NAME]));
}

static struct touched touched_addr(enum ipfam fam, const uint8_t *addr)
{
	struct touched t = { .fam = (uint8_t)fam };

	memcpy(t.bytes, addr, ip_len(fam));
	return t;
}

static struct touched touched_pool(enum ipfam fam, uint32_t id)
{
	struct touched t = { .fam = (uint8_t)fam, .is_pool = 1 };

	memcpy(t.bytes, &id, sizeof(id));
	return t;
}

static void element(struct nft_watch *w, enum nft_set_id set, enum ipfam fam,
		    const struct nlattr *elem)
{
	const struct nlattr *value =
		nl_attr_find(nl_attr_find(elem, NFTA_SET_ELEM_KEY), NFTA_DATA_VALUE);
	const uint8_t *key = nl_attr_bytes(value, nft_key_len(set, fam));
	struct touched t;

	/* Elements of the layout, and of a client's affinity, are not repaired. */
	if (key == NULL || !nft_set_is_of_services(set))
		return;
	/*
	 * Other keys begin with a word or a mark. The number taken from a mark is no pool id: it
	 * only records that something changed.
	 */
	t = nft_set_begins_with_addr(set) ? touched_addr(fam, key)
					  : touched_pool(fam, nft_word_pool(nft_get_word(key)));
	if (w->touched.n < NFT_WATCH_TOUCHED_MAX)
		(void)nft_keymap_put(&w->touched, &t, NULL);
	else if (nft_keymap_find(&w->touched, &t) == NULL)
		w->is_flood = true;
}

/* A table of family inet has sets of both families, which their names tell apart. */
static bool set_find(enum nft_set_id *ret, enum ipfam *fam, uint8_t family, const char *name)
{
	enum nft_set_id begin = family == NFPROTO_INET ? IPVSSET_BEGIN : 0;
	enum nft_set_id end = family == NFPROTO_INET ? NFTSET_END : NFTSET_N;

	for (*fam = IPFAM_V4; *fam < IPFAM_N; ++*fam) {
		if (family != NFPROTO_INET && family != nft_family(*fam))
			continue;
		*ret = nft_set_by_name(name, *fam, begin, end);
		if (*ret != end)
			return true;
	}
	return false;
}

static void elements(struct nft_watch *w, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);
	enum nft_set_id set;
	enum ipfam fam;

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(*g));
	if (strncmp(nl_attr_str(tb[NFTA_SET_ELEM_LIST_TABLE]), "vipd", 4) != 0 ||
	    !set_find(&set, &fam, g->nfgen_family, nl_attr_str(tb[NFTA_SET_ELEM_LIST_SET])))
		return;
	nl_attr_for_each (e, tb[NFTA_SET_ELEM_LIST_ELEMENTS])
		element(w, set, fam, e);
}

void nft_watch_message(struct nft_watch *w, const struct nlmsghdr *h)
{
	if (h->nlmsg_len < sizeof(*h) + sizeof(struct nfgenmsg))
		return;
	if (h->nlmsg_type == NFT_TYPE(NFT_MSG_NEWGEN))
		committed(w, h);
	else if (h->nlmsg_type == NFT_TYPE(NFT_MSG_NEWSETELEM) ||
		 h->nlmsg_type == NFT_TYPE(NFT_MSG_DELSETELEM))
		elements(w, h);
}

void nft_watch_begin(struct nft_watch *w)
{
	if (!w->is_awaited)
		nft_watch_reset(w);
	nft_watch_read(w);
}

bool nft_watch_await(struct nft_watch *w)
{
	w->is_awaited = w->nl != NULL && w->pid == 0 && w->n_waits < WAITS_MAX;
	w->n_waits = w->is_awaited ? w->n_waits + 1 : 0;
	return w->is_awaited;
}

void nft_watch_read(struct nft_watch *w)
{
	for (int i = 0; w->nl != NULL && i < READ_MAX; i++) {
		ssize_t n = nl_sock_recv(w->nl, w->buf, DATAGRAM_MAX);

		if (n == -ENOBUFS || n == -EMSGSIZE) {
			w->is_lost = true;
			continue;
		}
		if (n < 0)
			return;
		nl_for_each_message (h, w->buf, (size_t)n)
			nft_watch_message(w, h);
	}
}

bool nft_watch_touches_addr(const struct nft_watch *w, enum ipfam fam, const uint8_t *addr)
{
	struct touched t = touched_addr(fam, addr);

	return nft_keymap_find(&w->touched, &t) != NULL;
}

bool nft_watch_touches_pool(const struct nft_watch *w, enum ipfam fam, uint32_t pool_id)
{
	struct touched t = touched_pool(fam, pool_id);

	return nft_keymap_find(&w->touched, &t) != NULL;
}

void nft_watch_load_begin(struct nft_watch *w)
{
	nft_watch_read(w);
	nft_watch_reset(w);
}

int nft_watch_load_end(struct nft_watch *w, struct err *err)
{
	nft_watch_read(w);
	if (!w->is_flood && !w->is_lost && w->touched.n == 0) {
		w->n_loads = 0;
		return 0;
	}
	if (++w->n_loads < LOAD_TRIES)
		return 1;
	w->n_loads = 0;
	return err_set(err, -EAGAIN, "tables of vipd %s modified while they were read",
		       w->touched.n > 0 ? "were" : "may have been");
}

void nft_watch_text(const struct nft_watch *w, char buf[static NFT_WATCH_TEXT_MAX])
{
	if (w->pid == 0)
		snprintf(buf, NFT_WATCH_TEXT_MAX, "another process");
	else
		snprintf(buf, NFT_WATCH_TEXT_MAX, "%s (pid %u)%s",
			 w->name[0] != '\0' ? w->name : "?", w->pid,
			 w->is_several ? " and others" : "");
}

void nft_watch_reset(struct nft_watch *w)
{
	w->pid = 0;
	w->name[0] = '\0';
	w->is_several = false;
	w->is_flood = false;
	w->is_lost = false;
	nft_keymap_clear(&w->touched);
}
