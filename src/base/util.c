/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/util - allocation that does not fail, and the clock. */
#include "base/util.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

char *xstrndup(const char *s, size_t n)
{
	return checked(strndup(s, n));
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}
