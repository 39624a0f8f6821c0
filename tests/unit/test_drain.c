/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/drain, api/drain: drain, undrain, and restart. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/body.h"
#include "api/drain.h"
#include "api/monitor.h"
#include "model/drain.h"
#include "model/eject.h"
#include "model/select.h"
#include "serve_world.h"

struct world {
	struct serve_world w;
	struct drains *drains;
	char path[64];
	int changes;
};

static size_t n_compared; /* endpoints, with drains */

bool __real_model_is_drained(const struct model *m, const struct svc *svc,
			     const struct slice_endpoint *e);
bool __wrap_model_is_drained(const struct model *m, const struct svc *svc,
			     const struct slice_endpoint *e);

bool __wrap_model_is_drained(const struct model *m, const struct svc *svc,
			     const struct slice_endpoint *e)
{
	n_compared++;
	return __real_model_is_drained(m, svc, e);
}

static void on_changed(void *arg)
{
	((struct world *)arg)->changes++;
}

static void world_init(struct world *w)
{
	serve_world_init(&w->w);
	w->changes = 0;
	(void)snprintf(w->path, sizeof(w->path), "/tmp/vipd-drained-%d", getpid());
	(void)unlink(w->path);
	drains_open(&w->drains, &w->w.m, w->path, on_changed, w);
	w->w.ctx.drains = w->drains;
	put_service(&w->w, "shop/web", "type=NodePort ip=10.96.0.1 port=http:80:30080 etp");
	put_slice(&w->w, "shop/web-1", "web",
		  "|http:8080|1 rs @n1 ~web-1;2 rs @n1 ~web-2;3 rs @n2");
	sync_all(&w->w);
}

static void world_fini(struct world *w)
{
	drains_close(w->drains);
	serve_world_fini(&w->w);
	(void)unlink(w->path);
}

/* GET or PUT, as text, to `fn`. */
static int ask(struct world *w,
	       void (*fn)(struct http_reply *reply, const struct serve_context *ctx,
			  const struct http_request *q),
	       const char *head_text, json_t **ret)
{
	struct http_request q = { 0 };
	struct http_reply reply = { 0 };
	char head[256];
	struct err err;
	int n = snprintf(head, sizeof(head), "%s HTTP/1.1\r\nHost: x\r\n\r\n", head_text);
	int status;

	assert_int_equal(http_request_parse(&q, head, (size_t)n, HTTP_TAKES_WRITES, &err), 0);
	fn(&reply, &w->w.ctx, &q);
	status = reply.status;
	if (ret != NULL)
		*ret = json_of(reply.body.text, reply.body.len);
	http_request_fini(&q);
	str_fini(&reply.body);
	sync_settle(w->w.s, T0);
	return status;
}

static int put_ejection(struct world *w, const char *params, json_t **ret)
{
	char head[256];

	(void)snprintf(head, sizeof(head), "PUT /v1/ejections?%s", params);
	return ask(w, admin_ejections, head, ret);
}

/*
 * PUT /v1/drains with these parameters. Returns the status; `ret` gets the body unless it is NULL.
 */
static int put(struct world *w, const char *params, json_t **ret)
{
	char head[256];

	(void)snprintf(head, sizeof(head), "PUT /v1/drains?%s", params);
	return ask(w, admin_drains, head, ret);
}

/* ".d." for the cluster set, as tests/unit/test_select.c writes it. */
static void assert_sets(struct world *w, const char *cluster, const char *local)
{
	struct selection sel;
	const struct svc *svc = model_find_text(&w->w.m, "shop", "web");
	static const char letters[] = {
		[EXCLUSION_NONE] = '.',    [EXCLUSION_NOT_LOCAL] = 'l',  [EXCLUSION_DRAINED] = 'd',
		[EXCLUSION_EJECTED] = 'e', [EXCLUSION_SET_UNUSED] = '-',
	};
	char c[8] = "";
	char l[8] = "";

	select_endpoints(&sel, &w->w.m, svc, 0, IPFAM_V4);
	for (size_t i = 0; i < sel.endpoints.n; i++) {
		c[i] = letters[sel.endpoints.v[i].cluster];
		l[i] = letters[sel.endpoints.v[i].local];
	}
	selection_fini(&sel);
	assert_string_equal(c, cluster);
	assert_string_equal(l, local);
}

