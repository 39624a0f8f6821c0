/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random objects: selection compared with a second implementation, which follows sections 4 and 5
 * of doc/behaviour.md sentence by sentence, without sorting, runs and counting.
 */
#include "test.h"

#include <stdio.h>

#include "base/str.h"
#include "model/select.h"
#include "objects.h"

/* --- random worlds against the text of the reference
 * ------------------------------------------------ */

#define WORLDS 3000
#define MOST 40

/* One endpoint of a slice. The other fields depend only on the fields before `node`. */
struct twin {
	unsigned int addr;
	unsigned int port;
	unsigned int version;
	bool is_ready;
	bool is_serving;
	bool is_terminating;
	int node;     /* 0 = none, else n1..n3 */
	int zone[2];  /* 0 = none, else a..c */
	int hinted;   /* node hint: 0 = none, else n1..n3 */
	bool is_lost; /* another endpoint of this identity has precedence */
	bool in_cluster;
	bool in_local;
};

struct twin_world {
	struct twin v[MOST];
	size_t n;
	bool is_itp_local;
	bool is_etp_local;
	bool is_external;
	bool has_any;
	enum topology_mode topology;
};

/* So that two endpoints of equal rank give equal results. */
static void twin_dress(struct twin *t, int hint_chance)
{
	struct rng rng = { ((((t->addr * 64 + t->port) * 64 + t->version) * 2 + t->is_ready) * 2 +
			    t->is_serving) *
				   2 +
			   t->is_terminating };

	t->node = (int)rng_below(&rng, 4);
	t->zone[0] = rng_below(&rng, 100) < (size_t)hint_chance ? 1 + (int)rng_below(&rng, 3) : 0;
	t->zone[1] = t->zone[0] != 0 && rng_below(&rng, 4) == 0 ? 1 + (int)rng_below(&rng, 3) : 0;
	t->hinted = rng_below(&rng, 100) < (size_t)hint_chance ? 1 + (int)rng_below(&rng, 3) : 0;
}

static bool twin_beats(const struct twin *a, const struct twin *b)
{
	if (a->is_terminating != b->is_terminating)
		return b->is_terminating; /* EPS-14 */
	if (a->version != b->version)
		return a->version > b->version; /* EPS-15 */
	if (a->is_ready != b->is_ready)
		return a->is_ready;
	return a->is_serving && !b->is_serving;
}

static void twin_merge(struct twin_world *w)
{
	for (size_t i = 0; i < w->n; i++)
		for (size_t j = 0; j < w->n; j++) {
			bool is_same = w->v[i].addr == w->v[j].addr && w->v[i].port == w->v[j].port;

			if (i != j && is_same &&
			    (twin_beats(&w->v[j], &w->v[i]) ||
			     (j < i && !twin_beats(&w->v[i], &w->v[j]))))
				w->v[i].is_lost = true;
		}
}

static bool twin_for_zone_a(const struct twin *t)
{
	return t->zone[0] == 1 || t->zone[1] == 1;
}

/* POL-14 and POL-15, as sentences. */
static enum topology_mode twin_topology(const struct twin_world *w)
{
	bool all_node = true;
	bool all_zone = true;
	bool one_node = false;
	bool one_zone = false;
	bool any_ready = false;

	for (size_t i = 0; i < w->n; i++) {
		const struct twin *t = &w->v[i];

		if (t->is_lost || !t->is_ready)
			continue;
		any_ready = true;
		all_node &= t->hinted != 0;
		all_zone &= t->zone[0] != 0;
		one_node |= t->hinted == 1;
		one_zone |= twin_for_zone_a(t);
	}
	if (any_ready && all_node && one_node)
		return TOPOLOGY_SAME_NODE;
	if (any_ready && all_zone && one_zone)
		return TOPOLOGY_SAME_ZONE;
	return TOPOLOGY_OFF;
}

static void twin_classify(struct twin_world *w)
{
	bool uses_cluster = !w->is_itp_local || w->is_external;
	bool uses_local = w->is_itp_local || (w->is_etp_local && w->is_external);
	bool cluster_ready = false;
	bool local_ready = false;

	twin_merge(w);
	w->topology = uses_cluster ? twin_topology(w) : TOPOLOGY_OFF;
	for (size_t i = 0; i < w->n; i++) {
		struct twin *t = &w->v[i];

		cluster_ready |= !t->is_lost && t->is_ready;
		local_ready |= !t->is_lost && t->is_ready && t->node == 1;
	}
	w->has_any = false;
	for (size_t i = 0; i < w->n; i++) {
		struct twin *t = &w->v[i];
		bool is_fallback = t->is_serving && t->is_terminating;

		if (t->is_lost)
			continue;
		t->in_cluster = uses_cluster && (cluster_ready ? t->is_ready : is_fallback);
		if (w->topology == TOPOLOGY_SAME_NODE)
			t->in_cluster &= t->hinted == 1;
		if (w->topology == TOPOLOGY_SAME_ZONE)
			t->in_cluster &= twin_for_zone_a(t);
		t->in_local =
			uses_local && t->node == 1 && (local_ready ? t->is_ready : is_fallback);
		w->has_any |= t->in_cluster || (uses_local && (t->is_ready || is_fallback));
	}
}

