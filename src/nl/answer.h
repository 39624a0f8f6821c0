/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/answer - read and parse the kernel's answers; shared by batches, dumps and IPVS.
 * Other folders read messages and verdicts only.
 */
#pragma once

#include <assert.h>
#include <linux/netlink.h>
#include <stdbool.h>

#include "nl/dump.h"

/* The result in one NLMSG_ERROR message, with the extended ACK if the kernel sent one. */
struct nl_extack {
	struct nl_bad bad;
	char detail[128];
};

/* Returns 0 for an ACK, the kernel's -errno, or -EBADMSG for a reply too short to be one. */
int nl_extack_read(struct nl_extack *ret, const struct nlmsghdr *h);

/* `r` is 0, or -errno; `x` is valid during the call. */
typedef void nl_verdict_fn(void *arg, size_t i, int r, const struct nl_extack *x);
/*
 * Read all queued verdicts on the `n` messages whose sequence numbers begin with `first`; call
 * directly after send(). Returns 0, -ENOBUFS when some were lost, or another -errno.
 */
int nl_verdicts_read(struct nl_sock *nl, uint32_t first, size_t n, nl_verdict_fn *fn, void *arg);

/* The next whole message of a datagram, or NULL; `prev` NULL is the first. */
const struct nlmsghdr *nl_message_next(const void *data, size_t len, const struct nlmsghdr *prev);

#define nl_for_each_message(pos, data, len)                                                      \
	for (const struct nlmsghdr *(pos) = nl_message_next((data), (len), NULL); (pos) != NULL; \
	     (pos) = nl_message_next((data), (len), (pos)))
