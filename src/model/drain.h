/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/drain - endpoints that an operator has taken out of a service, until undone.
 *
 * Such an endpoint counts as if it were not ready: it is in no set, its established
 * connections stay, health checks of the node do not count it. It is known by its
 * address and, where the slice names one, its pod: another pod that gets the address
 * later is not meant.
 */
#pragma once

#include "model/select.h"

#define MODEL_DRAINS_MAX 1024

/* 1: drained now; 0: it was already; -ENOSPC: there are too many. `pod` may be NULL. */
int model_drain(struct model *m, const struct name *ns, const struct name *name,
		const struct ip_addr *addr, const char *pod, uint64_t at_ns);
/* 1: no longer drained; 0: it was not. */
int model_undrain(struct model *m, const struct name *ns, const struct name *name,
		  const struct ip_addr *addr, uint64_t at_ns);
bool model_is_drained(const struct model *m, const struct svc *svc, const struct slice_endpoint *e);
/* For model_fini(). */
void model_drains_fini(struct model *m);
