/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fake/ipvs - a kernel's IPVS and policy routing in memory, behind struct nl_io.
 *
 *     fake_ipvs_open -> fake_ipvs_connect, fake_ipvs_connect_route ... -> fake_ipvs_close
 *
 * The same bytes and answers as Linux, as far as vipd goes: every message of a datagram
 * is performed by itself, and answered if it is rejected or has NLM_F_ACK; EEXIST, ENOENT, ESRCH
 * where the kernel has them (net/netfilter/ipvs/ip_vs_ctl.c), ENOENT for a scheduler that is not
 * loaded.
 *
 * Not modelled: packets. Connections are set by the test.
 */
#pragma once

#include "base/str.h"
#include "nl/ipvs.h"
#include "nl/sock.h"

struct fake_ipvs;

void fake_ipvs_open(struct fake_ipvs **ret);
void fake_ipvs_close(struct fake_ipvs *f);
/* Sockets to it; closed before it is. */
struct nl_sock *fake_ipvs_connect(struct fake_ipvs *f);
struct nl_sock *fake_ipvs_connect_route(struct fake_ipvs *f);

/* Messages that changed something, or tried to, since the last reset. */
size_t fake_ipvs_writes(const struct fake_ipvs *f);
void fake_ipvs_writes_reset(struct fake_ipvs *f);
/* Dumps of destinations since the last reset. */
size_t fake_ipvs_dumps(const struct fake_ipvs *f);
/* Datagrams received since the last reset: one for each object of a dump, and one for its end. */
size_t fake_ipvs_received(const struct fake_ipvs *f);
/* Destinations that changes compared since the last reset, each from the newest one on. */
size_t fake_ipvs_searched(const struct fake_ipvs *f);
/* Changes of destinations since the last reset for which `mh` filled its slots again. */
size_t fake_ipvs_filled(const struct fake_ipvs *f);
/* Schedulers replaced by another one since the last reset: for each the kernel waits. */
size_t fake_ipvs_waits(const struct fake_ipvs *f);
/* Requests for a missing scheduler since the last reset. */
size_t fake_ipvs_lacked(const struct fake_ipvs *f);
/* Called before a virtual service is deleted. */
void fake_ipvs_deleting(struct fake_ipvs *f, void (*fn)(void *arg), void *arg);
/* Called before a destination is added. */
void fake_ipvs_adding(struct fake_ipvs *f, void (*fn)(void *arg, const struct ip_addr *addr),
		      void *arg);

/* --- trouble --- */

/* The k-th changing message from now on (from 1) is rejected with -`error`. */
void fake_ipvs_refuse(struct fake_ipvs *f, size_t k, int error);
/* Dumps of destinations fail with -`error`; 0: they succeed. */
void fake_ipvs_refuse_dumps(struct fake_ipvs *f, int error);
/* The next dump of virtual services lacks the last `n`: another network namespace had them. */
void fake_ipvs_miss(struct fake_ipvs *f, size_t n);
/*
 * After `k` changing messages every further one fails with EPERM, as if the sender had died.
 * SIZE_MAX: no limit.
 */
void fake_ipvs_cut(struct fake_ipvs *f, size_t k);
/* Was a message rejected for that reason? */
bool fake_ipvs_is_cut(const struct fake_ipvs *f);
/* The module of this scheduler is missing; "": none is. */
void fake_ipvs_lack(struct fake_ipvs *f, const char *sched);
/* Scheduler mh has so many slots, 4093 at first: it is rejected with more destinations. */
void fake_ipvs_mh_slots(struct fake_ipvs *f, size_t n);
/* A kernel without CONFIG_IP_VS_IPV6 has no virtual services of IPv6. */
void fake_ipvs_lack_v6(struct fake_ipvs *f, bool on);

/* No request for the family loads the module, until fake_ipvs_reload(). */
void fake_ipvs_unload(struct fake_ipvs *f);
/* The module is unloaded, without any service left, and loaded again. */
void fake_ipvs_reload(struct fake_ipvs *f);

/* --- others on the same kernel --- */

/* Set the connections of a destination in all services. */
void fake_ipvs_conns(struct fake_ipvs *f, const char *addr, uint32_t active, uint32_t inactive);
/* A foreign change adds a virtual service with one destination. `flags` as in linux/ip_vs.h. */
void fake_ipvs_foreign(struct fake_ipvs *f, const struct ipvs_key *key, uint32_t flags,
		       const char *dest, uint16_t port);
/* Another process sets the timeout of TCP; read it. */
void fake_ipvs_foreign_timeout(struct fake_ipvs *f, uint32_t tcp_s);
uint32_t fake_ipvs_timeout(const struct fake_ipvs *f);
/* Another process changes the flags of a virtual service; 0: deletes it. */
void fake_ipvs_foreign_flags(struct fake_ipvs *f, const struct ipvs_key *key, uint32_t flags);
/* A foreign change deletes a destination from all services, or sets its weight. */
void fake_ipvs_foreign_del(struct fake_ipvs *f, const char *addr);
void fake_ipvs_foreign_weight(struct fake_ipvs *f, const char *addr, uint32_t weight);
/* ... or its lower threshold. */
void fake_ipvs_foreign_threshold(struct fake_ipvs *f, const char *addr, uint32_t lower);
/* A foreign change sets the kind of tunnel (IP_VS_CONN_F_TUNNEL_TYPE_*) of destinations with one.
 */
void fake_ipvs_foreign_tunnel(struct fake_ipvs *f, uint8_t type, uint16_t port, uint16_t flags);
/* Another process adds a policy routing rule, or deletes all of a priority, or all. */
void fake_ipvs_foreign_rule(struct fake_ipvs *f, int family, uint32_t priority, uint32_t table);
void fake_ipvs_foreign_mark_rule(struct fake_ipvs *f, int family, uint32_t priority, uint32_t mark,
				 uint32_t mask);
void fake_ipvs_rules_del(struct fake_ipvs *f, uint32_t priority);
void fake_ipvs_rules_flush(struct fake_ipvs *f);

/* --- what it holds --- */

/*
 * Services sorted, one per line, without deadlines:
 *     mark 0x5a000001 rr: 10.1.0.4:80=1 10.1.0.5:80=0
 */
void fake_ipvs_print(const struct fake_ipvs *f, struct str *out);
/* The upper threshold of a destination in any service; 0 when there is none. */
uint32_t fake_ipvs_threshold(const struct fake_ipvs *f, const char *addr);
size_t fake_ipvs_n_rules(const struct fake_ipvs *f);
size_t fake_ipvs_n_routes(const struct fake_ipvs *f);
