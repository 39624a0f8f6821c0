/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/drain - endpoints taken out of a service by an operator (model/drain.h): asked
 * for over the control socket, kept in a file.
 *
 * The file has one line for each, "NAMESPACE/NAME ADDRESS [POD]". It is written anew at
 * every change and read at start, before any object is: a restart does not undo what
 * an operator has done. Without a file the list ends with the process.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

struct drains;

/*
 * `changed` is called when the model was changed. `path` may be NULL. A file that cannot be
 * read is named in the log, lines that are none as well; that is no reason not to serve.
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
