/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/drain - endpoints drained or ejected by an operator (model/drain.h, model/eject.h) over the
 * control socket.
 *
 * Of drains, a file has one line for each, "NAMESPACE/NAME ADDRESS [POD]". It is rewritten at every
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
/*
 * /v1/ejections: the list, those for failed handshakes included. PUT as of /v1/drains, with the
 * states "ejected" and "admitted". An ejection by an operator ends with this process.
 */
void admin_ejections(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q);
