/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/nft_cases - tests of the nftables plane for the fake and for a real kernel. `kernel` is
 * empty at the start of each case; the case leaves elements in it.
 */
#pragma once

#include "nft_world.h"

struct nft_case {
	const char *name;
	void (*run)(const struct world_kernel *kernel);
	bool is_long; /* hundreds of transactions, to test their order */
};

const struct nft_case *nft_cases(size_t *n);
