/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/serve_world - a model, a plan, a plane of arrays and a sync, and JSON to ask.
 *
 *     at(json, "ports.0.families.0.endpoints.1.pod")
 */
#pragma once

#include <jansson.h>

#include "../sync_steps.h"
#include "mock_plane.h"
#include "objects.h"
#include "state/context.h"

#define T0 (1000 * NSEC_PER_SEC)

struct serve_world {
	struct model m;
	struct plan p;
	struct mock_plane k;
	struct sync *s;
	struct serve_context ctx;
};

/* Node n1 in zone a, addresses 192.0.2.1 and 2001:db8::1; pods are 10.0.0.0/8. */
static inline void serve_world_init(struct serve_world *w)
{
	static const struct sync_config config = { 0 };
	struct ip_addr addrs[2] = { test_addr("192.0.2.1"), test_addr("2001:db8::1") };

	*w = (struct serve_world){ 0 };
	mock_init(&w->k);
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.detect_local = DETECT_LOCAL_CLUSTER_CIDR;
	*vec_push(&w->m.config.cluster_cidrs) = test_prefix("10.0.0.0/8");
	model_configured(&w->m);
	model_put_host_addrs(&w->m, addrs, 2, 0, T0);
	model_put_node(&w->m, test_node("n1", "zone=a addr=192.0.2.1 addr=2001:db8::1"), T0);
	plan_init(&w->p, &w->m, &mock_plane_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, &config);
	w->ctx = (struct serve_context){
		.model = &w->m,
		.plan = &w->p,
		.sync = w->s,
		.plane = &w->k.plane,
		.counting = PLANE_COUNT_ENDPOINTS,
		.started_ns = T0,
	};
}

static inline void serve_world_fini(struct serve_world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	model_fini(&w->m);
	mock_fini(&w->k);
	json_decref(w->ctx.options);
	assert_int_equal(name_count(), 0);
}

static inline void put_service(struct serve_world *w, const char *name, const char *text)
{
	model_put_service(&w->m, test_service(name, text), T0);
}

static inline void put_slice(struct serve_world *w, const char *name, const char *service,
			     const char *text)
{
	model_put_slice(&w->m, test_slice(name, service, text), T0);
}

static inline void del_service(struct serve_world *w, const char *ns, const char *name)
{
	const struct name *n[2] = { name_get_str(ns), name_get_str(name) };

	model_del_service(&w->m, n[0], n[1], T0);
	name_unref(n[0]);
	name_unref(n[1]);
}

static inline void sync_all(struct serve_world *w)
{
	sync_sources_ready(w->s);
	sync_settle(w->s, T0);
}

/* The value at a path of member names and indices; the test fails if it is missing. */
static inline json_t *at(json_t *json, const char *path)
{
	char *copy = strdup(path);
	char *rest = copy;
	char *word;

	while ((word = strsep(&rest, ".")) != NULL) {
		if (json_is_array(json))
			json = json_array_get(json, (size_t)atoi(word));
		else
			json = json_object_get(json, word);
		if (json == NULL)
			print_error("nothing at '%s' of '%s'\n", word, path);
		assert_non_null(json);
	}
	free(copy);
	return json;
}

static inline const char *text_at(json_t *json, const char *path)
{
	json_t *v = at(json, path);

	return json_is_null(v) ? "null" : json_string_value(v);
}

static inline long long int_at(json_t *json, const char *path)
{
	json_t *v = at(json, path);

	assert_true(json_is_integer(v) || json_is_boolean(v));
	return json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
}

static inline size_t len_at(json_t *json, const char *path)
{
	return json_array_size(at(json, path));
}

static inline json_t *json_of(const char *text, size_t len)
{
	json_error_t e;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);

	if (json == NULL)
		print_error("%s at %d:\n%.2000s\n", e.text, e.position, text);
	assert_non_null(json);
	return json;
}
