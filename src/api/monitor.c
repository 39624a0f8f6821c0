/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/monitor - subscribers, their queues, and events as lines of JSON. */
#include "api/monitor.h"

#include <stdlib.h>

#include "api/body.h"
#include "base/control.h"
#include "base/list.h"
#include "explain/text.h"
#include "model/eject.h"

#define TYPE_LINES "application/x-ndjson"

/* Kinds of events; the first ones are those of the model, which has no lists. */
enum kind {
	KIND_SYNC = OBJECT_KIND_LIST,
	KIND_REJECTED,
	KIND_KERNEL,
	KIND_SILENT,
	KIND_EJECTED,
	KIND_N,
};

static const char *const kind_names[] = {
	[OBJECT_KIND_OTHER] = "addresses",
	[OBJECT_KIND_SERVICE] = "service",
	[OBJECT_KIND_SLICE] = "endpointslice",
	[OBJECT_KIND_NODE] = "node",
	[OBJECT_KIND_SERVICE_CIDR] = "servicecidr",
	[KIND_SYNC] = "sync",
	[KIND_REJECTED] = "rejected",
	[KIND_KERNEL] = "kernel",
	[KIND_SILENT] = "silent",
	[KIND_EJECTED] = "ejected",
};

struct subscriber {
	struct list link; /* in monitor.subscribers */
	struct monitor *mon;
	struct http_conn *conn; /* NULL before begin() */
	const struct name *ns;  /* counted; of the requested service, NULL = all */
	const struct name *name;
	uint32_t kinds; /* bits of enum kind */
	struct str queue;
	uint64_t lost;
};

struct monitor {
	struct model *model;
	struct list subscribers;
	size_t n_subscribers;
	struct str line; /* the event being written; its service */
	struct jsonw w;
	enum kind kind;
	const struct name *ns;
	const struct name *name;
	struct plan_ops ops;      /* reused */
	uint64_t foreign_changes; /* counters of the sync at the last event */
	uint64_t repairs;
	uint64_t loads;
};

/* --- events --- */

static void subscriber_take(struct subscriber *r, const struct str *line)
{
	if (r->lost > 0 || r->queue.len + line->len > MONITOR_QUEUE_MAX)
		r->lost++;
	else
		str_add(&r->queue, line->text, line->len);
	if (r->conn != NULL)
		http_wake(r->conn);
}

static bool is_about(const struct subscriber *r, const struct name *ns, const struct name *name)
{
	return r->name == NULL || (r->ns == ns && r->name == name);
}

/* True if the filter of a subscriber matches the event; checked before the event is formatted. */
static bool is_wanted(const struct monitor *mon, enum kind kind, const struct name *ns,
		      const struct name *name)
{
	list_for_each_entry (r, &mon->subscribers, struct subscriber, link) {
		if ((r->kinds >> kind & 1) && is_about(r, ns, name))
			return true;
	}
	return false;
}

/*
 * Begin the line of an event about the object `ns`/`name` of the service `ns`/`service`; NULL: no
 * filter matches. The names are borrowed until event_end().
 */
static struct jsonw *event_begin(struct monitor *mon, enum kind kind, const struct name *ns,
				 const struct name *name, const struct name *service)
{
	if (mon == NULL || !is_wanted(mon, kind, ns, service))
		return NULL;
	mon->kind = kind;
	mon->ns = ns;
	mon->name = service;
	str_clear(&mon->line);
	mon->w = (struct jsonw){ .out = &mon->line };
	jsonw_object(&mon->w, NULL);
	jsonw_int(&mon->w, "time_ms", wall_now_ns() / (int64_t)NSEC_PER_MSEC);
	jsonw_text(&mon->w, "event", kind_names[kind]);
	if (kind != KIND_KERNEL)
		jsonw_names(&mon->w, ns, name);
	return &mon->w;
}

