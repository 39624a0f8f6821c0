/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/child - run a program with a text as input and read its output. */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * Appends the output to `out`. Returns 0; -ENOENT: no such program in PATH; -EIO: the program
 * failed, its error output is in `err`; another -errno.
 */
MUST_USE int child_run(struct str *out, char *const argv[], const char *in, struct err *err);
