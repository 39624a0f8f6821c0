/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/control - the control socket: what vipd knows, for vipctl and for tests.
 *
 * HTTP and JSON on a Unix socket, read-only but for admin.h; the requests stand in
 * doc/control-api.md. The socket appears at `path` complete, with mode 0660: it is
 * bound beside it and renamed. A socket that a vipd which is gone left behind is
 * replaced; one that somebody answers on is not.
 */
#pragma once

#include "state/context.h"

struct event_base;
struct serve_control;

/*
 * `ctx` is borrowed. A missing folder of `path` is made, if only the last one is
 * missing. -EADDRINUSE: another process answers there; -EEXIST: what is there is no
 * socket; -ENAMETOOLONG; others as the kernel gives them.
 */
MUST_USE int serve_control_open(struct serve_control **ret, struct event_base *base,
				const struct serve_context *ctx, const char *path, struct err *err);
/* Removes the socket, unless somebody put another in its place. Accepts NULL. */
void serve_control_close(struct serve_control *c);
