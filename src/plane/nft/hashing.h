/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/hashing - the schedulers mh and sh of a Service on this plane: plan/table.h. */
#pragma once

#include "plan/plan.h"

/* plan_traits.hashing */
enum plan_hashing nft_hashing(const struct service *s);
/*
 * Records whether the kernel lacks jhash: then services with mh are served at random, with a
 * remark. False in tests only.
 */
void nft_hashing_lack(bool is_lacking);
/* plan_traits.hash_class */
uint16_t nft_hash_class(enum plan_hashing how);
