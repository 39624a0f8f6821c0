/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/try - a child process tries the kernel (plane/nft/tryout.h, plane/ipvs/tryout.h).
 *
 * In a network namespace of its own, where it may make one (CAP_SYS_ADMIN): then the whole
 * layout is made there as well. Otherwise where we are: nothing of it is ever applied.
 * Private to doctor/.
 */
#pragma once

#include "doctor/facts.h"

void try_kernel(struct fact_try *ret, bool is_ipvs);