static void event_end(struct monitor *mon)
{
	jsonw_end(&mon->w);
	str_puts(&mon->line, "\n");
	list_for_each_entry (r, &mon->subscribers, struct subscriber, link) {
		if ((r->kinds >> mon->kind & 1) && is_about(r, mon->ns, mon->name))
			subscriber_take(r, &mon->line);
	}
}

static void on_model_event(void *arg, const struct model_event *event)
{
	enum kind kind = (enum kind)event->kind;
	bool is_slice = event->kind == OBJECT_KIND_SLICE;
	const struct name *service = is_slice ? event->service : event->name;
	struct jsonw *w = event_begin(arg, kind, event->ns, event->name, service);

	if (w == NULL)
		return;
	if (is_slice) {
		jsonw_name(w, "service", event->service);
		jsonw_uint(w, "endpoints_before", event->endpoints_before);
		jsonw_uint(w, "endpoints_after", event->endpoints_after);
	}
	jsonw_text(w, "change", event->is_delete ? "delete" : "put");
	jsonw_bool(w, "relevant", event->does_matter);
	event_end(arg);
}

static void ops_write(struct monitor *mon, struct jsonw *w)
{
	FINI(str_fini) struct str text = { 0 };

	jsonw_uint(w, "operations", mon->ops.ops.n);
	jsonw_array(w, "texts");
	for (size_t i = 0; i < MIN(mon->ops.ops.n, (size_t)MONITOR_OPS_SHOWN); i++) {
		str_clear(&text);
		plan_op_print(&text, &mon->ops.ops.v[i]);
		if (text.len > 0)
			text.text[--text.len] = '\0'; /* its newline */
		jsonw_text(w, NULL, str_text(&text));
	}
	jsonw_end(w);
}

void monitor_accepted(struct monitor *mon, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new)
{
	uint64_t since = svc->dirty_since_ns;
	struct jsonw *w;

	if (mon == NULL || !is_wanted(mon, KIND_SYNC, svc->ns, svc->name))
		return;
	vec_clear(&mon->ops.ops);
	if (old != NULL || new != NULL)
		plan_diff(&mon->ops, new ? new->svc : old->svc, old, new);
	if (mon->ops.ops.n == 0 && since == 0)
		return; /* an audit without differences */
	w = event_begin(mon, KIND_SYNC, svc->ns, svc->name, svc->name);
	jsonw_uint_if(w, "took_us", since > 1, (now_ns() - since) / NSEC_PER_USEC);
	ops_write(mon, w);
	event_end(mon);
}

void monitor_rejected(struct monitor *mon, const struct svc *svc, const char *text)
{
	struct jsonw *w = event_begin(mon, KIND_REJECTED, svc->ns, svc->name, svc->name);

	if (w == NULL)
		return;
	jsonw_text(w, "text", text);
	event_end(mon);
}

void monitor_silence(struct monitor *mon, const struct failover_silence *s, bool is_over)
{
	struct jsonw *w = event_begin(mon, KIND_SILENT, s->ns, s->name, s->name);

	if (w == NULL)
		return;
	jsonw_endpoint(w, &s->by.addr, s->by.port);
	jsonw_bool(w, "over", is_over);
	jsonw_uint(w, "unanswered", s->unanswered);
	event_end(mon);
}

void monitor_ejection(struct monitor *mon, const struct model_ejection *e, bool is_over)
{
	struct jsonw *w = event_begin(mon, KIND_EJECTED, e->ns, e->name, e->name);
	FINI(str_fini) struct str text = { 0 };

	if (w == NULL)
		return;
	model_ejection_text(&text, e, e->since_ns);
	jsonw_endpoint(w, &e->addr, e->port);
	jsonw_bool(w, "over", is_over);
	jsonw_text(w, "text", is_over ? "admitted" : text.text);
	event_end(mon);
}

/* Send the increase of a counter since its last event. */
static void counter_event(struct monitor *mon, uint64_t *sent, uint64_t now, const char *what)
{
	struct jsonw *w = now != *sent ? event_begin(mon, KIND_KERNEL, NULL, NULL, NULL) : NULL;

	if (w != NULL) {
		jsonw_text(w, "text", what);
		jsonw_uint(w, "count", now - *sent);
		event_end(mon);
	}
	*sent = now;
}

