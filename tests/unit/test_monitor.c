/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/monitor: events reach their subscribers; slow subscribers lose events and get their number.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/control.h"
#include "api/monitor.h"
#include "serve_world.h"

struct world {
	struct serve_world w;
	struct monitor *mon;
};

struct watch {
	struct http_reply reply;
	struct str text;
};

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	monitor_accepted(((struct world *)arg)->mon, svc, old, new);
}

static void on_rejected(void *arg, const struct svc *svc, const char *text)
{
	monitor_rejected(((struct world *)arg)->mon, svc, text);
}

static void world_init(struct world *w)
{
	struct sync_config config = { .accepted = on_accepted,
				      .rejected = on_rejected,
				      .accepted_arg = w };

	serve_world_init(&w->w);
	sync_close(w->w.s);
	sync_open(&w->w.s, &w->w.m, &w->w.p, &w->w.k.plane, &config);
	w->w.ctx.sync = w->w.s;
	monitor_open(&w->mon, &w->w.m);
	w->w.ctx.monitor = w->mon;
	sync_all(&w->w);
	monitor_stepped(w->mon, w->w.s);
}

static void world_fini(struct world *w)
{
	monitor_close(w->mon);
	serve_world_fini(&w->w);
}

/* `params`: "service=shop/web&kind=sync", or "". */
static int watch_open(struct watch *ret, struct world *w, const char *params)
{
	struct http_request q = { 0 };
	char head[256];
	struct err err;
	int n = snprintf(head, sizeof(head), "GET /v1/monitor?%s HTTP/1.1\r\nHost: x\r\n\r\n",
			 params);

	*ret = (struct watch){ 0 };
	assert_int_equal(http_request_parse(&q, head, (size_t)n, HTTP_TAKES_READS, &err), 0);
	control_route_answer(control_route_find(q.path), &ret->reply, &w->w.ctx, &q);
	http_request_fini(&q);
	return ret->reply.status;
}

static void watch_close(struct watch *v)
{
	if (v->reply.ops != NULL)
		v->reply.ops->close(v->reply.state);
	str_fini(&v->reply.body);
	str_fini(&v->text);
}

/* Events since the last call, as an array. */
static json_t *events(struct watch *v)
{
	json_t *list = json_array();
	char *rest;
	char *line;

	str_clear(&v->text);
	assert_int_equal(v->reply.ops->more(v->reply.state, &v->text, 0), HTTP_BODY_WAIT);
	rest = v->text.text;
	while (rest != NULL && v->text.len > 0 && (line = strsep(&rest, "\n")) != NULL)
		if (*line != '\0')
			json_array_append_new(list, json_of(line, strlen(line)));
	return list;
}

/* "hello service sync" */
static void assert_events(struct watch *v, const char *want)
{
	json_t *list = events(v);
	struct str got = { 0 };
	json_t *event;
	size_t i;

	json_array_foreach (list, i, event)
		str_printf(&got, "%s%s", i ? " " : "", text_at(event, "event"));
	assert_string_equal(str_text(&got), want);
	str_fini(&got);
	json_decref(list);
}

