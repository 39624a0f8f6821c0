/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/answer - parse the kernel's answers; shared by batches and dumps.
 * Other folders read messages only.
 */
#pragma once

#include <assert.h>
#include <linux/netlink.h>
#include <stdbool.h>

#include "base/util.h"

/* The result in one NLMSG_ERROR message, with the extended ACK if the kernel sent one. */
struct nl_extack {
	bool is_error; /* an error was read, not an ACK */
	bool has_offset;
	uint32_t offset;
	char detail[128];
};

/* Returns 0 for an ACK, the kernel's -errno, or -EBADMSG for a reply too short to be one. */
int nl_extack_read(struct nl_extack *ret, const struct nlmsghdr *h);

/* The next whole message of a datagram, or NULL; `prev` NULL is the first. */
const struct nlmsghdr *nl_message_next(const void *data, size_t len, const struct nlmsghdr *prev);

#define nl_for_each_message(pos, data, len)                                                      \
	for (const struct nlmsghdr *(pos) = nl_message_next((data), (len), NULL); (pos) != NULL; \
	     (pos) = nl_message_next((data), (len), (pos)))
