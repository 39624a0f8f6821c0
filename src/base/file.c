/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"

#define NUMBER_MAX 4096 /* /sys and /proc write at most a page */

int file_read(struct str *ret, const char *path, size_t max, struct err *err)
{
	AUTO(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char buf[4096];
	ssize_t n;

	if (fd == -1)
		return err_errno(err, "%s", path);
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n == -1 && errno == EINTR)) {
		if (n > 0)
			str_add(ret, buf, (size_t)n);
		if (ret->len > max)
			return err_set(err, -EFBIG, "%s: more than %zu bytes", path, max);
	}
	return n == -1 ? err_errno(err, "%s: read", path) : 0;
}

int file_write(const char *path, const char *text, struct err *err)
{
	FILE *f = fopen(path, "we");
	int r = f == NULL || fputs(text, f) == EOF ? err_errno(err, "%s", path) : 0;

	if (f != NULL && fclose(f) != 0 && r == 0)
		r = err_errno(err, "%s", path);
	return r;
}

int file_read_number(uint64_t *ret, const char *path, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	int r = file_read(&text, path, NUMBER_MAX, err);
	char *end;

	if (r < 0)
		return r;
	errno = 0;
	*ret = strtoull(str_text(&text), &end, 10);
	if (end == str_text(&text) || errno != 0)
		return err_set(err, -EINVAL, "%s: not a number", path);
	return 0;
}

int file_write_number(const char *path, int64_t n, struct err *err)
{
	AUTO(close) int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRId64 "\n", n);

	if (fd == -1 || write(fd, text, (size_t)len) != len)
		return err_errno(err, "%s: cannot be set to %" PRId64, path, n);
	return 0;
}
