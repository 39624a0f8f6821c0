/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/programmed: kernel state in the format of the plan, errors, and vipctl's diff. At all
 * levels of counting.
 */
#include <linux/ip_vs.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "ctl/diff.h"
#include "explain/text.h"
#include "explain/trace.h"
#include "ipvs_world.h"
#include "plane/ipvs/programmed.h"

#define STICKY "ip=10.96.0.20 port=http:80 affinity=600"
#define LOCAL                                                                     \
	"type=LoadBalancer ip=10.96.0.30 port=http:80:30080 vip=203.0.113.7 etp " \
	"range=198.51.100.0/24"

static int programmed_try(const struct world *w, struct ipvs_programmed *ret, struct err *err)
{
	struct ipvs_socks socks = { .nft = fake_connect(w->nft),
				    .query = fake_connect(w->nft),
				    .genl = fake_ipvs_connect(w->ipvs),
				    .route = fake_ipvs_connect_route(w->ipvs) };

	*ret = (struct ipvs_programmed){ 0 };
	return ipvs_programmed_read_from(ret, &socks, err);
}

static void programmed_read(const struct world *w, struct ipvs_programmed *ret)
{
	struct err err = { 0 };

	assert_int_equal(programmed_try(w, ret, &err), 0);
}

/* The remaining time mixes the real and the fake clock: replace the number. */
static void times_blank(char *text)
{
	char *to = text;

	for (const char *from = text; from != NULL && *from != '\0';) {
		const char *digit = strspn(from, "0123456789") > 0 && from > text &&
						    from[-1] == '/' &&
						    from[strspn(from, "0123456789")] == 's'
					    ? from + strspn(from, "0123456789")
					    : NULL;

		if (digit != NULL) {
			*to++ = 'N';
			from = digit;
		} else {
			*to++ = *from++;
		}
	}
	if (to != NULL)
		*to = '\0';
}

static void expect_programmed(const struct world *w, const char *want)
{
	struct ipvs_programmed h;

	programmed_read(w, &h);
	times_blank(h.frontends.text);
	assert_string_equal(str_text(&h.frontends), want);
	ipvs_programmed_fini(&h);
}

/* The answer of /v1/rows. */
static json_t *rows_of(const struct world *w)
{
	const struct plan_balancer balancer = plane_balancer(w->plane);
	json_t *items = json_array();

	htable_for_each (n, &w->m.services) {
		const struct svc *svc = container_of(n, struct svc, node);
		const struct plan_rows *rows = svc->rows;
		json_t *lines = json_array();

		for (size_t i = 0; rows != NULL && i < rows->frontends.n; i++) {
			struct str line = { 0 };

			plan_frontend_led_print(&line, rows, &rows->frontends.v[i], &balancer);
			json_array_append_new(lines, json_string(line.text));
			str_fini(&line);
		}
		json_array_append_new(items, json_pack("{s:s, s:s, s:b, s:o}", "namespace",
						       svc->ns->text, "name", svc->name->text,
						       "complete", 1, "frontends", lines));
	}
	return items;
}

/* `want`: expected output of diff. */
static void expect_diff(const struct world *w, const char *want)
{
	static const struct style plain = { 0 };
	json_t *rows = rows_of(w);
	struct str out = { 0 };
	struct ipvs_programmed h;
	struct diff d = { 0 };

	programmed_read(w, &h);
	diff_desired(&d, rows);
	diff_lines(&d, h.routing_desired.text, "(policy routing)");
	diff_lines(&d, h.frontends.text, NULL);
	diff_lines(&d, h.routing.text, NULL);
	diff_compare(&d);
	diff_print(&out, &d, &plain);
	times_blank(out.text);
	assert_string_equal(str_text(&out), want);
	str_fini(&out);
	diff_fini(&d);
	ipvs_programmed_fini(&h);
	json_decref(rows);
}

#define DIFFERS "- expected, + in the kernel\n"

static void web(struct world *w)
{
	world_open(w);
	service(w, "shop/web",
		"ip=10.96.0.10 port=http:80 weights=10.0.1.1=3,10.0.1.3=0"); /* wrr */
	slice(w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	settle(w);
}

static void test_weights(void **state)
{
	struct world w;

	web(&w);
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:8080=3 10.0.1.2:8080 "
			      "scheduler=wrr\n");
	expect_diff(&w, "");
	/* Reading writes neither to nf_tables nor to IPVS. */
	fake_ipvs_writes_reset(w.ipvs);
	fake_count_reset(w.nft);
	expect_diff(&w, "");
	assert_int_equal(fake_ipvs_writes(w.ipvs), 0);
	assert_int_equal(fake_count(w.nft).n_batches, 0);
	world_close(&w);
}

