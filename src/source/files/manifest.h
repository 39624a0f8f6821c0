/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/manifest - one file's text to objects, a bounded piece of work at a time.
 *
 *     manifest_open -> manifest_step until 0 -> look at units and pieces -> manifest_close
 *
 * A unit is what is recognised by its text when it did not change: a document of
 * YAML, an object of JSON, or an entry of a JSON list. The caller is asked by
 * hash whether it knows a unit; then the unit is not parsed and has no pieces.
 *
 * A piece is one object, or what was to be one: a list yields one piece for each
 * of its entries. Whatever is wrong with a piece is told in it and touches no
 * other one, as far as the text lets its parts be told apart.
 */
#pragma once

#include "base/vec.h"
#include "source/decode/decode.h"
#include "source/files/cut.h"

/* Documents and list entries that name no kind, before the list's own kind is known. */
#define MANIFEST_PENDING_COST_MAX 500000
#define MANIFEST_PIECES_MAX 250000 /* objects, and documents, of one file */
#define MANIFEST_NOTES_MAX 1000    /* kept of one file; more are counted */

enum piece_state {
	PIECE_GOOD,
	PIECE_IGNORED,    /* valid, not for vipd; what an earlier version said is void */
	PIECE_BAD,        /* `why` tells; its name is known */
	PIECE_UNREADABLE, /* `why` tells; nobody knows which objects it holds; a name is a guess */
};

struct piece {
	enum piece_state state;
	enum object_kind kind; /* OTHER when not even that is known */
	uint32_t unit;
	uint32_t line;         /* of the object, counted from the unit's first line */
	uint32_t why_line;     /* of what is wrong; the same count */
	const struct name *ns; /* references; NULL when there is none */
	const struct name *name;
	struct object obj; /* of good pieces */
	char *why;
};

struct unit {
	uint64_t hash; /* 0: never the same as another */
	uint32_t line;
	uint32_t n_pieces;
	uint32_t n_others; /* objects of kinds that are not read */
	size_t known;      /* what the caller said */
};

/* Something was skipped; the piece is good nevertheless. */
struct manifest_note {
	uint32_t unit;
	uint32_t line;
	char *text; /* "Service shop/cart: spec.externalIPs[0]: ..." */
};

struct manifest_ops {
	cut_read_fn read;
	/* Has the last reading a unit with this hash, not asked for yet? 0: no, else the answer. */
	size_t (*known)(void *arg, uint64_t hash);
	void *arg;
	uint64_t key[2]; /* of the hash */
	bool is_json;    /* what the file's name says */
	bool is_strict;  /* an unknown field is bad */
};

struct manifest {
	VEC(struct unit) units;
	VEC(struct piece) pieces;
	VEC(struct manifest_note) notes;
	size_t n_notes_lost;        /* beyond MANIFEST_NOTES_MAX */
	char other[64];             /* the first kind that is not read, or "" */
	uint64_t parsed_bytes;      /* about: of units that were not known */
	struct manifest_work *work; /* private */
};

void manifest_open(struct manifest **ret, const struct manifest_ops *ops);
/* Accepts NULL. Frees what the caller did not take out of the pieces. */
void manifest_close(struct manifest *m);
DEFINE_AUTO(struct manifest *, manifest_close);

/* 1: there is more; 0: done; -errno: the reading failed, the text is not known. */
MUST_USE int manifest_step(struct manifest *m, struct err *err);

/* "Service shop/cart", "Node n1"; "document" without a name. */
void object_title(struct str *ret, enum object_kind kind, const struct name *ns,
		  const struct name *name);
