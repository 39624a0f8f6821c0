/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft_large.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../sync_steps.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/fixed.h"
#include "objects.h"
#include "plan/rows.h"
#include "plane/nft/layout.h"
#include "test.h"

#define WEB "ip=10.96.0.1 port=http:80"
#define PORTS WEB " port=b:81 port=c:82 port=d:83 port=e:84 port=f:85"
#define LB " type=LoadBalancer vip=192.0.2.1"
#define AFFINITY " affinity=300" LB " etp"
#define RANGES " range=10.0.0.0/8 range=192.0.2.128/25"

/* A frontend picks slots of a pool that has them. */
static void target_check(const struct plan_rows *rows, enum ipfam fam, const struct plan_target *t)
{
	const struct plan_pool *pool;
	struct nft_kind_info info;

	if (t->verdict != PLAN_VERDICT_POOL)
		return;
	pool = plan_rows_pool(rows, fam, t->pool_id);
	assert_non_null(pool);
	assert_in_range(pool->backends.n, 1, UINT32_MAX);
	assert_int_equal(t->class, pool->class);
	info = nft_kind_info(t->class);
	assert_true(info.slots > 0);
	assert_in_range(plan_pool_slots(pool), info.safe_slots, info.slots);
}

/* A guarded frontend has source ranges: without any it has no clients. */
static void guard_check(const struct plan_rows *rows, const struct plan_frontend *f)
{
	if (f->is_guarded)
		assert_in_range(plan_rows_pool(rows, ip_fam(&f->addr), f->target.pool_id)->ranges.n,
				1, UINT32_MAX);
}

void nft_targets_check(const struct plan_rows *rows)
{
	for (size_t i = 0; rows != NULL && i < rows->frontends.n; i++) {
		const struct plan_frontend *f = &rows->frontends.v[i];

		guard_check(rows, f);
		target_check(rows, ip_fam(&f->addr), &f->target);
		target_check(rows, ip_fam(&f->addr), &f->inside);
	}
}

/*
 * Of a transaction: PLANE_PIECE_WORK operations of two elements, as much of a pool that goes with
 * its last frontend, and chains of pool sizes.
 */
#define PIECE_WRITES (4 * PLANE_PIECE_WORK + 100)

static const struct piece_step {
	const char *what;
	const char *service;
	int from; /* number of the first endpoint, and of endpoints */
	int n;
} piece_steps[] = {
	{ "hashing", WEB " sched=mh", 0, 300 },
	{ "some replaced, address and port", WEB " sched=mh,mh-port", 50, 300 },
	{ "with weights", WEB " sched=mh,mh-port weights=10.2.0.60=9,*=4", 50, 300 },
	{ "weights only", WEB " weights=10.2.0.60=90,*=41", 50, 100 },
	{ "other weights", WEB " weights=10.2.0.60=90,*=83", 100, 70 },
	{ "at random", WEB, 100, 2500 },
	{ "one endpoint, hashing", WEB " sched=mh", 100, 1 },
	{ "one endpoint", WEB, 100, 1 },
	{ "two pools", WEB " sched=mh type=LoadBalancer vip=192.0.2.1 etp", 100, 3 },
	{ "affinity", WEB " affinity=300 type=LoadBalancer vip=192.0.2.1 etp", 0, 1500 },
	{ "all replaced", WEB " affinity=300 type=LoadBalancer vip=192.0.2.1 etp", 1500, 1500 },
	{ "ids of leaving endpoints", WEB " affinity=300 type=LoadBalancer vip=192.0.2.1 etp", 3000,
	  1500 },
	{ "fewer", WEB " affinity=400", 4480, 30 },
	{ "more", WEB " affinity=400", 4000, 1200 },
	{ "none", WEB " sched=mh", 0, 0 },
};

static void put_from(struct world *w, const char *service, int from, int n)
{
	struct str text = { 0 };

	world_service(w, "shop/web", service);
	str_puts(&text, "| http:8080 b:8081 c:8082 d:8083 e:8084 f:8085 |");
	for (int i = from; i < from + n; i++)
		str_printf(&text, " 10.2.%d.%d rs @n%d;", i / 250, i % 250, 1 + i % 2);
	world_slice(w, "shop/web-1", "web", str_text(&text));
	str_fini(&text);
}

void nft_large_put(struct world *w, int n)
{
	put_from(w, WEB, 0, n);
}

/* Slots of pools of the kernel, and the words of its frontends. */
struct picks {
	enum nft_set_id set;
	VEC(uint32_t) words;
	bool has_slots;
	uint8_t has_slot[64][NFT_POOL_SLOTS_MAX]; /* by pool */
};

