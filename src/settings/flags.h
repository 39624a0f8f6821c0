/* SPDX-License-Identifier: GPL-2.0-or-later */
/* settings/flags - vipd's flags as a table, for options.c and effective.c. */
#pragma once

#include "cli/cli.h"
#include "settings/options.h"

extern const struct cli vipd_cli; /* settings: struct options */

/* Note a setting without effect, for the warning at the start. */
void options_ignored_add(struct options *o, const char *what, const char *name);
/* The row with the field that `f` sets: of an alias without field, the row with the same member. */
const struct cli_option *options_row(const struct cli_option *f);
/* CFG-45: is this field in the section of a mode that is not in use? */
bool options_is_foreign(const struct options *o, const char *field);
