/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/handle - a libcurl handle for one request: URL, headers, TLS and proxy. */
#pragma once

#include <curl/curl.h>

#include "base/ip.h"
#include "source/kube/transport.h"

struct handle {
	CURL *easy; /* NULL: none */
	struct curl_slist *headers;
	struct curl_slist *connect_to;
};

/* The server with this index, modulo the number of servers. */
const char *handle_server(const struct kubeconfig *k, size_t server);
/* The address in the URL of a server; -EINVAL: it has a name. */
MUST_USE int handle_server_ip(struct ip_addr *ret, const char *server);
/* Over plain http any host on the way reads credentials: they are sent over https only. */
bool handle_is_tls(const char *server);
/*
 * For a request to server number `server` of the grant; copies what it needs. -EINVAL: the URL
 * cannot be used.
 */
int handle_open(struct handle *ret, const struct access_grant *grant, size_t server,
		const struct http_request *request, uint64_t connect_ns);
/* The handle must not be in a libcurl multi handle. */
void handle_close(struct handle *h);

/*
 * NO_PROXY as in Go (golang.org/x/net/http/httpproxy), whose IPv6 prefixes, bracketed addresses and
 * ports libcurl does not know. Is `host`, a name or an address without brackets, on this host or in
 * `list`? Its entries are "*", an address or a domain, both with an optional port, or a prefix. A
 * domain that begins with a dot is for names below it only. NULL: no list.
 */
bool noproxy_matches(const char *list, const char *host, const char *port);
