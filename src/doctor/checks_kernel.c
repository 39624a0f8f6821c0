/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks_kernel - checks of the kernel's version and of its nf_tables features. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor/checks.h"

#define MAJOR_MIN 5U
#define MINOR_MIN 10U

void check_kernel(json_t *r, const struct facts *f)
{
	unsigned int major;
	unsigned int minor;

	if (sscanf(f->release, "%u.%u", &major, &minor) != 2)
		check_add(r, "kernel", CHECK_NOTE, NULL, "unknown version: '%s'", f->release);
	else if (major < MAJOR_MIN || (major == MAJOR_MIN && minor < MINOR_MIN))
		check_add(r, "kernel", CHECK_ERROR,
			  "upgrade the kernel: older versions lack features that the rules use",
			  "Linux %s, older than %u.%u", f->release, MAJOR_MIN, MINOR_MIN);
	else
		check_add(r, "kernel", CHECK_OK, NULL, "Linux %s", f->release);
}

static bool all_are(const struct fact_try *t, int result)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < t->n[fam]; i++)
			if (t->tries[fam][i].result != result)
				return false;
	return t->n[IPFAM_V4] > 0;
}

static void missing(json_t *r, const struct fact_try *t, size_t i)
{
	const struct nft_try *four = &t->tries[IPFAM_V4][i];
	const struct nft_try *six = &t->tries[IPFAM_V6][i];
	const struct nft_try *bad = four->result < 0 ? four : six;
	char advice[256];

	if (four->result == 0 && six->result == 0)
		return;
	(void)snprintf(advice, sizeof(advice), "use a kernel with %s, or load the module",
		       bad->needs);
	check_add(r, "nftables", CHECK_ERROR, advice, "the kernel has no %s (%s): %s", bad->what,
		  four->result < 0 && six->result < 0
			  ? "IPv4 and IPv6"
			  : ipfam_text(bad == six ? IPFAM_V6 : IPFAM_V4),
		  bad->detail);
}

void check_nftables(json_t *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (!t->is_done)
		check_add(r, "nftables", CHECK_ERROR, "see the error",
			  "features cannot be tested: %s", t->error.text);
	else if (all_are(t, -EPERM))
		check_add(r, "nftables", CHECK_ERROR, "run with CAP_NET_ADMIN",
			  "this process has no permission to use nf_tables");
	else if (!all_are(t, 0))
		for (size_t i = 0; i < t->n[IPFAM_V4]; i++)
			missing(r, t, i);
	else if (!t->is_private)
		check_add(r, "nftables", CHECK_NOTE,
			  "optional: run with CAP_SYS_ADMIN to test the whole ruleset",
			  "all %zu features are available; the whole ruleset was not tested",
			  t->n[IPFAM_V4]);
	else if (t->layout_result < 0)
		check_add(
			r, "nftables", CHECK_ERROR,
			"report this with the kernel's version: each feature alone is accepted",
			"all features are available, but the kernel rejects the whole ruleset: %s",
			t->error.text);
	else
		check_add(
			r, "nftables", CHECK_OK, NULL,
			"all %zu features are available, and the kernel accepts the whole ruleset",
			t->n[IPFAM_V4]);
}
