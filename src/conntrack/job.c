/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/job - lifetime, order, and the judgement of a flow. */
#include "conntrack/job.h"

#include <netinet/in.h>

void job_fini(struct job *j)
{
	vec_fini(&j->frontends);
	vec_fini(&j->targets);
	vec_fini(&j->live);
}

int job_endpoint_cmp(const struct job_endpoint *a, const struct job_endpoint *b)
{
	int c = ip_addr_cmp(&a->addr, &b->addr);

	return c != 0 ? c : (int)a->port - (int)b->port;
}

int job_frontend_cmp(const void *a, const void *b)
{
	const struct job_frontend *fa = a;
	const struct job_frontend *fb = b;
	int c = ip_addr_cmp(&fa->addr, &fb->addr);

	if (c == 0)
		c = (int)fa->proto - (int)fb->proto;
	return c != 0 ? c : (int)fa->port - (int)fb->port;
}

bool job_endpoint_is_in(const struct job_endpoint *e, const struct job_endpoint *v, size_t n)
{
	size_t lo = 0;
	size_t hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = job_endpoint_cmp(&v[mid], e);

		if (c == 0)
			return true;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

static const struct job_frontend *frontend_find(const struct job *j, const struct job_flow *flow)
{
	struct job_frontend key = { .addr = flow->to.addr,
				    .port = flow->to.port,
				    .proto = flow->proto };
	size_t lo = 0;
	size_t hi = j->frontends.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = job_frontend_cmp(&j->frontends.v[mid], &key);

		if (c == 0)
			return &j->frontends.v[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static bool target_meets(const struct job_target *t, const struct job_flow *flow,
			 bool is_translated, bool is_live)
{
	switch ((enum job_kind)t->kind) {
	case JOB_TARGET_UNSET:
		break;
	case JOB_TARGET_EXACT:
		return job_endpoint_cmp(&t->to, &flow->by) == 0;
	case JOB_TARGET_UNTRANSLATED:
		return !is_translated && !is_live && flow->is_default_zone;
	case JOB_TARGET_TRANSLATED:
		return is_translated;
	case JOB_TARGET_NOT_LIVE:
		return !is_live && (is_translated || flow->is_default_zone);
	}
	return false;
}

bool job_is_stale(const struct job *j, const struct job_flow *flow)
{
	const struct job_frontend *f = frontend_find(j, flow);
	bool is_translated = job_endpoint_cmp(&flow->to, &flow->by) != 0;
	bool is_live;

	if (f == NULL)
		return false;
	is_live = job_endpoint_is_in(&flow->by, &j->live.v[f->live], f->n_live);
	for (uint32_t i = 0; i < f->n_targets; i++)
		if (target_meets(&j->targets.v[f->target + i], flow, is_translated, is_live))
			return true;
	return false;
}

bool job_has_family(const struct job *j, enum ipfam fam)
{
	vec_for_each (f, &j->frontends)
		if (ip_fam(&f->addr) == fam)
			return true;
	return false;
}

bool job_is_udp_only(const struct job *j)
{
	vec_for_each (f, &j->frontends)
		if (f->proto != IPPROTO_UDP)
			return false;
	return true;
}
