/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/manifest - decode the text of one file into objects, in bounded steps.
 *
 *     manifest_open -> manifest_step until 0 -> read units and pieces -> manifest_close
 *
 * A unit is a YAML document, a JSON object or an entry of a JSON list. Its hash recognises
 * unchanged text: if the caller's `known` callback accepts the hash, the unit is not parsed and
 * has no pieces.
 *
 * A piece is one object, valid or not; a list yields one piece for each of its entries. An error
 * in a piece does not affect other pieces, unless the text cannot be divided.
 */
#pragma once

#include "base/vec.h"
#include "source/decode/decode.h"
#include "source/files/cut.h"

/* Documents and list entries that name no kind, before the list's own kind is known. */
#define MANIFEST_PENDING_COST_MAX 500000
#define MANIFEST_PIECES_MAX 250000 /* objects and documents of one file */
#define MANIFEST_NOTES_MAX 1000    /* of one file; further ones are only counted */

enum piece_state {
	PIECE_GOOD,
	PIECE_IGNORED,    /* valid, but not used by vipd; replaces an earlier version */
	PIECE_BAD,        /* invalid, see `why`; its name is known */
	PIECE_UNREADABLE, /* see `why`; may contain any object; its name is a guess */
};

struct piece {
	enum piece_state state;
	enum object_kind kind; /* OTHER if unknown */
	uint32_t line;         /* of the object, counted from the unit's first line */
	uint32_t why_line;     /* of the error, counted likewise */
	const struct name *ns; /* references; NULL: none */
	const struct name *name;
	struct object obj; /* of good pieces */
	char *why;
};

struct unit {
	uint64_t hash; /* 0: equal to no other */
	uint32_t line;
	uint32_t n_pieces;
	uint32_t n_others; /* objects of kinds that are not read */
	uint32_t n_lost;   /* notes beyond MANIFEST_NOTES_MAX; the owner adds errors */
	uint32_t known;    /* result of the caller's `known` */
	/* For the owner of the file (state.h). */
	uint32_t first_entry; /* of n_entries in a row */
	uint32_t n_entries;
	bool is_unreadable; /* may contain any object */
};

struct manifest_problem {
	uint32_t unit;
	uint32_t line; /* counted from the first line of the unit */
	bool is_error; /* false: a part of a valid piece was skipped */
	char *text;    /* "Service shop/cart: spec.externalIPs[0]: ..." */
};

struct manifest_ops {
	cut_read_fn read;
	/* The number of an unused unit with this hash in the last version of the file; 0: none. */
	uint32_t (*known)(void *arg, uint64_t hash);
	void *arg;
	uint64_t key[2]; /* of the hash */
	bool is_json;    /* by the file's name */
	bool is_strict;  /* an unknown field is an error */
};

struct manifest {
	VEC(struct unit) units;
	VEC(struct piece) pieces;
	VEC(struct manifest_problem) notes; /* no errors: those are in `pieces` */
	char other[64];                     /* the first kind that is not read, or "" */
	uint64_t parsed_bytes;              /* approximately, of units that were not known */
};

void manifest_open(struct manifest **ret, const struct manifest_ops *ops);
/* Accepts NULL. Frees the objects that the caller has not taken out of the pieces. */
void manifest_close(struct manifest *m);
DEFINE_AUTO(struct manifest *, manifest_close);

/* 1: more left; 0: complete; -errno: the file could not be read. */
MUST_USE int manifest_step(struct manifest *m, struct err *err);
