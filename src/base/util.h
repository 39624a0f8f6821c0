/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/util - compiler extensions and allocation helpers of all folders.
 *
 * Ownership: AUTO(x_close) struct x *p closes at scope end, TAKE(p) hands over
 *            (yields p and leaves NULL behind). The destructor accepts NULL.
 *            FINI(x_fini) struct x v = { 0 } frees what the variable v owns at scope end.
 *            AUTO(free), AUTO(close) int fd = -1, AUTO(fclose), AUTO(vec_fini) VEC(...) v = { 0 }.
 * Memory:    x*alloc abort when no memory is left: the kernel keeps forwarding, and a
 *            restart is the best tested path. Callers limit sizes that a peer chooses.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

#define MIN(a, b)                              \
	({                                     \
		__typeof__(a) min_a = (a);     \
		__typeof__(b) min_b = (b);     \
		min_a < min_b ? min_a : min_b; \
	})
#define MAX(a, b)                              \
	({                                     \
		__typeof__(a) max_a = (a);     \
		__typeof__(b) max_b = (b);     \
		max_a > max_b ? max_a : max_b; \
	})

/* As the result of a comparator; the next member with ?: */
#define CMP(a, b) (((a) > (b)) - ((a) < (b)))

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

/* Close a variable at the end of its scope. */
#define DEFINE_AUTO(type, close)                 \
	static inline void close##_auto(type *p) \
	{                                        \
		close(*p);                       \
	}                                        \
	struct auto_semicolon_eater
#define AUTO(close) __attribute__((cleanup(close##_auto)))
#define FINI(fini) __attribute__((cleanup(fini)))
#define TAKE(p)                               \
	({                                    \
		__typeof__(p) take_tmp = (p); \
		(p) = NULL;                   \
		take_tmp;                     \
	})

/* Destructors of AUTO() for any pointer, a descriptor (-1: none), and a stream (NULL: none). */
void free_auto(void *p);
void close_auto(const int *fd);
void fclose_auto(FILE **f);

#define NSEC_PER_SEC UINT64_C(1000000000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
/* `n` * `size` bytes, overflow aborts. Contents as realloc(). */
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((malloc, returns_nonnull)) PRINTF_LIKE(1, 2);
char *xvasprintf(const char *fmt, va_list ap)
	__attribute__((malloc, returns_nonnull, format(printf, 1, 0)));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));

/* Functions that musl lacks: malloc_trim(), pidfd_open(2). */
void memory_trim(void); /* return freed memory to the kernel, if the C library supports it */
MUST_USE int process_fd(pid_t pid);

/*
 * Take a token from a bucket of `burst`, which gets one each `each_ns`; *full_ns is the time at
 * which it is full, 0 at first. 0: taken; else the time until there is one.
 */
uint64_t bucket_take(uint64_t *full_ns, uint64_t each_ns, uint64_t burst, uint64_t now);

/* CLOCK_MONOTONIC in nanoseconds. Only owners of a timer call it: pure code gets an argument. */
uint64_t now_ns(void);
/* CPU time of this thread. */
uint64_t thread_cpu_ns(void);
/* CLOCK_REALTIME, Unix time in nanoseconds. */
int64_t wall_now_ns(void);
