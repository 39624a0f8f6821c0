/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * golden - objects in, operations and decoded tables out.
 *
 *     golden CASE-FOLDER [VIPD-FLAGS ...]
 *
 * A case is a folder: the YAML files in it, in order of name, are states of a
 * cluster; `flags`, if there, holds flags of vipd's, one a line. Each state is put
 * into the model (what it no longer has is deleted), synced to a kernel in memory,
 * and printed: what was refused, the operations, and what the kernel then holds,
 * as people see it. At the end: every element, and whether a restart over this
 * kernel writes anything (it must not).
 *
 * tools/golden-accept compares with CASE/expected.txt, or accepts new output.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sync_steps.h"
#include "base/file.h"
#include "base/log.h"
#include "explain/text.h"
#include "fake/fake.h"
#include "plane/nft/plane_nft.h"
#include "settings/options.h"
#include "source/decode/decode.h"
#include "source/decode/yamlread.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)

/* A plane in front of another: it prints the operations on their way. */
struct spy {
	struct plane plane;
	struct plane *inner;
	bool is_printing;
};

struct key {
	enum object_kind kind;
	const struct name *ns;
	const struct name *name;
	bool is_seen;
};

struct world {
	struct fake *kernel;
	struct spy spy;
	struct model m;
	struct plan p;
	struct sync *s;
	VEC(struct key) keys;
	uint64_t now;
};

/* --- the spy --- */

static struct spy *spy_of(struct plane *p)
{
	return container_of(p, struct spy, plane);
}

static int spy_load(struct plane *p, struct err *err)
{
	return spy_of(p)->inner->ops->load(spy_of(p)->inner, err);
}

static void spy_adopt(struct plane *p, struct plan *plan, struct plan_rows *rows)
{
	spy_of(p)->inner->ops->adopt(spy_of(p)->inner, plan, rows);
}

static int spy_env(struct plane *p, const struct model *m, struct plane_result *res,
		   struct err *err)
{
	return spy_of(p)->inner->ops->env(spy_of(p)->inner, m, res, err);
}

static int spy_commit(struct plane *p, const struct plan_op *ops, size_t n,
		      enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct spy *spy = spy_of(p);
	struct str s = { 0 };

	for (size_t i = 0; spy->is_printing && i < n; i++) {
		str_printf(&s, "    %s/%s: ", ops[i].svc->ns->text, ops[i].svc->name->text);
		plan_op_print(&s, &ops[i]);
	}
	(void)fputs(str_text(&s), stdout);
	str_fini(&s);
	return spy->inner->ops->commit(spy->inner, ops, n, mode, res, err);
}

static int spy_sweep(struct plane *p, struct plane_result *res, struct err *err)
{
	return spy_of(p)->inner->ops->sweep(spy_of(p)->inner, res, err);
}

static int spy_check(struct plane *p, struct err *err)
{
	return spy_of(p)->inner->ops->check(spy_of(p)->inner, err);
}

static const struct plane_ops spy_ops_template = {
	.name = "spy",
	.load = spy_load,
	.adopt = spy_adopt,
	.env = spy_env,
	.commit = spy_commit,
	.sweep = spy_sweep,
	.check = spy_check,
};

/* --- a life of the daemon --- */

static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "golden: %s: %s\n", what, why);
	exit(2);
}

static void life_begin(struct world *w, int argc, char **argv)
{
	static const struct sync_config config;
	static struct plane_ops spy_ops;
	struct ip_addr addrs[2];
	struct options o;
	struct err err;

	model_init(&w->m);
	if (options_parse(&o, argc, argv, &err) < 0)
		die("flags", err.text);
	w->m.config = o.model;
	w->m.config.node_name = name_get_str(o.hostname);
	o.model = (struct model_config){ 0 };
	options_fini(&o);
	model_configured(&w->m);
	if (ip_addr_parse(&addrs[0], "192.168.0.2", NULL) < 0 ||
	    ip_addr_parse(&addrs[1], "fd00:192::2", NULL) < 0)
		die("addresses", "not parsed");
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	nft_plane_open(&w->spy.inner, fake_connect(w->kernel), fake_connect(w->kernel));
	spy_ops = spy_ops_template;
	spy_ops.traits = w->spy.inner->ops->traits;
	w->spy.plane.ops = &spy_ops;
	plan_init(&w->p, &w->m, &spy_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->spy.plane, &config);
}

