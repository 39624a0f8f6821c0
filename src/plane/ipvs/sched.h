/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/sched - schedulers (model/tuning.h) as virtual services have them. Pure. */
#pragma once

#include "explain/balancing.h"
#include "model/tuning.h"
#include "nl/ipvs.h"

/* Flag that marks a VIP:port service as vipd's. */
#define IPVS_FLAG_OURS 0x0020U
/* Flags that the kernel adds. */
#define IPVS_FLAG_HASHED 0x0002U
#define IPVS_FLAG_PERSISTENT 0x0001U

#define IPVS_WEIGHT_MAX 65535

/*
 * Scheduler of a virtual service by mark. Of a pool with affinity, it hashes client addresses in
 * place of persistence, if the kernel can (`missing`: bits by number).
 */
struct scheduler ipvs_sched_by_mark(struct scheduler sched, uint32_t affinity_s, uint32_t missing);
/*
 * Describe a scheduler with its flags ("mh,mh-port"); `svc_flags` as in the kernel. An unknown one
 * is "?".
 */
void ipvs_sched_balancing(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags);
