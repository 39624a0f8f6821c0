/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/kube_proxy - take away what kube-proxy left on this node (--cleanup=kube-proxy).
 *
 * Only once vipd serves in its place, unless it is forced. Each subsystem is one
 * transaction where the kernel has such: nftables, then ipvs, then iptables, then the
 * sets its rules used. Tracked connections are not touched: what kube-proxy translated
 * goes on. Nothing of anybody else's is touched.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct cleanup_config {
	const char *control_socket;
	bool is_running; /* a vipd holds the lock of this network namespace */
	bool is_forced;
	FILE *out; /* a line a subsystem */
};

/* 0: nothing is left. Else `err`; what is left is named in `out`. */
MUST_USE int cleanup_kube_proxy(const struct cleanup_config *config, struct err *err);
