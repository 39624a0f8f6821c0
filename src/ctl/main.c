/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vipctl - command line client of the vipd of this node. */
#include <signal.h>

#include "ctl/run.h"
#include "doctor/check.h"

int main(int argc, char **argv)
{
	if (check_process(argc, argv))
		return 0;
	(void)signal(SIGPIPE, SIG_IGN); /* write() then fails with EPIPE */
	return command_main(argc, argv);
}
