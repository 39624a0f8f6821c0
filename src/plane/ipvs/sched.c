/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/sched.h"

#include <linux/ip_vs.h>
#include <string.h>

struct scheduler ipvs_sched_by_mark(struct scheduler sched, uint32_t affinity_s, uint32_t missing)
{
	uint8_t mh = scheduler_no("mh");

	if (affinity_s == 0 || missing & UINT32_C(1) << mh)
		return sched;
	return (struct scheduler){ .no = mh, .flags = IP_VS_SVC_F_SCHED1 };
}

static enum plan_balance deal_of(const char *name)
{
	if (strcmp(name, "rr") == 0)
		return PLAN_BALANCE_EVENLY;
	return strcmp(name, "wrr") == 0 || strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0
		       ? PLAN_BALANCE_BY_WEIGHT
		       : PLAN_BALANCE_UNKNOWN;
}

void ipvs_sched_balancing(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags)
{
	const char *name = scheduler_name(no);
	size_t len = strlen(name);

	ret->deal = (uint8_t)deal_of(name);
	ret->is_by_client = strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0;
	if (len == 0) {
		memcpy(ret->scheduler, "?", 2);
		return;
	}
	memcpy(ret->scheduler, name, len + 1);
	scheduler_flags_text(ret->scheduler, sizeof(ret->scheduler), no, svc_flags);
}
