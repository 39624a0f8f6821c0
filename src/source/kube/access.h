/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/access - credentials for each request.
 *
 *     access_open -> access_request ... grant ... access_request ... -> access_close
 *
 * The kubeconfig, the token and certificate files and the output of an exec plugin change at run
 * time. Each request checks them; there is no timer: requests are rare, and an open watch needs no
 * credentials. When a file cannot be read, its last valid content stays in use.
 *
 * The output of a plugin is valid until shortly before it expires (monotonic clock, from its
 * arrival), or until the server answers 401.
 */
#pragma once

#include <event2/event.h>

#include "source/kube/kubeconfig.h"

struct access;
struct kube_config;

/* Borrowed for the call of access_fn. NULL members: none. */
struct access_grant {
	const struct kubeconfig *where; /* servers and TLS parameters */
	const char *authorization;      /* value of the header */
	const struct str *ca;           /* PEM */
	const struct str *cert;
	const struct str *key;
};

/* `r` is 0, or -errno with `err` and no grant. */
typedef void (*access_fn)(void *arg, int r, const struct access_grant *grant,
			  const struct err *err);

/* Copies what it needs of `config`. */
MUST_USE int access_open(struct access **ret, struct event_base *base,
			 const struct kube_config *config, struct err *err);
void access_close(struct access *a);
DEFINE_AUTO(struct access *, access_close);

/*
 * Call `fn` once: within this call, or later when a plugin must run first. `fn` may call
 * access_request(), but not access_close().
 */
void access_request(struct access *a, access_fn fn, void *arg);
/*
 * Call `fn` within this call, with the files as last read and without a run of the plugin: the
 * credential may have expired, and there may be none.
 */
void access_request_now(struct access *a, access_fn fn, void *arg);
/* Cancel pending requests with `arg`; NULL: all. */
void access_cancel(struct access *a, const void *arg);
/* The server answered 401: discard the output of the plugin. */
void access_reject(struct access *a);
/*
 * Read the kubeconfig and its files again; discard the output of the plugin. May serve pending
 * requests.
 */
void access_read_again(struct access *a);
/* The kubeconfig as last read; has at least one server. */
const struct kubeconfig *access_where(const struct access *a);