static void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->spy.inner->ops->close(w->spy.inner);
	model_fini(&w->m);
	vec_for_each (k, &w->keys) {
		name_unref(k->ns);
		name_unref(k->name);
	}
	vec_fini(&w->keys);
}

/* --- objects --- */

static void key_seen(struct world *w, enum object_kind kind, const struct name *ns,
		     const struct name *name)
{
	vec_for_each (k, &w->keys)
		if (k->kind == kind && k->ns == ns && k->name == name) {
			k->is_seen = true;
			return;
		}
	*vec_push(&w->keys) = (struct key){ kind, name_ref(ns), name_ref(name), true };
}

static void object_put(struct world *w, struct object *o)
{
	if (o->kind == OBJECT_KIND_OTHER)
		return;
	if (o->kind != OBJECT_KIND_NODE)
		key_seen(w, o->kind, o->head->ns, o->head->name);
	model_put(&w->m, o, w->now);
}

static void object_gone(struct world *w, const struct key *k)
{
	model_del(&w->m, k->kind, k->ns, k->name, w->now);
}

static void note(void *arg, const struct decode *d, const char *text)
{
	(void)arg;
	(void)d;
	printf("  note: %s\n", text);
}

static void document(struct world *w, const json_t *doc)
{
	struct decode d = { .note = note, .default_ns = "default" };
	enum object_kind kind;
	enum object_kind items;
	struct object o = { 0 };
	struct err err;
	int r = decode_kind(&kind, &items, doc, &d, &err);

	if (r == 0 && kind != OBJECT_KIND_OTHER)
		r = decode_object(&o, kind, doc, &d, &err);
	if (r < 0) {
		const struct name *ns = NULL;
		const struct name *name = NULL;

		printf("  refused: %s\n", err.text);
		if (decode_key(&ns, &name, kind, doc, &d, &err) == 0)
			key_seen(w, kind, ns, name); /* the last good version stays */
		name_unref(ns);
		name_unref(name);
		return;
	}
	object_put(w, &o);
	object_fini(&o);
}

static void state_read(struct world *w, const char *path)
{
	FINI(str_fini) struct str text = { 0 };
	struct yaml *y;
	json_t *doc;
	struct err err;
	int r = file_read(&text, path, SIZE_MAX, NULL);

	if (r < 0)
		die(path, strerror(-r));
	vec_for_each (k, &w->keys)
		k->is_seen = false;
	yaml_open_text(&y, str_text(&text), text.len, 1);
	while ((r = yaml_next(y, &doc, &err)) > 0) {
		document(w, doc);
		json_decref(doc);
	}
	if (r < 0)
		printf("  refused: %s\n", err.text);
	yaml_close(y);
	for (size_t i = w->keys.n; i-- > 0;)
		if (!w->keys.v[i].is_seen) {
			object_gone(w, &w->keys.v[i]);
			name_unref(w->keys.v[i].ns);
			name_unref(w->keys.v[i].name);
			w->keys.v[i] = w->keys.v[--w->keys.n];
		}
}

/* --- output --- */

static void print_conflicts(struct world *w)
{
	size_t n;
	struct svc **all = model_sorted(&w->m, &n);

	for (size_t i = 0; i < n; i++) {
		const struct plan_rows *rows = all[i]->rows;

		for (size_t k = 0; rows != NULL && k < rows->conflicts.n; k++) {
			char buf[IP_ENDPOINT_TEXT_MAX];
			const struct plan_conflict *c = &rows->conflicts.v[k];
			const struct plan_owner o = plan_conflict_owner(&w->p, all[i], c);

			printf("  conflict: %s/%s wants %s/%s, which is %s/%s's: %s\n",
			       all[i]->ns->text, all[i]->name->text,
			       ip_endpoint_text(&c->addr, c->port, buf), l4proto_text(c->proto),
			       o.svc->ns->text, o.svc->name->text, plan_conflict_reason(c, &o));
		}
	}
	free(all);
}

