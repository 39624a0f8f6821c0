/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/page, ETags, history: allowed requests, repeated answers, duration of a turn. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/history.h"
#include "api/page.h"
#include "model/eject.h"
#include "serve_world.h"

/* Bytes that one unit of work may add to an answer: one service of a list, for example. */
#define UNIT_MAX 4096

struct world {
	struct serve_world w;
	struct history *history;
	size_t n_units;         /* calls for the last answer, each with its deadline passed */
	size_t largest;         /* bytes that one of them added */
	size_t largest_counted; /* counters that one of them asked for */
};

static void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	serve_world_init(&w->w);
	history_open(&w->history, &w->w.ctx);
	w->w.ctx.history = w->history;
}

static void world_fini(struct world *w)
{
	history_close(w->history);
	serve_world_fini(&w->w);
}

/* With a passed deadline each call does the smallest piece of work. */
static void stream_read(struct world *w, struct http_reply *reply)
{
	int r;

	w->n_units = 0;
	w->largest = 0;
	w->largest_counted = 0;
	if (reply->ops == NULL)
		return;
	do {
		size_t before = reply->body.len;
		size_t counted = w->w.k.n_counted;

		r = reply->ops->more(reply->state, &reply->body, 0);
		w->n_units++;
		w->largest = MAX(w->largest, reply->body.len - before);
		w->largest_counted = MAX(w->largest_counted, w->w.k.n_counted - counted);
	} while (r > 0);
	assert_int_equal(r, 0);
	reply->ops->close(reply->state);
	reply->ops = NULL;
}

/* The whole answer; false: not a path of the page. */
static bool ask(struct world *w, const char *path, const char *headers, struct http_reply *reply)
{
	struct http_request q;
	struct err err;
	char head[1024];
	bool is_ours;
	int n = snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\n%s\r\n", path, headers);

	*reply = (struct http_reply){ 0 };
	assert_int_equal(http_request_parse(&q, head, (size_t)n, HTTP_TAKES_READS, &err), 0);
	is_ours = page_answer(&w->w.ctx, &q, reply);
	if (!page_host_is_good(&w->w.ctx, q.host))
		reply->status = 403; /* as in metrics.c, for any path */
	http_request_fini(&q);
	stream_read(w, reply);
	return is_ours;
}

static void reply_fini(struct http_reply *reply)
{
	str_fini(&reply->body);
	str_fini(&reply->headers);
}

/* --- allowed requests --- */

static const struct {
	const char *headers;
	int status;
} hosts[] = {
	{ "Host: 127.0.0.1:10249\r\n", 200 },
	{ "Host: [::1]:10249\r\n", 200 },
	{ "Host: [::1]\r\n", 200 },
	{ "Host: 192.0.2.7\r\n", 200 },
	{ "Host: localhost\r\n", 200 },
	{ "host:LocalHost:1 \r\n", 200 },
	{ "Host: n1\r\n", 200 },
	{ "Host: N1:10249\r\n", 200 },
	{ "", 403 },
	{ "Host:\r\n", 403 },
	{ "Host: evil.example\r\n", 403 },
	{ "Host: n1.evil.example\r\n", 403 },
	{ "Host: 127.0.0.1.evil.example\r\n", 403 },
	{ "Host: evil.example:127.0.0.1\r\n", 403 },
	{ "Host: [127.0.0.1.evil.example]\r\n", 403 },
	{ "Host: [::1\r\n", 403 },
	{ "Host: localhost.\r\n", 403 },
	{ "Host: a@127.0.0.1\r\n", 403 },
};

static void test_hosts(void **state)
{
	static const char *const paths[] = { "/", "/page.js", "/v1/status", "/v1/services/a/b" };
	struct world w;
	struct http_reply reply;

	(void)state;
	world_init(&w);
	put_service(&w.w, "a/b", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		print_message("    '%.40s'\n", hosts[i].headers);
		for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
			assert_true(ask(&w, paths[k], hosts[i].headers, &reply));
			assert_int_equal(reply.status, hosts[i].status);
			assert_non_null(strstr(reply.headers.text, "default-src 'none'"));
			assert_non_null(strstr(reply.headers.text, "frame-ancestors 'none'"));
			reply_fini(&reply);
		}
	}
	/* The target has precedence over the header. */
	assert_true(ask(&w, "http://evil.example/v1/status", "Host: localhost\r\n", &reply));
	assert_int_equal(reply.status, 403);
	reply_fini(&reply);
	world_fini(&w);
}

