/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/notify - readiness, watchdog and status messages to the supervisor.
 *
 *     READY=1       after the first sync, or after `latest_ns`: an unreachable API server must not
 *                   block the supervisor, nor dpkg
 *     WATCHDOG=1    from the event loop, twice in each WATCHDOG_USEC; stops when the loop hangs
 *     STATUS=...    one line, on change
 *
 * Source: sd_notify(3). Without NOTIFY_SOCKET in the environment no message is sent.
 */
#pragma once

#include "base/util.h"

struct event_base;
struct notify;

/* Read the variables from the environment, and unset them for helpers. */
void notify_open(struct notify **ret, struct event_base *base, uint64_t latest_ns);
/* Send STOPPING=1. Accepts NULL. */
void notify_close(struct notify *n);
/* Sends once; a later call repeats it if the supervisor had too many unread messages. */
void notify_ready(struct notify *n);
/* `text` is one line; sent only if it differs from the last one that was sent. */
void notify_status(struct notify *n, const char *text);
