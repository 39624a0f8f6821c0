/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/ledger - which objects of a kind the server has, and what was wrong with them.
 *
 *     ledger_list_begin -> ledger_put, ... -> ledger_list_end    a list, complete
 *     ledger_put, ledger_del, ...                                events of a watch
 *
 * Objects go into the model as they come; the ledger keeps their names only,
 * each with the number of the list that last had it. So a list over a model that
 * is full needs no second copy of anything: what is equal changes nothing, and
 * what the list did not mention is deleted at its end (IN-12). A list that broke
 * off deletes nothing.
 *
 * An object that the decoder refuses leaves its last good version in the model.
 * It is named once in the log, and stays listed until it is good or gone.
 *
 * Pure but for the log: time is told by the caller.
 */
#pragma once

#include <jansson.h>

#include "model/model.h"
#include "source/decode/decode.h"

struct str;

/* Texts kept of what is wrong; there may be more objects than texts. */
#define LEDGER_REMARKS_MAX 64

struct ledger_remark {
	const struct name *ns; /* NULL for kinds without */
	const struct name *name;
	bool is_refused; /* else: entries of it were skipped */
	char *text;
};

struct ledger {
	struct model *model;
	enum object_kind kind;
	struct htable keys;
	uint32_t generation;  /* of the last list that was begun */
	bool has_unknown;     /* this list had an object without a name: nothing can be deleted */
	bool is_list_partial; /* the last complete list was such a one */
	size_t n_refused;
	size_t n_unknown;      /* of them: no version was ever good */
	size_t n_remarked;     /* refused, or with entries skipped */
	uint64_t n_unreadable; /* objects and events without a name, ever */
	VEC(struct ledger_remark) remarks;
};

void ledger_init(struct ledger *l, struct model *m, enum object_kind kind);
/* Leaves the model as it is. */
void ledger_fini(struct ledger *l);

/* 1 when anything that matters changed, 0 when not. */
int ledger_put(struct ledger *l, const json_t *obj, uint64_t at_ns);
int ledger_del(struct ledger *l, const json_t *obj, uint64_t at_ns);
/*
 * An object of which only the identity ({"metadata": ...}) can be read, or NULL:
 * not even that.
 */
void ledger_unreadable(struct ledger *l, const json_t *identity, const char *why);

/* Is some version of every object known? `why`, unless NULL, gets the first one that is not. */
bool ledger_is_complete(const struct ledger *l, struct str *why);

void ledger_list_begin(struct ledger *l);
/* The list is complete. The number of objects that were deleted from the model. */
size_t ledger_list_end(struct ledger *l, uint64_t at_ns);
