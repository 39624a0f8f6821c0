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
	struct err err = { 0 };

	if (out != NULL && t->weights != NULL && weights_parse(NULL, t->weights->text, &err) < 0)
		plane_remark_add(out, "vipd.io/weights", err.text, "each endpoint has weight 1");
}

void plane_remark_log(const struct plane *p, struct svc *svc)
{
	struct str text = { 0 };
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
	str_fini(&text);
}
