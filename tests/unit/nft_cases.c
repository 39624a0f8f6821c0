/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft_cases.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rendezvous.h"
#include "nft/write.h"
#include "nft_large.h"
#include "objects.h"
#include "plan/rows.h"
#include "plane/nft/layout.h"
#include "test.h"

#define WEB "ip=10.96.0.1 port=http:80"

/* "http:8080 | 1 rs; 2 rs; ..." with endpoints from..to */
static const char *endpoints(char *buf, size_t size, const char *head, int from, int to)
{
	size_t at = (size_t)snprintf(buf, size, "%s | ", head);

	for (int i = from; i <= to; i++)
		at += (size_t)snprintf(buf + at, size - at, "10.%d.%d.%d rs; ", i >> 14,
				       (i >> 7) & 127, (i & 127) + 1);
	return buf;
}

/* --- one change after another --- */

struct step {
	const char *what;
	const char *service; /* NULL: unchanged; "": deleted */
	const char *slice;   /* the same */
	size_t writes;       /* ANY: a new pool size also creates its chain */
};

#define ANY SIZE_MAX

/*
 * The operations of each change. A replaced endpoint: delete and add its slot, add its address; the
 * old address stays for the grace period. Another pool size: also the frontend's word.
 */
static const struct step cluster_ip_steps[] = {
	/* NFT-31 */
	{ "no endpoints: reject (REJ-01)", WEB, NULL, 3 },
	{ "the first endpoint", NULL, "| http:8080 | 1 rs", 4 },
	{ "two more", NULL, "| http:8080 | 1 rs; 2 rs; 3 rs", 6 },
	{ "one replaced in place", NULL, "| http:8080 | 1 rs; 4 rs; 3 rs", 3 },
	{ "nothing", NULL, "| http:8080 | 1 rs; 4 rs; 3 rs", 0 },
	{ "it comes back: its address was still there", NULL, "| http:8080 | 1 rs; 2 rs; 3 rs", 2 },
	{ "the first goes: the last moves into its slot", NULL, "| http:8080 | 2 rs; 3 rs", 5 },
	{ "the one in slot 0 goes", NULL, "| http:8080 | 2 rs", 5 },
	{ "another port", NULL, "| http:8081 | 2 rs", 3 },
	{ "all go", NULL, "", 3 },
	{ "the service goes", "", NULL, 3 },
};

static const struct step ipv6_steps[] = {
	{ "service", "ip=fd02::1 port=http:80", NULL, 3 },
	{ "endpoints", NULL, "v6 | http:8080 | 1 rs; 2 rs", 6 },
	{ "replaced", NULL, "v6 | http:8080 | 1 rs; 3 rs", 3 },
	{ "gone", "", NULL, 5 },
};

#define NP "type=NodePort ip=10.96.0.1 port=http:80:30080"
#define LB "type=LoadBalancer ip=10.96.0.1 port=http:80:30080 vip=192.0.2.1"

static const struct step external_steps[] = {
	{ "cluster ip", WEB, "| http:8080 | 1 rs; 2 rs", 7 },
	{ "node port (SVC-06)", NP, NULL, 3 },
	{ "balancer address (SVC-16)", LB, NULL, 3 },
	{ "external ip", LB " ext=192.0.2.9", NULL, 3 },
	{ "a size changes: every frontend's word", NULL, "| http:8080 | 1 rs; 2 rs; 3 rs", 10 },
	{ "source ranges (REJ-10)", LB " range=10.0.0.0/8 range=192.0.2.128/25", NULL, 15 },
	{ "other ranges", LB " range=10.0.0.0/9 range=192.0.2.128/25", NULL, 9 },
	{ "ranges and no endpoints (REJ-12)", NULL, "", 9 },
	{ "no ranges", LB, NULL, 19 },
	{ "cluster ip again", WEB, NULL, 6 },
	{ "gone", "", NULL, 3 },
};

static const struct step local_steps[] = {
	/* POL-25, MASQ-08 */
	{ "ETP Local, both kinds", LB " etp", "| http:8080 | 1 rs @n1; 2 rs @n2", 18 },
	{ "the local one goes: drop outside (REJ-03)", NULL, "| http:8080 | 2 rs @n2", 14 },
	{ "nothing anywhere: reject everybody", NULL, "", 11 },
	{ "guarded and split", LB " etp range=10.0.0.0/8", "| http:8080 | 1 rs @n1", 14 },
	{ "ETP Cluster, still guarded", LB " range=10.0.0.0/8", NULL, 17 },
	{ "ITP Local (SVC-30)", LB " itp", "| http:8080 | 1 rs @n1; 2 rs @n2", 10 },
	{ "affinity of two pools (SVC-32)", LB " etp affinity=600", NULL, ANY },
	{ "one of both replaced", NULL, "| http:8080 | 3 rs @n1; 2 rs @n2", ANY },
	{ "the Local one goes", LB " affinity=600", NULL, ANY },
	{ "and comes back", LB " etp affinity=600", NULL, ANY },
	{ "gone", "", NULL, 22 },
};

static const struct step affinity_steps[] = {
	{ "affinity", WEB " affinity=600", "| http:8080 | 1 rs; 2 rs; 3 rs", ANY },
	{ "one replaced: another local id", NULL, "| http:8080 | 1 rs; 4 rs; 3 rs", 7 },
	{ "one goes, the last moves", NULL, "| http:8080 | 4 rs; 3 rs", ANY },
	/* A chain without a set of its own: 5 rules, 3 verdicts. */
	{ "another timeout: its chain, and the word", WEB " affinity=60", NULL, 9 + 2 },
	{ "no affinity: another pool", WEB, NULL, 10 },
	{ "gone", "", NULL, 5 },
};

static void run_steps(const struct world_kernel *kernel, const struct step *steps, size_t n)
{
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (size_t i = 0; i < n; i++) {
		size_t writes;

		print_message("    %s\n", steps[i].what);
		if (steps[i].service != NULL && steps[i].service[0] == '\0')
			world_no_service(&w, "shop/web");
		else if (steps[i].service != NULL)
			world_service(&w, "shop/web", steps[i].service);
		if (steps[i].slice != NULL && steps[i].slice[0] == '\0')
			world_no_slice(&w, "shop/web-1");
		else if (steps[i].slice != NULL)
			world_slice(&w, "shop/web-1", "web", steps[i].slice);
		writes = world_settle(&w);
		world_check(&w);
		if (steps[i].writes != ANY)
			assert_int_equal(writes, steps[i].writes);
	}
	world_close(&w);
}

