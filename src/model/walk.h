/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/walk - iterate over all services in time slices while services change in between.
 *
 *     struct walk w = { 0 };
 *     while (walk_services(&w, model, visit, arg, now_ns() + budget))
 *             ... back to the loop ...
 *
 * Services are visited in the order of their bit-reversed hash. When the table
 * grows, a bucket splits into two that are neighbours in this order, so a position stays
 * valid: a service that exists during the whole walk is visited exactly once, a service
 * added or removed meanwhile at most once.
 *
 * A page is the first `limit` services after a key that match a filter, sorted. It keeps
 * `limit` keys in a heap while it walks, however many services exist; then it sorts them:
 * n log n in short steps.
 */
#pragma once

#include "model/model.h"

struct walk {
	uint64_t at; /* bit-reversed hash of the next bucket; 2^32 = the end */
};

/* Whole buckets until `deadline_ns`, at least one. Returns 1 while there are more, 0 at the end. */
int walk_services(struct walk *w, const struct model *m, void (*visit)(void *arg, struct svc *svc),
		  void *arg, uint64_t deadline_ns);

/* A service by name: stays valid across turns of the loop, unlike a pointer. */
struct walk_key {
	uint8_t rank;          /* 0 unless the query ranks; smaller ranks come first */
	const struct name *ns; /* counted */
	const struct name *name;
};

struct page_query {
	/* Selects the services, also those that are counted. NULL: all. */
	bool (*is_wanted)(void *arg, const struct svc *svc);
	/* Sort key before the name, read when the service is visited. NULL: by name alone. */
	uint8_t (*rank)(void *arg, const struct svc *svc);
	void *arg;
	uint8_t after_rank;
	char *after_ns; /* NULL: from the beginning */
	char *after_name;
	size_t limit; /* 0: none */
};

struct page {
	struct page_query query;
	const struct model *model;
	struct walk walk;
	VEC(struct walk_key) keys;
	size_t n_heap; /* the first of them are a heap, the others are sorted, and larger */
	size_t n_read;
	size_t n_matching; /* matches of the filter on all pages */
	bool has_more;     /* keys after the last one exist */
};

/* Initialises `ret`; takes ownership of the query's texts. */
void page_init(struct page *ret, const struct model *m, const struct page_query *query);
void page_fini(struct page *p);
/* 1 while the walk or the sort goes on, 0 when `keys` is complete. */
int page_more(struct page *p, uint64_t deadline_ns);
/* After page_more() returned 0: the next key in order, NULL after the last one. */
const struct walk_key *page_next(struct page *p);
