/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vipctl - asks the vipd of this node. */
#include <signal.h>

#include "ctl/command.h"

int main(int argc, char **argv)
{
	(void)signal(SIGPIPE, SIG_IGN); /* a reader that is gone is seen where it is written to */
	return command_main(argc, argv);
}
