/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/answer.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <stdio.h>

#include "nl/attr.h"

int nl_extack_read(struct nl_extack *ret, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NLMSGERR_ATTR_MAX + 1];
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
	const uint32_t *offset;
	size_t head = sizeof(*e);

	*ret = (struct nl_extack){ 0 };
	if (h->nlmsg_len < MNL_NLMSG_HDRLEN + sizeof(*e))
		return -EBADMSG;
	if (e->error == 0)
		return 0;
	if (h->nlmsg_flags & NLM_F_ACK_TLVS) {
		/* Without NETLINK_CAP_ACK the whole request precedes the attributes. */
		if (!(h->nlmsg_flags & NLM_F_CAPPED) && e->msg.nlmsg_len > sizeof(e->msg))
			head += e->msg.nlmsg_len - sizeof(e->msg);
		nl_attr_table(tb, NLMSGERR_ATTR_MAX, h, head);
		snprintf(ret->detail, sizeof(ret->detail), "%s",
			 nl_attr_str(tb[NLMSGERR_ATTR_MSG]));
		offset = nl_attr_bytes(tb[NLMSGERR_ATTR_OFFS], sizeof(*offset));
		ret->bad.has_offset = offset != NULL;
		ret->bad.offset = offset != NULL ? *offset : 0;
	}
	/* Positive numbers are not errnos: never take one for success. */
	return e->error < 0 ? e->error : -EBADMSG;
}

const struct nlmsghdr *nl_message_next(const void *data, size_t len, const struct nlmsghdr *prev)
{
	size_t at = 0;
	const struct nlmsghdr *h;

	if (prev != NULL)
		at = (size_t)((const char *)prev - (const char *)data) + MNL_ALIGN(prev->nlmsg_len);
	if (at > len || len - at < sizeof(*h))
		return NULL;
	h = (const void *)((const char *)data + at);
	return h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= len - at ? h : NULL;
}

int nl_verdicts_read(struct nl_sock *nl, uint32_t first, size_t n, nl_verdict_fn *fn, void *arg)
{
	void *rx = nl_sock_buffer(nl);
	bool is_lost = false;
	ssize_t len;

	while ((len = nl_sock_recv(nl, rx, NL_RECV_MAX)) != -EAGAIN) {
		if (len < 0 && len != -ENOBUFS)
			return (int)len;
		is_lost |= len < 0; /* the queue overflowed: read what is left */
		nl_for_each_message (h, rx, (size_t)MAX(len, (ssize_t)0)) {
			uint32_t i = h->nlmsg_seq - first; /* wraps like the counter */
			struct nl_extack x;

			if (h->nlmsg_type == NLMSG_ERROR && i < n) {
				int r = nl_extack_read(&x, h);

				fn(arg, i, r, &x);
			}
		}
	}
	return is_lost ? -ENOBUFS : 0;
}
