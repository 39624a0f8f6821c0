/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/view - state as JSON; doc/control-api.md describes the members.
 *
 * Sources: the objects (model), programmed state (svc->rows) and records of the sync.
 * Lists are in order of key, never of a hash table.
 *
 * The status is written at once: its size is bounded. A row grows with the ports of its service,
 * the page of a service also with its endpoints: both are written in pieces. On a page the
 * endpoints of a port and family are copied together, so that they are consistent.
 */
#pragma once

#include "explain/trace.h"
#include "http/jsonw.h"
#include "model/select.h"
#include "state/context.h"
#include "state/state.h"

/* Sums over all services, collected by a walk. */
struct view_totals {
	size_t n_states[SERVE_STATE_N]; /* services; entries without an object included */
	size_t n_frontends;
	size_t n_pools;
	size_t n_backends;
	size_t n_remarks; /* services with annotations that are not in force */
	size_t n_pending;
	uint64_t pending_since_ns; /* the oldest; 0 = none, or unknown */
	bool is_unknown;           /* for a hash: nothing that needs a walk is written */
	struct serve_facts scratch;
};

void view_totals_add(struct view_totals *t, const struct serve_context *ctx, const struct svc *svc);

/* Milliseconds since `then_ns`; null for 0. */
void view_age(struct jsonw *w, const char *key, uint64_t then_ns, uint64_t now);
/* Members of a rejection: the kernel's text; attempts and times unless `now` is 0. */
void view_failure(struct jsonw *w, const struct sync_failure *f, uint64_t now);
/* An object; its ages are those at `now`. */
void view_status(struct jsonw *w, const struct serve_context *ctx, const struct view_totals *t,
		 uint64_t now);
/*
 * One service of a list: an object.
 *
 *     view_row_begin(&r, w, ctx, svc)
 *     while (view_row_more(&r, w, ctx, svc, deadline_ns))
 *             ... send the piece, return to the event loop, find `svc` again ...
 *
 * A piece has VIEW_ROW_PORTS ports or more. `svc` is NULL when the service is gone. A zeroed `r`
 * is reused from row to row; serve_facts_fini() frees its memory.
 */
#define VIEW_ROW_PORTS 512

struct view_row {
	struct serve_facts facts;
	size_t port; /* the next one */
};

void view_row_begin(struct view_row *r, struct jsonw *w, const struct serve_context *ctx,
		    const struct svc *svc);
bool view_row_more(struct view_row *r, struct jsonw *w, const struct serve_context *ctx,
		   const struct svc *svc, uint64_t deadline_ns);
/* A port of a service: an object that is open, up to its open array "families". */
void view_port_begin(struct jsonw *w, const struct service_port *port, enum serve_state state,
		     const char *note);
/* Member "node": this node and its detect-local. */
void view_node(struct jsonw *w, const struct model *m);
/* Members of an endpoint: its pod, its place except the zone, and its conditions. */
void view_endpoint_state(struct jsonw *w, const struct slice_endpoint *from, bool is_local);
/*
 * Member "silent" if the backend left TCP handshakes unanswered (conntrack/failover.h), else none.
 */
void view_silence(struct jsonw *w, const struct serve_context *ctx, const struct ip_addr *addr,
		  uint16_t port, enum l4proto proto);
/* Member "reason": why an endpoint is not in a set; null if it is. `now` 0: without times. */
void view_reason(struct jsonw *w, const struct model *m, const struct name *ns,
		 const struct name *name, const struct ip_addr *addr, uint16_t port,
		 enum exclusion why, uint64_t now);

/* All members of a trace except the endpoints, into the open object of `w`. */
void view_trace(struct jsonw *w, const struct serve_context *ctx, const struct plan_trace *t);
/* One of its endpoints: an object. */
void view_trace_endpoint(struct jsonw *w, const struct serve_context *ctx,
			 const struct plan_trace *t, const struct plan_trace_endpoint *ep);

/*
 * The page of a service.
 *
 *     view_page_open(&v, w, ctx, svc, now)
 *     while (view_page_more(v, w, deadline_ns))
 *             ... send the piece, return to the event loop ...
 *     view_page_close(v)
 *
 * "complete" is the last member: false when a change of the service between two pieces
 * prevented the rest. `now` is now_ns(); 0: without ages and times, for comparable dumps.
 */
struct view_page;

/* Writes the first piece. Pass one `w` to all calls; its buffer may change. */
void view_page_open(struct view_page **ret, struct jsonw *w, const struct serve_context *ctx,
		    const struct svc *svc, uint64_t now);
/* 1 while there is more. */
int view_page_more(struct view_page *v, struct jsonw *w, uint64_t deadline_ns);
void view_page_close(struct view_page *v);
