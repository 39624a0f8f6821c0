/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/body - streams of status, lists, pages and dumps. */
#include "api/body.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/view.h"
#include "base/control.h"
#include "base/hash.h"
#include "doctor/check.h"
#include "state/state.h"

#define TYPE_JSON "application/json"

void body_begin(struct http_reply *reply, struct jsonw *w)
{
	reply->status = 200;
	reply->type = TYPE_JSON;
	*w = (struct jsonw){ .out = &reply->body };
	jsonw_object(w, NULL);
	jsonw_uint(w, "api", CONTROL_API_VERSION);
}

void body_end(struct http_reply *reply, struct jsonw *w)
{
	jsonw_end(w);
	str_puts(&reply->body, "\n");
}

/* --- status: count, then write --- */

struct status_body {
	struct serve_context ctx; /* a copy; its options are counted */
	struct walk walk;
	struct view_totals totals;
};

static void status_visit(void *arg, struct svc *svc)
{
	struct status_body *b = arg;

	view_totals_add(&b->totals, &b->ctx, svc);
}

static int status_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct status_body *b = state;
	struct jsonw w = { .out = out };

	if (walk_services(&b->walk, b->ctx.model, status_visit, b, deadline_ns))
		return 1;
	view_status(&w, &b->ctx, &b->totals, now_ns());
	str_puts(out, "\n");
	return 0;
}

static void status_close(void *state)
{
	struct status_body *b = state;

	serve_facts_fini(&b->totals.scratch);
	json_decref(b->ctx.options);
	free(b);
}

static const struct http_body_ops status_ops = { status_more, status_close };

void body_status(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q)
{
	struct status_body *b = xcalloc(1, sizeof(*b));

	b->ctx = *ctx;
	(void)json_incref(b->ctx.options); /* a reload replaces them */
	http_reply_stream(reply, TYPE_JSON, &status_ops, b);
}

void body_status_public(struct http_reply *reply, const struct serve_context *ctx,
			const struct http_request *q)
{
	struct serve_context without_options = *ctx;

	without_options.options = NULL;
	body_status(reply, &without_options, q);
}

/* --- ETags --- */

/* At a fixed time, an age in the status is an absolute time: it changes only with its event. */
static uint64_t state_hash(const struct serve_context *ctx)
{
	const struct model_stats *st = &ctx->model->stats;
	const struct view_totals unknown = { .is_unknown = true };
	FINI(str_fini) struct str status = { 0 };
	struct jsonw w = { .out = &status };
	uint64_t h = ctx->checks != NULL ? ctx->checks->n : 0;

	view_status(&w, ctx, &unknown, UINT64_MAX);
	h = hash_bytes_fixed(st, sizeof(*st), h, ctx->model->env_generation);
	return hash_bytes_fixed(status.text, status.len, h, 0);
}

bool body_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		    const struct http_request *q)
{
	const char *tag = str_local(24, "\"%016" PRIx64 "\"", state_hash(ctx));

	str_printf(&reply->headers, "ETag: %s\r\n", tag);
	if (q->if_none_match == NULL || strstr(q->if_none_match, tag) == NULL)
		return false;
	reply->status = 304;
	reply->type = TYPE_JSON;
	return true;
}

/* --- lists: find the keys, then write service by service --- */

static int items_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct items *b = state;
	const struct svc *svc;

	b->w.out = out;
	if (!b->is_found) {
		if (page_more(&b->page, deadline_ns))
			return 1;
		b->is_found = true;
		jsonw_object(&b->w, NULL);
		jsonw_uint(&b->w, "api", CONTROL_API_VERSION);
		if (b->ops->head != NULL)
			b->ops->head(b);
		jsonw_array(&b->w, "items");
		return 1;
	}
	do {
		if (b->ops->more != NULL && b->ops->more(b, deadline_ns))
			continue;
		b->key = page_next(&b->page);
		if (b->key == NULL) {
			jsonw_end(&b->w);
			if (b->ops->tail != NULL)
				b->ops->tail(b);
			jsonw_end(&b->w);
			str_puts(out, "\n");
			return 0;
		}
		svc = model_find(b->ctx->model, b->key->ns, b->key->name);
		if (svc != NULL) /* else it was deleted after its key was found */
			b->ops->item(b, svc);
	} while (now_ns() < deadline_ns);
	return 1;
}