static uint8_t *slots_of(struct picks *p, uint32_t word)
{
	bool is_local = word & NFT_POOL_LOCAL;

	return p->has_slot[nft_word_pool(word) % 32 * 2 + is_local];
}

static void picks_note(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct picks *p = arg;

	p->has_slots |= p->set == NFTSET_ENDPOINTS;
	if (p->set == NFTSET_ENDPOINTS)
		slots_of(p, nft_get_word(key))[nft_get_word(key + 4)] = 1;
	else
		*vec_push(&p->words) = nft_get_word(data);
}

static bool is_filled(struct picks *p, uint32_t word)
{
	struct nft_kind_info info = { 0 };

	info = nft_kind_info(nft_word_kind(word));
	return info.safe_slots == 0 || memchr(slots_of(p, word), 0, info.safe_slots) == NULL;
}

static bool picks_are_filled(const struct world *w)
{
	static const enum nft_set_id sets[] = { NFTSET_ENDPOINTS, NFTSET_FRONTENDS,
						NFTSET_XL_CLUSTER, NFTSET_XL_LOCAL };
	struct nl_sock *nl = w->kernel->connect(w->kernel->ctx);
	struct picks *p = xcalloc(1, sizeof(*p));
	struct nft_layout *l;
	bool ret;

	nft_layout_open(&l, nl, IPFAM_V4);
	assert_int_equal(nft_layout_load(l, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct nft_table_ref table = { l->table, IPFAM_V4 };

		p->set = sets[i];
		assert_int_equal(nft_elems_dump(nl, &table, sets[i], picks_note, p, NULL), 0);
	}
	ret = p->words.n > 0 || !p->has_slots;
	vec_for_each (word, &p->words)
		ret &= is_filled(p, *word);
	nft_layout_close(l);
	nl_sock_close(nl);
	vec_fini(&p->words);
	free(p);
	return ret;
}

/*
 * In the kernel, each slot that a frontend surely picks has a backend, and if there are slots, a
 * frontend leads to some of them. While the kernel resizes the
 * hash table of a map, a dump lacks elements.
 */
static void picks_check(const struct world *w)
{
	const struct timespec wait = { 0, 10 * NSEC_PER_MSEC };

	for (int i = 0; w->kernel->resizes && i < 1000 && !picks_are_filled(w); i++)
		(void)nanosleep(&wait, NULL);
	assert_true(picks_are_filled(w));
}

/* Steps until nothing is pending, at most `max`. After a restart slots beyond the end go at once.
 */
static bool settle_in_pieces(struct world *w, int max, bool is_settled, size_t writes_max)
{
	for (int i = 0; i < max; i++) {
		uint64_t before = sync_stats_get(w->s)->writes;
		uint64_t next = sync_step(w->s, w->now);

		assert_in_range(sync_stats_get(w->s)->writes - before, 0, writes_max);
		assert_int_equal(sync_failure_count(w->s), 0);
		if (sync_stats_get(w->s)->writes != before) {
			nft_targets_check(world_svc(w, "shop/web")->rows);
			/* The fake kernel has each state: the real one is read less often. */
			if (!w->kernel->resizes || i % 4 == 0)
				picks_check(w);
			if (is_settled && i % 8 == 0) {
				world_await(w);
				world_check(w);
			}
		}
		if (next == SYNC_NOW)
			continue;
		if (sync_state_get(w->s) == SYNC_RUNNING && list_is_empty(&w->m.dirty)) {
			if (is_settled)
				world_await(w);
			return true;
		}
		w->now = MAX(w->now, next);
	}
	return false;
}

/* The service goes, in pieces. */
static void pieces_close(struct world *w)
{
	world_no_service(w, "shop/web");
	assert_true(settle_in_pieces(w, 1000, true, PIECE_WRITES));
	world_check(w);
	world_close(w);
}

static bool has_affinity(const struct piece_step *s)
{
	return strstr(s->service, "affinity") != NULL;
}

/*
 * Each change in pieces: without interruption, then to this state again from the previous one, with
 * a restart after some steps, and a change while vipd is down. Affinity is switched without a
 * restart: 0012 says what it leaves.
 */
void nft_case_pieces(const struct world_kernel *kernel)
{
	const struct piece_step *was = NULL;
	const struct piece_step *down;
	size_t n_restarts = 0;
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (const struct piece_step *to = piece_steps; to < piece_steps + ARRAY_SIZE(piece_steps);
	     was = to++) {
		bool is_done = was == NULL || has_affinity(was) != has_affinity(to);
		size_t writes_max = PIECE_WRITES;

		print_message("    %s\n", to->what);
		if (was != NULL) {
			put_from(&w, was->service, was->from, was->n);
			world_settle(&w);
		}
		if (was != NULL && has_affinity(was)) /* a pool with local ids that is replaced */
			writes_max += 7 * (size_t)was->n;
		put_from(&w, to->service, to->from, to->n);
		assert_true(settle_in_pieces(&w, 1000, true, writes_max));
		world_check(&w);
		assert_int_equal(world_audit(&w), 0);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		for (int steps = 4; !is_done; steps *= 4) {
			put_from(&w, was->service, was->from, was->n);
			world_settle(&w);
			put_from(&w, to->service, to->from, to->n);
			is_done = settle_in_pieces(&w, steps, true, writes_max);
			world_restart(&w);
			down = &piece_steps[n_restarts++ % ARRAY_SIZE(piece_steps)];
			put_from(&w, down->service, down->from, down->n);
			is_done |= settle_in_pieces(&w, 1 + steps, false, SIZE_MAX);
			world_restart(&w);
			assert_true(settle_in_pieces(&w, 1000, false, SIZE_MAX));
			world_walk(&w);
			world_check(&w);
			assert_int_equal(world_audit(&w), 0);
		}
	}
	pieces_close(&w);
}

/*
 * After a restart all endpoints are replaced in pieces, and the Service changes between two of
 * them: frontends lead to the whole pool of the previous process until they are written.
 */
void nft_case_pieces_fewer(const struct world_kernel *kernel)
{
	static const struct {
		const char *service;
		int n;     /* endpoints */
		int fewer; /* of the changed service */
		bool is_removed;
	} cases[] = {
		{ .service = WEB, .n = 2500, .fewer = 1 },
		{ .service = WEB, .n = 2500, .fewer = 1600 },
		{ .service = WEB, .n = 2500, .fewer = 1600, .is_removed = true },
		{ .service = WEB " weights=*=7,10.2.0.60=60", .n = 300, .fewer = 3 },
		{ .service = WEB " sched=mh", .n = 600, .fewer = 400 },
	};
	struct world w;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int steps = 2; steps < 9; steps += 3) {
			world_open(&w, kernel);
			world_settle(&w);
			put_from(&w, cases[i].service, 0, cases[i].n);
			world_settle(&w);
			world_restart(&w);
			put_from(&w, cases[i].service, 3000, cases[i].n);
			(void)settle_in_pieces(&w, steps, false, SIZE_MAX);
			put_from(&w, WEB " type=LoadBalancer vip=192.0.2.1", 5000, cases[i].fewer);
			if (cases[i].is_removed) {
				(void)settle_in_pieces(&w, 3, false, SIZE_MAX);
				world_no_service(&w, "shop/web");
			}
			assert_true(settle_in_pieces(&w, 1000, false, SIZE_MAX));
			assert_int_equal(world_audit(&w), 0);
			world_restart(&w);
			assert_int_equal(world_settle(&w), 0);
			world_walk(&w);
			world_check(&w);
			world_close(&w);
		}
	}
}

