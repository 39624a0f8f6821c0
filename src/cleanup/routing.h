/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/routing - kube-router's policy routing for direct server return (DSR).
 *
 * Table 78 has one route, local default, for packets with the mark of a service; the rule of table
 * 79 has priority 32765. Up to version 2.5, table 79 has a route out of kube-bridge for each
 * external address of a DSR service. Other rules and routes stay.
 */
#pragma once

#include "cleanup/report.h"
#include "nl/sock.h"

/* `nl` is of NETLINK_ROUTE. The marks are those of the rules of table 78. */
MUST_USE int dsr_marks_read(struct dsr_marks *ret, struct nl_sock *nl, struct err *err);
/* Call last: the rules identify kube-router's virtual services by mark and its rules in mangle. */
MUST_USE int cleanup_routing(struct nl_sock *nl, struct cleanup *c, struct err *err);
