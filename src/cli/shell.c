/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli/shell - completion for bash, zsh and fish.
 *
 * The scripts call `PROGRAM __complete WORD...` with the words up to the cursor. The answer is
 * one candidate per line, "word<TAB>description", or ":files" or ":services" alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define SERVICES "vipctl svc -o name 2>/dev/null"

/* Each ~ is the name of the program. */
static const struct {
	const char *shell;
	const char *script;
} scripts[] = {
	{ "bash", "# bash completion for ~\n"
		  "_~() {\n"
		  "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words\n"
		  "\t[[ $cur == = ]] && cur=\n"
		  "\twords=$(\"${COMP_WORDS[0]}\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
		  "2>/dev/null | cut -f1)\n"
		  "\tcase $words in\n"
		  "\t:files) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
		  "\t:services) words=$(" SERVICES ") ;;\n"
		  "\tesac\n"
		  "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
		  "}\n"
		  "complete -o filenames -F _~ ~\n" },
	{ "zsh",
	  "#compdef ~\n"
	  "_~() {\n"
	  "\tlocal -a lines\n"
	  "\tlines=(\"${(@f)$($words[1] __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
	  "\tcase $lines[1] in\n"
	  "\t:files) compset -P '--*='; _files ;;\n"
	  "\t:services) compadd -- ${(f)\"$(" SERVICES ")\"} ;;\n"
	  "\t*) lines=(\"${(@)lines//$'\\t'/:}\"); _describe candidate lines ;;\n"
	  "\tesac\n"
	  "}\n"
	  "# Autoloaded from a folder in $fpath, or sourced.\n"
	  "if [[ $funcstack[1] == _~ ]]; then\n\t_~ \"$@\"\nelse\n\tcompdef _~ ~\nfi\n" },
	{ "fish", "# fish completion for ~\n"
		  "function __~_complete\n"
		  "\tset -l words (commandline -opc) (commandline -ct)\n"
		  "\tset -l lines ($words[1] __complete $words[2..] 2>/dev/null)\n"
		  "\tswitch \"$lines[1]\"\n"
		  "\tcase :files\n\t\t__fish_complete_path (commandline -ct)\n"
		  "\tcase :services\n\t\t" SERVICES "\n"
		  "\tcase '*'\n\t\tprintf '%s\\n' $lines\n"
		  "\tend\n"
		  "end\n"
		  "complete -c ~ -f -a '(__~_complete)'\n" },
};

int cli_completion(struct str *ret, const struct cli *cli, const char *shell)
{
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(shell, scripts[i].shell) != 0)
			continue;
		for (const char *p = scripts[i].script; *p != '\0'; p++)
			if (*p == '~')
				str_puts(ret, cli->name);
			else
				str_add(ret, p, 1);
		return 0;
	}
	return -EINVAL;
}

/* The option of "--name", "--name=..." or "-xyz", whose last letter counts. */
static const struct cli_option *option_of(const struct cli *cli, const char *word)
{
	if (strncmp(word, "--", 2) == 0)
		return cli_find(cli, word + 2, strcspn(word + 2, "="));
	return cli_find_letter(cli, word[strlen(word) - 1]);
}

/* `words` are separated by blanks; each candidate begins with `len` bytes of `before`. */
static void words_put(struct str *ret, const char *words, const char *before, size_t len)
{
	while (words != NULL && *words != '\0') {
		size_t n = strcspn(words, " ");

		str_printf(ret, "%.*s%.*s\n", (int)len, before, (int)n, words);
		words += n + (words[n] == ' ');
	}
}

static void values_put(struct str *ret, const struct cli_command *cmd, const struct cli_option *o,
		       const char *before, size_t len)
{
	words_put(ret, cli_words(cmd, o), before, len);
	if (str_words_find("FILE DIR PATH", o->arg, strlen(o->arg)) >= 0)
		str_puts(ret, ":files\n");
	if (strcmp(o->arg, "NS/NAME") == 0)
		str_puts(ret, ":services\n");
}

static void options_put(struct str *ret, const struct cli *cli, const struct cli_command *cmd)
{
	for (size_t i = 0; i < cli->n_options; i++) {
		const struct cli_option *o = &cli->options[i];

		if (o->name == NULL || (cmd != NULL && !cli_takes(cmd, o)))
			continue;
		str_printf(ret, "%s\t", cli_name(o));
		cli_help_text(ret, cmd, o);
		str_puts(ret, "\n");
	}
}

/* What may be in place of the last word. */
static void candidates_put(struct str *ret, const struct cli *cli, int n, char **words)
{
	const char *last = n > 0 && strcmp(words[n - 1], "=") != 0 ? words[n - 1] : "";
	const struct cli_option *pending = NULL; /* its value comes next */
	const struct cli_command *cmd = NULL;

	for (int i = 0; i < n - 1; i++) {
		const char *w = words[i];

		if (strcmp(w, "=") == 0) /* bash: "--name=value" is three words */
			continue;
		if (pending == NULL && w[0] != '-' && cmd == NULL)
			cmd = cli_command_find(cli, w);
		pending = pending == NULL && w[0] == '-' && w[1] != '\0' && strchr(w, '=') == NULL
				  ? option_of(cli, w)
				  : NULL;
		if (pending != NULL && (pending->arg == NULL || pending->arg[0] == '['))
			pending = NULL;
	}
	if (pending == NULL && strncmp(last, "--", 2) == 0 && strchr(last, '=') != NULL) {
		pending = option_of(cli, last);
		if (pending != NULL && pending->arg != NULL)
			values_put(ret, cmd, pending, last, strcspn(last, "=") + 1);
	} else if (pending != NULL) {
		values_put(ret, cmd, pending, "", 0);
	} else if (last[0] == '-') {
		options_put(ret, cli, cmd);
	} else if (cmd != NULL) {
		words_put(ret, cmd->words, "", 0);
	} else {
		for (size_t i = 0; i < cli->n_commands; i++)
			str_printf(ret, "%s\t%s\n", cli->commands[i].name,
				   cli->commands[i].summary);
	}
}

bool cli_complete(const struct cli *cli, int argc, char **argv)
{
	FINI(str_fini) struct str out = { 0 };

	if (argc < 2 || strcmp(argv[1], "__complete") != 0)
		return false;
	candidates_put(&out, cli, argc - 2, argv + 2);
	(void)fputs(str_text(&out), stdout);
	return true;
}
