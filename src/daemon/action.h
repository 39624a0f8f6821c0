/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/action - what vipd does instead of running: --help, --version, --cleanup, --init-only,
 * --write-config-to, --completion.
 */
#pragma once

#include "settings/options.h"

/* Carry out o->action, which is not OPTIONS_RUN. */
MUST_USE int action_run(const struct options *o, struct err *err);
