/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/proc - small files of /proc and /sys, below a root that tests choose.
 *
 * Private to doctor/.
 */
#pragma once

#include "base/str.h"
#include "doctor/facts.h"

/* Append the file; 0 or -errno. Of a larger file, the first PROC_FILE_MAX bytes or a few more. */
#define PROC_FILE_MAX (16U << 20)
#define PROC_PATH_MAX 1024 /* a longer path is cut: the file is then not found */
MUST_USE int proc_read(struct str *out, const char *root, const char *path);
/* The file's first number; FACT_UNKNOWN without the file or without a number in it. */
int64_t proc_number(const char *root, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Parse a line of /proc/net/{tcp,tcp6,udp,udp6}; `proto` is the protocol of the file. 1: a
 * listening socket, stored in `ret`; 0: none.
 */
int proc_listener(struct ip_tuple *ret, const char *line, uint8_t proto);
/* Parse a line of /proc/net/ip_vs. 1: a virtual service, stored in `ret`; 0: none. */
int proc_ipvs(struct ip_tuple *ret, const char *line);
/* Connections of the destination in a line of /proc/net/ip_vs; FACT_UNKNOWN: another line. */
int64_t proc_ipvs_conns(const char *line);
/* Buckets of IPVS's connection table, from the first line of /proc/net/ip_vs; else FACT_UNKNOWN. */
int64_t proc_ipvs_size(const char *line);
/* Number of interfaces with a default route in /proc/net/route. */
size_t proc_default_routes(char *text);
/* Sum of a column of /proc/net/stat/nf_conntrack: hexadecimal, one line per CPU. */
uint64_t proc_stat_sum(char *text, const char *column);
