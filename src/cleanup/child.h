/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/child - run a program, give it a text, and have what it printed.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * `out` is appended to. Returns 0; -ENOENT when there is no such program in PATH; -EIO when
 * it failed, `err` with its own words; other -errno.
 */
MUST_USE int child_run(struct str *out, char *const argv[], const char *in, struct err *err);
