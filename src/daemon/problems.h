/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/problems - services that the node does not serve as written, for Kubernetes Events. */
#pragma once

#include "model/walk.h"
#include "source/kube/kube.h"
#include "state/context.h"

/* What comes first in the next call; zero before the first call. */
struct problems {
	struct walk walk;
	size_t ejection;
	bool are_services_first;
};

/*
 * Call kube_problem_add() for ejected endpoints, services with conflicts and services that the
 * kernel rejects. Takes at most 2 ms. The next call continues after that time, and with what was
 * refused: each problem gets its turn, however many there are.
 */
void problems_collect(struct problems *p, const struct serve_context *ctx, struct events *e);
