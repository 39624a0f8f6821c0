/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/decode - from Kubernetes JSON to the model's objects.
 *
 *     decode_kind() -> decode_object() or decode_service(), decode_slice(), ...
 *
 * One decoder for manifests and for the API: it works on jansson values, however
 * they were read. It is strict where an object contradicts itself or the API's
 * rules, and tolerant exactly where doc/behaviour.md says so:
 *
 *   refused   the object as a whole: a negative result, `err` reads
 *             "spec.ports[2].port: 70000 is not in 1..65535"
 *   skipped   one entry of it (SVC-14, SVC-23, EPS-05, EPS-06, EPS-09, EPS-19), or a word
 *             that this version does not know (IN-44: a port's protocol; the default of a
 *             policy takes its place):
 *             told through `note`, the rest of the object counts
 *   ignored   a valid object that is not for vipd (EPS-01, IN-04, IN-34): the
 *             result DECODE_IGNORED; what an earlier version said is void
 *
 * A null value counts as absent. Fields that vipd does not need are not looked
 * at (IN-41 to IN-43).
 */
#pragma once

#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "model/object.h"

enum object_kind {
	OBJECT_KIND_OTHER = 0, /* nothing vipd reads */
	OBJECT_KIND_SERVICE,
	OBJECT_KIND_SLICE,
	OBJECT_KIND_NODE,
	OBJECT_KIND_SERVICE_CIDR,
	OBJECT_KIND_LIST, /* "List", "ServiceList", ...: see decode_kind() */
};
const char *object_kind_text(enum object_kind kind);

/* One decoded object of any kind. */
struct object {
	enum object_kind kind;
	union {
		struct service *service;
		struct slice *slice;
		struct node *node;
		struct service_cidr *cidr;
	};
};
/* Frees what `o` holds and leaves it empty; accepts an empty one. */
void object_fini(struct object *o);
static inline void object_fini_auto(struct object *o)
{
	object_fini(o);
}

/* Where in an object the decoder is: a field of an object, or an element of a list. */
struct decode_step {
	const json_t *in;
	const char *key; /* NULL: `in` is a list, `index` counts */
	size_t index;
};
#define DECODE_STEPS_MAX 10

/* What a decoder is told, and where it stands; zeroed memory is valid. */
struct decode {
	/* An entry was skipped: "spec.externalIPs[1]: 'abc' is not an IP address, skipped". */
	void (*note)(void *arg, const struct decode *d, const char *text);
	void *arg;
	/* Namespace of objects that name none; NULL refuses them. */
	const char *default_ns;
	bool is_strict; /* decode_fields() refuses instead of noting */
	/*
	 * After a refusal and during a note, steps[0] to steps[depth] lead from the
	 * object to the value at fault; steps[0].in is NULL when it is the object.
	 */
	struct decode_step steps[DECODE_STEPS_MAX];
	size_t depth;
};

#define DECODE_IGNORED 1

/*
 * What is it? A kind vipd reads, in a version it knows; OBJECT_KIND_OTHER for
 * foreign kinds and groups. OBJECT_KIND_LIST also sets `items`: the kind of the
 * list's entries, OBJECT_KIND_LIST when each names its own. -EINVAL: no kind or
 * apiVersion, or a version of a known kind that is not supported.
 */
MUST_USE int decode_kind(enum object_kind *ret, enum object_kind *items, const json_t *obj,
			 struct decode *d, struct err *err);
/*
 * Namespace and name only, for objects that may be refused otherwise. References
 * for the caller; `ns` is NULL for kinds without. -EINVAL when they are not valid.
 */
MUST_USE int decode_key(const struct name **ns, const struct name **name, enum object_kind kind,
			const json_t *obj, struct decode *d, struct err *err);

/* 0 or DECODE_IGNORED (slices only), `ret` set on 0 only; -EINVAL, -E2BIG refused. */
MUST_USE int decode_service(struct service **ret, const json_t *obj, struct decode *d,
			    struct err *err);
MUST_USE int decode_slice(struct slice **ret, const json_t *obj, struct decode *d, struct err *err);
MUST_USE int decode_service_cidr(struct service_cidr **ret, const json_t *obj, struct decode *d,
				 struct err *err);
/* The same by kind; `kind` is one of the four. */
MUST_USE int decode_object(struct object *ret, enum object_kind kind, const json_t *obj,
			   struct decode *d, struct err *err);

/*
 * Name the fields of an object that the API does not have: a note each (of a list, those of
 * its first element that has some), or with `is_strict` -EINVAL for the first.
 */
MUST_USE int decode_fields(enum object_kind kind, const json_t *obj, struct decode *d,
			   struct err *err);

/* What jansson says, without the text that it quotes: that may be a secret. */
static inline const char *json_error_words(json_error_t *e)
{
	char *quote = strstr(e->text, " near '");

	if (quote != NULL)
		*quote = '\0';
	return e->text;
}

/*
 * RFC 3339 date and time, fractions and offsets included, to Unix nanoseconds.
 * -EINVAL when malformed or outside the years 1678 to 2261.
 */
MUST_USE int decode_time(int64_t *ret_ns, const char *text);
