/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/tuning - settings of a Service: annotations, else the configuration. */
#include <linux/ip_vs.h>
#include <unistd.h>

#include "base/name.h"
#include "base/util.h"
#include "model/select.h"
#include "plane/ipvs/state.h"
#include "plane/remark.h"

/* The default as it serves weights: wrr for rr, wlc for lc. */
static struct scheduler weighted(struct scheduler by_default)
{
	if (by_default.no == scheduler_no("rr"))
		by_default.no = scheduler_no("wrr");
	else if (by_default.no == scheduler_no("lc"))
		by_default.no = scheduler_no("wlc");
	return by_default;
}

struct scheduler ipvs_sched_of(const struct service *s, struct scheduler by_default)
{
	const struct service_tuning *t = s != NULL ? s->tuning : NULL;
	struct scheduler ret;

	if (t != NULL && t->scheduler != NULL &&
	    scheduler_parse(&ret, t->scheduler->text, NULL) == 0)
		return ret;
	return t != NULL && t->by_name != NULL ? weighted(by_default) : by_default;
}

static bool ignores_weights(uint8_t no)
{
	return no == scheduler_no("rr") || no == scheduler_no("lc") || no == scheduler_no("dh");
}

struct scheduler ipvs_sched_in_force(struct scheduler sched, struct scheduler by_default,
				     uint32_t by_mark_s, size_t n, uint32_t missing)
{
	struct scheduler mh = { .no = scheduler_no("mh"), .flags = IP_VS_SVC_F_SCHED1 };
	struct scheduler wrr = { .no = scheduler_no("wrr") };

	if (by_mark_s != 0 && n <= IPVS_MH_DESTS_MAX && !(missing & UINT32_C(1) << mh.no))
		return mh;
	if (sched.no != mh.no || n <= IPVS_MH_DESTS_MAX)
		return sched;
	/* There may be weights. */
	sched = by_default.no == mh.no ? wrr : weighted(by_default);
	return missing & UINT32_C(1) << sched.no ? by_default : sched;
}

static bool has_module(const struct ipvs_plane *p, uint8_t no)
{
	return access(str_local(256, "%s/sys/module/ip_vs_%s", p->config.sysctl_root,
				scheduler_name(no)),
		      F_OK) == 0;
}

bool ipvs_sched_is_unsafe(const struct ipvs_plane *p, uint8_t no)
{
	const char *root = p->config.sysctl_root;

	if (root == NULL || (no != scheduler_no("lblc") && no != scheduler_no("lblcr")))
		return false;
	return !has_module(p, no) && /* else built in */
	       access(str_local(256, "%s/sys/module/ip_vs/initstate", root), F_OK) == 0;
}

bool ipvs_sched_is_loaded(const struct ipvs_plane *p)
{
	for (uint8_t no = 0; p->config.sysctl_root != NULL && p->missing_scheds >> no != 0; no++)
		if (p->missing_scheds & UINT32_C(1) << no && has_module(p, no))
			return true;
	return false;
}

/* Names the scheduler in `err`. */
static bool is_lacking(const struct ipvs_plane *p, uint8_t no, struct err *err)
{
	if (!(p->missing_scheds & UINT32_C(1) << no) && !ipvs_sched_is_unsafe(p, no))
		return false;
	(void)err_set(err, 0, "'%s' is not loaded (module ip_vs_%s)", scheduler_name(no),
		      scheduler_name(no));
	return true;
}

static void sched_read(struct ipvs_tuning *ret, const struct ipvs_plane *p, const struct service *s,
		       struct str *remark)
{
	const struct service_tuning *t = s->tuning;
	FINI(str_fini) struct str instead = { 0 };
	struct scheduler sched;
	struct err err = { 0 };
	struct err weights_err = { 0 };

	if (service_weights(s) != NULL && !is_lacking(p, weighted(p->sched).no, &weights_err))
		ret->sched = weighted(p->sched);
	if (t->scheduler != NULL && scheduler_parse(&sched, t->scheduler->text, &err) == 0 &&
	    !is_lacking(p, sched.no, &err)) {
		ret->sched = sched;
		weights_err = (struct err){ 0 };
	}
	if (err.text[0] != '\0') {
		str_printf(&instead, "served with %s", scheduler_name(ret->sched.no));
		plane_remark_scheduler(remark, t, err.text, str_text(&instead));
	}
	if (service_weights(s) == NULL || !ignores_weights(ret->sched.no))
		return;
	if (weights_err.text[0] == '\0')
		(void)err_set(&weights_err, 0, "'%s' ignores weights",
			      scheduler_name(ret->sched.no));
	plane_remark_add(remark, "vipd.io/weights", weights_err.text,
			 "only weight 0 has an effect");
}

void ipvs_tuning_read(struct ipvs_tuning *ret, const struct ipvs_plane *p, const struct service *s,
		      struct str *remark)
{
	const struct service_tuning *t = s != NULL ? s->tuning : NULL;
	struct err err = { 0 };

	*ret = (struct ipvs_tuning){ .sched = p->sched, .drain_s = p->config.drain_s };
	if (t == NULL)
		return;
	sched_read(ret, p, s, remark);
	if (t->drain_timeout != NULL &&
	    drain_timeout_parse(&ret->drain_s, t->drain_timeout->text, &err) < 0)
		plane_remark_add(remark, "vipd.io/drain-timeout", err.text,
				 "the default is in force");
	plane_remark_weights(remark, t);
}

/* Append a remark if a pool has more destinations than mh has slots, draining ones included. */
static void limit_remark(const struct ipvs_plane *p, const struct svc *svc, struct str *ret)
{
	const struct plan_rows *rows = plan_rows_or_none(svc->rows);
	const char *why = str_local(64, "'mh' of more than %d endpoints, draining ones included",
				    IPVS_MH_DESTS_MAX);

	vec_for_each (pool, &rows->pools) {
		const struct ipvs_vs *vs = ipvs_vs_of_pool(p, pool);

		if (MAX(pool->backends.n, vs != NULL ? vs->dests.n : 0) <= IPVS_MH_DESTS_MAX)
			continue;
		plane_remark_scheduler(ret, svc->service->tuning, why,
				       "the default scheduler is in force");
		return;
	}
}

void ipvs_remark(const struct plane *plane, const struct svc *svc, struct str *ret)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	const struct service_tuning *t = svc->service != NULL ? svc->service->tuning : NULL;
	struct ipvs_tuning tuning;

	ipvs_tuning_read(&tuning, p, svc->service, ret);
	if (t == NULL)
		return;
	if (t->scheduler != NULL && tuning.sched.no == scheduler_no("mh"))
		limit_remark(p, svc, ret);
	plane_remark_forwarding(ret, svc, true);
}
