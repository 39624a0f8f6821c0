/* SPDX-License-Identifier: GPL-2.0-or-later */
/* explain/text - print operations and frontends. */
#include "explain/text.h"

#include <stdio.h>

#include "model/tuning.h"
#include "plan/table.h"

static const char *const masq_texts[] = {
	[PLAN_MASQ_UNSET] = "-",
	[PLAN_MASQ_CLUSTERIP] = "clusterip",
	[PLAN_MASQ_ALWAYS] = "always",
	[PLAN_MASQ_HOST] = "host",
};

static void print_target(struct str *out, const struct plan_target *t)
{
	if (t->verdict == PLAN_VERDICT_POOL)
		str_printf(out, "pool %u (%s)", t->pool_id, plan_scope_text(t->scope));
	else
		str_puts(out, plan_verdict_text(t->verdict));
}

static void print_key(struct str *out, const struct plan_frontend *f)
{
	str_printf(out, "%s/%s", ip_endpoint_str(&f->addr, f->port), l4proto_text(f->proto));
}

static void print_frontend(struct str *out, const struct plan_frontend *f)
{
	print_key(out, f);
	str_printf(out, " %s masq=%s", plan_frontend_kind_text(f->kind), masq_texts[f->masq]);
	if (f->forwarding != FORWARDING_MASQUERADE)
		str_printf(out, " forwarding=%s", forwarding_str(f->forwarding));
	if (f->is_guarded)
		str_puts(out, " guarded");
	str_puts(out, " -> ");
	print_target(out, &f->target);
	if (f->is_split) {
		str_puts(out, ", inside -> ");
		print_target(out, &f->inside);
	}
}

static void print_slot(struct str *out, const char *before, uint32_t slot)
{
	if (slot == PLAN_SLOT_NONE)
		str_printf(out, "%s-", before);
	else
		str_printf(out, "%s%u", before, slot);
}

void plan_op_print(struct str *out, const struct plan_op *op)
{
	const struct plan_backend *b = op->backend;

	str_printf(out, "%s ", plan_op_text(op->kind));
	if (op->pool != NULL)
		str_printf(out, "pool %u", op->pool->id);
	if (b != NULL) {
		str_printf(out, " %s", ip_endpoint_str(&b->addr, b->port));
		if (b->aff_id != 0)
			str_printf(out, "#%u", b->aff_id);
		if (op->kind == PLAN_BACKEND_MOVE) {
			print_slot(out, " ", op->from);
			print_slot(out, " -> ", op->slot);
		} else if (op->slot != PLAN_SLOT_NONE) {
			str_printf(out, " at %u", op->slot);
		}
	}
	if (op->range != NULL)
		str_printf(out, " %s", ip_prefix_str(op->range));
	if (op->frontend != NULL)
		print_frontend(out, op->frontend);
	else if (op->old_frontend != NULL)
		print_key(out, op->old_frontend);
	str_puts(out, "\n");
}

/* --- where a frontend leads --- */

struct led_backend {
	struct plan_backend b; /* first: ip_endpoint_cmp() */
	uint32_t weight;       /* or its number of slots */
};

/* With a table, what the kernel has of a weight: the number of slots. Hashing hides it. */
static void led_weigh(struct led_backend *v, const struct plan_pool *pool)
{
	bool has_slots = pool->table.n > 0 || pool->hashing != PLAN_HASHING_NONE;

	for (size_t i = 0; i < pool->backends.n; i++)
		v[i] = (struct led_backend){
			pool->backends.v[i],
			!has_slots ? plan_pool_weight(pool, i) : pool->hashing != PLAN_HASHING_NONE,
		};
	if (pool->hashing == PLAN_HASHING_NONE)
		vec_for_each (i, &pool->table)
			v[*i].weight++;
}

void plan_led_backend_print(struct str *out, const struct ip_addr *addr, uint16_t port,
			    uint32_t weight)
{
	str_printf(out, " %s", ip_endpoint_str(addr, port));
	if (weight != 1)
		str_printf(out, "=%u", weight);
}