#define HERE "Host: localhost\r\n"

static void test_paths(void **state)
{
	static const char *const others[] = { "/metrics",      "/proxyMode", "/healthz",
					      "/v1/dump",      "/v1/",       "/v1",
					      "/v1/servicesx", "/../etc",    "/page",
					      "/v1/status/",   "//" };
	static const struct {
		const char *path;
		const char *type;
	} ours[] = {
		{ "/", "text/html; charset=utf-8" },
		{ "/page.css", "text/css; charset=utf-8" },
		{ "/page.js", "text/javascript; charset=utf-8" },
		{ "/icon.svg", "image/svg+xml" },
		{ "/v1/services?limit=2", "application/json" },
	};
	struct world w;
	struct http_reply reply;

	(void)state;
	world_init(&w);
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(ask(&w, others[i], HERE, &reply));
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		assert_true(ask(&w, ours[i].path, HERE, &reply));
		assert_int_equal(reply.status, 200);
		assert_string_equal(reply.type, ours[i].type);
		assert_true(reply.body.len > 40);
		reply_fini(&reply);
	}
	assert_true(ask(&w, "/v1/services/none", HERE, &reply));
	assert_int_equal(reply.status, 404);
	reply_fini(&reply);
	world_fini(&w);
}

/* A reload replaces the options while a status is written. */
static void test_options_replaced(void **state)
{
	struct http_reply reply = { 0 };
	struct str out = { 0 };
	struct world w;

	(void)state;
	world_init(&w);
	w.w.ctx.options = json_pack("{s:s}", "v", "2");
	body_status(&reply, &w.w.ctx, &(struct http_request){ 0 });
	json_decref(w.w.ctx.options);
	w.w.ctx.options = json_pack("{s:s}", "v", "4");
	while (reply.ops->more(reply.state, &out, 0) == 1)
		;
	assert_non_null(strstr(out.text, "\"options\":{\"v\":\"2\"}"));
	reply.ops->close(reply.state);
	str_fini(&out);
	world_fini(&w);
}

/* Flags of vipd are visible on the control socket only. */
static void test_options(void **state)
{
	struct world w;
	struct http_reply reply;

	(void)state;
	world_init(&w);
	w.w.ctx.options = json_pack("{s:s}", "--kubeconfig", "/secret/place");
	sync_all(&w.w);
	assert_true(ask(&w, "/v1/status", HERE, &reply));
	assert_null(strstr(reply.body.text, "secret"));
	assert_non_null(strstr(reply.body.text, "\"options\":{}"));
	reply_fini(&reply);
	world_fini(&w);
}

/* --- repeated answers --- */

/* Does the tag of the last answer yield 304? Stores the new tag. */
static bool is_same(struct world *w, const char *path, char tag[static 64])
{
	struct http_reply reply;
	char headers[256];
	const char *etag;
	bool is_same;

	(void)snprintf(headers, sizeof(headers), HERE "If-None-Match: %s\r\n", tag);
	assert_true(ask(w, path, headers, &reply));
	is_same = reply.status == 304;
	assert_true(is_same || reply.status == 200);
	assert_int_equal(reply.body.len == 0, is_same);
	etag = strstr(reply.headers.text, "ETag: ");
	assert_non_null(etag);
	(void)snprintf(tag, 64, "%.*s", (int)strcspn(etag + 6, "\r"), etag + 6);
	reply_fini(&reply);
	return is_same;
}

