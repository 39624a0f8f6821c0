/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/counts - three walks over the services, one a metric, because Prometheus wants all
 * lines of a metric together.
 *
 *     gather a few services -> ask the kernel, COUNTS_ASK at a time -> a line a series
 *
 * A series may be the sum of several counters: a node port has a frontend on every
 * address, a backend a slot in the pool of the cluster and in that of the node. What was
 * gathered is copied, so that rows may change before it is asked for.
 */
#include "metrics/counts.h"

#include <stdlib.h>
#include <string.h>

#include "metrics/expo.h"
#include "model/walk.h"

enum counts_what {
	COUNTS_ASKED = 0,
	COUNTS_REFUSED,
	COUNTS_BACKENDS,
	COUNTS_N,
};

static const struct {
	const char *name;
	const char *help;
	enum plane_counting since;
} metrics[COUNTS_N] = {
	[COUNTS_ASKED] = { "vipd_service_connections_total",
			   "Packets that asked for a connection, refused ones included",
			   PLANE_COUNT_SERVICES },
	[COUNTS_REFUSED] = { "vipd_service_refused_total",
			     "Of these, packets that were rejected or dropped",
			     PLANE_COUNT_SERVICES },
	[COUNTS_BACKENDS] = { "vipd_endpoint_connections_total",
			      "Connections that were led to the endpoint", PLANE_COUNT_ENDPOINTS },
};

/* One line. */
struct series {
	char *labels;
	uint64_t sum;
	size_t n_left; /* counters that were not asked for yet */
	bool is_known;
};

/* One counter, and what tells its series from others of the service. */
struct item {
	union {
		struct plan_frontend frontend;
		struct plane_slot slot;
	};
	const struct name *port_name; /* borrowed: used while its service is gathered only */
	uint8_t fam;
	uint8_t proto;
	size_t series;
};

struct counts {
	struct counts_config config;
	struct str head;
	enum counts_what what;
	bool is_begun; /* the metric's head was written */
	struct walk walk;
	VEC(struct item) items; /* in order of their series */
	VEC(struct series) series;
	size_t asked;   /* of the items */
	size_t written; /* of the series */
	size_t n_series;
	size_t n_left_out;
	union { /* what is asked for, as the plane wants it */
		struct plan_frontend frontends[COUNTS_ASK];
		struct plane_slot slots[COUNTS_ASK];
	};
};

/* --- gathering --- */

static int item_cmp(const struct item *a, const struct item *b)
{
	int c = (a->fam > b->fam) - (a->fam < b->fam);

	if (c == 0)
		c = strcmp(a->port_name->text, b->port_name->text);
	return c != 0 ? c : (a->proto > b->proto) - (a->proto < b->proto);
}

static int frontend_cmp(const void *a, const void *b)
{
	const struct item *x = a;
	const struct item *y = b;
	int c = item_cmp(x, y);

	return c != 0 ? c
		      : (x->frontend.kind > y->frontend.kind) -
				(x->frontend.kind < y->frontend.kind);
}

static int slot_cmp(const void *a, const void *b)
{
	const struct item *x = a;
	const struct item *y = b;
	int c = item_cmp(x, y);

	if (c == 0)
		c = memcmp(&x->slot.addr, &y->slot.addr, sizeof(x->slot.addr));
	return c != 0 ? c : (x->slot.port > y->slot.port) - (x->slot.port < y->slot.port);
}

static char *labels_of(const struct svc *svc, const struct item *i, enum counts_what what)
{
	struct str s = { 0 };
	char endpoint[IP_ENDPOINT_TEXT_MAX];

	str_puts(&s, "namespace=");
	expo_quote(&s, svc->ns->text);
	str_puts(&s, ",service=");
	expo_quote(&s, svc->name->text);
	str_puts(&s, ",port=");
	expo_quote(&s, i->port_name->text);
	str_printf(&s, ",protocol=\"%s\",ip_family=\"%s\",", l4proto_text(i->proto),
		   i->fam == IPFAM_V6 ? "IPv6" : "IPv4");
	if (what == COUNTS_BACKENDS) {
		str_printf(&s, "endpoint=\"%s\"",
			   ip_endpoint_text(&i->slot.addr, i->slot.port, endpoint));
	} else {
		str_printf(&s, "frontend=\"%s\"", plan_frontend_kind_text(i->frontend.kind));
	}
	return s.text;
}

static void gather_frontends(struct counts *c, const struct plan_rows *rows)
{
	vec_for_each (f, &rows->frontends) {
		enum ipfam fam = ip_fam(&f->addr);
		const struct plan_pool *pool = plan_rows_pool(rows, fam, f->target.pool_id);

		if (pool != NULL)
			*vec_push(&c->items) = (struct item){ .frontend = *f,
							      .port_name = pool->port_name,
							      .fam = (uint8_t)fam,
							      .proto = f->proto };
	}
}

static void gather_slots(struct counts *c, const struct plan_rows *rows)
{
	vec_for_each (pool, &rows->pools)
		for (uint32_t slot = 0; slot < pool->backends.n; slot++) {
			const struct plan_backend *b = &pool->backends.v[slot];

			*vec_push(&c->items) = (struct item){
				.slot = { b->addr, pool->id, slot, b->port, b->aff_id },
				.port_name = pool->port_name,
				.fam = pool->fam,
				.proto = pool->proto,
			};
		}
}

static void series_add(struct counts *c, const struct svc *svc, const struct item *i)
{
	*vec_push(&c->series) = (struct series){ .labels = labels_of(svc, i, c->what) };
	c->n_series++;
}

