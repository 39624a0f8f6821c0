/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/admin - requests with effects (PUT or POST) of the control socket: log levels and
 * node checks. They do not change services.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

/* /v1/log: the areas with their levels; PUT ?area=AREA&level=LEVEL changes one, or all. */
void admin_log(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q);
/* /v1/doctor: the last results; PUT starts another run. 404 without checks. */
void admin_doctor(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q);
