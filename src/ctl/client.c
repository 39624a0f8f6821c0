/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/client - the socket, and the answer in pieces. */
#include "ctl/client.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control.h"

#define LINE_MAX_BYTES 1024
#define HEAD_LINES_MAX 64
#define ERROR_MAX 65536

/* --- the answer --- */

static int malformed(struct err *err)
{
	return err_set(err, -EPROTO, "invalid answer: not from vipd");
}

/* The end of the input, or why it cannot be read. */
static int input_over(FILE *in, struct err *err)
{
	if (ferror(in) && errno == EAGAIN)
		return err_set(err, -ETIMEDOUT, "no answer");
	if (ferror(in) && errno != ECONNRESET)
		return err_errno(err, "control socket");
	return err_set(err, -EPROTO, "the answer is incomplete");
}

/* The next line without its end. -EPROTO: longer than a line may be, or the input ends. */
static int line_read(char line[static LINE_MAX_BYTES], FILE *in, struct err *err)
{
	size_t len;

	if (fgets(line, LINE_MAX_BYTES, in) == NULL)
		return input_over(in, err);
	len = strlen(line);
	if (len == 0 || line[len - 1] != '\n')
		return len + 1 < LINE_MAX_BYTES && (feof(in) || ferror(in)) ? input_over(in, err)
									    : malformed(err);
	line[strcspn(line, "\r\n")] = '\0';
	return 0;
}

/* A number at the start of `text`; `end` may follow it. */
static int number_read(uint64_t *ret, const char *text, int base, char end, struct err *err)
{
	char *rest;

	if (!isxdigit((unsigned char)*text))
		return malformed(err);
	errno = 0;
	*ret = strtoull(text, &rest, base);
	return errno == 0 && (*rest == '\0' || *rest == end) ? 0 : malformed(err);
}

/* What follows the name of the header in `line`; NULL: another header. */
static const char *header(const char *line, const char *name)
{
	size_t len = strlen(name);

	if (strncasecmp(line, name, len) != 0 || line[len] != ':')
		return NULL;
	return line + len + 1 + strspn(line + len + 1, " \t");
}

/* `left`: length of the body; UINT64_MAX: up to the end of the connection. */
static int head_read(struct answer *a, FILE *in, uint64_t *left, bool *is_chunked, struct err *err)
{
	char line[LINE_MAX_BYTES] = "";
	int r = line_read(line, in, err);

	if (r < 0 && feof(in) && *line == '\0')
		return err_set(err, r, "vipd closed the connection without an answer");
	if (r < 0)
		return r;
	if (sscanf(line, "HTTP/1.%*1[0-9] %3d", &a->status) != 1 || a->status < 200 ||
	    a->status > 599)
		return malformed(err);
	for (int i = 0; i < HEAD_LINES_MAX; i++) {
		const char *value;

		r = line_read(line, in, err);
		if (r < 0 || *line == '\0')
			return r;
		value = header(line, "Transfer-Encoding");
		if (value != NULL && strcasecmp(value, "chunked") != 0)
			return malformed(err);
		*is_chunked |= value != NULL;
		value = header(line, "Content-Length");
		if (value != NULL && number_read(left, value, 10, '\0', err) < 0)
			return -EPROTO;
	}
	return malformed(err);
}

static int body_take(struct answer *a, const char *data, size_t len, struct err *err)
{
	if (a->status == 200 || a->error == NULL)
		return a->sink(a->arg, data, len);
	if (a->error->len + len > ERROR_MAX)
		return malformed(err);
	str_add(a->error, data, len);
	return 0;
}

/* Pass on `left` bytes, or all up to the end for UINT64_MAX. */
static int body_read(struct answer *a, FILE *in, uint64_t left, struct err *err)
{
	static char buf[65536]; /* static: too large for the stack, one exchange at a time */

	while (left > 0) {
		size_t chunk = (size_t)MIN(left, (uint64_t)sizeof(buf));
		size_t n = fread(buf, 1, chunk, in);
		int code = errno;
		int r = n > 0 ? body_take(a, buf, n, err) : 0;

		errno = code;
		if (r < 0)
			return r;
		left -= left == UINT64_MAX ? 0 : n;
		if (n < chunk)
			return left == UINT64_MAX && feof(in) ? 0 : input_over(in, err);
	}
	return 0;
}

/* The trailer has lines up to an empty one; vipd sends none. */
static int chunks_read(struct answer *a, FILE *in, struct err *err)
{
	char line[LINE_MAX_BYTES];
	uint64_t left = 1;
	int r;

	while ((r = line_read(line, in, err)) == 0 &&
	       (r = number_read(&left, line, 16, ';', err)) == 0 && left > 0) {
		if (left > CLIENT_BODY_MAX)
			return malformed(err);
		r = body_read(a, in, left, err);
		if (r == 0)
			r = line_read(line, in, err);
		if (r == 0 && *line != '\0')
			r = malformed(err);
		if (r < 0)
			return r;
	}
	for (int i = 0; r == 0 && *line != '\0'; i++)
		r = i < HEAD_LINES_MAX ? line_read(line, in, err) : malformed(err);
	return r;
}

