/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/command - vipctl's command line: options, commands, exit codes. */
#pragma once

/* Exit codes; stable, for scripts. */
enum command_exit {
	EXIT_FINE = 0,
	EXIT_PROBLEM = 1, /* not found, or a problem as each command defines it */
	EXIT_USAGE = 2,
	EXIT_NO_VIPD = 3, /* vipd is unreachable, or has another API version */
};

/* vipctl's main(): writes to stdout and stderr, returns the exit code. */
int command_main(int argc, char **argv);
