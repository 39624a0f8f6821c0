/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/problems - services that the node does not serve as written, for Kubernetes Events. */
#pragma once

#include "model/walk.h"
#include "source/kube/kube.h"
#include "state/context.h"

/*
 * Call kube_problem_add() for ejected endpoints, services with conflicts and services that the
 * kernel rejects.
 * Takes at most 2 ms; the next call continues at `at`, zero before the first.
 */
void problems_collect(struct walk *at, const struct serve_context *ctx, struct events *e);