void plan_balancing_of(struct plan_balancing *ret, const struct plan_pool *pool)
{
	*ret = (struct plan_balancing){ .balance = pool->weights != NULL ? PLAN_BALANCE_BY_WEIGHT
									 : PLAN_BALANCE_EVENLY,
					.affinity_s = pool->affinity_s,
					.is_by_client = pool->hashing != PLAN_HASHING_NONE };
	(void)snprintf(ret->scheduler, sizeof(ret->scheduler), "%s",
		       plan_hashing_text(pool->hashing));
}

double plan_balance_share(enum plan_balance balance, uint32_t weight, uint64_t sum, size_t n)
{
	switch (balance) {
	case PLAN_BALANCE_EVENLY:
		return 1.0 / (double)n;
	case PLAN_BALANCE_BY_WEIGHT:
		return (double)weight / (double)sum;
	case PLAN_BALANCE_UNKNOWN:
		break;
	}
	return n == 1 ? 1.0 : -1.0;
}

void plan_led_balancing_print(struct str *out, const struct plan_balancing *d)
{
	if (d->affinity_s != 0)
		str_printf(out, " affinity=%us", d->affinity_s);
	if (d->scheduler[0] != '\0')
		str_printf(out, " scheduler=%s", d->scheduler);
}

static void print_led(struct str *out, const struct plan_rows *rows, const struct plan_frontend *f,
		      const struct plan_balancer *balancer, bool is_inside)
{
	const struct plan_target *t = is_inside ? &f->inside : &f->target;
	const struct plan_pool *pool = plan_rows_pool(rows, ip_fam(&f->addr), t->pool_id);
	struct plan_balancing balancing;
	size_t n = pool ? pool->backends.n : 0;
	AUTO(free) struct led_backend *sorted = NULL;

	if (t->verdict != PLAN_VERDICT_POOL || n == 0) {
		str_printf(out, " -> %s",
			   t->verdict == PLAN_VERDICT_POOL ? "NOWHERE"
							   : plan_verdict_text(t->verdict));
		return;
	}
	str_puts(out, " ->");
	sorted = xreallocarray(NULL, n, sizeof(*sorted));
	led_weigh(sorted, pool);
	qsort(sorted, n, sizeof(*sorted), ip_endpoint_cmp);
	for (size_t i = 0; i < n; i++)
		plan_led_backend_print(out, &sorted[i].b.addr, sorted[i].b.port, sorted[i].weight);
	plan_balancing_of(&balancing, pool);
	if (balancer != NULL && balancer->balancing != NULL)
		balancer->balancing(balancer->ctx, rows, pool, is_inside, &balancing);
	plan_led_balancing_print(out, &balancing);
}

static void print_guard(struct str *out, const struct plan_pool *pool)
{
	size_t n = 0;
	AUTO(free) struct ip_prefix *ranges = pool != NULL ? plan_pool_ranges(pool, &n) : NULL;

	str_puts(out, n == 0 ? " guard=none" : " guard=");
	for (size_t i = 0; i < n; i++)
		str_printf(out, "%s%s", i == 0 ? "" : ",", ip_prefix_str(&ranges[i]));
}

void plan_frontend_led_print(struct str *out, const struct plan_rows *rows,
			     const struct plan_frontend *f, const struct plan_balancer *balancer)
{
	print_key(out, f);
	if (f->kind == PLAN_FRONTEND_CLUSTERIP)
		str_puts(out, " cluster-ip");
	if (f->masq == PLAN_MASQ_ALWAYS)
		str_puts(out, " masq");
	else if (f->masq == PLAN_MASQ_HOST)
		str_puts(out, " masq=host");
	if (f->forwarding != FORWARDING_MASQUERADE && f->target.verdict == PLAN_VERDICT_POOL)
		str_printf(out, " forwarding=%s", forwarding_str(f->forwarding));
	if (f->is_guarded)
		print_guard(out, plan_rows_pool(rows, ip_fam(&f->addr), f->target.pool_id));
	print_led(out, rows, f, balancer, false);
	if (f->is_split) {
		str_puts(out, "; inside");
		print_led(out, rows, f, balancer, true);
	}
}