static void test_drain(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	assert_sets(&w, "...", "..l");
	assert_int_equal(service_local_ready(&w.w.m, model_find_text(&w.w.m, "shop", "web"), 0), 2);
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=drained", &json), 200);
	assert_string_equal(text_at(json, "items.0.address"), "10.0.1.2");
	assert_string_equal(text_at(json, "items.0.pod"), "web-2");
	assert_string_equal(text_at(json, "problem"), "null");
	json_decref(json);
	assert_sets(&w, ".d.", ".dl");
	assert_int_equal(w.changes, 1);
	assert_int_equal(w.w.k.slots.n, 3); /* 2 of the cluster pool, 1 of the local one */
	/* health checks of the node do not count it */
	assert_int_equal(service_local_ready(&w.w.m, model_find_text(&w.w.m, "shop", "web"), 0), 1);
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.1&state=drained", NULL), 200);
	assert_sets(&w, "dd.", "ddl");
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.2&state=serving", NULL), 200);
	assert_sets(&w, "d..", "d.l");
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-1&state=serving", NULL), 200);
	assert_sets(&w, "...", "..l");
	world_fini(&w);
}

/* A drain applies to the pod: a later pod with its address serves, until it is drained, too. */
static void test_successor(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=drained", NULL), 200);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1;2 rs @n1 ~web-9;3 rs @n2");
	assert_sets(&w, "...", "..l");
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-9&state=drained", NULL), 200);
	assert_sets(&w, ".d.", ".dl");
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=serving", NULL), 200);
	assert_sets(&w, ".d.", ".dl");
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.2&state=serving", NULL), 200);
	assert_sets(&w, "...", "..l");
	assert_int_equal(w.w.m.drains.n, 0);
	world_fini(&w);
}

/* Pods of the host's network, the terminating one included, share an address. */
static void test_shared_address(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1");
	put_slice(&w.w, "shop/web-2", "web", "|http:8081|1 rs @n1 ~web-2;3 rs @n2");
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.1&state=drained", NULL), 200);
	assert_sets(&w, "dd.", "ddl");
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=serving", NULL), 200);
	assert_sets(&w, "d..", "d.l");
	world_fini(&w);
}

/* One more endpoint can be drained. */
static void drains_fill(struct world *w)
{
	const struct name *shop = name_get_str("shop");
	const struct name *web = name_get_str("web");
	struct ip_addr a = ip_addr_from_bytes(AF_INET, "\x0a\x09\x00\x00");

	for (unsigned int i = 1; i < MODEL_DRAINS_MAX; i++) {
		a.bytes[2] = (uint8_t)(i >> 8);
		a.bytes[3] = (uint8_t)i;
		assert_int_equal(model_drain(&w->w.m, shop, web, &a, NULL, 0), 1);
	}
	name_unref(shop);
	name_unref(web);
}

/* Endpoints are compared with the drains of their service only. */
static void test_other_service(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	drains_fill(&w);
	sync_all(&w.w);
	n_compared = 0;
	put_service(&w.w, "shop/api", "ip=10.96.0.9 port=http:80");
	put_slice(&w.w, "shop/api-1", "api", "|http:8080|1 rs @n1;2 rs @n2");
	put_slice(&w.w, "shop/api-1", "api", "|http:8080|1 rs @n1;3 rs @n2");
	sync_all(&w.w);
	assert_int_equal(n_compared, 0);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1");
	sync_all(&w.w);
	assert_true(n_compared > 0);
	world_fini(&w);
}