static void case_cluster_ip(const struct world_kernel *kernel)
{
	run_steps(kernel, cluster_ip_steps, ARRAY_SIZE(cluster_ip_steps));
}

static void case_ipv6(const struct world_kernel *kernel)
{
	run_steps(kernel, ipv6_steps, ARRAY_SIZE(ipv6_steps));
}

static void case_external(const struct world_kernel *kernel)
{
	run_steps(kernel, external_steps, ARRAY_SIZE(external_steps));
}

static void case_local(const struct world_kernel *kernel)
{
	run_steps(kernel, local_steps, ARRAY_SIZE(local_steps));
}

static void case_affinity(const struct world_kernel *kernel)
{
	run_steps(kernel, affinity_steps, ARRAY_SIZE(affinity_steps));
}

/* Ranges come and go in one transaction with the frontends that use them. REJ-10. */
static void case_ranges(const struct world_kernel *kernel)
{
	static const struct {
		const char *what;
		const char *service;
	} steps[] = {
		{ "the first range", LB " range=10.0.0.0/8" },
		{ "one more", LB " range=10.0.0.0/8 range=192.0.2.128/25" },
		{ "another one, and another policy", LB " etp range=10.0.0.0/9" },
		{ "one goes", LB " range=10.0.0.0/8" },
		{ "a single address, and /1", LB " range=192.0.2.1/32 range=0.0.0.0/1" },
		{ "all go", LB },
	};
	struct world w;

	world_open(&w, kernel);
	world_service(&w, "shop/web", LB);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs @n2");
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		uint32_t before = world_genid(&w);

		print_message("    %s\n", steps[i].what);
		world_service(&w, "shop/web", steps[i].service);
		world_settle(&w);
		world_check(&w);
		assert_int_equal(world_genid(&w) - before, 1);
		assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	}
	world_close(&w);
}

/* Services with many ranges do not share a transaction, also when they go. */
static void case_ranges_weigh(const struct world_kernel *kernel)
{
	struct world w;
	uint32_t before;

	world_open(&w, kernel);
	world_settle(&w);
	for (int life = 0; life < 2; life++) {
		before = world_genid(&w);
		for (int i = 0; i < 4; i++) {
			FINI(str_fini) struct str text = { 0 };
			char name[16];

			(void)snprintf(name, sizeof(name), "shop/s%d", i);
			str_printf(&text,
				   "type=LoadBalancer ip=10.96.0.%d port=http:80 vip=192.0.2.%d",
				   i + 1, i + 1);
			for (int k = 0; k < 600; k++)
				str_printf(&text, " range=10.%d.%d.0/24", k / 100, k % 100 * 2);
			if (life == 0)
				world_service(&w, name, str_text(&text));
			else
				world_no_service(&w, name);
		}
		world_settle(&w);
		world_check(&w);
		assert_true(world_genid(&w) - before >= 2);
	}
	world_close(&w);
}

/* --- addresses that several need --- */

static void case_shared(const struct world_kernel *kernel)
{
	struct world w;
	char *programmed;

	world_open(&w, kernel);
	world_settle(&w);
	world_service(&w, "a/one", "ip=10.96.0.1 port=http:80 ext=192.0.2.1");
	world_service(&w, "a/two", "ip=10.96.0.2 port=tls:443 ext=192.0.2.1");
	world_slice(&w, "a/one-1", "one", "| http:8080 | 1 rs; 2 rs");
	world_slice(&w, "a/two-1", "two", "| tls:8080 | 1 rs");
	world_settle(&w);
	world_check(&w);
	world_no_service(&w, "a/one");
	world_settle(&w);
	world_check(&w);
	programmed = world_elements(&w);
	assert_non_null(strstr(programmed, "ip vips 192.0.2.1\n"));
	assert_non_null(strstr(programmed, "ip endpoint_addrs 10.0.1.1:8080\n"));
	free(programmed);
	assert_int_equal(nft_plane_stats(w.plane).n_in_grace, 1);

	/* A frontend moves from one service to an older one in one transaction (SEL-14). */
	world_service(&w, "a/three", "ip=10.96.0.3 port=tls:443 ext=192.0.2.1 created=5");
	world_slice(&w, "a/three-1", "three", "| tls:8443 | 3 rs");
	assert_int_equal(world_settle(&w), 3 + 2 + 2);
	world_check(&w);
	world_no_service(&w, "a/three");
	world_settle(&w);
	world_check(&w);
	world_close(&w);
}

/* --- backends on this node (MASQ-07) --- */

