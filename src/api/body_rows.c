/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body_rows - programmed state in the format of the kernel readers of vipctl.
 *
 * A service is written frontend by frontend. If its rows change meanwhile, "complete" is
 * false, and a client that compares has to repeat the request.
 */
#include "api/body.h"

#include "explain/text.h"
#include "state/state.h"

struct rows_body {
	struct items items;
	bool is_open;     /* a service is under way */
	const void *rows; /* its rows at the start; only compared */
	size_t i;         /* its next frontend */
	struct str line;
};

static void rows_item(struct items *items, const struct svc *svc)
{
	const struct sync_failure *failure = sync_failure_find(items->ctx->sync, svc);
	struct rows_body *b = (struct rows_body *)items;

	if (svc->rows == NULL && !serve_is_pending(svc))
		return;
	jsonw_object(&items->w, NULL);
	jsonw_names(&items->w, svc->ns, svc->name);
	jsonw_bool(&items->w, "pending", serve_is_pending(svc));
	jsonw_text(&items->w, "rejected", failure ? failure->text : NULL);
	jsonw_array(&items->w, "frontends");
	b->is_open = true;
	b->rows = svc->rows;
	b->i = 0;
}

static bool rows_more(struct items *items, uint64_t deadline_ns)
{
	struct rows_body *b = (struct rows_body *)items;
	const struct plan_rows *rows;
	const struct svc *svc;
	bool is_complete;

	if (!b->is_open)
		return false;
	svc = model_find(items->ctx->model, items->key->ns, items->key->name);
	rows = svc ? svc->rows : NULL;
	is_complete = svc != NULL && rows == b->rows;
	if (!is_complete || rows == NULL || b->i == rows->frontends.n) {
		jsonw_end(&items->w);
		jsonw_bool(&items->w, "complete", is_complete);
		jsonw_end(&items->w);
		b->is_open = false;
	} else {
		const struct plan_balancer balancer = plane_balancer(items->ctx->plane);

		str_clear(&b->line);
		plan_frontend_led_print(&b->line, rows, &rows->frontends.v[b->i++], &balancer);
		jsonw_text(&items->w, NULL, b->line.text);
	}
	return true;
}

static void rows_close(struct items *items)
{
	str_fini(&((struct rows_body *)items)->line);
}

void body_rows(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q)
{
	static const struct items_ops ops = { .item = rows_item,
					      .more = rows_more,
					      .close = rows_close };
	const struct page_query all = { 0 };
	struct rows_body *b = xcalloc(1, sizeof(*b));

	items_open(reply, &b->items, ctx, &ops, &all);
}
