/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state/state - facts from rows, states from facts, reasons from both. */
#include "state/state.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "model/select.h"

const char *const serve_state_names[SERVE_STATE_N] = {
	[SERVE_STATE_UNSET] = "-",
	[SERVE_STATE_OK] = "ok",
	[SERVE_STATE_NO_SERVICE] = "no-service",
	[SERVE_STATE_NOT_PROXIED] = "not-proxied",
	[SERVE_STATE_DROPPING] = "dropping",
	[SERVE_STATE_REJECTING] = "no-endpoints",
	[SERVE_STATE_CONFLICT] = "conflict",
	[SERVE_STATE_PENDING] = "pending",
	[SERVE_STATE_REJECTED] = "rejected",
};

enum serve_state serve_state_parse(const char *text, size_t len)
{
	for (int i = SERVE_STATE_OK; i < SERVE_STATE_N; i++)
		if (strlen(serve_state_names[i]) == len &&
		    memcmp(serve_state_names[i], text, len) == 0)
			return i;
	return SERVE_STATE_UNSET;
}

static void errors_fini(struct serve_source_errors *errors)
{
	vec_for_each (e, errors) {
		free(e->where);
		free(e->text);
	}
	vec_fini(errors);
}

void serve_source_info_fini(struct serve_source_info *info)
{
	free(info->text);
	free(info->waiting_for);
	free(info->unknown);
	errors_fini(&info->errors);
	errors_fini(&info->notes);
	*info = (struct serve_source_info){ 0 };
}

const char *serve_missing_bridge(const struct model *m)
{
	const char *name = m->config.detect_ifname;

	return m->config.detect_local == DETECT_LOCAL_BRIDGE && if_nametoindex(name) == 0 ? name
											  : NULL;
}

/* --- facts --- */

static int pair_cmp(const void *a, const void *b)
{
	const struct serve_pair *x = a;
	const struct serve_pair *y = b;

	return CMP(x->key, y->key) ?: CMP(x->index, y->index);
}

static uint32_t number_key(uint8_t proto, uint16_t number, bool is_node_port)
{
	return (uint32_t)is_node_port << 24 | (uint32_t)proto << 16 | number;
}

static void ports_index(struct serve_facts *f, const struct service *s)
{
	for (uint32_t i = 0; i < s->ports.n; i++) {
		const struct service_port *p = &s->ports.v[i];

		*vec_push(&f->by_number) =
			(struct serve_pair){ number_key(p->proto, p->port, false), i };
		*vec_push(&f->by_number) =
			(struct serve_pair){ number_key(p->proto, p->node_port, true), i };
	}
	vec_sort(&f->by_number, pair_cmp);
}

/* The first port with this number. SIZE_MAX: none, as rows may be older than the object. */
static size_t port_find(const struct serve_facts *f, uint8_t proto, uint16_t number,
			enum plan_frontend_kind kind)
{
	uint32_t key = number_key(proto, number, kind == PLAN_FRONTEND_NODEPORT);
	size_t at = bisect(f->by_number.n, i, f->by_number.v[i].key < key);

	return at < f->by_number.n && f->by_number.v[at].key == key ? f->by_number.v[at].index
								    : SIZE_MAX;
}

static uint8_t target_facts(const struct plan_target *t, enum plan_frontend_kind kind)
{
	switch ((enum plan_verdict)t->verdict) {
	case PLAN_VERDICT_UNSET:
		break;
	case PLAN_VERDICT_POOL:
		return SERVE_FACT_BALANCES;
	case PLAN_VERDICT_REJECT:
		return SERVE_FACT_REJECTS;
	case PLAN_VERDICT_DROP:
		return kind == PLAN_FRONTEND_CLUSTERIP ? SERVE_FACT_DROPS_INTERNAL
						       : SERVE_FACT_DROPS_OUTSIDE;
	}
	return 0;
}

static void rows_facts(struct serve_facts *ret, const struct svc *svc)
{
	const struct plan_rows *rows = svc->rows;

	ports_index(ret, svc->service);
	vec_for_each (f, &rows->frontends) {
		size_t port = port_find(ret, f->proto, f->port, f->kind);

		if (port != SIZE_MAX)
			ret->ports.v[port].fam[ip_fam(&f->addr)] |=
				target_facts(&f->target, f->kind) |
				target_facts(&f->inside, f->kind);
	}
	for (uint32_t i = 0; i < rows->conflicts.n; i++) {
		const struct plan_conflict *c = &rows->conflicts.v[i];
		size_t port = port_find(ret, c->proto, c->port, c->kind);

		if (port == SIZE_MAX)
			continue;
		ret->ports.v[port].fam[ip_fam(&c->addr)] |= SERVE_FACT_CONFLICTS;
		*vec_push(&ret->conflicts) = (struct serve_pair){ (uint32_t)port, i };
	}
	vec_sort(&ret->conflicts, pair_cmp);
}