static void test_story(void **state)
{
	struct world w;
	struct watch v;
	json_t *list;

	(void)state;
	world_init(&w);
	assert_int_equal(watch_open(&v, &w, ""), 200);
	assert_events(&v, "hello");
	put_service(&w.w, "shop/web", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs;2 rs");
	sync_all(&w.w);
	list = events(&v);
	assert_string_equal(text_at(list, "0.event"), "service");
	assert_string_equal(text_at(list, "0.change"), "put");
	assert_int_equal(int_at(list, "0.relevant"), 1);
	assert_string_equal(text_at(list, "1.event"), "endpointslice");
	assert_string_equal(text_at(list, "1.service"), "web");
	assert_int_equal(int_at(list, "1.endpoints_before"), 0);
	assert_int_equal(int_at(list, "1.endpoints_after"), 2);
	assert_string_equal(text_at(list, "2.event"), "sync");
	assert_string_equal(text_at(list, "2.name"), "web");
	assert_int_equal(int_at(list, "2.operations"), 4);
	assert_string_equal(text_at(list, "2.texts.1"), "backend-add pool 1 10.0.1.1:8080 at 0");
	assert_int_equal(json_array_size(list), 3);
	json_decref(list);
	/* An equal object again: an event, without effect. */
	put_service(&w.w, "shop/web", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	list = events(&v);
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(int_at(list, "0.relevant"), 0);
	json_decref(list);
	del_service(&w.w, "shop", "web");
	sync_all(&w.w);
	assert_events(&v, "service sync");
	watch_close(&v);
	world_fini(&w);
}

static void test_refused(void **state)
{
	struct world w;
	struct watch v;
	json_t *list;

	(void)state;
	world_init(&w);
	assert_int_equal(watch_open(&v, &w, "kind=rejected"), 200);
	assert_events(&v, "hello");
	w.w.k.refuse_name = "web";
	w.w.k.is_culprit_named = true;
	put_service(&w.w, "shop/web", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	list = events(&v);
	assert_string_equal(text_at(list, "0.text"), "set to refuse web");
	json_decref(list);
	watch_close(&v);
	world_fini(&w);
}

/* CT-25: a silent endpoint, to subscribers of its service. */
static void test_silence(void **state)
{
	struct failover_silence s = { .by = { test_addr("10.0.1.1"), 80, 0 }, .unanswered = 3 };
	struct watch web, db;
	struct world w;
	json_t *list;

	(void)state;
	world_init(&w);
	s.ns = name_get_str("shop");
	s.name = name_get_str("web");
	assert_int_equal(watch_open(&web, &w, "service=shop/web"), 200);
	assert_int_equal(watch_open(&db, &w, "service=shop/db"), 200);
	assert_events(&web, "hello");
	monitor_silence(w.mon, &s, false);
	monitor_silence(w.mon, &s, true);
	list = events(&web);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(text_at(list, "0.event"), "silent");
	assert_string_equal(text_at(list, "0.name"), "web");
	assert_string_equal(text_at(list, "0.address"), "10.0.1.1");
	assert_int_equal(int_at(list, "0.unanswered"), 3);
	assert_int_equal(int_at(list, "0.over"), 0);
	assert_int_equal(int_at(list, "1.over"), 1);
	json_decref(list);
	assert_events(&db, "hello");
	watch_close(&web);
	watch_close(&db);
	name_unref(s.ns);
	name_unref(s.name);
	world_fini(&w);
}

static void test_filters(void **state)
{
	struct world w;
	struct watch all;
	struct watch web;
	struct watch sync;

	(void)state;
	world_init(&w);
	assert_int_equal(watch_open(&all, &w, ""), 200);
	assert_int_equal(watch_open(&web, &w, "service=shop/web&kind="), 200);
	assert_int_equal(watch_open(&sync, &w, "service=shop/db&kind=sync,rejected"), 200);
	put_service(&w.w, "shop/web", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/web-1", "web", "|http:8080|1 rs");
	put_service(&w.w, "shop/db", "ip=10.96.0.2 port=http:80");
	sync_all(&w.w);
	assert_events(&all, "hello service endpointslice service sync sync");
	assert_events(&web, "hello service endpointslice sync");
	assert_events(&sync, "hello sync");
	watch_close(&all);
	watch_close(&web);
	watch_close(&sync);
	world_fini(&w);
}

static void test_bad_parameters(void **state)
{
	static const char *const bad[] = { "service=web", "kind=sync,gossip", "color=red" };
	static const char *const errors[] = {
		"service: 'web' is not NAMESPACE/NAME",
		("kind: 'gossip' is not addresses, service, endpointslice, node, servicecidr, sync, "
		 "rejected, kernel, silent or ejected"),
		"there is no parameter 'color'",
	};
	struct world w;

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct watch v;

		assert_int_equal(watch_open(&v, &w, bad[i]), 400);
		assert_non_null(strstr(str_text(&v.reply.body), errors[i]));
		watch_close(&v);
	}
	world_fini(&w);
}

/* A subscriber that does not read loses events, gets their number, and continues with later
 * events. */
static void test_slow(void **state)
{
	struct world w;
	struct watch slow;
	struct watch quick;
	size_t reported = 0;
	json_t *list;
	json_t *last;

	(void)state;
	world_init(&w);
	assert_int_equal(watch_open(&slow, &w, "kind=service"), 200);
	assert_int_equal(watch_open(&quick, &w, "kind=service"), 200);
	for (int i = 0; i < 5000; i++) {
		put_service(&w.w, "shop/web",
			    i % 2 ? "ip=10.96.0.1 port=http:80" : "ip=10.96.0.1 port=http:81");
		list = events(&quick);
		reported += json_array_size(list);
		json_decref(list);
	}
	assert_int_equal(reported, 5001); /* hello */
	list = events(&slow);
	last = json_array_get(list, json_array_size(list) - 1);
	assert_string_equal(text_at(last, "event"), "lost");
	assert_true(slow.text.len <= MONITOR_QUEUE_MAX + 100);
	assert_int_equal(json_array_size(list) - 2 + (size_t)int_at(last, "count"), 5000);
	json_decref(list);
	put_service(&w.w, "shop/web", "ip=10.96.0.1 port=http:82");
	assert_events(&slow, "service");
	watch_close(&slow);
	watch_close(&quick);
	world_fini(&w);
}

/* Without subscribers the model has no callback. And the limit of subscribers. */
static void test_readers(void **state)
{
	struct watch v[MONITOR_SUBSCRIBERS_MAX + 1];
	struct world w;

	(void)state;
	world_init(&w);
	assert_null(w.w.m.event);
	for (int i = 0; i < MONITOR_SUBSCRIBERS_MAX; i++)
		assert_int_equal(watch_open(&v[i], &w, ""), 200);
	assert_int_equal(watch_open(&v[MONITOR_SUBSCRIBERS_MAX], &w, ""), 503);
	assert_non_null(w.w.m.event);
	for (int i = 0; i <= MONITOR_SUBSCRIBERS_MAX; i++)
		watch_close(&v[i]);
	assert_null(w.w.m.event);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_story),   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_filters), cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(test_slow),    cmocka_unit_test(test_readers),
		cmocka_unit_test(test_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
