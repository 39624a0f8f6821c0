/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body_rows - programmed state in the format of the kernel readers of vipctl.
 *
 * A service is written frontend by frontend. If its rows change meanwhile, "complete" is
 * false, and a client that compares has to repeat the request.
 */
#include "api/body.h"

#include <stdlib.h>

#include "base/control.h"
#include "explain/text.h"
#include "model/walk.h"
#include "state/state.h"

struct rows_body {
	const struct serve_context *ctx;
	struct page page;
	struct jsonw w;
	const struct walk_key *key; /* of the current service, or NULL */
	const void *rows;           /* its rows at the start; only compared */
	size_t i;                   /* its next frontend */
	struct str line;
	bool is_found;
};

static void item_begin(struct rows_body *b, const struct svc *svc)
{
	const struct sync_failure *failure =
		b->ctx->sync ? sync_failure_find(b->ctx->sync, svc) : NULL;

	jsonw_object(&b->w, NULL);
	jsonw_name(&b->w, "namespace", svc->ns);
	jsonw_name(&b->w, "name", svc->name);
	jsonw_bool(&b->w, "pending", serve_is_pending(svc));
	jsonw_text(&b->w, "rejected", failure ? failure->text : NULL);
	jsonw_array(&b->w, "frontends");
	b->rows = svc->rows;
	b->i = 0;
}

static void item_end(struct rows_body *b, bool is_complete)
{
	jsonw_end(&b->w);
	jsonw_bool(&b->w, "complete", is_complete);
	jsonw_end(&b->w);
	b->key = NULL;
}

static void item_step(struct rows_body *b)
{
	const struct svc *svc = model_find(b->ctx->model, b->key->ns, b->key->name);
	const struct plan_rows *rows = svc ? svc->rows : NULL;

	if (svc == NULL || rows != b->rows) {
		item_end(b, false);
	} else if (rows == NULL || b->i == rows->frontends.n) {
		item_end(b, true);
	} else {
		const struct plan_balancer balancer = plane_balancer(b->ctx->plane);

		str_clear(&b->line);
		plan_frontend_led_print(&b->line, rows, &rows->frontends.v[b->i++],
					b->ctx->plane != NULL ? &balancer : NULL);
		jsonw_text(&b->w, NULL, b->line.text);
	}
}

/* False after the last service. */
static bool item_next(struct rows_body *b)
{
	const struct svc *svc;

	b->key = page_next(&b->page);
	if (b->key == NULL)
		return false;
	svc = model_find(b->ctx->model, b->key->ns, b->key->name);
	if (svc == NULL || (svc->rows == NULL && !serve_is_pending(svc)))
		b->key = NULL; /* deleted, or neither programmed nor pending */
	else
		item_begin(b, svc);
	return true;
}

static int rows_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct rows_body *b = state;

	b->w.out = out;
	if (!b->is_found) {
		if (page_more(&b->page, deadline_ns))
			return 1;
		b->is_found = true;
		jsonw_object(&b->w, NULL);
		jsonw_uint(&b->w, "api", CONTROL_API_VERSION);
		jsonw_array(&b->w, "items");
		return 1;
	}
	do {
		if (b->key != NULL) {
			item_step(b);
		} else if (!item_next(b)) {
			jsonw_end(&b->w);
			jsonw_end(&b->w);
			str_puts(out, "\n");
			return 0;
		}
	} while (now_ns() < deadline_ns);
	return 1;
}

static void rows_close(void *state)
{
	struct rows_body *b = state;

	page_fini(&b->page);
	str_fini(&b->line);
	free(b);
}

static const struct http_body_ops rows_ops = { rows_more, rows_close };

void body_rows(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q)
{
	const struct page_query all = { 0 };
	struct rows_body *b;

	if (!body_params_check(reply, q, ""))
		return;
	b = xcalloc(1, sizeof(*b));
	b->ctx = ctx;
	page_init(&b->page, ctx->model, &all);
	http_reply_stream(reply, "application/json", &rows_ops, b);
}
