/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/sched.h"

#include <linux/ip_vs.h>
#include <string.h>

struct scheduler ipvs_sched_weighted(struct scheduler by_default)
{
	if (by_default.no == scheduler_no("rr"))
		by_default.no = scheduler_no("wrr");
	else if (by_default.no == scheduler_no("lc"))
		by_default.no = scheduler_no("wlc");
	return by_default;
}

bool ipvs_sched_ignores_weights(uint8_t no)
{
	return no == scheduler_no("rr") || no == scheduler_no("lc") || no == scheduler_no("dh");
}

struct scheduler ipvs_sched_of(const struct service *s, struct scheduler by_default)
{
	const struct service_tuning *t = s != NULL ? s->tuning : NULL;
	struct scheduler ret;

	if (t != NULL && t->scheduler != NULL &&
	    scheduler_parse(&ret, t->scheduler->text, NULL) == 0)
		return ret;
	return t != NULL && t->by_name != NULL ? ipvs_sched_weighted(by_default) : by_default;
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
	sched = by_default.no == mh.no ? wrr : ipvs_sched_weighted(by_default);
	return missing & UINT32_C(1) << sched.no ? by_default : sched;
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
