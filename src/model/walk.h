/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/walk - through all services in slices, while they change in between.
 *
 *     struct walk w = { 0 };
 *     while (walk_services(&w, model, visit, arg, now_ns() + budget))
 *             ... back to the loop ...
 *
 * Services are visited in the order of their bit-reversed hash. When the table
 * doubles, a bucket splits into two that are neighbours in this order, so a position
 * means the same before and after: a service that exists all the time is visited
 * exactly once, one that comes or goes meanwhile at most once.
 *
 * A page is the other thing lists are made of: the first `limit` services after a
 * key that pass a test, sorted. It keeps `limit` keys while it walks, however many
 * services there are. A page of all keeps all keys, sorts them in runs as they come
 * and merges the runs as they are read: n log n, and no long moment in between.
 */
#pragma once

#include "model/model.h"

struct walk {
	uint64_t at; /* bit-reversed hash of the next bucket; 2^32 = the end */
};

/* Whole buckets until `deadline_ns`, at least one. Returns 1 while there are more, 0 at the end. */
int walk_services(struct walk *w, const struct model *m, void (*visit)(void *arg, struct svc *svc),
		  void *arg, uint64_t deadline_ns);

/* A service by name: good over turns of the loop, in which pointers are not. */
struct walk_key {
	uint8_t rank;          /* 0 unless the query ranks; smaller ranks come first */
	const struct name *ns; /* counted */
	const struct name *name;
};

struct page_query {
	/* NULL: all. Services for which it returns false are not counted either. */
	bool (*is_wanted)(void *arg, const struct svc *svc);
	/* Sort by rank first, as it is when the service is visited. NULL: by name alone. */
	uint8_t (*rank)(void *arg, const struct svc *svc);
	void *arg;
	uint8_t after_rank;
	char *after_ns; /* NULL: from the beginning */
	char *after_name;
	size_t limit; /* 0: all that come after the key */
};

struct page {
	struct page_query query;
	const struct model *model;
	struct walk walk;
	VEC(struct walk_key) keys; /* sorted once the walk is over; in runs when all are kept */
	VEC(size_t) heads;         /* of runs: the next key of each, the smallest first */
	size_t n_read;
	size_t n_matching; /* all that are wanted, on whatever page */
	bool has_more;     /* some stand behind the last key */
};

/* `ret` is initialised; takes the texts of the query. */
void page_init(struct page *ret, const struct model *m, const struct page_query *query);
void page_fini(struct page *p);
/* 1 while the walk goes on, 0 when `keys` is complete. */
int page_more(struct page *p, uint64_t deadline_ns);
/* Then: the next key in order, NULL behind the last one. */
const struct walk_key *page_next(struct page *p);
