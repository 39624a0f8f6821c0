/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/util.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static void *checked(void *p)
{
	if (p == NULL) {
		log_err(LOG_AREA_MAIN, "out of memory");
		abort();
	}
	return p;
}

void *xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return checked(calloc(n ? n : 1, size ? size : 1));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	return checked(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *s;

	return checked(vasprintf(&s, fmt, ap) < 0 ? NULL : s);
}

char *xstrndup(const char *s, size_t n)
{
	return checked(strndup(s, n));
}

void free_auto(void *p)
{
	free(*(void **)p);
}

void close_auto(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

void fclose_auto(FILE **f)
{
	if (*f != NULL)
		(void)fclose(*f);
}

void memory_trim(void)
{
#ifdef HAVE_MALLOC_TRIM
	(void)malloc_trim(0);
#endif
}

int process_fd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

uint64_t bucket_take(uint64_t *full_ns, uint64_t each_ns, uint64_t burst, uint64_t now)
{
	uint64_t full = MAX(*full_ns, now) + each_ns;

	if (full > now + burst * each_ns)
		return full - now - burst * each_ns;
	*full_ns = full;
	return 0;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t wall_now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_REALTIME);
}
