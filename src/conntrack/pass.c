/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/pass.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * A dump is filtered when at least this part of the table passes: the kernel then
 * fills a datagram, and lets packets in between, at least every 11,000 entries.
 */
#define FILTER_SHARE 64

struct pass {
	struct ctnl *ctnl;
	bool cannot_match;            /* the kernel refused to delete by filter */
	uint64_t udp_seen[IPFAM_N];   /* by the last dump that told */
	const struct job *job;        /* of the dump under way */
	struct pass_result *result;   /* likewise */
	uint64_t udp_counts[IPFAM_N]; /* likewise */
};

static const uint8_t families[IPFAM_N] = { AF_INET, AF_INET6 };

void pass_open(struct pass **ret, struct ctnl *c)
{
	struct pass *p = xcalloc(1, sizeof(*p));

	p->ctnl = c;
	*ret = p;
}

void pass_close(struct pass *p)
{
	if (p == NULL)
		return;
	ctnl_close(p->ctnl);
	free(p);
}

/* Entries of this network namespace; UINT64_MAX when the kernel does not say. */
static uint64_t table_size(void)
{
	FILE *f = fopen("/proc/sys/net/netfilter/nf_conntrack_count", "re");
	char text[32] = "";
	char *end;
	unsigned long long n;

	if (f == NULL)
		return UINT64_MAX;
	if (fgets(text, sizeof(text), f) == NULL)
		text[0] = '\0';
	(void)fclose(f);
	n = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : n;
}

/* --- left to the kernel --- */

/* The flow, and its mirror image: a walk each. */
static int match_untranslated(struct pass *p, const struct job *job, const struct job_frontend *f,
			      struct err *err)
{
	struct ctnl_match m = { .to = { f->addr, f->port, 0 },
				.proto = f->proto,
				.has_by = true,
				.is_default_zone = true };
	int r;

	if (f->n_live > 0 && job_endpoint_is_in(&m.to, &job->live.v[f->live], f->n_live))
		return 0; /* the endpoint is the address itself */
	m.by = m.to;
	r = ctnl_delete_matching(p->ctnl, &m, err);
	m.is_mirror = true;
	return r < 0 ? r : ctnl_delete_matching(p->ctnl, &m, err);
}

static int match_target(struct pass *p, const struct job *job, const struct job_frontend *f,
			const struct job_target *t, struct err *err)
{
	struct ctnl_match m = { .to = { f->addr, f->port, 0 }, .proto = f->proto };

	switch ((enum job_kind)t->kind) {
	case JOB_TARGET_EXACT:
		m.has_by = true;
		m.by = t->to;
		break;
	case JOB_TARGET_UNTRANSLATED:
		return match_untranslated(p, job, f, err);
	case JOB_TARGET_TRANSLATED:
		m.is_translated = true;
		break;
	case JOB_TARGET_UNSET:
	case JOB_TARGET_NOT_LIVE:
		return err_set(err, -EOPNOTSUPP, "no filter says this");
	}
	return ctnl_delete_matching(p->ctnl, &m, err);
}

static bool can_match(const struct pass *p, const struct job *job)
{
	size_t n = 0;

	if (p->cannot_match)
		return false;
	vec_for_each (f, &job->frontends) {
		if (ip_fam(&f->addr) != IPFAM_V4)
			continue;
		for (uint32_t i = 0; i < f->n_targets; i++) {
			uint8_t kind = job->targets.v[f->target + i].kind;

			if (kind == JOB_TARGET_NOT_LIVE)
				return false;
			n += kind == JOB_TARGET_UNTRANSLATED ? 2 : 1;
		}
	}
	return n > 0 && n <= PASS_MATCHES_MAX;
}

/* All of IPv4. 0, -EOPNOTSUPP when this kernel cannot, or what went wrong. */
static int match_all(struct pass *p, const struct job *job, struct pass_result *result,
		     struct err *err)
{
	vec_for_each (f, &job->frontends) {
		if (ip_fam(&f->addr) != IPFAM_V4)
			continue;
		for (uint32_t i = 0; i < f->n_targets; i++) {
			int r = match_target(p, job, f, &job->targets.v[f->target + i], err);

			if (r < 0)
				return r;
			result->n_matches++;
		}
	}
	return 0;
}

/* --- dumped and judged --- */

static void on_entry(void *arg, const struct ctnl_entry *e)
{
	struct pass *p = arg;

	p->result->n_seen++;
	if (e->flow.proto == IPPROTO_UDP)
		p->udp_counts[ip_fam(&e->flow.to.addr)]++;
	if (job_is_stale(p->job, &e->flow))
		ctnl_delete(p->ctnl, e);
}

static int dump(struct pass *p, uint8_t family, uint8_t proto, struct err *err)
{
	int r;

	p->udp_counts[IPFAM_V4] = p->udp_counts[IPFAM_V6] = 0;
	r = ctnl_dump(p->ctnl, family, proto, on_entry, p, err);
	for (int fam = 0; r == 0 && fam < IPFAM_N; fam++)
		if (family == 0 || family == families[fam])
			p->udp_seen[fam] = p->udp_counts[fam];
	return r;
}

static int dump_all(struct pass *p, bool is_wanted[static IPFAM_N], struct err *err)
{
	uint64_t size = table_size();
	bool is_filtered = job_is_udp_only(p->job) && size != UINT64_MAX;
	int r = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		if (is_wanted[fam] && p->udp_seen[fam] < size / FILTER_SHARE + 1)
			is_filtered = false;
	if (!is_filtered)
		return dump(p, 0, 0, err);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++)
		if (is_wanted[fam])
			r = dump(p, families[fam], IPPROTO_UDP, err);
	return r;
}

static int judge_all(struct pass *p, const struct job *job, bool is_wanted[static IPFAM_N],
		     struct pass_result *result, struct err *err)
{
	struct err del_err;
	int r, d;

	p->job = job;
	p->result = result;
	r = dump_all(p, is_wanted, err);
	/* Also after a dump that broke off: what was judged is judged. */
	d = ctnl_delete_flush(p->ctnl, &result->n_deleted, &del_err);
	p->job = NULL;
	p->result = NULL;
	if (r == 0 && d < 0) {
		*err = del_err;
		r = d;
	}
	return r;
}

int pass_run(struct pass *p, const struct job *job, struct pass_result *ret, struct err *err)
{
	bool is_wanted[IPFAM_N] = { job_has_family(job, IPFAM_V4), job_has_family(job, IPFAM_V6) };

	*ret = (struct pass_result){ 0 };
	if (table_size() == 0)
		return 0;
	if (can_match(p, job)) {
		int r = match_all(p, job, ret, err);

		if (r < 0 && r != -EOPNOTSUPP)
			return r;
		p->cannot_match = r < 0;
		is_wanted[IPFAM_V4] = r < 0;
	}
	if (!is_wanted[IPFAM_V4] && !is_wanted[IPFAM_V6])
		return 0;
	return judge_all(p, job, is_wanted, ret, err);
}