static void expect_local(const struct world *w, const char *want)
{
	struct str have = { 0 };
	char *programmed = world_elements(w);

	for (char *save, *l = strtok_r(programmed, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		if (strstr(l, " local_backends ") != NULL)
			str_printf(&have, "%s\n", l);
	assert_string_equal(str_text(&have), want);
	str_fini(&have);
	free(programmed);
}

/* `n` backends, every `step`th on this node. */
static void put_many(struct world *w, int n, int step)
{
	struct str text = { 0 };

	str_puts(&text, "| http:8080 | ");
	for (int i = 0; i < n; i++)
		str_printf(&text, "10.2.%d.%d rs @n%d; ", i / 250, i % 250, i % step == 0 ? 1 : 2);
	world_slice(w, "a/many-1", "many", str_text(&text));
	str_fini(&text);
}

/* A change in pieces, in which backends change their nodes, their slots, or both. */
static void case_local_source_large(const struct world_kernel *kernel)
{
	static const struct {
		int n;
		int step;
	} steps[] = { { 4000, 2 }, { 4000, 3 }, { 3000, 2 }, { 3500, 1 }, { 2000, 5000 } };
	struct world w;

	world_open(&w, kernel);
	w.m.config.preserves_local_source = true;
	world_settle(&w);
	world_service(&w, "a/many", "type=NodePort ip=10.96.0.1 port=http:80:30080");
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		put_many(&w, steps[i].n, steps[i].step);
		world_settle(&w);
		world_check(&w);
	}
	expect_local(&w, "ip local_backends 10.2.0.0\n");
	world_restart(&w);
	assert_int_equal(world_settle(&w), 0);
	world_close(&w);
}

static void case_local_source(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	w.m.config.preserves_local_source = true;
	world_settle(&w);
	world_service(&w, "a/one", "type=LoadBalancer ip=10.96.0.1 port=http:80 ext=192.0.2.1");
	world_service(&w, "a/two", "type=LoadBalancer ip=10.96.0.2 port=http:80 vip=192.0.2.2 etp");
	world_slice(&w, "a/one-1", "one", "| http:8080 | 1 rs @n1; 2 rs @n2; 3 rs");
	world_slice(&w, "a/two-1", "two", "| http:8080 | 1 rs @n1; 4 rs @n1");
	world_settle(&w);
	world_check(&w);
	expect_local(&w, "ip local_backends 10.0.1.1\nip local_backends 10.0.1.4\n");

	/* Of the elements of a backend only this one depends on the node's name. */
	world_slice(&w, "a/one-1", "one", "| http:8080 | 1 rs @n1; 2 rs @n1; 3 rs");
	assert_int_equal(world_settle(&w), 1);
	expect_local(&w, "ip local_backends 10.0.1.1\nip local_backends 10.0.1.2\n"
			 "ip local_backends 10.0.1.4\n");
	world_slice(&w, "a/one-1", "one", "| http:8080 | 1 rs @n2; 2 rs @n2; 3 rs");
	assert_int_equal(world_settle(&w), 1); /* service two still has 1 */
	world_check(&w);
	expect_local(&w, "ip local_backends 10.0.1.1\nip local_backends 10.0.1.4\n");
	world_restart(&w);
	assert_int_equal(world_settle(&w), 0);

	/* The option changes with a restart: other rules, and these elements. */
	for (int on = 0; on < 2; on++) {
		w.m.config.preserves_local_source = on;
		world_restart(&w);
		world_settle(&w);
		world_check(&w);
		expect_local(&w,
			     on ? "ip local_backends 10.0.1.1\nip local_backends 10.0.1.4\n" : "");
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
	}
	world_close(&w);
}

/* --- size classes --- */

static void case_classes(const struct world_kernel *kernel)
{
	static const int sizes[] = { 64, 65, 66, 72, 73, 300, 66, 3 };
	struct world w;
	char buf[6144];

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		world_slice(&w, "shop/web-1", "web",
			    endpoints(buf, sizeof(buf), "| http:8080", 1, sizes[i]));
		world_settle(&w);
		world_check(&w);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
		if (sizes[i] == 66) { /* within a class: the new slot, its address once */
			world_slice(&w, "shop/web-1", "web",
				    endpoints(buf, sizeof(buf), "| http:8080", 1, 67));
			assert_int_equal(world_settle(&w), i == 2 ? 2 : 1);
		}
	}
	world_close(&w);
}

/* --- hashing --- */

#define MH WEB " sched=mh"

/* The table of the only pool that now has slots. */
static size_t table_copy(struct world *w, struct plan_backend *to)
{
	const struct plan_rows *rows = world_svc(w, "shop/web")->rows;
	const struct plan_pool *pool = &rows->pools.v[0];

	for (size_t i = 0; i < pool->table.n; i++)
		to[i] = *plan_pool_at(pool, i);
	return pool->table.n;
}

/* BAL-10: a change writes the slots that it moves, and adoption nothing. */
static void case_hashing(const struct world_kernel *kernel)
{
	static const struct {
		const char *what;
		const char *service;
		const char *endpoints;
		size_t other; /* writes beside those of moved slots; ANY: a pool or chain is made */
	} steps[] = {
		{ "mh", MH, "| http:8080 | 1 rs; 2 rs; 3 rs", ANY },
		{ "one more: its address", MH, "| http:8080 | 1 rs; 2 rs; 3 rs; 4 rs", 1 },
		{ "the first goes", MH, "| http:8080 | 2 rs; 3 rs; 4 rs", 0 },
		{ "another order", MH, "| http:8080 | 4 rs; 3 rs; 2 rs", 0 },
		{ "one replaced", MH, "| http:8080 | 2 rs; 5 rs; 4 rs", 1 },
		{ "one drains", MH, "| http:8080 | 2 rs; 5 rst; 4 rs", 0 },
		{ "address and port", MH ",mh-port", NULL, ANY },
		{ "none", MH ",mh-port", "| http:8080 | 2", ANY }, /* through smaller classes */
		{ "all again", MH ",mh-port", "| http:8080 | 2 rs; 4 rs", ANY },
		{ "at random", WEB, NULL, ANY },
		{ "mh again", MH, NULL, ANY },
		{ "with weights", MH " weights=10.0.1.4=9,*=4",
		  "| http:8080 | 4 rs; 3 rs; 2 rs; 1 rs", ANY },
	};
	static struct plan_backend tables[2][1 << 16];
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		size_t moved = 0, writes, n[2] = { 0 };

		print_message("    %s\n", steps[i].what);
		if (i > 0)
			n[0] = table_copy(&w, tables[0]);
		world_service(&w, "shop/web", steps[i].service);
		if (steps[i].endpoints != NULL)
			world_slice(&w, "shop/web-1", "web", steps[i].endpoints);
		writes = world_settle(&w);
		world_check(&w);
		n[1] = table_copy(&w, tables[1]);
		for (size_t k = 0; k < MAX(n[0], n[1]); k++)
			if (k >= n[0] || k >= n[1])
				moved++;
			else if (memcmp(&tables[0][k], &tables[1][k], sizeof(tables[0][0])) != 0)
				moved += 2; /* deleted and added */
		if (steps[i].other != ANY)
			assert_int_equal(writes, moved + steps[i].other);
		assert_int_equal(world_audit(&w), 0);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
	}
	world_no_service(&w, "shop/web");
	world_settle(&w);
	world_check(&w);
	world_close(&w);
}

/* BAL-13, and a service that is programmed in pieces: its table is not cut. */
static void case_hashing_large(const struct world_kernel *kernel)
{
	static const int sizes[] = { 1600, 1601, 2049, 1600, 3 };
	static char buf[1 << 16];
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	world_service(&w, "shop/web", MH);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct svc *svc = world_svc(&w, "shop/web");
		const struct plan_rows *rows;
		struct str remark = { 0 };

		world_slice(&w, "shop/web-1", "web",
			    endpoints(buf, sizeof(buf), "| http:8080", 1, sizes[i]));
		world_settle(&w);
		world_check(&w);
		rows = svc->rows;
		assert_int_equal(rows->pools.v[0].table.n > 0, sizes[i] != 2049);
		w.plane->ops->remark(w.plane, svc, &remark);
		assert_int_equal(remark.len > 0, sizes[i] == 2049);
		str_fini(&remark);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
	}
	world_close(&w);
}

