/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/query - what is asked for: resources, selectors and the parameters of lists and watches.
 *
 * Sections 1.1 and 1.2 of doc/behaviour.md; pure text.
 */
#pragma once

#include "base/str.h"
#include "source/decode/decode.h"

struct kube_resource {
	enum object_kind kind;
	const char *name;
	const char *path;
	const char *old_path; /* where older servers have it, or NULL */
	const char *labels;   /* selectors; NULL: none */
	const char *fields;
	bool is_optional; /* a server without it is complete without it */
};

/* One of the four kinds; never NULL. */
const struct kube_resource *kube_resource(enum object_kind kind);

enum kube_query_kind {
	KUBE_QUERY_LIST = 0,
	KUBE_QUERY_WATCH_LIST, /* a watch that begins with all there is (IN-09) */
	KUBE_QUERY_WATCH,
};

struct kube_query {
	enum kube_query_kind kind;
	const struct kube_resource *resource;
	bool is_old_path;
	const char *node;     /* our own name, for nodes */
	const char *version;  /* the last one known; "": none */
	bool is_version_lost; /* the server does not have it any more: take whatever it has */
	const char *next;     /* continue token, or NULL */
	bool is_unpaged;
	uint64_t timeout_s; /* of a watch, at the server */
};

/* Path and query, as a request has them. */
void kube_query_text(struct str *ret, const struct kube_query *q);
