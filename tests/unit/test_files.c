/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A watched folder and the model: all kinds of changes of a folder, and invalid input. Each test
 * has a folder of its own and runs the loop until the model is as expected. That a change has no
 * effect is shown by the effect of a later change.
 */
#include "source/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "test.h"

#include "expect.h"

/* fstatat(2) of this name fails with EIO, as on a failing disk. Linked with --wrap=fstatat64. */
static const char *failing_name;

int __real_fstatat64(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags);

int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags)
{
	if (failing_name == NULL || strcmp(name, failing_name) != 0)
		return __real_fstatat64(dir, name, st, flags);
	errno = EIO;
	return -1;
}

/* Added to the clock at each reading of it: above 5 ms a turn of the loop is one step of a file. */
static uint64_t tick_ns;
static uint64_t ticks_ns;

uint64_t __real_now_ns(void);
uint64_t __wrap_now_ns(void);

uint64_t __wrap_now_ns(void)
{
	ticks_ns += tick_ns;
	return __real_now_ns() + ticks_ns;
}

/* The most elements that one call has sorted. */
static size_t sorted_max;

void __real_qsort(void *v, size_t n, size_t size, int (*cmp)(const void *a, const void *b));
void __wrap_qsort(void *v, size_t n, size_t size, int (*cmp)(const void *a, const void *b));

void __wrap_qsort(void *v, size_t n, size_t size, int (*cmp)(const void *a, const void *b))
{
	sorted_max = MAX(sorted_max, n);
	__real_qsort(v, n, size, cmp);
}

/* Limits of inotify that are exhausted, and attempts meanwhile. */
static bool has_no_instance;
static bool has_no_watch;
static unsigned int n_refused;
static unsigned int n_watches;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __real_inotify_add_watch(int fd, const char *path, uint32_t events);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t events);

int __wrap_inotify_init1(int flags)
{
	if (!has_no_instance)
		return __real_inotify_init1(flags);
	n_refused++;
	errno = EMFILE;
	return -1;
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t events)
{
	if (!has_no_watch || fd < 0) {
		int wd = __real_inotify_add_watch(fd, path, events);

		n_watches += wd >= 0;
		return wd;
	}
	n_refused++;
	errno = ENOSPC;
	return -1;
}

struct world {
	char dir[64]; /* path of the test's directory */
	char folder[80];
	struct event_base *base;
	struct model model;
	struct files *files;
	unsigned int n_ready;
	unsigned int n_changed;
	bool is_strict;
};

/* --- the folder --------------------------------------------------------------- */

static void path_of(const struct world *w, const char *name, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/%s", w->dir, name);
}