static void test_conditional(void **state)
{
	static const char *const paths[] = { "/v1/status", "/v1/services", "/v1/services/a/b",
					     "/v1/history" };
	struct world w;
	char tag[64];

	(void)state;
	world_init(&w);
	put_service(&w.w, "a/b", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		print_message("    %s\n", paths[i]);
		tag[0] = '\0';
		assert_false(is_same(&w, paths[i], tag));
		assert_true(is_same(&w, paths[i], tag));
		sync_settle(w.w.s, T0); /* nothing to do: no change */
		assert_true(is_same(&w, paths[i], tag));
		put_slice(&w.w, "a/s", "b", "|http:8080|10.1.0.1 rs");
		assert_false(is_same(&w, paths[i], tag)); /* known ... */
		sync_settle(w.w.s, T0);
		assert_false(is_same(&w, paths[i], tag)); /* ... and in the kernel */
		assert_true(is_same(&w, paths[i], tag));
		put_slice(&w.w, "a/s", "b", "|http:8080|10.1.0.2 rs");
		sync_settle(w.w.s, T0);
		assert_false(is_same(&w, paths[i], tag));
	}
	/* Missing functions of the node are reported at once, also while the node is ready. */
	(void)is_same(&w, paths[0], tag);
	assert_true(plane_fault_set(&w.w.k.plane, PLANE_FAULT_SYSCTL, false, "a sysctl"));
	assert_false(is_same(&w, paths[0], tag));
	assert_true(is_same(&w, paths[0], tag));
	(void)snprintf(tag, sizeof(tag), "\"x\", W/%s", "\"0\"");
	assert_false(is_same(&w, paths[0], tag));
	world_fini(&w);
}

/* The counters of a service with 601 frontends and 600 endpoints are read in batches. */
static void test_counts(void **state)
{
	FINI(str_fini) struct str service = { 0 };
	FINI(str_fini) struct str slice = { 0 };
	struct world w;
	struct http_reply reply;
	json_t *json;

	(void)state;
	world_init(&w);
	str_puts(&service, "ip=10.96.0.1 port=http:80");
	str_puts(&slice, "|http:8080|");
	for (int i = 0; i < 600; i++) {
		str_printf(&service, " ext=192.0.%d.%d", 3 + i / 200, 1 + i % 200);
		str_printf(&slice, "%s10.1.%d.%d rs", i > 0 ? ";" : "", i / 200, 1 + i % 200);
	}
	put_service(&w.w, "a/b", service.text);
	put_slice(&w.w, "a/s", "b", slice.text);
	sync_all(&w.w);
	assert_true(ask(&w, "/v1/counts?service=a/b", HERE, &reply));
	assert_in_range(w.largest_counted, 1, 256);
	json = json_of(reply.body.text, reply.body.len);
	assert_int_equal(int_at(json, "items.0.connections"), 601 * 80);
	assert_int_equal(int_at(json, "items.0.rejected"), 0);
	assert_int_equal(len_at(json, "items.0.endpoints"), 600);
	assert_string_equal(text_at(json, "items.0.endpoints.599.address"), "10.1.2.200");
	assert_int_equal(int_at(json, "items.0.endpoints.599.connections"), 8080 + 200);
	json_decref(json);
	reply_fini(&reply);
	world_fini(&w);
}

static json_t *counts_of(struct world *w, const char *service)
{
	struct http_reply reply;
	char target[64];
	json_t *json;

	(void)snprintf(target, sizeof(target), "/v1/counts?service=%s", service);
	assert_true(ask(w, target, HERE, &reply));
	json = json_of(reply.body.text, reply.body.len);
	reply_fini(&reply);
	return json;
}

/* TCP and UDP of one endpoint are not added up. */
static void test_counts_protocols(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	put_service(&w.w, "a/dns", "ip=10.96.0.1 port=dns/UDP:53 port=dns-tcp/TCP:53");
	put_slice(&w.w, "a/s", "dns", "|dns/UDP:53 dns-tcp/TCP:53|10.1.0.1 rs");
	sync_all(&w.w);
	json = counts_of(&w, "a/dns");
	assert_int_equal(int_at(json, "items.0.connections"), 53 + 53);
	assert_int_equal(len_at(json, "items.0.endpoints"), 2);
	for (int i = 0; i < 2; i++) {
		json_t *ep = at(json, i == 0 ? "items.0.endpoints.0" : "items.0.endpoints.1");

		assert_string_equal(text_at(ep, "address"), "10.1.0.1");
		assert_string_equal(text_at(ep, "protocol"), i == 0 ? "TCP" : "UDP");
		assert_int_equal(int_at(ep, "connections"), 53 + 1);
	}
	json_decref(json);
	world_fini(&w);
}

