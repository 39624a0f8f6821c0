/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health/health_service - the health check node ports of single services.
 *
 *     sync accepts a service ──► health_services_accepted() ──► its listeners, its count
 *     the node's addresses change ──► health_services_env() ──► listeners of all
 *
 * A load balancer learns here which nodes have endpoints of a service with
 * externalTrafficPolicy Local (section 12.2 of doc/behaviour.md). What is answered is
 * what the kernel holds, not what was wished.
 *
 * No thread and no process a service: one listening socket for each address, all in
 * the daemon's loop. An address that cannot be had is tried again every
 * LISTEN_RETRY_S, and as soon as another service gives a port up; the others of the
 * service are open meanwhile. A connection that outlives its service is told 503.
 */
#pragma once

#include "model/model.h"

struct event_base;
struct health_services;

struct health_services_config {
	const struct model *model;     /* borrowed */
	bool (*is_healthy)(void *arg); /* of the proxy as a whole (HC-16) */
	void *arg;
};

void health_services_open(struct health_services **ret, struct event_base *base,
			  const struct health_services_config *config);
void health_services_close(struct health_services *hs);

/* The kernel holds `svc` as the model says. Costs what its own endpoints cost, if it has such a
 * port, else nothing.
 */
void health_services_accepted(struct health_services *hs, const struct svc *svc);
/* After anything may have changed model.env; cheap if it did not. */
void health_services_env(struct health_services *hs);

struct health_services_stats {
	size_t services;
	size_t listeners;
	size_t waiting; /* services of which some address cannot be had */
};
struct health_services_stats health_services_stats(const struct health_services *hs);
