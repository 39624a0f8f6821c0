/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay - vipd between sources and kernel: from objects to elements of a kernel in memory.
 *
 *     replay [VIPD-FLAGS ...]
 *
 * Standard input, one JSON object a line:
 *
 *     {"put": OBJECT}                     a Kubernetes object
 *     {"del": {"kind": K, "namespace": N, "name": M}}
 *     {"settle": SECONDS}                 sync for this much simulated time; then print
 *     {"restart": 1}                      kill -9: model, plan, plane are new, the kernel stays
 *     {"refuse": K} {"lose": K} {"send": K} {"interrupt": K} {"foreign": 1} {"calm": 1}
 *                                         failures, see fake/fake.h
 *
 * "settle" prints a line: {"messages": and "adds": elements written so far, "failures":
 * services rejected, "4": {SET: [[KEY, END, DATA, FLAGS], ...], ...}, "6": ...}, bytes in
 * hex, verdicts as the chain's name. Other requests print nothing.
 *
 * Used by tests/resolver/test_replay.py.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "fake/fake.h"
#include "plane/nft/plane_nft.h"
#include "settings/options.h"
#include "source/decode/decode.h"
#include "sync/sync.h"
#include "tools/replay.h"

#define HOST_ADDRS_MAX 16

struct world {
	struct fake *kernel;
	struct plane *plane;
	struct model m;
	struct plan p;
	struct sync *s;
	uint64_t now;
	int argc;
	char **argv;
	struct ip_addr host[HOST_ADDRS_MAX];
	size_t n_host;
};

static void die(const char *what, const char *why) __attribute__((noreturn));
static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "replay: %s: %s\n", what, why);
	exit(2);
}

/* ---- one run of the daemon ---- */

static void life_begin(struct world *w)
{
	static const struct sync_config config = { .audit_period_ns = 300 * NSEC_PER_SEC,
						   .check_period_ns = NSEC_PER_SEC / 4 };
	struct options o;
	struct err err;

	model_init(&w->m);
	if (options_parse(&o, w->argc, w->argv, &err) < 0)
		die("flags", err.text);
	w->m.config = o.model;
	w->m.config.node_name = name_get_str(o.hostname);
	model_configured(&w->m);
	model_put_host_addrs(&w->m, w->host, w->n_host, 0, w->now);
	nft_plane_open(&w->plane, fake_connect(w->kernel), fake_connect(w->kernel));
	nft_plane_walk_with(w->plane, fake_connect(w->kernel));
	plan_init(&w->p, &w->m, &w->plane->ops->traits);
	sync_open(&w->s, &w->m, &w->p, w->plane, &config);
}

static void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->plane->ops->close(w->plane);
	model_fini(&w->m);
}

/* ---- objects ---- */

static void del(struct world *w, const char *kind, const struct name *ns, const struct name *name)
{
	if (strcmp(kind, "Service") == 0)
		model_del(&w->m, OBJECT_KIND_SERVICE, ns, name, w->now);
	else if (strcmp(kind, "EndpointSlice") == 0)
		model_del(&w->m, OBJECT_KIND_SLICE, ns, name, w->now);
	else if (strcmp(kind, "ServiceCIDR") == 0)
		model_del(&w->m, OBJECT_KIND_SERVICE_CIDR, NULL, name, w->now);
	else
		die("del", "unknown kind");
}

static void on_del(struct world *w, json_t *what)
{
	const char *kind;
	const char *ns;
	const char *name;
	const struct name *n;
	const struct name *m;

	if (json_unpack(what, "{s:s, s:s, s:s}", "kind", &kind, "namespace", &ns, "name", &name) <
	    0)
		die("del", "kind, namespace and name are required");
	n = name_get_str(ns);
	m = name_get_str(name);
	del(w, kind, n, m);
	name_unref(n);
	name_unref(m);
}

