/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/eject - endpoints without new connections from this node, for a time.
 *
 * An ejected endpoint is taken from the cluster set and the local set after both were chosen: it
 * still counts as ready, so that no fallback begins and health checks of the node do not change.
 * At most half of a set is left out, those that an operator ejected first; so never its last
 * endpoint, also when endpoints are removed later. Established connections stay.
 */
#pragma once

#include "base/str.h"
#include "model/select.h"

#define MODEL_EJECTIONS_MAX 1024
/* Port names of a service that are examined about one endpoint. */
#define MODEL_EJECTION_PORTS_MAX 16

/* An endpoint, and the time since it last accepted a TCP handshake through this node. */
struct endpoint_answer {
	struct ip_endpoint by;
	uint64_t age_ns; /* UINT64_MAX: not for at least 10 s */
};

/*
 * Eject `e`; its names are copied. 0, or
 *   -EEXIST  is ejected already
 *   -ENOENT  is in no set of the service
 *   -EDOM    more than half of a set would be ejected. An operator: of any set, by operators. This
 *            process: of each set, as an endpoint that fails may stay in the smaller one; of
 *            MODEL_EJECTION_PORTS_MAX ports with this endpoint, fewer if they have many endpoints
 *   -ENOSPC  MODEL_EJECTIONS_MAX
 */
MUST_USE int model_eject(struct model *m, const struct model_ejection *e, uint64_t at_ns);
/* 1: no longer ejected; 0: was not ejected. `port` as in struct model_ejection. */
int model_admit(struct model *m, const struct name *ns, const struct name *name,
		const struct ip_addr *addr, uint16_t port, uint64_t at_ns);
/* The ejection of an endpoint, or NULL; `port` of TCP, else 0. Valid until the next ejection or
 * admission. */
struct model_ejection *model_ejection(const struct model *m, const struct name *ns,
				      const struct name *name, const struct ip_addr *addr,
				      uint16_t port);
/*
 * Names of the TCP ports of the service for which its slices list the endpoint, none twice. Returns
 * their number. The work is that of a walk over the slices.
 */
size_t model_ejection_ports(const struct name *ret[static MODEL_EJECTION_PORTS_MAX],
			    const struct svc *svc, const struct ip_addr *addr, uint16_t port);
/* "ejected: 8 of 8 handshakes unanswered, next probe in 3 s"; `now` 0: without times. */
void model_ejection_text(struct str *out, const struct model_ejection *e, uint64_t now);
/* "unanswered", "refused" or "failed": both kinds. */
const char *model_ejection_failure(const struct model_ejection *e);
/* For model_fini(). */
void model_ejections_fini(struct model *m);
