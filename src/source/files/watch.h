/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/watch - what happens to a folder, whatever its name stands for.
 *
 * Watched are the folder itself, every folder on the way to it (so that a link
 * pointed elsewhere, or a part renamed or made again, is noticed), and the
 * targets of links in it. Events only say where to look: the listener looks at
 * the file system itself. When the kernel lost events, or what happened cannot be
 * told from names, the listener is told to look at everything.
 *
 * Events are collected until no more are queued, then told, then done() ends the
 * batch: what belongs together is acted upon together.
 *
 * Kernel: inotify(7).
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct event_base;
struct watch;

enum watch_what {
	WATCH_WRITTEN, /* its writer closed it, or it was put there complete */
	WATCH_TOUCHED, /* its mode or owner may have changed */
	WATCH_GONE,    /* removed or renamed away; another may have its name since */
	WATCH_MADE,    /* by whom is not known, nor whether somebody writes to it */
};

struct watch_ops {
	void (*name)(void *arg, const char *name, enum watch_what what);
	/* `is_lost`: because events were lost, so that files may be half written. */
	void (*all)(void *arg, bool is_lost);
	void (*done)(void *arg);
	void *arg;
};

/* -errno when there is no folder `path`, or no watch for it. `path` is copied. */
MUST_USE int watch_open(struct watch **ret, struct event_base *base, const char *path,
			const struct watch_ops *ops, struct err *err);
void watch_close(struct watch *w);
DEFINE_AUTO(struct watch *, watch_close);

/* The folder, for openat(2); -1 while there is none. */
int watch_dir(const struct watch *w);
/* Why there is none; valid while watch_dir() is -1. */
const char *watch_why(const struct watch *w);
/* Look again what the path stands for. True when that is another folder, or none, since. */
bool watch_again(struct watch *w);

/* Between these two, every link's target is to be named; those that are not are let go. */
void watch_links_begin(struct watch *w);
void watch_link(struct watch *w, const char *name);
void watch_links_end(struct watch *w);
