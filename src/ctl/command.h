/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/command - vipctl's command line: options, commands, exit codes.
 */
#pragma once

/* What scripts may rely on. */
enum command_exit {
	EXIT_FINE = 0,
	EXIT_PROBLEM = 1, /* not found, or `status` has something to complain about */
	EXIT_USAGE = 2,
	EXIT_NO_VIPD = 3, /* vipd cannot be reached, or speaks another version */
};

/* All of vipctl but the process: writes to stdout and stderr, returns the exit code. */
int command_main(int argc, char **argv);