/* Another plane serves: weights stay, and the backends drain. */
static void test_retiring(void **state)
{
	uint64_t again = 0;
	struct world w;

	world_open(&w);
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80 drain=0");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	do {
		w.now = MAX(w.now, again);
		assert_int_equal(w.plane->ops->retire(w.plane, &w.m, w.now, &again, NULL), 0);
	} while (ipvs_plane_stats(w.plane).n_draining == 0);
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> NOWHERE scheduler=rr "
			      "draining=10.0.1.1:8080/Ns\n");
	world_close(&w);
}

/* BAL-20: text of the plan and of the kernel agree on the method. */
static void test_forwarding(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80 ext=192.0.2.1 fwd=tunnel");
	slice(&w, "shop/web-1", "web", "| http:80 | 1 rs; 2 rs");
	settle(&w);
	expect_programmed(&w,
			  "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:80 10.0.1.2:80 scheduler=rr\n"
			  "192.0.2.1:80/TCP forwarding=tunnel -> 10.0.1.1:80 10.0.1.2:80 "
			  "scheduler=rr\n");
	expect_diff(&w, "");
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80 ext=192.0.2.1 fwd=route");
	settle(&w);
	expect_programmed(&w,
			  "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:80 10.0.1.2:80 scheduler=rr\n"
			  "192.0.2.1:80/TCP forwarding=route -> 10.0.1.1:80 10.0.1.2:80 "
			  "scheduler=rr\n");
	expect_diff(&w, "");
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80 ext=192.0.2.1 fwd=tunnel,gue");
	settle(&w);
	expect_programmed(&w,
			  "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:80 10.0.1.2:80 scheduler=rr\n"
			  "192.0.2.1:80/TCP forwarding=tunnel,gue:6080 -> 10.0.1.1:80 10.0.1.2:80 "
			  "scheduler=rr\n");
	expect_diff(&w, "");
	fake_ipvs_foreign_tunnel(w.ipvs, IP_VS_CONN_F_TUNNEL_TYPE_GUE, 6080,
				 IP_VS_TUNNEL_ENCAP_FLAG_CSUM);
	expect_diff(&w, DIFFERS
		    "192.0.2.1:80/TCP  shop/web\n"
		    "  - forwarding=tunnel,gue:6080 -> 10.0.1.1:80 10.0.1.2:80 scheduler=rr\n"
		    "  + forwarding=other -> 10.0.1.1:80 10.0.1.2:80 scheduler=rr\n");
	world_close(&w);
}

static void test_backends_differ(void **state)
{
	struct world w;

	web(&w);
	fake_ipvs_foreign_weight(w.ipvs, "10.0.1.2", 7);
	expect_diff(&w, DIFFERS "10.96.0.10:80/TCP  shop/web\n"
				"  - -> 10.0.1.1:8080=3 10.0.1.2:8080 "
				"scheduler=wrr\n"
				"  + -> 10.0.1.1:8080=3 10.0.1.2:8080=7 "
				"scheduler=wrr\n");
	/* A foreign weight of 0 is not a drain. */
	fake_ipvs_foreign_weight(w.ipvs, "10.0.1.2", 0);
	expect_diff(&w, DIFFERS "10.96.0.10:80/TCP  shop/web\n"
				"  - -> 10.0.1.1:8080=3 10.0.1.2:8080 "
				"scheduler=wrr\n"
				"  + -> 10.0.1.1:8080=3 10.0.1.2:8080=0 "
				"scheduler=wrr\n");
	fake_ipvs_foreign_del(w.ipvs, "10.0.1.2");
	expect_diff(&w, DIFFERS "10.96.0.10:80/TCP  shop/web\n"
				"  - -> 10.0.1.1:8080=3 10.0.1.2:8080 "
				"scheduler=wrr\n"
				"  + -> 10.0.1.1:8080=3 scheduler=wrr\n");
	world_close(&w);
}

