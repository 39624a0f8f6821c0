/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/kubeconfig - addresses of the API servers and credentials, and the texts they are in.
 *
 * Reads the current context of a kubeconfig, or a pod's service account. Opens no connection and
 * none of the files that a kubeconfig names: they change at run time (see kube/access.h).
 *
 * Secrets: no message of this module quotes a token, a password or a key.
 * Source: k8s.io/client-go tools/clientcmd/api/v1, and the reference page of
 * kubeconfig v1.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#define KUBECONFIG_MAX (1U << 20) /* bytes of the file */
#define KUBECONFIG_SERVERS_MAX 16

/*
 * A token, certificate or key: a small file that other programs replace at run time (a new file, or
 * a changed symbolic link), or only a text. Neither: none.
 */
struct textfile {
	char *path;      /* owned */
	struct str text; /* the text, or the last valid content of the file; empty: not read yet */
};

/* A program that prints an ExecCredential (client.authentication.k8s.io). */
struct kube_exec {
	const char *command; /* with a slash: absolute path; else searched in PATH */
	VEC(const char *) args;
	VEC(const char *) env; /* "NAME=value" */
	const char *api_version;
	const char *install_hint;
	bool needs_cluster; /* provideClusterInfo */
};

struct kubeconfig {
	VEC(char *) servers; /* "https://host:port/prefix", no slash at the end; at least one */
	const char *tls_server_name;
	const char *proxy_url;
	bool is_insecure; /* insecure-skip-tls-verify */
	struct textfile ca;
	struct textfile cert;
	struct textfile key;
	struct textfile token; /* tokenFile precedes token, as in client-go */
	const char *username;
	const char *password;
	struct kube_exec *exec;
	VEC(char *) texts; /* own the other texts, and those of `exec` */
};

/*
 * `master` replaces the servers: URLs separated by commas, in order of preference. With neither
 * `path` nor `master`: the pod's service account in `account_dir`. -EINVAL, -ENOENT, ...: `err`
 * names file, line and field.
 */
MUST_USE int kubeconfig_open(struct kubeconfig **ret, const char *path, const char *master,
			     const char *account_dir, struct err *err);
void kubeconfig_close(struct kubeconfig *k);
DEFINE_AUTO(struct kubeconfig *, kubeconfig_close);

/* Like kubeconfig_open(), from text; `dir` is the base of relative paths. */
MUST_USE int kubeconfig_parse(struct kubeconfig **ret, const char *text, size_t len,
			      const char *dir, const char *master, struct err *err);

bool textfile_is_set(const struct textfile *f);
/*
 * Read the file. 1: content changed; 0: unchanged. On failure, for an empty file (another program
 * is writing it) and for one with a NUL byte, the previous content stays.
 */
MUST_USE int textfile_check(struct textfile *f, size_t max, struct err *err);
void textfile_fini(struct textfile *f);

/*
 * RFC 4648 section 4. Append the decoded `text`; white space is ignored. -EINVAL: `ret` unchanged;
 * the message does not quote the text.
 */
MUST_USE int base64_decode(struct str *ret, const char *text, size_t len, struct err *err);
/* Append the encoded `data`. */
void base64_encode(struct str *ret, const void *data, size_t len);
