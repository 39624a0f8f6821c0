/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks_self - checks of the process: capabilities and limits. */
#include <inttypes.h>
#include <string.h>

#include <linux/capability.h>

#include "doctor/checks.h"

#define NOFILE_MIN 4096
#define MEMORY_LEFT_MIN (INT64_C(48) << 20)

static bool has_cap(const struct facts *f, unsigned int cap)
{
	return f->capabilities >> cap & 1;
}

void check_capabilities(json_t *r, const struct facts *f)
{
	if (!f->has_capabilities)
		check_add(r, "capabilities", CHECK_NOTE, NULL, "cannot be read");
	else if (!has_cap(f, CAP_NET_ADMIN))
		check_add(r, "capabilities", CHECK_ERROR, "run as root or with CAP_NET_ADMIN",
			  "no CAP_NET_ADMIN: tables of the kernel can be neither read nor written");
	else if (!has_cap(f, CAP_SYS_ADMIN))
		check_add(r, "capabilities", CHECK_OK, NULL, "CAP_NET_ADMIN");
	else
		check_add(r, "capabilities", CHECK_OK, NULL, "CAP_NET_ADMIN and CAP_SYS_ADMIN");
}

void check_files(json_t *r, const struct facts *f)
{
	if (f->nofile_hard < 0)
		check_add(r, "files", CHECK_NOTE, NULL, "the limit of open files cannot be read");
	else if (f->nofile_hard < NOFILE_MIN)
		check_add(
			r, "files", CHECK_WARNING,
			"LimitNOFILE=65536 in the unit, ulimit -n elsewhere: each health check node port takes up to two sockets",
			"at most %" PRId64 " open files", f->nofile_hard);
	else if (f->nofile_hard == INT64_MAX)
		check_add(r, "files", CHECK_OK, NULL, "no limit of open files");
	else
		check_add(r, "files", CHECK_OK, NULL, "up to %" PRId64 " open files",
			  f->nofile_hard);
}

void check_netlink(json_t *r, const struct facts *f)
{
	if (f->rcvbuf_result < 0)
		check_add(
			r, "netlink", CHECK_WARNING,
			"run with CAP_NET_ADMIN in the initial user namespace, or raise net.core.rmem_max",
			"receive buffers cannot be enlarged (%s): long answers are lost and requested again",
			strerror(-f->rcvbuf_result));
	else
		check_add(r, "netlink", CHECK_OK, NULL, "receive buffers can be enlarged");
}

void check_memory(json_t *r, const struct facts *f)
{
	int64_t left = f->memory_max - f->memory_used;

	if (!f->has_memory)
		check_add(r, "memory", CHECK_NOTE, NULL,
			  "limit not read: the control group is not of version 2");
	else if (f->memory_max < 0)
		check_add(r, "memory", CHECK_OK, NULL, "the control group has no limit");
	else if (left < MEMORY_LEFT_MIN)
		check_add(r, "memory", CHECK_WARNING,
			  "raise the limit (MemoryMax=, resources.limits.memory): 10,000 services "
			  "take about 40 MB, 50,000 about 160 MB",
			  "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left",
			  left >> 20, f->memory_max >> 20);
	else
		check_add(r, "memory", CHECK_OK, NULL,
			  "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left",
			  left >> 20, f->memory_max >> 20);
}
