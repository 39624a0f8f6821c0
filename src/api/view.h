/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/view - what vipd knows, as JSON. The members are described in doc/control-api.md.
 *
 * Read from the objects (model), from what the kernel holds (svc->rows) and from what
 * the sync remembers. Lists are in order of key, never of a hash table.
 *
 * Status and rows are written in one go: they are small, or bounded by what one
 * Service may hold. The page of a service grows with its endpoints and is written in
 * pieces; a port and family whose endpoints are being told is a copy made in one
 * moment, so what a reader compares was true together.
 */
#pragma once

#include "http/jsonw.h"
#include "state/context.h"
#include "state/state.h"

/* Sums over all services, collected by a walk. */
struct view_totals {
	size_t n_states[SERVE_STATE_N]; /* services; entries without an object included */
	size_t n_frontends;
	size_t n_pools;
	size_t n_backends;
	size_t n_owed;
	uint64_t owed_since_ns; /* the oldest; 0 = nothing is owed, or nobody knows since when */
	struct serve_facts scratch;
};

void view_totals_add(struct view_totals *t, const struct serve_context *ctx, const struct svc *svc);
void view_totals_fini(struct view_totals *t);

/* An object; `now` is now_ns(). */
void view_status(struct jsonw *w, const struct serve_context *ctx, const struct view_totals *t,
		 uint64_t now);
/* One service of a list: an object. `scratch` is reused from row to row. */
void view_row(struct jsonw *w, const struct serve_context *ctx, const struct svc *svc,
	      struct serve_facts *scratch);
/* What this node is and how it tells pods, an object of that name. */
void view_node(struct jsonw *w, const char *key, const struct model *m);
/* { ns, name } of the service, as the members "namespace" and "name". */
void view_svc_name(struct jsonw *w, const struct svc *svc);

/*
 * The page of a service.
 *
 *     view_page_open(&v, ctx, svc, VIEW_PAGE_PEOPLE, now)
 *     while (view_page_more(v, w, deadline_ns))
 *             ... send what was written, go back to the loop ...
 *     view_page_close(v)
 *
 * "complete" is the last member: false when the service changed so much between two
 * pieces that the rest could not be told.
 */
enum view_page_mode {
	VIEW_PAGE_PEOPLE = 0,
	VIEW_PAGE_STABLE, /* without ages and times: two dumps can be compared */
};

struct view_page;

void view_page_open(struct view_page **ret, const struct serve_context *ctx, const struct svc *svc,
		    enum view_page_mode mode, uint64_t now);
/* 1 while there is more. `w` is the same at every call, its buffer may be another. */
int view_page_more(struct view_page *v, struct jsonw *w, uint64_t deadline_ns);
void view_page_close(struct view_page *v);
