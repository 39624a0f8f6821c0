/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/pass.h"

#include <errno.h>
#include <netinet/in.h>

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

static int outdated_check(const struct pass *p, const struct job *job, struct err *err)
{
	return p->outdated != NULL && *p->outdated == job->id
		       ? err_set(err, -ECANCELED, "endpoints changed during the scan")
		       : 0;
}

/* --- filtered by the kernel --- */

/* Delete untranslated flows, then their mirror images: a walk each. */
static int match_untranslated(struct pass *p, const struct ip_endpoint *at, uint8_t proto,
			      struct err *err)
{
	const struct ctnl_match flow = {
		.to = at, .by = at, .proto = proto, .is_default_zone = true
	};
	const struct ctnl_match mirror = {
		.from = at, .back = at, .proto = proto, .is_default_zone = true
	};
	int r = ctnl_delete_matching(p->ctnl, &flow, err);

	return r < 0 ? r : ctnl_delete_matching(p->ctnl, &mirror, err);
}

static int match_target(struct pass *p, const struct job *job, const struct job_frontend *f,
			const struct job_target *t, struct err *err)
{
	const struct ip_endpoint at = { f->key.addr, f->key.port, 0 };
	struct ctnl_match m = { .to = &at, .proto = f->key.proto };

	switch ((enum job_kind)t->kind) {
	case JOB_TARGET_EXACT:
		m.by = &t->to;
		break;
	case JOB_TARGET_UNTRANSLATED:
		if (job_is_live(job, f, &at)) /* its own endpoint: the flow is not translated */
			return 0;
		return match_untranslated(p, &at, f->key.proto, err);
	case JOB_TARGET_TRANSLATED:
		m.is_translated = true;
		break;
	case JOB_TARGET_UNSET:
	case JOB_TARGET_NOT_LIVE:
		return err_set(err, -EOPNOTSUPP, "the kernel has no filter for this target");
	}
	return ctnl_delete_matching(p->ctnl, &m, err);
}

/* 0, -EOPNOTSUPP when the kernel cannot filter, or another error. */
static int match_all(struct pass *p, const struct job *job, struct pass_result *result,
		     struct err *err)
{
	vec_for_each (f, &job->frontends) {
		for (uint32_t i = 0; i < f->n_targets; i++) {
			int r = outdated_check(p, job, err);

			if (r == 0)
				r = match_target(p, job, f, &job->targets.v[f->target + i], err);
			if (r < 0)
				return r;
			result->n_matches++;
		}
	}
	return 0;
}

/* --- dumped and checked --- */

struct dump {
	const struct pass *pass;
	const struct job *job;
	struct pass_result *result;
	uint64_t n_udp[IPFAM_N]; /* UDP flows */
};

static void on_entry(void *arg, const struct ctnl_entry *e)
{
	struct dump *d = arg;

	d->result->n_seen++;
	d->n_udp[ip_fam(&e->flow.to.addr)] += e->flow.proto == IPPROTO_UDP;
	if (outdated_check(d->pass, d->job, NULL) < 0)
		ctnl_delete_drop(d->pass->ctnl);
	else if (job_is_stale(d->job, &e->flow))
		ctnl_delete(d->pass->ctnl, e);
	if (d->result->n_seen % DELETE_EVERY == 0)
		ctnl_delete_now(d->pass->ctnl);
}

/* `is_udp`: a dump of UDP flows for each family of the job, else one of all flows. */
static int dump_all(struct pass *p, struct dump *d, bool is_udp, struct err *err)
{
	int r = 0;

	if (!is_udp)
		r = ctnl_dump(p->ctnl, 0, 0, on_entry, d, err);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		bool is_dumped = !is_udp || job_has_family(d->job, fam);

		if (is_udp && is_dumped)
			r = ctnl_dump(p->ctnl, ip_family(fam), IPPROTO_UDP, on_entry, d, err);
		if (is_dumped && r == 0)
			p->n_udp[fam] = d->n_udp[fam];
	}
	return r;
}

static int check_all(struct pass *p, const struct job *job, bool is_udp, struct pass_result *result,
		     struct err *err)
{
	struct dump d = { .pass = p, .job = job, .result = result };
	int r = dump_all(p, &d, is_udp, err);
	int q;

	if (r == 0)
		r = outdated_check(p, job, err);
	if (r == -ECANCELED)
		ctnl_delete_drop(p->ctnl);
	/* Also after a dump that failed: the checked flows are valid. */
	q = ctnl_delete_flush(p->ctnl, &result->n_deleted, r < 0 ? NULL : err);
	return r < 0 ? r : q;
}

/* --- choice --------------------------------------------------------------------------- */

static uint64_t match_cost(const struct pass *p, const struct job *job, uint64_t size)
{
	uint64_t n = 0;

	if (p->cannot_match || job->tcp.n > 0 || job_has_family(job, IPFAM_V6))
		return COST_NEVER;
	vec_for_each (t, &job->targets) {
		if (t->kind == JOB_TARGET_NOT_LIVE ||
		    (t->kind == JOB_TARGET_TRANSLATED && p->is_ipvs))
			return COST_NEVER;
		n += t->kind == JOB_TARGET_UNTRANSLATED ? 2 : 1;
	}
	return n * (MATCH_COST + size / WALK_SHARE);
}

/* Cost of dumps of UDP flows, where enough of the table matches. */
static uint64_t udp_cost(const struct pass *p, const struct job *job, uint64_t size)
{
	uint64_t cost = 0;

	if (job->tcp.n > 0)
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
	uint64_t size; /* entries of this network namespace */
	uint64_t udp, all;

	*ret = (struct pass_result){ 0 };
	if (sysctl_read(&size, "", SYSCTL_NETFILTER "nf_conntrack_count", NULL) < 0)
		size = UINT32_MAX; /* many */
	if (size == 0)
		return 0;
	udp = udp_cost(p, job, size);
	all = DUMP_COST + size;
	if (match_cost(p, job, size) <= MIN(udp, all)) {
		int r = match_all(p, job, ret, err);

		if (r != -EOPNOTSUPP)
			return r;
		p->cannot_match = true;
	}
	return check_all(p, job, udp < all, ret, err);
}
