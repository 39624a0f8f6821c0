/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/drain - endpoints drained by an operator (model/drain.h) over the control socket.
 *
 * A file has one line for each, "NAMESPACE/NAME ADDRESS [POD]". It is rewritten at every
 * change and read at start before the objects, so that drains survive a restart. Without
 * a file the list ends with the process.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

struct drains;

/*
 * `changed` is called after changes of the model. `path` may be NULL. An unreadable file and
 * invalid lines are logged and ignored.
 */
void drains_open(struct drains **ret, struct model *m, const char *path, void (*changed)(void *arg),
		 void *arg);
/* Accepts NULL. The file stays. */
void drains_close(struct drains *d);

/*
 * /v1/drains: the list. PUT with `service`, `endpoint` (a pod's name or an address) and
 * `state`, "drained" or "serving", changes it.
 */
void admin_drains(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q);
