/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/remark.h"

#include "base/hash.h"
#include "base/log.h"
#include "model/tuning.h"

void plane_remark_add(struct str *out, const char *annotation, const char *why, const char *instead)
{
	if (out != NULL)
		str_printf(out, "%s%s: %s: %s", out->len > 0 ? "; " : "", annotation, why, instead);
}

void plane_remark_scheduler(struct str *out, const struct service_tuning *t, const char *why,
			    const char *instead)
{
	plane_remark_add(
		out, t->is_kube_router ? "kube-router.io/service.scheduler" : "vipd.io/scheduler",
		why, instead);
}

void plane_remark_weights(struct str *out, const struct service_tuning *t)
{
	if (t->weights_error != NULL)
		plane_remark_add(out, "vipd.io/weights", t->weights_error,
				 "each endpoint has weight 1");
}

/*
 * Why a programmed frontend is not forwarded as requested; an empty `err`: all are. The Service may
 * have other ports by now.
 */
static void forwarding_check(const struct plan_rows *rows, const char *how, struct err *err)
{
	bool has_some = false;

	vec_for_each (f, &rows->frontends) {
		const struct plan_pool *pool =
			plan_rows_pool(rows, ip_fam(&f->addr), f->target.pool_id);
		const struct plan_backend *b;

		if (f->kind != PLAN_FRONTEND_LB && f->kind != PLAN_FRONTEND_EXTERNALIP)
			continue;
		has_some = true;
		b = pool != NULL ? vec_find(&pool->backends, of, of->port != f->port) : NULL;
		if (b == NULL)
			continue;
		(void)err_set(err, 0, "'%s' needs endpoints with the Service's port %u: %s", how,
			      f->port, ip_endpoint_str(&b->addr, b->port));
		return;
	}
	if (!has_some)
		(void)err_set(err, 0,
			      "'%s' is for external addresses, of which the Service has none", how);
}

void plane_remark_forwarding(struct str *out, const struct svc *svc, bool has_forwarding)
{
	const struct service_tuning *t = svc->service->tuning;
	uint32_t how = FORWARDING_MASQUERADE;
	struct err err = { 0 };

	if (t->forwarding == NULL)
		return;
	if (forwarding_parse(&how, t->forwarding->text, &err) == 0 &&
	    how != FORWARDING_MASQUERADE) {
		if (has_forwarding)
			forwarding_check(plan_rows_or_none(svc->rows), forwarding_str(how), &err);
		else
			(void)err_set(&err, 0, "'%s' is for the ipvs plane", forwarding_str(how));
	}
	if (err.text[0] != '\0')
		plane_remark_add(out,
				 t->is_dsr ? "kube-router.io/service.dsr" : "vipd.io/forwarding",
				 err.text, "connections are masqueraded");
}

void plane_remark_log(const struct plane *p, struct svc *svc)
{
	FINI(str_fini) struct str text = { 0 };
	uint32_t hash = 0;

	if (p->ops->remark != NULL && svc->rows != NULL && svc->service != NULL &&
	    svc->service->tuning != NULL)
		p->ops->remark(p, svc, &text);
	if (text.len > 0)
		hash = hash_bytes(text.text, text.len) | 1;
	if (hash != 0 && hash != svc->remark)
		log_warn(LOG_AREA_PLANE, "service %s/%s: %s", svc->ns->text, svc->name->text,
			 text.text);
	svc->remark = hash;
}
