/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/meta - what all objects have in common: names, labels, values of text.
 *
 * Internal to decode/. Everything is borrowed from the JSON object.
 */
#pragma once

#include "source/decode/trail.h"

#define DNS_LABEL_MAX 63
#define DNS_SUBDOMAIN_MAX 253

struct meta {
	const char *ns; /* NULL for kinds without */
	const char *name;
	const json_t *root; /* the object ... */
	const json_t *obj;  /* ... and its metadata */
};

/* Namespace and name, valid for `kind`. The trail ends at the object itself. */
MUST_USE int meta_read(struct meta *ret, enum object_kind kind, const json_t *obj, struct decode *d,
		       struct err *err);
/* Text of metadata.labels[key] or metadata.annotations[key]; NULL when absent. */
MUST_USE int meta_label(const char **ret, const struct meta *m, const char *key, struct decode *d,
			struct err *err);
/* Go back to that label, to refuse or note it; the object is done with then. */
void meta_label_at(const struct meta *m, const char *key, struct decode *d);
const char *meta_annotation(const struct meta *m, const char *key);

/* Lower-case letters, digits, '-' inside; at most 63. A first digit is fine (SEL-15). */
bool is_dns_label(const char *text);
/* Such labels of any length, joined by dots, at most 253 in all. */
bool is_dns_subdomain(const char *text);

/*
 * A protocol (L4PROTO_UNSET with a note: unknown) and an address as services and slices spell them,
 * at the current field. decode_address() takes no address that cannot be one host: unspecified,
 * multicast, broadcast. Its -EINVAL leaves the decision to the caller; `err`
 * has no path.
 */
MUST_USE int trail_proto(uint8_t *ret, struct decode *d, const json_t *obj, struct err *err);
MUST_USE int decode_address(struct ip_addr *ret, const char *text, struct err *err);
/* The name of a port: "" or a DNS label. A new reference. */
MUST_USE int decode_port_name(const struct name **ret, const char *text, struct decode *d,
			      struct err *err);
