/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/control: the socket, every path, and 10,000 services page by page. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "api/control.h"
#include "base/log.h"
#include "http/http.h"
#include "http_talk.h"
#include "serve_world.h"

/*
 * A clock that counts how often the code under test reads it (linked with --wrap=now_ns).
 * The server reads the clock after each unit of work, such as one service, row or endpoint,
 * and ends its turn when HTTP_TURN_NS are over. With READ_NS a reading, READS_MAX of them fill
 * a turn, on any machine.
 */
#define READ_NS (20 * NSEC_PER_USEC)
#define READS_MAX (HTTP_TURN_NS / READ_NS)
#define READS_ASIDE 8 /* other reads of a turn: timers, the head of the request */

uint64_t __real_now_ns(void);
uint64_t __wrap_now_ns(void);

static struct {
	bool is_counting;
	uint64_t reads;
	uint64_t now;
} counting;

uint64_t __wrap_now_ns(void)
{
	if (!counting.is_counting)
		return __real_now_ns();
	counting.reads++;
	return counting.now += READ_NS;
}

/* Timers end at once. */
static bool is_hurried;

void __real_event_after(struct event *ev, uint64_t ns);
void __wrap_event_after(struct event *ev, uint64_t ns);

void __wrap_event_after(struct event *ev, uint64_t ns)
{
	__real_event_after(ev, is_hurried ? 0 : ns);
}

struct world {
	struct serve_world w;
	struct talk talk;
	struct serve_control *control;
	char dir[64];
	char path[96];
};

