/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/client: answers in pieces of any size, invalid answers, missing sockets. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/client.h"

static int collect(void *arg, const char *data, size_t len)
{
	str_add(arg, data, len);
	return 0;
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *name;
	const char *bytes;
	int ret; /* of feeding it all and closing */
	int status;
	const char *body;
} cases[] = {
	{ "sized", OK "Content-Length: 5\r\n\r\nhello", 0, 200, "hello" },
	{ "empty", OK "Content-Length: 0\r\n\r\n", 0, 200, "" },
	{ "chunks", OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 0,
	  200, "hello!" },
	{ "a large chunk", OK "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", 0,
	  200, "0123456789" },
	{ "chunk extension", OK "transfer-encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n", 0, 200,
	  "a" },
	{ "trailer", OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", 0, 200,
	  "a" },
	{ "until it closes", OK "\r\nhello", 0, 200, "hello" },
	{ "bare LF", "HTTP/1.0 404 No\nContent-Length: 1\n\nx", 0, 404, "x" },
	{ "more than was promised", OK "Content-Length: 1\r\n\r\nabc", 0, 200, "a" },

	{ "nothing", "", -EPROTO, 0, "" },
	{ "cut head", "HTTP/1.1 200 OK\r\nContent-Le", -EPROTO, 200, "" },
	{ "cut body", OK "Content-Length: 5\r\n\r\nhel", -EPROTO, 200, "hel" },
	{ "cut chunk", OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", -EPROTO, 200, "hel" },
	{ "no last chunk", OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", -EPROTO, 200, "a" },
	{ "not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO, 0, "" },
	{ "no status", "HTTP/1.1 \r\n\r\n", -EPROTO, 0, "" },
	{ "status of no meaning", "HTTP/1.1 999 X\r\n\r\n", -EPROTO, 999, "" },
	{ "length is no number", OK "Content-Length: x\r\n\r\n", -EPROTO, 200, "" },
	{ "negative length", OK "Content-Length: -1\r\n\r\n", -EPROTO, 200, "" },
	{ "chunk is no number", OK "Transfer-Encoding: chunked\r\n\r\nzz\r\n", -EPROTO, 200, "" },
	{ "huge chunk", OK "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", -EPROTO, 200,
	  "" },
	{ "unknown encoding", OK "Transfer-Encoding: gzip\r\n\r\n", -EPROTO, 200, "" },
	{ "chunk without its end", OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab", -EPROTO, 200,
	  "a" },
};

/* The same bytes in blocks, or byte by byte: the same outcome. */
static void check(size_t i, int buffering)
{
	struct str body = { 0 };
	struct answer a = { .sink = collect, .arg = &body };
	struct err err = { 0 };
	FILE *in = fmemopen((void *)(uintptr_t)cases[i].bytes, strlen(cases[i].bytes), "r");

	assert_non_null(in);
	assert_int_equal(setvbuf(in, NULL, buffering, buffering == _IONBF ? 0 : BUFSIZ), 0);
	assert_int_equal(answer_read(&a, in, &err), cases[i].ret);
	assert_int_equal(a.status, cases[i].status);
	assert_string_equal(str_text(&body), cases[i].body);
	assert_true(cases[i].ret == 0 || err.text[0] != '\0');
	(void)fclose(in);
	str_fini(&body);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("    %s\n", cases[i].name);
		check(i, _IOFBF);
		check(i, _IONBF);
	}
}

static int read_bytes(const char *text, size_t len, int (*sink)(void *, const char *, size_t))
{
	struct answer a = { .sink = sink };
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
	struct err err;
	int r;

	assert_non_null(in);
	r = answer_read(&a, in, &err);
	(void)fclose(in);
	return r;
}

/* An endless head, chunk line or trailer is an error. */
static void test_endless(void **state)
{
	static const char *const begins[] = {
		"",
		OK,
		OK "Transfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: chunked\r\n\r\n0\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		struct str text = { 0 };

		str_puts(&text, begins[i]);
		for (int n = 0; n < 100000; n++)
			str_puts(&text, "1");
		assert_int_equal(read_bytes(text.text, text.len, collect), -EPROTO);
		str_clear(&text);
		str_puts(&text, begins[i]);
		for (int n = 0; n < 100000; n++)
			str_puts(&text, "1:\r\n");
		assert_int_equal(read_bytes(text.text, text.len, collect), -EPROTO);
		str_fini(&text);
	}
}

static int refuse(void *arg, const char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return -EPIPE;
}

static void test_sink_fails(void **state)
{
	(void)state;
	assert_int_equal(read_bytes(OK "\r\nx", strlen(OK) + 3, refuse), -EPIPE);
}

/* --- against a socket --- */

static char dir[64];
static char path[96];

static int listener(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static unsigned int interrupts; /* signals before each answer */

/* A process that answers one request with these bytes. NULL: it accepts and does not answer. */
static pid_t answer_with(int fd, const char *bytes)
{
	pid_t pid = fork();
	char buf[1024];
	int c;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	c = accept(fd, NULL, NULL);
	if (c < 0 || read(c, buf, sizeof(buf)) <= 0)
		_exit(1);
	if (bytes == NULL)
		pause();
	for (unsigned int i = 0; i < interrupts; i++) {
		(void)kill(getppid(), SIGUSR1);
		(void)usleep(1000);
	}
	_exit(write(c, bytes, strlen(bytes)) < 0);
}

static int ask(const char *bytes, unsigned int timeout_ms, struct err *err)
{
	struct client c = { path, timeout_ms };
	json_t *json = NULL;
	int fd = listener();
	pid_t pid = answer_with(fd, bytes);
	int r = client_json(&json, &c, "GET", "/v1/status", err);

	json_decref(json);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	assert_int_equal(unlink(path), 0);
	return r;
}

#define JSON OK "Content-Type: application/json\r\n\r\n"

static const struct {
	const char *bytes;
	int ret;
	const char *text; /* part of the error */
} exchanges[] = {
	{ JSON "{\"api\":1}", 0, NULL },
	{ JSON "{\"api\":2}", -EPROTONOSUPPORT, "vipd has version 2 of the control API" },
	{ JSON "{\"api\":\"1\"}", -EPROTO, "invalid answer" },
	{ JSON "{\"api\":1", -EPROTO, "invalid answer" },
	{ JSON "[1]", -EPROTO, "invalid answer" },
	{ "", -EPROTO, "closed the connection without an answer" },
	{ "HTTP/1.1 404 Not Found\r\n\r\n{\"error\":{\"text\":\"there is no service a/b\"}}",
	  -ENODATA, "there is no service a/b" },
	{ "HTTP/1.1 409 Conflict\r\n\r\n{\"error\":{\"text\":\"cannot be ejected\"}}", -ENODATA,
	  "cannot be ejected" },
	{ "HTTP/1.1 400 Bad\r\n\r\n{\"error\":{\"text\":\"limit: 'x'\"}}", -EINVAL, "limit: 'x'" },
	{ "HTTP/1.1 431 Large\r\n\r\n{\"error\":{\"text\":\"too large\"}}", -EINVAL, "too large" },
	{ "HTTP/1.1 500 Oh\r\n\r\n<html>", -EPROTO, "HTTP status 500" },
};

static void test_exchanges(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(exchanges); i++) {
		struct err err = { 0 };

		assert_int_equal(ask(exchanges[i].bytes, 5000, &err), exchanges[i].ret);
		if (exchanges[i].text != NULL)
			assert_non_null(strstr(err.text, exchanges[i].text));
	}
}

static void test_long_error(void **state)
{
	static char answer[70000] = "HTTP/1.1 500 Oh\r\n\r\n";
	struct err err = { 0 };

	(void)state;
	memset(answer + strlen(answer), 'x', sizeof(answer) - strlen(answer) - 1);
	assert_int_equal(ask(answer, 5000, &err), -EPROTO);
	assert_non_null(strstr(err.text, "invalid answer"));
}

static void test_silence(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(ask(NULL, 30, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "did not answer within"));
}

static void on_signal(int number)
{
}

/* A signal during a read with a timeout ends the read, also with SA_RESTART. */
static void test_interrupted(void **state)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	interrupts = 20;
	assert_int_equal(ask(exchanges[0].bytes, 5000, &err), 0);
	interrupts = 0;
}

static void test_no_subscriber(void **state)
{
	struct client c = { path, 1000 };
	struct err err;
	json_t *json;
	char long_path[200];
	int fd;

	(void)state;
	assert_int_equal(client_json(&json, &c, "GET", "/", &err), -ENOENT);
	assert_non_null(strstr(err.text, "vipd is not running on this node: no socket"));
	close(listener()); /* its socket file stays */
	assert_int_equal(client_json(&json, &c, "GET", "/", &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "vipd is not running: "));
	assert_int_equal(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(client_json(&json, &c, "GET", "/", &err), -ECONNREFUSED);
	assert_int_equal(unlink(path), 0);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	c.path = long_path;
	assert_int_equal(client_json(&json, &c, "GET", "/", &err), -ENAMETOOLONG);
}

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/vipd-test-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),       cmocka_unit_test(test_endless),
		cmocka_unit_test(test_sink_fails),    cmocka_unit_test(test_exchanges),
		cmocka_unit_test(test_long_error),    cmocka_unit_test(test_silence),
		cmocka_unit_test(test_no_subscriber), cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
