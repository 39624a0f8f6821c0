/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/job - lifetime, order, and the check of a flow. */
#include "conntrack/job.h"

#include <netinet/in.h>

void job_fini(struct job *j)
{
	vec_fini(&j->frontends);
	vec_fini(&j->targets);
	vec_fini(&j->live);
	vec_fini(&j->tcp);
	vec_fini(&j->dead);
}

void job_sort(struct job *j)
{
	vec_sort(&j->tcp, ip_endpoint_cmp);
	vec_sort(&j->dead, ip_addr_cmp);
}

bool job_is_live(const struct job *j, const struct job_frontend *f, const struct ip_endpoint *e)
{
	return f->n_live > 0 &&
	       bsearch(e, &j->live.v[f->live], f->n_live, sizeof(*e), ip_endpoint_cmp) != NULL;
}

static const struct job_frontend *frontend_find(const struct job *j, const struct ip_endpoint *at,
						uint8_t proto)
{
	const struct ip_tuple key = { at->addr, at->port, proto, 0 };

	return vec_search(&j->frontends, &key, ip_tuple_cmp);
}

static bool is_same(const struct ip_endpoint *a, const struct ip_endpoint *b)
{
	return ip_endpoint_cmp(a, b) == 0;
}

static bool target_meets(const struct job_target *t, const struct job_flow *flow, bool is_living)
{
	bool is_translated = !is_same(&flow->to, &flow->by);

	switch ((enum job_kind)t->kind) {
	case JOB_TARGET_UNSET:
		break;
	case JOB_TARGET_EXACT:
		return is_same(&t->to, &flow->by);
	case JOB_TARGET_UNTRANSLATED:
		return !is_translated && !is_living && flow->is_default_zone;
	case JOB_TARGET_TRANSLATED:
		return is_translated;
	case JOB_TARGET_NOT_LIVE:
		return !is_living && (is_translated || flow->is_default_zone);
	}
	return false;
}

/* A flow to the frontend `f`. */
static bool is_stale(const struct job *j, const struct job_frontend *f, const struct job_flow *flow)
{
	bool is_living = job_is_live(j, f, &flow->by);

	return array_has(j->targets.v + f->target, f->n_targets, t,
			 target_meets(t, flow, is_living));
}

/* Is this flow from frontend `f` the mirror image of a stale, untranslated flow? */
static bool is_mirror(const struct job *j, const struct job_frontend *f,
		      const struct job_flow *flow)
{
	return flow->is_default_zone && is_same(&flow->from, &flow->back) &&
	       !job_is_live(j, f, &flow->from) &&
	       array_has(j->targets.v + f->target, f->n_targets, t,
			 t->kind == JOB_TARGET_UNTRANSLATED || t->kind == JOB_TARGET_NOT_LIVE);
}

/* A SYN passed while the rules were missing. Its next copy is translated if the flow is deleted. */
static bool is_untranslated_handshake(const struct job *j, const struct job_flow *flow)
{
	return j->has_handshakes && flow->is_unanswered && flow->is_default_zone &&
	       is_same(&flow->to, &flow->by);
}

static bool is_dead(const struct job *j, const struct job_flow *flow)
{
	return !is_same(&flow->to, &flow->by) &&
	       vec_search(&j->dead, &flow->by.addr, ip_addr_cmp) != NULL;
}

bool job_is_stale(const struct job *j, const struct job_flow *flow)
{
	const struct job_frontend *f;

	if (flow->proto == IPPROTO_TCP)
		return (is_untranslated_handshake(j, flow) || is_dead(j, flow)) &&
		       vec_search(&j->tcp, &flow->to, ip_endpoint_cmp) != NULL;
	f = frontend_find(j, &flow->to, flow->proto);
	if (f != NULL)
		return is_stale(j, f, flow);
	f = frontend_find(j, &flow->from, flow->proto);
	return f != NULL && is_mirror(j, f, flow);
}

bool job_has_family(const struct job *j, enum ipfam fam)
{
	return vec_has(&j->frontends, f, ip_fam(&f->key.addr) == fam);
}
