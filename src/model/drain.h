/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/drain - endpoints drained by an operator (`vipctl drain`).
 *
 * A drained endpoint counts as not ready: it is in no set, keeps its established
 * connections, and health checks of the node do not count it. It is identified by its
 * address and, where the slice names one, its pod, so that a later pod with the
 * address is not drained.
 */
#pragma once

#include "model/select.h"

#define MODEL_DRAINS_MAX 1024

/* 1: drained now; 0: was drained already; -ENOSPC: MODEL_DRAINS_MAX. `pod` may be NULL. */
int model_drain(struct model *m, const struct name *ns, const struct name *name,
		const struct ip_addr *addr, const char *pod, uint64_t at_ns);
/* 1: no longer drained; 0: was not drained. `pod` may be NULL: any. */
int model_undrain(struct model *m, const struct name *ns, const struct name *name,
		  const struct ip_addr *addr, const char *pod, uint64_t at_ns);
bool model_has_drains(const struct model *m, const struct svc *svc);
bool model_is_drained(const struct model *m, const struct svc *svc, const struct slice_endpoint *e);
/* The endpoints of a service change: mark it dirty, if it is proxied. */
void model_mark_named(struct model *m, const struct name *ns, const struct name *name,
		      uint64_t at_ns);
/* For model_fini(). */
void model_drains_fini(struct model *m);
