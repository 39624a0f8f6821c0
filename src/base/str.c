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

const char *str_local_printf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return buf;
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

/* The first character of `text` and its length; 0: not well-formed (RFC 3629 section 3). */
static size_t utf8_read(int32_t *ret, const char *text, size_t left)
{
	static const int32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char c = (unsigned char)text[0];
	size_t ones = (size_t)__builtin_clz(~((uint32_t)c << 24)); /* leading bits */
	size_t n = MAX(ones, (size_t)1);
	int32_t value = c & (0x7f >> ones);

	if (ones == 1 || ones > 4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		c = (unsigned char)text[i];
		if ((c & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (c & 0x3f);
	}
	if (value < least[n] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 0;
	*ret = value;
	return n;
}

void str_add_utf8(struct str *s, const char *data, size_t len)
{
	int32_t c;
	size_t n;

	for (; len > 0; data += n, len -= n) {
		n = utf8_read(&c, data, len);
		str_add(s, n > 0 ? data : "\xef\xbf\xbd", n > 0 ? n : 3);
		n = MAX(n, (size_t)1);
	}
}

bool str_is_utf8(const char *data, size_t len)
{
	uint64_t eight;
	int32_t c;
	size_t n;

	for (; len > 0; data += n, len -= n) {
		n = 8;
		if (len >= n) {
			memcpy(&eight, data, n);
			if ((eight & UINT64_C(0x8080808080808080)) == 0)
				continue;
		}
		n = utf8_read(&c, data, len);
		if (n == 0)
			return false;
	}
	return true;
}

int32_t str_char(const char *text, size_t *len)
{
	int32_t c = -1;
	size_t n = utf8_read(&c, text, MAX(strnlen(text, 4), (size_t)1));

	*len = MAX(n, (size_t)1);
	return c;
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

bool str_has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, line, len) == 0 && (at[len] == '\n' || at[len] == '\0'))
			return true;
	}
	return false;
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

int str_words_find(const char *words, const char *text, size_t len)
{
	for (int i = 0; *words != '\0'; i++) {
		size_t n = strcspn(words, " ");

		if (n == len && memcmp(words, text, len) == 0)
			return i;
		words += n + (words[n] == ' ');
	}
	return -1;
}

void str_words_print(struct str *s, const char *words)
{
	while (*words != '\0') {
		size_t len = strcspn(words, " ");
		const char *next = words + len + (words[len] == ' ');

		str_add(s, words, len);
		if (*next != '\0')
			str_puts(s, strchr(next, ' ') ? ", " : " or ");
		words = next;
	}
}
