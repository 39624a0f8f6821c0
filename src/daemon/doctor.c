/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/doctor.h"

#include <string.h>

#include "base/log.h"
#include "base/loop.h"

struct doctor {
	struct check_runs checks;
	struct event *patience;
	struct event *log_timer;
	bool is_settled;
};

/* --- checks --- */

/* Is it a warning or an error of the last report, too? */
static bool is_logged(const json_t *last, const json_t *result)
{
	const json_t *old;
	size_t i;

	json_array_foreach (last, i, old)
		if (strcmp(check_text(old, "check"), check_text(result, "check")) == 0 &&
		    strcmp(check_text(old, "found"), check_text(result, "found")) == 0)
			return check_level(old) >= CHECK_WARNING;
	return false;
}

static void on_checked(void *arg, const json_t *last)
{
	const struct doctor *d = arg;
	json_t *c;
	size_t i;

	json_array_foreach (d->checks.report, i, c) {
		const char *advice = check_text(c, "advice");

		if (check_level(c) >= CHECK_WARNING && !is_logged(last, c))
			log_warn(LOG_AREA_MAIN, "doctor: %s: %s: %s%s%s", check_text(c, "level"),
				 check_text(c, "check"), check_text(c, "found"),
				 advice != NULL ? "; what to do: " : "",
				 advice != NULL ? advice : "");
	}
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct doctor *d = arg;

	check_start(&d->checks);
}

void doctor_settled(struct doctor *d)
{
	if (d->is_settled)
		return;
	d->is_settled = true;
	(void)event_del(d->patience);
	check_start(&d->checks);
}

struct check_runs *doctor_checks(struct doctor *d)
{
	return &d->checks;
}

/* --- the log --- */

static void on_log_pending(void *arg, uint64_t wait_ns)
{
	const struct doctor *d = arg;

	event_after(d->log_timer, wait_ns);
}

static void on_log_timer(evutil_socket_t fd, short what, void *arg)
{
	uint64_t now = now_ns();
	uint64_t next = log_tick(now);

	if (next != 0)
		on_log_pending(arg, next > now ? next - now : 0);
}

/* --- life --- */

void doctor_open(struct doctor **ret, struct event_base *base, const char *plane)
{
	struct doctor *d = xcalloc(1, sizeof(*d));

	d->checks = (struct check_runs){ .base = base,
					 .plane = plane,
					 .clock_offset_ns = check_clock_offset_ns(),
					 .done = on_checked,
					 .arg = d };
	d->patience = xtimer_new(base, on_patience, d);
	d->log_timer = xtimer_new(base, on_log_timer, d);
	event_after(d->patience, DOCTOR_PATIENCE_S * NSEC_PER_SEC);
	log_on_pending(on_log_pending, d);
	*ret = d;
}

void doctor_close(struct doctor *d)
{
	if (d == NULL)
		return;
	log_on_pending(NULL, NULL);
	check_runs_fini(&d->checks);
	event_drop(d->patience);
	event_drop(d->log_timer);
	free(d);
}
