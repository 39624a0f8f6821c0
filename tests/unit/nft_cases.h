/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/nft_cases - what the nft plane must do on any kernel, fake or real.
 *
 * `kernel` is empty at the start of each case; the case leaves elements behind.
 */
#pragma once

#include "nft_world.h"

struct nft_case {
	const char *name;
	void (*run)(const struct world_kernel *kernel);
};

const struct nft_case *nft_cases(size_t *n);
