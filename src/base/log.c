/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log - levels per area, a token bucket per call site, a longer memory for equal texts. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log_out.h"
#include "base/log_record.h"

#define TEXT_MAX 1920
#define TAIL_MAX 128 /* note about suppressed lines */
/* Retry interval for a reader that does not read. */
#define WAIT_MIN_NS (100 * NSEC_PER_MSEC)
#define WAIT_MAX_NS (10 * NSEC_PER_SEC)
#define END_WAIT_MS 200
/* Equal texts have equal hashes; in the table a newer text replaces an older one. */
#define SAME_SLOTS 512 /* a power of two */
#define SAME_WAIT_MIN_NS (60 * NSEC_PER_SEC)
#define SAME_WAIT_MAX_NS (3600 * NSEC_PER_SEC)
#define SAME_FORGET_NS (2 * SAME_WAIT_MAX_NS)

struct same {
	uint64_t hash; /* 0: free */
	uint64_t seen_ns;
	uint64_t next_ns;
	uint64_t wait_ns;
	uint32_t shown;
	uint32_t n_repeats;
};

static enum log_level levels[LOG_AREA_N] = {
	[0 ... LOG_AREA_N - 1] = LOG_LEVEL_NOTICE,
};
static uint64_t counts[LOG_LEVEL_DEBUG + 1];
static uint64_t n_suppressed[LOG_AREA_N];
static struct same sames[SAME_SLOTS];
static struct log_site *pending;
static void (*pending_call)(void *arg, uint64_t wait_ns);
static void *pending_arg;
static enum log_format format;
static uint64_t n_dropped;
static uint64_t n_dropped_logged;
static bool is_waiting; /* lines are queued for standard error */
static uint64_t retry_ns;

static const char *const area_names[LOG_AREA_N] = {
	"main", "source", "model", "plan", "sync", "nl", "plane", "conntrack", "http",
};

static const char *const level_names[LOG_LEVEL_DEBUG + 1] = {
	"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
};

/* Commands that show the content of suppressed lines; NULL: vipctl status. */
static const char *const area_hints[LOG_AREA_N] = {
	[LOG_AREA_SOURCE] = "vipctl status -o json",
	[LOG_AREA_PLAN] = "vipctl svc --state conflict",
	[LOG_AREA_SYNC] = "vipctl svc --state rejected,pending",
};

void log_level_set(enum log_area area, enum log_level level)
{
	levels[area] = level;
}

void log_level_set_all(enum log_level level)
{
	for (int i = 0; i < LOG_AREA_N; i++)
		levels[i] = level;
}

enum log_level log_level_get(enum log_area area)
{
	return levels[area];
}

const char *log_area_text(enum log_area area)
{
	return area_names[area];
}

const char *log_level_text(enum log_level level)
{
	return level_names[level];
}

int log_area_parse(const char *text)
{
	for (int i = 0; i < LOG_AREA_N; i++)
		if (strcmp(text, area_names[i]) == 0)
			return i;
	return -1;
}

int log_level_parse(const char *text)
{
	for (int i = LOG_LEVEL_ERR; i <= LOG_LEVEL_DEBUG; i++)
		if (strcmp(text, level_names[i]) == 0)
			return i;
	return -1;
}

uint64_t log_count(enum log_level level)
{
	return counts[level];
}

uint64_t log_suppressed(enum log_area area)
{
	return n_suppressed[area];
}

/* --- suppressed lines ------------------------------------------------------------- */

static bool bucket_take(struct log_site *site, uint64_t now)
{
	if (site->refill_ns == 0) {
		site->refill_ns = now;
		site->tokens = LOG_BURST;
	}
	while (site->tokens < LOG_BURST && now - site->refill_ns >= NSEC_PER_SEC) {
		site->refill_ns += NSEC_PER_SEC;
		site->tokens++;
	}
	if (site->tokens == LOG_BURST)
		site->refill_ns = now;
	if (site->tokens == 0)
		return false;
	site->tokens--;
	return true;
}

/* May a repeated text be logged again? `n_repeats` is the number of suppressed lines. */
static bool same_take(const char *text, uint64_t now, uint32_t *n_repeats)
{
	uint64_t hash =
		hash_bytes_fixed(text, strlen(text), 0, 0) | 1; /* collisions suppress lines */
	struct same *s = &sames[hash >> 32 & (SAME_SLOTS - 1)];

	*n_repeats = 0;
	if (s->hash != hash || now - s->seen_ns >= SAME_FORGET_NS)
		*s = (struct same){ .hash = hash, .wait_ns = SAME_WAIT_MIN_NS };
	s->seen_ns = now;
	if (s->shown < LOG_SAME) {
		s->shown++;
		s->next_ns = now + s->wait_ns;
		return true;
	}
	if (now < s->next_ns) {
		s->n_repeats++;
		return false;
	}
	*n_repeats = s->n_repeats;
	s->n_repeats = 0;
	s->wait_ns = MIN(s->wait_ns * 2, SAME_WAIT_MAX_NS);
	s->next_ns = now + s->wait_ns;
	return true;
}

static void pending_arm(uint64_t wait_ns)
{
	if (pending_call != NULL)
		pending_call(pending_arg, wait_ns);
}

