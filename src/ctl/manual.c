/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/manual - the tables in the words of terminals, man and shells. */
#include "ctl/manual.h"

#include <errno.h>
#include <string.h>

#include "base/control.h"
#include "base/roff.h"

#define EXIT_CODES "Exit code: 0 fine, 1 not found or a problem, 2 usage, 3 vipd cannot be reached."

bool manual_takes(const struct command *cmd, const struct ctl_option *option)
{
	return option->kind == CTL_OPTION_COMMON || strchr(cmd->options, option->letter) != NULL;
}

static bool is_short(const struct ctl_option *o)
{
	return o->letter >= 'a' && o->letter <= 'z';
}

/* --- help --- */

static void help_option(struct str *out, const struct ctl_option *o)
{
	struct str head = { 0 };

	if (is_short(o))
		str_printf(&head, "-%c, ", o->letter);
	else
		str_puts(&head, "    ");
	str_printf(&head, "--%s", o->name);
	if (o->arg != NULL)
		str_printf(&head, "%s%s", o->arg[0] == '[' ? "" : " ", o->arg);
	str_printf(out, "  %-27s  %s\n", head.text, o->help);
	str_fini(&head);
}

void manual_help(struct str *out, const struct command *commands, const struct ctl_option *options)
{
	str_puts(out, "Usage: vipctl COMMAND [OPTIONS]\n\n"
		      "Asks the vipd of this node; only log and drain change anything.\n\n"
		      "Commands:\n");
	for (const struct command *c = commands; c->name != NULL; c++)
		str_printf(out, "  %-10s %-19s %s\n", c->name, c->args, c->summary);
	str_puts(out, "\nOptions:\n");
	for (const struct ctl_option *o = options; o->name != NULL; o++)
		help_option(out, o);
	str_puts(out, "\n" EXIT_CODES "\n");
}

void manual_help_command(struct str *out, const struct command *cmd,
			 const struct ctl_option *options)
{
	str_printf(out, "Usage: vipctl %s%s%s [OPTIONS]\n\n  %s\n\n%s", cmd->name,
		   *cmd->args ? " " : "", cmd->args, cmd->summary, cmd->help);
	str_puts(out, "\nOptions:\n");
	for (const struct ctl_option *o = options; o->name != NULL; o++)
		if (manual_takes(cmd, o))
			help_option(out, o);
	str_puts(out, "\n" EXIT_CODES "\n");
}

/* --- man --- */

static void man_commands(struct str *out, const struct command *commands)
{
	str_puts(out, ".SH COMMANDS\n");
	for (const struct command *c = commands; c->name != NULL; c++) {
		str_puts(out, ".TP\n.B ");
		roff_text(out, c->name);
		if (*c->args != '\0') {
			str_puts(out, " \\fR");
			roff_text(out, c->args);
		}
		str_puts(out, "\n");
		roff_text(out, c->summary);
		str_puts(out, ".\n");
		if (*c->help != '\0')
			roff_paragraph(out, c->help);
	}
}

static void man_options(struct str *out, const struct command *commands,
			const struct ctl_option *options)
{
	str_puts(out, ".SH OPTIONS\n");
	for (const struct ctl_option *o = options; o->name != NULL; o++) {
		const char *before = "Taken by ";

		str_puts(out, ".TP\n.B ");
		if (is_short(o))
			str_printf(out, "\\-%c\\fR, \\fB", o->letter);
		str_puts(out, "\\-\\-");
		roff_text(out, o->name);
		if (o->arg != NULL) {
			str_puts(out, o->arg[0] == '[' ? "\\fI" : " \\fI");
			roff_text(out, o->arg);
		}
		str_puts(out, "\n");
		roff_text(out, o->help);
		str_puts(out, ".\n");
		if (o->kind == CTL_OPTION_COMMON)
			continue;
		for (const struct command *c = commands; c->name != NULL; c++)
			if (manual_takes(c, o)) {
				str_printf(out, "%s%s", before, c->name);
				before = ", ";
			}
		str_puts(out, ".\n");
	}
}

void manual_man(struct str *out, const struct command *commands, const struct ctl_option *options)
{
	str_puts(out, ".TH VIPCTL 8 \"\" \"vipd " VIPD_VERSION "\" \"vipd\"\n"
		      ".SH NAME\n"
		      "vipctl \\- ask the vipd of this node\n"
		      ".SH SYNOPSIS\n"
		      ".B vipctl\n"
		      ".I COMMAND\n"
		      "[\\fIOPTIONS\\fR]\n"
		      ".SH DESCRIPTION\n"
		      ".B vipctl\n"
		      "shows what\n"
		      ".BR vipd (8)\n"
		      "does on this node: where each service address leads, why an endpoint gets\n"
		      "nothing, what the kernel holds, and what happens while it happens.\n"
		      "It asks over a Unix socket; only log and drain change anything.\n"
		      "Tables keep their columns; scripts are better served by \\-o json, whose\n"
		      "members are only added to.\n");
	man_commands(out, commands);
	man_options(out, commands, options);
	str_puts(out, ".SH EXIT STATUS\n");
	roff_paragraph(out, "0: fine. 1: not found, or there is a problem (each command says "
			    "what it takes for one). 2: usage. 3: vipd cannot be reached.");
	str_puts(out, ".SH FILES\n.TP\n.I ");
	roff_text(out, CONTROL_SOCKET_PATH);
	str_puts(out, "\nthe control socket; its group may use it.\n"
		      ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nwhen not empty, nothing is coloured.\n"
		      ".SH SEE ALSO\n.BR vipd (8),\n.BR nft (8)\n");
}

/* --- shells --- */

/* The commands whose first argument is a service. */
#define OF_SERVICES "svc|dump|drain|undrain"