static void on_put(struct world *w, json_t *what)
{
	struct decode d = { .default_ns = "default" };
	enum object_kind kind;
	enum object_kind items;
	struct object o = { 0 };
	struct err err;
	int r = decode_kind(&kind, &items, what, &d, &err);

	if (r == 0)
		r = decode_object(&o, kind, what, &d, &err);
	if (r < 0)
		die("put", err.text);
	if (r == DECODE_IGNORED) { /* remove the earlier version */
		const struct name *ns = NULL;
		const struct name *name = NULL;

		if (decode_key(&ns, &name, kind, what, &d, &err) == 0)
			del(w, object_kind_text(kind), ns, name);
		name_unref(ns);
		name_unref(name);
	} else {
		model_put(&w->m, &o, w->now);
	}
	object_fini(&o);
}

/* ---- time ---- */

static void on_settle(struct world *w, uint64_t seconds)
{
	sync_sources_ready(w->s);
	for (uint64_t i = 0; i < MAX(seconds, UINT64_C(1)) * 2; i++) {
		sync_settle(w->s, w->now);
		w->now += NSEC_PER_SEC / 2;
	}
	(void)printf("{\"messages\": %zu, \"adds\": %zu, \"failures\": %zu, ",
		     fake_count(w->kernel).n_messages, fake_count(w->kernel).n_adds,
		     sync_failure_count(w->s));
	replay_print(w->kernel, IPFAM_V4);
	(void)printf(", ");
	replay_print(w->kernel, IPFAM_V6);
	(void)printf("}\n");
	(void)fflush(stdout);
}

/* ---- the script ---- */

static void command(struct world *w, const char *name, json_t *value)
{
	size_t k = (size_t)json_integer_value(value);

	if (strcmp(name, "put") == 0) {
		on_put(w, value);
	} else if (strcmp(name, "del") == 0) {
		on_del(w, value);
	} else if (strcmp(name, "settle") == 0) {
		on_settle(w, k);
	} else if (strcmp(name, "restart") == 0) {
		life_end(w);
		life_begin(w);
	} else if (strcmp(name, "refuse") == 0) {
		fake_refuse(w->kernel, k, ENOMEM);
	} else if (strcmp(name, "lose") == 0) {
		fake_lose_answer(w->kernel, k);
	} else if (strcmp(name, "send") == 0) {
		fake_fail_send(w->kernel, k, ENOBUFS);
	} else if (strcmp(name, "interrupt") == 0) {
		fake_interrupt_dump(w->kernel, k, false);
	} else if (strcmp(name, "foreign") == 0) {
		fake_foreign_commit(w->kernel);
	} else if (strcmp(name, "calm") == 0) {
		fake_calm(w->kernel);
	} else {
		die("unknown command", name);
	}
}

/* Remove --host-address=ADDRESS, which is not a flag of vipd, from the list. */
static void host_addresses(struct world *w)
{
	static const char flag[] = "--host-address=";
	int kept = 0;

	for (int i = 0; i < w->argc; i++) {
		if (strncmp(w->argv[i], flag, sizeof(flag) - 1) != 0) {
			w->argv[kept++] = w->argv[i];
			continue;
		}
		if (w->n_host == HOST_ADDRS_MAX ||
		    ip_addr_parse(&w->host[w->n_host++], w->argv[i] + sizeof(flag) - 1, NULL) < 0)
			die("host address", w->argv[i]);
	}
	w->argv[kept] = NULL;
	w->argc = kept;
}

int main(int argc, char **argv)
{
	struct world w = { .argc = argc, .argv = argv };
	char *line = NULL;
	size_t cap = 0;

	log_level_set_all(LOG_LEVEL_ERR - 1);
	w.now = now_ns(); /* the plane stores real times; simulated time is ahead */
	host_addresses(&w);
	fake_open(&w.kernel);
	life_begin(&w);
	while (getline(&line, &cap, stdin) > 0) {
		json_error_t error;
		json_t *cmd = json_loads(line, 0, &error);
		const char *name;
		json_t *value;

		if (cmd == NULL)
			die("standard input", error.text);
		json_object_foreach (cmd, name, value)
			command(&w, name, value);
		json_decref(cmd);
	}
	free(line);
	life_end(&w);
	fake_close(w.kernel);
	return 0;
}
