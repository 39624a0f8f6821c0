/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/lock - one vipd a network namespace.
 *
 * Two would undo each other's work. The lock is two bytes of the file LOCK_DIR/lock, at an
 * offset that follows from the inode number of the network namespace: containers that share
 * the folder share the lock. Only root, or our own user, can open the file, so no process
 * of another user can take the lock.
 *
 * The first byte is the lock: an open file description lock, which a process that ends gives
 * back last, after its sockets (descriptors are closed in the reverse order of their numbers,
 * so the lock is taken before anything else is opened). The second is a process's record
 * lock, which is given back first and is not inherited: it tells the holder's pid.
 */
#pragma once

#include "base/err.h"

struct lock;

#define LOCK_DIR "/run/vipd"

/*
 * -EBUSY: `err` names the holder, after 0.2 s, or after 5 s in which a holder that was
 * told to end did not. -EPERM: `dir` or the file belong to another user. A folder that cannot
 * be written is no failure but a warning: `*ret` is then without effect.
 */
MUST_USE int lock_take(struct lock **ret, const char *dir, struct err *err);
void lock_release(struct lock *l);
DEFINE_AUTO(struct lock *, lock_release);
