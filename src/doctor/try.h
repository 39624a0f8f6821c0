/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/try - a child process tries the kernel (plane/nft/tryout.h, plane/ipvs/tryout.h).
 *
 * With CAP_SYS_ADMIN the child uses a network namespace of its own and also programs the whole
 * layout there. Otherwise it uses the current namespace, with transactions that the kernel never
 * applies.
 * Private to doctor/.
 */
#pragma once

#include "doctor/facts.h"

void try_kernel(struct fact_try *ret, bool is_ipvs);
