/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists into a filled model, deletion of objects that a list lacks, invalid objects. */
#include "source/kube/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "quoted.h"

struct world {
	struct model m;
	struct ledger l;
};

static void world_init(struct world *w, enum object_kind kind)
{
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	model_configured(&w->m);
	ledger_init(&w->l, &w->m, kind);
}

static void world_fini(struct world *w)
{
	size_t n;
	struct svc **all = model_sorted(&w->m, &n);

	for (size_t i = 0; i < n; i++)
		model_clean(&w->m, all[i]);
	free(all);
	ledger_fini(&w->l);
	model_fini(&w->m);
	assert_int_equal(name_count(), 0);
}

static int put_in(struct ledger *l, json_t *obj)
{
	int r = ledger_put(l, obj, 1);

	json_decref(obj);
	return r;
}

static int put(struct world *w, json_t *obj)
{
	return put_in(&w->l, obj);
}

static int del(struct world *w, json_t *obj)
{
	int r = ledger_del(&w->l, obj, 1);

	json_decref(obj);
	return r;
}

static json_t *service(const char *name, int port)
{
	return json_of(
		"{'metadata':{'name':'%s','namespace':'shop'},'spec':{'clusterIP':'10.0.0.1',"
		"'ports':[{'port':%d}]}}",
		name, port);
}

/* Names of the Services in the model. */
static const char *names(const struct world *w)
{
	static char text[256];
	size_t n;
	struct svc **all = model_sorted(&w->m, &n);

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (all[i]->service != NULL) {
			strcat(text, text[0] != '\0' ? " " : "");
			strcat(text, all[i]->name->text);
		}
	free(all);
	return text;
}

/* IN-12: objects that a later list lacks are deleted, the others stay unchanged. */
static void test_sweep(void **state)
{
	struct world w;

	world_init(&w, OBJECT_KIND_SERVICE);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 80)), 1);
	assert_int_equal(put(&w, service("b", 80)), 1);
	assert_int_equal(put(&w, service("c", 80)), 1);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_string_equal(names(&w), "a b c");
	assert_int_equal(w.l.keys.count, 0); /* memory only for objects with a remark */

	/* Equal objects are no change (IN-13), a watch adds d. */
	assert_int_equal(put(&w, service("a", 80)), 0);
	assert_int_equal(put(&w, service("d", 80)), 1);
	assert_int_equal(ledger_objects(&w.l), 4);

	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 80)), 0);
	assert_int_equal(put(&w, service("c", 81)), 1);
	assert_string_equal(names(&w), "a b c d"); /* nothing before the list is complete */
	assert_int_equal(ledger_list_end(&w.l, 1), 2);
	assert_string_equal(names(&w), "a c");
	assert_int_equal(ledger_objects(&w.l), 2);

	/* An incomplete list deletes nothing; the next list starts from the beginning. */
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 80)), 0);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("c", 81)), 0);
	assert_int_equal(ledger_list_end(&w.l, 1), 1);
	assert_string_equal(names(&w), "c");

	assert_int_equal(del(&w, service("c", 81)), 1);
	assert_int_equal(del(&w, service("c", 81)), 0);
	assert_int_equal(ledger_objects(&w.l), 0);
	world_fini(&w);
}

/* The last good version stays, also through lists, until the object is deleted. */
static void test_rejected(void **state)
{
	struct world w;

	world_init(&w, OBJECT_KIND_SERVICE);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 80)), 1);
	assert_int_equal(put(&w, service("new", 70000)), 0);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_int_equal(put(&w, service("a", 70000)), 0);
	assert_string_equal(names(&w), "a");
	assert_int_equal(w.l.n_rejected, 2);
	assert_int_equal(w.l.remarks.n, 2);
	assert_int_equal(w.l.keys.count, 2);
	assert_int_equal(ledger_objects(&w.l), 2);
	assert_string_equal(w.l.remarks.v[1]->text,
			    "spec.ports[0].port: 70000 is not a number from 1 to 65535");
	assert_true(w.l.remarks.v[1]->is_rejected);

	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 70000)), 0);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_string_equal(names(&w), "a");
	assert_int_equal(w.l.n_rejected, 1); /* the other one was deleted on the server */
	assert_int_equal(ledger_objects(&w.l), 1);

	assert_int_equal(put(&w, service("a", 80)), 0); /* valid again, unchanged */
	assert_int_equal(w.l.n_rejected, 0);
	assert_int_equal(w.l.remarks.n, 0);
	assert_int_equal(w.l.keys.count, 0);
	assert_int_equal(put(&w, service("a", 70000)), 0);
	assert_int_equal(del(&w, service("a", 70000)), 1);
	assert_int_equal(w.l.n_rejected, 0);
	assert_string_equal(names(&w), "");
	world_fini(&w);
}