/* In each piece, also for a frontend whose other pool is not complete yet. */
static void case_split(const struct world_kernel *kernel)
{
	static const int sizes[] = { 1600, 100, 3000, 0, 1600, 1 };
	static char buf[1 << 17];
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	world_service(&w, "shop/web", WEB " type=LoadBalancer vip=192.0.2.1 etp");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		world_slice(&w, "shop/web-1", "web",
			    endpoints(buf, sizeof(buf), "| http:8080", 1, sizes[i]));
		for (int steps = 0; steps < 1000; steps++) {
			uint64_t next = sync_step(w.s, w.now);

			nft_targets_check(world_svc(&w, "shop/web")->rows);
			if (next != SYNC_NOW)
				break;
		}
		world_settle(&w);
		world_check(&w);
	}
	world_close(&w);
}

/* --- weights --- */

/* Number of slots of endpoint 10.0.1.N in world_elements(). */
static size_t count_slots(const char *elements, int endpoint)
{
	static const char set[] = "ip endpoints pool ";
	char want[32];
	size_t n = 0;
	size_t len = (size_t)snprintf(want, sizeof(want), "-> 10.0.1.%d:8080\n", endpoint);

	/* Not with strstr(): ASan's reads to the end of the text each time. */
	for (size_t line; *elements != '\0'; elements += line) {
		line = strcspn(elements, "\n") + 1;
		n += strncmp(elements, set, strlen(set)) == 0 && line > len &&
		     strncmp(elements + line - len, want, len) == 0;
	}
	return n;
}

struct weight_step {
	const char *what;
	const char *service;
	const char *slice; /* NULL: unchanged */
	size_t slots[4];   /* of endpoints 1 to 4 */
	size_t writes;     /* ANY: a new pool size also creates its chain */
};

#define PODS "| http:8080 | 1 rs ~a-1; 2 rs ~b-1; 3 rs ~b-2"

/* BAL-02, BAL-04. A slot that changes hands is deleted and added. */
static const struct weight_step weight_steps[] = {
	{ "no weights", WEB, PODS, { 1, 1, 1 }, ANY },
	{ "more slots for one: these, and the word", WEB " weights=a-*=4", NULL, { 4, 1, 1 }, ANY },
	{ "one more", WEB " weights=a-*=5", NULL, { 5, 1, 1 }, ANY },
	{ "above 64, a class: a slot for each unit",
	  WEB " weights=a-*=66",
	  NULL,
	  { 66, 1, 1 },
	  ANY },
	{ "within the class: one slot", WEB " weights=a-*=67", NULL, { 67, 1, 1 }, 1 },
	{ "two fewer", WEB " weights=a-*=65", NULL, { 65, 1, 1 }, 2 },
	{ "only the share moves", WEB " weights=a-*=64,b-1=2", NULL, { 64, 2, 1 }, 2 },
	{ "to 0: its slots are filled from the last ones",
	  WEB " weights=a-*=64,b-1=0,*=2",
	  NULL,
	  { 64, 0, 2 },
	  ANY },
	{ "a common divisor", WEB " weights=a-*=50,*=50", NULL, { 50, 50, 50 }, ANY },
	{ "without it: the slot that moves", WEB " weights=a-*=51,*=50", NULL, { 51, 50, 50 }, 1 },
	{ "with it again", WEB " weights=a-*=50,*=50", NULL, { 50, 50, 50 }, 1 },
	{ "a weight of two endpoints", WEB " weights=a-*=50,*=54", NULL, { 50, 54, 54 }, 8 },
	{ "a canary", WEB " weights=a-*=5,*=95", NULL, { 5, 95, 95 }, ANY },
	{ "an endpoint arrives",
	  WEB " weights=a-*=5,*=95",
	  "| http:8080 | 1 rs ~a-1; 2 rs ~b-1; 3 rs ~b-2; 4 rs ~a-2",
	  { 5, 95, 95, 5 },
	  5 + 1 /* its address */ },
	{ "affinity: another pool",
	  WEB " affinity=600 weights=a-*=5,*=95",
	  NULL,
	  { 5, 95, 95, 5 },
	  ANY },
	{ "another weight with affinity",
	  WEB " affinity=600 weights=a-*=10,*=95",
	  NULL,
	  { 10, 95, 95, 10 },
	  ANY },
	{ "one of both canaries goes",
	  WEB " affinity=600 weights=a-*=10,*=95",
	  "| http:8080 | 1 rs ~a-1; 2 rs ~b-1; 3 rs ~b-2",
	  { 10, 95, 95 },
	  ANY },
	{ "no weights with affinity", WEB " affinity=600", NULL, { 1, 1, 1 }, ANY },
	{ "each weight 0: rejected", WEB " weights=*=0", NULL, { 0 }, ANY },
	{ "no weights", WEB, NULL, { 1, 1, 1 }, ANY },
	{ "an error: no weights", WEB " weights=a-*=7,x", NULL, { 1, 1, 1 }, 0 },
};

static void case_weights(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(weight_steps); i++) {
		const struct weight_step *s = &weight_steps[i];
		char *programmed;
		size_t writes;

		print_message("    %s\n", s->what);
		world_service(&w, "shop/web", s->service);
		if (s->slice != NULL)
			world_slice(&w, "shop/web-1", "web", s->slice);
		writes = world_settle(&w);
		world_check(&w);
		programmed = world_elements(&w);
		for (int ep = 1; ep <= 4; ep++)
			assert_int_equal(count_slots(programmed, ep), s->slots[ep - 1]);
		free(programmed);
		if (s->writes != ANY)
			assert_int_equal(writes, s->writes);
		assert_int_equal(world_audit(&w), 0);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
	}
	world_close(&w);
}

static void slots_expect(struct world *w, size_t slots)
{
	char *programmed;

	world_settle(w);
	world_check(w);
	programmed = world_elements(w);
	assert_int_equal(count_slots(programmed, 1), slots);
	free(programmed);
	world_restart(w);
	assert_int_equal(world_settle(w), 0);
}

/* BAL-04: above 4,096 slots, a slot stands for the common divisor. */
static void case_weights_divided(const struct world_kernel *kernel)
{
	const char *many = "| http:8080 | 10.0.1.1 rs; 10.0.1.2 rs";
	char buf[2048];
	struct world w;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB " weights=*=100");
	world_slice(&w, "shop/web-1", "web", many);
	world_slice(&w, "shop/web-2", "web", endpoints(buf, sizeof(buf), "| http:80", 3000, 3037));
	slots_expect(&w, 100);
	world_slice(&w, "shop/web-2", "web", endpoints(buf, sizeof(buf), "| http:80", 3000, 3038));
	slots_expect(&w, 1);
	world_service(&w, "shop/web", WEB " weights=10.0.1.1=98,*=100");
	slots_expect(&w, 49);
	world_slice(&w, "shop/web-2", "web", endpoints(buf, sizeof(buf), "| http:80", 3000, 3037));
	slots_expect(&w, 98);
	world_close(&w);
}

