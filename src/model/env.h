/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/env - the node's environment, from configuration, Node, host addresses, ServiceCIDRs.
 *
 * Derived as a whole whenever an input changes and compared with the previous result:
 * inputs are few and small, and no value can be left over from an earlier state.
 * Private to model/; the result is struct model_env in model/model.h.
 */
#pragma once

#include "model/model.h"

/* Differences between two environments that services depend on. */
enum env_change {
	ENV_CHANGE_ZONE = 1 << 0,
	ENV_CHANGE_NODE_IP = 1 << 1,
	ENV_CHANGE_NODEPORT_ADDRS = 1 << 2,
	ENV_CHANGE_PLANE = 1 << 3, /* detect-local, service CIDRs: no service depends on them */
};

/* `ret` must be zeroed or finished; env_fini() frees it. Owns a reference to the zone. */
void env_derive(struct model_env *ret, const struct model *m);
void env_fini(struct model_env *e);
/* A set of enum env_change; 0 when equal. */
unsigned int env_diff(const struct model_env *a, const struct model_env *b);
