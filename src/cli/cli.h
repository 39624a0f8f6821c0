/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli - command lines from a table of options: parsing, --help, completion.
 *
 *     while ((r = cli_next(&args, &cli, &option, &value, &err)) > 0)
 *             cli_set(option, &settings, value, &err);
 *
 * An option has a type, a range and the offset of its member in the program's struct of
 * settings. One table describes vipd's flags, another vipctl's options and commands.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"
#include "base/str.h"
#include "base/vec.h"

enum cli_type {
	CLI_ANY = 0,   /* not checked, not stored */
	CLI_TEXT,      /* const char *, borrowed; empty: NULL, with min 1 an error, -1 "" */
	CLI_WORD,      /* const char *, one of `words` */
	CLI_CHOICE,    /* enum or bool: min plus the index in `words` */
	CLI_BOOL,      /* Go's strconv.ParseBool(); without a value: true */
	CLI_INT,       /* of 4 or 8 bytes, from min to max */
	CLI_NUMBER,    /* double */
	CLI_DURATION,  /* Go's time.Duration as uint64_t nanoseconds; min 1: 0 is an error */
	CLI_SECONDS,   /* as CLI_DURATION, stored in seconds, fractions cut, but not to 0 */
	CLI_PREFIXES,  /* VEC(struct ip_prefix), separated by commas */
	CLI_INTERFACE, /* char [CLI_INTERFACE_MAX]; may be empty */
	CLI_ENTRIES,   /* a list separated by commas: `set_entry` for each entry */
	CLI_FUNCTION,  /* `set` does it */
};

#define CLI_INTERFACE_MAX 16 /* with the terminator; linux/if.h IFNAMSIZ */

struct cli_option;
typedef int (*cli_set_fn)(void *settings, const struct cli_option *o, const char *value,
			  struct err *err);

/* An entry NAME or NAME=VALUE of a list; `value` NULL: without '='. */
typedef int (*cli_entry_fn)(void *settings, const char *name, const char *value, struct err *err);

/* How a value is read, and where it goes. */
struct cli_value {
	enum cli_type type;
	uint16_t at; /* offset of the member */
	/* Of the member; 0: checked, not stored (not of CLI_NUMBER, CLI_PREFIXES, CLI_INTERFACE).
	 */
	uint16_t size;
	int64_t min;
	int64_t max;
	cli_set_fn set;
	cli_entry_fn set_entry;
};

/* Initializers of struct cli_value; `member` is of struct CLI_SETTINGS, set by the table's file. */
/* clang-format off */
#define CLI_VALUE(...) { __VA_ARGS__ }
#define CLI_AT(member) \
	offsetof(struct CLI_SETTINGS, member), sizeof(((struct CLI_SETTINGS *)NULL)->member)
/* clang-format on */

enum cli_effect {
	CLI_EFFECTIVE = 0,
	CLI_ACCEPTED, /* checked, without effect */
	CLI_REFUSED,  /* an error; `help` is the reason */
};

struct cli_option {
	const char *name; /* long, or a single letter; NULL: a configuration field only */
	const char *arg;  /* NULL: a switch; "[=X]": the value may be left out */
	struct cli_value value;
	const char *help;    /* noun phrase or imperative; the default is appended */
	const char *preset;  /* default as text; NULL: none */
	const char *field;   /* of the configuration file */
	const char *words;   /* possible values, separated by blanks */
	const char *group;   /* heading above this option and those that follow */
	char letter;         /* short option, or 0 */
	char command_letter; /* for cli_command.options; 0: all commands take the option */
	bool is_by_command;  /* `words` lists all values; a command takes cli_command.values */
	unsigned char kind;  /* enum config_kind where it does not follow from the type */
	enum cli_effect effect;
	const char *nft_field; /* with the same meaning, in the section of another mode; or NULL */
	const char *differs;   /* from kube-proxy's setting of this name; NULL: in nothing */
};

struct run;

