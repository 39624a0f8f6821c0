/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/query - resources, selectors and the parameters of lists and watches.
 *
 * Sections 1.1 and 1.2 of doc/behaviour.md. No I/O.
 */
#pragma once

#include "base/str.h"
#include "source/decode/decode.h"

struct kube_resource {
	enum object_kind kind;
	const char *name;
	const char *path;
	const char *old_path; /* path of older servers, or NULL */
	const char *labels;   /* selectors; NULL: none */
	const char *fields;   /* field selector, which old servers may reject; NULL: none */
	bool is_optional;     /* a server may lack it, or not permit it */
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
	bool is_unselected;   /* without the resource's `fields` */
	const char *node;     /* name of this node */
	const char *version;  /* last resource version; "": none */
	bool is_version_lost; /* the server has lost `version`: accept any */
	const char *next;     /* continue token, or NULL */
	bool is_unpaged;
	bool has_no_cache;  /* the server sent pages of a list that its cache could have served */
	uint64_t timeout_s; /* timeoutSeconds of a watch */
};

/* The first page of a list with the resource's `fields`? */
bool kube_query_is_selected_list(const struct kube_query *q);
/* Append path and query of the request. */
void kube_query_text(struct str *ret, const struct kube_query *q);
