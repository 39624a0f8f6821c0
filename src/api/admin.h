/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/admin - what can be asked of vipd, beside what it knows: PUT (or POST) of the
 * control socket. Services are never changed here.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

/* /v1/log: the areas with their levels; PUT ?area=AREA&level=LEVEL changes one, or all. */
void admin_log(struct http_reply *reply, const struct http_request *q);
/* /v1/doctor: the last results; PUT begins another run. 404 where there are no checks. */
void admin_doctor(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q);
