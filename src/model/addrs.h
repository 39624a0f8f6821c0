/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/addrs - which addresses are an endpoint of anything at all.
 *
 * A counted set over all slices, whatever service they belong to and whether it
 * is proxied or not. Kept only when somebody asks (model_config.tracks_addrs):
 * 48 bytes an address. Inside of model/ only; see model_has_addr().
 */
#pragma once

#include "model/object.h"

/* Zeroed memory is the empty set. */
void addrs_fini(struct htable *t);
void addrs_add(struct htable *t, const struct slice *s);
/* `s` was added before, with the same endpoints. */
void addrs_remove(struct htable *t, const struct slice *s);
bool addrs_has(const struct htable *t, const struct ip_addr *a);
