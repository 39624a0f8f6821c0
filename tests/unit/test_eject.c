/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/eject, model/eject: evidence, periods and limits, with the real plan and sync. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "conntrack/eject.h"
#include "mock_plane.h"
#include "objects.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)
#define MS NSEC_PER_MSEC

struct world {
	struct model m;
	struct plan p;
	struct mock_plane k;
	struct sync *s;
	struct eject *j;
	struct eject_calls calls;
	uint64_t now;
	uint64_t answered_ns[256]; /* by the last byte of an endpoint's address */
	int answers_fail;          /* negative errno */
	unsigned int n_probes;
	unsigned int n_about[256];    /* probes about an endpoint, as answered_ns */
	unsigned int n_answers;       /* calls of answers() */
	struct eject_endpoint probed; /* the last one */
	struct ip_endpoint to;
	struct ip_endpoint to_before; /* of the last but one */
	unsigned int n_begun;
	unsigned int n_over;
};

static size_t n_selected; /* endpoints */

void __real_select_endpoints(struct selection *ret, const struct model *m, const struct svc *svc,
			     size_t port, enum ipfam fam);
void __wrap_select_endpoints(struct selection *ret, const struct model *m, const struct svc *svc,
			     size_t port, enum ipfam fam);

void __wrap_select_endpoints(struct selection *ret, const struct model *m, const struct svc *svc,
			     size_t port, enum ipfam fam)
{
	__real_select_endpoints(ret, m, svc, port, fam);
	n_selected += ret->endpoints.n;
}

static int answers(void *arg, struct endpoint_answer *v, size_t n)
{
	struct world *w = arg;

	w->n_answers++;
	for (size_t i = 0; i < n; i++) {
		const struct ip_addr *addr = &v[i].by.addr;
		uint64_t at_ns = w->answered_ns[addr->bytes[ip_len(ip_fam(addr)) - 1]];

		assert_int_equal(addr->family, v[0].by.addr.family);
		v[i].age_ns = at_ns != 0 ? w->now - at_ns : UINT64_MAX;
	}
	return w->answers_fail;
}

static void probe(void *arg, const struct eject_endpoint *e, const struct ip_endpoint *to)
{
	struct world *w = arg;

	w->n_probes++;
	w->n_about[e->by.addr.bytes[3]]++;
	w->probed = *e;
	w->to_before = w->to;
	w->to = *to;
}

static void changed(void *arg, const struct model_ejection *e, bool is_over)
{
	struct world *w = arg;

	assert_string_equal(e->name->text, "a");
	w->n_begun += !is_over;
	w->n_over += is_over;
}

static void put(struct world *w, const char *service, const char *slice)
{
	(void)model_put_service(&w->m, test_service("a", service), 1);
	(void)model_put_slice(&w->m, test_slice("a1", "a", slice), 1);
	sync_settle(w->s, w->now);
}

#define SVC "ip=10.96.0.1 port=web:80"
#define P "| web:8080 |"
#define THREE P "1 rs; 2 rs; 3 rs"

static void world_init(struct world *w, const char *slice)
{
	struct sync_config config = { 0 };

	*w = (struct world){ .now = T0, .calls = { answers, probe, changed, w } };
	log_level_set_all(LOG_LEVEL_ERR - 1);
	mock_init(&w->k);
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	model_configured(&w->m);
	plan_init(&w->p, &w->m, &mock_plane_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, &config);
	eject_open(&w->j, &w->m, &w->calls);
	sync_sources_ready(w->s);
	put(w, SVC, slice);
}

static void world_fini(struct world *w)
{
	eject_close(w->j);
	assert_int_equal(w->m.ejections.n, 0);
	sync_close(w->s);
	plan_fini(&w->p);
	model_fini(&w->m);
	mock_fini(&w->k);
	log_level_set_all(LOG_LEVEL_NOTICE);
	assert_int_equal(name_count(), 0);
}

static struct svc *svc_of(struct world *w)
{
	return model_find_text(&w->m, "default", "a");
}

static struct ip_endpoint at(unsigned int n)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "10.0.1.%u", n);
	return (struct ip_endpoint){ test_addr(text), 8080, 0 };
}

/* `count` handshakes fail at endpoint `n`, one per millisecond. */
static void failures(struct world *w, unsigned int n, unsigned int count, bool is_refused)
{
	struct ip_endpoint by = at(n);

	for (unsigned int i = 0; i < count; i++)
		eject_failed(w->j, svc_of(w), &by, w->now += MS, is_refused);
}

static void step(struct world *w)
{
	eject_step(w->j, w->now);
	sync_settle(w->s, w->now);
}

/* The result of the last probe. */
static void probed(struct world *w, enum eject_probe result)
{
	eject_probed(w->j, &w->probed, &w->to, result, w->now);
	sync_settle(w->s, w->now);
}

/* Results of the suspect and of the other endpoint, which were probed at once, in any order. */
static void confirmed(struct world *w, enum eject_probe own, enum eject_probe other)
{
	if (w->n_probes % 4 == 0)
		probed(w, own);
	eject_probed(w->j, &w->probed, &w->to_before, other, w->now);
	if (w->n_probes % 4 != 0)
		probed(w, own);
	sync_settle(w->s, w->now);
}