/*
 * A service of another process changes in pieces; after some transactions vipd is killed or not,
 * and the service changes again.
 */
static const struct {
	const char *what;
	struct piece_step was, down, then;
} down_cases[] = {
	{ "fewer in both pools, affinity",
	  { .service = WEB AFFINITY, .n = 1000 },
	  { .service = WEB AFFINITY, .from = 100, .n = 900 },
	  { .service = WEB AFFINITY, .from = 100, .n = 900 } },
	{ "some replaced in both pools, affinity",
	  { .service = WEB AFFINITY, .n = 1000 },
	  { .service = WEB AFFINITY, .from = 100, .n = 1000 },
	  { .service = WEB AFFINITY, .from = 100, .n = 1000 } },
	{ "affinity is switched off",
	  { .service = WEB AFFINITY, .n = 1500 },
	  { .service = WEB AFFINITY, .from = 1000, .n = 1500 },
	  { .service = WEB LB " etp", .from = 1000, .n = 1500 } },
	{ "affinity, a second pool",
	  { .service = WEB LB " affinity=300", .n = 1000 },
	  { .service = WEB AFFINITY, .from = 800, .n = 500 },
	  { .service = WEB AFFINITY, .from = 900, .n = 1000 } },
	{ "many more, then fewer",
	  { .service = WEB, .n = 100 },
	  { .service = WEB, .n = 3000 },
	  { .service = WEB LB, .n = 300 } },
	{ "many more in two pools, then fewer",
	  { .service = WEB LB " etp", .n = 100 },
	  { .service = WEB LB " etp", .n = 3000 },
	  { .service = WEB LB " etp itp", .n = 300 } },
	{ "many more than an exact number, then few",
	  { .service = WEB, .n = 50 },
	  { .service = WEB, .n = 3000 },
	  { .service = WEB, .n = 66 } },
	{ "no more hashing",
	  { .service = WEB, .n = 100 },
	  { .service = WEB " sched=mh", .n = 300 },
	  { .service = WEB, .n = 100 } },
	{ "few, then another pool",
	  { .service = WEB LB " etp", .n = 2500 },
	  { .service = WEB LB " etp", .from = 2000, .n = 800 },
	  { .service = WEB LB " etp affinity=300", .from = 2000, .n = 700 } },
	{ "several ports",
	  { .service = PORTS LB " etp", .n = 200 },
	  { .service = PORTS LB " etp", .from = 100, .n = 120 },
	  { .service = PORTS LB " etp", .from = 110, .n = 120 } },
};

