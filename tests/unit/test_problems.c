/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/problems: conflicts, rejections by the kernel, and ejected endpoints. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/problems.h"
#include "model/eject.h"
#include "serve_world.h"

struct events {
	size_t max;
	size_t n;
	char text[4][512];      /* "reason ns/name: text" */
	unsigned int *known_by; /* by number_of(): calls for which it is reported; NULL: none is */
};

/* Of a service or an endpoint of test_turns(). */
static int number_of(const char *text)
{
	int n = 0;

	if (sscanf(text, "AddressConflict a/%d:", &n) != 1)
		assert_int_equal(sscanf(strstr(text, "10.0.1."), "10.0.1.%d", &n), 1);
	return n;
}

bool kube_problem_add(struct events *e, const struct kube_problem *p)
{
	char text[sizeof(e->text[0])];

	assert_int_equal(p->kind, OBJECT_KIND_SERVICE);
	(void)snprintf(text, sizeof(text), "%s %s/%s: %s", p->reason, p->ns, p->name, p->text);
	if (e->known_by != NULL && e->known_by[number_of(text)] > 0)
		return true;
	if (e->n == e->max)
		return false;
	memcpy(e->text[e->n++], text, sizeof(text));
	return true;
}

static int cmp(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void collect(struct serve_world *w, struct events *e, size_t max)
{
	struct problems at = { 0 };

	*e = (struct events){ .max = max };
	do /* one step, unless the processor is taken away for longer than a step lasts */
		problems_collect(&at, &w->ctx, e);
	while (at.walk.at != 0 && e->n < e->max);
	qsort(e->text, e->n, sizeof(e->text[0]), cmp);
}

static void test_problems(void **state)
{
	struct serve_world w;
	struct events e;

	serve_world_init(&w);
	put_service(&w, "a/old",
		    "ip=10.96.0.1 port=http:80:30080 port=dns/UDP:53 ext=198.51.100.1 created=1");
	put_service(&w, "a/new",
		    "ip=10.96.0.2 port=http:80 port=dns/UDP:53 ext=198.51.100.1 created=2");
	put_service(&w, "a/port", "ip=10.96.0.3 port=http:81:30080 created=3");
	put_service(&w, "a/good", "ip=10.96.0.4 port=http:80");
	sync_all(&w);
	collect(&w, &e, 4);
	assert_int_equal(e.n, 2);
	assert_string_equal(
		e.text[0],
		"AddressConflict a/new: ExternalIP 198.51.100.1 port 80/TCP is served by "
		"a/old (older service); more conflicts: see vipctl svc");
	assert_string_equal(e.text[1],
			    "AddressConflict a/port: NodePort port 30080/TCP is served by "
			    "a/old (older service)");
	collect(&w, &e, 1);
	assert_int_equal(e.n, 1);

	w.k.refuse_name = "bad";
	put_service(&w, "a/bad", "ip=10.96.0.5 port=http:80");
	sync_all(&w);
	collect(&w, &e, 4);
	assert_int_equal(e.n, 3);
	assert_string_equal(e.text[2],
			    "RejectedByKernel a/bad: rejected by the kernel: set to refuse bad; "
			    "not programmed");
	del_service(&w, "a", "old");
	del_service(&w, "a", "bad");
	sync_all(&w);
	collect(&w, &e, 0);
	assert_int_equal(e.n, 0);
	serve_world_fini(&w);
}

/* By vipd, as long as it lasts; an operator needs no report. */
static void test_ejections(void **state)
{
	struct model_ejection by_vipd = { .addr = test_addr("10.0.1.2"),
					  .port = 8080,
					  .failed = 5 };
	struct model_ejection by_hand = { .addr = test_addr("10.0.1.3"), .is_manual = true };
	struct serve_world w;
	struct events e;

	serve_world_init(&w);
	put_service(&w, "a/web", "ip=10.96.0.1 port=http:80");
	put_slice(&w, "a/web-1", "web", "|http:8080|1 rs;2 rs;3 rs;4 rs;5 rs");
	sync_all(&w);
	by_vipd.ns = by_hand.ns = name_get_str("a");
	by_vipd.name = by_hand.name = name_get_str("web");
	assert_int_equal(model_eject(&w.m, &by_vipd, T0), 0);
	assert_int_equal(model_eject(&w.m, &by_hand, T0), 0);
	collect(&w, &e, 4);
	assert_int_equal(e.n, 1);
	assert_string_equal(e.text[0],
			    "EndpointEjected a/web: node n1: endpoint 10.0.1.2 port 8080 is "
			    "ejected: TCP handshakes unanswered; it gets no new connections from "
			    "this node for a time");
	assert_int_equal(model_admit(&w.m, by_vipd.ns, by_vipd.name, &by_vipd.addr, 8080, T0), 1);
	collect(&w, &e, 0);
	assert_int_equal(e.n, 0);
	name_unref(by_vipd.ns);
	name_unref(by_vipd.name);
	serve_world_fini(&w);
}

/*
 * Each problem gets its turn, also if there are always more than can be reported: 22, of which a
 * call reports 3, and each of them again after 5 calls.
 */
static void test_turns(void **state)
{
	struct model_ejection j = { .addr = test_addr("10.0.1.1"), .port = 8080, .failed = 5 };
	unsigned int known_by[25] = { 0 };
	bool was_added[25] = { false };
	struct problems at = { 0 };
	struct serve_world w;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "a/web", "ip=10.96.0.1 port=http:80 ext=198.51.100.1 created=1");
	put_slice(&w, "a/web-1", "web",
		  "|http:8080|1 rs;2 rs;3 rs;4 rs;5 rs;6 rs;7 rs;8 rs;9 rs;10 rs;11 rs;12 rs;13 "
		  "rs;14 rs;15 rs");
	for (int i = 10; i < 25; i++) {
		char name[8];
		char text[80];

		(void)snprintf(name, sizeof(name), "a/%d", i);
		(void)snprintf(text, sizeof(text), "ip=10.96.0.%d port=http:80 ext=198.51.100.1",
			       i);
		put_service(&w, name, text);
	}
	sync_all(&w);
	j.ns = name_get_str("a");
	j.name = name_get_str("web");
	for (int i = 1; i < 8; i++) {
		j.addr.bytes[3] = (uint8_t)i;
		assert_int_equal(model_eject(&w.m, &j, T0), 0);
	}
	/* 24 calls are enough, unless the processor is taken away: then one visits few services. */
	for (int k = 0; k < 2400; k++) {
		struct events e = { .max = 3, .known_by = known_by };

		problems_collect(&at, &w.ctx, &e);
		for (int i = 0; i < 25; i++)
			known_by[i] -= known_by[i] > 0;
		for (size_t i = 0; i < e.n; i++) {
			was_added[number_of(e.text[i])] = true;
			known_by[number_of(e.text[i])] = 5;
		}
	}
	for (int i = 1; i < 25; i++)
		assert_int_equal(was_added[i], i < 8 || i >= 10);
	name_unref(j.ns);
	name_unref(j.name);
	serve_world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_problems),
		cmocka_unit_test(test_ejections),
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
