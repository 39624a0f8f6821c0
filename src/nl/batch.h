/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/batch - one all-or-nothing nfnetlink transaction.
 *
 *     open -> msg, (attributes, tag)..., msg, ... -> commit -> reset or close
 *
 * One datagram, one acknowledgement (requested on the last message; older kernels
 * send none for the batch's end); errors are always sent. An ACK means "valid", not
 * "applied": one rejected message voids all ACKs.
 *
 * Errors:    nl_batch_msg() never fails. nl_batch_commit() reports all errors, so
 *            callers check once, at the end.
 * Ownership: the batch borrows `nl`; tags are borrowed until reset or close.
 * Kernel:    linux/netfilter/nfnetlink.h (NFNL_MSG_BATCH_*);
 *            the rules are in the kernel's net/netfilter/nfnetlink.c.
 */
#pragma once

#include <linux/netlink.h>

#include "nl/sock.h"

struct nl_batch;

/* A message may grow to this size, header and all; an attribute to 65535 bytes (its u16 length). */
#define NL_BATCH_MSG_MAX 98304

/* The message that the kernel rejected, and its tag; all zero when it rejected none. */
struct nl_rejection {
	int error; /* -errno */
	/*
	 * The tag of the rejected bytes, or, when the kernel reports no offset or one of
	 * untagged bytes, the only tag of the message. NULL when the error concerns the
	 * batch as a whole (also -ENOMEM of the first message without an offset), or the message
	 * has several tags.
	 */
	const void *tag;
	const struct nlmsghdr *msg; /* rejected message as it was sent, or NULL: the whole batch */
	size_t index;               /* of `msg` in the batch, from 0 */
	bool has_offset;
	uint32_t offset;  /* from `msg` to the rejected attribute */
	char detail[128]; /* the kernel's extended text, or "" */
};

void nl_batch_open(struct nl_batch **ret, struct nl_sock *nl);
void nl_batch_close(struct nl_batch *b);
DEFINE_AUTO(struct nl_batch *, nl_batch_close);
/* Drop all messages and keep the memory: the state after nl_batch_open(). */
void nl_batch_reset(struct nl_batch *b);

/*
 * Append a message with its nfgenmsg and return its header, for mnl_attr_put_*().
 * The pointer is valid until the next nl_batch_msg(). `type` is
 * (NFNL_SUBSYS_x << 8 | NFT_MSG_x), of one subsystem in the whole batch; `flags`
 * are added to NLM_F_REQUEST; `family` is NFPROTO_*. `tag` identifies the owner of
 * the message in an error; NULL for parts that several owners share.
 */
struct nlmsghdr *nl_batch_msg(struct nl_batch *b, uint16_t type, uint16_t flags, uint8_t family,
			      const void *tag);
/* Attributes put into the current message from here on belong to `tag`. */
void nl_batch_tag(struct nl_batch *b, const void *tag);
/* Messages and bytes so far, the current message included. */
size_t nl_batch_count(const struct nl_batch *b);
size_t nl_batch_bytes(const struct nl_batch *b);

/*
 * Send and read the result. An empty batch is 0 without a system call.
 * Returns 0 when committed. Nothing was applied on
 *   -EMSGSIZE   the batch is larger than the socket allows: split it
 *   -errno      rejected by the kernel; see nl_batch_rejection(), `err` has the reason
 * On -ENOBUFS the outcome is unknown: dump again.
 */
MUST_USE int nl_batch_commit(struct nl_batch *b, struct err *err);
/* The rejection of the last commit; valid until reset or close. */
const struct nl_rejection *nl_batch_rejection(const struct nl_batch *b);