static void items_close(void *state)
{
	struct items *b = state;

	if (b->ops->close != NULL)
		b->ops->close(b);
	page_fini(&b->page);
	free(b);
}

void items_open(struct http_reply *reply, struct items *b, const struct serve_context *ctx,
		const struct items_ops *ops, const struct page_query *query)
{
	static const struct http_body_ops body_ops = { items_more, items_close };

	b->ctx = ctx;
	b->ops = ops;
	page_init(&b->page, ctx->model, query);
	http_reply_stream(reply, TYPE_JSON, &body_ops, b);
}

/* --- selection of services by request parameters --- */

/*
 * Parameters: "namespace", "name" (exact), "state" (a list of states, separated by
 * commas) and "q", a search text: a part of NAMESPACE/NAME, the name of a pod, a state,
 * or an address with or without a port and a protocol, of a frontend or of an endpoint.
 */
struct filter {
	const struct serve_context *ctx;
	char *ns;
	char *name;
	char *text;
	struct ip_addr addr;         /* set: `text` is an address, or an address and a port */
	uint16_t port;               /* 0 = any */
	enum l4proto proto;          /* L4PROTO_UNSET = any */
	uint32_t states;             /* bits of enum serve_state; 0 = all */
	enum serve_state text_state; /* state named by `text`; UNSET: none */
	struct serve_facts scratch;
	struct str key;
};

static char *param_copy(const struct http_request *q, const char *name)
{
	const char *value = http_request_param(q, name);

	return value != NULL && value[0] != '\0' ? xstrdup(value) : NULL;
}

/* -EINVAL: `err` names the parameter. `ret` is initialised in any case. */
static int filter_init(struct filter *ret, const struct serve_context *ctx,
		       const struct http_request *q, struct err *err)
{
	const char *states = http_request_param(q, "state");

	*ret = (struct filter){ .ctx = ctx };
	ret->ns = param_copy(q, "namespace");
	ret->name = param_copy(q, "name");
	ret->text = param_copy(q, "q");
	if (ret->text != NULL) {
		AUTO(free) char *text = xstrdup(ret->text);

		ret->text_state = serve_state_parse(text, strlen(text));
		ret->proto = l4proto_cut(text);
		/* Otherwise it is a part of a name, or the name of a pod. */
		(void)!ip_given_parse(&ret->addr, &ret->port, text);
	}
	return states ? body_words_parse(&ret->states, states, serve_state_names, SERVE_STATE_OK,
					 SERVE_STATE_N, "state", err)
		      : 0;
}

static void filter_fini(struct filter *f)
{
	free(f->ns);
	free(f->name);
	free(f->text);
	serve_facts_fini(&f->scratch);
	str_fini(&f->key);
}

static bool is_port(const struct filter *f, uint16_t port, uint8_t proto)
{
	return (f->port == 0 || port == f->port) &&
	       (f->proto == L4PROTO_UNSET || proto == f->proto);
}

/* Ports of a service or a slice. Also without ports, if any will do. */
#define has_port(f, ports) \
	(is_port((f), 0, L4PROTO_UNSET) || vec_has((ports), p, is_port((f), p->port, p->proto)))

static bool has_node_port(const struct filter *f, const struct service *s)
{
	return vec_has(&s->ports, p, p->node_port != 0 && is_port(f, p->node_port, p->proto));
}

/* Addresses of the object, programmed or not. */
static bool object_has_addr(const struct filter *f, const struct service *s)
{
	bool is_vip = ip_addr_is_equal(&s->cluster_ip[ip_fam(&f->addr)], &f->addr) ||
		      vec_has(&s->ingress, in, ip_addr_is_equal(&in->addr, &f->addr)) ||
		      vec_has(&s->external_ips, a, ip_addr_is_equal(a, &f->addr));

	if (is_vip && has_port(f, &s->ports))
		return true;
	return has_node_port(f, s) &&
	       vec_has(&f->ctx->model->env.nodeport_addrs, a, ip_addr_is_equal(a, &f->addr));
}

