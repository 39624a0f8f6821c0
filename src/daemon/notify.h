/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/notify - tells the service manager that we are ready, what we do, and that we live.
 *
 *     READY=1       after the first sync
 *     WATCHDOG=1    from the loop, twice in the time the manager allows: a loop that
 *                   hangs stops saying it
 *     STATUS=...    one line, when it changes
 *
 * Source: sd_notify(3). Without NOTIFY_SOCKET in the environment nothing is sent.
 */
#pragma once

#include "base/util.h"

struct event_base;
struct notify;

/* Reads the environment, and takes those variables out of it: helpers are not us. */
void notify_open(struct notify **ret, struct event_base *base);
/* Says STOPPING=1. Accepts NULL. */
void notify_close(struct notify *n);
/* Only the first call is told. */
void notify_ready(struct notify *n);
/* `text` is one line; told only when it differs from the last. */
void notify_status(struct notify *n, const char *text);
