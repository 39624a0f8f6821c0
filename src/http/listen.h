/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/listen - listening TCP sockets. */
#pragma once

#include <stdbool.h>

#include "base/ip.h"

#define LISTEN_RETRY_S 5 /* HC-02: interval of attempts to bind a port in use */

/* An address to listen on; port 0: disabled. */
struct listen_place {
	struct ip_addr addr;
	uint16_t port; /* host order */
};

/*
 * Open a non-blocking listening socket. An IPv6 socket accepts IPv4 only with `is_dual` and
 * the address ::. Returns -errno with the address in `err`.
 */
MUST_USE int listen_tcp(int *ret, const struct listen_place *at, bool is_dual, struct err *err);
