/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/hash - SipHash-1-3 with a key drawn once per process.
 *
 * Names and addresses come from users, who must not be able to cause collisions. Source: Aumasson
 * and Bernstein, "SipHash: a fast short-input PRF" (2012); one compression and three finalisation
 * rounds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Low 32 bits of the keyed hash of `len` bytes. */
uint32_t hash_bytes(const void *data, size_t len);
/* Hash with the caller's key: equal in all processes, for files and the kernel. */
uint64_t hash_bytes_fixed(const void *data, size_t len, uint64_t k0, uint64_t k1);
/* Set the process key, for reproducible tests. */
void hash_seed(uint64_t k0, uint64_t k1);
