/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run_top - top on a terminal, again and again; elsewhere once.
 *
 * Every way out passes by endwin(): signals only say that it is time.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curses.h>

#include "ctl/run.h"
#include "ctl/top.h"
#include "ctl/value.h"

#define BATCH_WIDTH 80
#define BATCH_HEIGHT 24
#define BATCH_WAIT_S 1
#define PERIOD_S_DEFAULT 2

static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
	is_over = 1;
}

static int sample(struct top *t, const struct run *run, struct err *err)
{
	json_t *counts;
	json_t *status;
	int r = client_json(&counts, &run->client, "GET", "/v1/counts", err);

	if (r < 0)
		return r;
	r = client_json(&status, &run->client, "GET", "/v1/status", err);
	if (r < 0) {
		json_decref(counts);
		return r;
	}
	top_feed(t, counts, status);
	return 0;
}

static void screen_draw(struct top *t)
{
	struct str text = { 0 };
	char *rest;
	char *line;
	int y = 0;

	top_lines(&text, t, (size_t)COLS, (size_t)LINES);
	(void)erase();
	rest = text.text;
	while ((line = strsep(&rest, "\n")) != NULL && y < LINES) {
		if (y == 3 || y == LINES - 1)
			(void)attron(A_REVERSE);
		(void)mvaddnstr(y, 0, line, -1);
		(void)attroff(A_REVERSE);
		y++;
	}
	(void)refresh();
	str_fini(&text);
}

static int key_of(int c)
{
	switch (c) {
	case KEY_DOWN:
		return 'j';
	case KEY_UP:
		return 'k';
	case KEY_NPAGE:
		return 'd';
	case KEY_PPAGE:
		return 'u';
	default:
		return c;
	}
}

/* A key shows at once; a new sample is taken when the period is over. */
static int screen_loop(struct top *t, const struct run *run, struct err *err)
{
	unsigned int period_s = run->watch_s > 0 ? run->watch_s : PERIOD_S_DEFAULT;
	uint64_t next = 0;

	while (!is_over) {
		uint64_t now = now_ns();
		int c;

		if (now >= next) {
			int r = sample(t, run, err);

			if (r < 0)
				return r;
			next = now + period_s * NSEC_PER_SEC;
		}
		screen_draw(t);
		timeout((int)((next - MIN(next, now)) / NSEC_PER_MSEC) + 1);
		c = getch();
		if (c != ERR && top_key(t, key_of(c), (size_t)LINES))
			break;
	}
	return 0;
}

static int run_screen(struct top *t, const struct run *run)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct err err;
	int r;

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	if (newterm(NULL, stdout, stdin) == NULL)
		return usage("this terminal (TERM) is unknown; top needs one it can draw on");
	(void)cbreak();
	(void)noecho();
	(void)keypad(stdscr, TRUE);
	(void)curs_set(0);
	r = screen_loop(t, run, &err);
	(void)endwin();
	return r < 0 ? failed(r, &err) : EXIT_FINE;
}

static int run_batch(struct top *t, const struct run *run)
{
	const struct timespec wait = { run->watch_s > 0 ? run->watch_s : BATCH_WAIT_S, 0 };
	struct str out = { 0 };
	struct err err;
	int r = sample(t, run, &err);

	if (r == 0) {
		(void)nanosleep(&wait, NULL);
		r = sample(t, run, &err);
	}
	if (r < 0)
		return failed(r, &err);
	t->is_batch = true;
	top_lines(&out, t, BATCH_WIDTH, BATCH_HEIGHT);
	return out_text(&out, EXIT_FINE);
}

int run_top(const struct run *run)
{
	struct top t = { 0 };
	int code;

	if (run->output == OUTPUT_JSON)
		return usage("top shows a screen; the numbers are in /v1/counts");
	code = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) ? run_screen(&t, run)
							     : run_batch(&t, run);
	top_fini(&t);
	return code;
}
