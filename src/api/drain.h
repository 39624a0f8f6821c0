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

struct drains;
struct model;

/*
 * `changed` is called after changes of the model. `path` may be NULL. An unreadable file and
 * invalid lines are logged and ignored.
 */
void drains_open(struct drains **ret, struct model *m, const char *path, void (*changed)(void *arg),
		 void *arg);
/* Accepts NULL. The file stays. */
void drains_close(struct drains *d);