int answer_read(struct answer *a, FILE *in, struct err *err)
{
	uint64_t left = UINT64_MAX;
	bool is_chunked = false;
	int r = head_read(a, in, &left, &is_chunked, err);

	if (r < 0)
		return r;
	return is_chunked ? chunks_read(a, in, err) : body_read(a, in, left, err);
}

/* --- the socket --- */

static int connect_failed(const struct client *c, int code, struct err *err)
{
	switch (code) {
	case -ENOENT:
		return err_set(err, code,
			       "vipd is not running on this node: no socket %s; --socket selects "
			       "another",
			       c->path);
	case -ECONNREFUSED:
		return err_set(err, code, "vipd is not running: %s refuses connections", c->path);
	case -EACCES:
	case -EPERM:
		return err_set(err, code,
			       "no permission for %s: run as root, or as a member of the "
			       "socket's group",
			       c->path);
	case -EAGAIN:
		return err_set(err, code, "vipd is too busy to accept a connection on %s", c->path);
	case -ENOTSOCK:
	case -EPROTOTYPE:
		return err_set(err, code, "%s is not a control socket", c->path);
	default:
		return err_set(err, code, "%s: %s", c->path, strerror(-code));
	}
}

static int socket_connect(const struct client *c, struct err *err)
{
	const struct timeval limit = { c->timeout_ms / 1000, c->timeout_ms % 1000 * 1000 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(c->path) >= sizeof(addr.sun_path))
		return err_set(err, -ENAMETOOLONG, "%s: longer than a socket's path can be",
			       c->path);
	strcpy(addr.sun_path, c->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int r = connect_failed(c, -errno, err);

		close(fd);
		return r;
	}
	return fd;
}

/* With a receive timeout, a process that was stopped and continued gets EINTR: signal(7). */
static ssize_t stream_read(void *cookie, char *buf, size_t size)
{
	ssize_t n;

	do
		n = read(*(const int *)cookie, buf, size);
	while (n == -1 && errno == EINTR);
	return n;
}

/* vipd's error text, or the status. */
static int status_error(int status, const struct str *body, struct err *err)
{
	json_auto_t *json = json_loadb(str_text(body), body->len, 0, NULL);
	const json_t *e = json_object_get(json, "error");
	const char *text = json_string_value(json_object_get(e, "text"));
	int code = status == 404 || status == 409 || status == 503 ? -ENODATA
		   : status == 400 || status == 431                ? -EINVAL
								   : -EPROTO;

	if (text == NULL)
		code = err_set(err, -EPROTO, "vipd answered with HTTP status %d", status);
	else
		(void)err_set(err, code, "%s", text);
	return code;
}

int client_request(const struct client *c, const char *method, const char *target,
		   int (*sink)(void *arg, const char *data, size_t len), void *arg, struct err *err)
{
	FINI(str_fini) struct str error = { 0 };
	FINI(str_fini) struct str text = { 0 };
	struct answer answer = { .sink = sink, .arg = arg, .error = &error };
	AUTO(close) int fd = socket_connect(c, err);
	AUTO(fclose) FILE *in = NULL;
	int r = 0;

	if (fd < 0)
		return fd;
	in = fopencookie(&fd, "r", (cookie_io_functions_t){ .read = stream_read });
	if (in == NULL)
		abort(); /* out of memory, as in xmalloc() */
	str_printf(&text, "%s %s HTTP/1.1\r\nHost: vipd\r\nConnection: close\r\n\r\n", method,
		   target);
	/* Blocking: it sends all, or fails. */
	if (send(fd, text.text, text.len, MSG_NOSIGNAL) != (ssize_t)text.len)
		r = err_errno(err, "%s", c->path);
	if (r == 0)
		r = answer_read(&answer, in, err);
	if (r == -ETIMEDOUT)
		(void)err_set(err, r, "vipd did not answer within %u s on %s",
			      (c->timeout_ms + 999) / 1000, c->path);
	if (r == 0 && answer.status != 200)
		r = status_error(answer.status, &error, err);
	return r;
}

/* --- values --- */

static int sink_str(void *arg, const char *data, size_t len)
{
	struct str *out = arg;

	if (out->len + len > CLIENT_BODY_MAX)
		return -EFBIG;
	str_add(out, data, len);
	return 0;
}

static int version_check(const json_t *body, struct err *err)
{
	const json_t *api = json_object_get(body, "api");

	if (json_is_integer(api) && json_integer_value(api) == CONTROL_API_VERSION)
		return 0;
	if (json_is_integer(api))
		return err_set(err, -EPROTONOSUPPORT,
			       "vipd has version %" JSON_INTEGER_FORMAT
			       " of the control API, this vipctl (%s) version %d",
			       json_integer_value(api), VIPD_VERSION, CONTROL_API_VERSION);
	return malformed(err);
}

int client_json(json_t **ret, const struct client *c, const char *method, const char *target,
		struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	json_auto_t *body = NULL;
	int r = client_request(c, method, target, sink_str, &text, err);

	if (r == -EFBIG)
		(void)err_set(err, r, "the answer is larger than %u MB", CLIENT_BODY_MAX >> 20);
	if (r < 0)
		return r;
	body = json_loadb(str_text(&text), text.len, 0, NULL);
	r = version_check(body, err);
	if (r == 0)
		*ret = TAKE(body);
	return r;
}
