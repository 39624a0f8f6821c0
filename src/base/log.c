/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log - levels per area, a token bucket per call site, a longer memory for equal texts. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/str.h"

/* A record has at most PIPE_BUF bytes, so that one write() to a pipe is atomic. */
#define RECORD_MAX 4096
#define VALUE_MAX 1800 /* bytes of one JSON text, escape sequences included: a record has two */
#define QUEUE_MAX (64 * 1024) /* bytes queued for standard error */
#define TEXT_MAX 1920
#define NOTE_MAX 128 /* about suppressed lines, appended to the text */
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
static char queue[QUEUE_MAX]; /* lines that standard error did not take yet */
static size_t queue_len;
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
	[LOG_AREA_SYNC] = "vipctl svc --state conflict,rejected,pending",
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

/* --- records ----------------------------------------------------------------------- */

struct record {
	enum log_area area;
	enum log_level level;
	const char *text;
	const char *file; /* NULL: unknown */
	int line;
};

struct out {
	char *at;
	char *end; /* followed by room for the newline */
};

static void out_add(struct out *o, const char *data, size_t len)
{
	len = MIN(len, (size_t)(o->end - o->at));
	memcpy(o->at, data, len);
	o->at += len;
}

static void out_printf(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void out_printf(struct out *o, const char *fmt, ...)
{
	size_t room = (size_t)(o->end - o->at);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->at, room + 1, fmt, ap);
	va_end(ap);
	o->at += MIN((size_t)MAX(n, 0), room);
}

/* The length of what replaces a character; 0: nothing. */
static size_t escape(char ret[static 8], int32_t c)
{
	bool is_control = str_is_control(c);
	int n = 0;

	if (format == LOG_FORMAT_TEXT && is_control)
		n = snprintf(ret, 8, "?");
	else if (format == LOG_FORMAT_JSON && is_control)
		n = snprintf(ret, 8, "\\u%04x", c < 0 ? 0xfffd : (unsigned int)c);
	else if (format == LOG_FORMAT_JSON && (c == '"' || c == '\\'))
		n = snprintf(ret, 8, "\\%c", c);
	return (size_t)n;
}

/* A character that does not fit before `end` ends the text. */
static void text_put(struct out *o, const char *text, const char *end)
{
	char buf[8];
	size_t len;

	for (; *text != '\0'; text += len) {
		size_t n = escape(buf, str_char(text, &len));
		const char *data = n > 0 ? buf : text;

		n = n > 0 ? n : len;
		if (n > (size_t)(end - o->at))
			return;
		out_add(o, data, n);
	}
}

static void json_member(struct out *o, const char *key, const char *text)
{
	out_printf(o, ",\"%s\":\"", key);
	text_put(o, text, o->at + VALUE_MAX);
	out_add(o, "\"", 1);
}

/* "http/http.c" of "../src/http/http.c". */
static const char *short_path(const char *path)
{
	const char *at = path + strlen(path);

	for (int slashes = 0; at > path; at--)
		if (at[-1] == '/' && ++slashes == 2)
			break;
	return at;
}

/* "<4>area: text" for the journal, else with time and level. */
static void record_text(struct out *o, const struct record *rec, bool is_journal)
{
	struct timespec ts;
	struct tm tm;

	if (is_journal) {
		out_printf(o, "<%d>", (int)rec->level);
	} else {
		clock_gettime(CLOCK_REALTIME, &ts);
		gmtime_r(&ts.tv_sec, &tm);
		out_printf(o, "%02d:%02d:%02d.%03ld %-6s ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			   ts.tv_nsec / 1000000, log_level_text(rec->level));
	}
	out_printf(o, "%s: ", log_area_text(rec->area));
	text_put(o, rec->text, o->end);
}

/* The -v of a level. */
static int verbosity(enum log_level level)
{
	return level >= LOG_LEVEL_DEBUG ? 4 : level >= LOG_LEVEL_INFO ? 2 : 0;
}

/*
 * The fields of Kubernetes' JSON log format: ts (Unix time in ms), logger (the area), caller,
 * msg, v (not of an error), err (of an error); and level, which that format lacks.
 */
static void record_json(struct out *o, const struct record *rec)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	out_printf(o, "{\"ts\":%lld%03ld.%03ld,\"logger\":\"%s\"", (long long)ts.tv_sec,
		   ts.tv_nsec / 1000000, ts.tv_nsec / 1000 % 1000, log_area_text(rec->area));
	if (rec->file != NULL)
		out_printf(o, ",\"caller\":\"%s:%d\"", short_path(rec->file), rec->line);
	json_member(o, "msg", rec->text);
	if (rec->level <= LOG_LEVEL_ERR)
		json_member(o, "err", rec->text);
	else
		out_printf(o, ",\"v\":%d", verbosity(rec->level));
	out_printf(o, ",\"level\":\"%s\"}", log_level_text(rec->level));
}

/* --- standard error ---------------------------------------------------------------- */

/*
 * Lines are written without waiting for the reader. Other processes share standard error, so
 * O_NONBLOCK is not set on it. A socket (the journal's) gets MSG_DONTWAIT. A pipe or a terminal is
 * opened again, for a file description of our own, or polled before each write if that is not
 * permitted. A file is written directly: its offset is shared.
 */
static int own_fd = -1; /* standard error, opened again */

/*
 * `st` is the status of standard error, which may be another file than at the last call (dup2()).
 * In a forked child own_fd may be closed or reused: it is then replaced without close().
 */
static int own_fd_get(const struct stat *st)
{
	struct stat own;

	if (own_fd >= 0 && fstat(own_fd, &own) == 0 && own.st_dev == st->st_dev &&
	    own.st_ino == st->st_ino)
		return own_fd;
	own_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own_fd;
}