/* Endpoints that are programmed, "1 2 3". */
static void assert_serving(struct world *w, const char *want)
{
	const struct plan_rows *rows = svc_of(w)->rows;
	struct str text = { 0 };

	for (unsigned int n = 1; n < 10; n++)
		vec_for_each (b, &rows->pools.v[0].backends)
			if (b->addr.bytes[3] == n)
				str_printf(&text, "%s%u", text.len > 0 ? " " : "", n);
	assert_string_equal(str_text(&text), want);
	str_fini(&text);
}

/* Endpoint `n` is ejected: 5 failures, another one answers, the probe fails, but not the other's.
 */
static void eject(struct world *w, unsigned int n)
{
	unsigned int before = w->n_probes;

	failures(w, n, EJECT_MIN, false);
	w->answered_ns[9] = w->now;
	step(w);
	assert_int_equal(w->n_probes, before + 2);
	assert_int_equal(w->to.addr.bytes[3], n);
	assert_int_equal(w->to_before.addr.bytes[3], 9);
	confirmed(w, EJECT_PROBE_UNANSWERED, EJECT_PROBE_ANSWERED);
}

#define NINE P "1 rs; 2 rs; 3 rs; 9 rs"

/* CT-26, CT-27: ejected, and admitted by the first probe that is answered. */
static void test_ejected(void **state)
{
	struct str text = { 0 };
	struct world w;

	(void)state;
	world_init(&w, NINE);
	eject(&w, 2);
	assert_serving(&w, "1 3 9");
	assert_int_equal(w.n_begun, 1);
	model_ejection_text(&text, &w.m.ejections.v[0], w.now);
	assert_string_equal(text.text,
			    "ejected: 6 handshakes in a row unanswered, next probe in 1 s");
	str_fini(&text);
	w.now += EJECT_PERIOD_NS - MS;
	step(&w);
	assert_int_equal(w.n_probes, 2);
	w.now += MS;
	step(&w);
	assert_int_equal(w.n_probes, 3);
	assert_int_equal(w.to.addr.bytes[3], 2);
	step(&w); /* one probe at a time */
	assert_int_equal(w.n_probes, 3);
	assert_serving(&w, "1 3 9");
	probed(&w, EJECT_PROBE_ANSWERED);
	assert_serving(&w, "1 2 3 9");
	assert_int_equal(w.n_over, 1);
	world_fini(&w);
}

/*
 * CT-27: 1 s to 60 s. The endpoint stays ejected while another one answers this process; if none
 * does, clients decide, and the next ejection lasts as long.
 */
static void test_periods(void **state)
{
	static const unsigned int periods[] = { 1, 2, 4, 8, 16, 32, 60, 60, 60, 60 };
	static const unsigned int shorter = 6;
	struct world w;

	(void)state;
	world_init(&w, NINE);
	eject(&w, 2);
	for (unsigned int i = 0; i < ARRAY_SIZE(periods); i++) {
		unsigned int before = w.n_probes;

		assert_serving(&w, "1 3 9");
		assert_int_equal(w.m.ejections.v[0].probe_ns, w.now + periods[i] * NSEC_PER_SEC);
		w.now += periods[i] * NSEC_PER_SEC;
		w.answered_ns[3] = w.now; /* the last one: 9 had answered before */
		w.answers_fail = i == shorter + 1 ? -EAGAIN : 0; /* then any other */
		step(&w);
		assert_int_equal(w.n_probes, before + (i < shorter ? 1 : 2));
		probed(&w, i % 2 == 0 ? EJECT_PROBE_UNANSWERED : EJECT_PROBE_REFUSED);
		if (i < shorter)
			continue;
		assert_int_equal(w.to_before.addr.bytes[3], w.answers_fail < 0 ? 1 : 3);
		eject_probed(w.j, &w.probed, &w.to_before,
			     i + 1 < ARRAY_SIZE(periods) ? EJECT_PROBE_ANSWERED
							 : EJECT_PROBE_UNANSWERED,
			     w.now);
		sync_settle(w.s, w.now);
	}
	assert_serving(&w, "1 2 3 9");
	assert_int_equal(w.n_over, 1);
	eject(&w, 2);
	assert_int_equal(w.m.ejections.v[0].probe_ns, w.now + EJECT_PERIOD_MAX_NS);
	w.now += EJECT_PERIOD_MAX_NS;
	put(&w, SVC, P "2 rs; 3 rs"); /* no endpoint answered in the last seconds: any */
	step(&w);
	assert_int_equal(w.to_before.addr.bytes[3], 3);
	probed(&w, EJECT_PROBE_ANSWERED); /* does not wait for the other one */
	assert_int_equal(w.n_over, 2);
	put(&w, SVC, NINE);
	w.now += EJECT_MEMORY_NS + MS; /* forgotten */
	step(&w);
	eject(&w, 2);
	assert_int_equal(w.m.ejections.v[0].probe_ns, w.now + EJECT_PERIOD_NS);
	world_fini(&w);
}