/* --- restarts --- */

/* A bit of everything. */
static void populate(struct world *w)
{
	char buf[6144];

	world_service(w, "a/plain", "ip=10.96.0.1 port=http:80 port=tls:443");
	world_slice(w, "a/plain-1", "plain", "| http:8080 tls:8443 | 1 rs; 2 rs; 3 rs");
	world_service(w, "a/dual", "ip=10.96.0.2 ip=fd02::2 port=dns/UDP:53 port=dns-tcp:53");
	world_slice(w, "a/dual-4", "dual", "| dns/UDP:53 dns-tcp:53 | 4 rs; 5 rs");
	world_slice(w, "a/dual-6", "dual", "v6 | dns/UDP:53 dns-tcp:53 | 4 rs; 5 rs; 6 rs");
	world_service(w, "a/empty", "ip=10.96.0.3 port=http:80");
	world_service(w, "b/lb",
		      "type=LoadBalancer ip=10.96.0.4 port=http:80:30080 vip=192.0.2.1 "
		      "ext=192.0.2.9 etp range=10.0.0.0/8 range=192.0.2.0/24");
	world_slice(w, "b/lb-1", "lb", "| http:8080 | 7 rs @n1; 8 rs @n2; 9 rs @n2");
	world_service(w, "b/at-lb", "ip=192.0.2.1 port=tls:443"); /* at the other's address */
	world_service(w, "b/drop", "ip=10.96.0.5 port=http:80 itp");
	world_slice(w, "b/drop-1", "drop", "| http:8080 | 8 rs @n2");
	world_service(w, "c/sticky", "ip=10.96.0.6 port=http:80 affinity=600");
	world_slice(w, "c/sticky-1", "sticky", "| http:8080 | 1 rs; 2 rs; 3 rs; 4 rs");
	world_service(w, "c/sticky-local",
		      "type=NodePort ip=10.96.0.9 port=http:80:30081 etp affinity=600");
	world_slice(w, "c/sticky-local-1", "sticky-local",
		    "| http:8080 | 1 rs @n2; 2 rs @n1; 3 rs @n2; 4 rs @n1");
	world_service(w, "c/big", "ip=10.96.0.7 port=http:80");
	world_slice(w, "c/big-1", "big", endpoints(buf, sizeof(buf), "| http:80", 1000, 1069));
	world_service(w, "c/big-sticky", "ip=10.96.0.8 port=http:80 affinity=600");
	world_slice(w, "c/big-sticky-1", "big-sticky",
		    endpoints(buf, sizeof(buf), "| http:80", 2000, 2079));
}

static void case_restart(const struct world_kernel *kernel)
{
	struct world w;
	char *before;
	char *after;

	world_open(&w, kernel);
	populate(&w);
	world_settle(&w);
	world_check(&w);
	/* Slots and ids in another order than a new numbering would assign. */
	world_slice(&w, "a/plain-1", "plain", "| http:8080 tls:8443 | 2 rs; 3 rs; 9 rs");
	world_slice(&w, "c/sticky-1", "sticky", "| http:8080 | 3 rs; 4 rs; 7 rs");
	world_slice(&w, "c/sticky-local-1", "sticky-local",
		    "| http:8080 | 1 rs @n2; 4 rs @n1; 7 rs @n1; 8 rs @n2");
	world_no_service(&w, "a/empty");
	world_settle(&w);
	world_service(&w, "a/empty", "ip=10.96.0.3 port=http:80");
	world_settle(&w);
	world_check(&w);
	before = world_elements(&w);
	for (int i = 0; i < 3; i++) {
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		after = world_elements(&w);
		assert_string_equal(after, before);
		free(after);
	}
	assert_int_equal(world_audit(&w), 0);
	assert_int_equal(world_reload(&w), 0);
	assert_int_equal(world_reload(&w), 0);
	after = world_elements(&w);
	assert_string_equal(after, before);
	free(after);
	free(before);
	world_close(&w);
}

static const struct {
	const char *what;
	const char *name;
	const char *service; /* "": gone */
	const char *slice;   /* NULL: unchanged; "": deleted */
	size_t writes;       /* or ANY */
} down_cases[] = {
	{ "an endpoint replaced", "a/plain", "ip=10.96.0.1 port=http:80 port=tls:443",
	  "| http:8080 tls:8443 | 1 rs; 2 rs; 10 rs", 6 },
	{ "an endpoint gone", "a/plain", "ip=10.96.0.1 port=http:80 port=tls:443",
	  "| http:8080 tls:8443 | 1 rs; 3 rs", 10 },
	{ "a port gone", "a/plain", "ip=10.96.0.1 port=http:80", "| http:8080 | 1 rs; 2 rs; 3 rs",
	  4 },
	{ "a service gone", "a/plain", "", "", 2 + 6 + 2 },
	{ "another address", "a/plain", "ip=10.96.0.77 port=http:80 port=tls:443",
	  "| http:8080 tls:8443 | 1 rs; 2 rs; 3 rs", 8 + 6 + 6 },
	{ "other ranges, one inside the old", "b/lb",
	  "type=LoadBalancer ip=10.96.0.4 port=http:80:30080 vip=192.0.2.1 "
	  "ext=192.0.2.9 etp range=10.0.0.0/9 range=192.0.2.0/24",
	  NULL, 9 },
	{ "no longer ETP Local", "b/lb",
	  "type=LoadBalancer ip=10.96.0.4 port=http:80:30080 vip=192.0.2.1 "
	  "ext=192.0.2.9 range=10.0.0.0/8 range=192.0.2.0/24",
	  NULL, 25 },
	{ "affinity off: another pool", "c/sticky", "ip=10.96.0.6 port=http:80",
	  "| http:8080 | 1 rs; 2 rs; 3 rs; 4 rs", 2 + 8 + 8 },
	{ "a sticky endpoint gone", "c/sticky", "ip=10.96.0.6 port=http:80 affinity=600",
	  "| http:8080 | 2 rs; 3 rs; 4 rs", ANY },
	{ "a big pool shrinks within its class", "c/big", "ip=10.96.0.7 port=http:80", NULL, 4 },
	{ "IPv6 endpoints gone", "a/dual", "ip=10.96.0.2 port=dns/UDP:53 port=dns-tcp:53",
	  "| dns/UDP:53 dns-tcp:53 | 4 rs; 5 rs", 10 },
	{ "a new service", "d/new", "ip=10.96.1.1 port=http:80", "| http:8080 | 1 rs", 4 },
};

