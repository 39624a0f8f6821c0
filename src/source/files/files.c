/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/files - schedule the reading of files.
 *
 * Events put files into a queue; work() reads them, a bounded time in each turn of the loop, and
 * applies all changes to the model when the queue is empty. A slow scan of the whole folder finds
 * changes without events (network file systems) and files that were incomplete.
 */
#include "source/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "source/files/state.h"
#include "source/files/watch.h"

#define TURN_NS (5 * NSEC_PER_MSEC) /* reading time in one turn of the loop */
#define SCAN_MS 30000               /* period of scans of the whole folder */
#define SOON_MS 100     /* first scan while a file is not settled; the delay then grows */
#define SETTLE_MS 50    /* before ready(): wait for a file that is being written, ... */
#define SETTLE_TRIES 20 /* ... at most this number of times */
#define YOUNG_NS (100 * NSEC_PER_MSEC) /* a younger file may still be written */
/* A file that is open for writing is put off until nothing was written for WRITER_NS ... */
#define WRITER_NS (30 * NSEC_PER_SEC)
#define WRITER_MAX_NS (300 * NSEC_PER_SEC) /* ... at most for this time in all */
#define RACY_NS (20 * NSEC_PER_MSEC) /* two writes within this time may have equal time stamps */
/* Git and editors remove a file and create it again: a missing one is removed after this time. */
#define MISSING_NS (300 * NSEC_PER_MSEC)

#define TRIM_BYTES (1U << 20) /* parsed bytes after which memory is returned */

enum scan_why {
	SCAN_CHANGED,   /* existing files are complete; also the first scan */
	SCAN_TIMER,     /* files may be half written */
	SCAN_REQUESTED, /* read every file, even with an equal stamp */
};

struct files {
	struct files_ops ops;
	struct model *model;
	struct state *state;
	struct watch *watch;
	struct event *work;
	struct event *timer;
	char *path;
	struct list dirty;   /* of struct file: to be read */
	struct list missing; /* of struct file, by time */
	uint64_t key[2];
	uint64_t event_ns; /* arrival of the oldest event not yet applied; 0: none */
	/* The file being read. */
	struct file *file;
	struct manifest *manifest;
	int fd;
	struct file_stamp stamp;
	uint64_t read_bytes;
	bool is_ready;
	bool is_complete;  /* files_are_complete() */
	bool is_unsettled; /* a file was half written */
	bool needs_soon;   /* another fault may end without an event */
	bool is_soon;      /* the timer runs for less than SCAN_MS */
	unsigned int soon_ms;
	unsigned int tries;
	char *failure; /* of the folder, or NULL */
	uint64_t n_reads;
	uint64_t n_parsed;
	uint64_t parsed_bytes; /* since memory was last returned */
};

/* --- names and stamps ------------------------------------------------------------ */

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name);
	size_t k = strlen(suffix);

	return n > k && strcmp(name + n - k, suffix) == 0;
}

static bool is_manifest_name(const char *name)
{
	return name[0] != '.' && name[0] != '#' &&
	       (has_suffix(name, ".yaml") || has_suffix(name, ".yml") || has_suffix(name, ".json"));
}

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * (int64_t)NSEC_PER_SEC + t->tv_nsec;
}

static struct file_stamp stamp_of(const struct stat *st)
{
	return (struct file_stamp){ .dev = st->st_dev,
				    .ino = st->st_ino,
				    .size = (uint64_t)st->st_size,
				    .mtime_ns = ns_of(&st->st_mtim),
				    .ctime_ns = ns_of(&st->st_ctim) };
}

/* Was it written less than `age_ns` ago, by the clock that file times come from? */
static bool is_younger(const struct file_stamp *s, uint64_t age_ns)
{
	int64_t age = wall_now_ns() - s->mtime_ns;

	return age >= 0 && (uint64_t)age < age_ns;
}

/* --- the queue --------------------------------------------------------------------- */

static void event_note(struct files *fs)
{
	if (fs->event_ns == 0)
		fs->event_ns = now_ns();
}

static void reading_stop(struct files *fs)
{
	manifest_close(TAKE(fs->manifest));
	if (fs->fd >= 0)
		close(fs->fd);
	fs->fd = -1;
	fs->file = NULL;
}

/* There was an event of `f`: discard a reading in progress. */
static void reading_discard(struct files *fs, const struct file *f)
{
	event_note(fs);
	if (fs->file == f)
		reading_stop(fs);
}