bool serve_is_pending(const struct svc *svc)
{
	bool is_proxied = service_is_proxied(svc->service);

	return svc->dirty_since_ns != 0 || (svc->rows != NULL) != is_proxied;
}

/* Of the service as a whole; its ports may be worse than OK. */
static enum serve_state whole_state(const struct serve_facts *f, const struct svc *svc)
{
	if (f->failure != NULL)
		return SERVE_STATE_REJECTED;
	if (svc->service == NULL && svc->rows == NULL)
		return SERVE_STATE_NO_SERVICE;
	if (svc->service != NULL && svc->rows == NULL && service_skip_reason(svc->service) != NULL)
		return SERVE_STATE_NOT_PROXIED;
	return serve_is_pending(svc) ? SERVE_STATE_PENDING : SERVE_STATE_OK;
}

enum serve_state serve_port_state(const struct serve_facts *f, size_t port)
{
	unsigned int all = f->ports.v[port].fam[IPFAM_V4] | f->ports.v[port].fam[IPFAM_V6];

	if (f->state == SERVE_STATE_REJECTED || f->state == SERVE_STATE_PENDING ||
	    f->state == SERVE_STATE_NOT_PROXIED)
		return f->state;
	if (all & SERVE_FACT_CONFLICTS)
		return SERVE_STATE_CONFLICT;
	if (all & SERVE_FACT_REJECTS)
		return SERVE_STATE_REJECTING;
	if (all & (SERVE_FACT_DROPS_INTERNAL | SERVE_FACT_DROPS_OUTSIDE))
		return SERVE_STATE_DROPPING;
	return SERVE_STATE_OK;
}

void serve_facts_get(struct serve_facts *ret, const struct serve_context *ctx,
		     const struct svc *svc)
{
	size_t n_ports = svc->service ? svc->service->ports.n : 0;

	vec_reserve(&ret->ports, n_ports);
	vec_cut(&ret->ports, n_ports);
	if (n_ports > 0)
		memset(ret->ports.v, 0, n_ports * sizeof(ret->ports.v[0]));
	vec_clear(&ret->by_number);
	vec_clear(&ret->conflicts);
	ret->failure = sync_failure_find(ctx->sync, svc);
	if (svc->rows != NULL && svc->service != NULL)
		rows_facts(ret, svc);
	ret->state = whole_state(ret, svc);
	for (size_t i = 0; i < n_ports; i++)
		ret->state = MAX(ret->state, serve_port_state(ret, i));
}

void serve_facts_fini(struct serve_facts *f)
{
	vec_fini(&f->ports);
	vec_fini(&f->by_number);
	vec_fini(&f->conflicts);
}

/* --- reasons --- */

/*
 * Separate a note from the previous one, and write "IPv6: " if only that family of a dual-stack
 * port has the facts. False: the port has none of them.
 */
static bool note_begin(struct str *out, const struct serve_port_facts *p, unsigned int facts)
{
	bool has_v4 = (p->fam[IPFAM_V4] & facts) != 0;
	bool has_v6 = (p->fam[IPFAM_V6] & facts) != 0;

	if (!has_v4 && !has_v6)
		return false;
	if (out->len > 0)
		str_puts(out, "; ");
	if (has_v4 != has_v6 && p->fam[IPFAM_V4] != 0 && p->fam[IPFAM_V6] != 0)
		str_printf(out, "%s: ", ipfam_text(has_v6 ? IPFAM_V6 : IPFAM_V4));
	return true;
}

/* Slices that are searched for all ports of a service: some milliseconds. */
#define SEARCHES_MAX 100000

/* Have slices of the family endpoints, but none of these slices the port? */
static bool is_port_missing(const struct svc *svc, const struct service_port *port, enum ipfam fam)
{
	bool has_endpoints = false;

	list_for_each_entry (e, &svc->slices, struct slice_entry, link) {
		if (e->slice->fam != fam || e->slice->endpoints.n == 0)
			continue;
		if (slice_port_find(e->slice, port->name, port->proto) != NULL)
			return false;
		has_endpoints = true;
	}
	return has_endpoints;
}