/* Logged once, not with every event. */
static void test_logged_once(void **state)
{
	struct world w;
	uint64_t before;

	world_init(&w, OBJECT_KIND_SERVICE);
	before = log_count(LOG_LEVEL_WARN);
	for (int i = 0; i < 5; i++)
		(void)put(&w, service("a", 70000));
	assert_int_equal(log_count(LOG_LEVEL_WARN) - before, 1);
	(void)put(&w, service("a", 70001)); /* other words */
	assert_int_equal(log_count(LOG_LEVEL_WARN) - before, 2);
	(void)put(&w, service("a", 80));
	(void)put(&w, service("a", 70001)); /* it was valid in between */
	assert_int_equal(log_count(LOG_LEVEL_WARN) - before, 3);
	world_fini(&w);
}

/* More invalid objects than texts kept: all are counted. */
static void test_many_rejected(void **state)
{
	struct world w;
	char name[32];
	size_t n = LEDGER_REMARKS_MAX + 10;

	world_init(&w, OBJECT_KIND_SERVICE);
	ledger_list_begin(&w.l);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "s%zu", i);
		(void)put(&w, service(name, 70000));
		(void)put(&w, service(name, 70000));
	}
	(void)ledger_list_end(&w.l, 1);
	assert_int_equal(w.l.n_rejected, n);
	assert_int_equal(w.l.n_remarked, n);
	assert_int_equal(w.l.remarks.n, LEDGER_REMARKS_MAX);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "s%zu", i);
		(void)put(&w, service(name, 80));
	}
	assert_int_equal(w.l.n_rejected, 0);
	assert_int_equal(w.l.n_remarked, 0);
	assert_int_equal(w.l.remarks.n, 0);
	world_fini(&w);
}

/* The text of a rejection takes the place of one that only says what was skipped. */
static void test_rejection_among_notes(void **state)
{
	struct world w;
	char name[32];
	size_t n_rejections = 0;

	(void)state;
	world_init(&w, OBJECT_KIND_SERVICE);
	for (size_t i = 0; i < LEDGER_REMARKS_MAX + 10; i++) {
		json_t *o;

		(void)snprintf(name, sizeof(name), "s%zu", i);
		o = service(name, 80);
		json_object_set_new(json_object_get(o, "spec"), "externalIPs",
				    json_pack("[s]", "239.1.1.1"));
		(void)put(&w, o);
	}
	(void)put(&w, service("bad", 70000));
	assert_int_equal(w.l.n_rejected, 1);
	assert_int_equal(w.l.n_remarked, LEDGER_REMARKS_MAX + 11);
	assert_int_equal(w.l.remarks.n, LEDGER_REMARKS_MAX);
	vec_for_each (k, &w.l.remarks)
		n_rejections += (*k)->is_rejected && (*k)->text != NULL;
	assert_int_equal(n_rejections, 1);
	world_fini(&w);
}

/* An entry without a name may be any object: the list deletes nothing. */
static void test_unreadable(void **state)
{
	struct world w;
	json_t *identity = service("b", 80);

	world_init(&w, OBJECT_KIND_SERVICE);
	ledger_list_begin(&w.l);
	(void)put(&w, service("a", 80));
	(void)put(&w, service("b", 80));
	(void)ledger_list_end(&w.l, 1);

	ledger_list_begin(&w.l);
	ledger_unreadable(&w.l, NULL, "larger than 8 MiB, the limit of an object");
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_string_equal(names(&w), "a b");
	assert_int_equal(w.l.n_unreadable, 1);

	/* With a name: the object stays in its last version. */
	ledger_list_begin(&w.l);
	ledger_unreadable(&w.l, identity, "larger than 8 MiB, the limit of an object");
	assert_int_equal(ledger_list_end(&w.l, 1), 1);
	assert_string_equal(names(&w), "b");
	assert_int_equal(w.l.n_rejected, 1);
	assert_string_equal(w.l.remarks.v[0]->text, "larger than 8 MiB, the limit of an object");

	/* An object that has no name at all. */
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, json_of("{'metadata':{}}")), 0);
	assert_int_equal(del(&w, json_of("{'metadata':{}}")), 0);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_int_equal(w.l.n_unreadable, 3);
	json_decref(identity);
	world_fini(&w);
}

static json_t *slice(const char *name, const char *service_name, const char *type)
{
	return json_of(
		"{'metadata':{'name':'%s','namespace':'shop','labels':{%s}},'addressType':"
		"'%s','ports':[{'name':'','port':80}],'endpoints':[{'addresses':['10.1.0.1']}]}",
		name, service_name, type);
}

