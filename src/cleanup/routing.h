/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/routing - kube-router's policy routing for direct server return (DSR).
 *
 * Table 78 has one route, local default, for packets with the mark of a service; the rule of table
 * 79 has priority 32765. Other rules and routes stay, also routes of table 79 to external IPs:
 * without the rule they have no effect.
 */
#pragma once

#include "cleanup/report.h"
#include "nl/sock.h"

/* `nl` is of NETLINK_ROUTE. */
MUST_USE int cleanup_routing(struct nl_sock *nl, struct report *report, struct err *err);
