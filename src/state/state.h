/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state/state - the state of a service and of each of its ports, and the reason.
 *
 * Computed from the rows (programmed state), and from the object where rows do not
 * suffice. The worst of all paths counts: a port that serves IPv4 and rejects IPv6 has
 * state no-endpoints, and its note names IPv6.
 */
#pragma once

#include "base/str.h"
#include "state/context.h"

/* From good to bad, so that the worst of several is the largest. */
enum serve_state {
	SERVE_STATE_UNSET = 0,
	SERVE_STATE_OK,          /* every path leads to backends */
	SERVE_STATE_NO_SERVICE,  /* slices name a Service that does not exist */
	SERVE_STATE_NOT_PROXIED, /* section 2 of doc/behaviour.md */
	SERVE_STATE_DROPPING,    /* Local policy, endpoints only elsewhere (REJ-02, REJ-03) */
	SERVE_STATE_REJECTING,   /* no usable endpoint (REJ-01) */
	SERVE_STATE_CONFLICT,    /* another service has precedence for a frontend (SEL-14) */
	SERVE_STATE_PENDING,     /* changes are not in the kernel yet */
	SERVE_STATE_REJECTED,    /* rejected by the kernel */
	SERVE_STATE_N,
};

/* "ok", "no-service", "not-proxied" ... */
extern const char *const serve_state_names[SERVE_STATE_N];
/* SERVE_STATE_UNSET when unknown. */
enum serve_state serve_state_parse(const char *text, size_t len);

/* Verdicts of the rows of a service port. */
enum serve_fact {
	SERVE_FACT_BALANCES = 1 << 0,
	SERVE_FACT_REJECTS = 1 << 1,
	SERVE_FACT_DROPS_INTERNAL = 1 << 2, /* the cluster IP, for all clients */
	SERVE_FACT_DROPS_OUTSIDE =
		1 << 3, /* external frontends, for all clients except pods and the host */
	SERVE_FACT_CONFLICTS = 1 << 4,
};

struct serve_port_facts {
	uint8_t fam[IPFAM_N]; /* sets of enum serve_fact */
};

/* An entry of a sorted list. */
struct serve_pair {
	uint32_t key;
	uint32_t index;
};

struct serve_facts {
	enum serve_state state;             /* of the service, the worst of its ports included */
	VEC(struct serve_port_facts) ports; /* as service.ports; empty without an object */
	VEC(struct serve_pair) by_number;   /* ports by kind, protocol and number */
	VEC(struct serve_pair) conflicts;   /* conflicts of rows by port */
	const struct sync_failure *failure; /* borrowed from the sync; NULL: not rejected */
};

/* `ret` is zeroed at first, and may be reused. */
void serve_facts_get(struct serve_facts *ret, const struct serve_context *ctx,
		     const struct svc *svc);
void serve_facts_fini(struct serve_facts *f);

enum serve_state serve_port_state(const struct serve_facts *f, size_t port);
/* Append the reason of the state; for SERVE_STATE_OK only warnings. */
void serve_port_note(struct str *out, const struct serve_facts *f, const struct serve_context *ctx,
		     const struct svc *svc, size_t port);
/* Append the reason that concerns the service as a whole, if any. */
void serve_service_note(struct str *out, const struct serve_facts *f, const struct svc *svc);

#define SERVE_ORPHANED_NODEPORTS "; orphaned frontends may serve them until the sweep"
/*
 * Append why no address serves node ports of the family, and whether orphaned frontends may; false:
 * model_nodeports_failure() is NULL.
 */
bool serve_nodeports_failure(struct str *out, const struct serve_context *ctx, enum ipfam fam);

/* Changes are not in the kernel yet. Audits without a change do not count. */
bool serve_is_pending(const struct svc *svc);
