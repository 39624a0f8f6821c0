/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options - vipd's command line.
 *
 * Flags that kube-proxy has keep kube-proxy's names and meaning (section 14 of
 * doc/behaviour.md). One table in options.c is the source of parsing and --help.
 */
#pragma once

#include "base/err.h"
#include "model/model.h"

enum options_action {
	OPTIONS_RUN = 0,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_CLEANUP,
};

struct options {
	enum options_action action;
	const char *manifests;  /* folder; borrowed from argv like all texts here; NULL: the API */
	const char *kubeconfig; /* NULL with no manifests: master, or the pod's service account */
	const char *master;     /* one URL or several, comma separated; NULL = the kubeconfig's */
	const char *api_content_type; /* NULL = protobuf */
	double api_qps;               /* lists and watches a second; 0 = default, < 0 = no limit */
	int api_burst;
	const char *control_socket; /* "" = none */
	char hostname[256];         /* LIFE-11: trimmed, lower case */
	uint64_t min_sync_period_ns;
	uint64_t audit_period_ns;
	int verbosity;
	char pod_bridge[IFNAME_MAX]; /* --pod-bridge-interface; used in its detection mode only */
	char pod_prefix[IFNAME_MAX];
};

/*
 * Fill `o` and the model's configuration. -EINVAL: `err` names the flag. Lists
 * in `config` are owned by the caller's model from then on.
 */
MUST_USE int options_parse(struct options *o, struct model_config *config, int argc, char **argv,
			   struct err *err);
/* To standard output. */
void options_help(void);