/* The limit is reached between two addresses of a pod: the file has the drained one. */
static void test_limit(void **state)
{
	char text[64] = "";
	struct world w;
	FILE *f;

	world_init(&w);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1;2 rs @n1 ~web-1;3 rs @n2");
	drains_fill(&w);
	w.changes = 0;
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-1&state=drained", NULL), 503);
	assert_int_equal(w.w.m.drains.n, MODEL_DRAINS_MAX);
	assert_int_equal(w.changes, 1);
	f = fopen(w.path, "r");
	assert_non_null(f);
	while (fgets(text, sizeof(text), f) != NULL && strstr(text, "web-1") == NULL)
		;
	assert_string_equal(text, "shop/web 10.0.1.1 web-1\n");
	(void)fclose(f);
	world_fini(&w);
}

/* Terminating endpoints can be drained, and so can the last endpoint. */
static void test_all(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1;2 st @n1");
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.2&state=drained", NULL), 200);
	assert_sets(&w, ".d", ".d");
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.1&state=drained", NULL), 200);
	assert_sets(&w, "dd", "dd");
	assert_int_equal(w.w.k.slots.n, 0);
	world_fini(&w);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *params;
		int status;
		const char *text;
	} bad[] = {
		{ "endpoint=x&state=drained", 400, "service: '' is not NAMESPACE/NAME" },
		{ "service=web&endpoint=x&state=drained", 400, "service: 'web'" },
		{ "service=shop/web&state=drained", 400, "endpoint: " },
		{ "service=shop/web&endpoint=x", 400, "state: ''" },
		{ "service=shop/web&endpoint=x&state=gone", 400, "state: 'gone'" },
		{ "service=shop/db&endpoint=x&state=drained", 404, "there is no service shop/db" },
		{ "service=shop/web&endpoint=x&state=drained", 404, "has no endpoint 'x'" },
		{ "service=shop/web&endpoint=web-1&state=serving", 404,
		  "has no drained endpoint 'web-1'" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *json;

		assert_int_equal(put(&w, bad[i].params, &json), bad[i].status);
		assert_non_null(strstr(text_at(json, "error.text"), bad[i].text));
		json_decref(json);
	}
	assert_int_equal(w.changes, 0);
	world_fini(&w);
}

/* A new process reads the file of the old one; an invalid line is skipped. */
static void test_restart(void **state)
{
	struct world w;
	struct drains *next;
	FILE *f;

	(void)state;
	world_init(&w);
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=drained", NULL), 200);
	assert_int_equal(put(&w, "service=shop/web&endpoint=10.0.1.3&state=drained", NULL), 200);
	f = fopen(w.path, "a");
	assert_non_null(f);
	(void)fputs("nonsense\n\nshop/web nowhere web-7\n", f);
	assert_int_equal(fclose(f), 0);
	model_drains_fini(&w.w.m);
	assert_sets(&w, "...", "..l");
	drains_open(&next, &w.w.m, w.path, on_changed, &w);
	assert_int_equal(w.w.m.drains.n, 2);
	assert_sets(&w, ".dd", ".dl");
	drains_close(next);
	world_fini(&w);
}

/* The file cannot be written: the change is in force, and the answer says what a restart does. */
static void test_no_file(void **state)
{
	struct world w;
	struct drains *other;
	json_t *json;

	(void)state;
	world_init(&w);
	drains_open(&other, &w.w.m, "/nonexistent/drained", on_changed, &w);
	w.w.ctx.drains = other;
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=drained", &json), 200);
	assert_non_null(strstr(text_at(json, "problem"), "the drain ends with this process"));
	json_decref(json);
	assert_sets(&w, ".d.", ".dl");
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-2&state=serving", &json), 200);
	assert_non_null(
		strstr(text_at(json, "problem"), "after a restart the endpoint is drained again"));
	json_decref(json);
	assert_sets(&w, "...", "..l");
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1;2 rs @n1 ~web-1;3 rs @n2");
	drains_fill(&w);
	assert_int_equal(put(&w, "service=shop/web&endpoint=web-1&state=drained", &json), 503);
	assert_non_null(strstr(text_at(json, "error.text"), "/nonexistent/drained cannot be"));
	json_decref(json);
	drains_close(other);
	world_fini(&w);
}

