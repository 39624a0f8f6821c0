/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log - levels per area, a token bucket per call site, a longer memory for equal texts. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define LINE_TAIL 128 /* room for what is said about lines that were held back */
/* Equal texts are known by a hash, in a table where a newer text takes an older one's place. */
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
	uint32_t held;
};

static enum log_level levels[LOG_AREA_N] = {
	LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE,
	LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE,
};
static uint64_t counts[LOG_LEVEL_DEBUG + 1];
static uint64_t held_back[LOG_AREA_N];
static struct same sames[SAME_SLOTS];
static struct log_site *pending;
static void (*pending_call)(void *arg);
static void *pending_arg;

static const char *const area_names[LOG_AREA_N] = {
	"main", "source", "model", "plan", "sync", "nl", "plane", "conntrack", "serve",
};

static const char *const level_names[LOG_LEVEL_DEBUG + 1] = {
	"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
};

/* Where to look for what a line of the log would have said. */
static const char *const area_hints[LOG_AREA_N] = {
	[LOG_AREA_MAIN] = "vipctl status",
	[LOG_AREA_SOURCE] = "vipctl status -o json",
	[LOG_AREA_MODEL] = "vipctl status",
	[LOG_AREA_PLAN] = "vipctl svc --state conflict",
	[LOG_AREA_SYNC] = "vipctl svc --state refused,pending",
	[LOG_AREA_NL] = "vipctl status",
	[LOG_AREA_PLANE] = "vipctl status",
	[LOG_AREA_CONNTRACK] = "vipctl status",
	[LOG_AREA_SERVE] = "vipctl status",
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
	return held_back[area];
}

/* --- what is held back ---------------------------------------------------------- */

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

/* FNV-1a: this is no place for an enemy, only for what a line costs. */
static uint64_t text_hash(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return h | 1;
}

/* May a text that was said before be said again? `held` tells how often it was not. */
static bool same_take(const char *text, uint64_t now, uint32_t *held)
{
	uint64_t hash = text_hash(text);
	struct same *s = &sames[hash >> 32 & (SAME_SLOTS - 1)];

	*held = 0;
	if (s->hash != hash || now - s->seen_ns >= SAME_FORGET_NS)
		*s = (struct same){ .hash = hash, .wait_ns = SAME_WAIT_MIN_NS };
	s->seen_ns = now;
	if (s->shown < LOG_SAME) {
		s->shown++;
		s->next_ns = now + s->wait_ns;
		return true;
	}
	if (now < s->next_ns) {
		s->held++;
		return false;
	}
	*held = s->held;
	s->held = 0;
	s->wait_ns = MIN(s->wait_ns * 2, SAME_WAIT_MAX_NS);
	s->next_ns = now + s->wait_ns;
	return true;
}

static void hold_back(struct log_site *site, enum log_area area, enum log_level level,
		      const char *text, uint64_t now)
{
	bool is_first = pending == NULL;

	held_back[area]++;
	site->suppressed++;
	if (now - site->last_ns >= SAME_FORGET_NS)
		site->tell_wait_ns = 0;
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
	if (is_first && pending_call != NULL)
		pending_call(pending_arg);
}

void log_on_pending(void (*call)(void *arg), void *arg)
{
	pending_call = call;
	pending_arg = arg;
}

/* --- lines ------------------------------------------------------------------------ */

/* "<4>" for the journal, time and level for people. */
static int prefix(char *buf, size_t size, enum log_level level)
{
	static int is_journal = -1;
	struct timespec ts;
	struct tm tm;

	if (is_journal == -1)
		is_journal = getenv("JOURNAL_STREAM") != NULL && !isatty(STDERR_FILENO);
	if (is_journal)
		return snprintf(buf, size, "<%d>", (int)level);
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	return snprintf(buf, size, "%02d:%02d:%02d.%03ld %-6s ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			ts.tv_nsec / 1000000, level_names[level]);
}

/* `text` and what is appended to it; one write, so that lines of two processes do not mix. */
static void line_write(enum log_area area, enum log_level level, const char *text, const char *tail)
{
	char line[LINE_MAX_BYTES + 64];
	size_t len = (size_t)prefix(line, sizeof(line), level);

	len += (size_t)snprintf(line + len, sizeof(line) - len, "%s: %s%s", area_names[area], text,
				tail);
	len = MIN(len, sizeof(line) - 1);
	line[len++] = '\n';
	(void)!write(STDERR_FILENO, line, len);
}

/* One event, one line, whatever a name contains. */
static void clean(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20)
			*text = '?';
}

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES - LINE_TAIL];
	char tail[LINE_TAIL] = "";
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
	clean(text);
	if ((level <= LOG_LEVEL_NOTICE && !same_take(text, now, &same)) ||
	    !bucket_take(site, now)) {
		hold_back(site, area, level, text, now);
		return;
	}
	if (same > 0) {
		(void)snprintf(tail, sizeof(tail), " (the same %u more times since)", same);
		site->suppressed -= MIN(site->suppressed, same);
	} else if (site->suppressed > 0) {
		(void)snprintf(tail, sizeof(tail), " (%u like it not shown)", site->suppressed);
		site->suppressed = 0;
	}
	line_write(area, level, text, tail);
}

static uint64_t site_due(const struct log_site *site)
{
	return MAX(site->last_ns + LOG_QUIET_NS, site->told_ns + site->tell_wait_ns);
}

static void site_tell(struct log_site *site, uint64_t now)
{
	char text[sizeof(site->sample) + 256];

	if (site->suppressed == 0)
		return;
	site->told_ns = now;
	site->tell_wait_ns = MIN(MAX(site->tell_wait_ns * 2, SAME_WAIT_MIN_NS), SAME_WAIT_MAX_NS);
	(void)snprintf(text, sizeof(text), "%u more line%s like \"%s%s\" not shown: see %s",
		       site->suppressed, site->suppressed == 1 ? "" : "s", site->sample,
		       strlen(site->sample) == sizeof(site->sample) - 1 ? "..." : "",
		       area_hints[site->area]);
	line_write(site->area, site->level, text, "");
	site->suppressed = 0;
}

uint64_t log_tick(uint64_t now)
{
	struct log_site **link = &pending;
	uint64_t next = 0;

	while (*link != NULL) {
		struct log_site *site = *link;
		uint64_t due = site_due(site);

		if (site->suppressed == 0 || now >= due) {
			site_tell(site, now);
			*link = site->next;
			site->is_pending = false;
			continue;
		}
		next = next == 0 ? due : MIN(next, due);
		link = &site->next;
	}
	return next;
}