/* A sum with a counter that cannot be read is null, neither smaller nor absent. */
static void test_counts_unknown(void **state)
{
	static const char *const numbers[] = { "items.0.connections", "items.0.rejected",
					       "items.0.endpoints.0.connections" };
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	put_service(&w.w, "a/b", "ip=10.96.0.1 ip=fd00::1 port=http:80");
	put_slice(&w.w, "a/s", "b", "|http:8080|10.1.0.1 rs");
	put_service(&w.w, "a/v4", "ip=10.96.0.2 port=http:80");
	sync_all(&w.w);
	for (int i = 0; i < 3; i++) {
		w.w.k.fail_counts = i == 1 ? -EAGAIN : 0;
		json = counts_of(&w, "a/b");
		for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
			assert_int_equal(json_is_null(at(json, numbers[k])), i == 1);
		assert_true(json_is_true(at(json, "counted")));
		json_decref(json);
	}
	w.w.p.left_out = 1 << IPFAM_V6;
	json = counts_of(&w, "a/b");
	assert_true(json_is_null(at(json, "items.0.connections")));
	json_decref(json);
	json = counts_of(&w, "a/v4");
	assert_int_equal(int_at(json, "items.0.connections"), 80);
	json_decref(json);
	w.w.p.left_out = 0;
	w.w.ctx.counting = PLANE_COUNT_NONE;
	json = counts_of(&w, "a/b");
	assert_int_equal(len_at(json, "items"), 0);
	assert_true(json_is_false(at(json, "counted")));
	json_decref(json);
	world_fini(&w);
}

static struct plane_drains drains;
static char note_text[8];

static void drains_get(const struct plane *p, struct plane_drains *ret)
{
	(void)p;
	*ret = drains;
}

static void describe(void *arg, struct serve_source_info *ret)
{
	(void)arg;
	ret->notes.n_all = 1;
	*vec_push(&ret->notes) = (struct serve_source_error){ xstrdup("web.yaml: document 1"),
							      xstrdup(note_text), T0 };
}

/* Parts of the status that change without an event of an object or a sync. */
static void test_status_parts(void **state)
{
	struct plane_ops ops = mock_plane_ops;
	struct plane plane = { .ops = &ops };
	size_t *const numbers[] = { &drains.n_draining, &drains.n_drained, &drains.n_timed_out };
	struct world w;
	char tag[64] = "";

	(void)state;
	world_init(&w);
	sync_all(&w.w);
	ops.drains = drains_get;
	w.w.ctx.plane = &plane;
	w.w.ctx.source = (struct serve_source){ .describe = describe };
	w.w.ctx.options = json_pack("{s:s}", "v", "2");
	assert_false(is_same(&w, "/v1/status", tag));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		assert_true(is_same(&w, "/v1/status", tag));
		++*numbers[i];
		assert_false(is_same(&w, "/v1/status", tag));
	}
	strcpy(note_text, "other");
	assert_false(is_same(&w, "/v1/status", tag));
	assert_int_equal(json_object_set_new(w.w.ctx.options, "v", json_string("4")), 0);
	assert_false(is_same(&w, "/v1/status", tag));
	assert_true(is_same(&w, "/v1/status", tag));
	world_fini(&w);
}

static size_t n_draining;

static void leaving(const struct plane *p, const struct svc *svc,
		    void (*fn)(void *arg, const struct plane_draining *l), void *arg)
{
	struct plane_draining l = {
		.addr = test_addr("10.1.0.9"), .port = 80, .is_counted = n_draining > 1, .active = 3
	};

	(void)p;
	(void)svc;
	for (size_t i = 0; i < n_draining; i++)
		fn(arg, &l);
}