/* By the families that reject. */
static void rejects_note(struct str *out, const struct serve_port_facts *p, const struct svc *svc,
			 const struct service_port *port)
{
	bool is_missing = (size_t)svc->n_slices * svc->service->ports.n <= SEARCHES_MAX;

	if (!note_begin(out, p, SERVE_FACT_REJECTS))
		return;
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (p->fam[fam] & SERVE_FACT_REJECTS)
			is_missing = is_missing && is_port_missing(svc, port, fam);
	if (!is_missing)
		str_puts(out, "no usable endpoint anywhere");
	else if (port->name->len == 0)
		str_printf(out, "no EndpointSlice has an unnamed port (%s)",
			   l4proto_text(port->proto));
	else
		str_printf(out, "no EndpointSlice has a port named '%s' (%s)", port->name->text,
			   l4proto_text(port->proto));
}

bool serve_nodeports_failure(struct str *out, const struct serve_context *ctx, enum ipfam fam)
{
	const char *why = model_nodeports_failure(ctx->model, fam);

	if (why == NULL)
		return false;
	str_puts(out, why);
	if (sync_is_sweep_pending(ctx->sync))
		str_puts(out, SERVE_ORPHANED_NODEPORTS);
	return true;
}

/* Node ports of a family without an address of this node. */
static void nodeports_note(struct str *out, const struct serve_context *ctx, const struct svc *svc,
			   size_t port)
{
	if (svc->service->ports.v[port].node_port == 0)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		FINI(str_fini) struct str why = { 0 };

		if (service_has_family(svc->service, fam) &&
		    serve_nodeports_failure(&why, ctx, fam))
			str_printf(out, "%s%s", out->len ? "; " : "", why.text);
	}
}

void serve_port_note(struct str *out, const struct serve_facts *f, const struct serve_context *ctx,
		     const struct svc *svc, size_t port)
{
	const struct serve_port_facts *p = &f->ports.v[port];
	const struct plan_rows *rows = svc->rows;
	const struct ip_addr *host_ip = rows != NULL && rows->is_of_host && svc->service != NULL
						? model_host_cluster_ip(ctx->model, svc->service)
						: NULL;

	for (size_t i = bisect(f->conflicts.n, k, f->conflicts.v[k].key < port);
	     i < f->conflicts.n && f->conflicts.v[i].key == port; i++) {
		const struct plan_conflict *c = &rows->conflicts.v[f->conflicts.v[i].index];
		const struct plan_owner owner = plan_conflict_owner(ctx->plan, svc, c);

		if (owner.svc == svc)
			continue;
		str_printf(out, "%s%s is served by %s/%s (%s)", out->len ? "; " : "",
			   ip_endpoint_str(&c->addr, c->port), owner.svc->ns->text,
			   owner.svc->name->text, plan_conflict_reason(c, &owner));
	}
	if (host_ip != NULL)
		str_printf(out, "%scluster IP %s is an address of this node", out->len ? "; " : "",
			   ip_addr_str(host_ip));
	rejects_note(out, p, svc, &svc->service->ports.v[port]);
	if (note_begin(out, p, SERVE_FACT_DROPS_INTERNAL))
		str_puts(out, "cluster IP: internalTrafficPolicy Local, no endpoint on this node");
	if (note_begin(out, p, SERVE_FACT_DROPS_OUTSIDE))
		str_puts(out,
			 "outside clients: externalTrafficPolicy Local, no endpoint on this node");
	nodeports_note(out, ctx, svc, port);
}

static const char *pending_text(const struct svc *svc)
{
	if (svc->service == NULL)
		return "deleted; removal pending";
	if (svc->rows == NULL)
		return "not in the kernel yet";
	if (service_skip_reason(svc->service) != NULL)
		return "no longer proxied; removal pending";
	return "changed; previous rules in force";
}

void serve_service_note(struct str *out, const struct serve_facts *f, const struct svc *svc)
{
	switch (f->state) {
	case SERVE_STATE_REJECTED:
		str_puts(out, f->failure->text);
		break;
	case SERVE_STATE_NOT_PROXIED:
		str_puts(out, service_skip_reason(svc->service));
		break;
	case SERVE_STATE_NO_SERVICE:
		str_printf(out,
			   "%u slice%s, but no valid Service of this name (vipctl status lists "
			   "rejected objects)",
			   svc->n_slices, svc->n_slices == 1 ? "" : "s");
		break;
	case SERVE_STATE_PENDING:
		str_puts(out, pending_text(svc));
		break;
	case SERVE_STATE_UNSET:
	case SERVE_STATE_OK:
	case SERVE_STATE_DROPPING:
	case SERVE_STATE_REJECTING:
	case SERVE_STATE_CONFLICT:
	case SERVE_STATE_N:
		break;
	}
}
