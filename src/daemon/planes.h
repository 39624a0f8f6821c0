/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/planes - the plane that --proxy-mode chooses, and the end of the other plane.
 *
 * After a change of the mode, kernel state of the other plane serves until the chosen plane does,
 * and its connections go on (plane.h, retire).
 */
#pragma once

#include "plane/plane.h"
#include "settings/options.h"

/* Errors as of the plane's open function. The caller closes it. */
MUST_USE int planes_open(struct plane **ret, const struct options *o, struct err *err);
/*
 * Listen to notifications about foreign changes. Returns the descriptor that becomes readable,
 * which belongs to the plane. On an error, foreign changes are found by polling.
 */
MUST_USE int planes_watch(struct plane *p, struct err *err);

/* --cleanup: remove all state of both planes. */
MUST_USE int planes_cleanup(const struct options *o, struct err *err);

/* Zero it. */
struct other_plane {
	struct plane *plane; /* NULL: not yet opened, or closed */
	uint64_t next_ns;    /* the next step; 0: at once */
	bool is_gone;        /* the kernel has no state of it */
};

/*
 * The chosen plane serves: retire the other one. Returns when to call again (now_ns() terms), 0 =
 * not again. A failure is logged and repeated later.
 */
uint64_t other_plane_retire(struct other_plane *other, const struct options *o,
			    const struct model *m, uint64_t now);
void other_plane_close(struct other_plane *other);
