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

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/ip.h"
#include "cleanup/owned.h"

struct cleanup_config {
	const char *control_socket;
	bool is_running; /* a vipd holds the lock of this network namespace */
	bool is_forced;
	enum proxy proxy;
	/* Virtual services at these addresses stay: --ipvs-exclude-cidrs. Borrowed. */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	FILE *out; /* one line per subsystem */
};

/* 0: nothing is left. On an error `out` names what is left. */
MUST_USE int cleanup_kube_proxy(const struct cleanup_config *config, struct err *err);