/* A service of two backends; the second one has connections and drains. */
static void world_open_draining(struct world *w, const char *service_text)
{
	world_open(w);
	service(w, "shop/web", service_text);
	slice(w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(w);
	fake_ipvs_conns(w->ipvs, "10.0.1.2", 3, 1);
	slice(w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 st");
	settle(w);
}

/* A draining backend is listed with its time and is not a difference. */
static void test_draining(void **state)
{
	struct world w;

	world_open_draining(&w, "ip=10.96.0.10 port=http:80");
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:8080 scheduler=rr "
			      "draining=10.0.1.2:8080/Ns\n");
	expect_diff(&w, "");
	/* The last backend drains too: the frontend rejects new connections. */
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 |");
	settle(&w);
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> reject draining=10.0.1.1:8080/Ns "
			      "draining=10.0.1.2:8080/Ns\n");
	expect_diff(&w, "");
	/* The service is deleted: no frontend leads to its draining backends. */
	no_service(&w, "shop", "web");
	settle(&w);
	expect_programmed(&w, "mark/0x5a000001/IPv4 -> draining=10.0.1.1:8080/Ns "
			      "draining=10.0.1.2:8080/Ns\n");
	expect_diff(&w, "");
	fake_ipvs_foreign_weight(w.ipvs, "10.0.1.1", 1);
	expect_diff(&w, DIFFERS "mark/0x5a000001/IPv4  (no service)\n"
				"  + -> 10.0.1.1:8080(OTHER-FORWARDING-OR-LIMIT) "
				"draining=10.0.1.2:8080/Ns\n");
	world_close(&w);
}

/* Drains without a deadline differ from a desired weight of 0. */
static void test_draining_without_deadline(void **state)
{
	struct world w;

	world_open_draining(&w, "ip=10.96.0.10 port=http:80 drain=0");
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:8080 scheduler=rr "
			      "draining=10.0.1.2:8080/no-deadline\n");
	expect_diff(&w, "");
	world_close(&w);
}

static void test_affinity(void **state)
{
	struct ip_addr vip = test_addr("10.96.0.20");
	struct world w;
	uint8_t key[NFT_KEY_MAX];
	uint8_t mark[NFT_DATA_MAX];

	world_open(&w);
	service(&w, "shop/web", STICKY);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	service(&w, "shop/other", "ip=10.96.0.21 port=http:80");
	slice(&w, "shop/other-1", "other", "| http:8080 | 7 rs");
	settle(&w);
	expect_programmed(&w, "10.96.0.20:80/TCP cluster-ip -> 10.0.1.1:8080 10.0.1.2:8080 "
			      "affinity=600s scheduler=rr\n"
			      "10.96.0.21:80/TCP cluster-ip -> 10.0.1.7:8080 scheduler=rr\n");
	expect_diff(&w, "");
	/* To another's pool. */
	nft_key_tuple(key, &vip, L4PROTO_TCP, 80);
	nft_put_word(mark, mark_of(&w, "10.96.0.21", 80));
	assert_true(fake_foreign_del(w.nft, IPFAM_V4, IPVSSET_FE, key));
	fake_foreign_add(w.nft, IPFAM_V4, IPVSSET_FE, key, mark);
	expect_diff(&w, DIFFERS "10.96.0.20:80/TCP  shop/web\n"
				"  - -> 10.0.1.1:8080 10.0.1.2:8080 affinity=600s scheduler=rr\n"
				"  + -> 10.0.1.7:8080 scheduler=rr\n"
				"virtual/10.96.0.20:80/TCP  (no service)\n"
				"  + -> 10.0.1.1:8080 10.0.1.2:8080\n");
	/* A frontend without a target, and one that is not captured. */
	assert_true(fake_foreign_del(w.nft, IPFAM_V4, IPVSSET_FE, key));
	expect_diff(&w, DIFFERS "10.96.0.20:80/TCP  shop/web\n"
				"  - -> 10.0.1.1:8080 10.0.1.2:8080 affinity=600s scheduler=rr\n"
				"virtual/10.96.0.20:80/TCP  (no service)\n"
				"  + -> 10.0.1.1:8080 10.0.1.2:8080\n");
	world_close(&w);
}

