/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/access - what a request needs to get in, fresh whenever it is asked for.
 *
 *     access_open -> access_ask ... grant ... access_ask ... -> access_close
 *
 * Everything may change under a running daemon: the kubeconfig itself, token and
 * certificate files, what an exec plugin says. Each is looked at when a request
 * starts, never by a timer, and what cannot be read leaves the last good one in
 * place: requests are rare, and a watch that is open needs no credential.
 *
 * A plugin's answer is kept until shortly before it expires, counted on the
 * monotonic clock from the moment it came, or until the server says 401.
 */
#pragma once

#include <event2/event.h>

#include "source/kube/kubeconfig.h"

struct access;

struct access_config {
	const char *kubeconfig; /* as kubeconfig_open(); all copied */
	const char *master;
	const char *account_dir;
	uint64_t plugin_timeout_ns;
};

/* Borrowed until the loop is returned to. NULL: none. */
struct access_grant {
	const struct kubeconfig *where; /* servers and how TLS is to be spoken */
	const char *authorization;      /* a header's value */
	const struct str *ca;           /* PEM */
	const struct str *cert;
	const struct str *key;
};

/* `r` is 0, or -errno with `err` and no grant. */
typedef void (*access_fn)(void *arg, int r, const struct access_grant *grant,
			  const struct err *err);

MUST_USE int access_open(struct access **ret, struct event_base *base,
			 const struct access_config *config, struct err *err);
void access_close(struct access *a);

/*
 * `fn` is called once: within this call, or later when a plugin has to be run
 * first. It may ask again but not close.
 */
void access_ask(struct access *a, access_fn fn, void *arg);
/* Forget a question of `arg` that is not answered yet. */
void access_cancel(struct access *a, const void *arg);
/* The server answered 401: what is cached is void. */
void access_reject(struct access *a);
/* Read the kubeconfig and the files it names again; what a plugin said is void. */
void access_read_again(struct access *a);
/* Where the servers are, as last read; never empty. */
const struct kubeconfig *access_where(const struct access *a);