static void suppress(struct log_site *site, enum log_area area, enum log_level level,
		     const char *text, uint64_t now)
{
	bool is_first = pending == NULL;

	n_suppressed[area]++;
	site->suppressed++;
	if (now - site->last_ns >= SAME_FORGET_NS)
		site->log_wait_ns = 0;
	site->last_ns = now;
	site->area = area;
	site->level = level;
	memcpy(site->sample, text, strnlen(text, sizeof(site->sample) - 1));
	site->sample[strnlen(text, sizeof(site->sample) - 1)] = '\0';
	if (site->is_pending)
		return;
	site->is_pending = true;
	site->next = pending;
	pending = site;
	if (is_first && !is_waiting)
		pending_arm(LOG_QUIET_NS);
}

void log_on_pending(void (*call)(void *arg, uint64_t wait_ns), void *arg)
{
	pending_call = call;
	pending_arg = arg;
}

/* --- lines ------------------------------------------------------------------------ */

void log_format_set(enum log_format to)
{
	format = to;
}

uint64_t log_dropped(void)
{
	return n_dropped;
}

static bool line_put(const struct log_record *rec)
{
	char line[LOG_RECORD_MAX];
	size_t len = format == LOG_FORMAT_JSON ? log_record_json(line, rec)
					       : log_record_text(line, rec, log_out_is_journal());

	return log_out_put(line, len);
}

/* Log the number of dropped lines before the next line. */
static bool dropped_log(void)
{
	char text[128];
	struct log_record rec = { LOG_AREA_MAIN, LOG_LEVEL_WARN, text, "", __FILE__, __LINE__ };

	if (n_dropped == n_dropped_logged)
		return true;
	if (!log_out_flush())
		return false;
	(void)snprintf(text, sizeof(text),
		       "log: %llu lines dropped: standard error did not take them",
		       (unsigned long long)(n_dropped - n_dropped_logged));
	if (!line_put(&rec))
		return false;
	n_dropped_logged = n_dropped;
	return true;
}

static void line_write(const struct log_record *rec)
{
	bool was_waiting = is_waiting;

	if (!dropped_log() || !line_put(rec))
		n_dropped++;
	is_waiting = !log_out_flush();
	if (is_waiting && !was_waiting) {
		retry_ns = WAIT_MIN_NS;
		pending_arm(retry_ns);
	}
}

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
{
	char text[TEXT_MAX];
	char tail[TAIL_MAX] = "";
	uint32_t same = 0;
	uint64_t now;
	va_list ap;

	if (level > levels[area])
		return;
	counts[level]++;
	now = now_ns();
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if ((level <= LOG_LEVEL_NOTICE && !same_take(text, now, &same)) ||
	    !bucket_take(site, now)) {
		suppress(site, area, level, text, now);
		return;
	}
	if (same > 0) {
		(void)snprintf(tail, sizeof(tail), " (the same %u more times since)", same);
		site->suppressed -= MIN(site->suppressed, same);
	} else if (site->suppressed > 0) {
		(void)snprintf(tail, sizeof(tail), " (%u like it not shown)", site->suppressed);
		site->suppressed = 0;
	}
	line_write(&(struct log_record){ area, level, text, tail, site->file, site->line });
}

static uint64_t site_due(const struct log_site *site)
{
	return MAX(site->last_ns + LOG_QUIET_NS, site->logged_ns + site->log_wait_ns);
}

static void site_log(struct log_site *site, uint64_t now)
{
	char text[sizeof(site->sample) + 256];

	if (site->suppressed == 0)
		return;
	site->logged_ns = now;
	site->log_wait_ns = MIN(MAX(site->log_wait_ns * 2, SAME_WAIT_MIN_NS), SAME_WAIT_MAX_NS);
	(void)snprintf(text, sizeof(text), "%u more line%s like \"%s%s\" not shown: see %s",
		       site->suppressed, site->suppressed == 1 ? "" : "s", site->sample,
		       strlen(site->sample) == sizeof(site->sample) - 1 ? "..." : "",
		       area_hints[site->area] ? area_hints[site->area] : "vipctl status");
	line_write(
		&(struct log_record){ site->area, site->level, text, "", site->file, site->line });
	site->suppressed = 0;
}

/* Time of the next attempt; 0: none. */
static uint64_t out_tick(uint64_t now)
{
	if (!is_waiting)
		return 0;
	is_waiting = !log_out_flush() || !dropped_log() || !log_out_flush();
	retry_ns = MIN(retry_ns * 2, WAIT_MAX_NS);
	return is_waiting ? now + retry_ns : 0;
}

void log_end(void)
{
	(void)log_tick(UINT64_MAX);
	log_out_drain(END_WAIT_MS);
	(void)dropped_log();
}

uint64_t log_tick(uint64_t now)
{
	struct log_site **link = &pending;
	uint64_t next = out_tick(now);

	while (*link != NULL) {
		struct log_site *site = *link;
		uint64_t due = site_due(site);

		if (site->suppressed == 0 || now >= due) {
			site_log(site, now);
			*link = site->next;
			site->is_pending = false;
			continue;
		}
		next = next == 0 ? due : MIN(next, due);
		link = &site->next;
	}
	return next;
}
