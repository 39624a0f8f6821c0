/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * serve/lock - one vipd a network namespace.
 *
 * Two would undo each other's work. The lock is an abstract Unix socket: its name
 * belongs to the network namespace, as the rules do, and it is gone with its process,
 * however that ended. Any local user can take such a name, so only a holder who could
 * be a vipd (root, or of our own user) keeps us out; another is named in a warning.
 */
#pragma once

#include "base/err.h"

struct event_base;
struct lock;

#define LOCK_NAME "vipd/lock" /* behind the zero byte */

/*
 * -EBUSY: `err` names the process that holds it, after 0.2 s in which it did not end. One
 * that is dead is waited for longer: what it had just forked closes the socket.
 */
MUST_USE int lock_take(struct lock **ret, struct err *err);
/* From the loop, answer those who ask who has it. Before lock_release(). Once at most. */
MUST_USE int lock_answer(struct lock *l, struct event_base *base, struct err *err);
void lock_release(struct lock *l);
DEFINE_AUTO(struct lock *, lock_release);
