/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/failover - which TCP handshakes without an answer, and flows of UDP without a reply,
 * get another backend, and which one.
 *
 *     failover_take()       older than the limit, and not yet taken since its last SYN
 *     failover_note()       its backend is silent; for all taken handshakes first
 *     failover_choose()     another backend of the pool, or none
 *
 * A client repeats its SYN after 1, 3, 7 s. If the flow was deleted before, the repeated SYN is a
 * first packet again. Each move doubles the time that the next backend has: where every backend
 * needs longer than the limit to answer, one of them gets that time. A handshake moves to a backend
 * that it has not tried, and only then to the one that it tried longest ago. Backends that were
 * silent within FAILOVER_SILENT_NS are chosen last. Where all others are silent they may all answer
 * late, and the handshake stays until FAILOVER_WAIT_NS after its SYN.
 *
 * A frontend with externalTrafficPolicy Local has a pool for clients outside of the cluster and
 * one for pods and this host. A flow does not show by which of them it was balanced. If its
 * backend is in the local pool, the new one is too: both kinds of clients may get it.
 *
 * A flow of UDP may be one that expects no reply. It only moves to a backend that replied to
 * another flow within FAILOVER_SILENT_NS. It has a limit of its own, is no evidence of silence, and
 * makes no backend silent. "Handshake" includes flows of UDP below, unless TCP is named.
 *
 * Pure: no I/O, no clock. Memory is bounded; the oldest entries are forgotten first.
 */
#pragma once

#include "plan/plan.h"

#define FAILOVER_DOUBLINGS 3u
#define FAILOVER_PATIENCE_NS (4 * NSEC_PER_SEC)
/* The longest limit for a backend that an update removed: less than the client's first repetition.
 */
#define FAILOVER_REMOVED_NS (500 * NSEC_PER_MSEC)
/*
 * A handshake is forgotten after this time, so that a client that connects again from the same port
 * begins anew; with a long limit after FAILOVER_FORGET_LIMITS limits, so that all SYNs of a
 * handshake come before.
 */
#define FAILOVER_FORGET_NS (10 * NSEC_PER_SEC)
#define FAILOVER_FORGET_LIMITS 8
#define FAILOVER_SILENT_NS (10 * NSEC_PER_SEC)
/* More than the client's first repetition (1 s), less than its second (3 s). */
#define FAILOVER_WAIT_NS (2 * NSEC_PER_SEC)

struct failover;

struct failover_choice {
	const struct svc *svc;
	const struct plan_pool *pool; /* borrowed from the programmed rows */
	struct plan_backend from;     /* aff_id 0: no longer in the pool */
	struct plan_backend to;
};

/* A backend that left a handshake unanswered within FAILOVER_SILENT_NS. */
struct failover_silence {
	const struct name *ns; /* of the service of the first handshake; borrowed */
	const struct name *name;
	struct ip_endpoint by;
	uint64_t unanswered; /* SYNs without an answer that were due */
	uint64_t since_ns;   /* now_ns() of the first, and of the last one */
	uint64_t last_ns;
};

/* `is_over`: no handshake was left unanswered for FAILOVER_SILENT_NS. */
typedef void failover_silence_fn(void *arg, const struct failover_silence *s, bool is_over);

/* A handshake of a client failed: a SYN of `at_ns` is unanswered, or was refused at that time. */
typedef void failover_failed_fn(void *arg, const struct svc *svc, const struct ip_endpoint *by,
				uint64_t at_ns, bool is_refused);

/* `plan` is borrowed. `fn`, or NULL, is called when a backend becomes silent, and when it recovers.
 */
void failover_open(struct failover **ret, const struct plan *plan, uint64_t limit_ns,
		   failover_silence_fn *fn, void *arg);
/* Call `fn` for each handshake that fails at a backend of its pool. */
void failover_watch(struct failover *f, failover_failed_fn *fn, void *arg);
/* Move flows of UDP, too. */
void failover_udp(struct failover *f, uint64_t limit_ns);
/* The backend replied to a flow of UDP, at `at_ns`. */
void failover_replied(struct failover *f, const struct ip_endpoint *by, uint64_t at_ns,
		      uint64_t now);
void failover_close(struct failover *f);

/*
 * Is `h` due? `age_ns` is the time since the SYN that made the flow. True once for each SYN, also
 * when the kernel lists the handshake twice. True again if the handshake stayed and its pool has
 * got another backend, or FAILOVER_WAIT_NS is over. From FAILOVER_REMOVED_NS on also before the
 * limit: once, and after each programming of rows, which may have removed the backend.
 */
bool failover_take(struct failover *f, const struct ip_flow *h, uint64_t age_ns, uint64_t now);
/* Other rows of a service are programmed. */
void failover_accepted(struct failover *f, uint64_t now);
/* The flow of `h`, which was taken, was sent to `by`, without an answer until `now`. */
void failover_note(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		   uint64_t now);
/*
 * Which backend does the flow move to? False: it stays; so does one that is not due and whose
 * backend was not removed.
 */
bool failover_choose(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		     uint64_t now, struct failover_choice *ret);
/*
 * `by` refused `h` between `at_ns` and `until_ns`; the same refusal may be reported again within
 * FAILOVER_FORGET_NS.
 */
void failover_refused(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		      uint64_t at_ns, uint64_t until_ns, uint64_t now);
/* End silences; to be called now and then. */
void failover_tick(struct failover *f, uint64_t now);
/* Is the backend silent? NULL: no. Valid until the next call that is not const. */
const struct failover_silence *failover_silence(const struct failover *f,
						const struct ip_addr *addr, uint16_t port);
size_t failover_n_silent(const struct failover *f);
/* SYNs without an answer that were due, since the start. */
uint64_t failover_unanswered(const struct failover *f);
/* Is `to` in a pool of the handshake's frontend? */
bool failover_has(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *to);
/*
 * The work of all calls so far: backends examined, searches for a backend, and re-checks of
 * handshakes that stayed; a unit is about 50 ns. failover_take() includes what its flow will cause.
 */
uint64_t failover_work(const struct failover *f);
/* The step that took `h` failed: it is due again. */
void failover_again(struct failover *f, const struct ip_flow *h);
