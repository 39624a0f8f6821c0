/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/tcp.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "conntrack/stale.h"
#include "model/tuning.h"

/* Frontends collected in one turn: about 2 ms. */
#define PIECE 10000

struct dead_addr {
	struct hnode node; /* in tcp.addrs */
	struct list link;  /* in tcp.waiting, tcp.late or tcp.under_way */
	struct ip_addr addr;
	uint64_t due_ns; /* STALE_NEVER: under way */
	bool is_late;    /* of the second scan */
};

struct former_frontend {
	struct hnode node; /* in tcp.former */
	struct list link;  /* in tcp.former_order */
	struct ip_endpoint at;
};

/* --- addresses --- */

static struct dead_addr *addr_find(const struct tcp *t, const struct ip_addr *addr)
{
	return htable_find(&t->addrs, hash_bytes(addr, sizeof(*addr)), struct dead_addr, d,
			   ip_addr_is_equal(&d->addr, addr));
}

static void addr_end(struct tcp *t, struct dead_addr *d)
{
	list_del(&d->link);
	htable_remove(&t->addrs, &d->node);
	free(d);
}

static void addr_wait(struct tcp *t, struct dead_addr *d, bool is_late, uint64_t now)
{
	d->is_late = is_late;
	d->due_ns = now + (is_late ? STALE_LATE_NS : STALE_DEAD_NS);
	list_move_tail(is_late ? &t->late : &t->waiting, &d->link);
}

void tcp_collect_again(struct tcp *t)
{
	t->bucket = 0;
	vec_clear(&t->frontends);
}

bool tcp_addr_event(struct tcp *t, const struct ip_addr *addr, bool is_listed, uint64_t now)
{
	struct dead_addr *d = addr_find(t, addr);
	bool is_under_way = d != NULL && d->due_ns == STALE_NEVER;

	if (is_listed) {
		if (d != NULL)
			addr_end(t, d);
		if (tcp_next(t) > now)
			tcp_collect_again(t);
		return is_under_way;
	}
	if (d == NULL) {
		d = xcalloc(1, sizeof(*d));
		d->addr = *addr;
		htable_insert(&t->addrs, &d->node, hash_bytes(addr, sizeof(*addr)));
	}
	addr_wait(t, d, false, now);
	return false;
}

static void addrs_take(struct tcp *t, struct job *job, struct list *from, uint64_t now)
{
	list_for_each_entry_safe (d, tmp, from, struct dead_addr, link) {
		if (d->due_ns > now || job->dead.n >= JOB_DEAD_MAX)
			break;
		d->due_ns = STALE_NEVER;
		list_move_tail(&t->under_way, &d->link);
		*vec_push(&job->dead) = d->addr;
	}
}

/* --- frontends --- */

void tcp_gone(struct tcp *t, const struct ip_addr *addr, uint16_t port)
{
	struct ip_endpoint at = { *addr, port, 0 };
	uint32_t hash = hash_bytes(&at, sizeof(at));
	struct former_frontend *f = htable_find(&t->former, hash, struct former_frontend, e,
						ip_endpoint_cmp(&e->at, &at) == 0);

	if (!t->is_reset)
		return;
	if (f == NULL) {
		f = xcalloc(1, sizeof(*f));
		f->at = at;
		htable_insert(&t->former, &f->node, hash);
	}
	list_move_tail(&t->former_order, &f->link);
	if (t->former.count <= TCP_FORMER_MAX)
		return;
	f = list_entry(t->former_order.next, struct former_frontend, link);
	list_del(&f->link);
	htable_remove(&t->former, &f->node);
	free(f);
}

/* Flows of others are untranslated: backends answer the client directly. */
static bool is_translated(const struct plan_frontend *f)
{
	return f->proto == L4PROTO_TCP && f->forwarding == FORWARDING_MASQUERADE;
}

