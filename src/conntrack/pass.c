/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/pass.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "conntrack/sysctl.h"

/*
 * A dump is filtered when at least one in FILTER_SHARE entries matches: the kernel then
 * fills a datagram, and enables bottom halves, at least every 11,000 entries.
 */
#define FILTER_SHARE 64
/*
 * Costs in dumped entries, 2 us each (bench/conntrack). A walk without copies takes
 * eight entries in that time; a dump also locks every bucket, even empty ones.
 */
#define WALK_SHARE 8
#define MATCH_COST 500
#define DUMP_COST 5000
/* Delete stale entries after so many checked ones: about a millisecond. */
#define DELETE_EVERY 512
#define COST_NEVER UINT64_MAX

struct pass {
	struct ctnl *ctnl;
	bool cannot_match;       /* the kernel cannot delete by filter */
	uint64_t n_udp[IPFAM_N]; /* UDP flows in the last dump of them */
	const struct job *job;   /* of the current dump, as the next two */
	struct pass_result *result;
	uint64_t counts[IPFAM_N]; /* UDP flows */
};

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

/* Entries of this network namespace; many when the kernel does not say. */
static uint64_t table_size(void)
{
	uint64_t n;

	return sysctl_read(&n, "", SYSCTL_NETFILTER "nf_conntrack_count", NULL) == 0 ? n
										     : UINT32_MAX;
}

/* --- filtered by the kernel --- */

/* Delete untranslated flows, then their mirror images: a walk each. */
static int match_untranslated(struct pass *p, const struct job *job, const struct job_frontend *f,
			      struct err *err)
{
	struct ctnl_match m = { .to = { f->addr, f->port, 0 },
				.proto = f->proto,
				.has_by = true,
				.is_default_zone = true };
	int r;

	if (f->n_live > 0 && job_endpoint_is_in(&m.to, &job->live.v[f->live], f->n_live))
		return 0; /* endpoint and frontend are equal: the flow is not translated */
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

/* 0, -EOPNOTSUPP when the kernel cannot filter, or another error. */
static int match_all(struct pass *p, const struct job *job, struct pass_result *result,
		     struct err *err)
{
	vec_for_each (f, &job->frontends) {
		for (uint32_t i = 0; i < f->n_targets; i++) {
			int r = match_target(p, job, f, &job->targets.v[f->target + i], err);

			if (r < 0)
				return r;
			result->n_matches++;
		}
	}
	return 0;
}

/* --- dumped and checked --- */

static void on_entry(void *arg, const struct ctnl_entry *e)
{
	struct pass *p = arg;

	p->result->n_seen++;
	p->counts[ip_fam(&e->flow.to.addr)] += e->flow.proto == IPPROTO_UDP;
	if (job_is_stale(p->job, &e->flow))
		ctnl_delete(p->ctnl, e);
	if (p->result->n_seen % DELETE_EVERY == 0)
		ctnl_delete_now(p->ctnl);
}

static int dump(struct pass *p, uint8_t family, uint8_t proto, struct err *err)
{
	int r;

	p->counts[IPFAM_V4] = p->counts[IPFAM_V6] = 0;
	r = ctnl_dump(p->ctnl, family, proto, on_entry, p, err);
	for (int fam = 0; r == 0 && fam < IPFAM_N; fam++)
		if (family == 0 || family == ip_family(fam))
			p->n_udp[fam] = p->counts[fam];
	return r;
}

/* `is_udp`: a dump of UDP flows for each family of the job, else one of all flows. */
static int dump_all(struct pass *p, bool is_udp, struct err *err)
{
	int r = 0;

	if (!is_udp)
		return dump(p, 0, 0, err);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++)
		if (job_has_family(p->job, fam))
			r = dump(p, ip_family(fam), IPPROTO_UDP, err);
	return r;
}

static int check_all(struct pass *p, const struct job *job, bool is_udp, struct pass_result *result,
		     struct err *err)
{
	struct err del_err;
	int r, d;

	p->job = job;
	p->result = result;
	r = dump_all(p, is_udp, err);
	/* Also after a dump that failed: the checked flows are valid. */
	d = ctnl_delete_flush(p->ctnl, &result->n_deleted, &del_err);
	p->job = NULL;
	p->result = NULL;
	if (r == 0 && d < 0) {
		*err = del_err;
		r = d;
	}
	return r;
}

/* --- choice --------------------------------------------------------------------------- */

static uint64_t match_cost(const struct pass *p, const struct job *job, uint64_t size)
{
	uint64_t n = 0;

	if (p->cannot_match || job->tcp.n > 0 || job_has_family(job, IPFAM_V6))
		return COST_NEVER;
	vec_for_each (t, &job->targets) {
		if (t->kind == JOB_TARGET_NOT_LIVE)
			return COST_NEVER;
		n += t->kind == JOB_TARGET_UNTRANSLATED ? 2 : 1;
	}
	return n * (MATCH_COST + size / WALK_SHARE);
}

/* Cost of dumps of UDP flows, where enough of the table matches. */
static uint64_t udp_cost(const struct pass *p, const struct job *job, uint64_t size)
{
	uint64_t cost = 0;

	if (!job_is_udp_only(job))
		return COST_NEVER;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		if (!job_has_family(job, fam))
			continue;
		if (p->n_udp[fam] < size / FILTER_SHARE + 1)
			return COST_NEVER;
		cost += DUMP_COST + size / WALK_SHARE + p->n_udp[fam];
	}
	return cost;
}

int pass_run(struct pass *p, const struct job *job, struct pass_result *ret, struct err *err)
{
	uint64_t size = table_size();
	uint64_t udp = udp_cost(p, job, size);
	uint64_t all = DUMP_COST + size;

	*ret = (struct pass_result){ 0 };
	if (size == 0)
		return 0;
	if (match_cost(p, job, size) <= MIN(udp, all)) {
		int r = match_all(p, job, ret, err);

		if (r != -EOPNOTSUPP)
			return r;
		p->cannot_match = true;
	}
	return check_all(p, job, udp < all, ret, err);
}