static void drop(struct files *fs, struct file *f)
{
	reading_discard(fs, f);
	state_file_gone(fs->state, f);
}

/* `f` is missing. Versions of its objects in other files count from now on. */
static void mark_missing(struct files *fs, struct file *f)
{
	reading_discard(fs, f);
	f->missing_ns = now_ns();
	list_move_tail(&fs->missing, &f->missing);
	state_file_recheck(fs->state, f);
}

static void mark_found(struct files *fs, struct file *f)
{
	if (!list_is_linked(&f->missing))
		return;
	list_del(&f->missing);
	state_file_recheck(fs->state, f);
}

/* Does the name lead to no file? */
static bool is_missing(const struct files *fs, const char *name)
{
	struct stat st;

	if (watch_dir(fs->watch) < 0)
		return true;
	if (fstatat(watch_dir(fs->watch), name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT;
	return S_ISDIR(st.st_mode);
}

/* Remove files that are missing for MISSING_NS. If one exists again, its own event follows. */
static void missing_drop(struct files *fs)
{
	while (!list_is_empty(&fs->missing)) {
		struct file *f = list_entry(fs->missing.next, struct file, missing);
		uint64_t now = now_ns();

		if (now < f->missing_ns + MISSING_NS) {
			event_after(fs->work, f->missing_ns + MISSING_NS - now);
			return;
		}
		if (is_missing(fs, f->name))
			drop(fs, f);
		else
			mark_found(fs, f);
	}
}

/* There may be a new version of `f`. */
static void refresh(struct files *fs, struct file *f)
{
	reading_discard(fs, f);
	if (!list_is_linked(&f->dirty))
		list_add_tail(&fs->dirty, &f->dirty);
}

/* --- reading ----------------------------------------------------------------------- */

static ssize_t on_read(void *arg, void *buf, size_t size)
{
	struct files *fs = arg;
	ssize_t n = read(fs->fd, buf, size);

	if (n < 0)
		return -errno;
	fs->read_bytes += (uint64_t)n;
	return fs->read_bytes > FILES_FILE_MAX ? -EFBIG : n;
}

static uint32_t on_known(void *arg, uint64_t hash)
{
	struct files *fs = arg;

	return state_unit_known(fs->state, fs->file, hash);
}

static void fail(const struct files *fs, struct file *f, const char *what)
{
	const char *then = f->is_known || f->entries.n > 0 ? "its last content stays"
							   : "no good version of it is known";
	AUTO(free) char *text = xasprintf("%s; %s", what, then);

	state_file_failed(fs->state, f, text);
}

/* 1: regular and not too large; 0: not a manifest; else -errno, and the problem is recorded. */
static int check(const struct files *fs, struct file *f, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return 0;
	if (!S_ISREG(st->st_mode)) {
		fail(fs, f, "is not a regular file");
		return -EINVAL;
	}
	if (st->st_size > (off_t)FILES_FILE_MAX) {
		fail(fs, f,
		     str_local(80, "has %" PRIu64 " MiB, at most %u are read",
			       (uint64_t)st->st_size >> 20, FILES_FILE_MAX >> 20));
		return -EFBIG;
	}
	return 1;
}

/* The file cannot be read. The target of a dangling link may appear soon. */
static void fail_errno(struct files *fs, struct file *f, int error)
{
	if (error == ENOENT && f->is_link) {
		fail(fs, f, "is a link to nothing");
		fs->needs_soon = true;
	} else if (error == ENOENT) {
		mark_missing(fs, f);
	} else {
		fail(fs, f, strerror(error));
	}
}

static void reading_start(struct files *fs, struct file *f)
{
	struct manifest_ops ops = { .read = on_read,
				    .known = on_known,
				    .arg = fs,
				    .key = { fs->key[0], fs->key[1] },
				    .is_json = has_suffix(f->name, ".json"),
				    .is_strict = fs->ops.is_strict };
	int dir = watch_dir(fs->watch);
	struct stat st;
	int r;

	if (dir < 0)
		return; /* the folder does not exist: objects stay */
	/* stat before open: opening a FIFO or a device may have effects. */
	if (fstatat(dir, f->name, &st, 0) == -1) {
		fail_errno(fs, f, errno);
		return;
	}
	r = check(fs, f, &st);
	if (r == 0)
		drop(fs, f);
	if (r != 1)
		return;
	fs->fd = openat(dir, f->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fs->fd == -1 || fstat(fs->fd, &st) == -1) {
		fail_errno(fs, f, errno);
		reading_stop(fs);
		return;
	}
	if (check(fs, f, &st) != 1) {
		reading_stop(fs);
		return;
	}
	fs->file = f;
	fs->stamp = stamp_of(&st);
	fs->read_bytes = 0;
	fs->n_reads++;
	state_reading_begin(fs->state, f);
	manifest_open(&fs->manifest, &ops);
}

/*
 * Does a process have the file open for writing? The kernel then refuses a read lease (fcntl(2)). A
 * process that opens the file during the lease waits until the lease ends; the signal of the lease
 * is ignored. False if the file system does not support leases, or for a file of another user
 * without CAP_LEASE.
 */
static bool has_writer(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) == -1)
		return false;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == -1)
		return errno == EAGAIN;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/* Is the file put off? Before its first good version is known: as long as a process has it open. */
