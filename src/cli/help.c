/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cli/help - --help: a line per option, under headings. */
#include <string.h>

#include "cli/cli.h"

#define COLUMN 32 /* of the help after a short flag */
#define ACCEPTED_HEADING "Accepted for kube-proxy's command lines, without effect"

bool cli_takes(const struct cli_command *cmd, const struct cli_option *o)
{
	if (o->is_by_command)
		return cmd->values != NULL;
	return o->command_letter == '\0' || strchr(cmd->options, o->command_letter) != NULL;
}

const char *cli_words(const struct cli_command *cmd, const struct cli_option *o)
{
	return cmd != NULL && o->is_by_command ? cmd->values : o->words;
}

void cli_help_text(struct str *ret, const struct cli_command *cmd, const struct cli_option *o)
{
	bool is_own = cmd != NULL && o->is_by_command;
	bool has_default =
		o->preset != NULL && *o->preset != '\0' && strcmp(o->preset, "false") != 0;

	if (is_own) {
		str_words_print(ret, cmd->values);
		has_default = has_default && strchr(cmd->values, ' ') != NULL; /* a choice */
	} else {
		str_puts(ret, o->help);
	}
	if (has_default && o->effect == CLI_EFFECTIVE)
		str_printf(ret, " [%s]", o->preset);
}

static void help_option(struct str *ret, const struct cli_command *cmd, const struct cli_option *o)
{
	FINI(str_fini) struct str head = { 0 };

	if (o->letter != '\0')
		str_printf(&head, "-%c, ", o->letter);
	str_puts(&head, cli_name(o));
	if (o->arg != NULL)
		str_printf(&head, "%s%s", o->arg[0] == '[' ? "" : " ", o->arg);
	str_printf(ret, "  %-*s  ", COLUMN - 4, head.text);
	cli_help_text(ret, cmd, o);
	str_puts(ret, "\n");
}

static void help_options(struct str *ret, const struct cli *cli, const struct cli_command *cmd,
			 enum cli_effect effect)
{
	const char *group = effect == CLI_ACCEPTED ? ACCEPTED_HEADING : NULL;

	for (size_t i = 0; i < cli->n_options; i++) {
		const struct cli_option *o = &cli->options[i];

		if (o->group != NULL && effect == CLI_EFFECTIVE)
			group = o->group;
		if (o->name == NULL || o->effect != effect || (cmd != NULL && !cli_takes(cmd, o)))
			continue;
		if (group != NULL)
			str_printf(ret, "\n%s:\n", group);
		group = NULL;
		help_option(ret, cmd, o);
	}
}

void cli_help(struct str *ret, const struct cli *cli, const struct cli_command *cmd)
{
	if (cmd != NULL)
		str_printf(ret, "Usage: %s %s%s%s [OPTIONS]\n\n  %s\n\n%s", cli->name, cmd->name,
			   *cmd->args ? " " : "", cmd->args, cmd->summary, cmd->help);
	else
		str_puts(ret, cli->usage);
	if (cmd == NULL && cli->n_commands > 0) {
		str_puts(ret, "\nCommands:\n");
		for (size_t i = 0; i < cli->n_commands; i++)
			str_printf(ret, "  %-10s %-18s  %s\n", cli->commands[i].name,
				   cli->commands[i].args, cli->commands[i].summary);
	}
	help_options(ret, cli, cmd, CLI_EFFECTIVE);
	help_options(ret, cli, cmd, CLI_ACCEPTED);
	str_puts(ret, cli->usage_end);
}
