/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/manifests - desired state of a folder of manifests, without vipd.
 *
 * Reads the folder once and builds its rows with vipd's own code. Addresses come from this host,
 * the rest of the configuration from the options.
 */
#pragma once

#include "ctl/diff.h"
#include "ctl/run.h"

/*
 * Add the desired lines of all services in run->manifests, for the ipvs plane or nftables.
 * Documents that are not served as written are reported on standard error. -EINVAL: an option;
 * other -errno: the folder cannot be read.
 */
MUST_USE int manifests_rows(struct diff *ret, const struct run *run, bool is_ipvs, struct err *err);
