/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/link - the dummy device with the service addresses: kube-ipvs0, kube-dummy-if. */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "cleanup/report.h"
#include "nl/sock.h"

struct ipvs_link {
	VEC(struct ip_addr) addrs; /* sorted */
	const char *name;
	int index; /* 0: no such device */
	bool is_dummy;
};

/* `nl` is of NETLINK_ROUTE. The addresses in `ret` are freed by the caller. */
MUST_USE int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl,
			    struct err *err);
bool ipvs_link_has(const struct ipvs_link *l, const struct ip_addr *addr);
/* Delete the device and its addresses. */
MUST_USE int cleanup_link(const struct ipvs_link *l, struct nl_sock *nl, struct report *report,
			  struct err *err);