static void print_indented(const char *text)
{
	for (const char *line = text; *line != '\0';) {
		size_t len = strcspn(line, "\n");

		printf("    %.*s\n", (int)len, line);
		line += len + (line[len] == '\n');
	}
}

static void state_print(struct world *w)
{
	struct str s = { 0 };

	fake_print_services(w->kernel, &s);
	printf("  the kernel:\n");
	print_indented(str_text(&s));
	str_fini(&s);
	print_conflicts(w);
	if (sync_failure_count(w->s) > 0)
		printf("  %zu services rejected by the kernel: %s\n", sync_failure_count(w->s),
		       sync_stats_get(w->s)->last_error);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_yaml(const struct dirent *e)
{
	size_t len = strlen(e->d_name);

	return len > 5 && strcmp(e->d_name + len - 5, ".yaml") == 0;
}

static void state_run(struct world *w, const char *folder, const char *name)
{
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	printf("%s\n", name);
	state_read(w, path);
	printf("  operations:\n");
	sync_sources_ready(w->s);
	sync_settle(w->s, w->now);
	w->now += NSEC_PER_SEC;
	state_print(w);
}

/*
 * Everything as it is, for a new process: it adds nothing. It may remove affinity chains that
 * no service leads to any more. Two lives may do so, because these lives are one process and a
 * chain that the life before asked for stays once; the third has nothing to write.
 */
static int restart(struct world *w, const char *folder, const char *name, int argc, char **argv)
{
	char path[1024];
	size_t writes = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (freopen("/dev/null", "w", stdout) == NULL)
		die("/dev/null", strerror(errno));
	for (int life = 0; life < 3 && writes == 0; life++) {
		life_end(w);
		life_begin(w, argc, argv);
		fake_count_reset(w->kernel);
		w->spy.is_printing = false;
		state_read(w, path);
		sync_sources_ready(w->s);
		sync_settle(w->s, w->now);
		writes = life < 2 ? fake_count(w->kernel).n_adds : fake_count(w->kernel).n_messages;
	}
	if (writes > 0)
		(void)fprintf(stderr, "golden: a restart with nothing changed wrote %zu messages\n",
			      writes);
	return writes > 0;
}

/* Flags of the case behind those of the command line. */
static int flags_read(const char *folder, char **argv, int argc, int max)
{
	char path[1024];
	static struct str text; /* options borrow from it as long as the process lives: call once */
	char *rest;
	char *line;

	(void)snprintf(path, sizeof(path), "%s/flags", folder);
	(void)!file_read(&text, path, SIZE_MAX, NULL);
	rest = text.text;
	while (rest != NULL && (line = strsep(&rest, "\n")) != NULL)
		if (*line != '\0' && argc < max - 1)
			argv[argc++] = line;
	argv[argc] = NULL;
	return argc;
}

int main(int argc, char **argv)
{
	static char manifests[] = "--manifests=.";
	static char node[] = "--hostname-override=n1";
	char *flags[64] = { argv[0], manifests, node };
	struct dirent **names;
	struct world w = { .now = T0 };
	struct str s = { 0 };
	int n_flags;
	int n;
	int r;

	if (argc != 2)
		die("usage", "golden CASE-FOLDER");
	n_flags = flags_read(argv[1], flags, 3, ARRAY_SIZE(flags));
	n = scandir(argv[1], &names, is_yaml, by_name);
	if (n <= 0)
		die(argv[1], "no states");
	log_level_set_all(LOG_LEVEL_ERR - 1);
	fake_open(&w.kernel);
	life_begin(&w, n_flags, flags);
	w.spy.is_printing = true;
	for (int i = 0; i < n; i++)
		state_run(&w, argv[1], names[i]->d_name);
	printf("elements\n");
	fake_print_elements(w.kernel, &s);
	print_indented(str_text(&s));
	(void)fflush(stdout);
	str_fini(&s);
	r = restart(&w, argv[1], names[n - 1]->d_name, n_flags, flags);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	life_end(&w);
	fake_close(w.kernel);
	return r;
}