static void case_while_down(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	populate(&w);
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(down_cases); i++) {
		const char *name = down_cases[i].name;
		char slice[64];
		size_t writes;

		print_message("    %s\n", down_cases[i].what);
		snprintf(slice, sizeof(slice), "%s-%s", name, strstr(name, "dual") ? "4" : "1");
		if (down_cases[i].service[0] == '\0')
			world_no_service(&w, name);
		else
			world_service(&w, name, down_cases[i].service);
		if (down_cases[i].slice != NULL && down_cases[i].slice[0] == '\0')
			world_no_slice(&w, slice);
		else if (down_cases[i].slice != NULL)
			world_slice(&w, slice, strchr(name, '/') + 1, down_cases[i].slice);
		if (strstr(down_cases[i].what, "big pool") != NULL) {
			char buf[6144];

			world_slice(&w, slice, "big",
				    endpoints(buf, sizeof(buf), "| http:80", 1000, 1065));
		}
		world_restart(&w);
		writes = world_settle(&w);
		world_walk(&w);
		if (down_cases[i].writes != ANY)
			assert_int_equal(writes, down_cases[i].writes);
		world_check(&w);
		/* restore the initial objects */
		world_no_service(&w, "d/new");
		populate(&w);
		world_settle(&w);
		world_check(&w);
	}
	world_close(&w);
}

/* The API service is committed first; the sweep removes only elements that no service needs. */
static void case_sweep(const struct world_kernel *kernel)
{
	struct world w;
	char name[32];
	char slice[32];
	char text[64];

	world_open(&w, kernel);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "s/svc-%02d", i);
		snprintf(text, sizeof(text), "ip=10.96.2.%d port=http:80", i + 1);
		world_service(&w, name, text);
		snprintf(slice, sizeof(slice), "s/svc-%02d-1", i);
		snprintf(text, sizeof(text), "| http:80 | %d rs; %d rs", i + 1, i + 101);
		world_slice(&w, slice, name + 2, text);
	}
	world_settle(&w);
	world_check(&w);
	for (int i = 0; i < 40; i += 2) {
		snprintf(name, sizeof(name), "s/svc-%02d", i);
		world_no_service(&w, name);
		snprintf(name, sizeof(name), "s/svc-%02d-1", i);
		world_no_slice(&w, name);
	}
	world_restart(&w);
	/* frontend, vip, cluster ip, two slots; the addresses stay for the grace period */
	assert_int_equal(world_settle(&w), 20 * 5);
	for (int i = 0; i < 2; i++) { /* an address of the earlier process is unknown */
		assert_int_equal(nft_plane_stats(w.plane).n_in_grace, 0);
		world_walk(&w);
		assert_int_equal(nft_plane_stats(w.plane).n_in_grace, 40);
		world_check(&w);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
	}
	world_close(&w);
}

/* --- retained addresses --- */

static void case_retained(const struct world_kernel *kernel)
{
	const uint64_t hour = NFT_GRACE_S * NSEC_PER_SEC;
	uint64_t t0 = 1000 * NSEC_PER_SEC;
	struct plane *plane;
	struct world w;
	char *programmed;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&w);
	plane = w.plane;
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_settle(&w);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 2);
	w.now = t0;
	world_walk(&w);
	t0 = w.now;
	assert_in_range(plane->ops->tick(plane, t0), t0 + hour - 5 * NSEC_PER_SEC,
			t0 + hour + 5 * NSEC_PER_SEC);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 2);

	/* A backend that returns in the grace period: no write for its address, which stays. */
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	assert_int_equal(world_settle(&w), 3);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 1);
	plane->ops->tick(plane, t0 + hour / 2);

	/* Removed again, its grace period restarts; a reload does not extend grace periods. */
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_settle(&w);
	assert_true(plane->ops->tick(plane, t0 + hour / 2) > t0 + hour / 2);
	assert_int_equal(world_reload(&w), 0);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 2);
	w.now = t0 + hour / 2;
	world_walk(&w);
	plane->ops->tick(plane, t0 + hour + NSEC_PER_SEC);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 1);
	programmed = world_elements(&w);
	assert_null(strstr(programmed, "ip endpoint_addrs 10.0.1.3:8080\n"));
	assert_non_null(strstr(programmed, "ip endpoint_addrs 10.0.1.2:8080\n"));
	free(programmed);
	world_check(&w);
	plane->ops->tick(plane, t0 + 2 * hour);
	assert_int_equal(nft_plane_stats(plane).n_in_grace, 0);
	world_check(&w);
	world_close(&w);
}

/* An address loses its last backend during a load. */
static void case_retained_reload(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&w);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_service(&w, "shop/other", "ip=10.96.0.2 port=http:80");
	world_slice(&w, "shop/other-1", "other", "| http:8080 | 2 rs");
	world_reload(&w);
	world_walk(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_in_grace, 1);
	world_check(&w);
	world_close(&w);
}

static size_t restart_writes(struct world *w, bool is_owner)
{
	size_t n;

	w->is_table_owner = is_owner;
	world_restart(w);
	n = world_settle(w);
	world_check(w);
	return n;
}

/*
 * Tables with an owner: a restart claims them, one write per family; with the other setting it
 * replaces them with all elements.
 */
static void case_owner(const struct world_kernel *kernel)
{
	struct world w;
	size_t n;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&w);
	n = restart_writes(&w, true);
	if (!nft_plane_stats(w.plane).is_table_owner) {
		print_message("    this kernel has no such tables\n");
		world_close(&w);
		return;
	}
	assert_true(n > 100);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(restart_writes(&w, true), 2);
		assert_true(nft_plane_stats(w.plane).is_table_owner);
	}
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 4 rs");
	world_settle(&w);
	world_check(&w);
	assert_true(restart_writes(&w, false) > 100);
	assert_false(nft_plane_stats(w.plane).is_table_owner);
	assert_int_equal(restart_writes(&w, false), 0);
	assert_true(restart_writes(&w, true) > 100);
	world_close(&w);
}

#define GUARD_WAIT_NS (11 * NSEC_PER_SEC)

