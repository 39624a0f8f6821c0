/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/sysctl - limits and timeouts of connection tracking (CT-13 to CT-17).
 *
 * Each file is written only if its value differs. A table limit that the administrator
 * set higher is kept: lowering it could drop connections. A file that cannot be written
 * (a read-only /proc, another network namespace's limit) causes one warning, and vipd
 * continues: services work without it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define SYSCTL_NETFILTER "/proc/sys/net/netfilter/"
#define SYSCTL_MAX_CAP 1048576 /* CT-14 */

/* 0 keeps the kernel's value, except for max_min. */
struct sysctl_config {
	uint32_t max_per_core;
	uint32_t max_min; /* used only with max_per_core */
	uint64_t tcp_established_s;
	uint64_t tcp_close_wait_s;
	uint64_t udp_s;
	uint64_t udp_stream_s;
	bool is_tcp_liberal; /* false: keep the kernel's value */
};

/* CT-14: desired size of the table on a machine with `n_cpus` CPUs; 0 = keep. */
uint64_t sysctl_table_max(const struct sysctl_config *c, size_t n_cpus);
/* CPUs of this machine, from sysfs below `root` ("", except in tests), or the affinity mask. */
size_t sysctl_cpus(const char *root);

/* Read the number in a file, such as SYSCTL_NETFILTER "nf_conntrack_count", below `root`. */
MUST_USE int sysctl_read(uint64_t *ret, const char *root, const char *file, struct err *err);
/* Do the kernel's files exist? The first table that tracks connections creates them. */
bool sysctl_is_there(const char *root);
/*
 * Is TCP tracking liberal? The kernel's value decides, after sysctl_apply(); the configuration
 * decides while the kernel has none (sysctl_is_there).
 */
bool sysctl_is_liberal(const struct sysctl_config *c, const char *root);
/* Write values that differ below `root`. Each failure is logged. */
void sysctl_apply(const struct sysctl_config *c, const char *root);