/* Open, write, close, as `cat > file` does. Names are relative to the test's directory. */
static void put(const struct world *w, const char *name, const char *text)
{
	char path[256];
	int fd;

	path_of(w, name, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

/* Write another file and rename it, as editors do. */
static void put_atomic(const struct world *w, const char *name, const char *text)
{
	char to[256];
	char from[256];

	put(w, "f/.tmp", text);
	path_of(w, "f/.tmp", from, sizeof(from));
	path_of(w, name, to, sizeof(to));
	assert_int_equal(rename(from, to), 0);
}

static void del(const struct world *w, const char *name)
{
	char path[256];

	path_of(w, name, path, sizeof(path));
	assert_int_equal(remove(path), 0);
}

static void make_dir(const struct world *w, const char *name)
{
	char path[256];

	path_of(w, name, path, sizeof(path));
	assert_int_equal(mkdir(path, 0755), 0);
}

static void move(const struct world *w, const char *from_name, const char *to_name)
{
	char from[256];
	char to[256];

	path_of(w, from_name, from, sizeof(from));
	path_of(w, to_name, to, sizeof(to));
	assert_int_equal(rename(from, to), 0);
}

static void make_link(const struct world *w, const char *target, const char *name)
{
	char path[256];

	path_of(w, name, path, sizeof(path));
	assert_int_equal(symlink(target, path), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_tree(const char *path)
{
	assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* --- the model as text ----------------------------------------------------------- */

/* "shop/a 10.96.0.1 80 (s1:2 s2:1); ..." */
static void model_text(struct str *ret, const struct model *m)
{
	char buf[IP_TEXT_MAX];
	struct svc **v;
	size_t n;

	str_clear(ret);
	v = model_sorted(m, &n);
	for (size_t i = 0; i < n; i++) {
		const struct service *s = v[i]->service;

		if (s == NULL && v[i]->n_slices == 0)
			continue; /* only the sync is pending */
		str_printf(ret, "%s%s/%s", ret->len > 0 ? "; " : "", v[i]->ns->text,
			   v[i]->name->text);
		if (s != NULL)
			str_printf(ret, " %s", ip_addr_text(&s->cluster_ip[IPFAM_V4], buf));
		for (size_t k = 0; s != NULL && k < s->ports.n; k++)
			str_printf(ret, " %u", s->ports.v[k].port);
		list_for_each (l, &v[i]->slices) {
			const struct slice *sl = list_entry(l, struct slice_entry, link)->slice;

			str_printf(ret, " (%s:%u)", sl->name->text, sl->endpoints.n);
		}
	}
	free(v);
	/* Without a sync: entries of removed objects must not accumulate. */
}

static void ready_model_text(struct str *ret, void *arg)
{
	struct world *w = arg;

	model_text(ret, &w->model);
	if (w->n_ready == 0)
		str_puts(ret, " (not ready)");
}

static void expect_model(struct world *w, const char *want)
{
	expect_text(w->base, want, ready_model_text, w);
}

static void on_problem(void *arg, const struct files_problem *p)
{
	str_printf(arg, "%s:%" PRIu32 ": %s%s\n", p->file, p->line,
		   p->is_error ? "" : "note: ", p->text);
}

static void problems_text(struct str *ret, void *arg)
{
	struct world *w = arg;

	files_problems(w->files, on_problem, ret);
	if (w->n_ready == 0)
		str_puts(ret, " (not ready)");
}

static void expect_problems(struct world *w, const char *want)
{
	expect_text(w->base, want, problems_text, w);
}

/* --- worlds ------------------------------------------------------------------------ */

static void on_ready(void *arg)
{
	((struct world *)arg)->n_ready++;
}

static void on_changed(void *arg)
{
	((struct world *)arg)->n_changed++;
}

static const struct files_ops world_ops = { .ready = on_ready, .changed = on_changed };

static void world_open(struct world *w, const char *folder)
{
	struct files_ops ops = world_ops;
	struct err err;

	ops.arg = w;
	ops.is_strict = w->is_strict;
	path_of(w, folder, w->folder, sizeof(w->folder));
	if (files_open(&w->files, w->base, &w->model, w->folder, &ops, &err) < 0)
		fail_msg("%s", err.text);
}

/* The folder is "f" in the test's directory; it is not watched yet. */
static int world_setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/vipd-test-files.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	make_dir(w, "f");
	w->base = event_base_new();
	model_init(&w->model);
	model_configured(&w->model);
	log_level_set_all(LOG_LEVEL_ERR);
	tick_ns = 0;
	*state = w;
	return 0;
}

static void model_forget(struct model *m)
{
	struct svc **v;
	size_t n;

	v = model_sorted(m, &n);
	for (size_t i = 0; i < n; i++)
		model_clean(m, v[i]);
	free(v);
}

static int world_teardown(void **state)
{
	struct world *w = *state;

	files_close(w->files);
	event_base_free(w->base);
	model_forget(&w->model);
	model_fini(&w->model);
	remove_tree(w->dir);
	free(w);
	assert_int_equal(name_count(), 0);
	return 0;
}

#define SERVICE(name, port)                                                              \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: " name ", namespace: x}\n" \
	"spec:\n  clusterIP: 10.96.0.1\n  ports: [{port: " port "}]\n"
#define SLICE(name, service)                                                                     \
	"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"         \
	"metadata: {name: " name ", namespace: x, labels: {kubernetes.io/service-name: " service \
	"}}\nendpoints: [{addresses: [10.1.0.1]}]\n"

/* --- tests -------------------------------------------------------------------------- */

static void test_empty(void **state)
{
	struct world *w = *state;

	world_open(w, "f");
	assert_int_equal(w->n_ready, 0);
	expect_model(w, "");
	assert_int_equal(w->n_ready, 1);
	put(w, "f/a.yaml", SERVICE("a", "80"));
	expect_model(w, "x/a 10.96.0.1 80");
	assert_int_equal(w->n_ready, 1);
	assert_int_equal(w->n_changed, 1);
}

static void test_missing(void **state)
{
	struct world *w = *state;
	char path[256];
	struct err err;

	path_of(w, "none", path, sizeof(path));
	assert_int_equal(files_open(&w->files, w->base, &w->model, path, &world_ops, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "/none': No such file or directory"));
	put(w, "file", "");
	path_of(w, "file", path, sizeof(path));
	assert_int_equal(files_open(&w->files, w->base, &w->model, path, &world_ops, &err),
			 -ENOTDIR);
}

/* First reading: valid, invalid and foreign files; ready is called once, without changed. */
static void test_first(void **state)
{
	struct world *w = *state;
	struct files_stats stats;

	put(w, "f/a.yaml", SERVICE("a", "80") SLICE("a-1", "a"));
	put(w, "f/b.yml", SERVICE("b", "70000"));
	put(w, "f/c.json",
	    "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":"
	    "{\"name\":\"c\"},\"spec\":{\"clusterIP\":\"10.96.0.3\"}}");
	put(w, "f/d.txt", SERVICE("d", "80"));
	put(w, "f/.e.yaml", SERVICE("e", "80"));
	put(w, "f/g.yaml~", SERVICE("g", "80"));
	put(w, "f/#h.yaml#", SERVICE("h", "80"));
	put(w, "f/.i.yaml.swp", SERVICE("i", "80"));
	make_dir(w, "f/sub.yaml");
	put(w, "f/sub.yaml/j.yaml", SERVICE("j", "80"));
	world_open(w, "f");
	expect_model(w, "default/c 10.96.0.3; x/a 10.96.0.1 80 (a-1:1)");
	expect_problems(
		w,
		"b.yml:7: Service x/b: spec.ports[0].port: 70000 is not a number from 1 to 65535; "
		"no good version of it is known\n");
	assert_int_equal(w->n_ready, 1);
	assert_int_equal(w->n_changed, 0);
	files_stats(w->files, &stats);
	assert_int_equal(stats.files, 3);
	assert_int_equal(stats.objects, 3);
	assert_int_equal(stats.errors, 1);
	assert_false(stats.is_failing);
	assert_int_equal(stats.reads, 3);
}

/* Writing in place, renaming into place, deleting, renaming away and back. */
static void test_changes(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	put(w, "f/a.yaml", SERVICE("a", "81"));
	expect_model(w, "x/a 10.96.0.1 81");
	put_atomic(w, "f/a.yaml", SERVICE("a", "82"));
	expect_model(w, "x/a 10.96.0.1 82");
	put_atomic(w, "f/a.yaml", SERVICE("a", "82") SERVICE("b", "1"));
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 1");
	put(w, "f/c.yaml", SERVICE("c", "1"));
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 1; x/c 10.96.0.1 1");
	put(w, "f/a.yaml", SERVICE("b", "1"));
	expect_model(w, "x/b 10.96.0.1 1; x/c 10.96.0.1 1");
	move(w, "f/a.yaml", "f/a.off");
	expect_model(w, "x/c 10.96.0.1 1");
	move(w, "f/a.off", "f/z.yaml");
	expect_model(w, "x/b 10.96.0.1 1; x/c 10.96.0.1 1");
	move(w, "f/z.yaml", "f/c.yaml");
	expect_model(w, "x/b 10.96.0.1 1");
	del(w, "f/c.yaml");
	expect_model(w, "");
	expect_problems(w, "");
}

/* A file with equal content in other words changes nothing; unchanged documents are not parsed. */
static void test_unchanged(void **state)
{
	struct world *w = *state;
	struct files_stats before;
	struct files_stats after;

	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "80") SERVICE("c", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80; x/c 10.96.0.1 80");
	files_stats(w->files, &before);
	put(w, "f/a.yaml",
	    "# a comment\n" SERVICE("c", "80") SERVICE("a", "80") SERVICE("b", "80"));
	put(w, "f/z.yaml", SERVICE("z", "1"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80; x/c 10.96.0.1 80; x/z 10.96.0.1 1");
	files_stats(w->files, &after);
	assert_int_equal(after.parsed - before.parsed, 1); /* the new file */
	assert_int_equal(w->n_changed, 1);
}

/* An object that moves from one file to another in one turn never disappears. */
static void test_move_between_files(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	put(w, "f/a.yaml", "");
	put(w, "f/b.yaml", SERVICE("a", "80"));
	put(w, "f/c.yaml", SERVICE("c", "80"));
	expect_model(w, "x/a 10.96.0.1 80; x/c 10.96.0.1 80");
	assert_int_equal(w->n_changed, 1);
	expect_problems(w, "");
}

/* --- turns of the loop ----------------------------------------------------------------- */

/* The port of the Service; 0: there is none. */
static unsigned int port_of(const struct world *w, const char *name)
{
	const struct svc *svc = model_find_text(&w->model, "x", name);

	return svc != NULL && svc->service != NULL ? svc->service->ports.v[0].port : 0;
}

/* While files are read, the loop has turns for other work. */
static void test_turns(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	tick_ns = 6 * NSEC_PER_MSEC;
	for (char c = 'b'; c <= 'm'; c++) {
		char name[] = { 'f', '/', c, '.', 'y', 'a', 'm', 'l', '\0' };

		put(w, name, SERVICE("web", "80"));
	}
	put(w, "f/a.yaml", SERVICE("a", "81"));
	for (int i = 0; i < 3; i++) {
		(void)event_base_loop(w->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		assert_int_equal(port_of(w, "a"), 80);
	}
	expect_model(w, "x/a 10.96.0.1 81; x/web 10.96.0.1 80");
}

/* --- last good versions ---------------------------------------------------------------- */

static void test_bad_keeps_last_good(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80");
	/* One document is invalid, the other one is changed. */
	put(w, "f/a.yaml", SERVICE("a", "0") SERVICE("b", "81"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 81");
	expect_problems(
		w, "a.yaml:7: Service x/a: spec.ports[0].port: 0 is not a number from 1 to 65535; "
		   "its last good version stays\n");
	/* Lines follow the text although the bad document is not read again. */
	put(w, "f/a.yaml", SERVICE("c", "1") SERVICE("a", "0") SERVICE("b", "81"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 81; x/c 10.96.0.1 1");
	expect_problems(
		w, "a.yaml:14: Service x/a: spec.ports[0].port: 0 is not a number from 1 to 65535; "
		   "its last good version stays\n");
	/* Removed while invalid: removed from the model. */
	put(w, "f/a.yaml", SERVICE("b", "81"));
	expect_model(w, "x/b 10.96.0.1 81");
	expect_problems(w, "");
	/* And good again. */
	put(w, "f/a.yaml", SERVICE("b", "x"));
	expect_problems(
		w,
		"a.yaml:7: Service x/b: spec.ports[0].port: 'x' is not a number from 1 to 65535; "
		"its last good version stays\n");
	put(w, "f/a.yaml", SERVICE("b", "82"));
	expect_model(w, "x/b 10.96.0.1 82");
	expect_problems(w, "");
}

/* An invalid document moves to another file. */
static void test_bad_moves(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80");
	put(w, "f/b.yaml", SERVICE("b", "0"));
	put(w, "f/a.yaml", SERVICE("a", "81"));
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 80");
	expect_problems(
		w, "b.yaml:7: Service x/b: spec.ports[0].port: 0 is not a number from 1 to 65535; "
		   "its last good version stays\n");
	put(w, "f/b.yaml", SERVICE("b", "82"));
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 82");
	/* In the other order, and deleted while it is invalid. */
	put(w, "f/b.yaml", SERVICE("c", "80"));
	put(w, "f/c.yaml", SERVICE("b", "0"));
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 82; x/c 10.96.0.1 80");
	del(w, "f/c.yaml");
	expect_model(w, "x/a 10.96.0.1 81; x/c 10.96.0.1 80");
}

#define UNREADABLE                                                                     \
	"document: while parsing a flow node: did not find expected node content; no " \
	"object of this file is removed until it can be read\n"

/* An unreadable document may be any object: no object of the file is removed. */
static void test_unreadable_keeps_all(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "80") SERVICE("c", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80; x/c 10.96.0.1 80");
	put(w, "f/a.yaml", SERVICE("a", "81") "---\nkind: [\n" SERVICE("c", "82"));
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 80; x/c 10.96.0.1 82");
	expect_problems(w, "a.yaml:10: " UNREADABLE);
	/* While one document is unreadable, a removed object stays until all can be read. */
	put(w, "f/a.yaml", SERVICE("a", "82") "---\nkind: [\n");
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 80; x/c 10.96.0.1 82");
	/* An object returns with other text while another document is unreadable. */
	put(w, "f/a.yaml", SERVICE("a", "82") "---\nkind: [\n" SERVICE("b", "90"));
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 90; x/c 10.96.0.1 82");
	put(w, "f/a.yaml", SERVICE("a", "82") SERVICE("b", "90"));
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 90");
	expect_problems(w, "");
	/* Deletion of a file removes its objects, also invalid ones. */
	put(w, "f/a.yaml", "---\nkind: [\n");
	expect_problems(w, "a.yaml:3: " UNREADABLE);
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 90");
	del(w, "f/a.yaml");
	expect_model(w, "");
}

static void test_ignored(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "80") SLICE("s", "a"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80 (s:1)");
	/* EPS-01: a valid slice without relevance replaces its earlier version. */
	put(w, "f/a.yaml",
	    SERVICE("a", "80") "---\napiVersion: discovery.k8s.io/v1\n"
			       "kind: EndpointSlice\naddressType: FQDN\nmetadata: "
			       "{name: s, namespace: x, labels: "
			       "{kubernetes.io/service-name: a}}\n");
	expect_model(w, "x/a 10.96.0.1 80");
	expect_problems(w, "a.yaml:11: note: EndpointSlice x/s: addressType: FQDN is not "
			   "supported, the slice is ignored\n");
	put(w, "f/a.yaml", SERVICE("a", "80") SLICE("s", "a"));
	expect_model(w, "x/a 10.96.0.1 80 (s:1)");
	expect_problems(w, "");
	/* T-046: the label moves the slice. */
	put(w, "f/a.yaml", SERVICE("a", "80") SLICE("s", "b"));
	expect_model(w, "x/a 10.96.0.1 80; x/b (s:1)");
}

/* --- one object in several places ---------------------------------------------------------- */

static void test_shadow(void **state)
{
	struct world *w = *state;

	put(w, "f/b.yaml", SERVICE("a", "2"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 2");
	/* The first file by name is used, although it appeared later. */
	put(w, "f/a.yaml", SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 1");
	expect_problems(w, "b.yaml:2: Service x/a: is also in a.yaml:2, which comes first and "
			   "counts\n");
	put(w, "f/c.yaml", SERVICE("a", "3"));
	expect_problems(w, "b.yaml:2: Service x/a: is also in a.yaml:2, which comes first and "
			   "counts\n"
			   "c.yaml:2: Service x/a: is also in a.yaml:2, which comes first and "
			   "counts\n");
	/*
	 * A change of a shadowed version has no effect; then the used version is deleted, then the
	 * next.
	 */
	put(w, "f/c.yaml", SERVICE("a", "4"));
	del(w, "f/a.yaml");
	expect_model(w, "x/a 10.96.0.1 2");
	del(w, "f/b.yaml");
	expect_model(w, "x/a 10.96.0.1 4");
	expect_problems(w, "");
	del(w, "f/c.yaml");
	expect_model(w, "");
}

/* A version that was replaced in the model is there when it is needed. */
static void test_shadow_lost_version(void **state)
{
	struct world *w = *state;

	put(w, "f/b.yaml", SERVICE("a", "2") SERVICE("b", "2"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 2; x/b 10.96.0.1 2");
	put(w, "f/a.yaml", SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 2");
	del(w, "f/a.yaml");
	expect_model(w, "x/a 10.96.0.1 2; x/b 10.96.0.1 2");
	/* As above, but its file is invalid now: the last good version counts. */
	put(w, "f/a.yaml", SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 2");
	put(w, "f/b.yaml", SERVICE("a", "0") SERVICE("b", "2"));
	expect_problems(
		w,
		"b.yaml:2: Service x/a: is also in a.yaml:2, which comes first and "
		"counts\n"
		"b.yaml:7: Service x/a: spec.ports[0].port: 0 is not a number from 1 to 65535; its "
		"last good version stays\n");
	del(w, "f/a.yaml");
	expect_model(w, "x/a 10.96.0.1 2; x/b 10.96.0.1 2");
}

/* An invalid version without an earlier valid one: the next file is used. */
static void test_shadow_bad_winner(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "0"));
	put(w, "f/b.yaml", SERVICE("a", "2"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 2");
	put(w, "f/a.yaml", SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 1");
	put(w, "f/a.yaml", SERVICE("a", "0"));
	put(w, "f/c.yaml", SERVICE("c", "1"));
	expect_model(w, "x/a 10.96.0.1 1; x/c 10.96.0.1 1");
}

static void test_twice_in_a_file(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "1") SERVICE("a", "2"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	expect_problems(w, "a.yaml:9: Service x/a: is also in a.yaml:2, which comes first and "
			   "counts\n");
	put(w, "f/a.yaml", SERVICE("a", "2") SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 2");
	put(w, "f/a.yaml", SERVICE("a", "3"));
	expect_model(w, "x/a 10.96.0.1 3");
	expect_problems(w, "");
}

/* More documents of one object than are kept: the rest counts when the first are removed. */
static void test_many_times_in_a_file(void **state)
{
	struct world *w = *state;
	FINI(str_fini) struct str text = { 0 };
	struct files_stats stats;
	size_t first = 0;

	for (int i = 1; i <= 300; i++) {
		str_printf(&text, SERVICE("a", "%d"), i);
		if (i == 200)
			first = text.len;
	}
	put(w, "f/a.yaml", text.text);
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	files_stats(w->files, &stats);
	assert_int_equal(stats.objects, 100);
	assert_int_equal(stats.errors, 299); /* 99 shadowed, 200 not read */
	put(w, "f/a.yaml", text.text + first);
	expect_model(w, "x/a 10.96.0.1 201");
	files_stats(w->files, &stats);
	assert_int_equal(stats.objects, 100);
	assert_int_equal(stats.errors, 99);
	put(w, "f/a.yaml", SERVICE("a", "1"));
	expect_model(w, "x/a 10.96.0.1 1");
	expect_problems(w, "");
}

/* "N services; the last problem" */
static void end_text(struct str *ret, void *arg)
{
	struct world *w = arg;
	FINI(str_fini) struct str all = { 0 };
	const char *end = "";
	char *rest;

	files_problems(w->files, on_problem, &all);
	rest = all.text;
	for (char *line = str_line(&rest); line != NULL; line = str_line(&rest))
		end = line;
	str_printf(ret, "%zu services; %s", w->model.stats.services, end);
}

/* Problems that are only counted stay while their documents are unchanged, and appear when there is
 * room for them. */
static void test_many_problems(void **state)
{
	struct world *w = *state;
	FINI(str_fini) struct str text = { 0 };
	size_t eleventh = 0;

	for (int i = 1; i <= 1100; i++) {
		str_printf(&text, SERVICE("a%d", "80") "  sessionAffinity: X\n", i);
		if (i == 10)
			eleventh = text.len;
	}
	for (int i = 1; i <= 50; i++)
		str_printf(&text, SERVICE("b%d", "70000"), i);
	put(w, "f/a.yaml", text.text);
	world_open(w, "f");
	expect_text(w->base, "1100 services; a.yaml:0: and 150 more", end_text, w);
	str_puts(&text, SERVICE("c", "80"));
	put(w, "f/a.yaml", text.text);
	expect_text(w->base, "1101 services; a.yaml:0: and 150 more", end_text, w);
	put(w, "f/a.yaml", text.text + eleventh);
	expect_text(w->base, "1091 services; a.yaml:0: and 150 more", end_text, w);
	str_puts(&text, SERVICE("d", "80"));
	put(w, "f/a.yaml", text.text + eleventh);
	expect_text(w->base, "1092 services; a.yaml:0: and 140 more", end_text, w);
	put(w, "f/a.yaml", SERVICE("c", "80"));
	expect_text(w->base, "1 services; ", end_text, w);
}

/* --- half-written files ------------------------------------------------------------------------
 */

static void test_half_written(void **state)
{
	static const char text[] = SERVICE("a", "81");
	struct world *w = *state;
	char path[256];
	int fd;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	path_of(w, "f/a.yaml", path, sizeof(path));
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	files_read_again(w->files); /* the file is empty, and its writer has it open */
	for (int i = 0; i < 10; i++)
		(void)event_base_loop(w->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	expect_model(w, "x/a 10.96.0.1 80");
	for (size_t i = 0; i < sizeof(text) - 1; i += 20) {
		size_t n = MIN(sizeof(text) - 1 - i, (size_t)20);

		assert_int_equal(write(fd, text + i, n), n);
		/* Another file is read meanwhile; this file is not. */
		put(w, "f/b.yaml", i % 40 == 0 ? SERVICE("b", "1") : SERVICE("b", "2"));
		expect_model(w, i % 40 == 0 ? "x/a 10.96.0.1 80; x/b 10.96.0.1 1"
					    : "x/a 10.96.0.1 80; x/b 10.96.0.1 2");
	}
	del(w, "f/b.yaml");
	expect_model(w, "x/a 10.96.0.1 80");
	assert_int_equal(close(fd), 0);
	expect_model(w, "x/a 10.96.0.1 81");
	expect_problems(w, "");
}

/* The reason why files_are_complete() is false; "": it is true. */
static void unknown_text(struct str *ret, void *arg)
{
	struct world *w = arg;

	if (files_are_complete(w->files, ret) != (ret->len == 0))
		fail_msg("'%s' explains nothing", str_text(ret));
}

static void expect_unknown(struct world *w, const char *want)
{
	expect_text(w->base, want, unknown_text, w);
}

/* IN-19: objects without a known version; a later invalid version does not count. */
static void test_complete(void **state)
{
	struct world *w = *state;
	unsigned int n_changed;

	put(w, "f/a.yaml", SERVICE("a", "80") SLICE("a-1", "a"));
	put(w, "f/b.yaml", SERVICE("b", "80") SERVICE("c", "70000"));
	put(w, "f/d.yaml", SERVICE("d", "80") "---\nkind: [\n");
	make_link(w, "nowhere", "f/e.yaml");
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80 (a-1:1); x/b 10.96.0.1 80; x/d 10.96.0.1 80");
	expect_unknown(
		w,
		"b.yaml:14: Service x/c: spec.ports[0].port: 70000 is not a number from 1 to 65535; "
		"no good version of it is known");
	put(w, "f/b.yaml", SERVICE("b", "80") SERVICE("c", "81"));
	expect_unknown(
		w, "d.yaml:10: document: while parsing a flow node: did not find "
		   "expected node content; no object of this file is removed until it can be read");
	n_changed = w->n_changed;
	put(w, "f/d.yaml", SERVICE("d", "80"));
	expect_unknown(w, "e.yaml: is a link to nothing; no good version of it is known");
	del(w, "f/e.yaml");
	expect_unknown(w, "");
	assert_int_equal(w->n_changed,
			 n_changed + 1); /* changed is called, though the model is equal */
	put(w, "f/b.yaml", "kind: [");
	put(w, "f/z.yaml", "kind: [");
	expect_model(w, "x/a 10.96.0.1 80 (a-1:1); x/b 10.96.0.1 80; x/c 10.96.0.1 81; "
			"x/d 10.96.0.1 80");
	expect_unknown(w, "");
}

/* Problems, and whether the folder is complete: only files that have problems are examined. */
static void test_complete_many_files(void **state)
{
	struct world *w = *state;
	FINI(str_fini) struct str why = { 0 };
	char name[32];

	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "f/%d.yaml", i * 7 % 300);
		put(w, name, "");
	}
	put(w, "f/b.yaml", SERVICE("b", "0"));
	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	sorted_max = 0;
	put(w, "f/a.yaml", SERVICE("a", "81"));
	expect_model(w, "x/a 10.96.0.1 81");
	assert_false(files_are_complete(w->files, &why));
	assert_non_null(strstr(str_text(&why), "b.yaml:7: Service x/b: "));
	expect_problems(
		w, "b.yaml:7: Service x/b: spec.ports[0].port: 0 is not a number from 1 to 65535; "
		   "no good version of it is known\n");
	assert_true(sorted_max < 10);
}

/* An object without a good version stays unknown while the file has an unreadable document. */
static void test_complete_unreadable(void **state)
{
	struct world *w = *state;

	tick_ns = 6 * NSEC_PER_MSEC;
	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "0"));
	world_open(w, "f");
	expect_unknown(
		w, "a.yaml:14: Service x/b: spec.ports[0].port: 0 is not a number from 1 to 65535; "
		   "no good version of it is known");
	put(w, "f/a.yaml", SERVICE("a", "80") "---\nkind: [\n");
	expect_unknown(w, "a.yaml: contains objects of which no good version is known");
	put(w, "f/a.yaml", SERVICE("a", "80"));
	expect_unknown(w, "");
}

/* IN-19: an empty folder is complete only after it had a manifest, as of a file without objects. */
static void test_complete_empty(void **state)
{
	struct world *w = *state;

	world_open(w, "f");
	expect_model(w, "");
	expect_unknown(w, "the folder has no manifests");
	assert_true(files_are_none(w->files));
	put(w, "f/readme.txt", "");
	put(w, "f/a.yaml", "kind: [");
	expect_problems(w,
			"a.yaml:2: document: while parsing a flow node: did not find expected "
			"node content; no object of this file is removed until it can be read\n");
	assert_false(files_are_complete(w->files, NULL));
	del(w, "f/a.yaml");
	expect_unknown(w, "the folder has no manifests");
	put(w, "f/a.yaml", "");
	expect_unknown(w, "");
	del(w, "f/a.yaml");
	put(w, "f/b.yaml", SERVICE("b", "80"));
	expect_model(w, "x/b 10.96.0.1 80");
	del(w, "f/b.yaml");
	expect_model(w, "");
	assert_true(files_are_none(w->files));
	expect_unknown(w, "");
}

/* --strict: an object with an unknown field is rejected; its last good version stays. */
static void test_strict(void **state)
{
	struct world *w = *state;

	w->is_strict = true;
	put(w, "f/a.yaml", SERVICE("a", "80") SERVICE("b", "80, targetport: 81"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	expect_problems(w, "a.yaml:14: Service x/b: spec.ports[0].targetport: unknown field; "
			   "no good version of it is known\n");
	put(w, "f/a.yaml", SERVICE("a", "81") "  sesionAffinity: ClientIP\n");
	expect_problems(w, "a.yaml:8: Service x/a: spec.sesionAffinity: unknown field; "
			   "its last good version stays\n");
	expect_model(w, "x/a 10.96.0.1 80");
	put(w, "f/a.yaml",
	    "kind: Service\napiVersion: v1\nmetadata:\n  name: a\n  namespace: x\n  annotations:\n"
	    "    vipd.io/drain-timeout: 3600\nspec: {clusterIP: 10.96.0.1, ports: [{port: 81}]}\n");
	expect_problems(w, "a.yaml:7: Service x/a: metadata.annotations[vipd.io/drain-timeout]: "
			   "3600 is not text (write it in quotes); its last good version stays\n");
}

/* IN-19: a file that a process is writing is not read as a complete one. */
static void test_written_at_start(void **state)
{
	static const char first[] = SERVICE("a", "80");
	static const char rest[] = SLICE("a-1", "a");
	struct world *w = *state;
	char path[256];
	int fd;

	path_of(w, "f/a.yaml", path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, first, sizeof(first) - 1), sizeof(first) - 1);
	put(w, "f/b.yaml", SERVICE("b", "80"));
	world_open(w, "f");
	expect_unknown(w, "a.yaml: is not completely written");
	for (int i = 0; i < 10; i++)
		(void)event_base_loop(w->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(w->n_ready, 0);
	assert_int_equal(write(fd, rest, sizeof(rest) - 1), sizeof(rest) - 1);
	assert_int_equal(close(fd), 0);
	expect_model(w, "x/a 10.96.0.1 80 (a-1:1); x/b 10.96.0.1 80");
	expect_unknown(w, "");
}

/* Removed and created again: the old version is used while the new one is written. */
static void test_remove_and_create(void **state)
{
	static const char text[] = SERVICE("a", "81");
	struct world *w = *state;
	char path[256];
	int fd;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	path_of(w, "f/a.yaml", path, sizeof(path));
	del(w, "f/a.yaml");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, text, 30), 30);
	put(w, "f/b.yaml", SERVICE("b", "1"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 1");
	assert_int_equal(write(fd, text + 30, sizeof(text) - 31), sizeof(text) - 31);
	assert_int_equal(close(fd), 0);
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 1");
}

/* As above, but the removal is noticed before the name exists again, by an event and by a scan. */
static void test_replaced(void **state)
{
	static const char text[] = SERVICE("a", "81");
	struct world *w = *state;
	char path[256];
	int fd;

	put(w, "f/a.yaml", SERVICE("a", "80"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80");
	path_of(w, "f/a.yaml", path, sizeof(path));
	del(w, "f/a.yaml");
	put(w, "f/b.yaml", SERVICE("b", "1"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 1");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, text, 30), 30);
	put(w, "f/b.yaml", SERVICE("b", "2"));
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 2");
	assert_int_equal(write(fd, text + 30, sizeof(text) - 31), sizeof(text) - 31);
	assert_int_equal(close(fd), 0);
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 2");
	del(w, "f/a.yaml");
	put(w, "f/b.yaml", SERVICE("b", "3"));
	files_read_again(w->files);
	expect_model(w, "x/a 10.96.0.1 81; x/b 10.96.0.1 3");
	put(w, "f/a.yaml", SERVICE("a", "82"));
	expect_model(w, "x/a 10.96.0.1 82; x/b 10.96.0.1 3");
	del(w, "f/a.yaml");
	expect_model(w, "x/b 10.96.0.1 3");
}

/* --- links
 * ----------------------------------------------------------------------------------------- */

/* Update of a ConfigMap volume: files are links through ..data, which is replaced. */
static void test_config_map(void **state)
{
	struct world *w = *state;

	make_dir(w, "f/..1");
	put(w, "f/..1/a.yaml", SERVICE("a", "80"));
	put(w, "f/..1/b.yaml", SERVICE("b", "80"));
	make_link(w, "..1", "f/..data");
	make_link(w, "..data/a.yaml", "f/a.yaml");
	make_link(w, "..data/b.yaml", "f/b.yaml");
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 80; x/b 10.96.0.1 80");
	for (int round = 0; round < 3; round++) {
		char old[16];
		char new[16];
		char path[128];
		char want[64];

		(void)snprintf(old, sizeof(old), "f/..%d", round + 1);
		(void)snprintf(new, sizeof(new), "f/..%d", round + 2);
		make_dir(w, new);
		(void)snprintf(path, sizeof(path), "%s/a.yaml", new);
		put(w, path, round % 2 == 0 ? SERVICE("a", "81") : SERVICE("a", "82"));
		(void)snprintf(path, sizeof(path), "%s/b.yaml", new);
		put(w, path, SERVICE("b", "80"));
		make_link(w, new + 2, "f/..data_tmp");
		move(w, "f/..data_tmp", "f/..data");
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, old);
		remove_tree(path);
		(void)snprintf(want, sizeof(want), "x/a 10.96.0.1 %d; x/b 10.96.0.1 80",
			       round % 2 == 0 ? 81 : 82);
		expect_model(w, want);
	}
	expect_problems(w, "");
}

/* The path of the folder is a link that changes. */
static void test_folder_link(void **state)
{
	struct world *w = *state;

	make_dir(w, "v1");
	make_dir(w, "v2");
	put(w, "v1/a.yaml", SERVICE("a", "1"));
	put(w, "v1/b.yaml", SERVICE("b", "1"));
	put(w, "v2/a.yaml", SERVICE("a", "2"));
	make_link(w, "v1", "now");
	world_open(w, "now");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1");
	make_link(w, "v2", "next");
	move(w, "next", "now");
	expect_model(w, "x/a 10.96.0.1 2");
	/* The old folder is not watched any more, the new one is. */
	put(w, "v1/c.yaml", SERVICE("c", "1"));
	put(w, "v2/d.yaml", SERVICE("d", "1"));
	expect_model(w, "x/a 10.96.0.1 2; x/d 10.96.0.1 1");
	/* Removed and created again, not replaced. */
	del(w, "now");
	expect_problems(w, ""); /* the state in between is not defined */
	make_link(w, "v1", "now");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1; x/c 10.96.0.1 1");
}

/* A link in a parent folder. */
static void test_link_on_the_way(void **state)
{
	struct world *w = *state;

	make_dir(w, "r1");
	make_dir(w, "r1/m");
	make_dir(w, "r2");
	make_dir(w, "r2/m");
	put(w, "r1/m/a.yaml", SERVICE("a", "1"));
	put(w, "r2/m/a.yaml", SERVICE("a", "2"));
	make_link(w, "r1", "current");
	world_open(w, "current/m");
	expect_model(w, "x/a 10.96.0.1 1");
	make_link(w, "r2", "current.new");
	move(w, "current.new", "current");
	expect_model(w, "x/a 10.96.0.1 2");
	put(w, "r2/m/a.yaml", SERVICE("a", "3"));
	expect_model(w, "x/a 10.96.0.1 3");
}

static void test_file_link(void **state)
{
	struct world *w = *state;

	put(w, "real", SERVICE("a", "1"));
	make_link(w, "../real", "f/a.yaml");
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	/* The target is written in place, then replaced. */
	put(w, "real", SERVICE("a", "2"));
	expect_model(w, "x/a 10.96.0.1 2");
	put(w, "real.new", SERVICE("a", "3"));
	move(w, "real.new", "real");
	expect_model(w, "x/a 10.96.0.1 3");
	put(w, "real", SERVICE("a", "4"));
	expect_model(w, "x/a 10.96.0.1 4");
	/* A dangling link: the last content stays. */
	del(w, "real");
	expect_problems(w, "a.yaml:0: is a link to nothing; its last content stays\n");
	expect_model(w, "x/a 10.96.0.1 4");
	put(w, "real", SERVICE("a", "5"));
	expect_model(w, "x/a 10.96.0.1 5");
	expect_problems(w, "");
	del(w, "f/a.yaml");
	expect_model(w, "");
}

static void test_link_loop(void **state)
{
	struct world *w = *state;

	make_link(w, "b.yaml", "f/a.yaml");
	make_link(w, "a.yaml", "f/b.yaml");
	make_link(w, ".", "f/c.yaml");
	put(w, "f/d.yaml", SERVICE("d", "1"));
	world_open(w, "f");
	expect_model(w, "x/d 10.96.0.1 1");
	expect_problems(
		w, "a.yaml:0: Too many levels of symbolic links; no good version of it is known\n"
		   "b.yaml:0: Too many levels of symbolic links; no good version of it is known\n");
}

static void test_hard_link(void **state)
{
	struct world *w = *state;
	char from[256];
	char to[256];

	put(w, "real", SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "");
	path_of(w, "real", from, sizeof(from));
	path_of(w, "f/a.yaml", to, sizeof(to));
	assert_int_equal(link(from, to), 0);
	expect_model(w, "x/a 10.96.0.1 1");
}

/* --- the folder itself
 * --------------------------------------------------------------------------------- */

static void test_folder_swapped(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "1"));
	put(w, "f/b.yaml", SERVICE("b", "1"));
	make_dir(w, "f2");
	put(w, "f2/a.yaml", SERVICE("a", "2"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1");
	move(w, "f", "old");
	move(w, "f2", "f");
	expect_model(w, "x/a 10.96.0.1 2");
	put(w, "old/z.yaml", SERVICE("z", "1"));
	put(w, "f/c.yaml", SERVICE("c", "1"));
	expect_model(w, "x/a 10.96.0.1 2; x/c 10.96.0.1 1");
}

/* The target is moved away: no change; moved back: read again. */
static void test_folder_gone(void **state)
{
	struct world *w = *state;
	struct files_stats stats;
	char want[256];

	put(w, "f/a.yaml", SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	move(w, "f", "away");
	(void)snprintf(want, sizeof(want), "%s:0: folder '%s': No such file or directory\n",
		       w->folder, w->folder);
	expect_problems(w, want);
	files_stats(w->files, &stats);
	assert_true(stats.is_failing);
	put(w, "away/a.yaml", SERVICE("a", "2"));
	expect_model(w, "x/a 10.96.0.1 1");
	move(w, "away", "f");
	expect_model(w, "x/a 10.96.0.1 2");
	expect_problems(w, "");
}

/* rm -rf removes the objects; the folder is watched when it is created again. */
static void test_folder_removed(void **state)
{
	struct world *w = *state;
	char path[256];

	put(w, "f/a.yaml", SERVICE("a", "1"));
	put(w, "f/b.yaml", SERVICE("b", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1");
	path_of(w, "f", path, sizeof(path));
	remove_tree(path);
	expect_model(w, "");
	make_dir(w, "f");
	put(w, "f/c.yaml", SERVICE("c", "1"));
	expect_model(w, "x/c 10.96.0.1 1");
	expect_problems(w, "");
	/* As above without a pause: the final state counts. */
	remove_tree(path);
	make_dir(w, "f");
	put(w, "f/c.yaml", SERVICE("c", "2"));
	expect_model(w, "x/c 10.96.0.1 2");
}

/* --- what cannot be read
 * ------------------------------------------------------------------------------------ */

static void test_not_regular(void **state)
{
	struct world *w = *state;
	char path[256];

	path_of(w, "f/p.yaml", path, sizeof(path));
	assert_int_equal(mkfifo(path, 0644), 0);
	make_link(w, "/dev/zero", "f/z.yaml");
	put(w, "f/a.yaml", SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	expect_problems(w, "p.yaml:0: is not a regular file; no good version of it is known\n"
			   "z.yaml:0: is not a regular file; no good version of it is known\n");
	/* A file in its place. */
	del(w, "f/p.yaml");
	put(w, "f/p.yaml", SERVICE("p", "1"));
	expect_model(w, "x/a 10.96.0.1 1; x/p 10.96.0.1 1");
	del(w, "f/z.yaml");
	expect_problems(w, "");
}

static void test_too_large(void **state)
{
	struct world *w = *state;
	char path[256];

	put(w, "f/a.yaml", SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	path_of(w, "f/a.yaml", path, sizeof(path));
	assert_int_equal(truncate(path, (off_t)FILES_FILE_MAX + 1), 0);
	put(w, "f/b.yaml", SERVICE("b", "1"));
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1");
	expect_problems(w, ""); /* truncate(2) causes no close event; the next write does */
	put(w, "f/b.yaml", SERVICE("b", "2"));
	assert_int_equal(chmod(path, 0600), 0);
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 2");
	{
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(close(fd), 0);
	}
	expect_problems(w, "a.yaml:0: has 256 MiB, at most 256 are read; its last content stays\n");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 2");
	put(w, "f/a.yaml", SERVICE("a", "3"));
	expect_model(w, "x/a 10.96.0.1 3; x/b 10.96.0.1 2");
}

/* Root can read every file; a child of the test drops the capability. */
static void test_no_permission(void **state)
{
	struct world *w = *state;
	char path[256];
	pid_t pid;
	int status;

	put(w, "f/a.yaml", SERVICE("a", "1"));
	put(w, "f/b.yaml", SERVICE("b", "1"));
	path_of(w, "f/b.yaml", path, sizeof(path));
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(chmod(w->dir, 0755), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (getuid() == 0 && setuid(65534) != 0)
			_exit(3);
		world_open(w, "f");
		expect_model(w, "x/a 10.96.0.1 1");
		expect_problems(w, "b.yaml:0: Permission denied; no good version of it is known\n");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A file that cannot be examined in a scan is not a deleted one. */
static void test_failing_disk(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", SERVICE("a", "1"));
	put(w, "f/b.yaml", SERVICE("b", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1; x/b 10.96.0.1 1");
	failing_name = "b.yaml";
	files_read_again(w->files);
	put(w, "f/a.yaml", SERVICE("a", "2"));
	expect_model(w, "x/a 10.96.0.1 2; x/b 10.96.0.1 1");
	expect_problems(w, "b.yaml:0: Input/output error; its last content stays\n");
	failing_name = NULL;
	files_read_again(w->files);
	expect_problems(w, "");
	expect_model(w, "x/a 10.96.0.1 2; x/b 10.96.0.1 1");
}

static void test_names_and_texts_are_clean(void **state)
{
	struct world *w = *state;

	put(w, "f/a\033[2Jb\n.yaml", SERVICE("a", "'\"\\e[31m\\n\"'"));
	put(w, "f/c.yaml", SERVICE("a", "\"\\e[31m\\n\""));
	world_open(w, "f");
	expect_problems(
		w,
		"a?[2Jb?.yaml:7: Service x/a: spec.ports[0].port: '\"\\e[31m\\n\"' is "
		"not a number from 1 to 65535; no good version of it is known\n"
		"c.yaml:7: Service x/a: spec.ports[0].port: '?[31m?' is not a number from 1 to 65535; "
		"no good version of it is known\n");
}

static void test_other_kinds(void **state)
{
	struct world *w = *state;

	put(w, "f/a.yaml", "apiVersion: apps/v1\nkind: Deployment\n" SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	expect_problems(w, "a.yaml:0: note: 1 object of a kind that is not read: "
			   "Deployment\n");
	put(w, "f/a.yaml", "apiVersion: apps/v1\nkind: Deployment\n" SERVICE("a", "2"));
	expect_model(w, "x/a 10.96.0.1 2");
	expect_problems(w, "a.yaml:0: note: 1 object of a kind that is not read: "
			   "Deployment\n");
}

/* More changes than the kernel's queue: the whole folder is scanned. */
static void test_overflow(void **state)
{
	struct world *w = *state;
	struct str want = { 0 };
	unsigned long max = 16384;
	FILE *f;

	f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	if (f != NULL) {
		assert_int_equal(fscanf(f, "%lu", &max), 1);
		(void)fclose(f);
	}
	if (max > 20000)
		skip();
	put(w, "f/a.yaml", SERVICE("a", "1"));
	world_open(w, "f");
	expect_model(w, "x/a 10.96.0.1 1");
	put(w, "f/.x", "");
	/* Two events each. */
	for (unsigned long i = 0; i < max / 2 + 100; i++)
		move(w, i % 2 ? "f/.y" : "f/.x", i % 2 ? "f/.x" : "f/.y");
	put(w, "f/a.yaml", SERVICE("a", "2"));
	put(w, "f/b.yaml", SERVICE("b", "1"));
	str_puts(&want, "x/a 10.96.0.1 2; x/b 10.96.0.1 1");
	expect_model(w, want.text);
	str_fini(&want);
}

/*
 * A limit of inotify is exhausted, before vipd starts or while it runs: the folder is served, and
 * scanned until there are watches again.
 */
static void test_exhausted(void **state)
{
	struct world *w = *state;

	for (int is_late = 0; is_late < 2; is_late++)
		for (int is_watch = 0; is_watch < 2; is_watch++) {
			bool *limit = is_watch ? &has_no_watch : &has_no_instance;

			if (is_late && !is_watch)
				continue; /* the instance is kept */
			put(w, "f/a.yaml", SERVICE("a", "1"));
			*limit = !is_late;
			world_open(w, "f");
			expect_model(w, "x/a 10.96.0.1 1");
			*limit = true;
			if (is_late) {
				make_dir(w, "g");
				put(w, "g/a.yaml", SERVICE("a", "2"));
				move(w, "f", "old");
				move(w, "g", "f");
			} else {
				put(w, "f/a.yaml", SERVICE("a", "2"));
			}
			n_refused = 0;
			timers_end(w->base);
			assert_true(n_refused > 0);
			expect_model(w, "x/a 10.96.0.1 2");
			expect_problems(w, "");
			*limit = false;
			n_watches = 0;
			timers_end(w->base);
			assert_true(n_watches > 0);
			put(w, "f/a.yaml", SERVICE("a", "3"));
			expect_model(w, "x/a 10.96.0.1 3");
			files_close(TAKE(w->files));
			model_forget(&w->model);
			model_fini(&w->model);
			model_init(&w->model);
			model_configured(&w->model);
			w->n_ready = 0;
		}
}

/* --- anything, in any order ---------------------------------------------------------------------
 */

/* One random change of the folder: eight names, files and links, in place or renamed. */
static void random_change(struct world *w, struct rng *rng)
{
	char name[32];
	char other[32];
	char path[256];
	char text[512];

	(void)snprintf(name, sizeof(name), "f/%c.yaml", (int)('a' + rng_below(rng, 8)));
	(void)snprintf(other, sizeof(other), "f/%c.yaml", (int)('a' + rng_below(rng, 8)));
	(void)snprintf(text, sizeof(text),
		       "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%zu, namespace: x}\n"
		       "spec: {clusterIP: 10.96.0.1, ports: [{port: %zu}]}\n%s",
		       rng_below(rng, 6), 1 + rng_below(rng, 1000),
		       rng_below(rng, 2) ? SERVICE("s0", "5") : SLICE("sl", "s1"));
	path_of(w, name, path, sizeof(path));
	switch (rng_below(rng, 7)) {
	case 0:
	case 1:
		(void)remove(path); /* never write through a link */
		put(w, name, text);
		break;
	case 2:
		put_atomic(w, name, text);
		break;
	case 3:
		(void)remove(path);
		break;
	case 4: {
		char to[256];

		path_of(w, other, to, sizeof(to));
		(void)rename(path, to);
		break;
	}
	case 5:
		put(w, "target", text);
		(void)remove(path);
		make_link(w, "../target", name);
		break;
	case 6: {
		char to[256];

		path_of(w, other, to, sizeof(to));
		if (link(path, to) == -1)
			assert_true(errno == EEXIST || errno == ENOENT);
		break;
	}
	default:
		break;
	}
}

static void fresh_text(struct world *w, struct str *ret)
{
	struct world fresh = { .base = event_base_new() };

	memcpy(fresh.dir, w->dir, sizeof(fresh.dir));
	model_init(&fresh.model);
	model_configured(&fresh.model);
	world_open(&fresh, "f");
	while (fresh.n_ready == 0)
		(void)event_base_loop(fresh.base, EVLOOP_ONCE);
	model_text(ret, &fresh.model);
	files_close(fresh.files);
	event_base_free(fresh.base);
	model_forget(&fresh.model);
	model_fini(&fresh.model);
}

/* After random changes the model equals that of a start on the folder. */
static void test_random(void **state)
{
	struct world *w = *state;
	struct str want = { 0 };
	struct rng rng = { .state = now_ns() };

	print_message("    seed %" PRIu64 "\n", rng.state);
	world_open(w, "f");
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 20; i++) {
			random_change(w, &rng);
			if (rng_below(&rng, 3) == 0)
				(void)event_base_loop(w->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		}
		fresh_text(w, &want);
		expect_model(w, str_text(&want));
	}
	str_fini(&want);
}

/* --- the folder of bad input
 * --------------------------------------------------------------------------------- */

/*
 * tests/data/bad: each file has its problems in NAME.expect. All are in one folder; the valid files
 * show that none affects another.
 */
static void test_bad_folder(void **state)
{
	struct world *w = *state;
	struct dirent **names;
	struct str want = { 0 };
	struct err err;
	int n;

	n = scandir(TESTS_DATA "/bad", &names, NULL, alphasort);
	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		const char *dot = strrchr(names[i]->d_name, '.');

		if (dot != NULL && strcmp(dot, ".expect") == 0) {
			char path[512];

			(void)snprintf(path, sizeof(path), "%s/bad/%s", TESTS_DATA,
				       names[i]->d_name);
			assert_int_equal(file_read(&want, path, SIZE_MAX, NULL), 0);
		}
		free(names[i]);
	}
	free(names);
	{
		struct files_ops ops = world_ops;

		ops.arg = w;
		assert_int_equal(
			files_open(&w->files, w->base, &w->model, TESTS_DATA "/bad", &ops, &err),
			0);
	}
	expect_model(
		w,
		"x/fields 10.96.1.1 80 81 (fields-1:2); x/good 10.96.0.1 80 (good-1:1); x/policy 10.96.1.1; x/protocol 10.96.1.1; "
		"x/type 10.96.1.1; x/unserved - 80");
	expect_problems(w, str_text(&want));
	str_fini(&want);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_missing),
		TEST(test_first),
		TEST(test_changes),
		TEST(test_unchanged),
		TEST(test_move_between_files),
		TEST(test_turns),
		TEST(test_bad_keeps_last_good),
		TEST(test_bad_moves),
		TEST(test_unreadable_keeps_all),
		TEST(test_ignored),
		TEST(test_shadow),
		TEST(test_shadow_lost_version),
		TEST(test_shadow_bad_winner),
		TEST(test_twice_in_a_file),
		TEST(test_many_times_in_a_file),
		TEST(test_many_problems),
		TEST(test_half_written),
		TEST(test_complete),
		TEST(test_complete_many_files),
		TEST(test_complete_unreadable),
		TEST(test_complete_empty),
		TEST(test_strict),
		TEST(test_written_at_start),
		TEST(test_remove_and_create),
		TEST(test_replaced),
		TEST(test_config_map),
		TEST(test_folder_link),
		TEST(test_link_on_the_way),
		TEST(test_file_link),
		TEST(test_link_loop),
		TEST(test_hard_link),
		TEST(test_folder_swapped),
		TEST(test_folder_gone),
		TEST(test_folder_removed),
		TEST(test_not_regular),
		TEST(test_too_large),
		TEST(test_no_permission),
		TEST(test_failing_disk),
		TEST(test_names_and_texts_are_clean),
		TEST(test_other_kinds),
		TEST(test_overflow),
		TEST(test_exhausted),
		TEST(test_random),
		TEST(test_bad_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