/* Sorted items become series; those beyond the bound are counted, and forgotten. */
static void series_make(struct counts *c, const struct svc *svc, size_t first)
{
	int (*cmp)(const void *, const void *) =
		c->what == COUNTS_BACKENDS ? slot_cmp : frontend_cmp;
	size_t kept = first;

	qsort(&c->items.v[first], c->items.n - first, sizeof(struct item), cmp);
	for (size_t i = first; i < c->items.n; i++) {
		bool is_new = i == first || cmp(&c->items.v[i - 1], &c->items.v[i]) != 0;

		if (is_new && c->n_series >= c->config.series_max) {
			c->n_left_out++;
			continue;
		}
		if (is_new)
			series_add(c, svc, &c->items.v[i]);
		else if (c->n_series >= c->config.series_max && kept < i)
			continue; /* of a series that was left out */
		c->series.v[c->series.n - 1].n_left++;
		c->items.v[kept] = c->items.v[i];
		c->items.v[kept++].series = c->series.n - 1;
	}
	c->items.n = kept;
}

static void gather(void *arg, struct svc *svc)
{
	struct counts *c = arg;
	size_t first = c->items.n;

	if (svc->rows == NULL)
		return;
	if (c->what == COUNTS_BACKENDS)
		gather_slots(c, svc->rows);
	else
		gather_frontends(c, svc->rows);
	if (c->items.n > first)
		series_make(c, svc, first);
}

static void gathered_clear(struct counts *c)
{
	vec_for_each (s, &c->series)
		free(s->labels);
	vec_clear(&c->series);
	vec_clear(&c->items);
	c->asked = c->written = 0;
}

/* --- asking --- */

static int ask_plane(struct counts *c, size_t n, struct plane_count *ret)
{
	const struct plane *plane = c->config.ctx->plane;
	const struct item *items = &c->items.v[c->asked];
	struct err err;

	if (c->what == COUNTS_BACKENDS) {
		for (size_t i = 0; i < n; i++)
			c->slots[i] = items[i].slot;
		return plane->ops->count_slots(plane, c->slots, n, ret, &err);
	}
	for (size_t i = 0; i < n; i++)
		c->frontends[i] = items[i].frontend;
	return plane->ops->count_frontends(
		plane, c->what == COUNTS_ASKED ? PLANE_FRONTEND_ASKED : PLANE_FRONTEND_REFUSED,
		c->frontends, n, ret, &err);
}

static void ask(struct counts *c)
{
	size_t n = MIN(c->items.n - c->asked, (size_t)COUNTS_ASK);
	struct plane_count counts[COUNTS_ASK] = { 0 };

	/* What cannot be read now is not told in this answer. */
	if (ask_plane(c, n, counts) < 0)
		memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++) {
		struct series *s = &c->series.v[c->items.v[c->asked + i].series];

		s->sum += counts[i].packets;
		s->is_known |= counts[i].is_known;
		s->n_left--;
	}
	c->asked += n;
}

static void write_complete(struct counts *c, struct str *out)
{
	for (; c->written < c->series.n && c->series.v[c->written].n_left == 0; c->written++) {
		const struct series *s = &c->series.v[c->written];

		if (s->is_known)
			expo_uint(out, metrics[c->what].name, s->labels, s->sum);
	}
}

/* A part of the walk, or of what it found. False at the end of the metric. */
static bool go_on(struct counts *c, struct str *out, uint64_t deadline_ns)
{
	if (c->asked < c->items.n) {
		ask(c);
		write_complete(c, out);
		return true;
	}
	gathered_clear(c);
	do {
		if (!walk_services(&c->walk, c->config.ctx->model, gather, c, 0))
			return c->items.n > 0;
	} while (c->items.n < COUNTS_ASK && now_ns() < deadline_ns);
	return true;
}

static void metric_end(struct counts *c)
{
	c->what++;
	c->is_begun = false;
	c->walk = (struct walk){ 0 };
}

static void counts_end(const struct counts *c, struct str *out)
{
	expo_head(out, "vipd_series_left_out", "gauge",
		  "Lines of services and endpoints that this answer had no room for");
	expo_uint(out, "vipd_series_left_out", NULL, c->n_left_out);
}

static int counts_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct counts *c = state;

	if (c->head.len > 0) {
		str_add(out, c->head.text, c->head.len);
		str_fini(&c->head);
		return 1;
	}
	for (; c->what < COUNTS_N; metric_end(c)) {
		if (c->config.counting < metrics[c->what].since)
			continue;
		if (!c->is_begun)
			expo_head(out, metrics[c->what].name, "counter", metrics[c->what].help);
		c->is_begun = true;
		while (go_on(c, out, deadline_ns))
			if (now_ns() >= deadline_ns)
				return 1;
	}
	counts_end(c, out);
	return 0;
}

static void counts_close(void *state)
{
	struct counts *c = state;

	gathered_clear(c);
	vec_fini(&c->series);
	vec_fini(&c->items);
	str_fini(&c->head);
	free(c);
}

static const struct http_body_ops counts_ops = { counts_more, counts_close };

void counts_reply(struct http_reply *reply, const struct counts_config *config, struct str *head)
{
	struct counts *c = xcalloc(1, sizeof(*c));

	c->config = *config;
	c->head = *head;
	*head = (struct str){ 0 };
	http_reply_stream(reply, reply->type, &counts_ops, c);
}
