/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/try.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

static int trial_layout(struct nl_sock *nl, bool is_ipvs, struct err *err)
{
	return is_ipvs ? ipvs_try_layout(nl, err) : nft_try_layout(nl, err);
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
			t->layout_result = trial_layout(nl, is_ipvs, &err);
	}
	if (is_ipvs)
		trial_ipvs(t);
	(void)snprintf(t->text, sizeof(t->text), "%s", err.text);
}

/* Suppress the log lines of the layout. */
static _Noreturn void child(int fd, bool is_ipvs)
{
	struct fact_try *t = xcalloc(1, sizeof(*t));

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(DEADLINE_S);
	for (int i = 0; i < LOG_AREA_N; i++)
		log_level_set((enum log_area)i, (enum log_level)(LOG_LEVEL_ERR - 1));
	trial(t, is_ipvs);
	_exit(child_write(fd, t, sizeof(*t)) ? 0 : 1);
}

void try_kernel(struct fact_try *ret, bool is_ipvs)
{
	int fds[2];
	pid_t pid;

	*ret = (struct fact_try){ 0 };
	if (pipe(fds) == -1) {
		(void)snprintf(ret->text, sizeof(ret->text), "pipe: %s", strerror(errno));
		return;
	}
	pid = fork();
	if (pid == 0)
		child(fds[1], is_ipvs);
	close(fds[1]);
	if (pid == -1)
		(void)snprintf(ret->text, sizeof(ret->text), "fork: %s", strerror(errno));
	else if (!child_read(fds[0], ret, sizeof(*ret))) {
		*ret = (struct fact_try){ 0 };
		(void)snprintf(ret->text, sizeof(ret->text), "the process that tries it failed");
	}
	close(fds[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL); /* its result is complete, or too late */
		while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
}
