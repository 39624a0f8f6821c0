/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health/health_service - the health check node ports of single services.
 *
 *     kernel accepted a service ──► health_services_accepted() ──► its listeners and count
 *     node addresses changed ─────► health_services_env() ──────► listeners of all services
 *
 * A load balancer probes these ports for nodes with endpoints of a service with
 * externalTrafficPolicy Local (section 12.2 of doc/behaviour.md). Answers reflect
 * programmed state, not desired state.
 *
 * A service has one listening socket for each address, in the event loop of the daemon. An
 * address that cannot be bound is retried every LISTEN_RETRY_S, and when another service
 * releases a port; the other addresses of the service are open meanwhile. A connection that
 * outlives its service gets status 503.
 */
#pragma once

#include "health/health.h"

struct health_services;

/* `m` and `health`, the health of the proxy as a whole, are borrowed. */
void health_services_open(struct health_services **ret, struct event_base *base,
			  const struct model *m, const struct health *health);
void health_services_close(struct health_services *hs);

/*
 * The kernel accepted `svc`. If it has a health check node port, its local endpoints are counted:
 * many of them, or of many ports, in steps. Meanwhile answers have the previous number.
 */
void health_services_accepted(struct health_services *hs, const struct svc *svc);
/* Follow changes of model.env; cheap without a change. */
void health_services_env(struct health_services *hs);

struct health_services_stats {
	size_t services;
	size_t listeners;
	size_t unbound;      /* services with an address that cannot be bound */
	const char *failure; /* of the first of these, with its name; NULL: none yet. Borrowed */
};
struct health_services_stats health_services_stats(const struct health_services *hs);
