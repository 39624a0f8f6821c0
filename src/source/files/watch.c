/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/watch - inotify on a path that may change.
 *
 * The path is resolved part by part, as the kernel does: each folder is watched before it is read,
 * so no change is missed. A watch belongs to an inode, and a folder may occur in the path twice, so
 * a watch may have several rows.
 */
#include "source/files/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/vec.h"

#define WAY_EVENTS                                                                             \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | \
	 IN_ATTRIB)
#define DIR_EVENTS (WAY_EVENTS | IN_CLOSE_WRITE)
#define LINK_EVENTS (IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

#define LINKS_MAX 40 /* as in the kernel, path_resolution(7) */
#define BLIND_S 30   /* period of scans while a watch is missing */

/* A role of another watch than that of the folder. */
struct row {
	int wd;
	char *name; /* of a part of the path, in that folder; "": target of a link in the folder */
	uint32_t pass; /* the last one in which it was needed */
};

struct watch {
	struct watch_ops ops;
	struct event_base *base;
	struct event *ready;
	struct event *retry; /* pending while a watch is missing */
	bool is_blind;       /* that is logged */
	char *path;
	int inotify; /* or -1 */
	int dir;     /* the folder, or -1 */
	int dir_wd;  /* its watch, or -1 */
	dev_t dev;
	ino_t ino;
	struct err why;
	VEC(struct row) rows;
	uint32_t pass[2]; /* number of renewals: of the path, of the links */
	_Alignas(struct inotify_event) char buf[16384]; /* of events, or of a path */
	/* The current batch. */
	bool is_all;
	bool is_lost;
	bool is_moved; /* a part of the path changed */
};

static void on_ready(evutil_socket_t fd, short what, void *arg);

/* --- watches ------------------------------------------------------------------ */

/* All processes of a user share the limits of inotify: scan until on_retry() gets all watches. */
static void blind(struct watch *w, const char *limit, int error)
{
	if (!w->is_blind)
		log_warn(LOG_AREA_SOURCE,
			 "folder '%s': inotify: %s (see %s); changes are found by a scan every "
			 "%d s; next attempt in %d s",
			 w->path, strerror(error), limit, BLIND_S, BLIND_S);
	w->is_blind = true;
	if (!event_pending(w->retry, EV_TIMEOUT, NULL))
		event_after(w->retry, BLIND_S * NSEC_PER_SEC);
}

/* EBADF: there is no inotify instance. */
static bool is_exhausted(int error)
{
	return error == ENOSPC || error == ENOMEM || error == EBADF;
}

static int instance_open(struct watch *w, struct err *err)
{
	w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->inotify == -1) {
		blind(w, "fs.inotify.max_user_instances", errno);
		return 0;
	}
	w->ready = xevent_new(w->base, w->inotify, EV_READ | EV_PERSIST, on_ready, w);
	if (event_add(w->ready, NULL) < 0)
		return err_set(err, -ENOMEM, "watch '%s': no event", w->path);
	return 0;
}

/* A watch, or -errno. */
static int wd_add(struct watch *w, const char *path, uint32_t events)
{
	int wd = inotify_add_watch(w->inotify, path, events | IN_MASK_ADD);

	if (wd >= 0)
		return wd;
	wd = -errno;
	if (is_exhausted(-wd))
		blind(w, "fs.inotify.max_user_watches", -wd);
	return wd;
}

/* `name` as in struct row. */
static void row_keep(struct watch *w, int wd, const char *name)
{
	struct row *row = vec_find(&w->rows, r, r->wd == wd && strcmp(r->name, name) == 0);

	if (row == NULL) {
		row = vec_push(&w->rows);
		*row = (struct row){ .wd = wd, .name = xstrdup(name) };
	}
	row->pass = w->pass[name[0] == '\0'];
}

static bool wd_is_used(const struct watch *w, int wd)
{
	return wd == w->dir_wd || vec_has(&w->rows, r, r->wd == wd);
}

/* Remove rows, of links or of the path, that this pass did not need, and watches without a row. */
static void rows_sweep(struct watch *w, bool is_link)
{
	size_t n = 0;

	for (size_t i = 0; i < w->rows.n; i++) {
		struct row r = w->rows.v[i];

		if ((r.name[0] == '\0') != is_link || r.pass == w->pass[is_link]) {
			w->rows.v[n++] = r;
			continue;
		}
		/* Other kept rows, and rows not visited yet, may share the watch. */
		w->rows.v[i].wd = -1;
		if (!wd_is_used(w, r.wd))
			(void)inotify_rm_watch(w->inotify, r.wd);
		free(r.name);
	}
	vec_cut(&w->rows, n);
}

/* --- the path ----------------------------------------------------------------- */

