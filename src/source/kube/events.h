/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/events - problems of objects as Kubernetes Events (events.k8s.io/v1).
 *
 *     timer -> collect -> kube_problem_add, ... -> for each: look up the uid, POST
 *
 * Level-triggered: a problem that is there at the end of a period is reported, and again when the
 * server has deleted the Event. The name of an Event is made of the object and the text, so all
 * nodes choose one name, and the server answers all but the first with 409: a problem of the
 * cluster is one Event. See doc/design/0016-events.md.
 */
#pragma once

#include "source/kube/kube.h"
#include "source/kube/transport.h"

struct events;

struct events_config {
	struct event_base *base;
	struct transport *transport;
	const char *node; /* name of this node; borrowed */
	const struct kube_timing *timing;
	/* Call kube_problem_add() for each problem. */
	void (*collect)(void *arg, struct events *e);
	void *arg;
};

void events_open(struct events **ret, const struct events_config *config);
/* The permission may have been granted since it was missing. */
void events_hurry(struct events *e);
/* Accepts NULL. */
void events_close(struct events *e);
