/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/eject - which endpoints get no new connections for a time, because handshakes fail.
 *
 *     eject_failed()     a client's handshake was unanswered or refused: evidence
 *     eject_step()       enough of it: a handshake of this process decides; and probes when due
 *     eject_probed()     its result
 *
 * An endpoint is ejected from a service (model/eject.h) when all of these are true:
 *   - EJECT_MIN handshakes in a row failed within EJECT_EVIDENCE_NS. A handshake that the endpoint
 *     accepts, from any client, through a service of this node, resets the count.
 *   - Another endpoint of the pool accepted a handshake since the first of them.
 *   - Of two handshakes of this process that begin at once, the one with the suspect fails; the
 *     one with the endpoint of the pool that answered last succeeds. So no client, and no policy
 *     against clients or this node, can cause an ejection while the endpoint accepts others.
 *     Otherwise the next two begin after EJECT_PERIOD_NS, and then after twice the time, up to
 *     EJECT_PERIOD_MAX_NS: clients decide neither how often this process connects, nor to how many.
 *
 * A period is EJECT_PERIOD_NS first, and doubles to EJECT_PERIOD_MAX_NS. At its end a handshake of
 * this process probes: an endpoint that answers is admitted. After a period of the maximum another
 * endpoint is probed, too. If neither answers, a policy may forbid the probes: the endpoint is
 * admitted, and clients' handshakes decide. An endpoint that is ejected again within
 * EJECT_MEMORY_NS begins with twice its last period.
 *
 * Pure: no I/O, no clock.
 */
#pragma once

#include "model/eject.h"

#define EJECT_MIN 5u
#define EJECT_EVIDENCE_NS (10 * NSEC_PER_SEC)
#define EJECT_PERIOD_NS (1 * NSEC_PER_SEC)
#define EJECT_PERIOD_MAX_NS (60 * NSEC_PER_SEC)
#define EJECT_MEMORY_NS (60 * NSEC_PER_SEC)
#define EJECT_STEP 16u

struct eject;

/* An endpoint of a service; names are borrowed. */
struct eject_endpoint {
	const struct name *ns;
	const struct name *name;
	struct ip_endpoint by;
};

enum eject_probe {
	EJECT_PROBE_UNSET = 0,
	EJECT_PROBE_ANSWERED,
	EJECT_PROBE_UNANSWERED,
	EJECT_PROBE_REFUSED,
	EJECT_PROBE_UNKNOWN, /* this process cannot connect */
};

struct eject_calls {
	/*
	 * Set the ages of `v`, endpoints of one address family. Negative errno: they are unknown;
	 * the next step retries.
	 */
	int (*answers)(void *arg, struct endpoint_answer *v, size_t n);
	/* Begin a handshake with `to`, about `e`; eject_probed() gets its result, later. */
	void (*probe)(void *arg, const struct eject_endpoint *e, const struct ip_endpoint *to);
	/* An ejection begins, or is over; `e` is valid during the call. */
	void (*changed)(void *arg, const struct model_ejection *e, bool is_over);
	void *arg;
};

/* `m` and `calls` are borrowed. */
void eject_open(struct eject **ret, struct model *m, const struct eject_calls *calls);
/* Ends its ejections. Accepts NULL. */
void eject_close(struct eject *j);
/* Note a failed handshake of a client: refused at `at_ns`, or begun then and unanswered. */
void eject_failed(struct eject *j, const struct svc *svc, const struct ip_endpoint *by,
		  uint64_t at_ns, bool is_refused);
/*
 * Call it after eject_failed(), and a few times per second. A call makes about EJECT_STEP checks
 * and probes; the next call continues.
 */
void eject_step(struct eject *j, uint64_t now);
/* So far, for tests: slices and backends examined. */
uint64_t eject_work(const struct eject *j);
/* `error` is that of connect() or SO_ERROR, 0 for success, ETIMEDOUT after the time limit. */
enum eject_probe eject_probe_of(int error);
void eject_probed(struct eject *j, const struct eject_endpoint *of, const struct ip_endpoint *to,
		  enum eject_probe result, uint64_t now);