static void world_init(struct world *w)
{
	struct err err;

	*w = (struct world){ 0 };
	strcpy(w->dir, "/tmp/vipd-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->path, sizeof(w->path), "%s/run/control.sock", w->dir);
	serve_world_init(&w->w);
	w->talk.base = event_base_new();
	assert_int_equal(serve_control_open(&w->control, w->talk.base, &w->w.ctx, w->path, &err),
			 0);
}

static void world_fini(struct world *w)
{
	char run[96];

	serve_control_close(w->control);
	assert_int_equal(access(w->path, F_OK), -1);
	event_base_free(w->talk.base);
	serve_world_fini(&w->w);
	(void)snprintf(run, sizeof(run), "%s/run", w->dir);
	(void)rmdir(run);
	assert_int_equal(rmdir(w->dir), 0);
}

static int get(struct world *w, const char *target, struct str *body)
{
	char request[512];

	(void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: vipd\r\n\r\n", target);
	return talk_get(&w->talk, w->path, request, body);
}

static json_t *get_json(struct world *w, const char *target)
{
	struct str body = { 0 };
	json_t *json;

	assert_int_equal(get(w, target, &body), 200);
	json = json_of(body.text, body.len);
	assert_int_equal(int_at(json, "api"), 1);
	str_fini(&body);
	return json;
}

static void some_services(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		char key[64];
		char slice[64];
		char text[128];

		(void)snprintf(key, sizeof(key), "ns%d/s%05d", i % 7, i);
		(void)snprintf(slice, sizeof(slice), "ns%d/s%05d-x", i % 7, i);
		(void)snprintf(text, sizeof(text), "ip=10.96.%d.%d port=http:80", i / 250,
			       i % 250 + 1);
		put_service(&w->w, key, text);
		(void)snprintf(text, sizeof(text), "|http:8080|10.1.%d.%d rs ~p%05d;10.2.%d.%d rs",
			       i / 250, i % 250 + 1, i, i / 250, i % 250 + 1);
		put_slice(&w->w, slice, strchr(key, '/') + 1, text);
	}
}

/* --- the socket --- */

static void test_mode(void **state)
{
	struct world w;
	struct stat st;

	(void)state;
	world_init(&w);
	assert_int_equal(lstat(w.path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0660);
	world_fini(&w);
}

static int open_again(struct world *w, const char *path, struct err *err)
{
	struct serve_control *c = NULL;
	int r = serve_control_open(&c, w->talk.base, &w->w.ctx, path, err);

	serve_control_close(c);
	return r;
}

static void test_places(void **state)
{
	struct world w;
	struct err err = { 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char path[128];
	int fd;

	(void)state;
	world_init(&w);
	/* A running process keeps its socket. */
	assert_int_equal(open_again(&w, w.path, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "another process answers on"));
	assert_int_equal(access(w.path, F_OK), 0);

	/* The socket of a killed process is replaced. */
	(void)snprintf(path, sizeof(path), "%s/stale", w.dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(open_again(&w, path, &err), 0);
	assert_int_equal(access(path, F_OK), -1);

	/* A file that is not a socket stays. */
	fd = creat(path, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(open_again(&w, path, &err), -EEXIST);
	assert_int_equal(unlink(path), 0);

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(open_again(&w, path, &err), -ENAMETOOLONG);
	world_fini(&w);
}

/* The folder is missing at first: vipd runs without the socket, and makes it later. */
static void test_made_later(void **state)
{
	struct world w;
	struct serve_control *c = NULL;
	struct str body = { 0 };
	struct err err = { 0 };
	char folder[104];
	char parent[96];
	char path[128];

	(void)state;
	world_init(&w);
	(void)snprintf(parent, sizeof(parent), "%s/a", w.dir);
	(void)snprintf(folder, sizeof(folder), "%s/b", parent);
	(void)snprintf(path, sizeof(path), "%s/control.sock", folder);
	is_hurried = true;
	assert_int_equal(serve_control_open(&c, w.talk.base, &w.w.ctx, path, &err), 0);
	assert_non_null(strstr(err.text, "No such file or directory"));
	assert_int_equal(event_base_loop(w.talk.base, EVLOOP_ONCE), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(mkdir(parent, 0755), 0);
	assert_int_equal(event_base_loop(w.talk.base, EVLOOP_ONCE), 0);
	is_hurried = false;
	assert_int_equal(talk_get(&w.talk, path, "GET /v1/status HTTP/1.1\r\n\r\n", &body), 200);
	serve_control_close(c);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(rmdir(parent), 0);
	str_fini(&body);
	world_fini(&w);
}

/* Another process has replaced the socket: closing removes only our own. */
static void test_successor(void **state)
{
	struct world w;
	struct err err;
	struct serve_control *second;

	(void)state;
	world_init(&w);
	assert_int_equal(unlink(w.path), 0);
	assert_int_equal(serve_control_open(&second, w.talk.base, &w.w.ctx, w.path, &err), 0);
	serve_control_close(w.control);
	assert_int_equal(access(w.path, F_OK), 0);
	w.control = second;
	world_fini(&w);
}

/* --- the paths --- */

static const struct {
	const char *target;
	int status;
	const char *text; /* part of the error */
} refusals[] = {
	{ "/", 404, "only version 1" },
	{ "/v2/status", 404, "only version 1" },
	{ "/v1/nothing", 404, "available: /v1/status" },
	{ "/v1/services/", 404, "is not NAMESPACE/NAME" },
	{ "/v1/services/shop", 404, "is not NAMESPACE/NAME" },
	{ "/v1/services/shop/", 404, "is not NAMESPACE/NAME" },
	{ "/v1/services/shop/cart/x", 404, "is not NAMESPACE/NAME" },
	{ "/v1/services/shop/cart", 404, "there is no service shop/cart" },
	{ "/v1/services?limit=0", 400, "limit: '0' is not a number from 1 to 5000" },
	{ "/v1/services?limit=5001", 400, "limit: '5001'" },
	{ "/v1/services?limit=-1", 400, "limit: '-1'" },
	{ "/v1/services?limit=1x", 400, "limit: '1x'" },
	{ "/v1/services?limit=99999999999999999999", 400, "limit: " },
	{ "/v1/services?after=shop", 400, "after: 'shop' is not NAMESPACE/NAME" },
	{ "/v1/services?state=fine", 400,
	  "state: 'fine' is not ok, no-service, not-proxied, dropping, no-endpoints, conflict, "
	  "pending or rejected" },
	{ "/v1/services?color=red", 400, "there is no parameter 'color'" },
	{ "/v1/dump?limit=5", 400, "there is no parameter 'limit'" },
	{ "/v1/monitor?service=foo/", 400, "service: 'foo/' is not NAMESPACE/NAME" },
	{ "/v1/monitor?service=/foo", 400, "service: '/foo' is not NAMESPACE/NAME" },
	{ "/v1/monitor?service=//", 400, "service: '//' is not NAMESPACE/NAME" },
	{ "/v1/monitor?service=a/b/c", 400, "service: 'a/b/c' is not NAMESPACE/NAME" },
	{ "/v1/trace", 400, "from: an address" },
	{ "/v1/trace?from=host", 400, "to: ADDRESS:PORT" },
	{ "/v1/trace?from=host&to=10.96.0.1", 400, "to: '10.96.0.1' is not ADDRESS:PORT" },
	{ "/v1/trace?from=host&to=10.96.0.1:80/icmp", 400, "'10.96.0.1:80/icmp' is not ADDR" },
	{ "/v1/trace?from=host&to=10.96.0.1:0", 400, "is not ADDRESS:PORT" },
	{ "/v1/trace?from=fd00::1&to=10.96.0.1:80", 400, "different families" },
	{ "/v1/trace?from=host&to=shop/cart:80", 404, "there is no service shop/cart" },
	{ "/v1/trace?from=host&to=10.96.0.1:80&color=red", 400, "there is no parameter 'color'" },
};

static void test_refusals(void **state)
{
	struct world w;
	struct str body = { 0 };

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		json_t *json;

		print_message("    %s\n", refusals[i].target);
		assert_int_equal(get(&w, refusals[i].target, &body), refusals[i].status);
		json = json_of(body.text, body.len);
		assert_non_null(strstr(text_at(json, "error.text"), refusals[i].text));
		assert_int_equal(int_at(json, "error.status"), refusals[i].status);
		json_decref(json);
	}
	str_fini(&body);
	world_fini(&w);
}

/* --- what may be changed --- */

static const struct {
	const char *request;
	int status;
	const char *text; /* in the answer */
} writes[] = {
	{ "PUT /v1/log?area=sync&level=debug", 200, "\"area\":\"sync\",\"level\":\"debug\"" },
	{ "GET /v1/log", 200, "\"area\":\"sync\",\"level\":\"debug\"" },
	{ "POST /v1/log?area=all&level=error", 200, "\"area\":\"main\",\"level\":\"error\"" },
	{ "GET /v1/log?area=sync&level=debug", 200, "\"area\":\"sync\",\"level\":\"error\"" },
	{ "PUT /v1/log?area=sync", 400, "level: ''" },
	{ "PUT /v1/log?area=sync&level=loud", 400, "level: 'loud' is not error, warn" },
	{ "PUT /v1/log?area=moon&level=debug", 400, "area: 'moon'" },
	{ "PUT /v1/log?level=debug", 400, "area: ''" },
	{ "PUT /v1/log?area=sync&level=debug&for=ever", 400, "no parameter 'for'" },
	{ "GET /v1/log", 200, "\"area\":\"sync\",\"level\":\"error\"" },
	{ "PUT /v1/status", 405, "only GET and HEAD" },
	{ "POST /v1/services/a/b", 405, "only GET and HEAD" },
	{ "PUT /v2/log", 405, "only GET and HEAD" },
	{ "DELETE /v1/log", 405, "only GET, HEAD, PUT and POST" },
	{ "GET /v1/doctor", 404, "node checks are not available" },
};

/* The answer 405 lists the methods that the path has. */
static void test_allow(void **state)
{
	static const struct {
		const char *request;
		const char *allow;
	} cases[] = {
		{ "DELETE /v1/drains", "\r\nAllow: GET, HEAD, PUT, POST\r\n" },
		{ "DELETE /v1/status", "\r\nAllow: GET, HEAD\r\n" },
		{ "PUT /v1/status", "\r\nAllow: GET, HEAD\r\n" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		FINI(str_fini) struct str answer = { 0 };
		char request[64];
		int n = snprintf(request, sizeof(request), "%s HTTP/1.1\r\n\r\n", cases[i].request);
		int fd = talk_connect(w.path);

		talk_all(&w.talk, fd, request, (size_t)n, &answer);
		close(fd);
		assert_non_null(strstr(answer.text, "HTTP/1.1 405 "));
		assert_non_null(strstr(answer.text, cases[i].allow));
	}
	world_fini(&w);
}

static void test_writes(void **state)
{
	struct world w;
	struct str body = { 0 };

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		char request[256];

		print_message("    %s\n", writes[i].request);
		(void)snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: vipd\r\n\r\n",
			       writes[i].request);
		assert_int_equal(talk_get(&w.talk, w.path, request, &body), writes[i].status);
		assert_non_null(strstr(body.text, writes[i].text));
		assert_true(writes[i].status != 200 ||
			    (log_level_get(LOG_AREA_SYNC) == LOG_LEVEL_DEBUG) == (i < 2));
	}
	log_level_set_all(LOG_LEVEL_ERR);
	str_fini(&body);
	world_fini(&w);
}

static void test_empty(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	json = get_json(&w, "/v1/status");
	assert_string_equal(text_at(json, "state"), "waiting");
	json_decref(json);
	json = get_json(&w, "/v1/services");
	assert_int_equal(len_at(json, "items"), 0);
	assert_true(json_is_null(at(json, "next")));
	json_decref(json);
	json = get_json(&w, "/v1/dump");
	assert_int_equal(len_at(json, "items"), 0);
	json_decref(json);
	world_fini(&w);
}

/* Traces with the arguments of a user. */
static const struct {
	const char *query;
	const char *verdict;
	const char *why;
	const char *to; /* the address of the resulting trace */
} traces[] = {
	{ "from=host&to=10.96.0.1:80", "balance", "pool", "10.96.0.1" },
	{ "from=host&to=10.96.0.1:80/TCP", "balance", "pool", "10.96.0.1" },
	{ "from=host&to=10.96.0.1:80/udp", "reject", "unknown-port", "10.96.0.1" },
	{ "from=cart-7&to=shop/cart", "balance", "pool", "10.96.0.1" },
	{ "from=10.0.1.7&to=shop/cart:http", "balance", "pool", "10.96.0.1" },
	{ "from=host&to=shop/cart:80/tcp", "balance", "pool", "10.96.0.1" },
	{ "from=fd00::9&to=%5Bfd96::2%5D:5432", "balance", "pool", "fd96::2" },
	{ "from=host&to=shop/db:5432", "balance", "pool", "fd96::2" },
	{ "from=203.0.113.9&to=192.0.2.1:30080", "reject", "no-endpoint", "192.0.2.1" },
	{ "from=203.0.113.9&to=192.0.2.1:30081", "untouched", "no-node-port", "192.0.2.1" },
};

static void test_traces(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/cart-1", "cart", "|http:8080|7 rs ~cart-7;8 s ~cart-8");
	put_service(&w.w, "shop/db", "ip=fd96::2 port=:5432");
	put_slice(&w.w, "shop/db-1", "db", "v6|:5432|1 rs");
	put_service(&w.w, "web/cart", "type=NodePort ip=10.96.0.3 port=http:80:30080");
	put_service(&w.w, "shop/ads", "ip=10.96.0.4 ext=10.96.0.1 port=http:80");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(traces); i++) {
		char target[256];

		print_message("    %s\n", traces[i].query);
		(void)snprintf(target, sizeof(target), "/v1/trace?%s", traces[i].query);
		json = get_json(&w, target);
		assert_string_equal(text_at(json, "verdict"), traces[i].verdict);
		assert_string_equal(text_at(json, "reason"), traces[i].why);
		assert_string_equal(text_at(json, "destination.address"), traces[i].to);
		json_decref(json);
	}
	/* Of the services with the address, those that have it as cluster IP. */
	json = get_json(&w, "/v1/trace?from=host&to=10.96.0.1:81");
	assert_string_equal(text_at(json, "steps.1.text"),
			    "10.96.0.1:81/TCP is an unknown port of the cluster IP of shop/cart");
	assert_int_equal(len_at(json, "others"), 2);
	json_decref(json);
	world_fini(&w);
}

/* A port without a protocol: TCP, if the service has the number for several. */
static void test_trace_protocol(void **state)
{
	static const struct {
		const char *to;
		const char *proto;
	} cases[] = {
		{ "kube/dns:53", "TCP" },  { "kube/dns:53/udp", "UDP" },
		{ "kube/dns:dns", "UDP" }, { "kube/dns:dns-tcp", "TCP" },
		{ "kube/dns:54", "UDP" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "kube/dns",
		    "ip=10.96.0.10 port=dns/UDP:53 port=dns-tcp/TCP:53 port=x/UDP:54");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char target[128];
		json_t *json;

		print_message("    %s\n", cases[i].to);
		(void)snprintf(target, sizeof(target), "/v1/trace?from=host&to=%s", cases[i].to);
		json = get_json(&w, target);
		assert_string_equal(text_at(json, "destination.protocol"), cases[i].proto);
		json_decref(json);
	}
	world_fini(&w);
}

/* "Why not to pod X?" */
static void test_trace_endpoints(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/cart-1", "cart", "|http:8080|7 rs ~cart-7;8 s ~cart-8");
	sync_all(&w.w);
	json = get_json(&w, "/v1/trace?from=cart-7&to=shop/cart");
	assert_string_equal(text_at(json, "source.address"), "10.0.1.7");
	assert_string_equal(text_at(json, "service.kernel"), "same");
	assert_string_equal(text_at(json, "endpoints.0.pod"), "cart-7");
	assert_true(json_number_value(at(json, "endpoints.0.probability")) == 1);
	assert_true(json_is_true(at(json, "endpoints.0.masqueraded")));
	assert_true(json_is_null(at(json, "endpoints.0.reason")));
	assert_string_equal(text_at(json, "endpoints.1.pod"), "cart-8");
	assert_string_equal(text_at(json, "endpoints.1.reason"), "not ready");
	json_decref(json);
	json = get_json(&w, "/v1/trace?from=cart-9&to=shop/cart");
	assert_string_equal(text_at(json, "problem"),
			    "'cart-9' is neither an IPv4 address nor a pod of a service");
	json_decref(json);
	put_service(&w.w, "test/cart", "ip=10.96.0.2 port=http:80");
	put_slice(&w.w, "test/cart-1", "cart", "|http:8080|17 rs ~cart-7");
	json = get_json(&w, "/v1/trace?from=cart-7&to=shop/cart");
	assert_string_equal(text_at(json, "problem"),
			    "'cart-7' is a pod in several namespaces: use its address");
	assert_int_equal(len_at(json, "endpoints"), 0);
	json_decref(json);
	world_fini(&w);
}

/* The client is a pod of another node, which translates its connections. */
static void test_trace_elsewhere(void **state)
{
	static const struct {
		const char *query;
		const char *node; /* of the client */
		const char *step; /* the first one */
	} cases[] = {
		{ "from=cart-7&to=shop/cart", "n2", "node" },
		{ "from=10.0.1.7&to=10.96.0.1:81", "n2", "node" },
		{ "from=cart-7&to=192.0.2.1:30080", "n2", "source" },
		{ "from=cart-8&to=shop/cart", "n1", "source" },
		{ "from=192.0.2.1&to=shop/cart", "n2", "source" },
		{ "from=10.0.1.99&to=shop/cart", "null", "source" },
		{ "from=host&to=shop/cart", "n2", "source" }, /* by the address of the host */
	};
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/cart", "type=NodePort ip=10.96.0.1 port=http:80:30080");
	put_slice(&w.w, "shop/cart-1", "cart",
		  "|http:8080|7 rs ~cart-7 @n2;8 rs ~cart-8 @n1;192.0.2.1 rs @n2");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char target[128];
		json_t *json;

		print_message("    %s\n", cases[i].query);
		(void)snprintf(target, sizeof(target), "/v1/trace?%s", cases[i].query);
		json = get_json(&w, target);
		assert_string_equal(text_at(json, "source.node"), cases[i].node);
		assert_string_equal(text_at(json, "steps.0.step"), cases[i].step);
		if (strcmp(cases[i].step, "node") == 0)
			assert_string_equal(text_at(json, "steps.0.text"),
					    "the pod is on n2: its connections to this address are "
					    "handled there; run vipctl on n2");
		json_decref(json);
	}
	world_fini(&w);
}

/* While the sweep is pending, a frontend of an earlier process serves. */
static void test_trace_orphaned(void **state)
{
	static const struct {
		const char *to;
		bool is_orphaned;
		const char *kernel; /* its step, the last one; NULL: none */
	} cases[] = {
		{ "10.96.0.1:80", false, "programmed as above" },
		{ "10.96.0.9:80", true,
		  "orphaned frontend of an earlier process in force; sweep pending" },
		{ "10.96.0.9:80/udp", false, NULL },
		{ "10.96.0.2:80", true,
		  "orphaned frontend of an earlier process in force; sweep pending" },
	};
	struct plan_frontend orphan = { .target.verdict = PLAN_VERDICT_POOL,
					.proto = L4PROTO_TCP,
					.port = 80 };
	struct world w;

	(void)state;
	world_init(&w);
	for (int i = 1; i < 3; i++) {
		orphan.addr = test_addr(i == 1 ? "10.96.0.9" : "10.96.0.2");
		*vec_push(&w.w.k.frontends) = (struct mock_frontend){ .f = orphan };
	}
	put_service(&w.w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/cart-1", "cart", "|http:8080|7 rs");
	put_service(&w.w, "shop/sliceless", "ip=10.96.0.2 port=http:80");
	sync_sweep_hold(w.w.s);
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char target[128];
		json_t *json;
		json_t *last;

		print_message("    %s\n", cases[i].to);
		(void)snprintf(target, sizeof(target), "/v1/trace?from=host&to=%s", cases[i].to);
		json = get_json(&w, target);
		assert_int_equal(int_at(json, "orphaned"), cases[i].is_orphaned);
		last = json_array_get(at(json, "steps"), (size_t)len_at(json, "steps") - 1);
		if (cases[i].kernel != NULL)
			assert_string_equal(text_at(last, "text"), cases[i].kernel);
		else
			assert_string_not_equal(text_at(last, "step"), "kernel");
		json_decref(json);
	}
	world_fini(&w);
}

/* The address of this host is not known: the route to the destination selects it. */
static void test_trace_host_source(void **state)
{
	static const struct {
		const char *query;
		bool is_assumed;
		const char *source;
	} cases[] = {
		{ "from=host&to=10.96.0.1:80", false, "192.0.2.1 is this host" },
		{ "from=host&to=198.51.100.1:80", true,
		  "192.0.2.1 is this host: the Node's address is assumed; the kernel's route to "
		  "the destination selects the source" },
		{ "from=192.0.2.1&to=198.51.100.1:80", false, "192.0.2.1 is this host" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/cart",
		    "type=LoadBalancer ip=10.96.0.1 vip=198.51.100.1 port=http:80 "
		    "range=192.0.2.0/24");
	put_slice(&w.w, "shop/cart-1", "cart", "|http:8080|7 rs");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char target[128];
		json_t *json;

		print_message("    %s\n", cases[i].query);
		(void)snprintf(target, sizeof(target), "/v1/trace?%s", cases[i].query);
		json = get_json(&w, target);
		assert_int_equal(int_at(json, "source.assumed"), cases[i].is_assumed);
		assert_string_equal(text_at(json, "steps.0.text"), cases[i].source);
		json_decref(json);
	}
	world_fini(&w);
}

/* MASQ-07: endpoints with an address of this host get the packet without postrouting. */
static void test_trace_host_endpoints(void **state)
{
	static const struct {
		const char *query;
		bool is_masqueraded;
		const char *text; /* of the step "masqueraded" */
	} cases[] = {
		{ "from=203.0.113.9&to=198.51.100.1:80", false,
		  "no: delivered to this host, without postrouting" },
		{ "from=203.0.113.9&to=198.51.100.2:80", true,
		  "yes: external policy Cluster, so that replies return through this node; no to "
		  "endpoints with an address of this host" },
		{ "from=host&to=198.51.100.1:80", true,
		  "yes: external policy Cluster, so that replies return through this node" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/net", "ip=10.96.0.1 vip=198.51.100.1 port=http:80");
	put_slice(&w.w, "shop/net-1", "net", "|http:8080|192.0.2.1 rs @n1");
	put_service(&w.w, "shop/mix", "ip=10.96.0.2 vip=198.51.100.2 port=http:80");
	put_slice(&w.w, "shop/mix-1", "mix", "|http:8080|192.0.2.1 rs @n1;7 rs");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char target[128];
		json_t *json;

		print_message("    %s\n", cases[i].query);
		(void)snprintf(target, sizeof(target), "/v1/trace?%s", cases[i].query);
		json = get_json(&w, target);
		assert_int_equal(int_at(json, "service.masqueraded"), cases[i].is_masqueraded);
		assert_string_equal(text_at(json, "steps.4.step"), "masqueraded");
		assert_string_equal(text_at(json, "steps.4.text"), cases[i].text);
		json_decref(json);
	}
	world_fini(&w);
}

/* Search texts and the services they select. */
static const struct {
	const char *query;
	const char *names;
} searches[] = {
	{ "", "shop/cart shop/db web/cart" },
	{ "?namespace=shop", "shop/cart shop/db" },
	{ "?name=cart", "shop/cart web/cart" },
	{ "?namespace=shop&name=cart", "shop/cart" },
	{ "?namespace=sho", "" },
	{ "?q=cart", "shop/cart web/cart" },
	{ "?q=shop/c", "shop/cart" },
	{ "?q=10.96.0.1", "shop/cart" },
	{ "?q=10.96.0.1:80", "shop/cart" },
	{ "?q=10.96.0.1:81", "" },
	{ "?q=10.96.0.1:80/TCP", "shop/cart" },
	{ "?q=10.96.0.1:80/udp", "" },
	{ "?q=10.96.0.1/tcp", "shop/cart" },
	{ "?q=10.96.0.1/UDP", "" },
	{ "?q=10.96.0.1:80/icmp", "" },
	{ "?q=010.096.0.001", "shop/cart" },
	{ "?q=192.0.2.1:30080", "web/cart" },
	{ "?q=192.0.2.1:30080/TCP", "web/cart" },
	{ "?q=192.0.2.1:30080/UDP", "" },
	{ "?q=192.0.2.1:30081", "" },
	{ "?q=192.0.2.1", "web/cart" },
	{ "?q=203.0.113.9", "web/cart" },
	{ "?q=fd00::1", "shop/db" },
	{ "?q=%5Bfd00::1%5D", "shop/db" },
	{ "?q=%5Bfd00::1%5D/TCP", "shop/db" },
	{ "?q=%5Bfd00::1%5D:", "" },
	{ "?q=%5B10.96.0.1%5D", "" },
	{ "?q=%5Bfd00::1%5D:5432", "shop/db" },
	{ "?q=%5Bfd00::1%5D:5432/TCP", "shop/db" },
	{ "?q=%5Bfd00::1%5D:80", "" },
	{ "?q=10.0.1.7", "shop/cart" },
	{ "?q=10.0.1.7:8080", "shop/cart" },
	{ "?q=10.0.1.7:8080/TCP", "shop/cart" },
	{ "?q=10.0.1.7:8080/UDP", "" },
	{ "?q=10.0.1.7:80", "" },
	{ "?q=cart-7", "shop/cart" },
	{ "?q=cart-", "" },
	{ "?state=ok", "shop/cart" },
	{ "?state=no-endpoints", "shop/db web/cart" },
	{ "?state=no-endpoints,ok&namespace=shop", "shop/cart shop/db" },
	{ "?state=rejected", "" },
};

static void test_searches(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/cart-1", "cart", "|http:8080|10.0.1.7 rs ~cart-7");
	put_service(&w.w, "shop/db", "ip=10.96.0.2 ip=fd00::1 port=sql:5432");
	put_service(&w.w, "web/cart",
		    "type=LoadBalancer ip=10.96.0.3 port=http:80:30080 vip=203.0.113.9");
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(searches); i++) {
		struct str names = { 0 };
		char target[128];
		json_t *json;
		json_t *item;
		size_t k;

		print_message("    %s\n", searches[i].query);
		(void)snprintf(target, sizeof(target), "/v1/services%s", searches[i].query);
		json = get_json(&w, target);
		json_array_foreach (at(json, "items"), k, item)
			str_printf(&names, "%s%s/%s", k ? " " : "", text_at(item, "namespace"),
				   text_at(item, "name"));
		assert_string_equal(str_text(&names), searches[i].names);
		assert_int_equal(int_at(json, "matching"), len_at(json, "items"));
		json_decref(json);
		str_fini(&names);
	}
	world_fini(&w);
}

static void test_page_and_dump(void **state)
{
	struct world w;
	struct str a = { 0 };
	struct str b = { 0 };
	json_t *json;

	(void)state;
	world_init(&w);
	some_services(&w, 30);
	sync_all(&w.w);
	json = get_json(&w, "/v1/services/ns1/s00001");
	assert_string_equal(text_at(json, "ports.0.families.0.endpoints.0.pod"), "p00001");
	json_decref(json);
	json = get_json(&w, "/v1/dump?namespace=ns1");
	assert_int_equal(len_at(json, "items"), 5);
	assert_string_equal(text_at(json, "items.0.pools.0.backends.0.address"), "10.1.0.2");
	json_decref(json);
	/* Two dumps of one state are equal byte by byte, independent of the time. */
	assert_int_equal(get(&w, "/v1/dump", &a), 200);
	sync_settle(w.w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(get(&w, "/v1/dump", &b), 200);
	assert_string_equal(a.text, b.text);
	str_fini(&a);
	str_fini(&b);
	world_fini(&w);
}

/* --- many --- */

static size_t follow_pages(struct world *w, const char *query)
{
	char after[128] = "";
	char last[128] = "";
	size_t n = 0;

	for (;;) {
		char target[256];
		json_t *json;
		json_t *item;
		size_t k;

		(void)snprintf(target, sizeof(target), "/v1/services?%s&after=%s", query, after);
		json = get_json(w, target);
		json_array_foreach (at(json, "items"), k, item) {
			char key[128];

			(void)snprintf(key, sizeof(key), "%s/%s", text_at(item, "namespace"),
				       text_at(item, "name"));
			assert_true(strcmp(last, key) < 0); /* in order, so each occurs once */
			strcpy(last, key);
			n++;
		}
		if (json_is_null(at(json, "next"))) {
			json_decref(json);
			return n;
		}
		assert_string_equal(text_at(json, "next"), last);
		strcpy(after, last);
		json_decref(json);
	}
}

static void test_many(void **state)
{
	struct world w;
	json_t *json;

	(void)state;
	world_init(&w);
	some_services(&w, 10000);
	json = get_json(&w, "/v1/services?limit=all");
	assert_int_equal(len_at(json, "items"), 10000);
	assert_true(json_is_null(at(json, "next")));
	json_decref(json);
	assert_int_equal(follow_pages(&w, "limit=500"), 10000);
	assert_int_equal(follow_pages(&w, "namespace=ns3&limit=100"), 1429);
	json = get_json(&w, "/v1/status");
	assert_int_equal(int_at(json, "states.pending"), 10000);
	assert_int_equal(int_at(json, "counts.services"), 10000);
	json_decref(json);
	world_fini(&w);
}

/*
 * GET `target` with the counting clock: no turn of the loop exceeds its share, and the work is
 * cut into at least `units` pieces.
 */
static json_t *get_in_turns(struct world *w, const char *target, size_t units)
{
	struct str request = { 0 };
	struct str answer = { 0 };
	struct str body = { 0 };
	uint64_t longest = 0;
	uint64_t reads = 0;
	size_t turns = 0;
	json_t *json;
	int fd;

	str_printf(&request, "GET %s HTTP/1.1\r\nHost: vipd\r\n\r\n", target);
	fd = talk_connect(w->path);
	assert_int_equal(send(fd, request.text, request.len, 0), request.len);
	counting.now = __real_now_ns();
	counting.is_counting = true;
	do {
		counting.reads = 0;
		talk_turn(&w->talk);
		longest = MAX(longest, counting.reads);
		reads += counting.reads;
		turns++;
		assert_true(turns < 100000);
	} while (talk_read(fd, &answer, SIZE_MAX));
	counting.is_counting = false;
	close(fd);
	print_message("    %s: %llu units in %zu turns, at most %llu a turn\n", target,
		      (unsigned long long)reads, turns, (unsigned long long)longest);
	assert_true(longest <= READS_MAX + READS_ASIDE);
	assert_true(reads >= units);
	assert_true(turns >= units / (READS_MAX + READS_ASIDE));
	assert_int_equal(talk_parse(&answer, &body), 200);
	json = json_of(body.text, body.len);
	str_fini(&request);
	str_fini(&answer);
	str_fini(&body);
	return json;
}

/* A unit of a walk over services is a bucket of their table, with at most 1.5 of them. */
#define BUCKETS_MIN (10000 * 2 / 3)

/* Every walk over all services is divided into turns and reads the clock for each piece. */
static void test_slices(void **state)
{
	static const struct {
		const char *path;
		size_t units;
	} targets[] = {
		{ "/v1/status", BUCKETS_MIN },
		{ "/v1/trace?from=host&to=10.96.0.1:81", BUCKETS_MIN },
		{ "/v1/trace?from=nobody&to=10.96.0.1:80", BUCKETS_MIN },
		{ "/v1/rows", BUCKETS_MIN + 10000 },
		{ "/v1/services?limit=all", BUCKETS_MIN + 10000 },
		{ "/v1/services?q=nobody", BUCKETS_MIN },
	};
	struct world w;

	(void)state;
	world_init(&w);
	some_services(&w, 10000);
	sync_all(&w.w);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		json_decref(get_in_turns(&w, targets[i].path, targets[i].units));
	world_fini(&w);
}

/* The page of a service with many endpoints takes several turns. */
static void test_large_service(void **state)
{
	struct world w;
	struct str text = { 0 };
	json_t *json;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/big", "ip=10.96.0.1 port=http:80");
	str_puts(&text, "|http:8080|");
	for (int i = 0; i < 5000; i++)
		str_printf(&text, "%s10.7.%d.%d rs @n%d ~big-%d", i ? ";" : "", i / 250, i % 250,
			   i % 50, i);
	put_slice(&w.w, "shop/big-1", "big", text.text);
	json = get_in_turns(&w, "/v1/services/shop/big", 5000);
	assert_int_equal(len_at(json, "ports.0.families.0.endpoints"), 5000);
	json_decref(json);
	str_fini(&text);
	world_fini(&w);
}

/* The row of a service with many ports takes several turns. */
static void test_large_row(void **state)
{
	FINI(str_fini) struct str text = { 0 };
	struct world w;
	json_t *json;
	json_t *port;
	size_t i;

	(void)state;
	world_init(&w);
	str_puts(&text, "ip=10.96.0.1");
	for (int p = 1; p <= 2000; p++)
		str_printf(&text, " port=p%d:%d", p, p);
	put_service(&w.w, "shop/big", text.text);
	put_service(&w.w, "shop/small", "ip=10.96.0.2 port=http:80");
	sync_all(&w.w);
	json = get_in_turns(&w, "/v1/services",
			    150); /* a piece has VIEW_ROW_PORTS ports without a read */
	assert_int_equal(len_at(json, "items"), 2);
	assert_int_equal(len_at(json, "items.0.ports"), 2000);
	json_array_foreach (at(json, "items.0.ports"), i, port)
		assert_int_equal(int_at(port, "port"), i + 1);
	assert_string_equal(text_at(json, "items.1.name"), "small");
	json_decref(json);
	world_fini(&w);
}

/*
 * The model changes while a list is written: the list is valid JSON, in order, with all remaining
 * services.
 */
static void test_list_while_changing(void **state)
{
	static const char request[] = "GET /v1/services?limit=5000 HTTP/1.1\r\n\r\n";
	struct world w;
	struct str answer = { 0 };
	struct str body = { 0 };
	json_t *json;
	int fd;
	int i = 0;

	(void)state;
	world_init(&w);
	some_services(&w, 2000);
	sync_all(&w.w);
	fd = talk_connect(w.path);
	assert_int_equal(send(fd, request, sizeof(request) - 1, 0), sizeof(request) - 1);
	do {
		char key[64];

		talk_turn(&w.talk);
		for (int k = 0; k < 3; k++, i++) {
			(void)snprintf(key, sizeof(key), "new/t%05d", i);
			put_service(&w.w, key, "ip=10.97.0.1 port=http:80");
			(void)snprintf(key, sizeof(key), "t%05d", i / 2);
			if (i % 4 == 3)
				del_service(&w.w, "new", key);
		}
		sync_settle(w.w.s, T0);
	} while (talk_read(fd, &answer, 20000));
	close(fd);
	assert_int_equal(talk_parse(&answer, &body), 200);
	json = json_of(body.text, body.len);
	assert_true(len_at(json, "items") >= 2000);
	json_decref(json);
	str_fini(&answer);
	str_fini(&body);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mode),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_made_later),
		cmocka_unit_test(test_successor),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_allow),
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_traces),
		cmocka_unit_test(test_trace_endpoints),
		cmocka_unit_test(test_trace_protocol),
		cmocka_unit_test(test_trace_elsewhere),
		cmocka_unit_test(test_trace_orphaned),
		cmocka_unit_test(test_trace_host_source),
		cmocka_unit_test(test_trace_host_endpoints),
		cmocka_unit_test(test_searches),
		cmocka_unit_test(test_page_and_dump),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_large_service),
		cmocka_unit_test(test_large_row),
		cmocka_unit_test(test_list_while_changing),
	};

	log_level_set_all(LOG_LEVEL_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
