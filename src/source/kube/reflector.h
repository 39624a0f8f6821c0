/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/reflector - one kind of objects, kept equal to what the server has.
 *
 *          +--> watch-list ---- initial events end --+
 *     start|                                         +--> watch --> watch --> ...
 *          +--> list, page, page ... ---- last page -+      |
 *          ^                                                |
 *          +------------- 410, version lost ----------------+
 *
 * A watch-list (one request, initial state and all that follows) is tried first;
 * a server that refuses it gets the paged list (IN-09). Every end of a request is
 * judged in one place, ended(); what is not a normal end is followed by a pause
 * that doubles (IN-11). Versions only go forward: a list is asked for nothing
 * older than the last one, unless the server has lost it.
 */
#pragma once

#include "source/kube/kube.h"
#include "source/kube/ledger.h"
#include "source/kube/stream.h"
#include "source/kube/transport.h"

struct reflector;

struct reflector_config {
	struct event_base *base;
	struct transport *transport;
	struct access *access;
	struct model *model;
	enum object_kind kind;
	const struct kube_timing *timing;
	bool is_json_only;
	/* Nanoseconds until a list or watch may begin (--kube-api-qps); 0: it counts as begun. */
	uint64_t (*admit)(void *arg);
	void (*listed)(void *arg);  /* each time a list is complete */
	void (*changed)(void *arg); /* the model did */
	void *arg;
};

MUST_USE int reflector_open(struct reflector **ret, const struct reflector_config *config,
			    struct err *err);
/* End a pause: the next request begins in this turn of the loop. */
void reflector_hurry(struct reflector *r);
void reflector_close(struct reflector *r);
bool reflector_is_complete(const struct reflector *r);
const char *reflector_resource(const struct reflector *r);
void reflector_status(const struct reflector *r, struct kube_reflector_status *ret);
const struct ledger *reflector_ledger(const struct reflector *r);
