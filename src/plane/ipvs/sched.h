/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/sched - flags and schedulers (model/tuning.h) of virtual services. Pure. */
#pragma once

#include "model/tuning.h"
#include "nl/ipvs.h"

/* Flag that marks a VIP:port service as vipd's. */
#define IPVS_FLAG_OURS 0x0020U
/* Flags that the kernel adds. */
#define IPVS_FLAG_HASHED 0x0002U
#define IPVS_FLAG_PERSISTENT 0x0001U

#define IPVS_WEIGHT_MAX 65535

/* Slots of mh's table, unless the kernel was built with another number. */
#define IPVS_MH_DESTS_MAX 4093

/* The default as it serves weights: wrr for rr, wlc for lc. */
struct scheduler ipvs_sched_weighted(struct scheduler by_default);
/*
 * Scheduler of a virtual service with `n` destinations. `by_mark_s`: affinity, if it is one by
 * mark: it hashes client addresses in place of persistence, if the kernel can (`missing`: bits by
 * number). mh with more destinations than slots is replaced by the default.
 */
struct scheduler ipvs_sched_in_force(struct scheduler sched, struct scheduler by_default,
				     uint32_t by_mark_s, size_t n, uint32_t missing);