static void twin_text(struct str *s, const struct twin *t)
{
	str_printf(s, "%u %s%s%s", t->addr, t->is_ready ? "r" : "", t->is_serving ? "s" : "",
		   t->is_terminating ? "t" : "");
	if (t->node != 0)
		str_printf(s, " @n%d", t->node);
	for (int i = 0; i < 2; i++)
		if (t->zone[i] != 0)
			str_printf(s, " +%c", 'a' + t->zone[i] - 1);
	if (t->hinted != 0)
		str_printf(s, " %%n%d", t->hinted);
	str_puts(s, "; ");
}

/* A random world in both forms. */
static void twin_make(struct twin_world *w, struct model *m, struct rng *rng)
{
	size_t n_slices = 1 + rng_below(rng, 6);
	int hint_chance = (int[]){ 0, 50, 95, 100 }[rng_below(rng, 4)];
	size_t dead_chance = (size_t[]){ 0, 2, 10 }[rng_below(rng, 3)];

	*w = (struct twin_world){ .is_itp_local = rng_below(rng, 2) == 0,
				  .is_etp_local = rng_below(rng, 2) == 0,
				  .is_external = rng_below(rng, 2) == 0 };
	for (size_t i = 0; i < n_slices; i++) {
		unsigned int port = 80 + (unsigned int)rng_below(rng, 2);
		unsigned int version = (unsigned int)rng_below(rng, 3);
		struct str text = { 0 };
		char name[64];
		size_t n = rng_below(rng, 1 + MOST / n_slices);

		str_printf(&text, "version=%u | other:80 http:%u | ", version, port);
		while (n-- > 0) {
			struct twin *t = &w->v[w->n++];

			*t = (struct twin){
				.addr = 1 + (unsigned int)rng_below(rng, 15),
				.port = port,
				.version = version,
				.is_ready = rng_below(rng, 10) >= dead_chance,
				.is_serving = rng_below(rng, 3) != 0,
				.is_terminating = rng_below(rng, 3) == 0,
			};
			twin_dress(t, hint_chance);
			twin_text(&text, t);
		}
		(void)snprintf(name, sizeof(name), "shop/web-%zu-%zu", rng_below(rng, 1000), i);
		model_put_slice(m, test_slice(name, "web", str_text(&text)), 1);
		str_fini(&text);
	}
}

static const struct twin *twin_find(const struct twin_world *w, const struct endpoint *e)
{
	for (size_t i = 0; i < w->n; i++)
		if (!w->v[i].is_lost && w->v[i].addr == e->addr.bytes[3] && w->v[i].port == e->port)
			return &w->v[i];
	return NULL;
}

static void twin_compare(const struct twin_world *w, const struct model *m)
{
	struct selection s;
	size_t n = 0;

	select_endpoints(&s, m, model_find_text(m, "shop", "web"), 0, IPFAM_V4);
	vec_for_each (e, &s.endpoints) {
		const struct twin *t = twin_find(w, e);

		if (t == NULL) {
			fail_msg("endpoint %u:%u is in no slice", e->addr.bytes[3], e->port);
			return;
		}
		assert_int_equal(e->cluster == EXCLUSION_NONE, t->in_cluster);
		assert_int_equal(e->local == EXCLUSION_NONE, t->in_local);
		assert_int_equal((e->flags & ENDPOINT_READY) != 0, t->is_ready);
		assert_int_equal((e->flags & ENDPOINT_SERVING) != 0, t->is_serving);
		assert_int_equal((e->flags & ENDPOINT_TERMINATING) != 0, t->is_terminating);
		assert_int_equal(e->is_local, t->node == 1);
		if (e > s.endpoints.v) {
			int r = ip_addr_cmp(&e[-1].addr, &e->addr);

			assert_true(r < 0 || (r == 0 && e[-1].port < e->port));
		}
	}
	for (size_t i = 0; i < w->n; i++)
		n += !w->v[i].is_lost;
	assert_int_equal(s.endpoints.n, n);
	assert_int_equal(s.topology, w->topology);
	assert_int_equal(s.has_any, w->has_any);
	selection_fini(&s);
}

static void test_property(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < WORLDS; seed++) {
		struct rng rng = { seed };
		struct twin_world w;
		struct model m;
		char text[128];

		model_init(&m);
		m.config.node_name = name_get_str("n1");
		model_configured(&m);
		model_put_node(&m, test_node("n1", "zone=a"), 1);
		twin_make(&w, &m, &rng);
		(void)snprintf(text, sizeof(text),
			       "type=NodePort ip=10.96.0.1 port=http:80%s %s %s",
			       w.is_external ? ":30080" : "", w.is_itp_local ? "itp" : "",
			       w.is_etp_local ? "etp" : "");
		model_put_service(&m, test_service("shop/web", text), 1);
		twin_classify(&w);
		twin_compare(&w, &m);
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_property),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