static bool rows_have_addr(const struct filter *f, const struct plan_rows *rows)
{
	return vec_has(&rows->frontends, fe,
		       ip_addr_is_equal(&fe->addr, &f->addr) && is_port(f, fe->port, fe->proto));
}

static bool slice_has_addr(const struct filter *f, const struct slice *sl)
{
	return sl->fam == ip_fam(&f->addr) && has_port(f, &sl->ports) &&
	       vec_has(&sl->endpoints, ep, ip_addr_is_equal(&ep->addr, &f->addr));
}

static bool slice_has_pod(const struct filter *f, const struct slice *sl)
{
	return vec_has(&sl->endpoints, ep, ep->pod != NULL && strcmp(ep->pod, f->text) == 0);
}

static bool slices_match(const struct filter *f, const struct svc *svc)
{
	list_for_each_entry (l, &svc->slices, struct slice_entry, link) {
		if (ip_is_set(&f->addr) ? slice_has_addr(f, l->slice) : slice_has_pod(f, l->slice))
			return true;
	}
	return false;
}

static bool text_matches(struct filter *f, const struct svc *svc)
{
	if (ip_is_set(&f->addr)) {
		if ((svc->service != NULL && object_has_addr(f, svc->service)) ||
		    (svc->rows != NULL && rows_have_addr(f, svc->rows)))
			return true;
	} else {
		str_clear(&f->key);
		str_printf(&f->key, "%s/%s", svc->ns->text, svc->name->text);
		if (strstr(f->key.text, f->text) != NULL)
			return true;
	}
	if (f->text_state != SERVE_STATE_UNSET) {
		serve_facts_get(&f->scratch, f->ctx, svc);
		if (f->scratch.state == f->text_state)
			return true;
	}
	return slices_match(f, svc);
}

static bool filter_matches(void *arg, const struct svc *svc)
{
	struct filter *f = arg;

	if (f->ns != NULL && strcmp(f->ns, svc->ns->text) != 0)
		return false;
	if (f->name != NULL && strcmp(f->name, svc->name->text) != 0)
		return false;
	if (f->text != NULL && !text_matches(f, svc))
		return false;
	if (f->states == 0)
		return true;
	serve_facts_get(&f->scratch, f->ctx, svc);
	return (f->states >> f->scratch.state) & 1;
}

/* --- services and dumps --- */

struct list_body {
	struct items items;
	struct filter filter;
	bool is_dump;           /* pages of all services instead of rows of some */
	struct view_page *view; /* of the current service of a dump */
	struct view_row row;
	bool is_row_open;
};

/* The worst state comes first. */
static uint8_t rank_of(enum serve_state s)
{
	return (uint8_t)(SERVE_STATE_N - s);
}

static uint8_t list_rank(void *arg, const struct svc *svc)
{
	struct filter *f = arg;

	serve_facts_get(&f->scratch, f->ctx, svc);
	return rank_of(f->scratch.state);
}

static void list_head(struct items *items)
{
	struct list_body *b = (struct list_body *)items;

	if (b->is_dump) {
		view_node(&items->w, items->ctx->model);
		jsonw_uint(&items->w, "conflicts", items->ctx->plan->n_conflicts);
	} else {
		jsonw_uint(&items->w, "matching", items->page.n_matching);
	}
}

static void list_tail(struct items *items)
{
	const struct page *page = &items->page;
	const struct walk_key *last = page->has_more ? &page->keys.v[page->keys.n - 1] : NULL;

	if (((struct list_body *)items)->is_dump)
		return;
	if (last != NULL && page->query.rank != NULL)
		jsonw_printf(&items->w, "next", "%s/%s/%s",
			     serve_state_names[SERVE_STATE_N - last->rank], last->ns->text,
			     last->name->text);
	else if (last != NULL)
		jsonw_printf(&items->w, "next", "%s/%s", last->ns->text, last->name->text);
	else
		jsonw_text(&items->w, "next", NULL);
}

static void list_item(struct items *items, const struct svc *svc)
{
	struct list_body *b = (struct list_body *)items;

	if (b->is_dump) {
		view_page_open(&b->view, &items->w, items->ctx, svc, 0);
	} else {
		view_row_begin(&b->row, &items->w, items->ctx, svc);
		/* Its first piece in this turn: later the facts may be those of another object. */
		b->is_row_open = view_row_more(&b->row, &items->w, items->ctx, svc, 0);
	}
}

