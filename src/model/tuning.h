/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/tuning - a Service's annotations for load balancing, validated alike for all planes.
 *
 *     vipd.io/scheduler      "mh"   "mh,mh-fallback,mh-port"   "sh,sh-port"   "wlc"
 *     vipd.io/weights        "web-canary-*=5,*=95"   "10.1.0.4=3,10.1.0.5=1"
 *     vipd.io/drain-timeout  "90"   "90s"   "1h30m"
 *     vipd.io/forwarding     "masquerade"   "route"   "tunnel"   "tunnel,gue:6080"
 *
 * An annotation with an error has no effect. Weights, which may be long, are parsed once for each
 * object; the others at each use, so longer ones than TUNING_TEXT_MAX are errors. Pure.
 */
#pragma once

#include "base/err.h"
#include "base/ip.h"
#include "base/name.h"

#define TUNING_TEXT_MAX 256 /* characters of each but the weights; more: -EINVAL */

/* --- scheduler --- */

/* A number, because virtual services store it in one byte. */
struct scheduler {
	uint8_t no;    /* 1..; 0 = unset */
	uint8_t flags; /* IP_VS_SVC_F_SCHED1, _SCHED2 */
};

/* -EINVAL: `err` names the unknown scheduler or flag. mh and sh always have their fallback. */
MUST_USE int scheduler_parse(struct scheduler *ret, const char *text, struct err *err);
/* "rr" ...; "" for 0. */
const char *scheduler_name(uint8_t no);
/* 0 for an unknown name. */
uint8_t scheduler_no(const char *name);
/* Append the flags to a scheduler's name: ",mh-port"; `flags` as in the kernel. */
void scheduler_flags_text(char *buf, size_t size, uint8_t no, uint32_t flags);

/* --- weights --- */

#define WEIGHT_MAX 100
#define WEIGHT_NAMES_MAX 256 /* entries by name */

struct weights;

/* -EINVAL: `err` names the first invalid entry. Takes 1 ms for 64 KB: see service_normalise(). */
MUST_USE int weights_parse(struct weights **ret, const char *text, struct err *err);
void weights_close(struct weights *w); /* accepts NULL */
DEFINE_AUTO(struct weights *, weights_close);
/*
 * The weight of an endpoint: of the first entry that is its address, or that its pod's or its
 * slice's name matches. 1 if none does. `w`, `pod` and `slice` may be NULL. Takes up to 2 us.
 */
uint8_t weights_of(const struct weights *w, const struct ip_addr *addr, const char *pod,
		   const struct name *slice);
/* Greatest common divisor of all weights that weights_of() can return, without 0; 1 for NULL. */
uint8_t weights_unit(const struct weights *w);

/* --- drain timeout --- */

/* Seconds of "90", "90s", "15m", "2h", "1h30m"; 0 = no timeout. */
MUST_USE int drain_timeout_parse(uint32_t *ret, const char *text, struct err *err);

/* --- forwarding --- */

/* How a backend gets the packets; the values are those of `fwd` in nl/ipvs.h. */
enum forwarding {
	FORWARDING_MASQUERADE = 0, /* address and port are translated, in both directions */
	FORWARDING_TUNNEL = 2,     /* IP in IP; the backend has the address, and answers directly */
	FORWARDING_ROUTE = 3,      /* unchanged, to a neighbour; otherwise like TUNNEL */
};
/* Like TUNNEL, in UDP to this port of the backend (Generic UDP Encapsulation). */
#define FORWARDING_GUE(port) (FORWARDING_TUNNEL | (uint32_t)(port) << 16)

MUST_USE int forwarding_parse(uint32_t *ret, const char *text, struct err *err);
#define FORWARDING_TEXT_MAX 24
const char *forwarding_text(uint32_t f, char buf[static FORWARDING_TEXT_MAX]);
/* As ip_addr_str(). */
#define forwarding_str(f) forwarding_text((f), (char[FORWARDING_TEXT_MAX]){ 0 })