void monitor_stepped(struct monitor *mon, const struct sync *sync)
{
	const struct sync_stats *st;

	if (mon == NULL)
		return;
	st = sync_stats_get(sync);
	counter_event(mon, &mon->loads, st->loads, "kernel state was loaded");
	counter_event(mon, &mon->foreign_changes, st->foreign_changes,
		      "another process changed the ruleset");
	counter_event(mon, &mon->repairs, st->repairs, "kernel state was repaired");
}

/* --- subscribers --- */

static void subscriber_begin(void *state, struct http_conn *conn)
{
	struct subscriber *r = state;

	r->conn = conn;
}

static int subscriber_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct subscriber *r = state;

	(void)deadline_ns; /* only copies */
	if (r->queue.len > 0)
		str_add(out, r->queue.text, r->queue.len);
	str_clear(&r->queue);
	if (r->lost > 0) {
		struct jsonw w = { .out = out };

		jsonw_object(&w, NULL);
		jsonw_text(&w, "event", "lost");
		jsonw_uint(&w, "count", r->lost);
		jsonw_end(&w);
		str_puts(out, "\n");
	}
	r->lost = 0;
	return HTTP_BODY_WAIT;
}

static void subscriber_free(struct subscriber *r)
{
	str_fini(&r->queue);
	name_pair_unref(r->ns, r->name);
	free(r);
}

static void subscriber_close(void *state)
{
	struct subscriber *r = state;
	struct monitor *mon = r->mon;

	list_del(&r->link);
	if (--mon->n_subscribers == 0)
		mon->model->event = NULL;
	subscriber_free(r);
}

static const struct http_body_ops subscriber_ops = { subscriber_more, subscriber_close,
						     subscriber_begin };

static void hello(struct subscriber *r)
{
	struct jsonw w = { .out = &r->queue };

	jsonw_object(&w, NULL);
	jsonw_uint(&w, "api", CONTROL_API_VERSION);
	jsonw_text(&w, "event", "hello");
	jsonw_text(&w, "version", VIPD_VERSION);
	jsonw_end(&w);
	str_puts(&r->queue, "\n");
}

void body_monitor(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	struct monitor *mon = ctx->monitor;
	struct subscriber *r = xcalloc(1, sizeof(*r));
	const char *kinds = http_request_param(q, "kind");
	struct err err = { 0 };

	r->kinds = (UINT32_C(1) << KIND_N) - 1;
	if (kinds != NULL && kinds[0] != '\0' &&
	    body_words_parse(&r->kinds, kinds, kind_names, 0, KIND_N, "kind", &err) < 0) {
		http_reply_error(reply, 400, "%s", err.text);
	} else if (!body_service_param(&r->ns, &r->name, reply, q)) {
		/* `reply` has the error */
	} else if (mon == NULL || mon->n_subscribers == MONITOR_SUBSCRIBERS_MAX) {
		http_reply_error(reply, 503, "limit of %d subscribers reached",
				 MONITOR_SUBSCRIBERS_MAX);
	} else {
		r->mon = mon;
		list_add_tail(&mon->subscribers, &r->link);
		mon->n_subscribers++;
		mon->model->event = on_model_event;
		mon->model->event_arg = mon;
		hello(r);
		http_reply_stream(reply, TYPE_LINES, &subscriber_ops, r);
		return;
	}
	subscriber_free(r);
}

/* --- life --- */

void monitor_open(struct monitor **ret, struct model *m)
{
	struct monitor *mon = xcalloc(1, sizeof(*mon));

	mon->model = m;
	list_init(&mon->subscribers);
	*ret = mon;
}

void monitor_close(struct monitor *mon)
{
	if (mon == NULL)
		return;
	mon->model->event = NULL;
	str_fini(&mon->line);
	vec_fini(&mon->ops.ops);
	free(mon);
}