static bool list_more(struct items *items, uint64_t deadline_ns)
{
	struct list_body *b = (struct list_body *)items;
	const struct svc *svc;

	if (b->is_row_open) {
		svc = model_find(items->ctx->model, items->key->ns, items->key->name);
		b->is_row_open = view_row_more(&b->row, &items->w, items->ctx, svc, deadline_ns);
		return true;
	}
	if (b->view == NULL)
		return false;
	if (!view_page_more(b->view, &items->w, deadline_ns))
		view_page_close(TAKE(b->view));
	return true;
}

static void list_close(struct items *items)
{
	struct list_body *b = (struct list_body *)items;

	view_page_close(b->view);
	filter_fini(&b->filter);
	serve_facts_fini(&b->row.facts);
}

static const struct items_ops list_ops = { list_head, list_item, list_more, list_tail, list_close };

/* --- parameters --- */

bool body_params_check(struct http_reply *reply, const struct http_request *q, const char *names)
{
	const struct http_param *unknown =
		vec_find(&q->params, p, str_words_find(names, p->name, strlen(p->name)) < 0);

	if (unknown != NULL)
		http_reply_error(reply, 400, "there is no parameter '%.64s'", unknown->name);
	return unknown == NULL;
}

/* The slash of NAMESPACE/NAME; NULL: `text` is no such name. */
static const char *service_slash(const char *text)
{
	const char *slash = strchr(text, '/');

	return slash == NULL || slash == text || slash[1] == '\0' || strchr(slash + 1, '/') != NULL
		       ? NULL
		       : slash;
}

bool body_service_param(const struct name **ns, const struct name **name, struct http_reply *reply,
			const struct http_request *q)
{
	const char *text = http_request_param(q, "service");
	const char *slash = text ? service_slash(text) : NULL;

	*ns = *name = NULL;
	if (slash != NULL) {
		*ns = name_get(text, (size_t)(slash - text));
		*name = name_get_str(slash + 1);
	} else if (text != NULL) {
		http_reply_error(reply, 400, "service: '%.64s' is not NAMESPACE/NAME", text);
	}
	return slash != NULL || text == NULL;
}

int body_words_parse(uint32_t *ret, const char *list, const char *const *words, size_t first,
		     size_t n, const char *key, struct err *err)
{
	FINI(str_fini) struct str all = { 0 };
	FINI(str_fini) struct str allowed = { 0 };

	for (size_t i = first; i < n; i++)
		str_printf(&all, "%s%s", i > first ? " " : "", words[i]);
	*ret = 0;
	while (*list != '\0') {
		size_t len = strcspn(list, ",");
		int i = str_words_find(all.text, list, len);

		if (i < 0) {
			str_words_print(&allowed, all.text);
			return err_set(err, -EINVAL, "%s: '%.*s' is not %s", key,
				       (int)MIN(len, (size_t)64), list, allowed.text);
		}
		*ret |= UINT32_C(1) << (first + (size_t)i);
		list += len + (list[len] == ',');
	}
	return 0;
}

static int limit_parse(size_t *ret, const struct http_request *q, struct err *err)
{
	const char *text = http_request_param(q, "limit");
	char *end;
	unsigned long n;

	*ret = text == NULL ? CONTROL_LIMIT_DEFAULT : 0;
	if (text == NULL || strcmp(text, "all") == 0)
		return 0;
	n = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
	if (n < 1 || n > CONTROL_LIMIT_MAX || *end != '\0')
		return err_set(err, -EINVAL,
			       "limit: '%.64s' is not a number from 1 to %d, nor 'all'", text,
			       CONTROL_LIMIT_MAX);
	*ret = n;
	return 0;
}

static int sort_parse(struct page_query *ret, const struct http_request *q, struct err *err)
{
	const char *text = http_request_param(q, "sort");

	if (text == NULL || strcmp(text, "name") == 0)
		return 0;
	if (strcmp(text, "state") != 0)
		return err_set(err, -EINVAL, "sort: '%.64s' is not name or state", text);
	ret->rank = list_rank;
	return 0;
}

