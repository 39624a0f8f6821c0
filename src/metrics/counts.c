/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/counts - one walk over the services for each of three metrics, because all samples of
 * a metric follow each other.
 *
 *     gather a few services -> read COUNTS_BATCH counters at a time -> one line a series
 *
 * Of endpoints, the slots of one port are gathered at a time: a service may have millions.
 *
 * A series may be the sum of several counters: a node port has a frontend on every
 * address, a backend has a slot in the cluster pool and in the local pool. Gathered
 * frontends and slots are copies, so that rows may change before their counters are read.
 */
#include "metrics/counts.h"

#include <stdlib.h>
#include <string.h>

#include "metrics/expo.h"
#include "model/walk.h"

static const struct {
	const char *name;
	const char *help;
	enum plane_counting since;
} metrics[PLANE_COUNTER_N] = {
	[PLANE_COUNTER_CONNECTIONS] = { "vipd_service_connections_total",
					"First packets of connections, rejected connections included",
					PLANE_COUNT_SERVICES },
	[PLANE_COUNTER_REJECTED] = { "vipd_service_rejected_connections_total",
				     "First packets of connections that were rejected or dropped",
				     PLANE_COUNT_SERVICES },
	[PLANE_COUNTER_BACKEND] = { "vipd_endpoint_connections_total",
				    "Connections forwarded to the endpoint",
				    PLANE_COUNT_ENDPOINTS },
};

/* One counter. The items of a series follow each other. */
struct item {
	struct plane_counted of;
	/* Of the series: the backend; or the family, and the kind of the frontend as the port. */
	struct ip_tuple key;
	const struct name *port_name; /* borrowed, valid while its service is gathered */
	char *labels; /* of a series, in its first item; NULL: one more of the series */
};

struct counts {
	const struct serve_context *ctx;
	size_t series_max;
	enum plane_counter metric;
	bool is_begun; /* the metric's head was written */
	struct walk walk;
	VEC(struct walk_key) services; /* whose slots are not gathered yet */
	struct plan_pool port;         /* of the last of them: gathered; its name is counted */
	VEC(struct item) items;
	size_t n_read;      /* items */
	const char *labels; /* of the series that is read; NULL: none */
	uint64_t sum;       /* of its counters */
	bool is_unknown;    /* at least one of them */
	size_t n_series;
	size_t n_omitted;
	struct plane_counted batch[COUNTS_BATCH]; /* argument of the plane's function */
};

/* --- gathering --- */

static int item_cmp(const void *a, const void *b)
{
	const struct item *x = a;
	const struct item *y = b;

	return ip_tuple_cmp(&x->key, &y->key) ?: strcmp(x->port_name->text, y->port_name->text);
}

static char *labels_of(const struct svc *svc, const struct item *i, enum plane_counter metric)
{
	struct str s = { 0 };

	expo_label(&s, "namespace", svc->ns->text);
	expo_label(&s, "service", svc->name->text);
	expo_label(&s, "port", i->port_name->text);
	expo_label(&s, "protocol", l4proto_text(i->key.proto));
	expo_label(&s, "ip_family", ipfam_text(ip_fam(&i->key.addr)));
	if (metric == PLANE_COUNTER_BACKEND)
		expo_label(&s, "endpoint", ip_endpoint_str(&i->key.addr, i->key.port));
	else
		expo_label(&s, "frontend", plan_frontend_kind_text(i->key.port));
	return s.text;
}

static void gather_frontends(struct counts *c, const struct plan_rows *rows)
{
	vec_for_each (f, &rows->frontends) {
		const struct plan_pool *pool =
			plan_rows_pool(rows, ip_fam(&f->addr), f->target.pool_id);

		if (pool != NULL)
			*vec_push(&c->items) = (struct item){
				.of.at = { f->addr, f->port, f->proto, 0 },
				.key = { .addr.family = f->addr.family,
					 .port = f->kind,
					 .proto = f->proto },
				.port_name = pool->port_name,
			};
	}
}

/* Sort items from `first` into series. Series above the limit are counted and dropped. */
static void series_make(struct counts *c, const struct svc *svc, size_t first)
{
	bool is_omitted = false;
	size_t kept = first;

	qsort(&c->items.v[first], c->items.n - first, sizeof(struct item), item_cmp);
	for (size_t i = first; i < c->items.n; i++) {
		struct item *item = &c->items.v[i];

		if (i == first || item_cmp(item - 1, item) != 0) {
			is_omitted = c->n_series >= c->series_max;
			c->n_omitted += is_omitted;
			c->n_series += !is_omitted;
			if (!is_omitted)
				item->labels = labels_of(svc, item, c->metric);
		}
		if (!is_omitted)
			c->items.v[kept++] = *item;
	}
	vec_cut(&c->items, kept);
}

static void gather(void *arg, struct svc *svc)
{
	struct counts *c = arg;
	size_t first = c->items.n;

	if (svc->rows == NULL)
		return;
	if (c->metric == PLANE_COUNTER_BACKEND) {
		*vec_push(&c->services) =
			(struct walk_key){ 0, name_ref(svc->ns), name_ref(svc->name) };
		return;
	}
	gather_frontends(c, svc->rows);
	if (c->items.n > first)
		series_make(c, svc, first);
}