/* POL-25: inside clients use another pool; with affinity, by a hash. */
static void test_split(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", LOCAL);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs @n2");
	settle(&w);
	expect_diff(&w, "");
	service(&w, "shop/web", LOCAL " affinity=600");
	settle(&w);
	expect_diff(&w, "");
	expect_programmed(
		&w, "10.96.0.30:80/TCP cluster-ip -> 10.0.1.1:8080 10.0.1.2:8080 affinity=600s "
		    "scheduler=rr\n"
		    "192.168.0.1:30080/TCP masq=host -> 10.0.1.1:8080 affinity=600s scheduler=rr; "
		    "inside -> 10.0.1.1:8080 10.0.1.2:8080 scheduler=mh,mh-fallback\n"
		    "203.0.113.7:80/TCP masq=host guard=198.51.100.0/24 -> "
		    "10.0.1.1:8080 affinity=600s scheduler=rr; inside -> 10.0.1.1:8080 "
		    "10.0.1.2:8080 scheduler=mh,mh-fallback\n"
		    /* Restore the earlier settings. */
		    "mark/0x5a000001/IPv4 -> draining=10.0.1.1:8080/Ns draining=10.0.1.2:8080/Ns\n"
		    "mark/0x5a800002/IPv4 -> draining=10.0.1.1:8080/Ns\n");
	slice(&w, "shop/web-1", "web", "| http:8080 | 2 rs @n2");
	settle(&w);
	expect_diff(&w, "");
	world_close(&w);
}

static void test_routing(void **state)
{
	struct world w;
	struct ipvs_programmed h;

	web(&w);
	fake_ipvs_rules_flush(w.ipvs);
	programmed_read(&w, &h);
	assert_string_equal(str_text(&h.routing), "IPv4/table/23130 local default dev lo\n"
						  "IPv6/table/23130 local default dev lo\n");
	ipvs_programmed_fini(&h);
	expect_diff(&w, DIFFERS "IPv4/rule/100  (policy routing)\n"
				"  - fwmark 0x5b000000/0xff000f00 lookup 23130\n"
				"IPv4/rule/101  (policy routing)\n"
				"  - fwmark 0x5a000000/0xff000f00 iif lo goto 103\n"
				"IPv4/rule/102  (policy routing)\n"
				"  - fwmark 0x5a000000/0xff000f00 lookup 23130\n"
				"IPv4/rule/103  (policy routing)\n"
				"  - nop\n"
				"IPv6/rule/100  (policy routing)\n"
				"  - fwmark 0x5b000000/0xff000f00 lookup 23130\n"
				"IPv6/rule/101  (policy routing)\n"
				"  - fwmark 0x5a000000/0xff000f00 iif lo goto 103\n"
				"IPv6/rule/102  (policy routing)\n"
				"  - fwmark 0x5a000000/0xff000f00 lookup 23130\n"
				"IPv6/rule/103  (policy routing)\n"
				"  - nop\n");
	world_close(&w);
}

/* Another tag, table and priority are read from the kernel; the tag also from the maps alone. */
static void test_configured(void **state)
{
	struct world w;
	struct ipvs_programmed h;

	world_open(&w);
	w.config.mark_tag = 0x60;
	w.config.route_table = 300;
	w.config.rule_priority = 2000;
	life_end(&w);
	fake_ipvs_rules_flush(w.ipvs);
	life_begin(&w);
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_diff(&w, "");
	programmed_read(&w, &h);
	assert_non_null(
		strstr(h.routing.text, "IPv6/rule/2002 fwmark 0x60000000/0xff000f00 lookup 300\n"));
	ipvs_programmed_fini(&h);
	fake_ipvs_rules_flush(w.ipvs);
	expect_programmed(&w, "10.96.0.10:80/TCP cluster-ip -> 10.0.1.1:8080 scheduler=rr\n");
	world_close(&w);
}

static void test_nothing(void **state)
{
	struct world w = { .now = 1 };
	struct ipvs_programmed h;

	fake_open(&w.nft);
	fake_ipvs_open(&w.ipvs);
	programmed_read(&w, &h);
	assert_false(h.exists);
	assert_string_equal(str_text(&h.frontends), "");
	assert_string_equal(str_text(&h.routing), "");
	ipvs_programmed_fini(&h);
	fake_ipvs_close(w.ipvs);
	fake_close(w.nft);
}

/* --- the trace --- */

