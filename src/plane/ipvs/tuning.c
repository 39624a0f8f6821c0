/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/tuning - settings of a Service: annotations, else the configuration. */
#include <stdio.h>
#include <unistd.h>

#include "base/name.h"
#include "plane/ipvs/state.h"

bool ipvs_sched_is_unsafe(const struct ipvs_plane *p, uint8_t no)
{
	const char *root = p->config.sysctl_root;
	char module[256];
	char ipvs[256];

	if (root == NULL || (no != ipvs_sched_no("lblc") && no != ipvs_sched_no("lblcr")))
		return false;
	(void)snprintf(module, sizeof(module), "%s/sys/module/ip_vs_%s", root, ipvs_sched_name(no));
	(void)snprintf(ipvs, sizeof(ipvs), "%s/sys/module/ip_vs/initstate", root);
	return access(module, F_OK) != 0 && access(ipvs, F_OK) == 0; /* else built in */
}

static void remark_add(struct str *remark, const char *annotation, const char *why,
		       const char *instead)
{
	if (remark != NULL)
		str_printf(remark, "%s%s: %s: %s", remark->len > 0 ? "; " : "", annotation, why,
			   instead);
}

static void sched_read(struct ipvs_tuning *ret, const struct ipvs_plane *p,
		       const struct service_tuning *t, struct str *remark)
{
	struct str instead = { 0 };
	struct ipvs_sched sched;
	struct err err = { 0 };

	if (t->scheduler == NULL)
		return;
	str_printf(&instead, "served with %s", ipvs_sched_name(p->sched.no));
	if (ipvs_sched_parse(&sched, t->scheduler->text, &err) < 0) {
		remark_add(remark, "scheduler", err.text, str_text(&instead));
	} else if (p->missing_scheds & UINT32_C(1) << sched.no ||
		   ipvs_sched_is_unsafe(p, sched.no)) {
		(void)err_set(&err, 0, "'%s' is not in this kernel (module ip_vs_%s)",
			      ipvs_sched_name(sched.no), ipvs_sched_name(sched.no));
		remark_add(remark, "scheduler", err.text, str_text(&instead));
	} else {
		ret->sched = sched;
	}
	str_fini(&instead);
}

void ipvs_tuning_read(struct ipvs_tuning *ret, const struct ipvs_plane *p, const struct service *s,
		      struct str *remark)
{
	const struct service_tuning *t = s != NULL ? s->tuning : NULL;
	struct err err = { 0 };

	*ret = (struct ipvs_tuning){ .sched = p->sched, .drain_s = p->config.drain_s };
	if (t == NULL)
		return;
	sched_read(ret, p, t, remark);
	if (t->drain_timeout != NULL &&
	    ipvs_drain_timeout_parse(&ret->drain_s, t->drain_timeout->text, &err) < 0)
		remark_add(remark, "drain timeout", err.text, "the default is in force");
	if (t->weights != NULL && ipvs_weights_check(t->weights->text, &err) < 0)
		remark_add(remark, "weights", err.text, "this entry counts as 1");
}
