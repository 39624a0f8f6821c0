/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/noproxy - NO_PROXY as in Go (golang.org/x/net/http/httpproxy), whose IPv6 prefixes,
 * bracketed addresses and ports libcurl does not know. No I/O.
 */
#pragma once

#include <stdbool.h>

/*
 * Is `host`, a name or an address without brackets, on this host or in `list`? Its entries are "*",
 * an address or a domain, both with an optional port, or a prefix. A domain that begins with a dot
 * is for names below it only. NULL: no list.
 */
bool noproxy_matches(const char *list, const char *host, const char *port);
