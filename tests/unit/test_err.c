/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void test_set(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(err_set(&err, -ERANGE, "port: %d is not a number from 1 to 65535", 70000),
			 -ERANGE);
	assert_string_equal(err.text, "port: 70000 is not a number from 1 to 65535");
	assert_int_equal(err_set(&err, -EINVAL, "%s", ""), -EINVAL);
	assert_string_equal(err.text, "");
}

static void test_errno(void **state)
{
	struct err err;

	(void)state;
	errno = ENOENT;
	assert_int_equal(err_errno(&err, "open '%s'", "/x"), -ENOENT);
	assert_string_equal(err.text, "open '/x': No such file or directory");
}

/* Context is prepended; the code is unchanged. */
static void test_wrap(void **state)
{
	struct err err;
	int r;

	(void)state;
	r = err_set(&err, -ERANGE, "port: 0");
	r = err_wrap(&err, r, "spec.ports[%d]", 2);
	r = err_wrap(&err, r, "service %s", "shop/cart");
	assert_int_equal(r, -ERANGE);
	assert_string_equal(err.text, "service shop/cart: spec.ports[2]: port: 0");
}

static void test_null(void **state)
{
	(void)state;
	errno = EPERM;
	assert_int_equal(err_errno(NULL, "x"), -EPERM);
	assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
}

static void check_cut(const struct err *err)
{
	size_t len = strlen(err->text);

	assert_int_equal(len, ERR_TEXT_MAX - 1);
	assert_string_equal(err->text + len - 3, "...");
}

/* A long text is cut visibly, by each function that extends it. */
static void test_cut(void **state)
{
	char longest[ERR_TEXT_MAX * 2];
	struct err err;

	(void)state;
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	err_set(&err, -EIO, "%s", longest);
	check_cut(&err);
	err_wrap(&err, -EIO, "context");
	check_cut(&err);
	assert_memory_equal(err.text, "context: aaa", 12);
	errno = EIO;
	err_errno(&err, "%s", longest);
	check_cut(&err);

	/* The longest text that fits is not marked. */
	longest[ERR_TEXT_MAX - 1] = '\0';
	err_set(&err, -EIO, "%s", longest);
	assert_string_equal(err.text, longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),  cmocka_unit_test(test_errno),
		cmocka_unit_test(test_wrap), cmocka_unit_test(test_null),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
