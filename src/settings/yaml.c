/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * settings/yaml - blocks and scalars.
 *
 * A text that YAML could read as another type is written as a JSON string, which is valid YAML.
 */
#include "settings/yaml.h"

#include <string.h>
#include <strings.h>

#include "base/vec.h"

static bool is_plain(const char *text)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no",
					     "on",   "off",   "y",    "n" };

	if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')))
		return false;
	if (text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "0123456789_./-")] != '\0')
		return false;
	return !array_has(words, ARRAY_SIZE(words), w, strcasecmp(text, *w) == 0);
}

static void scalar(struct str *out, const json_t *json)
{
	AUTO(free) char *text = NULL;

	if (json_is_string(json) && is_plain(json_string_value(json))) {
		str_puts(out, json_string_value(json));
		return;
	}
	text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
	str_puts(out, text ? text : "null");
}

static bool is_block(const json_t *json)
{
	return json_object_size(json) > 0 || json_array_size(json) > 0;
}

/* `is_begun`: the first line follows "- ". */
static void block(struct str *out, const json_t *json, int indent, bool is_begun);

static void value(struct str *out, const json_t *json, int indent)
{
	if (is_block(json)) {
		str_puts(out, "\n");
		block(out, json, indent, false);
		return;
	}
	str_puts(out, " ");
	scalar(out, json);
	str_puts(out, "\n");
}

static void block(struct str *out, const json_t *json, int indent, bool is_begun)
{
	const char *name;
	json_t *v;
	size_t i;

	json_array_foreach (json, i, v) {
		str_printf(out, "%*s-", is_begun && i == 0 ? 0 : indent, "");
		if (is_block(v)) {
			str_puts(out, " ");
			block(out, v, indent + 2, true);
		} else {
			value(out, v, indent);
		}
	}
	json_object_foreach ((json_t *)(uintptr_t)json, name, v) {
		json_auto_t *key = json_string(name);

		str_printf(out, "%*s", is_begun ? 0 : indent, "");
		is_begun = false;
		scalar(out, key);
		str_puts(out, ":");
		value(out, v, indent + 2);
	}
}

void yaml_print(struct str *out, const json_t *json)
{
	if (is_block(json)) {
		block(out, json, 0, false);
		return;
	}
	scalar(out, json);
	str_puts(out, "\n");
}