/* CT-27: only endpoints of the same address family say whether this node reaches the pool. */
static void test_dual_stack(void **state)
{
	struct ip_endpoint by = { test_addr("fd00::2"), 8080, 0 };
	struct world w;

	(void)state;
	world_init(&w, NINE);
	(void)model_put_slice(&w.m, test_slice("a2", "a", "v6 " NINE), 1);
	put(&w, SVC " ip=fd00:96::1", NINE);
	for (unsigned int i = 0; i < EJECT_MIN; i++)
		eject_failed(w.j, svc_of(&w), &by, w.now += MS, false);
	w.answered_ns[9] = w.now;
	step(&w);
	assert_int_equal(w.to_before.addr.family, AF_INET6);
	confirmed(&w, EJECT_PROBE_UNANSWERED, EJECT_PROBE_ANSWERED);
	while (w.n_over == 0) {
		unsigned int before = w.n_probes;

		assert_int_equal(w.m.ejections.n, 1);
		w.now = w.m.ejections.v[0].probe_ns;
		step(&w);
		assert_int_equal(w.to.addr.family, AF_INET6);
		probed(&w, EJECT_PROBE_UNANSWERED);
		if (w.n_probes == before + 1)
			continue;
		assert_int_equal(w.to_before.addr.family, AF_INET6);
		eject_probed(w.j, &w.probed, &w.to_before, EJECT_PROBE_UNANSWERED, w.now);
		sync_settle(w.s, w.now);
	}
	world_fini(&w);
}

/* CT-26: evidence that is not enough. */
static void test_evidence(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, NINE);
	failures(&w, 2, EJECT_MIN - 1, true);
	w.answered_ns[9] = w.now;
	step(&w);
	w.now += EJECT_EVIDENCE_NS; /* it expires */
	failures(&w, 2, 1, true);
	w.answered_ns[9] = w.now;
	step(&w);
	assert_int_equal(w.n_probes, 0);
	failures(&w, 2, EJECT_MIN - 2, true);
	w.answered_ns[2] = w.now; /* to any client: these are void */
	failures(&w, 2, EJECT_MIN - 1, true);
	w.answered_ns[9] = w.now;
	step(&w);
	assert_int_equal(w.n_probes, 0);
	failures(&w, 2, 1, true);
	w.answers_fail = -EAGAIN;
	step(&w);
	assert_int_equal(w.n_probes, 0);
	w.answers_fail = 0;
	step(&w);
	assert_int_equal(w.n_probes, 2);
	world_fini(&w);
}

/* CT-26: this node lost its link: no endpoint answers after the first failure. */
static void test_nothing_answers(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, NINE);
	w.answered_ns[1] = w.answered_ns[3] = w.answered_ns[9] = w.now;
	for (unsigned int i = 0; i < 10; i++)
		for (unsigned int n = 1; n <= 3; n++)
			failures(&w, n, 1, false);
	step(&w);
	assert_int_equal(w.n_probes, 0);
	world_fini(&w);
}

/* All handshakes of a client with endpoint `n` fail for 300 s. Returns the number of probes about
 * it. */
static unsigned int fail_long(struct world *w, unsigned int n, enum eject_probe own)
{
	unsigned int before = w->n_about[n];
	unsigned int probes = before;

	for (unsigned int i = 0; i < 3000; i++) {
		failures(w, n, EJECT_MIN, i % 2 == 0);
		w->answered_ns[9] = w->now;
		step(w);
		if (w->n_about[n] > probes)
			confirmed(w, own, EJECT_PROBE_ANSWERED);
		probes = w->n_about[n];
		w->now += 100 * MS - EJECT_MIN * MS;
	}
	return w->n_about[n] - before;
}

/*
 * CT-28: clients that a policy blocks, or that send SYNs with other sources: the endpoint answers
 * this process, which connects after 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s.
 */
static void test_misbehaving_clients(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, NINE);
	assert_int_equal(fail_long(&w, 2, EJECT_PROBE_ANSWERED), 20);
	assert_int_equal(w.n_begun, 0);
	assert_serving(&w, "1 2 3 9");
	w.now += EJECT_MEMORY_NS + MS; /* forgotten */
	step(&w);
	eject(&w, 2);
	assert_int_equal(w.m.ejections.v[0].probe_ns, w.now + EJECT_PERIOD_NS);
	world_fini(&w);
}

/* CT-28: a policy blocks a client and this node: the other endpoint fails, too. */
static void test_blocked_node(void **state)
{
	enum eject_probe result;
	struct world w;

	(void)state;
	world_init(&w, NINE);
	for (unsigned int i = 0; i < 10; i++) {
		failures(&w, 2, EJECT_MIN, false);
		w.answered_ns[3] = w.now - MS;
		w.answered_ns[9] = w.now; /* to another client; the last one */
		step(&w);
		assert_int_equal(w.to_before.addr.bytes[3], 9);
		step(&w);
		assert_int_equal(w.n_probes, 2 * i + 2);
		result = i % 2 == 0 ? EJECT_PROBE_UNANSWERED : EJECT_PROBE_REFUSED;
		confirmed(&w, result, result);
		step(&w); /* the evidence is void */
		w.now += EJECT_PERIOD_MAX_NS;
	}
	assert_int_equal(w.n_probes, 20);
	assert_int_equal(w.n_begun, 0);
	assert_serving(&w, "1 2 3 9");
	world_fini(&w);
}