static bool is_being_written(const struct files *fs)
{
	struct file *f = fs->file;

	if (!has_writer(fs->fd))
		return false;
	if (!fs->is_complete && !f->is_known)
		return true;
	if (f->put_off_ns == 0)
		f->put_off_ns = now_ns();
	return is_younger(&fs->stamp, WRITER_NS) && now_ns() - f->put_off_ns < WRITER_MAX_NS;
}

/* The end of the file was reached. Check that the content is one complete version. */
static void reading_done(struct files *fs)
{
	struct file *f = fs->file;
	struct stat st;

	if (is_being_written(fs) || fstat(fs->fd, &st) == -1 ||
	    (uint64_t)st.st_size != fs->stamp.size || ns_of(&st.st_mtim) != fs->stamp.mtime_ns) {
		fs->is_unsettled = true; /* an event follows when its writer closes it */
		reading_stop(fs);
		return;
	}
	f->stamp = fs->stamp;
	f->put_off_ns = 0;
	mark_found(fs, f);
	f->is_racy = is_younger(&f->stamp, RACY_NS);
	vec_for_each (u, &fs->manifest->units)
		fs->n_parsed += u->known == 0;
	fs->parsed_bytes += fs->manifest->parsed_bytes;
	state_file_read(fs->state, f, fs->manifest);
	reading_stop(fs);
}

static void reading_step(struct files *fs)
{
	struct err err;
	int r;

	r = manifest_step(fs->manifest, &err);
	if (r > 0)
		return;
	if (r == 0) {
		reading_done(fs);
		return;
	}
	if (r == -EFBIG)
		(void)err_set(&err, r, "larger than %u MiB, the limit of a file",
			      FILES_FILE_MAX >> 20);
	fs->file->stamp = (struct file_stamp){ 0 };
	fail(fs, fs->file, err.text);
	reading_stop(fs);
}

/* --- turns of the loop --------------------------------------------------------------- */

/* Read queued files until the deadline. True: the queue is empty. */
static bool read_queue(struct files *fs, uint64_t deadline_ns)
{
	while (fs->manifest != NULL || !list_is_empty(&fs->dirty)) {
		if (fs->manifest == NULL) {
			struct file *f = list_entry(fs->dirty.next, struct file, dirty);

			list_del(&f->dirty);
			reading_start(fs, f);
		} else {
			reading_step(fs);
		}
		if (now_ns() >= deadline_ns)
			return false;
	}
	return true;
}

/* Schedule the next scan of the folder; an early one that is scheduled stays. */
static void timer_arm(struct files *fs)
{
	bool needs_soon = fs->is_unsettled || fs->needs_soon || fs->failure != NULL;

	fs->is_unsettled = false;
	fs->needs_soon = false;
	if (needs_soon ? fs->is_soon : event_pending(fs->timer, EV_TIMEOUT, NULL) != 0)
		return;
	fs->is_soon = needs_soon;
	event_after(fs->timer, (needs_soon ? fs->soon_ms : SCAN_MS) * NSEC_PER_MSEC);
	fs->soon_ms = needs_soon ? MIN(2 * fs->soon_ms, (unsigned int)SCAN_MS) : SOON_MS;
}

/* Return freed memory after much parsing. Takes 1 ms, so not while a change is pending */
static void memory_return(struct files *fs)
{
	if (fs->parsed_bytes < TRIM_BYTES)
		return;
	fs->parsed_bytes = 0;
	memory_trim();
}

