/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/watch.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>

#include "nl/attr.h"

#define TYPE_NEWGEN (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN)
/* Datagrams in one go; what is left is old news by the next one. */
#define READ_MAX 4096

int nft_watch_join(struct nft_watch *w, struct nl_sock *nl, struct nl_sock *cmd, struct err *err)
{
	int r = nl_sock_only(nl, TYPE_NEWGEN, err);

	if (r == 0)
		r = nl_sock_join(nl, NFNLGRP_NFTABLES, err);
	if (r < 0)
		return r;
	nl_sock_mute(cmd, nl, NFNLGRP_NFTABLES);
	w->nl = nl;
	return 0;
}

/* A process chooses its name freely. */
static void name_copy(struct nft_watch *w, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(w->name) - 1 && name[i] != '\0'; i++)
		w->name[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
	w->name[i] = '\0';
}

void nft_watch_message(struct nft_watch *w, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_GEN_MAX + 1];
	uint32_t pid;

	if (h->nlmsg_type != TYPE_NEWGEN)
		return;
	nl_attr_table(tb, NFTA_GEN_MAX, h, sizeof(struct nfgenmsg));
	pid = nl_attr_be32(tb[NFTA_GEN_PROC_PID], 0);
	if (pid == 0)
		return;
	w->is_several |= w->pid != 0 && w->pid != pid;
	w->pid = pid;
	name_copy(w, nl_attr_str(tb[NFTA_GEN_PROC_NAME]));
}

void nft_watch_read(struct nft_watch *w)
{
	_Alignas(struct nlmsghdr) char buf[512];

	for (int i = 0; w->nl != NULL && i < READ_MAX; i++) {
		ssize_t n = nl_sock_recv(w->nl, buf, sizeof(buf));
		const struct nlmsghdr *h = (const struct nlmsghdr *)buf;

		if (n == -ENOBUFS || n == -EMSGSIZE)
			continue;
		if (n < 0)
			return;
		if ((size_t)n >= sizeof(*h) && h->nlmsg_len <= (size_t)n)
			nft_watch_message(w, h);
	}
}

void nft_watch_text(const struct nft_watch *w, char buf[static NFT_WATCH_TEXT_MAX])
{
	if (w->pid == 0)
		snprintf(buf, NFT_WATCH_TEXT_MAX, "somebody");
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
}