void nft_large_step(struct world *w, int n)
{
	for (int i = 0; i < 1000 && n > 0; i++) {
		uint64_t before = sync_stats_get(w->s)->writes;

		if (settle_in_pieces(w, 1, false, SIZE_MAX))
			return;
		n -= sync_stats_get(w->s)->writes != before;
	}
}

void nft_case_pieces_down(const struct world_kernel *kernel)
{
	for (size_t i = 0; i < 8 * ARRAY_SIZE(down_cases); i++) {
		static const int writes[] = { 1, 2, 3, 6 };
		const struct piece_step *was = &down_cases[i / 8].was;
		const struct piece_step *down = &down_cases[i / 8].down;
		const struct piece_step *then = &down_cases[i / 8].then;
		bool is_killed = i / 4 % 2 == 1;
		struct world w;

		print_message("    %s, %d%s\n", down_cases[i / 8].what, writes[i % 4],
			      is_killed ? ", killed" : "");
		world_open(&w, kernel);
		world_settle(&w);
		put_from(&w, was->service, was->from, was->n);
		world_settle(&w);
		world_restart(&w);
		put_from(&w, down->service, down->from, down->n);
		nft_large_step(&w, writes[i % 4]);
		if (is_killed)
			world_restart(&w);
		put_from(&w, then->service, then->from, then->n);
		assert_true(settle_in_pieces(&w, 1000, false, SIZE_MAX));
		world_walk(&w);
		world_check(&w);
		assert_int_equal(world_audit(&w), 0);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
		world_close(&w);
	}
}

/* Each port of a Service has the source ranges: a piece has those of one port. */
void nft_case_pieces_ranges(const struct world_kernel *kernel)
{
	static const struct {
		const char *what;
		const char *service;
		int from; /* number of the first range, and of ranges */
		int n;
		int n_endpoints;
	} steps[] = {
		{ "without", PORTS LB, 0, 0, 3 },
		{ "many", PORTS LB, 0, 1000, 3 },
		{ "replaced", PORTS LB, 1000, 1000, 3 },
		{ "few, many endpoints, two pools", PORTS LB " etp", 1000, 3, 700 },
		{ "none", PORTS LB " etp", 0, 0, 700 },
		{ "few, the pools are there", PORTS LB " etp", 0, 3, 700 },
		{ "others, no endpoints", PORTS LB " etp", 1, 3, 0 },
		{ "many, other pools", PORTS LB " affinity=300", 0, 1000, 300 },
		{ "no external address", PORTS, 0, 1000, 300 },
		{ "many, small pools", PORTS LB, 0, 1000, 3 },
		{ "no external address, the pools stay", PORTS, 0, 1000, 3 },
		{ "many, local endpoints", PORTS LB " etp", 0, 1500, 3 },
		{ "no ranges, all endpoints", PORTS LB, 0, 0, 3 },
	};
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		FINI(str_fini) struct str text = { 0 };

		print_message("    %s\n", steps[i].what);
		str_puts(&text, steps[i].service);
		for (int k = steps[i].from; k < steps[i].from + steps[i].n; k++)
			str_printf(&text, " range=10.%d.%d.0/24", k / 100, k % 100 * 2);
		put_from(&w, str_text(&text), 0, steps[i].n_endpoints);
		assert_true(settle_in_pieces(&w, 1000, true, PIECE_WRITES));
		world_check(&w);
		world_restart(&w);
		assert_int_equal(world_settle(&w), 0);
		world_walk(&w);
		world_check(&w);
	}
	pieces_close(&w);
}

