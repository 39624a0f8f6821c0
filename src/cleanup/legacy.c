/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/legacy - parse iptables-save's output, print iptables-restore's input. */
#include "cleanup/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "nft/sets.h"

#define NAMES_MAX 4096 /* bytes of the list of tables */

static const struct {
	const char *names; /* path of the kernel's list of tables */
	const char *save;
	const char *restore;
} families[IPFAM_N] = {
	{ "/proc/net/ip_tables_names", "iptables-legacy-save", "iptables-legacy-restore" },
	{ "/proc/net/ip6_tables_names", "ip6tables-legacy-save", "ip6tables-legacy-restore" },
};

/* --- programs: input and output are memory files, so that neither process blocks --- */

/* From its beginning: the program's position is that of `fd`. */
static int memory_read(struct str *out, int fd, struct err *err)
{
	return file_read(out, str_local(32, "/proc/self/fd/%d", fd), SIZE_MAX, err);
}

/* `fds` become 0 to 2 of the child. glibc's posix_spawnp() also returns -ENOENT if its child cannot
 * find the program. */
static int spawn(pid_t *ret, const int fds[static 3], const char *const argv[], struct err *err)
{
	posix_spawn_file_actions_t fa;
	int r = 0;

	(void)posix_spawn_file_actions_init(&fa);
	for (int i = 0; r == 0 && i < 3; i++)
		r = posix_spawn_file_actions_adddup2(&fa, fds[i], i);
	if (r == 0)
		r = posix_spawnp(ret, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	return r == 0 ? 0 : err_set(err, -r, "%s: %s", argv[0], strerror(r));
}

static int child_wait(pid_t pid, const char *name, int complaints, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	int status;

	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			return err_errno(err, "%s", name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	(void)!memory_read(&text, complaints, NULL);
	while (text.len > 0 && text.text[text.len - 1] == '\n')
		text.text[--text.len] = '\0';
	return err_set(err, -EIO, "%s%s%s", name,
		       text.len > 0 ? ": " : " failed without an error message", str_text(&text));
}

int child_run(struct str *out, const char *const argv[], const char *in, struct err *err)
{
	AUTO(close) int to = memfd_create("vipd", MFD_CLOEXEC);
	AUTO(close) int from = memfd_create("vipd", MFD_CLOEXEC);
	AUTO(close) int complaints = memfd_create("vipd", MFD_CLOEXEC);
	pid_t pid;
	int r;

	if (to < 0 || from < 0 || complaints < 0 || !child_write(to, in, strlen(in)) ||
	    lseek(to, 0, SEEK_SET) == -1)
		return err_errno(err, "memfd");
	r = spawn(&pid, (const int[]){ to, from, complaints }, argv, err);
	if (r == 0)
		r = child_wait(pid, argv[0], complaints, err);
	return r == 0 ? memory_read(out, from, err) : r;
}

/* --- reading --- */

/* Advance to the next word, quotes included. Returns its length, 0 at the end of the line. */
static size_t word_next(const char **at)
{
	const char *p = *at + strspn(*at, " ");
	bool is_quoted = false;

	*at = p;
	for (; *p != '\0' && *p != '\n' && (is_quoted || *p != ' '); p++) {
		if (*p == '\\' && p[1] != '\0')
			p++;
		else if (*p == '"')
			is_quoted = !is_quoted;
	}
	return (size_t)(p - *at);
}

static bool word_is(const char *word, size_t len, const char *text)
{
	return strlen(text) == len && strncmp(word, text, len) == 0;
}

static void chain_parse(struct xt_table *t, const char *line)
{
	const char *at = line + 1;
	size_t len = word_next(&at);
	struct xt_chain c = { .name = xstrndup(at, len) };

	at += len;
	len = word_next(&at);
	c.is_base = !word_is(at, len, "-");
	c.is_closed = word_is(at, len, "DROP");
	*vec_push(&t->chains) = c;
}

/* kube-router masquerades what IPVS translates, with rules in POSTROUTING itself. */
static bool is_stray(const struct xt_table *t, const char *text)
{
	static const char match[] = "--vdir ORIGINAL --vmethod MASQ ";
	size_t len = strcspn(text, "\n");

	return t->proxy == PROXY_KUBE_ROUTER && strcmp(t->name, "nat") == 0 &&
	       memmem(text, len, "-m ipvs ", 8) != NULL &&
	       memmem(text, len, match, strlen(match)) != NULL &&
	       memmem(text, len, " -j SNAT ", 9) != NULL;
}

/* Copy the word after `option`; "" without the option. */
static void option_read(char ret[static IP_PREFIX_TEXT_MAX], const char *text, const char *option)
{
	const char *at = text;
	size_t len;

	ret[0] = '\0';
	while ((len = word_next(&at)) > 0) {
		bool is_option = word_is(at, len, option);

		at += len;
		if (!is_option)
			continue;
		len = word_next(&at);
		(void)snprintf(ret, IP_PREFIX_TEXT_MAX, "%.*s", (int)len, at);
		return;
	}
}

/* Details of MARK and TCPMSS rules for one address. */
static void dsr_parse(struct xt_rule *r)
{
	bool is_mark = strcmp(r->target, "MARK") == 0;
	char text[IP_PREFIX_TEXT_MAX];
	struct ip_prefix at;
	uint32_t mark;
	uint32_t mask;

	option_read(text, r->text, "!");
	if (text[0] != '\0' || (!is_mark && strcmp(r->target, "TCPMSS") != 0))
		return;
	option_read(text, r->text, "-d");
	if (text[0] == '\0')
		option_read(text, r->text, "-s");
	if (ip_prefix_parse(&at, text, NULL) < 0 || at.len != ip_len(ip_fam(&at.addr)) * 8)
		return;
	r->addr = at.addr;
	r->is_mss = !is_mark && strstr(r->text, "--set-mss") != NULL;
	option_read(text, r->text, "--set-xmark");
	if (is_mark && sscanf(text, "%" SCNx32 "/%" SCNx32, &mark, &mask) == 2 &&
	    mask == UINT32_MAX)
		r->mark = mark;
}

/* A comment is a match, but no condition. */
static const char *comments_skip(const char *at)
{
	static const char match[] = "-m comment --comment ";
	size_t len = strlen(match);

	while (strncmp(at, match, len) == 0) {
		size_t word_len;

		at += len;
		word_len = word_next(&at);
		at += word_len + strspn(at + word_len, " ");
	}
	return at;
}

static void rule_parse(struct xt_table *t, const char *line)
{
	const char *name = line + 3;
	size_t name_len = word_next(&name);
	const char *at = name + name_len;
	const char *text = at + strspn(at, " ");
	const char *first = comments_skip(text);
	struct xt_chain *c = xt_chain(t, name, name_len);
	size_t len;

	if (c == NULL)
		return;
	c->n_rules++;
	while ((len = word_next(&at)) > 0) {
		bool is_first = at == first;
		bool is_goto = word_is(at, len, "-j") || word_is(at, len, "-g");

		at += len;
		if (!is_goto)
			continue;
		len = word_next(&at);
		if (is_first && (word_is(at, len, "DROP") || word_is(at, len, "REJECT")))
			c->is_closed = true;
		*vec_push(&t->rules) =
			(struct xt_rule){ .chain = c->name,
					  .is_in_base = c->is_base,
					  .target = xstrndup(at, len),
					  .text = xstrndup(text, strcspn(text, "\n")),
					  .is_stray = c->is_base && is_stray(t, text) };
		if (t->marks != NULL)
			dsr_parse(&t->rules.v[t->rules.n - 1]);
		return;
	}
}

void legacy_parse(struct xt_table *t, const char *saved)
{
	bool is_inside = false;

	for (const char *p = saved; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
		if (*p == '*')
			is_inside = word_is(p + 1, strcspn(p + 1, "\n"), t->name);
		else if (is_inside && *p == ':')
			chain_parse(t, p);
		else if (is_inside && strncmp(p, "-A ", 3) == 0)
			rule_parse(t, p);
	}
}

/* --- removal --- */

void legacy_print(struct str *out, const struct xt_table *t)
{
	struct xt_counts counts = { 0 };

	xt_count(t, &counts);
	if (counts.n_chains + counts.n_jumps + counts.n_strays == 0)
		return;
	str_printf(out, "*%s\n", t->name);
	vec_for_each (c, &t->chains)
		if (c->is_doomed)
			str_printf(out, ":%s - [0:0]\n", c->name);
	vec_for_each (r, &t->rules)
		if (r->is_doomed)
			str_printf(out, "-D %s %s\n", r->chain, r->text);
	vec_for_each (c, &t->chains)
		if (c->is_doomed)
			str_printf(out, "-X %s\n", c->name);
	str_puts(out, "COMMIT\n");
}

/* Append the removal of one table to `out`. Returns 0 or the error of child_run(). */
static int table_undo(struct str *out, struct xt_counts *counts, enum ipfam fam, size_t i,
		      struct cleanup *c, struct err *err)
{
	const char *const argv[] = { families[fam].save, "-t", xt_table_names[i], NULL };
	FINI(xt_fini)
	struct xt_table t = {
		.proxy = c->proxy, .marks = &c->marks, .fam = fam, .name = xt_table_names[i]
	};
	FINI(str_fini) struct str saved = { 0 };
	int r = child_run(&saved, argv, "", err);

	if (r == 0) {
		legacy_parse(&t, str_text(&saved));
		xt_decide(&t, c->is_forced);
		xt_count(&t, counts);
		legacy_print(out, &t);
		report_kept(c, "legacy", &t);
	}
	return r;
}

static int family_clean(enum ipfam fam, struct xt_counts *counts, struct cleanup *c,
			struct err *err)
{
	const char *const argv[] = { families[fam].restore, "--noflush", "-w", "5", NULL };
	struct xt_counts sum = *counts;
	FINI(str_fini) struct str undo = { 0 };
	FINI(str_fini) struct str none = { 0 };
	FINI(str_fini) struct str names = { 0 };
	int r = 0;

	(void)!file_read(&names, families[fam].names, NAMES_MAX, NULL); /* no file: no tables */
	for (size_t i = 0; r == 0 && i < XT_TABLES; i++)
		if (str_has_line(str_text(&names), xt_table_names[i]))
			r = table_undo(&undo, &sum, fam, i, c, err);
	if (r == 0 && undo.len > 0)
		r = child_run(&none, argv, undo.text, err);
	if (r == 0)
		*counts = sum;
	return r;
}

void cleanup_iptables_legacy(struct cleanup *c)
{
	struct xt_counts counts = { 0 };

	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct err why = { 0 };
		int r = family_clean(fam, &counts, c, &why);

		if (r == -ENOENT)
			report_left(c,
				    "iptables (legacy): left: the kernel has %s tables; install %s "
				    "to read them",
				    nft_fam_text(fam), families[fam].save);
		else if (r < 0)
			report_left(c, "iptables (legacy): left: %s: %s", nft_fam_text(fam),
				    why.text);
	}
	report_counts(c, "legacy", &counts);
}