void tcp_accepted(struct tcp *t, const struct plan_rows *old, const struct plan_rows *new)
{
	const struct plan_rows *after = plan_rows_or_none(new);
	size_t i = 0;

	if (!t->is_reset)
		return;
	vec_for_each (f, &plan_rows_or_none(old)->frontends) {
		while (i < after->frontends.n && ip_tuple_cmp(&after->frontends.v[i], f) < 0)
			i++;
		if (is_translated(f) &&
		    (i == after->frontends.n || ip_tuple_cmp(&after->frontends.v[i], f) != 0 ||
		     !is_translated(&after->frontends.v[i])))
			tcp_gone(t, &f->addr, f->port);
	}
}

static void rows_collect(struct tcp *t, const struct plan_rows *rows)
{
	vec_for_each (f, &plan_rows_or_none(rows)->frontends)
		if (is_translated(f))
			*vec_push(&t->frontends) = (struct ip_endpoint){ f->addr, f->port, 0 };
}

/* --- scans --- */

void tcp_recheck(struct tcp *t, uint64_t now)
{
	t->handshakes_ns = MIN(t->handshakes_ns, now);
	t->is_under_way = false;
	tcp_collect_again(t);
}

uint64_t tcp_next(const struct tcp *t)
{
	const struct list *const lists[] = { &t->waiting, &t->late };
	uint64_t next = t->handshakes_ns;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!list_is_empty(lists[i]))
			next = MIN(next,
				   list_entry(lists[i]->next, struct dead_addr, link)->due_ns);
	return next;
}

bool tcp_collect(struct tcp *t, uint64_t now)
{
	const struct htable *all = &t->model->services;
	size_t end = t->frontends.n + PIECE;

	if (tcp_next(t) > now)
		return true;
	for (; t->bucket < all->n_buckets && t->frontends.n < end; t->bucket++)
		for (struct hnode *n = all->buckets[t->bucket]; n != NULL; n = n->next)
			rows_collect(t, container_of(n, struct svc, node)->rows);
	return t->bucket >= all->n_buckets;
}

/*
 * A job scans handshakes or dead flows: the frontends of dead flows include former ones, to which
 * an untranslated handshake may be valid.
 */
void tcp_take(struct tcp *t, struct job *job, uint64_t now)
{
	if (tcp_next(t) > now)
		return;
	job->has_handshakes = t->handshakes_ns <= now;
	if (job->has_handshakes) {
		t->handshakes_ns = STALE_NEVER;
		t->is_under_way = t->frontends.n > 0;
	} else {
		addrs_take(t, job, &t->waiting, now);
		addrs_take(t, job, &t->late, now);
		list_for_each_entry (f, &t->former_order, struct former_frontend, link)
			*vec_push(&t->frontends) = f->at;
	}
	vec_move(&job->tcp, &t->frontends);
	t->bucket = 0;
}

void tcp_done(struct tcp *t, int result, uint64_t now)
{
	list_for_each_entry_safe (d, tmp, &t->under_way, struct dead_addr, link) {
		if (result < 0 || !d->is_late)
			addr_wait(t, d, result == 0, now);
		else
			addr_end(t, d);
	}
	if (t->is_under_way && result < 0)
		tcp_recheck(t, now);
	t->is_under_way = false;
}

size_t tcp_pending(const struct tcp *t)
{
	return t->addrs.count + (t->handshakes_ns != STALE_NEVER || t->is_under_way);
}

/* --- life --- */

void tcp_init(struct tcp *t, const struct model *m, bool is_reset)
{
	*t = (struct tcp){ .model = m, .is_reset = is_reset, .handshakes_ns = STALE_NEVER };
	list_init(&t->waiting);
	list_init(&t->late);
	list_init(&t->under_way);
	list_init(&t->former_order);
}

void tcp_fini(struct tcp *t)
{
	htable_for_each_entry_safe (d, tmp, &t->addrs, struct dead_addr)
		free(d);
	htable_for_each_entry_safe (f, tmp, &t->former, struct former_frontend)
		free(f);
	vec_fini(&t->frontends);
	htable_fini(&t->addrs);
	htable_fini(&t->former);
}