/* Watch folder `at` for changes of `name`. Without a watch the timer finds changes. */
static void way_add(struct watch *w, const char *at, const char *name)
{
	int wd = wd_add(w, at, WAY_EVENTS | IN_ONLYDIR);

	if (wd < 0)
		log_debug(LOG_AREA_SOURCE, "%s: no watch: %s", at, strerror(-wd));
	else
		row_keep(w, wd, name);
}

/* `at` is a link, in the folder of its first `at_len` bytes: put the target in front of `ahead`. */
static int link_follow(struct watch *w, struct str *at, size_t at_len, struct str *ahead)
{
	ssize_t n = readlink(at->text, w->buf, sizeof(w->buf));
	struct str next = { 0 };

	if (n < 0)
		return -errno;
	str_printf(&next, "%.*s/%s", (int)n, w->buf, ahead->text);
	str_fini(ahead);
	*ahead = next;
	at->len = w->buf[0] == '/' ? 0 : at_len;
	at->text[at->len] = '\0';
	return 1;
}

/* Resolve one part. `at` is the resolved path ("": the root), `ahead` the rest. 1: more left. */
static int way_step(struct watch *w, struct str *at, struct str *ahead, int *links)
{
	const char *part = str_text(ahead) + strspn(str_text(ahead), "/");
	size_t len = strcspn(part, "/");
	size_t at_len = at->len;
	char name[NAME_MAX + 1];
	struct stat st;

	if (len == 0)
		return 0;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, part, len);
	name[len] = '\0';
	ahead->len = strlen(part + len);
	memmove(ahead->text, part + len, ahead->len + 1);
	if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		way_add(w, at->len > 0 ? at->text : "/", name);
	str_printf(at, "/%s", name);
	if (lstat(at->text, &st) == -1)
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return 1;
	if (++*links > LINKS_MAX)
		return -ELOOP;
	return link_follow(w, at, at_len, ahead);
}

static int way_resolve(struct watch *w, struct str *at)
{
	FINI(str_fini) struct str ahead = { 0 };
	int links = 0;
	int r = 1;

	if (w->path[0] != '/') {
		if (getcwd(w->buf, sizeof(w->buf)) == NULL)
			return -errno;
		str_printf(&ahead, "%s/", w->buf);
	}
	str_puts(&ahead, w->path);
	while (r == 1)
		r = way_step(w, at, &ahead, &links);
	if (at->len == 0)
		str_puts(at, "/");
	return r;
}

/* --- the folder ---------------------------------------------------------------- */

static void dir_close(struct watch *w)
{
	int wd = w->dir_wd;

	if (w->dir >= 0)
		close(w->dir);
	w->dir = -1;
	w->dir_wd = -1;
	if (wd >= 0 && !wd_is_used(w, wd))
		(void)inotify_rm_watch(w->inotify, wd);
}

/* Open `at` as the folder. 1: another folder than before; 0: unchanged. */
static int dir_open(struct watch *w, const char *at, struct err *err)
{
	AUTO(close) int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool is_same;
	int wd;

	if (fd == -1 || fstat(fd, &st) == -1)
		return err_errno(err, "folder '%s'", w->path);
	is_same = w->dir >= 0 && st.st_dev == w->dev && st.st_ino == w->ino && st.st_nlink > 0;
	if (is_same && w->dir_wd >= 0)
		return 0;
	wd = wd_add(w, at, DIR_EVENTS | IN_ONLYDIR);
	if (wd < 0 && !is_exhausted(-wd))
		return err_set(err, wd, "watch '%s': %s", w->path, strerror(-wd));
	if (!is_same) {
		dir_close(w);
		w->dir = fd;
		fd = -1;
	}
	w->dir_wd = MAX(wd, -1);
	w->dev = st.st_dev;
	w->ino = st.st_ino;
	return !is_same;
}

static int renew(struct watch *w, struct err *err)
{
	FINI(str_fini) struct str at = { 0 };
	int r = w->inotify == -1 ? instance_open(w, err) : 0;

	if (r < 0)
		return r;
	w->pass[false]++;
	r = way_resolve(w, &at);
	if (r < 0)
		(void)err_set(err, r, "folder '%s': %s", w->path, strerror(-r));
	else
		r = dir_open(w, str_text(&at), err);
	rows_sweep(w, false);
	return r;
}

bool watch_again(struct watch *w)
{
	bool was_there = w->dir >= 0;
	int r = renew(w, &w->why);

	if (r >= 0)
		return r == 1;
	dir_close(w);
	return was_there;
}

int watch_dir(const struct watch *w)
{
	return w->dir;
}

const char *watch_why(const struct watch *w)
{
	return w->why.text;
}

/* --- links in the folder --------------------------------------------------------- */