/* CT-32: of three endpoints one can be ejected, of the two on this node one; it counts as ready. */
static void test_eject(void **state)
{
	struct model_ejection own = { .addr = test_addr("10.0.1.2"), .port = 8080, .failed = 5 };
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	own.ns = model_find_text(&w.w.m, "shop", "web")->ns;
	own.name = model_find_text(&w.w.m, "shop", "web")->name;
	assert_int_equal(model_eject(&w.w.m, &own, T0), 0); /* by vipd: replaced */
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-2&state=ejected", &json),
			 200);
	assert_string_equal(text_at(json, "items.0.address"), "10.0.1.2");
	assert_string_equal(text_at(json, "items.0.pod"), "web-2");
	assert_string_equal(text_at(json, "items.0.text"), "ejected by an operator");
	assert_int_equal(json_array_size(json_object_get(json, "items")), 1);
	json_decref(json);
	assert_sets(&w, ".e.", ".el");
	assert_int_equal(w.changes, 1);
	assert_int_equal(service_local_ready(&w.w.m, model_find_text(&w.w.m, "shop", "web"), 0), 2);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-2&state=ejected", NULL),
			 200);
	put_service(&w.w, "shop/none", "headless port=http:80");
	assert_int_equal(put_ejection(&w, "service=shop/none&endpoint=web-1&state=ejected", &json),
			 409);
	assert_string_equal(text_at(json, "error.text"),
			    "shop/none: this node does not proxy the service");
	json_decref(json);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-1&state=ejected", &json),
			 409);
	assert_non_null(
		strstr(text_at(json, "error.text"), "'web-1': at most half of the endpoints"));
	json_decref(json);
	assert_sets(&w, ".e.", ".el");
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-1&state=admitted", NULL),
			 404);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-2&state=admitted", NULL),
			 200);
	assert_sets(&w, "...", "..l");
	assert_int_equal(model_eject(&w.w.m, &own, T0), 0);
	assert_int_equal(ask(&w, admin_ejections, "GET /v1/ejections", &json), 200);
	assert_int_equal(int_at(json, "items.0.port"), 8080);
	json_decref(json);
	assert_int_equal(
		put_ejection(&w, "service=shop/web&endpoint=10.0.1.2&state=admitted", NULL), 200);
	assert_sets(&w, "...", "..l");
	world_fini(&w);
}

/* CT-32: both addresses of a pod are ejected, or none. */
static void test_eject_part(void **state)
{
	struct model_ejection own = { .addr = test_addr("10.0.1.1"), .port = 8080, .failed = 5 };
	struct world w;

	(void)state;
	world_init(&w);
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs @n1 ~web-1;2 rs @n1 ~web-1;3 rs @n2");
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-1&state=ejected", NULL),
			 409);
	assert_int_equal(w.w.m.ejections.n, 0);
	assert_int_equal(access(w.path, F_OK), -1); /* the file has drained endpoints only */
	/* Only what a request has added is undone. */
	own.ns = model_find_text(&w.w.m, "shop", "web")->ns;
	own.name = model_find_text(&w.w.m, "shop", "web")->name;
	assert_int_equal(model_eject(&w.w.m, &own, T0), 0);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-1&state=ejected", NULL),
			 409);
	assert_int_equal(w.w.m.ejections.n, 1);
	assert_false(w.w.m.ejections.v[0].is_manual);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=10.0.1.1&state=ejected", NULL),
			 200); /* by an operator now */
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-1&state=ejected", NULL),
			 409);
	assert_int_equal(w.w.m.ejections.n, 1);
	assert_true(w.w.m.ejections.v[0].is_manual);
	assert_int_equal(
		put_ejection(&w, "service=shop/web&endpoint=10.0.1.1&state=admitted", NULL), 200);
	put(&w, "service=shop/web&endpoint=10.0.1.3&state=drained", NULL);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=10.0.1.3&state=ejected", NULL),
			 409);
	world_fini(&w);
}

