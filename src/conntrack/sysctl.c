/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/sysctl.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"

#define BUCKETS "/sys/module/nf_conntrack/parameters/hashsize"
#define LIBERAL SYSCTL_NETFILTER "nf_conntrack_tcp_be_liberal"
#define ENTRIES_PER_BUCKET 4
#define CPU_LIST_MAX 4096

/* --- files ---------------------------------------------------------------------- */

int sysctl_read(uint64_t *ret, const char *root, const char *file, struct err *err)
{
	return file_read_number(ret, str_local(PATH_MAX, "%s%s", root, file), err);
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
	FINI(str_fini) struct str list = { 0 };
	const char *path = str_local(PATH_MAX, "%s/sys/devices/system/cpu/online", root);
	cpu_set_t set;
	size_t n = 0;

	if (file_read(&list, path, CPU_LIST_MAX, NULL) == 0)
		n = cpus_parse(str_text(&list));
	if (n == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (size_t)CPU_COUNT(&set);
	return MAX(n, (size_t)1);
}

/* --- applying ------------------------------------------------------------------------ */

enum rule {
	RULE_EQUAL, /* set the desired value */
	RULE_RAISE, /* never lower the present value */
};

/* False: an error, which is logged. */
static bool set(const char *root, const char *file, uint64_t desired, enum rule rule)
{
	const char *path = str_local(PATH_MAX, "%s%s", root, file);
	struct err err;
	uint64_t is = 0;
	int r = file_read_number(&is, path, &err);

	if (r == 0 && (is == desired || (rule == RULE_RAISE && is > desired)))
		return true;
	if (r == 0)
		r = file_write_number(path, desired, &err);
	if (r < 0)
		log_warn(LOG_AREA_CONNTRACK, "%s; the kernel's value stays", err.text);
	else
		log_notice(LOG_AREA_CONNTRACK, "%s: set to %" PRIu64 ", was %" PRIu64, file,
			   desired, is);
	return r == 0;
}

bool sysctl_is_there(const char *root)
{
	uint64_t n;

	return sysctl_read(&n, root, SYSCTL_NETFILTER "nf_conntrack_max", NULL) == 0;
}

bool sysctl_is_liberal(const struct sysctl_config *c, const char *root)
{
	uint64_t n = 0;

	return sysctl_read(&n, root, LIBERAL, NULL) == 0 ? n != 0 : c->is_tcp_liberal;
}

void sysctl_apply(const struct sysctl_config *c, const char *root)
{
	const struct {
		const char *file;
		uint64_t desired;
	} timeouts[] = {
		{ SYSCTL_NETFILTER "nf_conntrack_tcp_timeout_established", c->tcp_established_s },
		{ SYSCTL_NETFILTER "nf_conntrack_tcp_timeout_close_wait", c->tcp_close_wait_s },
		{ LIBERAL, c->is_tcp_liberal },
		{ SYSCTL_NETFILTER "nf_conntrack_udp_timeout", c->udp_s },
		{ SYSCTL_NETFILTER "nf_conntrack_udp_timeout_stream", c->udp_stream_s },
	};
	uint64_t max = sysctl_table_max(c, sysctl_cpus(root));

	/* Not the number of buckets if the limit cannot be set. */
	if (max != 0 && set(root, SYSCTL_NETFILTER "nf_conntrack_max", max, RULE_RAISE))
		(void)set(root, BUCKETS, max / ENTRIES_PER_BUCKET, RULE_RAISE);
	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++)
		if (timeouts[i].desired != 0)
			(void)set(root, timeouts[i].file, timeouts[i].desired, RULE_EQUAL);
}
