/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/tuning - annotations of a Service: mh and sh, and what this plane does not support. */
#include "model/tuning.h"

#include <linux/ip_vs.h>

#include "plan/table.h"
#include "plane/nft/state.h"
#include "plane/remark.h"

static bool is_jhash_lacking; /* known when a chain with it was rejected */

void nft_hashing_lack(bool is_lacking)
{
	is_jhash_lacking = is_lacking;
}

/* The flag of sh-port is that of mh-port. */
static enum plan_hashing hashing_of(const struct scheduler *sched)
{
	if (sched->no != scheduler_no("mh") && sched->no != scheduler_no("sh"))
		return PLAN_HASHING_NONE;
	return sched->flags & IP_VS_SVC_F_SCHED2 ? PLAN_HASHING_PORT : PLAN_HASHING_ADDR;
}

enum plan_hashing nft_hashing(const struct service *s)
{
	struct scheduler sched;

	if (is_jhash_lacking || s->tuning == NULL || s->tuning->scheduler == NULL ||
	    scheduler_parse(&sched, s->tuning->scheduler->text, NULL) < 0)
		return PLAN_HASHING_NONE;
	return hashing_of(&sched);
}

uint16_t nft_hash_class(enum plan_hashing how)
{
	return how == PLAN_HASHING_PORT ? NFT_KIND_HASH_PORT : NFT_KIND_HASH_ADDR;
}

/* Which pools have no hashing, although the annotation requests it. Returns what they have. */
static const char *remark_limits(const struct plan_rows *rows, const char *name, struct err *err)
{
	for (size_t i = 0; rows != NULL && i < rows->pools.n; i++) {
		if (rows->pools.v[i].backends.n <= PLAN_HASH_BACKENDS_MAX)
			continue;
		(void)err_set(err, 0, "'%s' supports at most %d endpoints, not %u", name,
			      PLAN_HASH_BACKENDS_MAX, rows->pools.v[i].backends.n);
		return "endpoints are picked at random";
	}
	if (rows == NULL || rows->pools.n <= PLAN_HASH_POOLS_MAX)
		return "";
	(void)err_set(err, 0, "'%s' supports at most %d sets of endpoints, not %u", name,
		      PLAN_HASH_POOLS_MAX, rows->pools.n);
	return "endpoints of the other sets are picked at random";
}

static void remark_scheduler(const struct svc *svc, struct str *ret)
{
	const struct service_tuning *t = svc->service->tuning;
	const char *instead = "endpoints are picked at random";
	enum plan_hashing how = PLAN_HASHING_NONE;
	struct scheduler sched = { 0 };
	struct err err = { 0 };

	if (scheduler_parse(&sched, t->scheduler->text, &err) == 0)
		how = hashing_of(&sched);
	/* rr and wrr: by the weights, if there are any */
	if (sched.no == scheduler_no("rr") || sched.no == scheduler_no("wrr"))
		return;
	if (err.text[0] == '\0' && how == PLAN_HASHING_NONE) {
		(void)err_set(&err, 0, "'%s' is a scheduler of the ipvs plane",
			      scheduler_name(sched.no));
	} else if (how != PLAN_HASHING_NONE && svc->service->affinity_s != 0) {
		(void)err_set(&err, 0, "'%s' is not possible with session affinity",
			      scheduler_name(sched.no));
		instead = "a client keeps the endpoint that is picked at random";
	} else if (how != PLAN_HASHING_NONE && is_jhash_lacking) {
		(void)err_set(&err, 0, "'%s' needs CONFIG_NFT_HASH, which this kernel lacks",
			      scheduler_name(sched.no));
	} else if (how != PLAN_HASHING_NONE) {
		instead = remark_limits(svc->rows, scheduler_name(sched.no), &err);
	}
	if (err.text[0] == '\0' && how != PLAN_HASHING_NONE && sched.no != scheduler_no("mh")) {
		(void)err_set(&err, 0, "'%s' is a scheduler of the ipvs plane",
			      scheduler_name(sched.no));
		instead = how == PLAN_HASHING_PORT ? "mh,mh-port is in force" : "mh is in force";
	}
	if (err.text[0] != '\0')
		plane_remark_scheduler(ret, t, err.text, instead);
}

static void remark_slots(const struct svc *svc, struct str *ret)
{
	const struct plan_rows *rows = svc->rows;
	struct err err = { 0 };

	if (rows == NULL || !vec_has(&rows->pools, pool, plan_table_is_rounded(pool, svc->service)))
		return;
	(void)err_set(&err, 0, "at most %zu slots in each set of endpoints",
		      plan_weight_slots_max(svc->service));
	plane_remark_add(ret, "vipd.io/weights", err.text, "weights are rounded");
}

void nft_remark(const struct plane *p, const struct svc *svc, struct str *ret)
{
	const struct service_tuning *t = svc->service != NULL ? svc->service->tuning : NULL;

	if (t == NULL)
		return;
	if (t->scheduler != NULL)
		remark_scheduler(svc, ret);
	if (t->drain_timeout != NULL)
		plane_remark_add(ret, "vipd.io/drain-timeout", "is for the ipvs plane",
				 "connections of removed endpoints have no time limit");
	plane_remark_weights(ret, t);
	remark_slots(svc, ret);
	plane_remark_forwarding(ret, svc, false);
}
