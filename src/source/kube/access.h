/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/access - credentials for each request.
 *
 *     access_open -> access_get ... access_get ... -> access_close
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

/* Borrowed until the next call. NULL members: none. */
struct access_grant {
	const struct kubeconfig *where; /* servers and TLS parameters */
	const char *authorization;      /* value of the header */
	const char *ca;                 /* PEM */
	const char *cert;
	const char *key;
};

/* The event `moved` is activated when the kubeconfig names other servers. All is borrowed. */
MUST_USE int access_open(struct access **ret, struct event_base *base,
			 const struct kube_config *config, struct event *moved, struct err *err);
void access_close(struct access *a);
DEFINE_AUTO(struct access *, access_close);

/* The event to activate when requests that wait should call access_get() again. Borrowed. */
void access_wake(struct access *a, struct event *ready);
#define ACCESS_WAIT 1
/* 0; ACCESS_WAIT: a plugin runs first; -errno: no grant. */
MUST_USE int access_get(struct access *a, struct access_grant *ret, struct err *err);
/*
 * 0, or -errno: with the files as last read and without a run of the plugin: the credential may
 * have expired, and there may be none.
 */
MUST_USE int access_get_now(struct access *a, struct access_grant *ret, struct err *err);
/* The server answered 401: discard the output of the plugin. */
void access_reject(struct access *a);
/* Read the kubeconfig and its files again; discard the output of the plugin. */
void access_read_again(struct access *a);
/*
 * Why the kubeconfig or a file of credentials, as read last, is not in force; NULL: all are. They
 * are read with each request.
 */
const char *access_rejected(const struct access *a);
/* The kubeconfig as last read; has at least one server. */
const struct kubeconfig *access_where(const struct access *a);
