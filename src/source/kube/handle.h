/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/handle - a libcurl handle for one request: URL, headers, TLS and proxy. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/kube/access.h"

struct handle {
	CURL *easy; /* NULL: none */
	struct curl_slist *headers;
	struct curl_slist *connect_to;
};

struct handle_config {
	const struct access_grant *grant;
	size_t server; /* index into the grant's servers, modulo their number */
	const char *path;
	const char *accept;
	const char *body; /* JSON for POST; NULL: GET */
	const char *user_agent;
	uint64_t connect_ns;
};

/* The server that `server` of the config selects. */
const char *handle_server(const struct kubeconfig *k, size_t server);
/* Over plain http any host on the way reads credentials: they are sent over https only. */
bool handle_is_tls(const char *server);
/* Copies what it needs of `config`. -EINVAL: the URL cannot be used; `ret` is empty then. */
int handle_open(struct handle *ret, const struct handle_config *config);
/* The handle must not be in a libcurl multi handle. */
void handle_close(struct handle *h);
