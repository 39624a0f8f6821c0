/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Apart from kube.c: vipctl, which reads settings, needs no libcurl. */
#include "base/util.h"
#include "source/kube/kube.h"

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

void kube_config_init(struct kube_config *c)
{
	*c = (struct kube_config){
		.account_dir = ACCOUNT_DIR,
		.timing = {
			.connect_ns = 10 * NSEC_PER_SEC,
			.head_ns = 60 * NSEC_PER_SEC,
			.idle_ns = 30 * NSEC_PER_SEC,
			.list_ns = 600 * NSEC_PER_SEC,
			.bookmark_ns = 150 * NSEC_PER_SEC,
			.quiet_ns = 20 * NSEC_PER_SEC,
			.probe_ns = 15 * NSEC_PER_SEC,
			.keepalive_ns = 30 * NSEC_PER_SEC,
			.turn_ns = 1 * NSEC_PER_MSEC,
			.backoff_min_ns = 800 * NSEC_PER_MSEC,
			.backoff_max_ns = 30 * NSEC_PER_SEC,
			.calm_ns = 120 * NSEC_PER_SEC,
			.steady_ns = 10 * NSEC_PER_SEC,
			.watch_min_s = 300,
			.watch_max_s = 600,
			.unsupported_ns = 3600 * NSEC_PER_SEC,
			.others_ns = 5 * NSEC_PER_SEC,
			.plugin_ns = 30 * NSEC_PER_SEC,
		},
	};
}
