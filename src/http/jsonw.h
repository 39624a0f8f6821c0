/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/jsonw - writer for JSON, without a tree.
 *
 *     struct jsonw w = { .out = &text };
 *     jsonw_object(&w, NULL);
 *     jsonw_uint(&w, "pid", 17);
 *     jsonw_array(&w, "addresses");
 *     jsonw_text(&w, NULL, "10.0.0.1");
 *     jsonw_end(&w);
 *     jsonw_end(&w);
 *
 * `key` names a member of an object and is NULL in an array. The writer adds commas
 * and escapes; the caller passes keys in objects only and closes all containers.
 * `out` may be replaced or emptied between two calls, to send large documents in pieces.
 *
 * Control characters are escaped and bytes that are not UTF-8 become U+FFFD, so that
 * the result is JSON for any names of users (RFC 8259 section 8.1).
 */
#pragma once

#include "base/ip.h"
#include "base/name.h"
#include "base/str.h"

#define JSONW_DEPTH_MAX 32

struct jsonw {
	struct str *out;
	uint32_t depth;
	uint32_t has_item;             /* bit d: the container of depth d is not empty */
	char closing[JSONW_DEPTH_MAX]; /* '}' or ']' of each depth */
};

void jsonw_object(struct jsonw *w, const char *key);
/* An object, or null. Returns `is_known`: the object is open. */
bool jsonw_object_if(struct jsonw *w, const char *key, bool is_known);
void jsonw_array(struct jsonw *w, const char *key);
/* Close the innermost object or array. */
void jsonw_end(struct jsonw *w);

/* NULL is written as null, here and for names. */
void jsonw_text(struct jsonw *w, const char *key, const char *text);
void jsonw_name(struct jsonw *w, const char *key, const struct name *name);
/* Members "namespace" and "name". */
void jsonw_names(struct jsonw *w, const struct name *ns, const struct name *name);
void jsonw_printf(struct jsonw *w, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void jsonw_uint(struct jsonw *w, const char *key, uint64_t n);
/* `n`, or null. */
void jsonw_uint_if(struct jsonw *w, const char *key, bool is_known, uint64_t n);
void jsonw_int(struct jsonw *w, const char *key, int64_t n);
/* A share from 0 to 1, with six significant digits; below 0: unknown, null. */
void jsonw_share(struct jsonw *w, const char *key, double share);
void jsonw_bool(struct jsonw *w, const char *key, bool is_true);
/* Members "address" and "port". */
void jsonw_endpoint(struct jsonw *w, const struct ip_addr *a, uint16_t port);
/* Members "address", "port" and "protocol". */
void jsonw_frontend(struct jsonw *w, const struct ip_addr *a, uint16_t port, uint8_t proto);
/* An unset address is null. */
void jsonw_addr(struct jsonw *w, const char *key, const struct ip_addr *a);
/* Arrays; unset addresses are omitted. */
void jsonw_addrs(struct jsonw *w, const char *key, const struct ip_addr *v, size_t n);
void jsonw_prefixes(struct jsonw *w, const char *key, const struct ip_prefix *v, size_t n);
