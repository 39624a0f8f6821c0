/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/kube_proxy - remove kernel state of kube-proxy or kube-router from this node
 * (--cleanup=kube-proxy, --cleanup=kube-router).
 *
 * Requires that vipd serves all services, unless force is requested. Order: nftables
 * (kube-proxy), IPVS, iptables, the sets that its rules used, then policy routing (kube-router);
 * one transaction each where the kernel has transactions. Tracked connections stay, so translated
 * connections continue.
 */
#pragma once

#include "cleanup/parts.h"

/* 0: nothing is left. On an error `out` names what is left. */
MUST_USE int cleanup_kube_proxy(struct cleanup *c, struct err *err);
