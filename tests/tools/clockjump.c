/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/tools/clockjump - a wall clock that jumps, for LD_PRELOAD. Adds to CLOCK_REALTIME the
 * signed number of seconds in the first eight bytes of the file that CLOCKJUMP names. Other clocks
 * are unchanged, as when an administrator sets the time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void clockjump_open(void)
{
	const char *path = getenv("CLOCKJUMP");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (map != MAP_FAILED)
		offset = map;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);

	if (r == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *offset;
	return r;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
							void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (ret != NULL)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
