/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/proc - small files of /proc and /sys, below a root that tests choose.
 *
 * Private to doctor/.
 */
#pragma once

#include "base/str.h"
#include "doctor/facts.h"

/* Append the file; 0 or -errno. At most PROC_FILE_MAX bytes are read. */
#define PROC_FILE_MAX (16U << 20)
#define PROC_PATH_MAX 1024 /* longer ones are cut, and are no files then */
MUST_USE int proc_read(struct str *out, const char *root, const char *path);
/* The file's first number; FACT_UNKNOWN when there is no such file, or no number in it. */
int64_t proc_number(const char *root, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Call `line` for each line, without its end. `text` is cut up meanwhile. */
void proc_lines(char *text, void (*line)(void *arg, char *line), void *arg);
/* The same for the lines of a file; 0 or -errno of proc_read(). */
int proc_file_lines(const char *root, const char *path, void (*line)(void *arg, char *line),
		    void *arg);

/*
 * A socket of /proc/net/{tcp,tcp6,udp,udp6}: 1 when it listens, and `ret` is set, else 0.
 * `proto` says which of them it is.
 */
int proc_listener(struct fact_tuple *ret, const char *line, uint8_t proto);
/* A virtual server of /proc/net/ip_vs: 1 when the line is one, else 0. */
int proc_ipvs(struct fact_tuple *ret, const char *line);
/* Connections of a destination there; FACT_UNKNOWN when the line is none. */
int64_t proc_ipvs_conns(const char *line);
/* Buckets of IPVS's table of connections, which its first line tells; else FACT_UNKNOWN. */
int64_t proc_ipvs_size(const char *line);
/* Default routes of /proc/net/route, one an interface. */
size_t proc_default_routes(char *text);
/* The sum of one column of /proc/net/stat/nf_conntrack, which are hexadecimal, a line a CPU. */
uint64_t proc_stat_sum(char *text, const char *column);