/* CT-26: a probe without a result confirms nothing, and admits nothing. */
static void test_unknown(void **state)
{
	static const int unknown[] = { EMFILE, ENFILE, EADDRNOTAVAIL, ENETUNREACH, EPERM };
	struct world w;

	(void)state;
	assert_int_equal(eject_probe_of(0), EJECT_PROBE_ANSWERED);
	assert_int_equal(eject_probe_of(ECONNREFUSED), EJECT_PROBE_REFUSED);
	assert_int_equal(eject_probe_of(ETIMEDOUT), EJECT_PROBE_UNANSWERED);
	assert_int_equal(eject_probe_of(EHOSTUNREACH), EJECT_PROBE_UNANSWERED);
	world_init(&w, NINE);
	for (unsigned int i = 0; i < ARRAY_SIZE(unknown); i++) {
		failures(&w, 2, EJECT_MIN, false);
		w.answered_ns[9] = w.now;
		step(&w);
		confirmed(&w, eject_probe_of(unknown[i]), EJECT_PROBE_ANSWERED);
		step(&w);
		assert_int_equal(w.n_probes, 2 * i + 2);
		w.now += EJECT_PERIOD_MAX_NS;
	}
	assert_int_equal(w.n_begun, 0);
	eject(&w, 2);
	w.now += EJECT_PERIOD_NS;
	step(&w);
	probed(&w, EJECT_PROBE_UNKNOWN);
	assert_serving(&w, "1 3 9");
	assert_int_equal(w.m.ejections.v[0].failed, EJECT_MIN + 1);
	assert_int_equal(w.m.ejections.v[0].probe_ns, w.now + 2 * EJECT_PERIOD_NS);
	world_fini(&w);
}

/* A turn of the event loop has a limit; each suspect gets one after another. */
static void test_step_limit(void **state)
{
	struct str slice = { 0 };
	struct world w;

	(void)state;
	str_puts(&slice, P);
	for (unsigned int n = 1; n <= 60; n++)
		str_printf(&slice, "%s%u rs", n > 1 ? "; " : " ", n);
	world_init(&w, slice.text);
	str_fini(&slice);
	for (unsigned int n = 1; n <= 60; n++)
		if (n != 9)
			failures(&w, n, EJECT_MIN, false);
	step(&w); /* no endpoint answered: no probe */
	assert_int_equal(w.n_answers, EJECT_STEP);
	w.answered_ns[9] = w.now;
	for (unsigned int i = 1; i <= 10; i++) { /* a check and two probes of each */
		step(&w);
		assert_true(w.n_answers <= (i + 1) * EJECT_STEP);
		assert_int_equal(w.n_probes, MIN(2 * i * ((EJECT_STEP + 2) / 3), 2 * 59u));
	}
	world_fini(&w);
}

/* Evidence about many endpoints does not keep evidence about others out. */
static void test_many_suspects(void **state)
{
	struct ip_endpoint by = at(1);
	struct world w;

	(void)state;
	world_init(&w, NINE);
	failures(&w, 3, EJECT_MIN, false);
	for (unsigned int i = 0; i < 2000; i++) { /* scan of ports */
		by.port = (uint16_t)(10000 + i);
		eject_failed(w.j, svc_of(&w), &by, w.now += MS, true);
	}
	eject(&w, 2);
	assert_int_equal(w.n_begun, 1);
	world_fini(&w);
}

#define SUSPECTS 1024u /* as many as the list has */

/* Probes under way. */
static struct {
	struct eject_endpoint of;
	struct ip_endpoint to;
} probes[2 * SUSPECTS];
static unsigned int n_under_way;

static void probe_later(void *arg, const struct eject_endpoint *e, const struct ip_endpoint *to)
{
	(void)arg;
	assert_in_range(n_under_way, 0, ARRAY_SIZE(probes) - 1);
	probes[n_under_way].of = *e;
	probes[n_under_way++].to = *to;
}

/* Suspects have odd addresses; only these fail, while `is_failing`. */
static void probe_all(struct world *w, unsigned int n, bool is_failing)
{
	n_under_way = 0;
	for (unsigned int i = 0; i < n && n_under_way < n; i++)
		eject_step(w->j, w->now);
	assert_int_equal(n_under_way, n);
	for (unsigned int i = 0; i < n; i++)
		eject_probed(w->j, &probes[i].of, &probes[i].to,
			     is_failing && probes[i].to.addr.bytes[3] % 2 != 0
				     ? EJECT_PROBE_UNANSWERED
				     : EJECT_PROBE_ANSWERED,
			     w->now);
}

static struct ip_endpoint nth(unsigned int n)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "10.0.%u.%u", 2 + n / 200, n % 200);
	return (struct ip_endpoint){ test_addr(text), 8080, 0 };
}

/* Endpoints that were ejected and recovered do not keep evidence about others out. */
static void test_many_recovered(void **state)
{
	struct str slice = { 0 };
	struct ip_endpoint by;
	struct world w;

	(void)state;
	str_puts(&slice, P);
	for (unsigned int n = 0; n < 2 * SUSPECTS + 2; n++)
		str_printf(&slice, "%s10.0.%u.%u rs", n > 0 ? "; " : " ", 2 + n / 200, n % 200);
	world_init(&w, slice.text);
	str_fini(&slice);
	w.calls.probe = probe_later;
	for (unsigned int n = 0; n < SUSPECTS; n++) {
		by = nth(2 * n + 1);
		for (unsigned int i = 0; i < EJECT_MIN; i++)
			eject_failed(w.j, svc_of(&w), &by, w.now, false);
	}
	for (unsigned int n = 0; n < ARRAY_SIZE(w.answered_ns); n += 2)
		w.answered_ns[n] = w.now;
	probe_all(&w, 2 * SUSPECTS, true);
	assert_int_equal(w.n_begun, SUSPECTS);
	by = nth(2 * SUSPECTS + 1);
	eject_failed(w.j, svc_of(&w), &by, w.now, false); /* no place */
	w.now += EJECT_PERIOD_NS;
	probe_all(&w, SUSPECTS, false);
	assert_int_equal(w.n_over, SUSPECTS);
	for (unsigned int i = 0; i < EJECT_MIN; i++)
		eject_failed(w.j, svc_of(&w), &by, w.now, false);
	for (unsigned int n = 0; n < ARRAY_SIZE(w.answered_ns); n += 2)
		w.answered_ns[n] = w.now;
	probe_all(&w, 2, false);
	assert_int_equal(ip_endpoint_cmp(&probes[1].to, &by), 0);
	sync_settle(w.s, w.now);
	world_fini(&w);
}