static void words_commands(struct str *out, const struct command *commands)
{
	for (const struct command *c = commands; c->name != NULL; c++)
		str_printf(out, "%s%s", c == commands ? "" : " ", c->name);
}

static void bash(struct str *out, const struct command *commands, const struct ctl_option *options)
{
	str_puts(out, "# bash completion for vipctl; made by: vipctl completion bash\n"
		      "_vipctl() {\n"
		      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		      "\tlocal cmd= w words i\n"
		      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		      "\t\tw=${COMP_WORDS[i]}\n"
		      "\t\t[[ $w == -* || ${COMP_WORDS[i-1]} == -* ]] || { cmd=$w; break; }\n"
		      "\tdone\n"
		      "\tcase $prev in\n");
	for (const struct ctl_option *o = options; o->name != NULL; o++) {
		if (o->words == NULL)
			continue;
		if (is_short(o))
			str_printf(out, "\t-%c|--%s) ", o->letter, o->name);
		else
			str_printf(out, "\t--%s) ", o->name);
		str_printf(out, "words='%s' ;;\n", o->words);
	}
	str_puts(out, "\t--service) words=$(vipctl svc -o name 2>/dev/null) ;;\n"
		      "\t--socket) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
		      "\t*) if [[ $cur == -* ]]; then\n\t\twords='");
	for (const struct ctl_option *o = options; o->name != NULL; o++)
		str_printf(out, "%s--%s", o == options ? "" : " ", o->name);
	str_puts(out, "'\n\telif [[ -z $cmd ]]; then\n\t\twords='");
	words_commands(out, commands);
	str_puts(out, "'\n\telif [[ $cmd == completion ]]; then\n"
		      "\t\twords='bash zsh fish'\n"
		      "\telse\n\t\tcase $cmd in\n\t\t" OF_SERVICES
		      ") words=$(vipctl svc -o name 2>/dev/null) ;;\n\t\tesac\n"
		      "\tfi ;;\n\tesac\n"
		      "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
		      "}\ncomplete -F _vipctl vipctl\n");
}

static void zsh_option(struct str *out, const struct ctl_option *o, bool by_letter)
{
	if (by_letter)
		str_printf(out, "\t\t\"-%c%s", o->letter, o->arg != NULL ? "+" : "");
	else
		str_printf(out, "\t\t\"--%s%s", o->name, o->arg != NULL ? "=" : "");
	str_printf(out, "[%s]", o->help);
	if (o->words != NULL)
		str_printf(out, ":word:(%s)", o->words);
	else if (o->arg != NULL)
		str_printf(out, ":%s:", o->name);
	str_puts(out, "\" \\\n");
}

static void zsh(struct str *out, const struct command *commands, const struct ctl_option *options)
{
	str_puts(out, "#compdef vipctl\n# made by: vipctl completion zsh\n_vipctl() {\n"
		      "\tlocal curcontext=$curcontext state line\n"
		      "\tlocal -a commands services\n\tcommands=(\n");
	for (const struct command *c = commands; c->name != NULL; c++)
		str_printf(out, "\t\t\"%s:%s\"\n", c->name, c->summary);
	str_puts(out, "\t)\n\t_arguments -C \\\n");
	for (const struct ctl_option *o = options; o->name != NULL; o++) {
		zsh_option(out, o, false);
		if (is_short(o))
			zsh_option(out, o, true);
	}
	str_puts(out, "\t\t'1: :->command' '*: :->argument'\n\tcase $state in\n"
		      "\tcommand) _describe command commands ;;\n"
		      "\targument)\n\t\tcase $line[1] in\n\t\t" OF_SERVICES ")\n"
		      "\t\t\tservices=(${(f)\"$(vipctl svc -o name 2>/dev/null)\"})\n"
		      "\t\t\tcompadd -a services ;;\n"
		      "\t\tcompletion) compadd bash zsh fish ;;\n"
		      "\t\tesac ;;\n\tesac\n}\n"
		      "# Of a folder in $fpath, or sourced.\n"
		      "if [[ $funcstack[1] == _vipctl ]]; then\n\t_vipctl \"$@\"\n"
		      "else\n\tcompdef _vipctl vipctl\nfi\n");
}

static void fish(struct str *out, const struct command *commands, const struct ctl_option *options)
{
	str_puts(out, "# made by: vipctl completion fish\ncomplete -c vipctl -f\n");
	for (const struct command *c = commands; c->name != NULL; c++)
		str_printf(out, "complete -c vipctl -n __fish_use_subcommand -a %s -d \"%s\"\n",
			   c->name, c->summary);
	for (const struct ctl_option *o = options; o->name != NULL; o++) {
		str_puts(out, "complete -c vipctl");
		if (is_short(o))
			str_printf(out, " -s %c", o->letter);
		str_printf(out, " -l %s -d \"%s\"", o->name, o->help);
		if (o->words != NULL)
			str_printf(out, " -x -a \"%s\"", o->words);
		else if (o->arg != NULL && o->arg[0] != '[')
			str_puts(out, " -r");
		str_puts(out, "\n");
	}
	str_puts(out, "complete -c vipctl -n '__fish_seen_subcommand_from svc dump drain undrain' "
		      "-a '(vipctl svc -o name 2>/dev/null)'\n"
		      "complete -c vipctl -n '__fish_seen_subcommand_from completion' "
		      "-a 'bash zsh fish'\n");
}

int manual_completion(struct str *out, const char *shell, const struct command *commands,
		      const struct ctl_option *options)
{
	if (strcmp(shell, "bash") == 0)
		bash(out, commands, options);
	else if (strcmp(shell, "zsh") == 0)
		zsh(out, commands, options);
	else if (strcmp(shell, "fish") == 0)
		fish(out, commands, options);
	else
		return -EINVAL;
	return 0;
}
