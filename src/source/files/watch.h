/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/watch - changes of a folder and of the path to it.
 *
 * Watches the folder, every folder on its path (a symbolic link may change, a part may be renamed
 * or created again), and the targets of links in the folder. Events are hints: the listener
 * reads the file system. If the kernel lost events, or names do not say what changed, all() asks
 * for a full scan.
 *
 * Names are delivered while queued events are read; then all(), and done() ends the batch. While a
 * limit of inotify is exhausted, all() is called every 30 s, as after lost events.
 *
 * Kernel: inotify(7).
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct event_base;
struct watch;

enum watch_what {
	WATCH_WRITTEN, /* closed by its writer, or renamed into place */
	WATCH_TOUCHED, /* mode or owner may have changed */
	WATCH_GONE,    /* removed or renamed; another file may have the name now */
	WATCH_MADE,    /* created; a process may still write to it */
};

struct watch_ops {
	void (*name)(void *arg, const char *name, enum watch_what what);
	/* Scan everything. `is_lost`: events were lost, so files may be half written. */
	void (*all)(void *arg, bool is_lost);
	void (*done)(void *arg);
	void *arg;
};

/* -errno: `path` is not a folder, or watching it is not permitted. `path` is copied. */
MUST_USE int watch_open(struct watch **ret, struct event_base *base, const char *path,
			const struct watch_ops *ops, struct err *err);
void watch_close(struct watch *w);
DEFINE_AUTO(struct watch *, watch_close);

/* The folder, for openat(2); -1 while it does not exist. */
int watch_dir(const struct watch *w);
/* The reason why watch_dir() is -1. */
const char *watch_why(const struct watch *w);
/* Resolve the path again. True if the folder has changed or disappeared. */
bool watch_again(struct watch *w);

/* Call watch_link() for every link between these two. end() removes watches of other targets. */
void watch_links_begin(struct watch *w);
void watch_link(struct watch *w, const char *name);
void watch_links_end(struct watch *w);
