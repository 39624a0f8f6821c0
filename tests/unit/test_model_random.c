/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random histories of a small cluster. After every event: a service whose result (fields and
 * selection) differs from its last clean one is dirty; an event without a change marks nothing
 * (IN-13, IN-32); the tables equal a flat list of objects.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "model/select.h"
#include "objects.h"

#define SERVICES 4
#define SLICES 8
#define EVENTS 400
#define HISTORIES 60

/* Expected objects: the texts put last; empty: no object. */
struct twin {
	char service[SERVICES][128];
	char slice[SLICES][256];
	size_t slice_of[SLICES];  /* index of the service */
	uint64_t clean[SERVICES]; /* fingerprint when last clean; 0 = nothing programmed */
};

/* --- fingerprint: all that the kernel's state of a service follows from ------------------ */

static void add_selection(struct str *s, const struct model *m, const struct svc *svc, size_t port,
			  enum ipfam fam)
{
	struct selection sel;

	select_endpoints(&sel, m, svc, port, fam);
	str_printf(s, "any=%d ", sel.has_any);
	vec_for_each (e, &sel.endpoints) {
		char text[IP_ENDPOINT_TEXT_MAX];

		if (e->cluster == EXCLUSION_NONE || e->local == EXCLUSION_NONE)
			str_printf(s, "%s/%d%d ", ip_endpoint_text(&e->addr, e->port, text),
				   e->cluster == EXCLUSION_NONE, e->local == EXCLUSION_NONE);
	}
	selection_fini(&sel);
}

static void add_nodeports(struct str *s, const struct model *m, const struct service *service)
{
	vec_for_each (p, &service->ports) {
		if (p->node_port == 0)
			continue;
		vec_for_each (a, &m->env.nodeport_addrs) {
			char text[IP_ENDPOINT_TEXT_MAX];

			str_printf(s, "np=%s ", ip_endpoint_text(a, p->node_port, text));
		}
	}
}

static uint64_t fingerprint(const struct model *m, const struct svc *svc)
{
	const struct service *service = svc != NULL ? svc->service : NULL;
	struct str s = { 0 };
	uint64_t hash;

	if (service == NULL || service_skip_reason(service) != NULL)
		return 0;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		char text[IP_TEXT_MAX];

		if (!service_has_family(service, (enum ipfam)fam))
			continue;
		str_printf(&s, "ip=%s ", ip_addr_text(&service->cluster_ip[fam], text));
		for (size_t i = 0; i < service->ports.n; i++) {
			str_printf(&s, "port=%u ", service->ports.v[i].port);
			add_selection(&s, m, svc, i, (enum ipfam)fam);
		}
	}
	add_nodeports(&s, m, service);
	hash = hash_bytes_fixed(s.text, s.len, 1, 2) | 1;
	str_fini(&s);
	return hash;
}

/* --- events --------------------------------------------------------------------------------- */

static struct svc *service_at(const struct model *m, size_t i)
{
	char name[8];

	(void)snprintf(name, sizeof(name), "s%zu", i);
	return model_find_text(m, "default", name);
}

static void random_service(char *text, size_t size, struct rng *rng)
{
	static const char *const types[] = { "ClusterIP", "NodePort", "ExternalName" };
	bool is_node_port = rng_below(rng, 3) == 0;

	(void)snprintf(text, size, "type=%s %s%s port=a:80%s %s%s%s", types[rng_below(rng, 3)],
		       rng_below(rng, 8) ? "ip=10.96.0.1 " : "headless ",
		       rng_below(rng, 3) ? "" : "ip=fd00:1::1 ", is_node_port ? ":30080" : "",
		       rng_below(rng, 3) ? "" : "port=b:81 ", rng_below(rng, 3) ? "" : "itp ",
		       rng_below(rng, 3) ? "" : "etp ");
}

static void random_slice(char *text, size_t size, struct rng *rng)
{
	struct str s = { 0 };
	size_t n = rng_below(rng, 4);

	str_printf(&s, "%sversion=%zu | a:%zu %s | ", rng_below(rng, 4) ? "" : "v6 ",
		   rng_below(rng, 9), 80 + rng_below(rng, 2), rng_below(rng, 2) ? "b:81" : "");
	while (n-- > 0)
		str_printf(&s, "%zu %s%s%s @n%zu%s%s; ", 1 + rng_below(rng, 5),
			   rng_below(rng, 4) ? "r" : "", rng_below(rng, 3) ? "s" : "",
			   rng_below(rng, 3) ? "" : "t", 1 + rng_below(rng, 2),
			   rng_below(rng, 2) ? " +a" : "", rng_below(rng, 3) ? "" : " +b");
	(void)snprintf(text, size, "%s", str_text(&s));
	str_fini(&s);
}

static int put_service(struct model *m, struct twin *t, size_t i)
{
	char name[8];

	(void)snprintf(name, sizeof(name), "s%zu", i);
	return model_put_service(m, test_service(name, t->service[i]), 1);
}

static int put_slice(struct model *m, struct twin *t, size_t i)
{
	char name[8];
	char service[8];

	(void)snprintf(name, sizeof(name), "e%zu", i);
	(void)snprintf(service, sizeof(service), "s%zu", t->slice_of[i]);
	return model_put_slice(m, test_slice(name, service, t->slice[i]), 1);
}