static bool is_all_known(const struct files *fs, struct str *why)
{
	if (fs->failure != NULL)
		str_puts(why, fs->failure);
	return fs->failure == NULL && state_is_complete(fs->state, why);
}

/* The queue is empty, and changes are applied. */
static void settle(struct files *fs, bool is_changed)
{
	FINI(str_fini) struct str why = { 0 };

	if (!fs->is_ready && fs->is_unsettled && fs->tries++ < SETTLE_TRIES) {
		event_after(fs->timer, SETTLE_MS * NSEC_PER_MSEC);
		return;
	}
	timer_arm(fs);
	fs->event_ns = 0;
	if (!fs->is_complete && is_all_known(fs, &why)) {
		fs->is_complete = true;
		is_changed = true;
	}
	/* Objects that are not known may have the ranges that the kernel has. */
	(void)model_await_service_cidrs(fs->model, !fs->is_complete, now_ns());
	if (!fs->is_ready) {
		fs->is_ready = true;
		memory_return(fs);
		fs->ops.ready(fs->ops.arg);
	} else if (is_changed) {
		fs->ops.changed(fs->ops.arg);
	}
}

/* Also the end of a batch of events. */
static void work(void *arg)
{
	struct files *fs = arg;
	bool is_empty = read_queue(fs, now_ns() + TURN_NS);

	missing_drop(fs);
	if (is_empty)
		settle(fs, state_apply(fs->state, fs->event_ns ? fs->event_ns : now_ns()));
	else
		event_after(fs->work, 0); /* event_active() would call it in this turn */
}

static void on_work(evutil_socket_t fd, short what, void *arg)
{
	work(arg);
}

/* --- the folder ----------------------------------------------------------------------- */

static void folder_failed(struct files *fs, const char *why)
{
	if (why != NULL && (fs->failure == NULL || strcmp(why, fs->failure) != 0))
		log_err(LOG_AREA_SOURCE, "%s; its last content stays", why);
	if (why == NULL && fs->failure != NULL)
		log_notice(LOG_AREA_SOURCE, "folder '%s': recovered", fs->path);
	free(fs->failure);
	fs->failure = why != NULL ? xstrdup(why) : NULL;
}

