/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cli/value - checked values, and where they are stored. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cli_bool(bool *ret, const char *value, struct err *err)
{
	static const char words[] = "0 f F false False FALSE 1 t T true True TRUE";
	int i = value != NULL ? str_words_find(words, value, strlen(value)) : INT_MAX;

	if (i < 0)
		return err_set(err, -EINVAL, "'%s' is not true or false", value);
	*ret = i >= 6;
	return 0;
}

int cli_int(int64_t *ret, const char *value, int64_t min, int64_t max, struct err *err)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (*value == '\0' || *end != '\0' || errno != 0 || n < min || n > max)
		return err_set(err, -EINVAL, "'%s' is not a number from %lld to %lld", value,
			       (long long)min, (long long)max);
	*ret = n;
	return 0;
}

/* Parse one number with unit ("1.5h") of a duration. Returns the rest of the text, or NULL. */
static const char *duration_part(double *total, const char *p)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },
		{ "us", NSEC_PER_USEC },
		{ "ms", NSEC_PER_MSEC },
		{ "s", NSEC_PER_SEC },
		{ "m", 60 * NSEC_PER_SEC },
		{ "h", 3600 * NSEC_PER_SEC },
		/* the two signs for micro, as Go prints and reads them */
		{ "\u00b5s", NSEC_PER_USEC },
		{ "\u03bcs", NSEC_PER_USEC },
	};
	char *end;
	double n = isdigit((unsigned char)*p) || *p == '.' ? strtod(p, &end) : -1;
	size_t len;

	/* strtod() also reads hexadecimal numbers and exponents. */
	if (n < 0 || end == p || (size_t)(end - p) != strspn(p, "0123456789."))
		return NULL;
	len = strspn(end, "nusmh\u00b5\u03bc");
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].unit) == len && strncmp(units[i].unit, end, len) == 0) {
			*total += n * (double)units[i].ns;
			return end + len;
		}
	return NULL;
}

int cli_duration(uint64_t *ret, const char *value, struct err *err)
{
	const char *p = *value != '\0' ? value : NULL;
	double total = 0;

	if (strcmp(value, "0") == 0)
		p = "";
	while (p != NULL && *p != '\0')
		p = duration_part(&total, p);
	if (p == NULL || total > 1e18)
		return err_set(err, -EINVAL, "'%s' is not a duration such as 30s or 1m30s", value);
	*ret = (uint64_t)total;
	return 0;
}

int cli_prefixes(struct cli_prefixes *ret, const char *value, struct err *err)
{
	AUTO(vec_fini) struct cli_prefixes list = { 0 };
	AUTO(free) char *copy = xstrdup(value);

	str_for_each_word (word, copy)
		if (*word != '\0' && ip_prefix_parse(vec_push(&list), word, err) < 0)
			return -EINVAL;
	vec_fini(ret);
	vec_move(ret, &list);
	return 0;
}

/* Index of `value` in the option's words; an option with an empty preset may be empty. */
static int word_find(int64_t *ret, const struct cli_option *o, const char *value, struct err *err)
{
	FINI(str_fini) struct str list = { 0 };
	bool has_empty = o->preset != NULL && *o->preset == '\0';
	int i = has_empty && *value == '\0' ? 0 : str_words_find(o->words, value, strlen(value));

	if (i >= 0) {
		*ret = i;
		return 0;
	}
	str_words_print(&list, o->words);
	return err_set(err, -EINVAL, "'%s' is not %s%s", value, list.text,
		       has_empty ? ", nor empty" : "");
}

static int set_interface(char *at, const char *value, struct err *err)
{
	size_t len = strlen(value);

	if (len >= CLI_INTERFACE_MAX || strpbrk(value, "/ \t") != NULL)
		return err_set(err, -EINVAL, "'%s' is not an interface name (1 to %d characters)",
			       value, CLI_INTERFACE_MAX - 1);
	memcpy(at, value, len + 1);
	return 0;
}

static void store(void *at, size_t size, int64_t n)
{
	int32_t n32 = (int32_t)n;

	if (size == sizeof(bool))
		*(bool *)at = n != 0;
	else if (size == sizeof(n32))
		memcpy(at, &n32, sizeof(n32));
	else if (size == sizeof(n))
		memcpy(at, &n, sizeof(n));
}

/* Types that are stored as a whole number. */
static int set_whole(const struct cli_option *o, void *at, const char *value, struct err *err)
{
	const struct cli_value *v = &o->value;
	uint64_t ns = 0;
	int64_t n = 0;
	bool truth = false;
	int r;

	switch ((int)v->type) {
	case CLI_BOOL:
		r = cli_bool(&truth, value, err);
		n = truth;
		break;
	case CLI_INT:
		r = cli_int(&n, value, v->min, v->max, err);
		break;
	case CLI_CHOICE:
		/* kube-proxy's choices: empty is the default */
		if (*value == '\0' && o->field != NULL)
			value = o->preset;
		r = word_find(&n, o, value, err);
		n += v->min;
		break;
	default:
		r = cli_duration(&ns, value, err);
		n = (int64_t)(v->type == CLI_SECONDS ? MAX(ns / NSEC_PER_SEC, (uint64_t)(ns > 0))
						     : ns);
		if (r == 0 && n < v->min)
			r = err_set(err, -EINVAL, "'%s' is not above 0", value);
		if (r == 0 && v->max != 0 && n > v->max)
			r = err_set(err, -EINVAL, "'%s' is above the kernel's limit of %llds",
				    value, (long long)v->max);
		break;
	}
	if (r == 0 && v->size != 0)
		store(at, v->size, n);
	return r;
}

static int set_number(double *at, const char *value, struct err *err)
{
	char *end;
	double n = strtod(value, &end);

	if (*value == '\0' || *end != '\0' || !isfinite(n))
		return err_set(err, -EINVAL, "'%s' is not a number", value);
	*at = n;
	return 0;
}

static int set_entries(const struct cli_option *o, void *settings, const char *value,
		       struct err *err)
{
	AUTO(free) char *copy = xstrdup(value);

	str_for_each_word (name, copy) {
		char *behind = strchr(name, '=');
		int r;

		if (behind != NULL)
			*behind++ = '\0';
		r = o->value.set_entry(settings, name, behind, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int cli_set(const struct cli_option *o, void *settings, const char *value, struct err *err)
{
	const struct cli_value *v = &o->value;
	void *at = (char *)settings + v->at;
	int64_t index;
	int r = 0;

	if (value == NULL && v->type != CLI_BOOL && v->type != CLI_FUNCTION)
		value = o->preset ? o->preset : ""; /* "[=X]" was left out */
	switch (v->type) {
	case CLI_ANY:
		return 0;
	case CLI_WORD:
	case CLI_TEXT:
		if (v->type == CLI_WORD)
			r = word_find(&index, o, value, err);
		else if (v->min > 0 && *value == '\0')
			r = err_set(err, -EINVAL, "value missing: %s", o->arg);
		if (r == 0 && v->size != 0)
			*(const char **)at = *value != '\0' || v->min < 0 ? value : NULL;
		return r;
	case CLI_BOOL:
	case CLI_INT:
	case CLI_CHOICE:
	case CLI_DURATION:
	case CLI_SECONDS:
		return set_whole(o, at, value, err);
	case CLI_NUMBER:
		return set_number(at, value, err);
	case CLI_PREFIXES:
		return cli_prefixes(at, value, err);
	case CLI_ENTRIES:
		return set_entries(o, settings, value, err);
	case CLI_INTERFACE:
		return set_interface(at, value, err);
	case CLI_FUNCTION:
		return v->set(settings, o, value, err);
	}
	return 0;
}