/* Like write(), without waiting. */
static ssize_t out_write(const char *data, size_t len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct stat st;
	int fd;

	if (fstat(STDERR_FILENO, &st) < 0)
		return -1;
	if (S_ISSOCK(st.st_mode))
		return send(STDERR_FILENO, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return write(STDERR_FILENO, data, len);
	fd = own_fd_get(&st);
	if (fd >= 0)
		return write(fd, data, len);
	if (poll(&p, 1, 0) == 1)
		return write(STDERR_FILENO, data, len);
	errno = EAGAIN;
	return -1;
}

/* Number of bytes written of a line, or of the rest of a line. */
static size_t out_line(const char *line, size_t len)
{
	size_t at = 0;
	ssize_t n;

	do {
		n = out_write(line + at, len - at);
		if (n > 0)
			at += (size_t)n;
	} while (at < len && (n > 0 || (n < 0 && errno == EINTR)));
	return at;
}

/* Write the queue. True: it is empty. */
static bool out_flush(void)
{
	size_t at = 0;

	while (at < queue_len) { /* line by line: lines of two processes do not mix */
		const char *line = queue + at;
		const char *end = memchr(line, '\n', queue_len - at);
		size_t len = end ? (size_t)(end - line) + 1 : queue_len - at;
		size_t n = out_line(line, len);

		at += n;
		if (n < len)
			break;
	}
	queue_len -= at;
	memmove(queue, queue + at, queue_len);
	return queue_len == 0;
}

/* Write one line, its newline included, or queue it. False: the queue is full, the line is lost. */
static bool out_put(const char *line, size_t len)
{
	size_t n = out_flush() ? out_line(line, len) : 0;

	if (n == len)
		return true;
	if (queue_len + len - n > sizeof(queue))
		return false;
	memcpy(queue + queue_len, line + n, len - n);
	queue_len += len - n;
	return true;
}

/* Flush, waiting at most `ms` for the reader. Called at exit. */
static void out_drain(int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * NSEC_PER_MSEC;
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	while (!out_flush()) {
		uint64_t now = now_ns();

		if (errno != EAGAIN || now >= end ||
		    poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) != 1)
			return;
	}
}

/* Is standard error the stream that JOURNAL_STREAM names (systemd.exec(5))? */
static bool out_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev;
	unsigned long long ino;
	struct stat st;

	return text != NULL && sscanf(text, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

/* --- suppressed lines ------------------------------------------------------------- */

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
	(void)snprintf(site->sample, sizeof(site->sample), "%s", text);
	if (site->is_pending)
		return;
	site->is_pending = true;
	site->next = pending;
	pending = site;
	if (is_first && queue_len == 0)
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

static bool line_put(const struct record *rec)
{
	char line[RECORD_MAX];
	struct out o = { line, line + sizeof(line) - 1 };

	if (format == LOG_FORMAT_JSON)
		record_json(&o, rec);
	else
		record_text(&o, rec, out_is_journal());
	*o.at++ = '\n';
	return out_put(line, (size_t)(o.at - line));
}

/* Log the number of dropped lines before the next line. */
static bool dropped_log(void)
{
	char text[128];
	struct record rec = { LOG_AREA_MAIN, LOG_LEVEL_WARN, text, __FILE__, __LINE__ };

	if (n_dropped == n_dropped_logged)
		return true;
	if (!out_flush())
		return false;
	(void)snprintf(text, sizeof(text),
		       "log: %llu lines dropped: standard error did not take them",
		       (unsigned long long)(n_dropped - n_dropped_logged));
	if (!line_put(&rec))
		return false;
	n_dropped_logged = n_dropped;
	return true;
}

static void line_write(const struct record *rec)
{
	bool was_waiting = queue_len > 0;

	if (!dropped_log() || !line_put(rec))
		n_dropped++;
	if (!out_flush() && !was_waiting) {
		retry_ns = WAIT_MIN_NS;
		pending_arm(retry_ns);
	}
}

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
{
	char text[TEXT_MAX + NOTE_MAX];
	uint32_t same = 0;
	char *note;
	uint64_t now;
	va_list ap;

	if (level > levels[area])
		return;
	counts[level]++;
	now = now_ns();
	va_start(ap, fmt);
	(void)vsnprintf(text, TEXT_MAX, fmt, ap);
	va_end(ap);
	if ((level <= LOG_LEVEL_NOTICE && !same_take(text, now, &same)) ||
	    bucket_take(&site->bucket_ns, NSEC_PER_SEC, LOG_BURST, now) != 0) {
		suppress(site, area, level, text, now);
		return;
	}
	note = text + strlen(text);
	if (same > 0) {
		(void)snprintf(note, NOTE_MAX, " (the same %u more times since)", same);
		site->suppressed -= MIN(site->suppressed, same);
	} else if (site->suppressed > 0) {
		(void)snprintf(note, NOTE_MAX, " (%u like it not shown)", site->suppressed);
		site->suppressed = 0;
	}
	line_write(&(struct record){ area, level, text, site->file, site->line });
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
	line_write(&(struct record){ site->area, site->level, text, site->file, site->line });
	site->suppressed = 0;
}

/* Time of the next attempt; 0: none. */
static uint64_t out_tick(uint64_t now)
{
	if (queue_len == 0)
		return 0;
	retry_ns = MIN(retry_ns * 2, WAIT_MAX_NS);
	return out_flush() && dropped_log() && out_flush() ? 0 : now + retry_ns;
}

void log_end(void)
{
	(void)log_tick(UINT64_MAX);
	out_drain(END_WAIT_MS);
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
