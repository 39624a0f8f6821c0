/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run_top - `vipctl top`: repeated on a terminal, once elsewhere.
 *
 * The screen is drawn with the control sequences of ECMA-48, which every terminal in use has. Every
 * way out passes screen_end(): signals are blocked except while the program waits for a key.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "ctl/run.h"
#include "ctl/top.h"

#define BATCH_WIDTH 80
#define BATCH_HEIGHT 24
#define BATCH_WAIT_S 1
#define PERIOD_S_DEFAULT 2

/* Enter the alternate screen and hide the cursor; undo both. */
#define SCREEN_BEGIN "\033[?1049h\033[?25l"
#define SCREEN_END "\033[?25h\033[?1049l"
#define LINE_BEGIN "\033[%d;1H\033[K"
#define REVERSE_BEGIN "\033[7m"
#define REVERSE_END "\033[0m"

static volatile sig_atomic_t signal_got; /* the last one; 0: none */

static void on_signal(int number)
{
	signal_got = number;
}

static int sample(struct top *t, const struct run *run, struct err *err)
{
	json_auto_t *counts = NULL;
	json_t *status;
	int r = client_json(&counts, &run->client, "GET", "/v1/counts", err);

	if (r == 0)
		r = client_json(&status, &run->client, "GET", "/v1/status", err);
	if (r == 0)
		top_feed(t, TAKE(counts), status);
	return r;
}

/* --- the terminal --- */

static void screen_begin(const struct termios *before)
{
	struct termios keys = *before;

	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_cc[VMIN] = 1;
	keys.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
	(void)fputs(SCREEN_BEGIN, stdout);
}

static void screen_end(const struct termios *before)
{
	(void)fputs(SCREEN_END, stdout);
	(void)fflush(stdout);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, before);
}

static void screen_draw(struct top *t, const struct winsize *size)
{
	FINI(str_fini) struct str text = { 0 };
	char *rest;
	char *line;
	int y = 0;

	top_lines(&text, t, size->ws_col, size->ws_row);
	rest = text.text;
	while ((line = strsep(&rest, "\n")) != NULL && y < size->ws_row) {
		bool is_reverse = y == 3 || y == size->ws_row - 1;

		(void)printf(LINE_BEGIN "%s%s%s", ++y, is_reverse ? REVERSE_BEGIN : "", line,
			     is_reverse ? REVERSE_END : "");
	}
	(void)fputs("\033[J", stdout);
	(void)fflush(stdout);
}

/* Take the keys that were pressed. True: quit, or the terminal is gone. */
static bool keys_take(struct top *t, size_t height)
{
	static const char *const sequences[] = { "\033[A", "\033OA",  "\033[B",
						 "\033OB", "\033[5~", "\033[6~" };
	static const char keys[] = "kkjjud"; /* of arrows up and down, page up and down */
	char text[64];
	ssize_t n = read(STDIN_FILENO, text, sizeof(text) - 1);
	bool is_over = n <= 0;

	text[MAX(n, 0)] = '\0';
	for (const char *p = text; *p != '\0' && !is_over; p++) {
		int key = *p;

		for (size_t i = 0; i < ARRAY_SIZE(sequences); i++)
			if (strncmp(p, sequences[i], strlen(sequences[i])) == 0) {
				p += strlen(sequences[i]) - 1;
				key = keys[i];
				break;
			}
		is_over = top_key(t, key, height);
	}
	return is_over;
}

/* A key shows at once; a new sample is taken when the period is over. */
static int screen_loop(struct top *t, const struct run *run, const struct termios *before,
		       const sigset_t *mask, struct err *err)
{
	unsigned int period_s = run->watch_s > 0 ? run->watch_s : PERIOD_S_DEFAULT;
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	struct winsize size = { 0 };
	uint64_t next = 0;

	while (signal_got == 0 || signal_got == SIGTSTP || signal_got == SIGWINCH) {
		uint64_t now = now_ns();
		struct timespec left;

		if (signal_got == SIGTSTP) {
			screen_end(before);
			(void)raise(SIGSTOP);
			screen_begin(before);
		}
		signal_got = 0;
		if (now >= next) {
			int r = sample(t, run, err);

			if (r < 0)
				return r;
			next = now + period_s * NSEC_PER_SEC;
		}
		if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0)
			size = (struct winsize){ .ws_row = BATCH_HEIGHT, .ws_col = BATCH_WIDTH };
		screen_draw(t, &size);
		left = (struct timespec){ (time_t)((next - now) / NSEC_PER_SEC),
					  (long)((next - now) % NSEC_PER_SEC) };
		if (ppoll(&keys, 1, &left, mask) > 0 && keys_take(t, size.ws_row))
			break;
	}
	return 0;
}

static int run_screen(struct top *t, const struct run *run)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH };
	struct sigaction action = { .sa_handler = on_signal };
	const char *term = getenv("TERM");
	struct termios before;
	sigset_t mask;
	sigset_t set;
	struct err err;
	int r;

	if (term == NULL || strcmp(term, "dumb") == 0 || tcgetattr(STDIN_FILENO, &before) < 0)
		return usage("top needs a terminal it can draw on; TERM is '%s'", term ? term : "");
	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)sigaddset(&set, numbers[i]);
		(void)sigaction(numbers[i], &action, NULL);
	}
	(void)sigprocmask(SIG_BLOCK, &set, &mask);
	screen_begin(&before);
	r = screen_loop(t, run, &before, &mask, &err);
	screen_end(&before);
	return r < 0 ? failed(r, &err) : EXIT_FINE;
}

static int run_batch(struct top *t, const struct run *run)
{
	struct str out = { 0 };
	struct err err;
	int r = sample(t, run, &err);

	if (r == 0) {
		(void)sleep(run->watch_s > 0 ? run->watch_s : BATCH_WAIT_S);
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
	FINI(top_fini) struct top t = { 0 };

	return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) ? run_screen(&t, run)
							     : run_batch(&t, run);
}
