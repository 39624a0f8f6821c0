/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/tuning - settings of a Service: annotations, else the configuration. */
#include <stdio.h>
#include <unistd.h>

#include "base/name.h"
#include "plane/ipvs/state.h"
#include "plane/remark.h"

bool ipvs_sched_is_unsafe(const struct ipvs_plane *p, uint8_t no)
{
	const char *root = p->config.sysctl_root;
	char module[256];
	char ipvs[256];

	if (root == NULL || (no != scheduler_no("lblc") && no != scheduler_no("lblcr")))
		return false;
	(void)snprintf(module, sizeof(module), "%s/sys/module/ip_vs_%s", root, scheduler_name(no));
	(void)snprintf(ipvs, sizeof(ipvs), "%s/sys/module/ip_vs/initstate", root);
	return access(module, F_OK) != 0 && access(ipvs, F_OK) == 0; /* else built in */
}

static void sched_read(struct ipvs_tuning *ret, const struct ipvs_plane *p,
		       const struct service_tuning *t, struct str *remark)
{
	FINI(str_fini) struct str instead = { 0 };
	struct scheduler sched;
	struct err err = { 0 };

	if (t->scheduler == NULL)
		return;
	str_printf(&instead, "served with %s", scheduler_name(p->sched.no));
	if (scheduler_parse(&sched, t->scheduler->text, &err) < 0) {
		plane_remark_scheduler(remark, t, err.text, str_text(&instead));
	} else if (p->missing_scheds & UINT32_C(1) << sched.no ||
		   ipvs_sched_is_unsafe(p, sched.no)) {
		(void)err_set(&err, 0, "'%s' is not in this kernel (module ip_vs_%s)",
			      scheduler_name(sched.no), scheduler_name(sched.no));
		plane_remark_scheduler(remark, t, err.text, str_text(&instead));
	} else {
		ret->sched = sched;
	}
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
	    drain_timeout_parse(&ret->drain_s, t->drain_timeout->text, &err) < 0)
		plane_remark_add(remark, "vipd.io/drain-timeout", err.text,
				 "the default is in force");
	plane_remark_weights(remark, t);
}