/* CT-26: the other one that answers may be any of a large pool. */
static void test_large_pool(void **state)
{
	struct str slice = { 0 };
	struct world w;

	(void)state;
	str_puts(&slice, P);
	for (unsigned int n = 1; n <= 200; n++)
		str_printf(&slice, "%s%u rs", n > 1 ? "; " : " ", n);
	world_init(&w, slice.text);
	str_fini(&slice);
	for (unsigned int n = 100; n <= 200; n += 100) {
		failures(&w, n, EJECT_MIN, false);
		w.answered_ns[(n + 60) % 200] = w.now;
		step(&w);
		assert_int_equal(w.n_probes, n / 50);
	}
	world_fini(&w);
}

#define PORTS 300
#define MANY 100 /* endpoints */

/* A service with many ports, to one port of the endpoints or to one each. */
static void put_ports(struct world *w, bool is_shared)
{
	struct str service = { 0 };
	struct str slice = { 0 };

	str_puts(&service, "ip=10.96.0.1");
	str_puts(&slice, "|");
	for (unsigned int i = 0; i < PORTS; i++) {
		str_printf(&service, " port=p%u:%u", i, 80 + i);
		str_printf(&slice, " p%u:%u", i, is_shared ? 8080 : 8080 + PORTS / 2 - i);
	}
	str_puts(&slice, " |");
	for (unsigned int n = 1; n <= MANY; n++)
		str_printf(&slice, "%s%u rs", n > 1 ? "; " : " ", n);
	put(w, str_text(&service), str_text(&slice));
	str_fini(&service);
	str_fini(&slice);
}

/* What is examined about an endpoint does not grow with the number of ports. */
static void test_many_ports(void **state)
{
	struct world w;
	uint64_t work;

	(void)state;
	world_init(&w, NINE);
	for (int is_shared = 0; is_shared < 2; is_shared++) {
		struct model_ejection e = { .ns = svc_of(&w)->ns, .name = svc_of(&w)->name };

		put_ports(&w, is_shared);
		failures(&w, 2 + (unsigned int)is_shared, EJECT_MIN, false);
		w.answered_ns[9] = w.now;
		work = eject_work(w.j);
		eject_step(w.j, w.now);
		assert_int_equal(w.n_probes, 2 + 2 * is_shared);
		assert_int_equal(w.to_before.addr.bytes[3], 9);
		assert_in_range(eject_work(w.j) - work, 1, 4 * MANY);
		for (unsigned int n = 1; n <= MANY / 2 + 1; n++) {
			bool is_half = n > MANY / 2;

			e.addr = at(n).addr;
			e.port = at(n).port;
			n_selected = 0;
			assert_int_equal(model_eject(&w.m, &e, w.now), is_half ? -EDOM : 0);
			assert_in_range(n_selected, MANY,
					is_half && is_shared ? MODEL_EJECTION_PORTS_MAX * MANY
							     : MANY);
		}
		while (w.m.ejections.n > 0) {
			e.addr = w.m.ejections.v[0].addr;
			(void)model_admit(&w.m, e.ns, e.name, &e.addr, e.port, w.now);
		}
	}
	world_fini(&w);
}

/* A slice of another controller lists ports that the service does not have. */
static void test_ports_of_slices(void **state)
{
	FINI(str_fini) struct str slice = { 0 };
	struct model_ejection e;
	struct world w;

	(void)state;
	world_init(&w, NINE);
	str_puts(&slice, "|");
	for (unsigned int i = 0; i < 20; i++)
		str_printf(&slice, " a%u:8080", i);
	str_puts(&slice, " http:8080 | 1 rs; 2 rs; 3 rs");
	put(&w, "ip=10.96.0.1 port=http:80", str_text(&slice));
	e = (struct model_ejection){
		.ns = svc_of(&w)->ns, .name = svc_of(&w)->name, .addr = at(1).addr, .port = 8080
	};
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &e.addr, e.port, w.now), 1);
	world_fini(&w);
}

/* CT-29: at most half of the pool, and never the last endpoint. */
static void test_limits(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, P "1 rs; 2 rs; 3 rs; 4 rs; 9 rs");
	for (unsigned int n = 1; n <= 4; n++)
		eject(&w, n);
	assert_int_equal(w.n_begun, 2);
	assert_serving(&w, "3 4 9");
	/* One that fails and stays is probed as rarely. */
	assert_int_equal(fail_long(&w, 3, EJECT_PROBE_REFUSED), 2 * 9);
	assert_serving(&w, "3 4 9");
	put(&w, SVC, P "1 rs; 2 rs; 9 rs"); /* half of three is one */
	assert_serving(&w, "2 9");
	put(&w, SVC, P "2 rs");
	assert_serving(&w, "2");
	world_fini(&w);
	world_init(&w, P "2 rs");
	failures(&w, 2, 20, true);
	step(&w);
	assert_int_equal(w.n_probes, 0);
	world_fini(&w);
}

