/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/serving - may the rules of another proxy be removed? Only if vipd serves all services,
 * and no process of that proxy runs that would restore them.
 */
#pragma once

#include "cleanup/report.h"

/*
 * Wait until vipd, read over its control socket, has programmed all services, but at most 20 s, and
 * only while it reads kernel state, programs services or waits for a port of its servers; else
 * `err` says why it does not serve, also if it is not ready or an address family failed.
 * Sets c->n_occupied.
 */
MUST_USE int serving_wait(struct cleanup *c, bool is_occupied_allowed, struct err *err);
/*
 * -EBUSY: another process of this network namespace is `proxy` ("kube-proxy", "kube-router",
 * "vipd"), or k3s or MicroK8s with kube-proxy inside.
 */
MUST_USE int serving_no_other(const char *proxy, struct err *err);
