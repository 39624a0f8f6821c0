/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/sched - schedulers, and what services say about theirs.
 *
 *     "mh"   "mh,mh-fallback,mh-port"   "sh,sh-port"   "wlc"
 *
 * Pure. A scheduler is a number here, so that services keep a byte of it.
 */
#pragma once

#include "base/err.h"
#include "base/ip.h"
#include "explain/balancing.h"
#include "nl/ipvs.h"

/* Flags we do not give out freely: what marks a VIP:port service as ours. */
#define IPVS_FLAG_OURS 0x0020U
/* What the kernel adds by itself. */
#define IPVS_FLAG_HASHED 0x0002U
#define IPVS_FLAG_PERSISTENT 0x0001U

struct ipvs_sched {
	uint8_t no;    /* 1..; 0 = unset */
	uint8_t flags; /* IP_VS_SVC_F_SCHED1, _SCHED2 */
};

/* -EINVAL: `err` says what is unknown. */
MUST_USE int ipvs_sched_parse(struct ipvs_sched *ret, const char *text, struct err *err);
/* "rr" ...; "" for 0. */
const char *ipvs_sched_name(uint8_t no);
/* 0 when it is none we know. */
uint8_t ipvs_sched_no(const char *name);
/*
 * Of a service by mark. One of a pool with affinity has no persistence to offer: it hashes
 * clients, if the kernel can (`missing`: bits by number).
 */
struct ipvs_sched ipvs_sched_by_mark(struct ipvs_sched sched, uint32_t affinity_s,
				     uint32_t missing);
/*
 * How it deals, for people, its name with its flags ("mh,mh-port") included; `svc_flags` as a
 * service's in the kernel. What is no scheduler we know is called "?".
 */
void ipvs_sched_balancing(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags);

/*
 * The weight that `text` ("10.0.0.4=3,10.0.0.5=1") gives to an address; 1 when it says
 * nothing of it. Entries that cannot be read count as absent.
 */
uint16_t ipvs_weight(const char *text, const struct ip_addr *addr);
/* Is all of it readable? -EINVAL: `err` names the entry. */
MUST_USE int ipvs_weights_check(const char *text, struct err *err);
#define IPVS_WEIGHT_MAX 65535

/* Seconds: "90", "90s", "15m", "2h", "1h30m"; 0 = for ever. */
MUST_USE int ipvs_drain_timeout_parse(uint32_t *ret, const char *text, struct err *err);
