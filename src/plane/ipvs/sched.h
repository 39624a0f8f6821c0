/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/sched - schedulers, their flags, and weights of a Service.
 *
 *      "mh"   "mh,mh-fallback,mh-port"   "sh,sh-port"   "wlc"
 *
 *  Pure. A scheduler is a number here: virtual services store it in one byte.
 */
#pragma once

#include "base/err.h"
#include "base/ip.h"
#include "explain/balancing.h"
#include "nl/ipvs.h"

/* Flag that marks a VIP:port service as vipd's. */
#define IPVS_FLAG_OURS 0x0020U
/* Flags that the kernel adds. */
#define IPVS_FLAG_HASHED 0x0002U
#define IPVS_FLAG_PERSISTENT 0x0001U

struct ipvs_sched {
	uint8_t no;    /* 1..; 0 = unset */
	uint8_t flags; /* IP_VS_SVC_F_SCHED1, _SCHED2 */
};

/* -EINVAL: `err` names the unknown scheduler or flag. */
MUST_USE int ipvs_sched_parse(struct ipvs_sched *ret, const char *text, struct err *err);
/* "rr" ...; "" for 0. */
const char *ipvs_sched_name(uint8_t no);
/* 0 for an unknown name. */
uint8_t ipvs_sched_no(const char *name);
/*
 * Scheduler of a virtual service by mark. Of a pool with affinity, it hashes client addresses in
 * place of persistence, if the kernel can (`missing`: bits by number).
 */
struct ipvs_sched ipvs_sched_by_mark(struct ipvs_sched sched, uint32_t affinity_s,
				     uint32_t missing);
/*
 * Describe a scheduler with its flags ("mh,mh-port"); `svc_flags` as in the kernel. An unknown one
 * is "?".
 */
void ipvs_sched_balancing(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags);

/*
 * Weight of an address in `text` ("10.0.0.4=3,10.0.0.5=1"); 1 if the address is missing. Invalid
 * entries are ignored.
 */
uint16_t ipvs_weight(const char *text, const struct ip_addr *addr);
/* -EINVAL: `err` names the invalid entry. */
MUST_USE int ipvs_weights_check(const char *text, struct err *err);
#define IPVS_WEIGHT_MAX 65535

/* Seconds of "90", "90s", "15m", "2h", "1h30m"; 0 = no timeout. */
MUST_USE int ipvs_drain_timeout_parse(uint32_t *ret, const char *text, struct err *err);