static void trace_of(struct world *w, struct plan_trace *t, const char *to)
{
	struct plan_trace_query q = { .src = test_addr("10.0.1.99"),
				      .dst = test_addr(to),
				      .port = 80,
				      .proto = L4PROTO_TCP,
				      .balancer = plane_balancer(w->plane) };

	plan_trace_init(t, &w->p, &q);
	htable_for_each (n, &w->m.services)
		plan_trace_visit(t, container_of(n, struct svc, node));
	plan_trace_decide(t);
}

static void expect_chances(struct world *w, const char *sched, size_t n, const double *chances)
{
	struct plan_trace t;
	char text[128];

	(void)snprintf(text, sizeof(text),
		       "ip=10.96.0.10 port=http:80 sched=%s weights=10.0.1.1=3,"
		       "10.0.1.3=0",
		       sched);
	service(w, "shop/web", text);
	settle(w);
	trace_of(w, &t, "10.96.0.10");
	assert_string_equal(t.balancing.scheduler, sched);
	assert_int_equal(t.verdict, PLAN_VERDICT_POOL);
	assert_int_equal(t.n_used, n);
	for (size_t i = 0; i < n; i++)
		assert_true(plan_trace_share(&t, &t.endpoints.v[i]) == chances[i]);
	assert_int_equal(t.endpoints.n, 3);
	assert_string_equal(t.endpoints.v[2].why, "weight 0");
	plan_trace_fini(&t);
}

static void test_chances(void **state)
{
	static const double even[] = { 0.5, 0.5 };
	static const double weighed[] = { 0.75, 0.25 };
	static const double untold[] = { -1, -1 };
	struct plan_trace t;
	struct world w;

	web(&w);
	expect_chances(&w, "rr", 2, even);
	expect_chances(&w, "wrr", 2, weighed);
	expect_chances(&w, "mh,mh-fallback,mh-port", 2, weighed);
	expect_chances(&w, "wlc", 2, untold);
	service(&w, "shop/web",
		"ip=10.96.0.10 port=http:80 weights=10.0.1.1=0,10.0.1.2=0,"
		"10.0.1.3=0");
	settle(&w);
	trace_of(&w, &t, "10.96.0.10");
	assert_int_equal(t.verdict, PLAN_VERDICT_REJECT);
	assert_int_equal(t.why, PLAN_TRACE_WHY_NO_ENDPOINT);
	assert_int_equal(t.n_used, 0);
	plan_trace_fini(&t);
	world_close(&w);
}

/* Foreign services are ignored. */
static void test_foreign(void **state)
{
	struct ipvs_key key;
	struct world w;

	web(&w);
	memset(&key, 0, sizeof(key));
	key.mark = 7;
	fake_ipvs_foreign(w.ipvs, &key, 0, "10.9.9.9", 80);
	key.mark = 0;
	key.addr = test_addr("192.0.2.1");
	key.proto = L4PROTO_TCP;
	key.port = 80;
	fake_ipvs_foreign(w.ipvs, &key, 0, "10.9.9.9", 80);
	expect_diff(&w, "");
	world_close(&w);
}

/* The table of another version of vipd is not read by what this one would find there. */
static void test_other_layout(void **state)
{
	struct ipvs_programmed h;
	struct err err = { 0 };
	struct world w;

	web(&w);
	fake_foreign_version(w.nft);
	assert_int_equal(programmed_try(&w, &h, &err), -EPROTO);
	assert_non_null(
		strstr(err.text, "table inet vipd-ipvs: it is of another layout version: "));
	ipvs_programmed_fini(&h);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),    cmocka_unit_test(test_retiring),
		cmocka_unit_test(test_forwarding), cmocka_unit_test(test_backends_differ),
		cmocka_unit_test(test_draining),   cmocka_unit_test(test_draining_without_deadline),
		cmocka_unit_test(test_affinity),   cmocka_unit_test(test_split),
		cmocka_unit_test(test_routing),    cmocka_unit_test(test_configured),
		cmocka_unit_test(test_nothing),    cmocka_unit_test(test_chances),
		cmocka_unit_test(test_foreign),    cmocka_unit_test(test_other_layout),
	};

	int failed = 0;

	log_level_set_all(LOG_LEVEL_ERR);
	for (counting = 0; counting <= PLANE_COUNT_ENDPOINTS; counting++)
		failed += cmocka_run_group_tests(tests, NULL, NULL);
	return failed;
}