/* An ejection by vipd ends before that by an operator begins: the last event is in force. */
static void test_eject_events(void **state)
{
	struct model_ejection own = { .addr = test_addr("10.0.1.2"), .port = 8080, .failed = 5 };
	static const char head[] = "GET /v1/monitor?kind=ejected HTTP/1.1\r\nHost: x\r\n\r\n";
	FINI(str_fini) struct str events = { 0 };
	struct http_request q = { 0 };
	struct http_reply reply = { 0 };
	struct monitor *mon;
	struct err err;
	struct world w;
	const char *end;
	const char *begin;

	(void)state;
	world_init(&w);
	monitor_open(&mon, &w.w.m);
	w.w.ctx.monitor = mon;
	assert_int_equal(http_request_parse(&q, head, sizeof(head) - 1, HTTP_TAKES_READS, &err), 0);
	body_monitor(&reply, &w.w.ctx, &q);
	assert_int_equal(reply.status, 200);
	own.ns = model_find_text(&w.w.m, "shop", "web")->ns;
	own.name = model_find_text(&w.w.m, "shop", "web")->name;
	assert_int_equal(model_eject(&w.w.m, &own, T0), 0);
	assert_int_equal(put_ejection(&w, "service=shop/web&endpoint=web-2&state=ejected", NULL),
			 200);
	(void)reply.ops->more(reply.state, &events, 0);
	end = strstr(events.text, "\"over\":true");
	begin = strstr(events.text, "\"over\":false");
	assert_non_null(end);
	assert_non_null(begin);
	assert_true(end < begin);
	reply.ops->close(reply.state);
	http_request_fini(&q);
	monitor_close(mon);
	world_fini(&w);
}

/* CPU time to list 1,000 ejections of a service with `n` slices of 1,000 endpoints. */
static uint64_t list_cpu_ns(int n)
{
	uint64_t least = UINT64_MAX;
	struct world w;
	json_t *json;

	world_init(&w);
	put_service(&w.w, "shop/big", "ip=10.96.0.2 port=http:80");
	for (int i = 0; i < n; i++) {
		FINI(str_fini) struct str slice = { 0 };
		char key[32];

		str_puts(&slice, "|http:8080|");
		for (int k = 0; k < 1000; k++)
			str_printf(&slice, "%s10.%d.%d.%d rs ~p%d", k ? ";" : "", i, k / 100,
				   k % 100, k);
		(void)snprintf(key, sizeof(key), "shop/big-%d", i);
		put_slice(&w.w, key, "big", slice.text);
	}
	for (int i = 0; i < 1000; i++) {
		char addr[IP_TEXT_MAX];

		(void)snprintf(addr, sizeof(addr), "10.%d.%d.%d", n - 1, i / 100, i % 100);
		*vec_push(&w.w.m.ejections) = (struct model_ejection){ .ns = name_get_str("shop"),
								       .name = name_get_str("big"),
								       .addr = test_addr(addr),
								       .is_manual = true };
	}
	for (int i = 0; i < 3; i++) {
		struct timespec t[2];

		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[0]);
		assert_int_equal(ask(&w, admin_ejections, "GET /v1/ejections", &json), 200);
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]);
		least = MIN(least, (uint64_t)(t[1].tv_sec - t[0].tv_sec) * NSEC_PER_SEC +
					   t[1].tv_nsec - t[0].tv_nsec);
		assert_string_equal(text_at(json, "items.999.pod"), "p999");
		json_decref(json);
	}
	model_ejections_fini(&w.w.m);
	world_fini(&w);
	return least;
}

/* The list of ejections does not compare each one with each endpoint. */
static void test_list_many(void **state)
{
	uint64_t few = list_cpu_ns(1);
	uint64_t many = list_cpu_ns(20);

	(void)state;
	print_message("    1,000 endpoints: %lu us, 20,000: %lu us\n", (unsigned long)few / 1000,
		      (unsigned long)many / 1000);
	assert_true(many < 3 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drain),          cmocka_unit_test(test_successor),
		cmocka_unit_test(test_shared_address), cmocka_unit_test(test_limit),
		cmocka_unit_test(test_other_service),  cmocka_unit_test(test_all),
		cmocka_unit_test(test_refusals),       cmocka_unit_test(test_restart),
		cmocka_unit_test(test_no_file),        cmocka_unit_test(test_eject),
		cmocka_unit_test(test_eject_part),     cmocka_unit_test(test_eject_events),
		cmocka_unit_test(test_list_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