static int after_parse(struct page_query *ret, const struct http_request *q, struct err *err)
{
	const char *text = http_request_param(q, "after");
	const char *slash = text ? strchr(text, '/') : NULL;
	enum serve_state s;

	if (text == NULL || text[0] == '\0')
		return 0;
	if (slash != NULL && ret->rank != NULL) {
		s = serve_state_parse(text, (size_t)(slash - text));
		if (s == SERVE_STATE_UNSET)
			return err_set(err, -EINVAL, "after: '%.64s' is not STATE/NAMESPACE/NAME",
				       text);
		ret->after_rank = rank_of(s);
		text = slash + 1;
		slash = strchr(text, '/');
	}
	if (slash == NULL)
		return err_set(err, -EINVAL, "after: '%.64s' is not NAMESPACE/NAME", text);
	ret->after_ns = xstrndup(text, (size_t)(slash - text));
	ret->after_name = xstrdup(slash + 1);
	return 0;
}

static void list_open(struct http_reply *reply, const struct serve_context *ctx,
		      const struct http_request *q, bool is_dump)
{
	struct list_body *b = xcalloc(1, sizeof(*b));
	struct page_query query = { .is_wanted = filter_matches };
	struct err err = { 0 };
	int r;

	b->is_dump = is_dump;
	query.arg = &b->filter;
	r = filter_init(&b->filter, ctx, q, &err);
	if (r == 0)
		r = limit_parse(&query.limit, q, &err);
	if (r == 0)
		r = sort_parse(&query, q, &err);
	if (r == 0)
		r = after_parse(&query, q, &err);
	if (is_dump) /* not paged */
		query.limit = 0;
	items_open(reply, &b->items, ctx, &list_ops, &query);
	if (r < 0) {
		items_close(b);
		reply->ops = NULL;
		http_reply_error(reply, 400, "%s", err.text);
	}
}

void body_services(struct http_reply *reply, const struct serve_context *ctx,
		   const struct http_request *q)
{
	list_open(reply, ctx, q, false);
}

void body_dump(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q)
{
	list_open(reply, ctx, q, true);
}

/* --- one service --- */

struct service_body {
	struct view_page *view;
	struct jsonw w;
};

static int service_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct service_body *b = state;

	b->w.out = out;
	if (view_page_more(b->view, &b->w, deadline_ns))
		return 1;
	str_puts(out, "\n");
	return 0;
}

static void service_close_body(void *state)
{
	struct service_body *b = state;

	view_page_close(b->view);
	free(b);
}

static const struct http_body_ops service_ops = { service_more, service_close_body };

static void draining_count(void *arg, const struct plane_draining *l)
{
	*(size_t *)arg += 1;
}

/* The ETag changes neither with connections of draining backends nor with times of probes. */
static bool is_volatile(const struct serve_context *ctx, const struct svc *svc)
{
	size_t n = 0;

	if (ctx->plane->ops->draining != NULL)
		ctx->plane->ops->draining(ctx->plane, svc, draining_count, &n);
	vec_for_each (e, &ctx->model->ejections)
		n += e->ns == svc->ns && e->name == svc->name;
	return n > 0;
}

void body_service(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	const char *key = q->path + strlen(BODY_SERVICES "/");
	const char *slash = service_slash(key);
	struct service_body *b;
	const struct svc *svc;
	AUTO(free) char *ns = NULL;

	if (slash == NULL) {
		http_reply_error(reply, 404, "'%.128s' is not NAMESPACE/NAME", key);
		return;
	}
	ns = xstrndup(key, (size_t)(slash - key));
	svc = model_find_text(ctx->model, ns, slash + 1);
	if (svc == NULL) {
		http_reply_error(reply, 404, "there is no service %.128s", key);
		return;
	}
	if (!is_volatile(ctx, svc) && body_unchanged(reply, ctx, q))
		return;
	b = xcalloc(1, sizeof(*b));
	b->w.out = &reply->body;
	view_page_open(&b->view, &b->w, ctx, svc, now_ns());
	http_reply_stream(reply, TYPE_JSON, &service_ops, b);
}
