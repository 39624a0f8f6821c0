/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/meta - names, labels and text values, for all kinds.
 *
 * Internal to decode/. Everything is borrowed from the JSON object.
 */
#pragma once

#include "source/decode/trail.h"

#define DNS_LABEL_MAX 63
#define DNS_SUBDOMAIN_MAX 253

struct meta {
	const char *ns; /* NULL for kinds without namespace */
	const char *name;
	const json_t *root; /* the object */
	const json_t *obj;  /* its metadata */
};

/*
 * Start the trail, and read namespace and name, valid for `kind` unless d->r is negative. The trail
 * ends at the object itself.
 */
struct meta meta_read(enum object_kind kind, const json_t *obj, struct decode *d, struct err *err);
/* The rest of an object, without its names. decode_slice(): 0, DECODE_IGNORED or d->r. */
void decode_service(struct service *s, const struct meta *m, struct decode *d);
MUST_USE int decode_slice(struct slice *s, const struct meta *m, struct decode *d);
/* Text of metadata.labels[key] (null: "") or metadata.annotations[key]; NULL when absent. */
const char *meta_label(const struct meta *m, const char *key, struct decode *d);
/*
 * Make the value of `list` ("labels" or "annotations") the current field, to reject or note it.
 * trail_out() twice before other fields are read.
 */
void meta_value_at(const struct meta *m, const char *list, const char *key, struct decode *d);
const char *meta_annotation(const struct meta *m, const char *key);

/* Lower-case letters, digits, '-' inside; at most 63. May begin with a digit (SEL-15). */
bool is_dns_label(const char *text);
/* Labels of any length, joined by dots, at most 253 characters. */
bool is_dns_subdomain(const char *text);

/* The field "protocol" (unknown: L4PROTO_UNSET and a note). */
uint8_t trail_proto(struct decode *d, const json_t *obj);
/*
 * The IP address in the current field; `text` NULL: "". False: `text` is not an address, or not of
 * one host (unspecified, multicast, broadcast). This is noted with its effect, or rejected if that
 * is NULL.
 */
bool decode_address(struct ip_addr *ret, const char *text, const char *effect, struct decode *d);
/* The name of a port: "" or a DNS label. A new reference, or NULL: rejected. */
const struct name *decode_port_name(const char *text, struct decode *d);
