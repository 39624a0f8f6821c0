/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/listen - TCP sockets that wait for connections.
 */
#pragma once

#include <stdbool.h>

#include "base/ip.h"

#define LISTEN_RETRY_S 5 /* HC-02: how soon a place that was taken is tried again */

/* An address to listen on; port 0: not at all. */
struct listen_place {
	struct ip_addr addr;
	uint16_t port; /* host order */
};

/*
 * A socket that listens and does not block. An IPv6 socket takes IPv4 too only when
 * `is_dual` and the address is ::. -errno, with `err` naming the place.
 */
MUST_USE int listen_tcp(int *ret, const struct listen_place *at, bool is_dual, struct err *err);