/* Connections end without a change: the answer is generated again until there are none. */
static void test_leaving(void **state)
{
	struct plane_ops ops = mock_plane_ops;
	struct plane plane = { .ops = &ops };
	struct world w;
	struct http_reply reply;
	char tag[64] = "";

	(void)state;
	world_init(&w);
	ops.draining = leaving;
	put_service(&w.w, "a/b", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	w.w.ctx.plane = &plane;
	n_draining = 0;
	assert_false(is_same(&w, "/v1/services/a/b", tag));
	assert_true(is_same(&w, "/v1/services/a/b", tag));
	n_draining = 2;
	assert_true(ask(&w, "/v1/services/a/b", HERE, &reply));
	assert_int_equal(reply.status, 200);
	assert_null(strstr(reply.headers.text, "ETag"));
	assert_non_null(strstr(reply.body.text, "\"active\":3"));
	reply_fini(&reply);
	n_draining = 1; /* before the first look */
	assert_true(ask(&w, "/v1/services/a/b", HERE, &reply));
	assert_non_null(strstr(reply.body.text, "\"active\":null,\"inactive\":null"));
	reply_fini(&reply);
	n_draining = 0;
	assert_true(is_same(&w, "/v1/services/a/b", tag));
	world_fini(&w);
}

/* The page of service a/b at `now`, without an ETag: is `text` in it? */
static bool is_ejected_page(struct world *w, const char *text)
{
	struct http_reply reply;
	bool is;

	assert_true(ask(w, "/v1/services/a/b", HERE, &reply));
	assert_null(strstr(reply.headers.text, "ETag"));
	is = strstr(reply.body.text, text) != NULL;
	reply_fini(&reply);
	return is;
}

/* CT-30: an ejection by vipd, and the time to its probe, which does not change the ETag. */
static void test_ejected(void **state)
{
	struct model_ejection e = { .addr = test_addr("10.1.0.2"), .port = 8080, .failed = 8 };
	struct model_ejection *own;
	struct world w;
	char tag[64] = "";

	(void)state;
	world_init(&w);
	put_service(&w.w, "a/b", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "a/s", "b", "|http:8080|10.1.0.1 rs;10.1.0.2 rs");
	sync_all(&w.w);
	e.ns = model_find_text(&w.w.m, "a", "b")->ns;
	e.name = model_find_text(&w.w.m, "a", "b")->name;
	e.probe_ns = now_ns() + 30 * NSEC_PER_SEC;
	assert_int_equal(model_eject(&w.w.m, &e, T0), 0);
	sync_settle(w.w.s, T0);
	own = model_ejection(&w.w.m, e.ns, e.name, &e.addr, e.port);
	assert_true(
		is_ejected_page(&w, "\"ejected: 8 handshakes in a row unanswered, next probe in "));
	own->refused = 8;
	own->probe_ns = now_ns() + 3600 * NSEC_PER_SEC;
	assert_true(
		is_ejected_page(&w, "\"ejected: 8 handshakes in a row refused, next probe in 3"));
	own->refused = 3;
	own->probe_ns = now_ns();
	assert_true(is_ejected_page(&w, "\"ejected: 8 handshakes in a row failed, probed now\""));
	assert_int_equal(model_admit(&w.w.m, e.ns, e.name, &e.addr, e.port, T0), 1);
	sync_settle(w.w.s, T0);
	assert_false(is_same(&w, "/v1/services/a/b", tag));
	assert_true(is_same(&w, "/v1/services/a/b", tag));
	world_fini(&w);
}

/* --- the last minutes --- */

static json_t *history_of(struct world *w)
{
	struct http_reply reply;
	json_t *json;

	assert_true(ask(w, "/v1/history", HERE, &reply));
	json = json_of(reply.body.text, reply.body.len);
	reply_fini(&reply);
	return json;
}

static void test_history(void **state)
{
	uint64_t now;
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	json = history_of(&w);
	assert_int_equal(len_at(json, "items"), 0);
	json_decref(json);
	put_service(&w.w, "a/b", "ip=10.96.0.1 port=http:80");
	sync_all(&w.w);
	now = now_ns();
	history_note(w.history, now);
	history_note(w.history, now + 1); /* nothing new */
	json = history_of(&w);
	assert_int_equal(len_at(json, "items"), 1);
	assert_int_equal(int_at(json, "items.0.events"), 1);
	assert_int_equal(int_at(json, "items.0.services"), 1);
	assert_true(int_at(json, "items.0.writes") > 0);
	assert_true(int_at(json, "items.0.age_s") <= 1);
	json_decref(json);
	/* The last bucket of the histogram has no upper bound. */
	model_put_service(&w.w.m, test_service("a/slow", "ip=10.96.0.2 port=http:80"),
			  now - 20 * NSEC_PER_SEC);
	sync_settle(w.w.s, T0);
	history_note(w.history, now);
	json = history_of(&w);
	assert_true(int_at(json, "items.0.ack_mean_us") >= 10 * 1000 * 1000);
	assert_true(int_at(json, "items.0.ack_max_us") >= int_at(json, "items.0.ack_mean_us"));
	json_decref(json);
	/* Entries older than the ring are overwritten. */
	put_slice(&w.w, "a/s", "b", "|http:8080|10.1.0.1 rs");
	history_note(w.history, now + (uint64_t)HISTORY_SECONDS * NSEC_PER_SEC);
	json = history_of(&w);
	assert_int_equal(len_at(json, "items"), 0);
	json_decref(json);
	world_fini(&w);
}

/* --- 10,000 services --- */

#define N_SERVICES 10000
/* A unit is a bucket of the table of services, which has at most 1.5 services a bucket. */
#define UNITS_MIN (N_SERVICES * 2 / 3)

static void test_slices(void **state)
{
	static const char *const paths[] = {
		"/v1/status",
		"/v1/services?limit=100",
		"/v1/services?limit=5000",
		"/v1/services?limit=100&q=s09999",
		"/v1/services?limit=100&q=10.1.39.250",
		"/v1/services?limit=100&state=no-endpoints,conflict",
		"/v1/services?limit=100&after=ns3/s00003",
	};
	struct world w;
	struct http_reply reply;
	char tag[64];

	(void)state;
	world_init(&w);
	for (int i = 0; i < N_SERVICES; i++) {
		char key[64];
		char slice[64];
		char text[128];

		(void)snprintf(key, sizeof(key), "ns%d/s%05d", i % 7, i);
		(void)snprintf(slice, sizeof(slice), "ns%d/s%05d-x", i % 7, i);
		(void)snprintf(text, sizeof(text), "ip=10.96.%d.%d port=http:80", i / 250,
			       i % 250 + 1);
		put_service(&w.w, key, text);
		(void)snprintf(text, sizeof(text), "|http:8080|10.1.%d.%d rs ~p%05d", i / 250,
			       i % 250 + 1, i);
		put_slice(&w.w, slice, strchr(key, '/') + 1, text);
	}
	sync_all(&w.w);
	tag[0] = '\0';
	assert_false(is_same(&w, paths[0], tag));
	assert_true(w.n_units >= UNITS_MIN);
	assert_true(is_same(&w, paths[0], tag)); /* nothing changed: no walk over the services */
	assert_int_equal(w.n_units, 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_true(ask(&w, paths[i], HERE, &reply));
		assert_int_equal(reply.status, 200);
		print_message("    %-52s %6zu units, %zu bytes at most\n", paths[i], w.n_units,
			      w.largest);
		assert_true(w.n_units >= UNITS_MIN);
		assert_true(w.largest <= UNIT_MAX);
		reply_fini(&reply);
	}
	world_fini(&w);
}

/* A service of a list gets more ports between two pieces. */
static void test_list_change(void **state)
{
	(void)state;
	for (int cut = 0; cut < 24; cut++) {
		struct world w;
		struct http_request q;
		struct http_reply reply = { 0 };
		struct err err;
		static const char head[] = "GET /v1/services HTTP/1.1\r\nHost: ::1\r\n\r\n";
		FINI(str_fini) struct str many = { 0 };

		world_init(&w);
		put_service(&w.w, "a/b", "ip=10.96.0.1 port=p:80");
		sync_all(&w.w);
		assert_int_equal(http_request_parse(&q, head, strlen(head), HTTP_TAKES_READS, &err),
				 0);
		assert_true(page_answer(&w.w.ctx, &q, &reply));
		for (int i = 0; i < cut; i++)
			if (reply.ops->more(reply.state, &reply.body, 0) == 0)
				break;
		str_puts(&many, "ip=10.96.0.1");
		for (int i = 0; i < 100; i++)
			str_printf(&many, " port=q%d:%d", i, 1000 + i);
		put_service(&w.w, "a/b", many.text);
		sync_settle(w.w.s, T0);
		http_request_fini(&q);
		if (reply.body.len == 0 || reply.body.text[reply.body.len - 1] != '\n')
			stream_read(&w, &reply);
		else
			reply.ops->close(reply.state);
		json_decref(json_of(reply.body.text, reply.body.len));
		reply_fini(&reply);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_list_change),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_conditional),
		cmocka_unit_test(test_options_replaced),
		cmocka_unit_test(test_status_parts),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_counts_protocols),
		cmocka_unit_test(test_counts_unknown),
		cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_ejected),
		cmocka_unit_test(test_history),
		cmocka_unit_test(test_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
