/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/manifests - what a kernel shall hold for a folder of manifests, without a vipd.
 *
 * The folder is read as vipd reads it, once; rows are made of it as vipd makes them. What
 * the objects do not say is asked of this host (its addresses) and of the caller.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct manifests_config {
	const char *dir;
	const char *node;               /* name of this node; NULL: the host's name */
	const char *nodeport_addresses; /* prefixes with commas, or NULL: "primary" */
	bool is_ipvs;                   /* the plane; else nftables */
	const char *ipvs_scheduler;     /* its default; NULL: rr */
};

/*
 * The items of /v1/rows (doc/control-api.md). `problem` is called for each document that is not
 * served as written. -errno: the folder, or a prefix, cannot be read.
 */
MUST_USE int manifests_rows(json_t **ret, const struct manifests_config *config,
			    void (*problem)(const char *where, const char *text), struct err *err);
