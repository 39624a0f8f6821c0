/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cli/args - from argv to options and words, as getopt_long() and Go's pflag read it. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"

#define WORD_MAX 40

/* Insertions, deletions and replacements of letters; two exchanged letters count once. */
static size_t distance(const char *a, const char *b)
{
	uint8_t d[WORD_MAX + 1][WORD_MAX + 1];
	size_t n = strlen(a);
	size_t m = strlen(b);

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			size_t best = i + j;

			if (i > 0 && j > 0)
				best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (i > 0)
				best = MIN(best, (size_t)d[i - 1][j] + 1);
			if (j > 0)
				best = MIN(best, (size_t)d[i][j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, (size_t)d[i - 2][j - 2] + 1);
			d[i][j] = (uint8_t)best;
		}
	return d[n][m];
}

const char *cli_nearest(const char *typed, const void *table, size_t size, size_t n)
{
	const char *best = NULL;
	size_t limit = 3;

	for (size_t i = 0; i < n; i++) {
		const char *w =
			*(const char *const *)((const void *)((const char *)table + i * size));
		size_t d = w != NULL ? distance(typed, w) : limit;

		if (d < limit && d < strlen(w)) {
			limit = d;
			best = w;
		}
	}
	return best;
}

const struct cli_command *cli_command_find(const struct cli *cli, const char *name)
{
	return array_find(cli->commands, cli->n_commands, c, strcmp(c->name, name) == 0);
}

static bool is_name(const char *own, const char *typed, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (own[i] == '\0' || (typed[i] != own[i] && !(typed[i] == '_' && own[i] == '-')))
			return false;
	return true;
}

const struct cli_option *cli_find(const struct cli *cli, const char *name, size_t len)
{
	return array_find(cli->options, cli->n_options, o,
			  o->name != NULL && strlen(o->name) == len && is_name(o->name, name, len));
}

/* An unambiguous beginning of a name, as getopt_long() accepts it. */
static const struct cli_option *find_beginning(const struct cli *cli, const char *name, size_t len)
{
	const struct cli_option *found = NULL;
	size_t n = 0;

	for (size_t i = 0; i < cli->n_options; i++)
		if (cli->options[i].name != NULL && is_name(cli->options[i].name, name, len)) {
			found = &cli->options[i];
			n++;
		}
	return len > 0 && n == 1 ? found : NULL;
}

const struct cli_option *cli_find_letter(const struct cli *cli, char letter)
{
	return array_find(cli->options, cli->n_options, o,
			  o->letter == letter ||
				  (o->name != NULL && o->name[0] == letter && o->name[1] == '\0'));
}

static int unknown(const struct cli *cli, const char *name, size_t len, struct err *err)
{
	const char *typed = str_local(WORD_MAX + 1, "%.*s", (int)len, name);
	const char *near = cli_nearest(typed, cli->options, sizeof(*cli->options), cli->n_options);

	if (near != NULL)
		return err_set(err, -EINVAL, "unknown option '--%s' (did you mean '--%s'?)", typed,
			       near);
	return err_set(err, -EINVAL, "unknown option '--%s'", typed);
}

/* The value of an option that requires one and has none attached. */
static int value_take(struct cli_args *a, const struct cli_option *o, const char **value,
		      struct err *err)
{
	if (*value != NULL || o->arg == NULL || o->arg[0] == '[')
		return 1;
	if (a->i + 1 >= a->argc)
		return err_set(err, -EINVAL, "%s: value missing: %s", cli_name(o), o->arg);
	*value = a->argv[++a->i];
	return 1;
}

/* "-x", "-xVALUE", "-x=VALUE", "-xyz". */
static int next_letter(struct cli_args *a, const struct cli *cli, const struct cli_option **option,
		       const char **value, struct err *err)
{
	char letter = *a->cluster;
	const char *rest = TAKE(a->cluster) + 1;

	*option = cli_find_letter(cli, letter);
	if (*option == NULL)
		return err_set(err, -EINVAL, "unknown option '-%c'", letter);
	if (*rest == '=' || (*rest != '\0' && (*option)->arg != NULL && (*option)->arg[0] != '['))
		*value = rest + (*rest == '=');
	else if (*rest != '\0')
		a->cluster = rest;
	return value_take(a, *option, value, err);
}

int cli_next(struct cli_args *a, const struct cli *cli, const struct cli_option **option,
	     const char **value, struct err *err)
{
	const char *arg;
	size_t len;

	*option = NULL;
	*value = NULL;
	if (a->cluster != NULL)
		return next_letter(a, cli, option, value, err);
	if (a->i + 1 >= a->argc)
		return 0;
	arg = a->argv[++a->i];
	if (!a->is_end && strcmp(arg, "--") == 0) {
		a->is_end = true;
		return cli_next(a, cli, option, value, err);
	}
	if (a->is_end || arg[0] != '-' || arg[1] == '\0') {
		*value = arg;
		return 1;
	}
	if (arg[1] != '-') {
		a->cluster = arg + 1;
		return next_letter(a, cli, option, value, err);
	}
	arg += 2;
	len = strcspn(arg, "=");
	*option = cli_find(cli, arg, len);
	if (*option == NULL && cli->commands != NULL)
		*option = find_beginning(cli, arg, len);
	if (*option == NULL)
		return unknown(cli, arg, len, err);
	if (arg[len] == '=')
		*value = arg + len + 1;
	return value_take(a, *option, value, err);
}

void cli_foresee(const struct cli *cli, const struct cli_option *o, void *settings, int argc,
		 char **argv)
{
	struct cli_args args = { argc, argv };
	const struct cli_option *found;
	const char *value;
	int r;

	while ((r = cli_next(&args, cli, &found, &value, NULL)) != 0)
		if (r > 0 && found == o)
			(void)!cli_set(o, settings, value, NULL);
}
