/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/trace - /v1/trace: where a connection would go, and why not to a certain pod.
 *
 * The walk over all services and the list of endpoints are cut into pieces; deciding
 * is one piece, as large as the service that answers. What is decided comes from
 * explain/trace.h, this says it in words.
 */
#pragma once

#include "explain/trace.h"
#include "http/http.h"
#include "http/jsonw.h"
#include "state/context.h"

void body_trace(struct http_reply *reply, const struct serve_context *ctx,
		const struct http_request *q);

/* Everything but the endpoints, as members of the object that `w` is in; `t` is decided. */
void view_trace(struct jsonw *w, const struct serve_context *ctx, const struct plan_trace *t);
/* One endpoint, an object. */
void view_trace_endpoint(struct jsonw *w, const struct plan_trace *t,
			 const struct plan_trace_endpoint *ep);
