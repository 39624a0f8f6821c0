/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/str - growable text buffer, and checks of untrusted text.
 *
 * Zeroed memory is an empty buffer; `text` is NULL then, str_text() never is.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

struct str {
	char *text; /* terminated when not NULL */
	size_t len; /* without the terminator */
	size_t cap;
};

void str_fini(struct str *s);
void str_clear(struct str *s);
void str_add(struct str *s, const char *data, size_t len);
void str_puts(struct str *s, const char *text);
void str_printf(struct str *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * A text in a buffer of `size` bytes, cut if it is longer; the buffer lives as long as that of
 * ip_addr_str().
 */
#define str_local(size, ...) str_local_printf((char[size]){ 0 }, size, __VA_ARGS__)
const char *str_local_printf(char *buf, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
static inline const char *str_text(const struct str *s)
{
	return s->text ? s->text : "";
}

/* Append `text` percent-encoded (RFC 3986 section 2.3). */
void str_encode(struct str *s, const char *text);

/* The character at `text` and its length; -1 and 1: not UTF-8. */
int32_t str_char(const char *text, size_t *len);
/* A character that affects a terminal (controls, line separators, marks of direction), or -1? */
bool str_is_control(int32_t c);
/* Does `text` begin with `with`? */
bool str_begins(const char *text, const char *with);
/* Is `line` one of the lines? */
bool str_has_line(const char *text, const char *line);
/* Equal without digits and points? Two failures may differ in a time or an address only. */
bool str_is_equal_but_numbers(const char *a, const char *b);
/* The next word of a list separated by commas, without blanks around it, as strsep(). */
char *str_word(char **rest);
/* The next line that is not empty, as strsep(). */
char *str_line(char **rest);
/* Iterate over the words or lines of a text, which is cut; NULL: none. */
#define str_for_each_word(word, text) \
	for (char *word##_rest = (text), *word; (word = str_word(&word##_rest)) != NULL;)
#define str_for_each_line(line, text) \
	for (char *line##_rest = (text), *line; (line = str_line(&line##_rest)) != NULL;)
/* The index of `text`, `len` bytes, in a list of words separated by blanks; -1: it has none. */
int str_words_find(const char *words, const char *text, size_t len);
/* Append such a list as "a, b or c". */
void str_words_print(struct str *s, const char *words);

/* Append `len` bytes; U+FFFD for each that is not part of well-formed UTF-8. */
void str_add_utf8(struct str *s, const char *data, size_t len);
/* Well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms)? */
bool str_is_utf8(const char *data, size_t len);
/* Replace each byte of control characters (str_is_control()) by '?'. Returns `text`. */
char *str_clean(char *text);
