/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/host - the addresses of this host, as they come and go.
 *
 * Node ports are served on concrete addresses; an address that appears or
 * vanishes changes frontends at once (SVC-12, IN-25). What counts: addresses of
 * global scope, on whatever interface (SVC-11: 127.0.0.0/8 and ::1 never), not
 * tentative and not failed in duplicate detection. Per family, the address this
 * host would use as source towards the world comes first ("primary" without a
 * Node object); the others follow by interface and address. So default routes
 * are listened to as well, and no other ones: hosts may have a million.
 *
 * Kernel: rtnetlink(7), RTM_GETADDR and notifications. A lost notification
 *         (ENOBUFS) is a reason to read again, nothing more; a reading that
 *         fails is repeated.
 */
#pragma once

#include "base/err.h"
#include "model/model.h"

struct event_base;
struct host;

struct host_callbacks {
	void (*ready)(void *arg);   /* once: the first complete list is in the model */
	void (*changed)(void *arg); /* the model changed */
	void *arg;
};

/* Reads the first list at once; `ready` is called before this returns. */
MUST_USE int host_open(struct host **ret, struct event_base *base, struct model *m,
		       const struct host_callbacks *cb, struct err *err);
/* Accepts NULL. */
void host_close(struct host *h);
DEFINE_AUTO(struct host *, host_close);
