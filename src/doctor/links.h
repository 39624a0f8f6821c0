/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/links - links of this host and their addresses, by rtnetlink. */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "nl/sock.h"

#define FACT_UNKNOWN (-1)
#define FACT_NAME_MAX 64

struct fact_link {
	uint32_t index;
	uint32_t master; /* index of the bridge it is a port of; 0: none */
	char name[FACT_NAME_MAX];
	char kind[FACT_NAME_MAX]; /* "bridge", "dummy"; "": none */
	bool is_up;
	int64_t rp_filter; /* this and the next one: of read_files() */
	int64_t route_localnet;
};

struct fact_addr {
	struct ip_addr addr;
	uint8_t prefix_len;
	uint32_t link;
};

/* Zeroed memory is empty. */
struct links {
	VEC(struct fact_link) links;
	VEC(struct fact_addr) addrs;
};

/* `nl` is of NETLINK_ROUTE. */
MUST_USE int links_read(struct links *ret, struct nl_sock *nl, struct err *err);
void links_fini(struct links *l);
