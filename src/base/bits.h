/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/bits - sets of small numbers, as arrays of 64-bit words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words for the numbers 0 to `n` - 1. */
#define BITS_WORDS(n) (((n) + 63) / 64)

static inline bool bit_is_set(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static inline void bit_set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void bit_clear(uint64_t *bits, size_t i)
{
	bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* The first number of the set from `i` on; `n`, a multiple of 64: none below it. */
static inline size_t bits_next(const uint64_t *bits, size_t i, size_t n)
{
	while (i < n && bits[i / 64] >> (i % 64) == 0)
		i = (i / 64 + 1) * 64;
	return i < n ? i + (size_t)__builtin_ctzll(bits[i / 64] >> (i % 64)) : n;
}
