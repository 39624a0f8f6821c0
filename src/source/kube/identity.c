/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/identity - see identity.h. */
#include "source/kube/identity.h"

#include <stdbool.h>
#include <string.h>

#include "base/util.h"

struct scan {
	const char *p;
	const char *end;
};

static bool is_at(struct scan *s, char c)
{
	while (s->p < s->end && strchr(" \t\r\n", *s->p) != NULL)
		s->p++;
	return s->p < s->end && *s->p == c;
}

/* Read the raw string at `s`. False: the text ends first. */
static bool take_text(struct scan *s, const char **text, size_t *len)
{
	const char *start = ++s->p;

	for (; s->p < s->end && *s->p != '"'; s->p++)
		s->p += *s->p == '\\' && s->p + 1 < s->end;
	if (s->p >= s->end)
		return false;
	*text = start;
	*len = (size_t)(s->p++ - start);
	return true;
}

/* Skip the value at `s`. */
static void skip_value(struct scan *s)
{
	const char *text;
	size_t depth = 0;
	size_t len;

	while (s->p < s->end) {
		if (depth == 0 && (*s->p == ',' || *s->p == '}' || *s->p == ']'))
			return;
		if (*s->p == '"') {
			if (!take_text(s, &text, &len))
				return;
			continue;
		}
		depth += *s->p == '{' || *s->p == '[';
		depth -= *s->p == '}' || *s->p == ']';
		s->p++;
	}
}

/* Read the next key of the current object; `s` is then at its value. */
static bool next_member(struct scan *s, const char **key, size_t *len)
{
	if (is_at(s, ','))
		s->p++;
	if (!is_at(s, '"') || !take_text(s, key, len) || !is_at(s, ':'))
		return false;
	s->p++;
	return true;
}

/* Move to the value of member `name`. False if it does not begin with `c`. */
static bool find(struct scan *s, const char *name, char c)
{
	const char *key;
	size_t len;

	while (next_member(s, &key, &len)) {
		if (len == strlen(name) && memcmp(key, name, len) == 0)
			return is_at(s, c);
		skip_value(s);
	}
	return false;
}

/* Enter the object at `s`. False: no object. */
static bool enter(struct scan *s)
{
	if (!is_at(s, '{'))
		return false;
	s->p++;
	return true;
}

const char *json_head_text(const char *text, size_t len, const char *name, size_t *ret_len)
{
	struct scan s = { .p = text, .end = text + len };
	const char *value;

	if (!enter(&s) || !find(&s, name, '"') || !take_text(&s, &value, ret_len))
		return NULL;
	return value;
}

json_t *json_identity(const char *text, size_t len, const char *in)
{
	static const char *const wanted[] = { "name", "namespace", "resourceVersion" };
	struct scan s = { .p = text, .end = text + len };
	const char *value;
	const char *key;
	json_t *meta;
	size_t key_len;
	size_t n;

	if (!enter(&s) || (in != NULL && (!find(&s, in, '{') || !enter(&s))) ||
	    !find(&s, "metadata", '{') || !enter(&s))
		return NULL;
	meta = json_object();
	while (next_member(&s, &key, &key_len)) {
		if (!is_at(&s, '"')) {
			skip_value(&s);
			continue;
		}
		if (!take_text(&s, &value, &n))
			break;
		/* Valid names and versions contain no escapes. */
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (strlen(wanted[i]) == key_len && memcmp(wanted[i], key, key_len) == 0 &&
			    memchr(value, '\\', n) == NULL)
				(void)json_object_set_new(meta, wanted[i], json_stringn(value, n));
	}
	if (json_object_get(meta, "name") == NULL) {
		json_decref(meta);
		return NULL;
	}
	return json_pack("{s:o}", "metadata", meta);
}
