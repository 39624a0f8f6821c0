/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/private - what the files of this folder share; plan.h and pieces.h are for others. */
#pragma once

#include "model/select.h"
#include "plan/pieces.h"

/* Upper bound of the frontends of `s` on this node. */
size_t plan_frontends_max(const struct plan *p, const struct service *s);

/* --- ids.c: pool ids --- */

void plan_ids_init(struct plan *p);
void plan_ids_fini(struct plan *p);
/* Return ids in rising order: a freed id may be in packets in flight. 0: none is free. */
uint32_t plan_id_take(struct plan *p, enum ipfam fam);
/* Free the ids of `rows` that neither `kept` nor `also_kept` use; all may be NULL. */
void plan_ids_free(struct plan *p, const struct plan_rows *rows, const struct plan_rows *kept,
		   const struct plan_rows *also_kept);
/*
 * The kernel rejected `rows`, so their ids are in no packet: the next attempt takes them
 * again. Call after plan_ids_free().
 */
void plan_ids_give_back(struct plan *p, const struct plan_rows *rows);

/* --- claims.c: the frontends that each service claims, and precedence (SEL-14) --- */

/*
 * A lower rank has precedence. Cluster IPs and node ports are allocated by the API server,
 * load balancer addresses by a controller; external IPs are unchecked user input.
 */
int plan_kind_rank(uint8_t kind);
/*
 * Replace the claims of `svc` by those of `rows` (sorted; NULL: none) and of the service's
 * programmed frontends. Marks services dirty that may get a frontend.
 */
void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows);
/* As plan_claims_replace(); nothing if only endpoints changed since: no claim is due then. */
void plan_claims_follow(struct plan *p, struct svc *svc, const struct plan_rows *rows);
/* The services' claims are freed already. */
void plan_claims_fini(struct plan *p);
/* Number of frontends that `svc` claims. */
size_t plan_claims_count(const struct svc *svc);
/* svc->rows changed: the claims follow. */
void plan_claims_hold(struct plan *p, const struct svc *svc);
/* Set svc->is_large. */
void plan_claims_size(struct plan *p, struct svc *svc);
/* The kernel no longer has frontends of `svc` that `svc` does not claim. */
void plan_claims_left(struct plan *p, struct svc *svc);

/* The work of an operation on a backend: plan_work_fn. */
static inline size_t plan_work(const struct plan *p, const struct svc *svc,
			       const struct plan_pool *pool, const struct plan_frontend *leading,
			       size_t n_leading)
{
	return p->work != NULL ? p->work(p->plane, svc, pool, leading, n_leading) : 1;
}

/* --- patch.c: rows that follow few changed endpoints --- */

/* May the rows of `s` be patched, while its slices change? */
bool plan_is_patchable(const struct plan *p, const struct service *s);

/* Index into the sums of struct svc_track. */
static inline size_t plan_sums_at(const struct service *s, size_t port, enum ipfam fam)
{
	return fam * s->ports.n + port;
}

static inline struct plan_backend plan_backend_of(const struct endpoint *ep, bool preserves)
{
	return (struct plan_backend){ .addr = ep->addr,
				      .port = ep->port,
				      .is_local = preserves && ep->is_local };
}
