/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/addrs - the addresses of all endpoints.
 *
 * A counted set over all slices, also of services that are not proxied. Kept only
 * with model_config.tracks_addrs: 48 bytes per address. Private to model/; see
 * model_has_addr().
 */
#pragma once

#include "model/object.h"

/* Zeroed memory is the empty set. */
void addrs_fini(struct htable *t);
void addrs_add(struct htable *t, const struct slice *s);
/* `s` must have been added with its present endpoints. */
void addrs_remove(struct htable *t, const struct slice *s);
bool addrs_has(const struct htable *t, const struct ip_addr *a);
