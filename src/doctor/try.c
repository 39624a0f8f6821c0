/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/try.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"

#define DEADLINE_S 20

/* A request loads the module of IPVS; a virtual service loads that of its scheduler. */
static void trial_ipvs(struct fact_try *t)
{
	AUTO(ipvs_wire_close) struct ipvs_wire *w = NULL;
	struct nl_sock *nl = NULL;

	t->ipvs_result = nl_sock_open(&nl, NETLINK_GENERIC, NULL);
	if (t->ipvs_result < 0)
		return;
	ipvs_wire_open(&w, nl);
	t->ipvs_result = ipvs_wire_resolve(w, NULL);
	if (t->ipvs_result == 0 && t->is_private)
		t->n_scheds = ipvs_try_scheds(t->scheds, w);
}

static void trial(struct fact_try *t, bool is_ipvs)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	struct err err = { 0 };
	int r;

	t->is_private = unshare(CLONE_NEWNET) == 0;
	r = nl_sock_open(&nl, NETLINK_NETFILTER, &err);
	t->is_done = r == 0;
	if (r == 0) {
		for (int fam = 0; fam < IPFAM_N; fam++)
			t->n[fam] = is_ipvs ? ipvs_try_features(t->tries[fam], nl, (enum ipfam)fam)
					    : nft_try_features(t->tries[fam], nl, (enum ipfam)fam);
		if (t->is_private)
			t->layout_result =
				is_ipvs ? ipvs_try_layout(nl, &err) : nft_try_layout(nl, &err);
	}
	if (is_ipvs)
		trial_ipvs(t);
	(void)snprintf(t->text, sizeof(t->text), "%s", err.text);
}

/* Suppress the log lines of the layout. */
static void child_main(void *arg, int fd)
{
	struct fact_try *t = xcalloc(1, sizeof(*t));

	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(DEADLINE_S);
	for (int i = 0; i < LOG_AREA_N; i++)
		log_level_set((enum log_area)i, (enum log_level)(LOG_LEVEL_ERR - 1));
	trial(t, *(const bool *)arg);
	_exit(child_write(fd, t, sizeof(*t)) ? 0 : 1);
}

void try_kernel(struct fact_try *ret, bool is_ipvs)
{
	struct child c;
	struct err err;

	*ret = (struct fact_try){ 0 };
	if (child_start(&c, "vipd-try", child_main, &is_ipvs, &err) < 0) {
		(void)snprintf(ret->text, sizeof(ret->text), "%s", err.text);
		return;
	}
	(void)fcntl(c.fd, F_SETFL, 0); /* blocking */
	if (!child_read(c.fd, ret, sizeof(*ret))) {
		*ret = (struct fact_try){ 0 };
		(void)snprintf(ret->text, sizeof(ret->text), "the process that tries it failed");
	}
	child_reap(&c);
}
