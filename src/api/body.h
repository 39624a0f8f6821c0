/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body - answers of the control socket, in pieces.
 *
 * Each function turns a request into a reply (http/http.h): a stream, or an error
 * that names the parameter. A stream keeps names and copies between two pieces, never
 * pointers into the model.
 *
 * All except dumps are conditional (api/generation.h).
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

/* /v1/status */
void body_status(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q);
/* /v1/services */
void body_services(struct http_reply *reply, const struct serve_context *ctx,
		   const struct http_request *q);
/* Like body_service(), with NAMESPACE/NAME as one text; 404 also for another form. */
void body_service_path(struct http_reply *reply, const struct serve_context *ctx,
		       const struct http_request *q, const char *key);
/* /v1/dump: every service in full, without ages and times. */
void body_dump(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q);
/* /v1/rows: programmed state of every service, one text per frontend. */
void body_rows(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q);
/* /v1/counts: connections of services and endpoints, as far as the plane counts them. */
void body_counts(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q);