/* Restart with or without a guard; returns the commits until nothing is pending. */
static uint32_t guard_restart(struct world *w, enum world_guard guard)
{
	uint32_t genid = world_genid(w);

	w->guard = guard;
	world_restart(w);
	world_settle(w);
	world_check(w);
	world_wait(w, 0);
	return world_genid(w) - genid;
}

/* Commits within this time without a change. */
static uint32_t guard_wait(struct world *w)
{
	uint32_t genid = world_genid(w);

	world_wait(w, GUARD_WAIT_NS);
	return world_genid(w) - genid;
}

static bool is_guarded(const struct world *w)
{
	return nft_plane_stats(w->plane).has_guard;
}

static void guard_cidrs(struct world *w)
{
	struct service_cidr *c = object_open(OBJECT_KIND_SERVICE_CIDR).cidr;

	c->name = name_get_str("more");
	*vec_push(&c->cidrs) = test_prefix("10.200.0.0/16");
	model_put_service_cidr(&w->m, c, 1);
}

/* An older vipd's guard, which outlived it. False: the kernel has no such tables. */
static bool guard_leave(const struct world *w)
{
	static const struct nft_schema schema = { .comment = "vipd guard ", .version = 1 };
	AUTO(nl_sock_close) struct nl_sock *nl = w->kernel->connect(w->kernel->ctx);
	int r = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N && r == 0; fam++) {
		FINI(nft_writer_fini) struct nft_writer wr;

		nft_writer_init(&wr, nl, &schema, fam, "vipd-guard");
		nft_write_table(&wr, NFT_TABLE_F_OWNER | NFT_FIXED_TABLE_F_PERSIST);
		r = nft_writer_commit(&wr, NULL, NULL);
	}
	return r == 0;
}

/* Replaced or removed; whatever remains of it would be removed by a vipd without a guard. */
static void guard_of_older(struct world *w)
{
	assert_int_equal(guard_restart(w, WORLD_GUARD_OFF), 0);
	if (!guard_leave(w))
		return;
	assert_int_equal(guard_restart(w, WORLD_GUARD_ON), 0);
	assert_int_equal(guard_wait(w), 2);
	assert_true(is_guarded(w));
	assert_int_equal(guard_restart(w, WORLD_GUARD_OFF), 0);
	assert_int_equal(guard_wait(w), 0);
	assert_true(guard_leave(w));
	assert_int_equal(guard_wait(w), 0);
	assert_int_equal(guard_restart(w, WORLD_GUARD_OFF), 0);
	assert_int_equal(guard_wait(w), 2);
}

/*
 * The guard ends with its process, without a write. A restart writes nothing; it creates the guard
 * later with one transaction per family, or with the first change.
 */
static void case_guard(const struct world_kernel *kernel)
{
	struct world w;
	uint32_t genid;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&w);
	assert_int_equal(guard_restart(&w, WORLD_GUARD_ON), 0);
	assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	if (guard_wait(&w) == 0) {
		assert_false(is_guarded(&w));
		print_message("    this kernel has no such tables\n");
		world_close(&w);
		return;
	}
	assert_true(is_guarded(&w));
	assert_int_equal(guard_wait(&w), 0);
	assert_int_equal(guard_restart(&w, WORLD_GUARD_ON), 0);
	assert_false(is_guarded(&w));
	assert_int_equal(guard_wait(&w), 2);
	assert_true(is_guarded(&w));
	assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	assert_int_equal(guard_restart(&w, WORLD_GUARD_ON), 0);
	genid = world_genid(&w);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs; 4 rs");
	world_settle(&w);
	assert_int_equal(world_genid(&w), genid + 3);
	assert_true(is_guarded(&w));
	genid = world_genid(&w);
	guard_cidrs(&w); /* into the table and into the guard */
	world_settle(&w);
	assert_int_equal(world_genid(&w), genid + 2);
	assert_true(is_guarded(&w));
	assert_int_equal(guard_restart(&w, WORLD_GUARD_OFF), 0);
	assert_int_equal(guard_wait(&w), 0);
	guard_of_older(&w);
	assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	world_close(&w);
}

/* Does the IPv4 table in the kernel have this chain? */
static bool has_chain(const struct world *w, const char *name)
{
	AUTO(nl_sock_close) struct nl_sock *nl = w->kernel->connect(w->kernel->ctx);
	struct nft_fixed_tables tables = { 0 };
	struct nft_fixed fixed = { 0 };
	bool has = false;

	assert_int_equal(nft_fixed_tables_read(&tables, nl, IPFAM_V4, &nft_schema, NULL), 0);
	vec_for_each (t, &tables.v) {
		if (!t->is_ours)
			continue;
		assert_int_equal(
			nft_fixed_read(&fixed, nl, IPFAM_V4, t, &nft_schema, w->counting, NULL), 0);
		has |= nft_fixed_chain(&fixed, name) != NULL;
	}
	nft_fixed_fini(&fixed);
	vec_fini(&tables.v);
	return has;
}

#define SEVERAL "ip=10.96.0.1 port=http:80 ext=192.0.2.1 ext=192.0.2.2"
#define KINDS_PERIOD_NS (600 * NSEC_PER_SEC)

/* Affinity chains that no service uses are deleted: after a time, and after a restart. */
static void case_unused_kinds(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	world_service(&w, "shop/web", WEB " affinity=600");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_service(&w, "shop/other", "ip=10.96.0.7 port=http:80 affinity=90");
	world_slice(&w, "shop/other-1", "other", "| http:8080 | 4 rs");
	world_settle(&w);
	world_service(&w, "shop/web", WEB " affinity=60");
	world_settle(&w);
	world_wait(&w, KINDS_PERIOD_NS);
	world_wait(&w, KINDS_PERIOD_NS);
	assert_false(has_chain(&w, "a3-600"));
	assert_true(has_chain(&w, "a3-60"));
	assert_true(has_chain(&w, "a1-90"));
	assert_int_equal(nft_kind_count(), 2);
	assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	world_check(&w);
	/* Back to the first timeout: its chain is created again, and stays while it is used. */
	world_service(&w, "shop/web", WEB " affinity=600");
	world_settle(&w);
	world_service(&w, "shop/web", WEB " affinity=60");
	world_settle(&w);
	world_wait(&w, KINDS_PERIOD_NS);
	assert_true(has_chain(&w, "a3-600"));
	world_service(&w, "shop/web", WEB " affinity=600");
	world_settle(&w);
	world_check(&w);
	/* Chains of services deleted while no process ran are deleted by the sweep. */
	world_no_service(&w, "shop/other");
	world_no_slice(&w, "shop/other-1");
	nft_kind_reset();
	world_restart(&w);
	world_settle(&w);
	assert_true(has_chain(&w, "a3-600"));
	assert_false(has_chain(&w, "a3-60"));
	assert_false(has_chain(&w, "a1-90"));
	assert_int_equal(nft_kind_count(), 1);
	assert_int_equal(world_audit(&w), 0);
	world_check(&w);
	world_no_service(&w, "shop/web");
	world_settle(&w);
	world_wait(&w, KINDS_PERIOD_NS);
	world_wait(&w, KINDS_PERIOD_NS);
	assert_int_equal(nft_kind_count(), 0);
	assert_false(has_chain(&w, "a3-600"));
	world_close(&w);
}

