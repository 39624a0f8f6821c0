/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/reflector - list and watch one kind of objects.
 *
 *          +--> watch-list ---- initial events end --+
 *     start|                                         +--> watch --> watch --> ...
 *          +--> list, page, page ... ---- last page -+      |
 *          ^                                                |
 *          +------------- 410, version lost ----------------+
 *
 * The first request is a watch-list (initial state and all later events); a server that does not
 * support it gets paged lists (IN-09). ended() handles the end of every request; a pause that
 * doubles follows each failure (IN-11). Versions only go forward: a list must not be older than
 * the last version, unless the server has lost that version.
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
	/* Nanoseconds until a list or watch may begin (--kube-api-qps); 0: begin now, counted. */
	uint64_t (*admit)(void *arg);
	void (*answered)(void *arg); /* the server sends a list or watch */
	void (*listed)(void *arg);   /* a list is complete */
	void (*changed)(void *arg);  /* the model changed, or its completeness */
	void *arg;
};

void reflector_open(struct reflector **ret, const struct reflector_config *config);
/* End a pause: the next request begins in this turn of the event loop. */
void reflector_hurry(struct reflector *r);
/* Versions of the previous servers have no meaning: list. */
void reflector_other_servers(struct reflector *r);
/* The server has answered another request: end a pause after a failure to reach it. */
void reflector_server_is_back(struct reflector *r);
void reflector_close(struct reflector *r);
bool reflector_is_complete(const struct reflector *r);
void reflector_status(const struct reflector *r, struct kube_reflector_status *ret);
const struct ledger *reflector_ledger(const struct reflector *r);
