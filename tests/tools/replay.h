/* SPDX-License-Identifier: GPL-2.0-or-later */
/* replay - see replay.c. */
#pragma once

#include "fake/fake.h"

/* "4": {SET: [[KEY, END, DATA, FLAGS], ...], ...} for one family, to standard output. */
void replay_print(const struct fake *f, enum ipfam fam);
