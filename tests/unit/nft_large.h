/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/nft_large - cases of nft_cases.h for services that change in pieces. */
#pragma once

#include "nft_world.h"
#include "test.h"

/* Each frontend of the rows picks slots of a pool that has them. */
void nft_targets_check(const struct plan_rows *rows);

void nft_case_pieces(const struct world_kernel *kernel);
void nft_case_pieces_fewer(const struct world_kernel *kernel);
void nft_case_pieces_frontends(const struct world_kernel *kernel);
void nft_case_pieces_ranges(const struct world_kernel *kernel);
void nft_case_pieces_down(const struct world_kernel *kernel);
void nft_case_conflict(const struct world_kernel *kernel);
/* The service shop/web, with `n` endpoints. */
void nft_large_put(struct world *w, int n);
/* Step until `n` transactions have changed something, or nothing is pending; each is checked. */
void nft_large_step(struct world *w, int n);
/*
 * A large service changes at any time, vipd is killed, and `flush` deletes the IPv4 table. In the
 * kernel each slot that a frontend surely picks has a backend, and finally elements and rows are
 * equal.
 */
void nft_large_random(const struct world_kernel *kernel, struct rng *r, void (*flush)(void *ctx));
