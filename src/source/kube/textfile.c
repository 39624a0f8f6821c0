/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/textfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

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
	r = file_read(&text, f->path, max, err);
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
