/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/ipvs_world - model, plan, sync and ipvs plane over fakes of nf_tables, IPVS and
 * policy routing.
 */
#pragma once

#include "base/name.h"
#include "fake/fake.h"
#include "fake/ipvs.h"
#include "nft/decode.h"
#include "objects.h"
#include "plane/ipvs/state.h"
#include "sync/sync.h"
#include "test.h"

#define STEPS_MAX 20000

static enum plane_counting counting; /* for worlds opened from now on */
static uint32_t clock_s;

static inline uint32_t clock_now(void)
{
	return clock_s;
}

struct world {
	struct fake *nft;
	struct fake_ipvs *ipvs;
	struct ipvs_config config;
	struct model m;
	struct plan p;
	struct plane *plane;
	struct sync *s;
	uint64_t now;
};

static inline void life_begin(struct world *w)
{
	struct sync_config config = { 0 };
	struct ipvs_socks socks = { .nft = fake_connect(w->nft),
				    .query = fake_connect(w->nft),
				    .genl = fake_ipvs_connect(w->ipvs),
				    .route = fake_ipvs_connect_route(w->ipvs),
				    .large = fake_ipvs_connect(w->ipvs) };

	w->config.now_s = clock_now;
	assert_int_equal(ipvs_plane_open(&w->plane, &socks, &w->config, NULL), 0);
	plan_init(&w->p, &w->m, &w->plane->ops->traits);
	sync_open(&w->s, &w->m, &w->p, w->plane, &config);
	sync_sources_ready(w->s);
}

static inline void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->plane->ops->close(w->plane);
}

/* A pod that reaches itself through its Service is recognised from the first connection on. */
static inline void expect_hairpin(void *arg, const struct ip_addr *addr)
{
	const struct world *w = arg;
	uint8_t key[NFT_KEY_MAX];

	nft_key_addr_pair(key, addr);
	assert_true(fake_find(w->nft, ip_fam(addr), IPVSSET_HAIRPINS, key) != NULL);
}

static inline void world_open(struct world *w)
{
	struct ip_addr addrs[] = { test_addr("192.168.0.1"), test_addr("fd01::1") };

	*w = (struct world){ .now = NSEC_PER_SEC,
			     .config = { .drain_s = 60, .counting = counting } };
	clock_s = 1000000;
	fake_open(&w->nft);
	fake_ipvs_open(&w->ipvs);
	fake_ipvs_adding(w->ipvs, expect_hairpin, w);
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.detect_local = DETECT_LOCAL_NODE_CIDR;
	w->m.config.has_nodeport_cidrs = true;
	*vec_push(&w->m.config.nodeport_cidrs) = test_prefix("192.168.0.0/24");
	*vec_push(&w->m.config.service_cidrs) = test_prefix("10.96.0.0/12");
	model_configured(&w->m);
	model_put_node(&w->m, test_node("n1", "addr=192.168.0.1 pods=10.0.0.0/16"), 1);
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	life_begin(w);
}

static inline void world_close(struct world *w)
{
	life_end(w);
	model_fini(&w->m);
	fake_ipvs_close(w->ipvs);
	fake_close(w->nft);
}

static inline size_t settle_until(struct world *w, bool may_refuse)
{
	uint64_t before = sync_stats_get(w->s)->writes;

	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t next = sync_step(w->s, w->now);

		if (next == SYNC_NOW)
			continue;
		if (sync_state_get(w->s) == SYNC_RUNNING && list_is_empty(&w->m.dirty) &&
		    (may_refuse || sync_failure_count(w->s) == 0))
			return (size_t)(sync_stats_get(w->s)->writes - before);
		w->now = next;
	}
	fail_msg("no rest: %s", sync_stats_get(w->s)->last_error);
	return 0;
}

static inline size_t settle(struct world *w)
{
	return settle_until(w, false);
}

static inline size_t restart(struct world *w)
{
	life_end(w);
	htable_for_each (n, &w->m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	life_begin(w);
	return settle(w);
}

static inline void service(struct world *w, const char *name, const char *text)
{
	model_put_service(&w->m, test_service(name, text), 1);
}

static inline void slice(struct world *w, const char *name, const char *of, const char *text)
{
	model_put_slice(&w->m, test_slice(name, of, text), 1);
}

/* Service `no` with `n` endpoints from the k-th on: 10.NO.0.0, 10.NO.0.1, ... */
static inline void endpoints_of(struct world *w, int no, int k, int n)
{
	struct str text = { 0 };
	char name[32];
	char of[32];

	str_puts(&text, "| http:8080 | ");
	for (; n > 0; k++, n--)
		str_printf(&text, "10.%d.%d.%d rs; ", no, k / 250, k % 250);
	(void)snprintf(name, sizeof(name), "shop/s%d-1", no);
	(void)snprintf(of, sizeof(of), "s%d", no);
	slice(w, name, of, str_text(&text));
	str_fini(&text);
}

static inline void service_of(struct world *w, int no, int n)
{
	char name[32];
	char text[64];

	(void)snprintf(name, sizeof(name), "shop/s%d", no);
	(void)snprintf(text, sizeof(text), "ip=10.96.0.%d port=http:80", no);
	service(w, name, text);
	endpoints_of(w, no, 0, n);
}

static inline void no_service(struct world *w, const char *ns, const char *name)
{
	const struct name *n = name_get_str(ns);
	const struct name *m = name_get_str(name);

	model_del_service(&w->m, n, m, 1);
	name_unref(n);
	name_unref(m);
}

struct ipvs_plane_stats {
	size_t n_dests; /* in the kernel */
	size_t n_draining;
};

static inline struct ipvs_plane_stats ipvs_plane_stats(struct plane *plane)
{
	struct ipvs_plane_stats s = { 0 };

	htable_for_each_entry (vs, &ipvs_plane_of(plane)->vss, const struct ipvs_vs) {
		vec_for_each (d, &vs->dests) {
			s.n_dests += (d->flags & DST_PROGRAMMED) != 0;
			s.n_draining += (d->flags & DST_DRAINING) != 0;
		}
	}
	return s;
}

static inline void expect_ipvs(const struct world *w, const char *want)
{
	struct str text = { 0 };

	fake_ipvs_print(w->ipvs, &text);
	assert_string_equal(str_text(&text), want);
	str_fini(&text);
}

/* A restart in any state writes nothing. */
static inline void expect_adopted(struct world *w)
{
	fake_ipvs_writes_reset(w->ipvs);
	fake_count_reset(w->nft);
	assert_int_equal(restart(w), 0);
	assert_int_equal(fake_ipvs_writes(w->ipvs), 0);
	assert_int_equal(fake_count(w->nft).n_batches, 0);
}

/* The mark of a frontend; 0: no such element. */
static inline uint32_t mark_in(const struct world *w, enum nft_set_id set, const char *addr,
			       uint16_t port, uint8_t proto)
{
	struct ip_addr a = test_addr(addr);
	uint8_t key[NFT_KEY_MAX];
	const uint8_t *data;

	nft_key_tuple(key, &a, proto, port);
	data = fake_find(w->nft, ip_fam(&a), set, key);
	return data != NULL ? nft_get_word(data) : 0;
}

static inline uint32_t mark_of(const struct world *w, const char *addr, uint16_t port)
{
	return mark_in(w, IPVSSET_FE, addr, port, L4PROTO_TCP);
}

/* Advance the clock by seconds and call tick(). */
static inline void pass(struct world *w, uint32_t seconds)
{
	for (uint32_t i = 0; i < seconds; i++) {
		clock_s++;
		w->now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
		(void)w->plane->ops->tick(w->plane, w->now);
	}
}
