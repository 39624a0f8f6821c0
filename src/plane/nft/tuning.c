/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/tuning - annotations of a Service that this plane does not support. */
#include "model/tuning.h"

#include <errno.h>

#include "plane/nft/state.h"
#include "plane/remark.h"

void nft_remark(const struct plane *p, const struct svc *svc, struct str *ret)
{
	const struct service_tuning *t = svc->service != NULL ? svc->service->tuning : NULL;
	struct scheduler sched;
	struct err err = { 0 };

	(void)p;
	if (t == NULL)
		return;
	if (t->scheduler != NULL) {
		if (scheduler_parse(&sched, t->scheduler->text, &err) == 0)
			(void)err_set(&err, 0, "'%s' is a scheduler of the ipvs plane",
				      scheduler_name(sched.no));
		plane_remark_scheduler(ret, t, err.text, "endpoints are picked at random");
	}
	if (t->drain_timeout != NULL)
		plane_remark_add(ret, "vipd.io/drain-timeout", "is for the ipvs plane",
				 "connections of removed endpoints have no time limit");
	plane_remark_weights(ret, t);
}
