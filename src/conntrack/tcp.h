/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/tcp - stale flows of TCP; part of conntrack/stale.
 *
 *   handshakes    that passed untranslated while rules were missing (CT-12): once after the start
 *                 and after each repair
 *   dead flows    to addresses that are no endpoint any more (CT-03, --dead-flows=reset):
 *                 STALE_DEAD_NS after the address has left the last slice of any service, and
 *                 STALE_LATE_NS later, because the change may be programmed late
 *
 * A job has all TCP frontends: those of the model, which are collected in pieces, and for dead
 * flows the last TCP_FORMER_MAX that were removed. So a pending address costs the same, however
 * many frontends lead to it.
 *
 * Pure: no I/O, no clock.
 */
#pragma once

#include "base/htable.h"
#include "base/list.h"
#include "conntrack/job.h"
#include "plan/rows.h"

#define TCP_FORMER_MAX 65536

struct tcp {
	const struct model *model;
	bool is_reset;
	uint64_t handshakes_ns; /* their scan is due; STALE_NEVER: it is not */
	bool is_under_way;      /* the job has handshakes */
	size_t bucket; /* the next one of model.services: a table that grows repeats some */
	VEC(struct ip_endpoint) frontends; /* collected so far */
	struct htable addrs;               /* of struct dead_addr */
	struct list waiting;               /* all with one delay: the first is due first */
	struct list late;                  /* the same, of the second scan */
	struct list under_way;
	struct htable former; /* of struct former_frontend */
	struct list former_order;
};

void tcp_init(struct tcp *t, const struct model *m, bool is_reset);
void tcp_fini(struct tcp *t);

/* Scan handshakes to all frontends. */
void tcp_recheck(struct tcp *t, uint64_t now);
/* A service has `new` rows instead of `old` ones (NULL: none). */
void tcp_accepted(struct tcp *t, const struct plan_rows *old, const struct plan_rows *new);
/* A frontend was removed. */
void tcp_gone(struct tcp *t, const struct ip_addr *addr, uint16_t port);
/* As model.addr_event. True: the job under way would delete flows that are valid again. */
bool tcp_addr_event(struct tcp *t, const struct ip_addr *addr, bool is_listed, uint64_t now);

/* When a scan is due; STALE_NEVER: none is pending. */
uint64_t tcp_next(const struct tcp *t);
/* Collect frontends for the scans that are due. False: there are more, call again. */
bool tcp_collect(struct tcp *t, uint64_t now);
/* The scans that are due wait for another job: collect again for it. */
void tcp_collect_again(struct tcp *t);
/* Add the scans that are due, if tcp_collect() returned true. */
void tcp_take(struct tcp *t, struct job *job, uint64_t now);
/* The job ended, as stale_job_done(). */
void tcp_done(struct tcp *t, int result, uint64_t now);
/* Scans that are due, pending, or under way. */
size_t tcp_pending(const struct tcp *t);
