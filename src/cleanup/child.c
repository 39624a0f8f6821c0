/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/child - input and output are memory files, so that neither process blocks. */
#include "cleanup/child.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"

enum {
	TO = 0, /* descriptors of the child */
	FROM,
	COMPLAINTS,
	N_FILES,
};

static void files_close(int fds[static N_FILES])
{
	for (int i = 0; i < N_FILES; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int files_open(int fds[static N_FILES], const char *in, struct err *err)
{
	for (int i = 0; i < N_FILES; i++) {
		fds[i] = memfd_create("vipd", MFD_CLOEXEC);
		if (fds[i] < 0)
			return err_errno(err, "memfd");
	}
	if (!child_write(fds[TO], in, strlen(in)) || lseek(fds[TO], 0, SEEK_SET) == -1)
		return err_errno(err, "memfd");
	return 0;
}

static void file_read(struct str *out, int fd)
{
	char buf[4096];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		str_add(out, buf, (size_t)n);
		at += n;
	}
}

/* glibc's posix_spawnp() also returns -ENOENT if its child cannot find the program. */
static int spawn(pid_t *ret, const int fds[static N_FILES], char *const argv[], struct err *err)
{
	posix_spawn_file_actions_t fa;
	int r = posix_spawn_file_actions_init(&fa);

	if (r != 0)
		return err_set(err, -r, "%s: %s", argv[0], strerror(r));
	for (int i = 0; r == 0 && i < N_FILES; i++)
		r = posix_spawn_file_actions_adddup2(&fa, fds[i], i);
	if (r == 0)
		r = posix_spawnp(ret, argv[0], &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	return r == 0 ? 0 : err_set(err, -r, "%s: %s", argv[0], strerror(r));
}

static int child_wait(pid_t pid, const char *name, int complaints, struct err *err)
{
	struct str text = { 0 };
	int status;
	int r = 0;

	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			return err_errno(err, "%s", name);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		file_read(&text, complaints);
		while (text.len > 0 && text.text[text.len - 1] == '\n')
			text.text[--text.len] = '\0';
		r = err_set(err, -EIO, "%s%s%s", name,
			    text.len > 0 ? ": " : " failed without an error message",
			    str_text(&text));
		str_fini(&text);
	}
	return r;
}

int child_run(struct str *out, char *const argv[], const char *in, struct err *err)
{
	int fds[N_FILES] = { -1, -1, -1 };
	pid_t pid;
	int r = files_open(fds, in, err);

	if (r == 0)
		r = spawn(&pid, fds, argv, err);
	if (r == 0)
		r = child_wait(pid, argv[0], fds[COMPLAINTS], err);
	if (r == 0)
		file_read(out, fds[FROM]);
	files_close(fds);
	return r;
}
