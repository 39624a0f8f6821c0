/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/proxies - other processes of this network namespace that run a service proxy.
 *
 * Programs that contain kube-proxy (k3s, kubelite of MicroK8s) count if they listen on one of
 * kube-proxy's ports, 10249 or 10256; kube-router counts unless it runs with
 * --run-service-proxy=false. A process outside of this PID namespace is not found: from a pod,
 * hostPID is required.
 */
#pragma once

#include <stdbool.h>

#include "base/vec.h"

#define PROXY_REMEDY_CILIUM                                                                      \
	"set Cilium's kubeProxyReplacement and socketLB to false; Cilium then still translates " \
	"connections of pods to cluster IPs, and vipd all others"

struct proxy_process {
	const char *name;   /* of the process, "k3s-server" */
	const char *proxy;  /* "kube-proxy", "kube-router", "cilium" or "vipd" */
	const char *remedy; /* how to stop the proxy; NULL: vipd */
	int64_t pid;
};

struct proxies {
	VEC(struct proxy_process) v; /* texts are constants */
	bool is_partial;             /* other processes of the node can be invisible */
};

/* `root` is the prefix of /proc, "" except in tests. Release the list with vec_fini(&ret->v). */
void proxies_read(struct proxies *ret, const char *root);
