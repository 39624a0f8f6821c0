/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/trace - /v1/trace: the destination of a connection, and the reason for unused endpoints.
 *
 * The walk over all services and the list of endpoints are cut into pieces; the decision
 * (explain/trace.h) is one piece, whose cost depends on the size of the service.
 */
#pragma once

#include "explain/trace.h"
#include "http/http.h"
#include "http/jsonw.h"
#include "state/context.h"

void body_trace(struct http_reply *reply, const struct serve_context *ctx,
		const struct http_request *q);

/* Write all members except the endpoints into the open object of `w`. */
void view_trace(struct jsonw *w, const struct serve_context *ctx, const struct plan_trace *t);
/* Write an endpoint as an object. */
void view_trace_endpoint(struct jsonw *w, const struct serve_context *ctx,
			 const struct plan_trace *t, const struct plan_trace_endpoint *ep);
