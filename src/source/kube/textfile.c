/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_fd(struct str *ret, int fd, size_t max, struct err *err)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n == -1 && errno == EINTR)) {
		if (n > 0)
			str_add(ret, buf, (size_t)n);
		if (ret->len > max)
			return err_set(err, -EFBIG, "more than %zu bytes", max);
	}
	return n == -1 ? err_errno(err, "read") : 0;
}

int textfile_read(struct str *ret, const char *path, size_t max, struct err *err)
{
	AUTO(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd == -1)
		return err_errno(err, "%s", path);
	str_clear(ret);
	r = read_fd(ret, fd, max, err);
	return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int textfile_check(struct textfile *f, size_t max, struct err *err)
{
	struct str text = { 0 };
	struct stat st;
	bool is_new;
	int r;

	if (stat(f->path, &st) == -1)
		return err_errno(err, "%s", f->path);
	if (f->is_read && is_same(&f->seen, &st))
		return 0;
	r = textfile_read(&text, f->path, max, err);
	if (r == 0 && text.len == 0)
		r = err_set(err, -ENODATA, "%s: empty", f->path);
	if (r < 0) {
		str_fini(&text);
		return r;
	}
	is_new = !f->is_read || f->text.len != text.len ||
		 memcmp(f->text.text, text.text, text.len) != 0;
	str_fini(&f->text);
	f->text = text;
	f->seen = st;
	f->is_read = true;
	return is_new;
}

void textfile_fini(struct textfile *f)
{
	free(f->path);
	str_fini(&f->text);
	*f = (struct textfile){ 0 };
}
