/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/source - where objects come from: a folder of manifests or the Kubernetes API, behind
 * one set of functions.
 *
 * The options choose: --manifests, or else --kubeconfig, --master or the pod's service account.
 */
#pragma once

#include "settings/options.h"
#include "state/context.h"

struct events;
struct source;

struct source_callbacks {
	void (*ready)(void *arg);   /* once: the first complete list is in the model */
	void (*changed)(void *arg); /* the model, or source_is_complete(), changed */
	/* As kube_callbacks.problems; never called for manifests. */
	void (*problems)(void *arg, struct events *e);
	void *arg;
};

/* Would source_open() read these options? Errors as kubeconfig_open(). */
MUST_USE int source_check(const struct options *options, struct err *err);
/* Everything is borrowed until source_close(). Errors as files_open() and kube_open(). */
MUST_USE int source_open(struct source **ret, struct event_base *base, struct model *m,
			 const struct options *options, const struct source_callbacks *cb,
			 struct err *err);
/* Accepts NULL. The model keeps its objects. */
void source_close(struct source *s);
DEFINE_AUTO(struct source *, source_close);
/* SIGHUP: read files and credentials again, and end the pauses after failures. */
void source_reload(struct source *s);

/* Has the first complete list been delivered? `s` may be NULL: no. */
bool source_is_ready(const struct source *s);
/*
 * Is some version of every object known? `why`, which may be NULL, gets the first object of which
 * none is.
 */
bool source_is_complete(const struct source *s, struct str *why);
/* As kube_status.rejected; `s` may be NULL. */
const char *source_rejected(const struct source *s);
/* Fill `info`; `s` may be NULL: nothing is known. */
void source_describe(const struct source *s, struct serve_source_info *info);
/*
 * Add an error (not served as written) or a note (partly served) about `where`, unless there are
 * too many.
 */
struct serve_source_error *source_remark(struct serve_source_info *info, bool is_error,
					 const char *text, const char *where, ...)
	PRINTF_LIKE(4, 5);
/* Of the kind `i` of objects; false: there is none. `s` may be NULL. */
bool source_stats(const struct source *s, size_t i, struct serve_source_stats *ret);
