/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/generation - hash of the status and of counters, and the ETag header. */
#include "api/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/view.h"
#include "base/hash.h"
#include "doctor/helper.h"

#define TAG_MAX 24

/* At a fixed time, an age in the status is an absolute time: it changes only with its event. */
static uint64_t generation(const struct serve_context *ctx)
{
	const struct model_stats *st = &ctx->model->stats;
	const struct view_totals uncounted = { 0 };
	FINI(str_fini) struct str status = { 0 };
	struct jsonw w = { .out = &status };
	uint64_t h = ctx->checks != NULL ? check_helper_state(ctx->checks).runs : 0;

	view_status(&w, ctx, &uncounted, false, UINT64_MAX);
	h = hash_bytes_fixed(st, sizeof(*st), h, ctx->model->env_generation);
	return hash_bytes_fixed(status.text, status.len, h, 0);
}

bool serve_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q)
{
	char tag[TAG_MAX];

	(void)snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", generation(ctx));
	str_printf(&reply->headers, "ETag: %s\r\n", tag);
	if (q->if_none_match == NULL || strstr(q->if_none_match, tag) == NULL)
		return false;
	reply->status = 304;
	reply->type = "application/json";
	return true;
}