/* IN-04, IN-34, EPS-01: valid and not for vipd; its earlier version is removed. */
static void test_ignored(void **state)
{
	struct ledger other;
	struct world w;

	world_init(&w, OBJECT_KIND_SLICE);
	ledger_init(&other, &w.m, OBJECT_KIND_SERVICE);
	assert_int_equal(put_in(&other, service("web", 80)), 1);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, slice("a", "'kubernetes.io/service-name':'web'", "IPv4")), 1);
	(void)ledger_list_end(&w.l, 1);
	assert_int_equal(w.m.stats.slices, 1);
	assert_int_equal(put(&w, slice("a", "", "IPv4")), 1);
	assert_int_equal(w.m.stats.slices, 0);
	assert_int_equal(ledger_objects(&w.l), 1); /* the object still exists on the server */
	assert_int_equal(w.l.n_remarked, 1);
	assert_int_equal(w.l.n_rejected, 0);
	/* Its rejected version after that does not make the list incomplete. */
	assert_int_equal(put(&w, json_of("{'metadata':{'name':'a','namespace':'shop','labels':"
					 "{'kubernetes.io/service-name':'web'}}}")),
			 0);
	assert_int_equal(w.l.n_rejected, 1);
	assert_true(ledger_is_complete(&w.l, NULL));
	assert_int_equal(put(&w, slice("a", "", "IPv4")), 0);
	assert_int_equal(put(&w, slice("a", "'kubernetes.io/service-name':'web'", "FQDN")), 0);
	assert_int_equal(put(&w, slice("a", "'kubernetes.io/service-name':'web'", "IPv4")), 1);
	assert_int_equal(w.l.n_remarked, 0);
	assert_int_equal(w.l.keys.count, 0);
	assert_int_equal(del(&w, slice("a", "", "IPv4")), 1);
	ledger_fini(&other);
	world_fini(&w);
}

/* IN-24: a deleted Node keeps its state but is not eligible (HC-08). */
static void test_node(void **state)
{
	struct world w;

	world_init(&w, OBJECT_KIND_NODE);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, json_of("{'metadata':{'name':'n1','labels':{"
					 "'topology.kubernetes.io/zone':'a'}}}")),
			 1);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_string_equal(name_text(w.m.env.zone), "a");
	ledger_list_begin(&w.l);
	assert_int_equal(ledger_list_end(&w.l, 1), 1);
	assert_string_equal(name_text(w.m.env.zone), "a");
	assert_true(w.m.self->is_deleting);
	assert_int_equal(put(&w, json_of("{'metadata':{'name':'n1'}}")), 1);
	assert_false(w.m.self->is_deleting);
	assert_int_equal(del(&w, json_of("{'metadata':{'name':'n1'}}")), 1);
	assert_true(w.m.self->is_deleting);
	world_fini(&w);
}

static json_t *cidr(const char *name, const char *range)
{
	return json_of("{'metadata':{'name':'%s'},'spec':{'cidrs':['%s']}}", name, range);
}

/* IN-12, IN-27: kube-proxy keeps a stale range here; two objects may have the same range. */
static void test_cidrs(void **state)
{
	struct world w;

	world_init(&w, OBJECT_KIND_SERVICE_CIDR);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, cidr("a", "10.96.0.0/12")), 1);
	assert_int_equal(put(&w, cidr("b", "10.96.0.0/12")), 0);
	(void)ledger_list_end(&w.l, 1);
	assert_int_equal(w.m.env.service_cidrs.n, 1);
	assert_int_equal(del(&w, cidr("a", "10.96.0.0/12")), 0);
	assert_int_equal(w.m.env.service_cidrs.n, 1);
	ledger_list_begin(&w.l);
	assert_int_equal(ledger_list_end(&w.l, 1), 1);
	assert_int_equal(w.m.env.service_cidrs.n, 0);
	world_fini(&w);
}

/* IN-19: objects with rejected versions only. */
static void test_complete(void **state)
{
	struct str why = { 0 };
	struct world w;

	world_init(&w, OBJECT_KIND_SERVICE);
	ledger_list_begin(&w.l);
	assert_int_equal(put(&w, service("a", 80)), 1);
	assert_int_equal(put(&w, service("b", 70000)), 0);
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	assert_false(ledger_is_complete(&w.l, &why));
	assert_string_equal(str_text(&why), "Service shop/b: no good version of it is known");
	assert_int_equal(put(&w, service("b", 80)), 1);
	assert_true(ledger_is_complete(&w.l, &why));
	assert_int_equal(put(&w, service("b", 70000)), 0); /* its last good version stays */
	assert_true(ledger_is_complete(&w.l, &why));
	assert_int_equal(put(&w, service("c", 70000)), 0);
	assert_int_equal(put(&w, service("c", 70001)), 0);
	assert_false(ledger_is_complete(&w.l, &why));
	assert_int_equal(del(&w, service("c", 80)), 0);
	assert_true(ledger_is_complete(&w.l, &why));

	ledger_list_begin(&w.l);
	ledger_unreadable(&w.l, NULL, "larger than 8 MiB, the limit of an object");
	assert_int_equal(ledger_list_end(&w.l, 1), 0);
	str_clear(&why);
	assert_false(ledger_is_complete(&w.l, &why));
	assert_string_equal(str_text(&why), "Service without a readable name");
	ledger_list_begin(&w.l);
	assert_int_equal(ledger_list_end(&w.l, 1), 2);
	assert_true(ledger_is_complete(&w.l, &why));
	str_fini(&why);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_rejected),
		cmocka_unit_test(test_logged_once),
		cmocka_unit_test(test_many_rejected),
		cmocka_unit_test(test_rejection_among_notes),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_cidrs),
		cmocka_unit_test(test_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
