/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/manifests - desired state of a folder of manifests, without vipd.
 *
 * Reads the folder once and builds its rows with vipd's own code. Addresses come from this host,
 * the rest of the configuration from the caller.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ctl/diff.h"

struct manifests_config {
	const char *dir;
	const char *node;               /* name of this node; NULL: the host's name */
	const char *nodeport_addresses; /* prefixes separated by commas; NULL: "primary" */
	bool is_ipvs;                   /* false: nftables */
	const char *ipvs_scheduler;     /* default scheduler; NULL: rr */
};

/*
 * Add the desired lines of all services. `problem` is called for each document that is not
 * served as written. -errno: the folder, or a prefix, cannot be read.
 */
MUST_USE int manifests_rows(struct diff *ret, const struct manifests_config *config,
			    void (*problem)(const char *where, const char *text), struct err *err);