struct cli_command {
	const char *name;
	const char *args;
	const char *summary;
	const char *options; /* command_letter of each option that is not for all */
	const char *help;    /* lines indented by two */
	const char *values;  /* of the option that is_by_command; NULL: it is not taken */
	const char *words;   /* possible arguments, separated by blanks; ":services" */
	int (*run)(const struct run *run);
};

/* A program. */
struct cli {
	const char *name;
	const char *usage; /* head of --help */
	const char *usage_end;
	const struct cli_option *options;
	size_t n_options;
	const struct cli_command *commands; /* NULL: no commands */
	size_t n_commands;
};

/* Position in argv. */
struct cli_args {
	int argc;
	char **argv;
	int i;               /* of the argument read last; 0: none */
	const char *cluster; /* rest of "-xyz" */
	bool is_end;         /* "--" was read */
};

/*
 * The next argument. 1: `*option` with `*value` (NULL: none); with `*option` NULL, a word.
 * 0: the end. -EINVAL: `err` names the argument.
 */
MUST_USE int cli_next(struct cli_args *args, const struct cli *cli,
		      const struct cli_option **option, const char **value, struct err *err);
/* Set `o` from all of argv before any argument is checked. Ignores errors. */
void cli_foresee(const struct cli *cli, const struct cli_option *o, void *settings, int argc,
		 char **argv);
/* By long name, in which '_' equals '-'; NULL: none. */
const struct cli_option *cli_find(const struct cli *cli, const char *name, size_t len);
/* By letter, or a name of one letter. */
const struct cli_option *cli_find_letter(const struct cli *cli, char letter);
/*
 * The word nearest to `typed`; NULL when none is similar. A word, or NULL, is the first member of
 * each of the `n` entries of `size` bytes.
 */
const char *cli_nearest(const char *typed, const void *table, size_t size, size_t n);
/* NULL: no such command. */
const struct cli_command *cli_command_find(const struct cli *cli, const char *name);
/* "--name", or "-n" for a single letter; as str_local(). */
#define cli_name(o) str_local(64, "%s%s", (o)->name[1] == '\0' ? "-" : "--", (o)->name)

/*
 * Check `value` and store it in `settings`; `err` says what is allowed. A NULL `value` is that of
 * a switch without "=VALUE". Nothing is stored on failure.
 */
MUST_USE int cli_set(const struct cli_option *o, void *settings, const char *value,
		     struct err *err);
MUST_USE int cli_bool(bool *ret, const char *value, struct err *err);
MUST_USE int cli_int(int64_t *ret, const char *value, int64_t min, int64_t max, struct err *err);
/* Nanoseconds. */
MUST_USE int cli_duration(uint64_t *ret, const char *value, struct err *err);
/* The members of VEC(struct ip_prefix). */
struct cli_prefixes {
	struct ip_prefix *v;
	uint32_t n;
	uint32_t cap;
};
/* Replaces `*ret`; blanks around entries are ignored. */
MUST_USE int cli_prefixes(struct cli_prefixes *ret, const char *value, struct err *err);

/* Does `cmd` take `o`? */
bool cli_takes(const struct cli_command *cmd, const struct cli_option *o);
/* Values of `o` that `cmd` takes, separated by blanks; NULL: any. `cmd`: NULL, or a command. */
const char *cli_words(const struct cli_command *cmd, const struct cli_option *o);
/* One line of at most 80 columns per option. `cmd`: NULL, or help of a single command. */
void cli_help(struct str *ret, const struct cli *cli, const struct cli_command *cmd);
/* What --help of `cmd` (or NULL) says about `o`: help, or the values of `cmd`; [default]. */
void cli_help_text(struct str *ret, const struct cli_command *cmd, const struct cli_option *o);
/* A completion script for "bash", "zsh" or "fish"; -EINVAL for another shell. */
MUST_USE int cli_completion(struct str *ret, const struct cli *cli, const char *shell);
/* Print candidates if a completion script called the program. False: it did not. */
bool cli_complete(const struct cli *cli, int argc, char **argv);
/* "0.2.0 (commit 8a7655d7c2aa)"; without the commit when the sources did not have it. */
const char *cli_version(void);