/* CT-29: of two endpoints on this node one stays in the local set; others do not count. */
static void test_local_set(void **state)
{
	struct world w;
	struct selection s;

	(void)state;
	world_init(&w, P "1 rs @n1; 2 rs @n1; 3 rs @n2; 9 rs @n2");
	put(&w, "type=LoadBalancer ip=10.96.0.1 port=web:80:30080 vip=192.0.2.9 etp",
	    P "1 rs @n1; 2 rs @n1; 3 rs @n2; 9 rs @n2");
	eject(&w, 1);
	eject(&w, 2); /* has to stay in the local set */
	assert_int_equal(w.n_begun, 2);
	select_endpoints(&s, &w.m, svc_of(&w), 0, IPFAM_V4);
	assert_int_equal(s.n_cluster, 2);
	assert_int_equal(s.n_local, 1);
	assert_int_equal(s.endpoints.v[0].local, EXCLUSION_EJECTED);
	selection_fini(&s);
	/* CT-26: not for health checks of load balancers. */
	assert_int_equal(service_local_ready(&w.m, svc_of(&w), IPFAM_V4), 2);
	world_fini(&w);
}

/* CT-29: the limit of one set does not protect an endpoint in the other one, nor other endpoints.
 */
static void test_sets_differ(void **state)
{
	static const char one_local[] = P "1 rs @n1; 2 rs @n2; 3 rs @n2; 9 rs @n2";
	struct model_ejection e = { .addr = at(1).addr, .is_manual = true };
	struct selection s;
	struct world w;

	(void)state;
	world_init(&w, one_local);
	put(&w, "type=LoadBalancer ip=10.96.0.1 port=web:80:30080 vip=192.0.2.9 etp", one_local);
	e.ns = svc_of(&w)->ns;
	e.name = svc_of(&w)->name;
	assert_int_equal(model_eject(&w.m, &e, w.now), -EDOM); /* an operator: from both or none */
	eject(&w, 1);
	assert_int_equal(w.n_begun, 1);
	select_endpoints(&s, &w.m, svc_of(&w), 0, IPFAM_V4);
	assert_int_equal(s.n_cluster, 3);
	assert_int_equal(s.n_local, 1);
	assert_int_equal(s.endpoints.v[0].cluster, EXCLUSION_EJECTED);
	selection_fini(&s);
	e.addr = at(2).addr; /* which is not in the local set */
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &e.addr, 0, w.now), 1);
	world_fini(&w);
}

/* CT-32: the limit keeps endpoints that vipd ejected in a set, before those of an operator. */
static void test_operator_first(void **state)
{
	static const char two_local[] = P "1 rs @n1; 2 rs @n1; 3 rs @n2; 4 rs @n2; 9 rs @n2";
	struct model_ejection e = { .addr = at(2).addr, .is_manual = true };
	struct selection s;
	struct world w;

	(void)state;
	world_init(&w, two_local);
	put(&w, "type=LoadBalancer ip=10.96.0.1 port=web:80:30080 vip=192.0.2.9 etp", two_local);
	e.ns = svc_of(&w)->ns;
	e.name = svc_of(&w)->name;
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	eject(&w, 1); /* from the cluster set only: its address is before that of the other */
	select_endpoints(&s, &w.m, svc_of(&w), 0, IPFAM_V4);
	assert_int_equal(s.endpoints.v[0].cluster, EXCLUSION_EJECTED);
	assert_int_equal(s.endpoints.v[0].local, EXCLUSION_NONE);
	assert_int_equal(s.endpoints.v[1].local, EXCLUSION_EJECTED);
	selection_fini(&s);
	e.addr = at(3).addr; /* the limit of the cluster set is two */
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	select_endpoints(&s, &w.m, svc_of(&w), 0, IPFAM_V4);
	assert_int_equal(s.endpoints.v[0].cluster, EXCLUSION_NONE);
	assert_int_equal(s.endpoints.v[1].cluster, EXCLUSION_EJECTED);
	assert_int_equal(s.endpoints.v[2].cluster, EXCLUSION_EJECTED);
	selection_fini(&s);
	e.addr = at(4).addr;
	assert_int_equal(model_eject(&w.m, &e, w.now), -EDOM);
	for (unsigned int n = 2; n <= 3; n++) {
		e.addr = at(n).addr;
		assert_int_equal(model_admit(&w.m, e.ns, e.name, &e.addr, 0, w.now), 1);
	}
	world_fini(&w);
}

/* CT-26: UDP to the port that fails for TCP is not concerned; an operator ejects from both. */
static void test_protocols(void **state)
{
	static const char dns[] = "| tcp:8080 udp/UDP:8080 | 1 rs; 2 rs; 3 rs; 9 rs";
	struct model_ejection e = { .addr = at(2).addr, .is_manual = true };
	struct selection s;
	struct world w;

	(void)state;
	world_init(&w, dns);
	put(&w, "ip=10.96.0.1 port=tcp:53 port=udp/UDP:53", dns);
	eject(&w, 2);
	e.ns = svc_of(&w)->ns;
	e.name = svc_of(&w)->name;
	for (unsigned int i = 0; i < 2; i++) {
		for (size_t port = 0; port < 2; port++) {
			select_endpoints(&s, &w.m, svc_of(&w), port, IPFAM_V4);
			assert_int_equal(s.n_cluster, i == 0 && port == 1 ? 4 : 3);
			selection_fini(&s);
		}
		assert_int_equal(model_eject(&w.m, &e, w.now), i == 0 ? 0 : -EEXIST);
	}
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &e.addr, 0, w.now), 1);
	world_fini(&w);
}

