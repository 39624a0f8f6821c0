/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/sysctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define BUCKETS "/sys/module/nf_conntrack/parameters/hashsize"
#define ENTRIES_PER_BUCKET 4

/* --- files ---------------------------------------------------------------------- */

static int file_read(char *buf, size_t size, const char *root, const char *file, struct err *err)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;
	int r;

	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return err_errno(err, "%s", file);
	n = read(fd, buf, size - 1);
	r = n == -1 ? err_errno(err, "%s", file) : 0;
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return r;
}

int sysctl_read(uint64_t *ret, const char *root, const char *file, struct err *err)
{
	char buf[64];
	char *end;
	int r = file_read(buf, sizeof(buf), root, file, err);

	if (r < 0)
		return r;
	errno = 0;
	*ret = strtoull(buf, &end, 10);
	if (end == buf || errno != 0)
		return err_set(err, -EINVAL, "%s: not a number", file);
	return 0;
}

static int number_write(uint64_t n, const char *root, const char *file, struct err *err)
{
	char path[PATH_MAX];
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%" PRIu64 "\n", n);
	AUTO(close) int fd = -1;
	int r = 0;

	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1)
		return err_errno(err, "%s: cannot be set to %" PRIu64, file, n);
	if (write(fd, buf, (size_t)len) != len)
		r = err_errno(err, "%s: cannot be set to %" PRIu64, file, n);
	return r;
}

/* --- what and how much ------------------------------------------------------------ */

uint64_t sysctl_table_max(const struct sysctl_config *c, size_t n_cpus)
{
	uint64_t product = (uint64_t)c->max_per_core * n_cpus;

	if (c->max_per_core == 0)
		return 0;
	if (product > SYSCTL_MAX_CAP)
		return SYSCTL_MAX_CAP;
	return MAX(product, (uint64_t)c->max_min);
}

/* A list such as "0-3,5"; 0 when it is none. */
static size_t cpus_parse(const char *text)
{
	size_t n = 0;
	char *end;

	for (const char *at = text; *at >= '0' && *at <= '9'; at = *end == ',' ? end + 1 : end) {
		unsigned long first = strtoul(at, &end, 10);
		unsigned long last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last > UINT16_MAX)
			return 0;
		n += last - first + 1;
	}
	return n;
}

size_t sysctl_cpus(const char *root)
{
	char buf[4096];
	cpu_set_t set;
	size_t n = 0;

	if (file_read(buf, sizeof(buf), root, "/sys/devices/system/cpu/online", NULL) == 0)
		n = cpus_parse(buf);
	if (n == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (size_t)CPU_COUNT(&set);
	return MAX(n, (size_t)1);
}

/* --- applying ------------------------------------------------------------------------ */

enum rule {
	RULE_EQUAL, /* set the desired value */
	RULE_RAISE, /* never lower the present value */
};

/* 0, or an error, which is logged. */
static int set(const char *root, const char *file, uint64_t desired, enum rule rule)
{
	struct err err;
	uint64_t is = 0;
	int r = sysctl_read(&is, root, file, &err);

	if (r == 0 && (is == desired || (rule == RULE_RAISE && is > desired)))
		return 0;
	if (r == 0)
		r = number_write(desired, root, file, &err);
	if (r < 0) {
		log_warn(LOG_AREA_CONNTRACK, "%s", err.text);
		return r;
	}
	log_notice(LOG_AREA_CONNTRACK, "%s: %" PRIu64 ", was %" PRIu64, file, desired, is);
	return 0;
}

/* Also sets the number of buckets, unless setting the limit failed. */
static size_t set_table(const struct sysctl_config *c, const char *root)
{
	uint64_t max = sysctl_table_max(c, sysctl_cpus(root));

	if (max == 0)
		return 0;
	if (set(root, SYSCTL_NETFILTER "nf_conntrack_max", max, RULE_RAISE) < 0)
		return 1;
	return set(root, BUCKETS, max / ENTRIES_PER_BUCKET, RULE_RAISE) < 0;
}

bool sysctl_is_there(const char *root)
{
	uint64_t n;

	return sysctl_read(&n, root, SYSCTL_NETFILTER "nf_conntrack_max", NULL) == 0;
}

size_t sysctl_apply(const struct sysctl_config *c, const char *root)
{
	const struct {
		const char *file;
		uint64_t desired;
	} timeouts[] = {
		{ SYSCTL_NETFILTER "nf_conntrack_tcp_timeout_established", c->tcp_established_s },
		{ SYSCTL_NETFILTER "nf_conntrack_tcp_timeout_close_wait", c->tcp_close_wait_s },
		{ SYSCTL_NETFILTER "nf_conntrack_tcp_be_liberal", c->is_tcp_liberal },
		{ SYSCTL_NETFILTER "nf_conntrack_udp_timeout", c->udp_s },
		{ SYSCTL_NETFILTER "nf_conntrack_udp_timeout_stream", c->udp_stream_s },
	};
	size_t n_failed = set_table(c, root);

	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++)
		if (timeouts[i].desired != 0)
			n_failed +=
				set(root, timeouts[i].file, timeouts[i].desired, RULE_EQUAL) < 0;
	return n_failed;
}