/* Queue a file of the folder if needed. */
static void consider(struct files *fs, struct file *f, enum scan_why why)
{
	int dir = watch_dir(fs->watch);
	struct file_stamp stamp;
	struct stat st;

	if (fstatat(dir, f->name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
		f->is_link = false;
		fail_errno(fs, f, errno);
		return;
	}
	f->is_link = S_ISLNK(st.st_mode);
	if (f->is_link)
		watch_link(fs->watch, f->name);
	if (f->is_link && fstatat(dir, f->name, &st, 0) == -1) {
		fail_errno(fs, f, errno);
		return;
	}
	stamp = stamp_of(&st);
	if (why != SCAN_REQUESTED && f->failure == NULL && !f->is_racy &&
	    memcmp(&stamp, &f->stamp, sizeof(stamp)) == 0)
		return;
	if (why == SCAN_TIMER && fs->is_ready && is_younger(&stamp, YOUNG_NS))
		fs->is_unsettled = true;
	else
		refresh(fs, f);
}

/* Mark the files that are in the folder, new ones as well. */
static int seen_mark(const struct files *fs, struct err *err)
{
	int fd = openat(watch_dir(fs->watch), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	int r = 0;

	if (d == NULL) {
		r = err_errno(err, "folder '%s'", fs->path);
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (errno = 0; (e = readdir(d)) != NULL; errno = 0)
		if (is_manifest_name(e->d_name) && !is_missing(fs, e->d_name))
			state_file_get(fs->state, e->d_name)->is_seen = true;
	if (errno != 0)
		r = err_errno(err, "folder '%s'", fs->path);
	closedir(d);
	return r;
}

/* In order of names, so that output does not depend on the order of the directory. */
static void files_consider(struct files *fs, enum scan_why why)
{
	size_t n;
	AUTO(free) struct file **files = state_files(fs->state, &n);

	for (size_t i = 0; i < n; i++) {
		if (files[i]->is_seen)
			consider(fs, files[i], why);
		else if (!list_is_linked(&files[i]->missing))
			mark_missing(fs, files[i]);
		files[i]->is_seen = false;
	}
}

static void scan(struct files *fs, enum scan_why why)
{
	struct err err;

	if (watch_dir(fs->watch) < 0) {
		folder_failed(fs, watch_why(fs->watch));
		return;
	}
	if (seen_mark(fs, &err) < 0) {
		folder_failed(fs, err.text);
		return;
	}
	folder_failed(fs, NULL);
	watch_links_begin(fs->watch);
	files_consider(fs, why);
	watch_links_end(fs->watch);
}

/* --- events ---------------------------------------------------------------------------- */

static void on_name(void *arg, const char *name, enum watch_what what)
{
	struct files *fs = arg;
	struct file *f;

	if (!is_manifest_name(name))
		return;
	f = state_file_find(fs->state, name);
	switch (what) {
	case WATCH_WRITTEN:
		refresh(fs, f ? f : state_file_get(fs->state, name));
		break;
	case WATCH_TOUCHED:
		if (f != NULL && f->failure != NULL)
			refresh(fs, f);
		break;
	case WATCH_GONE:
		if (f != NULL && is_missing(fs, name))
			mark_missing(fs, f);
		break;
	case WATCH_MADE:
		fs->is_unsettled = true; /* if a process writes it, an event follows */
		break;
	}
}

static void on_all(void *arg, bool is_lost)
{
	struct files *fs = arg;

	event_note(fs);
	scan(fs, is_lost ? SCAN_TIMER : SCAN_CHANGED);
	if (is_lost) {
		fs->is_unsettled = true;
		fs->soon_ms = SOON_MS;
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct files *fs = arg;

	fs->is_soon = false;
	fs->is_unsettled = false;
	scan(fs, watch_again(fs->watch) ? SCAN_CHANGED : SCAN_TIMER);
	work(fs);
	memory_return(fs);
}

/* --- life -------------------------------------------------------------------------------- */

int files_open(struct files **ret, struct event_base *base, struct model *m, const char *dir,
	       const struct files_ops *ops, struct err *err)
{
	AUTO(files_close) struct files *fs = xcalloc(1, sizeof(*fs));
	struct watch_ops watch_ops = { on_name, on_all, work, fs };
	int r;

	fs->ops = *ops;
	fs->model = m;
	fs->fd = -1;
	fs->soon_ms = SOON_MS;
	fs->path = xstrdup(dir);
	list_init(&fs->dirty);
	list_init(&fs->missing);
	state_open(&fs->state, m);
	if (getrandom(fs->key, sizeof(fs->key), 0) != (ssize_t)sizeof(fs->key))
		return err_errno(err, "random numbers");
	r = watch_open(&fs->watch, base, dir, &watch_ops, err);
	if (r < 0)
		return r;
	fs->work = xtimer_new(base, on_work, fs);
	fs->timer = xtimer_new(base, on_timer, fs);
	scan(fs, SCAN_CHANGED);
	event_active(fs->work, EV_TIMEOUT, 0);
	*ret = TAKE(fs);
	return 0;
}

void files_close(struct files *fs)
{
	if (fs == NULL)
		return;
	reading_stop(fs);
	event_drop(fs->work);
	event_drop(fs->timer);
	watch_close(fs->watch);
	state_close(fs->state);
	free(fs->failure);
	free(fs->path);
	free(fs);
}

void files_read_again(struct files *fs)
{
	event_note(fs);
	(void)watch_again(fs->watch);
	scan(fs, SCAN_REQUESTED);
	event_active(fs->work, EV_TIMEOUT, 0);
}

bool files_are_complete(const struct files *fs, struct str *why)
{
	if (!fs->is_complete && why != NULL && is_all_known(fs, why))
		str_puts(why, "changed files are not read yet");
	return fs->is_complete;
}

bool files_are_none(const struct files *fs)
{
	return state_is_empty(fs->state);
}

void files_problems(const struct files *fs, void (*each)(void *arg, const struct files_problem *p),
		    void *arg)
{
	if (fs->failure != NULL)
		each(arg, &(struct files_problem){ fs->path, 0, true, fs->failure });
	state_problems(fs->state, each, arg);
}

void files_stats(const struct files *fs, struct files_stats *ret)
{
	*ret = (struct files_stats){ .reads = fs->n_reads, .parsed = fs->n_parsed };
	state_stats(fs->state, ret);
	ret->is_failing = fs->failure != NULL;
	ret->errors += ret->is_failing;
}
