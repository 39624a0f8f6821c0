/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/problems.h"

#include "model/eject.h"

#define STEP_NS (2 * NSEC_PER_MSEC)

struct collection {
	const struct serve_context *ctx;
	struct events *events;
	struct problems *next;
	uint64_t put_off_at; /* position of the walk */
	bool is_full;        /* a problem was put off */
};

static void add(struct collection *c, const struct name *ns, const struct name *name,
		const char *reason, const struct str *text)
{
	const struct kube_problem p = { OBJECT_KIND_SERVICE, ns->text, name->text, reason,
					text->text };

	c->put_off_at = c->next->walk.at;
	c->is_full = !kube_problem_add(c->events, &p);
}

/* The same node port at another address of the node. */
static bool is_repeated(const struct plan_conflict *a, const struct plan_conflict *b)
{
	return a->kind == PLAN_FRONTEND_NODEPORT && b->kind == a->kind && b->port == a->port &&
	       b->proto == a->proto;
}

/*
 * Without addresses of this node: equal on all nodes, so that it becomes one Event. Nothing when
 * the service is about to get the frontend.
 */
static void conflict_text(struct str *out, const struct plan *plan, const struct svc *svc)
{
	const struct plan_rows *rows = svc->rows;
	const struct plan_conflict *c = &rows->conflicts.v[0];
	const struct plan_owner owner = plan_conflict_owner(plan, svc, c);
	bool has_more = vec_has(&rows->conflicts, other, other != c && !is_repeated(c, other));

	if (owner.svc == svc)
		return;
	str_printf(out, "%s%s%s port %u/%s is served by %s/%s (%s)%s",
		   plan_frontend_kind_text(c->kind), c->kind == PLAN_FRONTEND_NODEPORT ? "" : " ",
		   c->kind == PLAN_FRONTEND_NODEPORT ? "" : ip_addr_str(&c->addr), c->port,
		   l4proto_text(c->proto), owner.svc->ns->text, owner.svc->name->text,
		   plan_conflict_reason(c, &owner),
		   has_more ? "; more conflicts: see vipctl svc" : "");
}

static void visit(void *arg, struct svc *svc)
{
	struct collection *c = arg;
	const struct sync_failure *failure = sync_failure_find(c->ctx->sync, svc);
	const struct plan_rows *rows = svc->rows;
	FINI(str_fini) struct str text = { 0 };

	if (c->is_full)
		return;
	if (failure != NULL) {
		str_printf(&text, "rejected by the kernel: %s; %s", failure->text,
			   rows != NULL ? "previous rules stay" : "not programmed");
		add(c, svc->ns, svc->name, "RejectedByKernel", &text);
	} else if (rows != NULL && rows->conflicts.n > 0) {
		conflict_text(&text, c->ctx->plan, svc);
		if (text.len > 0)
			add(c, svc->ns, svc->name, "AddressConflict", &text);
	}
}

static void services_add(struct collection *c)
{
	struct walk *at = &c->next->walk;

	if (c->is_full || (c->ctx->plan->n_conflicts == 0 && sync_failure_count(c->ctx->sync) == 0))
		return;
	if (walk_services(at, c->ctx->model, visit, c, now_ns() + STEP_NS) == 0)
		*at = (struct walk){ 0 };
	if (c->is_full)
		at->at = c->put_off_at;
}

/* Without counts and times: one Event while the endpoint is ejected again and again. */
static void ejection_add(struct collection *c, const struct model_ejection *j)
{
	FINI(str_fini) struct str text = { 0 };

	if (j->is_manual)
		return;
	str_printf(&text,
		   "node %s: endpoint %s port %u is ejected: TCP handshakes %s; it gets no "
		   "new connections from this node for a time",
		   name_text(c->ctx->model->config.node_name), ip_addr_str(&j->addr), j->port,
		   model_ejection_failure(j));
	add(c, j->ns, j->name, "EndpointEjected", &text);
}

static void ejections_add(struct collection *c)
{
	size_t n = c->ctx->model->ejections.n;
	size_t first = c->next->ejection;

	for (size_t i = 0; i < n && !c->is_full; i++) {
		c->next->ejection = (first + i) % n;
		ejection_add(c, &c->ctx->model->ejections.v[c->next->ejection]);
	}
}

void problems_collect(struct problems *p, const struct serve_context *ctx, struct events *e)
{
	struct collection c = { .ctx = ctx, .events = e, .next = p };

	if (p->are_services_first)
		services_add(&c);
	ejections_add(&c);
	if (!p->are_services_first)
		services_add(&c);
	p->are_services_first = !p->are_services_first;
}
