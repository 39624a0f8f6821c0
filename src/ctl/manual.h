/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/manual - vipctl's commands and options as help, as a manual page, and for shells:
 * all from the two tables that the command line is read by.
 */
#pragma once

#include "base/str.h"

struct run;

struct command {
	const char *name;
	const char *args;
	const char *summary;
	const char *options; /* letters of those it knows beside the common ones */
	const char *help;    /* lines, indented by two */
	int (*run)(const struct run *run);
};

enum ctl_option_kind {
	CTL_OPTION_SOME = 0, /* the commands that name its letter take it */
	CTL_OPTION_COMMON,   /* all do */
};

struct ctl_option {
	const char *name; /* long */
	char letter;      /* lower case: also short; upper case: only known by it here */
	const char *arg;  /* NULL: it takes none; "[X]": perhaps one */
	enum ctl_option_kind kind;
	const char *help;
	const char *words; /* that may be its argument, separated by blanks; NULL: anything */
};

/* Tables end with an entry without a name. */
void manual_help(struct str *out, const struct command *commands, const struct ctl_option *options);
void manual_help_command(struct str *out, const struct command *cmd,
			 const struct ctl_option *options);
/* man(7), section 8. */
void manual_man(struct str *out, const struct command *commands, const struct ctl_option *options);
/* A script for "bash", "zsh" or "fish": 0, or -EINVAL for another. */
MUST_USE int manual_completion(struct str *out, const char *shell, const struct command *commands,
			       const struct ctl_option *options);
/* Does `cmd` take it? */
bool manual_takes(const struct command *cmd, const struct ctl_option *option);