void watch_links_begin(struct watch *w)
{
	w->pass[true]++;
}

void watch_link(struct watch *w, const char *name)
{
	FINI(str_fini) struct str path = { 0 };
	int wd;

	if (w->dir < 0)
		return;
	str_printf(&path, "%s/%s", w->path, name);
	wd = wd_add(w, path.text, LINK_EVENTS);
	if (wd >= 0)
		row_keep(w, wd, "");
}

void watch_links_end(struct watch *w)
{
	rows_sweep(w, true);
}

/* --- events ------------------------------------------------------------------------ */

/* A new symbolic link may concern any file; a renamed file, or a new hard link, is complete. */
static void on_appeared(struct watch *w, const struct inotify_event *ev)
{
	struct stat st = { 0 }; /* no file any more: its mode is 0 */

	(void)fstatat(w->dir, ev->name, &st, AT_SYMLINK_NOFOLLOW);
	if (S_ISLNK(st.st_mode))
		w->is_all = true;
	if (ev->mask & IN_MOVED_TO || (S_ISREG(st.st_mode) && st.st_nlink > 1))
		w->ops.name(w->ops.arg, ev->name, WATCH_WRITTEN);
	else if (st.st_mode != 0 && !S_ISLNK(st.st_mode))
		w->ops.name(w->ops.arg, ev->name, WATCH_MADE);
}

static void on_dir_event(struct watch *w, const struct inotify_event *ev)
{
	if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
		w->is_moved = true;
	if (ev->len == 0 || w->dir < 0)
		return;
	if (ev->mask & (IN_MOVED_TO | IN_CREATE))
		on_appeared(w, ev);
	if (ev->mask & IN_CLOSE_WRITE)
		w->ops.name(w->ops.arg, ev->name, WATCH_WRITTEN);
	if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
		w->ops.name(w->ops.arg, ev->name, WATCH_GONE);
	if (ev->mask & IN_ATTRIB)
		w->ops.name(w->ops.arg, ev->name, WATCH_TOUCHED);
}

static void on_event(struct watch *w, const struct inotify_event *ev)
{
	if (ev->mask & IN_Q_OVERFLOW) {
		w->is_lost = true;
		w->is_moved = true;
		return;
	}
	if (ev->wd == w->dir_wd)
		on_dir_event(w, ev);
	vec_for_each (r, &w->rows) {
		if (r->wd != ev->wd)
			continue;
		if (r->name[0] == '\0')
			w->is_all = true;
		else if (ev->len == 0 || strcmp(r->name, ev->name) == 0)
			w->is_moved = true;
	}
}

static void batch_end(struct watch *w)
{
	if (w->is_moved && watch_again(w))
		w->is_all = true;
	if (w->is_all || w->is_lost)
		w->ops.all(w->ops.arg, w->is_lost);
	w->is_all = w->is_lost = w->is_moved = false;
	w->ops.done(w->ops.arg);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	ssize_t n;

	/* Bounded, so that a permanent writer does not starve the loop. */
	for (int i = 0; i < 64; i++) {
		n = read((int)fd, w->buf, sizeof(w->buf));
		if (n <= 0)
			break;
		for (const char *p = w->buf; p < w->buf + n;) {
			const struct inotify_event *ev =
				(const struct inotify_event *)(const void *)p;

			on_event(w, ev);
			p += sizeof(*ev) + ev->len;
		}
	}
	batch_end(w);
}

/* A process that gets no events scans everything, as after lost events. */
static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;

	w->is_moved = w->is_lost = true;
	batch_end(w);
	if (event_pending(w->retry, EV_TIMEOUT, NULL))
		return;
	w->is_blind = false;
	log_notice(LOG_AREA_SOURCE, "folder '%s': inotify: recovered", w->path);
}

/* --- life ---------------------------------------------------------------------------- */

int watch_open(struct watch **ret, struct event_base *base, const char *path,
	       const struct watch_ops *ops, struct err *err)
{
	AUTO(watch_close) struct watch *w = xcalloc(1, sizeof(*w));
	int r;

	w->ops = *ops;
	w->base = base;
	w->path = xstrdup(path);
	w->dir = -1;
	w->dir_wd = -1;
	w->inotify = -1;
	w->retry = xtimer_new(base, on_retry, w);
	r = renew(w, err);
	if (r < 0)
		return r;
	*ret = TAKE(w);
	return 0;
}

void watch_close(struct watch *w)
{
	if (w == NULL)
		return;
	event_drop(w->ready);
	event_drop(w->retry);
	if (w->dir >= 0)
		close(w->dir);
	if (w->inotify >= 0)
		close(w->inotify);
	vec_for_each (r, &w->rows)
		free(r->name);
	vec_fini(&w->rows);
	free(w->path);
	free(w);
}