/* CT-27: the endpoint or its service is removed. */
static void test_removed(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, NINE);
	eject(&w, 2);
	put(&w, SVC, P "1 rs; 3 rs; 9 rs");
	w.now += EJECT_PERIOD_NS;
	step(&w);
	assert_int_equal(w.n_over, 1);
	assert_int_equal(w.n_probes, 2);
	assert_int_equal(w.m.ejections.n, 0);
	put(&w, SVC, NINE);
	eject(&w, 2);
	w.now += 2 * EJECT_PERIOD_NS;
	step(&w); /* probing */
	model_del_service(&w.m, svc_of(&w)->ns, svc_of(&w)->name, 1);
	sync_settle(w.s, w.now);
	probed(&w, EJECT_PROBE_UNANSWERED);
	assert_int_equal(w.m.ejections.n, 1);
	w.now = w.m.ejections.v[0].probe_ns;
	step(&w); /* no service: no probe */
	assert_int_equal(w.n_over, 2);
	assert_int_equal(w.n_probes, 5);
	assert_int_equal(w.m.ejections.n, 0);
	put(&w, SVC, NINE);
	assert_serving(&w, "1 2 3 9");
	world_fini(&w);
}

/* CT-30: an operator admits it, and ejects it. */
static void test_operator(void **state)
{
	struct ip_endpoint by = at(2);
	struct model_ejection e = { .addr = by.addr, .is_manual = true };
	struct world w;

	(void)state;
	world_init(&w, NINE);
	e.ns = svc_of(&w)->ns;
	e.name = svc_of(&w)->name;
	eject(&w, 2);
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &by.addr, 8080, w.now), 1);
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &by.addr, 8080, w.now), 0);
	step(&w);
	assert_serving(&w, "1 2 3 9");
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	assert_int_equal(model_eject(&w.m, &e, w.now), -EEXIST);
	w.now += 100 * NSEC_PER_SEC;
	step(&w);
	assert_serving(&w, "1 3 9");
	assert_int_equal(w.n_probes, 2);
	e.addr = at(3).addr;
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	e.addr = at(9).addr;
	assert_int_equal(model_eject(&w.m, &e, w.now), -EDOM);
	e.addr = at(8).addr;
	assert_int_equal(model_eject(&w.m, &e, w.now), -ENOENT);
	assert_int_equal(w.m.ejections.n, 2);
	for (unsigned int n = 2; n <= 3; n++) {
		by = at(n);
		assert_int_equal(model_admit(&w.m, e.ns, e.name, &by.addr, 0, w.now), 1);
	}
	step(&w);
	/* While this process probes. */
	w.now += EJECT_MEMORY_NS;
	failures(&w, 2, EJECT_MIN, false);
	w.answered_ns[9] = w.now;
	step(&w);
	e.addr = at(2).addr;
	assert_int_equal(model_eject(&w.m, &e, w.now), 0);
	assert_int_equal(w.n_probes, 4);
	confirmed(&w, EJECT_PROBE_UNANSWERED, EJECT_PROBE_ANSWERED);
	assert_int_equal(w.m.ejections.n, 1);
	assert_int_equal(model_admit(&w.m, e.ns, e.name, &e.addr, 0, w.now), 1);
	step(&w);
	assert_serving(&w, "1 2 3 9");
	world_fini(&w);
}

struct loss {
	struct world *w;
	uint64_t state;
	unsigned int percent; /* in each direction */
};

/* Does a handshake lose its SYN or its answer? */
static bool is_lost(struct loss *l)
{
	bool is = false;

	for (unsigned int i = 0; i < 2; i++) {
		l->state = l->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
		is |= (l->state >> 33) % 100 < l->percent;
	}
	return is;
}

/* `per_s` handshakes a second with ten endpoints, 100,000 in all; vipd's own may be lost, too. */
static void handshakes_lose(struct loss *l, unsigned int per_s)
{
	static const unsigned int total = 100000;
	uint64_t *lost_ns = calloc(total, sizeof(*lost_ns)); /* 0: answered */
	struct world *w = l->w;
	unsigned int due = 0;

	assert_non_null(lost_ns);
	for (unsigned int i = 0; i < total; i++) {
		unsigned int before = w->n_probes;

		w->now += NSEC_PER_SEC / per_s;
		if (is_lost(l))
			lost_ns[i] = w->now;
		else
			w->answered_ns[1 + i % 10] = w->now;
		for (; due < i && lost_ns[due] + 500 * MS <= w->now; due++) {
			struct ip_endpoint by = at(1 + due % 10);

			if (lost_ns[due] != 0)
				eject_failed(w->j, svc_of(w), &by, lost_ns[due], false);
		}
		eject_step(w->j, w->now);
		for (; before < w->n_probes; before++) {
			eject_probed(w->j, &w->probed, before % 2 == 0 ? &w->to_before : &w->to,
				     is_lost(l) ? EJECT_PROBE_UNANSWERED : EJECT_PROBE_ANSWERED,
				     w->now);
		}
	}
	free(lost_ns);
}

/* CT-26: packets get lost everywhere: no ejection. A busy endpoint answers another handshake
 * before five have failed; one of few handshakes answers vipd. */