/* A pool goes with its frontends, which count. */
void nft_case_pieces_frontends(const struct world_kernel *kernel)
{
	FINI(str_fini) struct str text = { 0 };
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	str_puts(&text, PORTS);
	for (int k = 0; k < 900; k++)
		str_printf(&text, " ext=192.0.%d.%d", 2 + k / 250, k % 250);
	put_from(&w, str_text(&text), 0, 3);
	assert_true(settle_in_pieces(&w, 1000, true, PIECE_WRITES));
	world_check(&w);
	pieces_close(&w);
}

/* Between the pieces of a change, a frontend that another service has remains a conflict. */
void nft_case_conflict(const struct world_kernel *kernel)
{
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	world_service(&w, "shop/owner", "ip=10.96.0.2 port=http:80 ext=192.0.2.7 created=1");
	for (int from = 0; from <= 6000; from += 2000) {
		bool is_done = false;

		put_from(&w, WEB " ext=192.0.2.7 created=2", from, 3000);
		while (!is_done) {
			is_done = settle_in_pieces(&w, 1, from > 0, PIECE_WRITES);
			assert_true(is_done || from == 0 || w.p.n_conflicts == 1);
		}
		assert_int_equal(w.p.n_conflicts, 1);
		if (from == 4000)
			world_reload(&w);
	}
	world_close(&w);
}

/* --- at random --- */

/*
 * Services without and with local ids, and the number of endpoints at most. All have the external
 * address: a frontend of the kernel that is not desired any more picks empty slots until the sweep.
 */
static const struct piece_step random_steps[2][7] = {
	{ { .service = WEB LB, .n = 3000 },
	  { .service = WEB LB " etp" RANGES, .n = 1600 },
	  { .service = WEB LB " itp", .n = 1600 },
	  { .service = PORTS LB RANGES, .n = 300 },
	  { .service = PORTS LB " etp", .n = 200 },
	  { .service = WEB LB " weights=*=7,10.2.0.60=60" RANGES, .n = 500 },
	  { .service = WEB LB " sched=mh" RANGES, .n = 200 } },
	{ { .service = WEB LB " affinity=300", .n = 1500 },
	  { .service = WEB AFFINITY RANGES, .n = 1500 },
	  { .service = WEB LB " affinity=300 itp", .n = 1000 },
	  { .service = WEB LB " affinity=400", .n = 1500 },
	  { .service = PORTS AFFINITY, .n = 200 },
	  { .service = PORTS LB " affinity=300" RANGES, .n = 300 },
	  { .service = WEB AFFINITY, .n = 300 } },
};

static void random_put(struct world *w, struct rng *r, size_t group)
{
	const struct piece_step *to = &random_steps[group][rng_below(r, 7)];
	static const int few[] = { 0, 1, 50, 66, 100 };
	int n = rng_below(r, 2) == 0 ? few[rng_below(r, ARRAY_SIZE(few))]
				     : 1 + (int)rng_below(r, (size_t)to->n);

	put_from(w, to->service, (int)rng_below(r, 200), n);
}

static void random_settle(struct world *w, bool is_restarted)
{
	assert_true(settle_in_pieces(w, 2000, false, SIZE_MAX));
	world_walk(w);
	world_check(w);
	assert_int_equal(world_audit(w), 0);
	if (!is_restarted)
		return;
	world_restart(w);
	assert_int_equal(world_settle(w), 0);
	world_walk(w);
	world_check(w);
}

void nft_large_random(const struct world_kernel *kernel, struct rng *r, void (*flush)(void *ctx))
{
	size_t group = rng_below(r, 2);
	struct world w;

	world_open(&w, kernel);
	world_settle(&w);
	for (int round = 0; round < 30; round++) {
		/* Affinity is switched without a restart: 0012 says what it leaves. */
		if (rng_below(r, 8) == 0) {
			random_settle(&w, false);
			group = !group;
			random_put(&w, r, group);
			random_settle(&w, true);
		}
		random_put(&w, r, group);
		nft_large_step(&w, (int)rng_below(r, 5));
		if (rng_below(r, 8) == 0) {
			flush(kernel->ctx);
			world_restart(&w);
		} else if (rng_below(r, 2) == 0) {
			world_restart(&w);
		}
		if (rng_below(r, 8) == 0) { /* without a walk over addresses of the table */
			random_settle(&w, false);
			flush(kernel->ctx);
			sync_reload(w.s);
		}
		if (rng_below(r, 3) == 0)
			random_settle(&w, rng_below(r, 2) == 0);
	}
	random_settle(&w, true);
	world_close(&w);
}
