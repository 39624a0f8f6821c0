/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/jsonw - commas, escapes, and replacement of invalid UTF-8. */
#include "http/jsonw.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static void escape(struct str *out, unsigned char c)
{
	if (c == '"' || c == '\\')
		str_printf(out, "\\%c", c);
	else if (c == '\n')
		str_puts(out, "\\n");
	else
		str_printf(out, "\\u%04x", c);
}

static bool is_plain(char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void quote(struct str *out, const char *text)
{
	str_add(out, "\"", 1);
	while (*text != '\0') {
		size_t n = 0;
		int32_t c;

		while (is_plain(text[n]))
			n++;
		str_add(out, text, n);
		text += n;
		if (*text == '\0')
			break;
		c = str_char(text, &n);
		if (c < 0)
			str_puts(out, REPLACEMENT);
		else if (c < 0x80)
			escape(out, (unsigned char)c);
		else
			str_add(out, text, n);
		text += n;
	}
	str_add(out, "\"", 1);
}

/* The comma and the key before a value. */
static void lead(struct jsonw *w, const char *key)
{
	uint32_t bit = UINT32_C(1) << w->depth;

	assert(w->depth == 0 || (key != NULL) == (w->closing[w->depth] == '}'));
	if (w->depth > 0 && (w->has_item & bit))
		str_add(w->out, ",", 1);
	w->has_item |= bit;
	if (key == NULL)
		return;
	quote(w->out, key);
	str_add(w->out, ":", 1);
}

/* A value without quotes. */
static void put(struct jsonw *w, const char *key, const char *text)
{
	lead(w, key);
	str_puts(w->out, text);
}

static void enter(struct jsonw *w, const char *key, const char *opening, char closing)
{
	put(w, key, opening);
	assert(w->depth + 1 < JSONW_DEPTH_MAX);
	w->depth++;
	w->has_item &= ~(UINT32_C(1) << w->depth);
	w->closing[w->depth] = closing;
}

void jsonw_object(struct jsonw *w, const char *key)
{
	enter(w, key, "{", '}');
}

bool jsonw_object_if(struct jsonw *w, const char *key, bool is_known)
{
	if (is_known)
		jsonw_object(w, key);
	else
		jsonw_text(w, key, NULL);
	return is_known;
}

void jsonw_array(struct jsonw *w, const char *key)
{
	enter(w, key, "[", ']');
}

void jsonw_end(struct jsonw *w)
{
	assert(w->depth > 0);
	str_add(w->out, &w->closing[w->depth--], 1);
}

void jsonw_text(struct jsonw *w, const char *key, const char *text)
{
	if (text == NULL) {
		put(w, key, "null");
		return;
	}
	lead(w, key);
	quote(w->out, text);
}

void jsonw_name(struct jsonw *w, const char *key, const struct name *name)
{
	jsonw_text(w, key, name ? name->text : NULL);
}

void jsonw_names(struct jsonw *w, const struct name *ns, const struct name *name)
{
	jsonw_name(w, "namespace", ns);
	jsonw_name(w, "name", name);
}

void jsonw_printf(struct jsonw *w, const char *key, const char *fmt, ...)
{
	AUTO(free) char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	jsonw_text(w, key, text);
}

void jsonw_uint(struct jsonw *w, const char *key, uint64_t n)
{
	put(w, key, str_local(24, "%" PRIu64, n));
}

void jsonw_uint_if(struct jsonw *w, const char *key, bool is_known, uint64_t n)
{
	if (is_known)
		jsonw_uint(w, key, n);
	else
		jsonw_text(w, key, NULL);
}

void jsonw_int(struct jsonw *w, const char *key, int64_t n)
{
	put(w, key, str_local(24, "%" PRId64, n));
}

void jsonw_share(struct jsonw *w, const char *key, double share)
{
	put(w, key, share < 0 ? "null" : str_local(24, "%.6g", share));
}

void jsonw_bool(struct jsonw *w, const char *key, bool is_true)
{
	put(w, key, is_true ? "true" : "false");
}

void jsonw_addr(struct jsonw *w, const char *key, const struct ip_addr *a)
{
	jsonw_text(w, key, ip_is_set(a) ? ip_addr_str(a) : NULL);
}

void jsonw_endpoint(struct jsonw *w, const struct ip_addr *a, uint16_t port)
{
	jsonw_addr(w, "address", a);
	jsonw_uint(w, "port", port);
}

void jsonw_frontend(struct jsonw *w, const struct ip_addr *a, uint16_t port, uint8_t proto)
{
	jsonw_endpoint(w, a, port);
	jsonw_text(w, "protocol", l4proto_text(proto));
}

void jsonw_addrs(struct jsonw *w, const char *key, const struct ip_addr *v, size_t n)
{
	jsonw_array(w, key);
	for (size_t i = 0; i < n; i++)
		if (ip_is_set(&v[i]))
			jsonw_addr(w, NULL, &v[i]);
	jsonw_end(w);
}

void jsonw_prefixes(struct jsonw *w, const char *key, const struct ip_prefix *v, size_t n)
{
	jsonw_array(w, key);
	for (size_t i = 0; i < n; i++)
		jsonw_text(w, NULL, ip_prefix_str(&v[i]));
	jsonw_end(w);
}
