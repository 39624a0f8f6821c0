/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/patch - rows that follow few changed endpoints. Private to plan/; see plan_rows_patch(). */
#pragma once

#include "model/select.h"
#include "plan/pieces.h"

/* May the rows of `s` be patched, while its slices change? */
bool plan_is_patchable(const struct plan *p, const struct service *s);

/* Index into the sums of struct svc_track. */
static inline size_t plan_sums_at(const struct service *s, size_t port, enum ipfam fam)
{
	return fam * s->ports.n + port;
}

static inline struct plan_backend plan_backend_of(const struct endpoint *ep, bool preserves)
{
	return (struct plan_backend){ .addr = ep->addr,
				      .port = ep->port,
				      .is_local = preserves && ep->is_local };
}
