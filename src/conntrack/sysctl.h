/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/sysctl - limits and timeouts of connection tracking (CT-13 to CT-17).
 *
 * Each is written only if it differs. A table limit that the administrator set
 * higher is left alone: lowering it could drop connections. What cannot be
 * written (a read-only /proc, another network namespace's limit) is one warning
 * that names the file, and vipd goes on: services work without it.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

#define SYSCTL_MAX_CAP 1048576 /* CT-14 */

/* 0 leaves the kernel's value as it is, of everything but max_min. */
struct sysctl_config {
	uint32_t max_per_core;
	uint32_t max_min; /* used only with max_per_core */
	uint64_t tcp_established_s;
	uint64_t tcp_close_wait_s;
	uint64_t udp_s;
	uint64_t udp_stream_s;
	bool is_tcp_liberal; /* false never takes it back */
};

/* CT-14: entries the table shall hold on a machine with so many CPUs; 0 = not our business. */
uint64_t sysctl_table_max(const struct sysctl_config *c, size_t n_cpus);
/* CPUs of this machine, from sysfs below `root` ("" but for tests); else what we may run on. */
size_t sysctl_cpus(const char *root);

/* Are the kernel's files there? They come with the first table that tracks connections. */
bool sysctl_is_there(const char *root);
/* Write what differs below `root`. Returns how many files were refused, each with a warning. */
size_t sysctl_apply(const struct sysctl_config *c, const char *root);
