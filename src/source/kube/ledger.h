/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/ledger - which objects of one kind the server has, and remarks about invalid objects.
 *
 *     ledger_list_begin -> ledger_put, ... -> ledger_list_end    a list, complete
 *     ledger_put, ledger_del, ...                                events of a watch
 *
 * Objects go into the model at once, which notes the number of the last list that contained each
 * service and slice. A relist therefore needs no second copy of the model: equal objects change
 * nothing, and objects that the list lacks are deleted at its end (IN-12). An incomplete list
 * deletes nothing. The ledger keeps the names of other objects, and of objects with a remark.
 *
 * When the decoder rejects an object, its last good version stays in the model. The rejection is
 * logged once and stays in the status until the object is valid or deleted.
 *
 * No I/O except the log; the caller passes the time.
 */
#pragma once

#include <jansson.h>

#include "model/model.h"
#include "source/decode/decode.h"

struct str;

/* Number of remarks with text; more objects may have remarks. */
#define LEDGER_REMARKS_MAX 64

/*
 * An object on the server with a remark or without a version in the model. The model counts the
 * others as listed (model_list_end()): most objects have no key.
 */
struct ledger_key {
	struct hnode node;
	const struct name *ns; /* NULL for kinds without namespace */
	const struct name *name;
	uint32_t generation;
	bool is_known;    /* a version was valid */
	bool is_listed;   /* by the model, which has a version */
	bool has_remark;  /* with or without a text */
	bool is_rejected; /* the remark is a rejection; else entries were skipped */
	char *text;       /* of the remark; NULL: none, or beyond LEDGER_REMARKS_MAX */
};

struct ledger {
	struct model *model;
	enum object_kind kind;
	struct htable keys;   /* of objects with a remark or without a version in the model */
	uint32_t generation;  /* of the last list */
	bool has_unknown;     /* this list has an object without a name, so it deletes nothing */
	bool is_list_partial; /* has_unknown of the last complete list */
	size_t n_rejected;
	size_t n_unknown;                 /* rejected objects without a good version */
	size_t n_remarked;                /* objects rejected, or with entries skipped */
	uint64_t n_unreadable;            /* objects and events without a name, since start */
	VEC(struct ledger_key *) remarks; /* those with a text */
};

void ledger_init(struct ledger *l, struct model *m, enum object_kind kind);
/* Does not change the model. */
void ledger_fini(struct ledger *l);

/* 1: the model changed; 0: unchanged. */
int ledger_put(struct ledger *l, const json_t *obj, uint64_t at_ns);
int ledger_del(struct ledger *l, const json_t *obj, uint64_t at_ns);
/* Reject an object, of which only the metadata is read; NULL if that is unreadable, too. */
void ledger_unreadable(struct ledger *l, const json_t *obj, const char *why);

/* True if a good version of every object is known. `why`, unless NULL, gets the first one without.
 */
bool ledger_is_complete(const struct ledger *l, struct str *why);

void ledger_list_begin(struct ledger *l);
/* The list is complete. Returns the number of objects deleted from the model. */
size_t ledger_list_end(struct ledger *l, uint64_t at_ns);
/* Number of objects on the server. */
size_t ledger_objects(const struct ledger *l);