static void test_packet_loss(void **state)
{
	static const struct {
		unsigned int percent, per_s;
	} cases[] = { { 5, 500 }, { 10, 500 }, { 5, 10 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world w;
		struct loss l = { &w, 1, cases[i].percent };

		world_init(&w, P "1 rs; 2 rs; 3 rs; 4 rs; 5 rs; 6 rs; 7 rs; 8 rs; 9 rs; 10 rs");
		handshakes_lose(&l, cases[i].per_s);
		assert_int_equal(w.n_begun, 0);
		world_fini(&w);
	}
}

/* A probe of before is still under way when both probes begin: it does not count as both. */
static void test_older_probe(void **state)
{
	struct ip_endpoint two = at(2);
	struct eject_endpoint of;
	struct world w;

	(void)state;
	world_init(&w, NINE);
	eject(&w, 2);
	w.now += EJECT_PERIOD_NS;
	step(&w);
	of = w.probed;
	assert_int_equal(model_admit(&w.m, of.ns, of.name, &two.addr, 8080, w.now), 1);
	step(&w);
	failures(&w, 2, EJECT_MIN, true);
	w.answered_ns[9] = w.now;
	step(&w);
	assert_int_equal(w.n_probes, 5);
	eject_probed(w.j, &w.probed, &two, EJECT_PROBE_UNANSWERED, w.now);
	eject_probed(w.j, &w.probed, &two, EJECT_PROBE_UNANSWERED, w.now);
	assert_int_equal(w.m.ejections.n, 0);
	eject_probed(w.j, &w.probed, &w.to_before, EJECT_PROBE_UNANSWERED, w.now);
	assert_int_equal(w.m.ejections.n, 0);
	assert_int_equal(w.n_begun, 1);
	world_fini(&w);
}

/* --- many --- */

static void ejection_push(struct world *w, const char *name, int i, uint16_t port)
{
	char addr[IP_TEXT_MAX];

	(void)snprintf(addr, sizeof(addr), "10.7.%d.%d", i / 250, i % 250);
	*vec_push(&w->m.ejections) = (struct model_ejection){ .ns = name_get_str("default"),
							      .name = name_get_str(name),
							      .addr = test_addr(addr),
							      .port = port,
							      .is_manual = port == 0 };
}

/* CPU time to select the endpoints, `n_ejected` of which are; the least of some runs. */
static uint64_t select_cpu_ns(const struct world *w, size_t n_ejected)
{
	const struct svc *svc = model_find_text(&w->m, "default", "a");
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		struct selection sel;
		struct timespec t[2];
		size_t n = 0;

		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[0]);
		select_endpoints(&sel, &w->m, svc, 0, IPFAM_V4);
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]);
		least = MIN(least, (uint64_t)(t[1].tv_sec - t[0].tv_sec) * NSEC_PER_SEC +
					   t[1].tv_nsec - t[0].tv_nsec);
		vec_for_each (e, &sel.endpoints) {
			const struct model_ejection *by =
				i > 0 ? NULL
				      : model_ejection(&w->m, svc->ns, svc->name, &e->addr,
						       e->port);

			if (i == 0)
				assert_int_equal(e->ejection, by == NULL      ? EJECTION_NONE
							      : by->is_manual ? EJECTION_MANUAL
									      : EJECTION_OWN);
			n += e->cluster == EXCLUSION_EJECTED;
		}
		assert_int_equal(n, n_ejected);
		selection_fini(&sel);
	}
	return least;
}

/* The selection does not compare each endpoint with each ejection. */
static void test_many_ejections(void **state)
{
	FINI(str_fini) struct str slice = { 0 };
	struct world w;
	uint64_t none;
	uint64_t others;
	uint64_t own;

	(void)state;
	str_puts(&slice, P);
	for (int i = 0; i < 10000; i++)
		str_printf(&slice, "%s10.7.%d.%d rs", i ? ";" : "", i / 250, i % 250);
	world_init(&w, slice.text);
	none = select_cpu_ns(&w, 0);
	for (int i = 0; i < MODEL_EJECTIONS_MAX; i++)
		ejection_push(&w, "b", i, 0);
	others = select_cpu_ns(&w, 0);
	model_ejections_fini(&w.m);
	for (int i = 0; i < MODEL_EJECTIONS_MAX; i += 2) { /* two of an endpoint, in any order */
		ejection_push(&w, "a", i, i % 3 == 0 ? 0 : 8080);
		ejection_push(&w, "a", i + i % 5, i % 3 == 0 ? 8080 : 0);
	}
	own = select_cpu_ns(&w, 717);
	print_message("    none: %lu us, of another service: %lu us, of this one: %lu us\n",
		      (unsigned long)none / 1000, (unsigned long)others / 1000,
		      (unsigned long)own / 1000);
	assert_true(others < 5 * none);
	assert_true(own < 5 * none);
	model_ejections_fini(&w.m);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ejected),         cmocka_unit_test(test_periods),
		cmocka_unit_test(test_dual_stack),      cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_nothing_answers), cmocka_unit_test(test_misbehaving_clients),
		cmocka_unit_test(test_blocked_node),    cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_step_limit),      cmocka_unit_test(test_many_suspects),
		cmocka_unit_test(test_large_pool),      cmocka_unit_test(test_limits),
		cmocka_unit_test(test_local_set),       cmocka_unit_test(test_sets_differ),
		cmocka_unit_test(test_operator_first),  cmocka_unit_test(test_protocols),
		cmocka_unit_test(test_removed),         cmocka_unit_test(test_operator),
		cmocka_unit_test(test_packet_loss),     cmocka_unit_test(test_older_probe),
		cmocka_unit_test(test_many_recovered),  cmocka_unit_test(test_many_ejections),
		cmocka_unit_test(test_many_ports),      cmocka_unit_test(test_ports_of_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
