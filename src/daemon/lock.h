/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/lock - one vipd per network namespace.
 *
 * Two would overwrite each other's kernel state. The lock is two bytes of LOCK_DIR/lock, at an
 * offset computed from the inode number of the network namespace: containers that share
 * the folder share the lock. Only root or the effective user can open the file, so processes
 * of other users cannot take the lock.
 *
 * The first byte has an open file description lock. At exit the kernel releases it last,
 * after the sockets (descriptors are closed in the reverse order of their numbers, so the
 * lock is taken before anything else is opened). The second byte has a record lock of the
 * process, which is released first and not inherited: it identifies the holder's pid.
 */
#pragma once

#include "base/err.h"

struct lock;

#define LOCK_DIR "/run/vipd"

/*
 * -EBUSY: `err` names the holder, after 0.2 s, or after 5 s if the holder exits, will exit
 * (lock_end()) or has a pending signal. -EPERM: `dir` or the file belong to another user. If `dir`
 * is not writable, log a warning and return a lock without effect.
 */
MUST_USE int lock_take(struct lock **ret, const char *dir, struct err *err);
/* This process will exit: a successor waits for it, 5 s at most. */
void lock_end(struct lock *l);
void lock_release(struct lock *l);
DEFINE_AUTO(struct lock *, lock_release);
