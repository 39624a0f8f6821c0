/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kernel.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "nft/watch.h"
#include "plane/nft/layout.h"

int kernel_enter(void)
{
	if (geteuid() != 0) {
		printf("skipped: needs root (private network namespaces, nf_tables)\n");
		return 77;
	}
	if (unshare(CLONE_NEWNET) == -1) {
		printf("no private network namespace: %s\n", strerror(errno));
		return 99;
	}
	return 0;
}

int kernel_fresh(void **state)
{
	if (unshare(CLONE_NEWNET) == -1)
		return -1;
	return sh("ip link set lo up");
}

static char *format(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

static char *format(const char *fmt, va_list ap)
{
	char *text;

	assert_true(vasprintf(&text, fmt, ap) >= 0);
	return text;
}

int sh(const char *fmt, ...)
{
	va_list ap;
	char *cmd;
	int r;

	va_start(ap, fmt);
	cmd = format(fmt, ap);
	va_end(ap);
	fflush(NULL);
	r = system(cmd);
	free(cmd);
	return WIFEXITED(r) ? WEXITSTATUS(r) : -1;
}

char *sh_text(const char *fmt, ...)
{
	struct str out = { 0 };
	char buf[4096];
	va_list ap;
	size_t n;
	char *cmd;
	FILE *f;

	va_start(ap, fmt);
	cmd = format(fmt, ap);
	va_end(ap);
	fflush(NULL);
	f = popen(cmd, "re");
	assert_non_null(f);
	str_add(&out, "", 0);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		str_add(&out, buf, n);
	if (pclose(f) != 0)
		fail_msg("'%s' failed, it said: %s", cmd, str_text(&out));
	free(cmd);
	return out.text != NULL ? out.text : xstrdup("");
}

struct nl_sock *kernel_sock(void)
{
	struct nl_sock *nl = NULL;
	struct err err;

	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0)
		fail_msg("%s", err.text);
	return nl;
}

struct nlmsghdr *kernel_msg(struct nl_batch *b, uint16_t msg, uint16_t flags, const void *tag)
{
	return nl_batch_msg(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | msg), flags, NFPROTO_IPV4,
			    tag);
}

struct nlattr *kernel_elems(struct nlmsghdr *h, const char *table, const char *set)
{
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	return mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
}

static void value(struct nlmsghdr *h, uint16_t type, const void *bytes, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(h, type);

	mnl_attr_put(h, NFTA_DATA_VALUE, len, bytes);
	mnl_attr_nest_end(h, nest);
}

void kernel_elem(struct nlmsghdr *h, const void *key, size_t key_len, const void *data,
		 size_t data_len)
{
	struct nlattr *e = mnl_attr_nest_start(h, NFTA_LIST_ELEM);

	value(h, NFTA_SET_ELEM_KEY, key, key_len);
	if (data != NULL)
		value(h, NFTA_SET_ELEM_DATA, data, data_len);
	mnl_attr_nest_end(h, e);
}

int kernel_commit(struct nl_batch *b)
{
	struct err err = { 0 };
	int r = nl_batch_commit(b, &err);

	nl_batch_reset(b);
	return r;
}

uint32_t kernel_genid(struct nl_sock *nl)
{
	uint32_t genid = 0;
	struct err err;

	if (nft_genid_read(nl, &genid, &err) < 0)
		fail_msg("%s", err.text);
	return genid;
}
