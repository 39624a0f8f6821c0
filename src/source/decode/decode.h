/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/decode - convert Kubernetes objects to the model's.
 *
 *     decode_kind() -> decode_object()
 *
 * One decoder for manifests and for the API; it reads values of decode/tree.h. An object that
 * contradicts itself or the API's rules is rejected, with the exceptions of doc/behaviour.md:
 *
 *   rejected  the whole object: a negative result, `err` is
 *             "spec.ports[2].port: 70000 is not a number from 1 to 65535"
 *   skipped   one entry (SVC-14, SVC-23, EPS-05, EPS-06, EPS-09, EPS-19), or an unknown word
 *             (IN-44: the protocol of a port; a policy gets its default): reported by `note`,
 *             the rest of the object is valid
 *   ignored   a valid object that is not for vipd (EPS-01, IN-04, IN-34): DECODE_IGNORED;
 *             an earlier version of the object is void
 *
 * A null value counts as absent. Fields that vipd does not need are not read (IN-41 to IN-43).
 */
#pragma once

#include <string.h>

#include "base/str.h"
#include "model/model.h"
#include "source/decode/tree.h"

const char *object_kind_text(enum object_kind kind);
/* "Service shop/cart", "Node n1"; "document" without a name. */
void object_title(struct str *ret, enum object_kind kind, const struct name *ns,
		  const struct name *name);

/* One step to a value: a field of an object, or an element of a list. */
struct decode_step {
	const json_t *in;
	const char *key; /* NULL: `in` is a list, the step is `index` */
	size_t index;
};
#define DECODE_STEPS_MAX 10

/* Parameters and position of a decoder; zeroed memory is valid. */
struct decode {
	/* An entry was skipped: "spec.externalIPs[1]: 'abc' is not an IP address, skipped". */
	void (*note)(void *arg, const struct decode *d, const char *text);
	void *arg;
	/* Namespace of objects without one; NULL: such objects are rejected. */
	const char *default_ns;
	bool is_strict; /* reject unknown fields and annotations that are not text: else noted */
	/*
	 * After a rejection and during a note, steps[0] to steps[depth] lead from the object to
	 * the invalid value; steps[0].in is NULL if the object itself is invalid.
	 */
	struct decode_step steps[DECODE_STEPS_MAX];
	size_t depth;
	/* Private to decode/trail.h. */
	struct err *err;
	int r; /* of the first rejection, or 0 */
};

#define DECODE_IGNORED 1

/*
 * Kind of an object in a supported version; OBJECT_KIND_OTHER for other kinds and groups.
 * OBJECT_KIND_LIST also sets `items`: the kind of the list's entries, or OBJECT_KIND_LIST if each
 * entry has its own. -EINVAL: no kind or apiVersion, or an unsupported version of a known kind.
 */
MUST_USE int decode_kind(enum object_kind *ret, enum object_kind *items, const json_t *obj,
			 struct decode *d, struct err *err);
/*
 * Namespace and name of an object that may be invalid otherwise. The caller owns the references;
 * `ns` is NULL for kinds without namespace. -EINVAL: invalid namespace or name.
 */
MUST_USE int decode_key(const struct name **ns, const struct name **name, enum object_kind kind,
			const json_t *obj, struct decode *d, struct err *err);

/*
 * Decode an object of `kind`, one of the four. 0 (sets `ret`), DECODE_IGNORED (slices only), or
 * rejected: -EINVAL, -E2BIG.
 */
MUST_USE int decode_object(struct object *ret, enum object_kind kind, const json_t *obj,
			   struct decode *d, struct err *err);

/*
 * Report fields that the API does not have: one note each (of a list, those of the first element
 * with unknown fields), or -EINVAL for the first one with `is_strict`. `kind` is one of the four.
 */
MUST_USE int decode_fields(enum object_kind kind, const json_t *obj, struct decode *d,
			   struct err *err);

/* Jansson's message without the text it quotes, which may be a secret. */
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