static int del(struct model *m, char kind, size_t i)
{
	char text[8];
	const struct name *ns = name_get_str("default");
	const struct name *name;
	int r;

	(void)snprintf(text, sizeof(text), "%c%zu", kind, i);
	name = name_get_str(text);
	r = kind == 's' ? model_del_service(m, ns, name, 1) : model_del_slice(m, ns, name, 1);
	name_unref(ns);
	name_unref(name);
	return r;
}

static size_t count_dirty(const struct model *m)
{
	size_t n = 0;

	list_for_each (l, &m->dirty)
		n++;
	return n;
}

/* Put a known object again: no effect. */
static void event_again(struct model *m, struct twin *t, struct rng *rng)
{
	size_t i = rng_below(rng, SERVICES);
	size_t k = rng_below(rng, SLICES);
	size_t dirty = count_dirty(m);

	if (t->service[i][0] != '\0')
		assert_int_equal(put_service(m, t, i), 0);
	else
		assert_int_equal(del(m, 's', i), 0);
	if (t->slice[k][0] != '\0')
		assert_int_equal(put_slice(m, t, k), 0);
	else
		assert_int_equal(del(m, 'e', k), 0);
	assert_int_equal(count_dirty(m), dirty);
}

/* Some of the pending services are synced. */
static void event_sync(struct model *m, struct twin *t, struct rng *rng)
{
	for (size_t i = 0; i < SERVICES; i++) {
		struct svc *svc = service_at(m, i);

		if (svc == NULL || !list_is_linked(&svc->dirty) || rng_below(rng, 3) == 0)
			continue;
		t->clean[i] = fingerprint(m, svc);
		/* As the plan does: rows exist, so the entry stays. */
		svc->rows = t->clean[i] != 0 ? &t->clean[i] : NULL;
		model_clean(m, svc);
	}
}

static void event_node(struct model *m, struct rng *rng)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "zone=%c addr=10.0.0.%zu",
		       (char)('a' + rng_below(rng, 3)), 1 + rng_below(rng, 2));
	model_put_node(m, test_node("n1", text), 1);
}

static void event(struct model *m, struct twin *t, struct rng *rng)
{
	size_t i = rng_below(rng, SERVICES);
	size_t k = rng_below(rng, SLICES);

	switch (rng_below(rng, 10)) {
	case 0:
		t->service[i][0] = '\0';
		del(m, 's', i);
		break;
	case 1:
	case 2:
		random_service(t->service[i], sizeof(t->service[i]), rng);
		put_service(m, t, i);
		break;
	case 3:
		t->slice[k][0] = '\0';
		del(m, 'e', k);
		break;
	case 4:
		if (t->slice[k][0] == '\0')
			break;
		t->slice_of[k] = i; /* IN-36 */
		put_slice(m, t, k);
		break;
	case 5:
		event_node(m, rng);
		break;
	case 6:
		event_again(m, t, rng);
		break;
	case 7:
		event_sync(m, t, rng);
		break;
	default:
		random_slice(t->slice[k], sizeof(t->slice[k]), rng);
		t->slice_of[k] = i;
		put_slice(m, t, k);
		break;
	}
}

/* --- what must hold --------------------------------------------------------------------------- */

static void check_tables(const struct model *m, const struct twin *t)
{
	size_t services = 0;
	size_t slices = 0;

	for (size_t i = 0; i < SERVICES; i++) {
		const struct svc *svc = service_at(m, i);
		size_t n = 0;

		for (size_t k = 0; k < SLICES; k++)
			n += t->slice[k][0] != '\0' && t->slice_of[k] == i;
		services += t->service[i][0] != '\0';
		slices += n;
		if (svc == NULL) {
			assert_int_equal(n, 0);
			assert_string_equal(t->service[i], "");
			continue;
		}
		assert_int_equal(svc->n_slices, n);
		assert_int_equal(svc->service != NULL, t->service[i][0] != '\0');
		assert_true(n > 0 || svc->service != NULL || svc->rows != NULL ||
			    list_is_linked(&svc->dirty));
		list_for_each (l, &svc->slices)
			n--;
		assert_int_equal(n, 0);
	}
	assert_int_equal(m->stats.services, services);
	assert_int_equal(m->stats.slices, slices);
	assert_int_equal(m->slices.count, slices);
}

static void check_dirty(const struct model *m, const struct twin *t)
{
	for (size_t i = 0; i < SERVICES; i++) {
		const struct svc *svc = service_at(m, i);

		if (svc != NULL && list_is_linked(&svc->dirty))
			continue;
		assert_true(fingerprint(m, svc) == t->clean[i]);
	}
}

static void test_history(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < HISTORIES; seed++) {
		struct rng rng = { seed };
		struct twin t = { 0 };
		struct model m;

		model_init(&m);
		m.config.node_name = name_get_str("n1");
		model_configured(&m);
		for (int i = 0; i < EVENTS; i++) {
			event(&m, &t, &rng);
			check_tables(&m, &t);
			check_dirty(&m, &t);
		}
		for (size_t i = 0; i < SERVICES; i++)
			if (service_at(&m, i) != NULL)
				service_at(&m, i)->rows = NULL;
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