/*
 * A service whose timeout changes again and again uses up the exact numbers: those that nothing
 * leads to are released at the next tick, and a service that got a coarse one gets its own.
 */
static void case_short_of_kinds(const struct world_kernel *kernel)
{
	const struct plan_rows *rows;
	char text[64];
	struct world w;
	size_t n;

	world_open(&w, kernel);
	world_service(&w, "shop/old", "ip=10.96.0.7 port=http:80 affinity=90");
	world_slice(&w, "shop/old-1", "old", "| http:8080 | 4 rs");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_slice(&w, "shop/new-1", "new", "| http:8080 | 5 rs");
	for (int i = 1; i <= 40; i++) {
		snprintf(text, sizeof(text), WEB " affinity=%d", 1000 + i);
		world_service(&w, "shop/web", text);
		world_settle(&w);
	}
	for (uint32_t t = 2000; !nft_kind_is_short(); t++) /* for time's sake without chains */
		(void)nft_pool_class(3, t);
	n = nft_kind_count();
	world_service(&w, "shop/new", "ip=10.96.0.8 port=http:80 affinity=777");
	world_settle(&w);
	assert_true(has_chain(&w, "b1-900") && !has_chain(&w, "a1-777"));
	w.plane->has_goal = true; /* its numbers are not led to yet */
	world_wait(&w, NSEC_PER_SEC);
	assert_int_equal(nft_kind_count(), n + 1);
	w.plane->has_goal = false;
	world_wait(&w, NSEC_PER_SEC);
	assert_true(has_chain(&w, "a3-1040") && !has_chain(&w, "a3-1001"));
	assert_true(n + 1 - nft_kind_count() <= 32); /* a step is short */
	world_settle(&w);
	assert_true(has_chain(&w, "a1-777"));
	rows = world_svc(&w, "shop/new")->rows;
	assert_int_equal(nft_class_affinity(rows->pools.v[0].class), 777);
	for (int i = 0; i < 70; i++)
		world_wait(&w, 20 * NSEC_PER_MSEC);
	assert_true(nft_kind_count() <= 4); /* the coarse one stays for a time */
	assert_true(has_chain(&w, "a1-90") && has_chain(&w, "a3-1040") && has_chain(&w, "a1-777"));
	assert_false(has_chain(&w, "a3-1039"));
	assert_int_equal(w.plane->ops->check(w.plane, NULL), PLANE_CHECK_QUIET);
	world_check(&w);
	world_restart(&w);
	assert_int_equal(world_settle(&w), 0);
	world_close(&w);
}

static void alternate_timeout(struct world *w)
{
	for (int i = 0; i < 10; i++) {
		world_service(w, "shop/web",
			      i % 2 == 0 ? SEVERAL " affinity=60" : SEVERAL " affinity=600");
		world_settle(w);
	}
}

/* However often a timeout becomes shorter: one record per pool and walk. */
static void case_shorten(const struct world_kernel *kernel)
{
	struct world w;
	int n = 0;

	world_open(&w, kernel);
	world_service(&w, "shop/web", SEVERAL " affinity=600");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&w);
	world_walk(&w);
	world_settle(&w); /* with the tick that is due: the following do not */
	alternate_timeout(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 1);
	world_wait(&w, 0); /* begins a walk */
	alternate_timeout(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 2);
	for (; nft_plane_stats(w.plane).n_shorten == 2 && n < 10; n++)
		world_wait(&w, NSEC_PER_SEC);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 1);
	for (; nft_plane_stats(w.plane).n_shorten == 1 && n < 20; n++)
		world_wait(&w, NSEC_PER_SEC);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 0);
	/* The pool of the other policy shares the entries, and the record. */
	world_service(&w, "shop/web", "ip=10.96.0.9 port=http:80 affinity=600");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs");
	world_settle(&w);
	world_service(&w, "shop/web", "ip=10.96.0.9 port=http:80 affinity=300");
	world_settle(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 1);
	world_service(&w, "shop/web", "ip=10.96.0.9 port=http:80 itp affinity=60");
	world_settle(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_shorten, 1);
	world_check(&w);
	world_close(&w);
}

static const struct nft_case cases[] = {
	{ "cluster ip", case_cluster_ip },
	{ "ipv6", case_ipv6 },
	{ "external frontends and guards", case_external },
	{ "source ranges with frontends", case_ranges },
	{ "many source ranges", case_ranges_weigh },
	{ "local policies", case_local },
	{ "affinity", case_affinity },
	{ "unused affinity chains", case_unused_kinds },
	{ "too many different timeouts", case_short_of_kinds },
	{ "affinity timeouts that become shorter", case_shorten },
	{ "addresses several need", case_shared },
	{ "backends on this node", case_local_source },
	{ "backends on this node, a large service", case_local_source_large },
	{ "size classes", case_classes },
	{ "weights", case_weights },
	{ "weights, divided", case_weights_divided },
	{ "hashing", case_hashing },
	{ "hashing of many endpoints", case_hashing_large },
	{ "large pools in pieces", nft_case_pieces, true },
	{ "fewer endpoints between two pieces", nft_case_pieces_fewer, true },
	{ "frontends in pieces", nft_case_pieces_frontends },
	{ "source ranges in pieces", nft_case_pieces_ranges, true },
	{ "changes while down, in pieces", nft_case_pieces_down, true },
	{ "a conflict between two pieces", nft_case_conflict },
	{ "classes of split frontends", case_split },
	{ "restart writes nothing", case_restart },
	{ "changes while down", case_while_down },
	{ "sweep", case_sweep },
	{ "retained addresses", case_retained },
	{ "retained addresses over a reload", case_retained_reload },
	{ "tables with an owner", case_owner },
	{ "a guard", case_guard },
};

const struct nft_case *nft_cases(size_t *n)
{
	*n = ARRAY_SIZE(cases);
	return cases;
}
