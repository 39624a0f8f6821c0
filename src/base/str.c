/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/str - growable text and UTF-8 validation. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void str_fini(struct str *s)
{
	free(s->text);
	*s = (struct str){ 0 };
}

void str_clear(struct str *s)
{
	s->len = 0;
	if (s->text != NULL)
		s->text[0] = '\0';
}

static void room(struct str *s, size_t more)
{
	size_t need = s->len + more + 1;

	if (need <= s->cap)
		return;
	s->cap = MAX(need, s->cap * 2);
	s->text = xreallocarray(s->text, s->cap, 1);
}

void str_add(struct str *s, const char *data, size_t len)
{
	room(s, len);
	memcpy(s->text + s->len, data, len);
	s->len += len;
	s->text[s->len] = '\0';
}

void str_puts(struct str *s, const char *text)
{
	str_add(s, text, strlen(text));
}

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	room(s, (size_t)n);
	va_start(ap, fmt);
	(void)vsnprintf(s->text + s->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->len += (size_t)n;
}

void str_encode(struct str *s, const char *text)
{
	for (; *text != '\0'; text++) {
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
			   *text) != NULL)
			str_add(s, text, 1);
		else
			str_printf(s, "%%%02X", (unsigned char)*text);
	}
}

/* Length of the well-formed sequence at `p`, or 0. RFC 3629 section 4. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
	unsigned char lo = 0x80;
	unsigned char hi = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (left < n)
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

bool str_is_utf8(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	uint64_t eight;
	size_t n;

	while (len > 0) {
		if (len >= 8) {
			memcpy(&eight, p, 8);
			if ((eight & UINT64_C(0x8080808080808080)) == 0) {
				p += 8;
				len -= 8;
				continue;
			}
		}
		n = utf8_sequence(p, len);
		if (n == 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

int32_t str_char(const char *text, size_t *len)
{
	unsigned char c = (unsigned char)text[0];
	size_t n = utf8_sequence((const unsigned char *)text, strnlen(text, 4));
	int32_t value = c & (0xff >> (n == 1 ? 1 : n + 1));

	*len = MAX(n, (size_t)1);
	if (n == 0)
		return -1;
	for (size_t i = 1; i < n; i++)
		value = value << 6 | ((unsigned char)text[i] & 0x3f);
	return value;
}

bool str_is_control(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

char *str_clean(char *text)
{
	size_t len;

	for (char *p = text; *p != '\0'; p += len)
		if (str_is_control(str_char(p, &len)))
			memset(p, '?', len);
	return text;
}

bool str_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool str_is_equal_but_numbers(const char *a, const char *b)
{
	static const char number[] = "0123456789.";

	for (;; a++, b++) {
		a += strspn(a, number);
		b += strspn(b, number);
		if (*a != *b || *a == '\0')
			return *a == *b;
	}
}

char *str_word(char **rest)
{
	char *word = strsep(rest, ",");

	if (word == NULL)
		return NULL;
	word += strspn(word, " \t");
	word[strcspn(word, " \t")] = '\0';
	return word;
}

char *str_line(char **rest)
{
	char *line;

	do
		line = strsep(rest, "\n");
	while (line != NULL && *line == '\0');
	return line;
}
