/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/kernel - common code: a private network namespace, the shell, and elements written by hand.
 * Everything happens in a namespace of the program, which the kernel deletes with it. A failure of
 * FACT() means that an assumption about the kernel is wrong.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "nl/batch.h"

#define FACT(cond, ...)                                                                       \
	do {                                                                                  \
		if (!(cond)) {                                                                \
			print_error("the kernel changed: " __VA_ARGS__);                      \
			fail_msg("the kernel changed: %s, %s:%d", #cond, __FILE__, __LINE__); \
		}                                                                             \
	} while (0)

/* Call first in main(). 0, or what to return: 77 = skipped (not root), 99 = no namespace. */
int kernel_enter(void);
/* Enter a new namespace. Usable as a cmocka setup. */
int kernel_fresh(void **state);

/* Run a command with sh(1); returns its exit code. */
int sh(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Output of a command (caller frees); fails the test unless it exits with 0. */
char *sh_text(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Open a netfilter socket; fails the test on an error. */
struct nl_sock *kernel_sock(void);
/* nf_tables message `msg` (NFT_MSG_*) about family ip. */
struct nlmsghdr *kernel_msg(struct nl_batch *b, uint16_t msg, uint16_t flags, const void *tag);
/* The message's element list: table, set, and the open nest. */
struct nlattr *kernel_elems(struct nlmsghdr *h, const char *table, const char *set);
/* One element; `data` may be NULL. */
void kernel_elem(struct nlmsghdr *h, const void *key, size_t key_len, const void *data,
		 size_t data_len);
/* Commit and reset. */
int kernel_commit(struct nl_batch *b);
uint32_t kernel_genid(struct nl_sock *nl);