static void gather_slots(struct counts *c, const struct plan_pool *pool)
{
	for (size_t slot = 0; slot < plan_pool_counters(pool); slot++) {
		struct plane_counted of = plane_counted_slot(pool, slot);

		*vec_push(&c->items) = (struct item){
			.of = of,
			.key = of.at,
			.port_name = pool->port_name,
		};
	}
}

static void service_done(struct counts *c)
{
	struct walk_key *key = &c->services.v[--c->services.n];

	name_pair_unref(key->ns, key->name);
	name_unref(c->port.port_name);
	c->port = (struct plan_pool){ 0 };
}

/* Gather the next port of the last service: its one or two pools. */
static void gather_port(struct counts *c)
{
	const struct walk_key *key = &c->services.v[c->services.n - 1];
	const struct svc *svc = model_find(c->ctx->model, key->ns, key->name);
	const struct plan_rows *rows = svc != NULL ? svc->rows : NULL;
	size_t first = c->items.n;
	size_t i = 0;

	if (rows != NULL && c->port.port_name != NULL)
		i = bisect(rows->pools.n, k, plan_pool_key_cmp(&rows->pools.v[k], &c->port) <= 0);
	if (rows == NULL || i == rows->pools.n) {
		service_done(c);
		return;
	}
	name_unref(c->port.port_name);
	c->port = (struct plan_pool){ .fam = rows->pools.v[i].fam,
				      .proto = rows->pools.v[i].proto,
				      .scope = PLAN_SCOPE_LOCAL,
				      .port_name = name_ref(rows->pools.v[i].port_name) };
	for (; i < rows->pools.n && plan_pool_key_cmp(&rows->pools.v[i], &c->port) <= 0; i++)
		gather_slots(c, &rows->pools.v[i]);
	if (c->items.n > first)
		series_make(c, svc, first);
}

static void gathered_clear(struct counts *c)
{
	vec_for_each (item, &c->items)
		free(item->labels);
	vec_clear(&c->items);
	c->n_read = 0;
}

/* --- reading --- */

/* Write the series that was read, and begin the next one; `labels` NULL: none. */
static void series_begin(struct counts *c, struct str *out, const char *labels)
{
	if (c->labels != NULL && !c->is_unknown)
		expo_uint(out, metrics[c->metric].name, c->labels, c->sum);
	c->labels = labels;
	c->sum = 0;
	c->is_unknown = false;
}

static void read_batch(struct counts *c, struct str *out)
{
	const struct plane *plane = c->ctx->plane;
	size_t n = MIN(c->items.n - c->n_read, (size_t)COUNTS_BATCH);
	struct plane_count counts[COUNTS_BATCH] = { 0 };

	for (size_t i = 0; i < n; i++)
		c->batch[i] = c->items.v[c->n_read + i].of;
	/* This answer omits counters that cannot be read. */
	if (plane->ops->count(plane, c->metric, c->batch, n, counts, NULL) < 0)
		memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++) {
		const struct item *item = &c->items.v[c->n_read++];

		if (item->labels != NULL)
			series_begin(c, out, item->labels);
		c->sum += counts[i].packets;
		c->is_unknown |= !counts[i].is_known;
	}
	if (c->n_read == c->items.n)
		series_begin(c, out, NULL);
}

/* Read a batch of counters or gather further services. False at the end of the metric. */
static bool metric_step(struct counts *c, struct str *out, uint64_t deadline_ns)
{
	if (c->n_read < c->items.n) {
		read_batch(c, out);
		return true;
	}
	gathered_clear(c);
	do {
		if (c->services.n > 0)
			gather_port(c);
		else if (!walk_services(&c->walk, c->ctx->model, gather, c, 0) &&
			 c->services.n == 0)
			return c->items.n > 0;
	} while (c->items.n < COUNTS_BATCH && now_ns() < deadline_ns);
	return true;
}

static void metric_end(struct counts *c)
{
	c->metric++;
	c->is_begun = false;
	c->walk = (struct walk){ 0 };
}

static int counts_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct counts *c = state;

	for (; c->metric < PLANE_COUNTER_N; metric_end(c)) {
		if (c->ctx->counting < metrics[c->metric].since)
			continue;
		if (!c->is_begun)
			expo_head(out, metrics[c->metric].name, "counter", metrics[c->metric].help);
		c->is_begun = true;
		while (metric_step(c, out, deadline_ns))
			if (now_ns() >= deadline_ns)
				return 1;
	}
	expo_head(out, "vipd_omitted_series", "gauge",
		  "Series of services and endpoints omitted from this answer at the limit of "
		  "series");
	expo_uint(out, "vipd_omitted_series", NULL, c->n_omitted);
	return 0;
}

static void counts_close(void *state)
{
	struct counts *c = state;

	gathered_clear(c);
	vec_fini(&c->items);
	while (c->services.n > 0)
		service_done(c);
	vec_fini(&c->services);
	free(c);
}

static const struct http_body_ops counts_ops = { counts_more, counts_close };

void counts_reply(struct http_reply *reply, const struct serve_context *ctx, size_t series_max)
{
	struct counts *c = xcalloc(1, sizeof(*c));

	c->ctx = ctx;
	c->series_max = series_max;
	http_reply_stream(reply, reply->type, &counts_ops, c);
}
