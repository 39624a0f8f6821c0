/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/private - what model.c uses of env.c and addrs.c. */
#pragma once

#include "model/model.h"

/*
 * --- env.c: the node's environment, from configuration, Node, host addresses, ServiceCIDRs ---
 *
 * Derived as a whole whenever an input changes and compared with the previous result:
 * inputs are few and small, and no value can be left over from an earlier state.
 */

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

/*
 * --- addrs.c: the addresses of all endpoints, with config.tracks_addrs ---
 *
 * A counted set over all slices, also of services that are not proxied: 48 bytes per address.
 * Zeroed memory is the empty set.
 */
void addrs_fini(struct htable *t);
void addrs_add(struct model *m, const struct slice *s);
/* `s` must have been added with its present endpoints. */
void addrs_remove(struct model *m, const struct slice *s);
