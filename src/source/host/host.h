/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/host - the addresses of this host.
 *
 * Node ports are served on concrete addresses; a new or removed address changes frontends at once
 * (SVC-12, IN-25). Listed are addresses of any interface and scope (SVC-11: never 127.0.0.0/8 and
 * ::1), except link-local ones of scope link, tentative ones and ones that failed duplicate
 * detection. Those on the dummy devices of other proxies (kube-ipvs0, kube-dummy-if) and of
 * NodeLocal DNSCache (IP_DNS_CACHE_DEVICE) are service addresses, and serve no node ports. Per
 * family the source address of the default route comes first ("primary" without a Node object); the
 * others follow by scope, interface and address. For that reason changes of default routes are read
 * too; other routes are filtered out, because a host may have a million.
 *
 * Kernel: rtnetlink(7), RTM_GETADDR and notifications. After a lost notification (ENOBUFS) the list
 * is read again; a failed read is retried.
 */
#pragma once

#include "base/err.h"
#include "model/model.h"

struct event_base;
struct host;

/* Put the first list into the model; `changed` is called after later changes of the model. */
MUST_USE int host_open(struct host **ret, struct event_base *base, struct model *m,
		       void (*changed)(void *arg), void *arg, struct err *err);
/* Accepts NULL. */
void host_close(struct host *h);
DEFINE_AUTO(struct host *, host_close);
