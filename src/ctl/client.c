/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/client - the socket, and the answer in pieces. */
#include "ctl/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control.h"

#define HEAD_MAX 16384
#define CHUNK_LINE_MAX 64
#define REFUSAL_MAX 65536

/* --- the answer --- */

static int malformed(struct err *err)
{
	return err_set(err, -EPROTO, "invalid answer: not from vipd");
}

/* The value of a header of the head in a->line, or NULL; it ends at the end of its line. */
static const char *header(const struct answer *a, const char *name)
{
	size_t len = strlen(name);
	const char *p = a->line.text;

	while ((p = strchr(p, '\n')) != NULL) {
		p++;
		if (strncasecmp(p, name, len) == 0 && p[len] == ':')
			return p + len + 1 + strspn(p + len + 1, " \t");
	}
	return NULL;
}

static int head_done(struct answer *a, struct err *err)
{
	const char *head = a->line.text;
	const char *value;

	if (strlen(head) != a->line.len || strncmp(head, "HTTP/1.", 7) != 0 || head[8] != ' ')
		return malformed(err);
	a->status = atoi(head + 9);
	if (a->status < 200 || a->status > 599)
		return malformed(err);
	value = header(a, "Transfer-Encoding");
	if (value != NULL) {
		if (strncasecmp(value, "chunked", 7) != 0)
			return malformed(err);
		a->state = ANSWER_CHUNK_SIZE;
	} else if ((value = header(a, "Content-Length")) != NULL) {
		char *end;

		a->left = strtoull(value, &end, 10);
		if (*value < '0' || *value > '9' || (*end != '\r' && *end != '\n'))
			return malformed(err);
		a->state = a->left > 0 ? ANSWER_SIZED : ANSWER_DONE;
	} else {
		a->state = ANSWER_TO_CLOSE;
	}
	str_clear(&a->line);
	return 0;
}

static int chunk_line_done(struct answer *a, struct err *err)
{
	char *end;

	if (a->line.len == 0 || strspn(a->line.text, "0123456789abcdefABCDEF") == 0)
		return malformed(err);
	a->left = strtoull(a->line.text, &end, 16);
	if ((*end != '\0' && *end != ';') || a->left > CLIENT_BODY_MAX)
		return malformed(err);
	a->state = a->left > 0 ? ANSWER_CHUNK : ANSWER_TRAILER;
	str_clear(&a->line);
	return 0;
}

/* One byte of what is read line by line. */
static int line_byte(struct answer *a, char c, struct err *err)
{
	size_t max = a->state == ANSWER_HEAD ? HEAD_MAX : CHUNK_LINE_MAX;

	if (a->state == ANSWER_HEAD) {
		str_add(&a->line, &c, 1);
		if (c == '\n' && a->line.len >= 4 &&
		    (memcmp(a->line.text + a->line.len - 4, "\r\n\r\n", 4) == 0 ||
		     memcmp(a->line.text + a->line.len - 2, "\n\n", 2) == 0))
			return head_done(a, err);
	} else if (c != '\n') {
		if (c != '\r')
			str_add(&a->line, &c, 1);
	} else if (a->state == ANSWER_CHUNK_SIZE) {
		return chunk_line_done(a, err);
	} else if (a->state == ANSWER_CHUNK_END) {
		if (a->line.len != 0)
			return malformed(err);
		a->state = ANSWER_CHUNK_SIZE;
	} else if (a->line.len == 0) { /* the trailer's end */
		a->state = ANSWER_DONE;
	} else {
		str_clear(&a->line);
	}
	return a->line.len > max ? malformed(err) : 0;
}

static int body_bytes(struct answer *a, const char *data, size_t len, size_t *used)
{
	size_t n = a->state == ANSWER_TO_CLOSE ? len : (size_t)MIN(a->left, (uint64_t)len);

	*used = n;
	if (a->state != ANSWER_TO_CLOSE) {
		a->left -= n;
		if (a->left == 0)
			a->state = a->state == ANSWER_CHUNK ? ANSWER_CHUNK_END : ANSWER_DONE;
	}
	return a->sink(a->arg, data, n);
}

int answer_feed(struct answer *a, const char *data, size_t len, struct err *err)
{
	while (len > 0 && a->state != ANSWER_DONE) {
		size_t used = 1;
		int r;

		if (a->state == ANSWER_SIZED || a->state == ANSWER_CHUNK ||
		    a->state == ANSWER_TO_CLOSE)
			r = body_bytes(a, data, len, &used);
		else
			r = line_byte(a, *data, err);
		if (r < 0)
			return r;
		data += used;
		len -= used;
	}
	return 0;
}

int answer_end(struct answer *a, struct err *err)
{
	if (a->state == ANSWER_TO_CLOSE)
		a->state = ANSWER_DONE;
	if (a->state == ANSWER_DONE)
		return 0;
	if (a->state == ANSWER_HEAD && a->line.len == 0)
		return err_set(err, -EPROTO, "vipd closed the connection without an answer");
	return err_set(err, -EPROTO, "the answer is incomplete");
}

void answer_fini(struct answer *a)
{
	str_fini(&a->line);
}

/* --- the socket --- */

static int connect_failed(const struct client *c, int code, struct err *err)
{
	switch (code) {
	case -ENOENT:
		return err_set(err, code,
			       "vipd does not run here: no socket %s "
			       "(another one: --socket PATH)",
			       c->path);
	case -ECONNREFUSED:
		return err_set(err, code, "vipd does not run: %s refuses connections", c->path);
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
	default: /* whatever else the kernel says */
		return err_set(err, code, "%s: %s", c->path, strerror(-code));
	}
}

static int socket_connect(int *ret, const struct client *c, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(c->path) >= sizeof(addr.sun_path))
		return err_set(err, -ENAMETOOLONG, "%s: longer than a socket's path can be",
			       c->path);
	strcpy(addr.sun_path, c->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int r = connect_failed(c, -errno, err);

		close(fd);
		return r;
	}
	*ret = fd;
	return 0;
}

/* Wait until `fd` can do `events`. */
static int socket_wait(const struct client *c, int fd, short events, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&p, 1, (int)c->timeout_ms);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(err, "poll");
	if (r == 0)
		return err_set(err, -ETIMEDOUT, "vipd did not answer within %u s on %s",
			       (c->timeout_ms + 999) / 1000, c->path);
	return 0;
}

static int request_send(const struct client *c, int fd, const struct str *request, struct err *err)
{
	size_t sent = 0;

	while (sent < request->len) {
		ssize_t n = send(fd, request->text + sent, request->len - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			int r = socket_wait(c, fd, POLLOUT, err);

			if (r < 0)
				return r;
		} else if (n < 0 && errno != EINTR) {
			return err_errno(err, "%s", c->path);
		} else if (n > 0) {
			sent += (size_t)n;
		}
	}
	return 0;
}

static int answer_read(const struct client *c, int fd, struct answer *a, struct err *err)
{
	static char buf[65536]; /* static: too large for the stack, one exchange at a time */

	while (a->state != ANSWER_DONE) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		int r = 0;

		if (n > 0)
			r = answer_feed(a, buf, (size_t)n, err);
		else if (n == 0 || errno == ECONNRESET)
			return answer_end(a, err);
		else if (errno == EAGAIN)
			r = socket_wait(c, fd, POLLIN, err);
		else if (errno != EINTR)
			r = err_errno(err, "%s", c->path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* vipd's own words for a refusal, or ours when it has none. */
static int status_error(int status, const struct str *body, struct err *err)
{
	json_t *json = json_loadb(str_text(body), body->len, 0, NULL);
	const json_t *e = json_object_get(json, "error");
	const char *text = json_string_value(json_object_get(e, "text"));
	int code = status == 404 ? -ENODATA : status == 400 ? -EINVAL : -EPROTO;

	if (text == NULL)
		code = err_set(err, -EPROTO, "vipd answered with HTTP status %d", status);
	else
		(void)err_set(err, code, "%s", text);
	json_decref(json);
	return code;
}

struct exchange {
	struct answer answer;
	int (*sink)(void *arg, const char *data, size_t len);
	void *arg;
	struct str refusal;
};

static int exchange_sink(void *arg, const char *data, size_t len)
{
	struct exchange *x = arg;

	if (x->answer.status == 200)
		return x->sink(x->arg, data, len);
	if (x->refusal.len + len > REFUSAL_MAX)
		return -EPROTO;
	str_add(&x->refusal, data, len);
	return 0;
}

static int request(const struct client *c, const char *method, const char *target,
		   int (*sink)(void *arg, const char *data, size_t len), void *arg, struct err *err)
{
	struct exchange x = { .sink = sink, .arg = arg };
	struct str text = { 0 };
	int fd = -1;
	int r = socket_connect(&fd, c, err);

	if (r < 0)
		return r;
	x.answer.sink = exchange_sink;
	x.answer.arg = &x;
	str_printf(&text, "%s %s HTTP/1.1\r\nHost: vipd\r\nConnection: close\r\n\r\n", method,
		   target);
	r = request_send(c, fd, &text, err);
	if (r == 0)
		r = answer_read(c, fd, &x.answer, err);
	if (r == 0 && x.answer.status != 200)
		r = status_error(x.answer.status, &x.refusal, err);
	close(fd);
	str_fini(&text);
	str_fini(&x.refusal);
	answer_fini(&x.answer);
	return r;
}

int client_get(const struct client *c, const char *target,
	       int (*sink)(void *arg, const char *data, size_t len), void *arg, struct err *err)
{
	return request(c, "GET", target, sink, arg, err);
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
	struct str text = { 0 };
	json_t *body;
	int r = request(c, method, target, sink_str, &text, err);

	if (r == -EFBIG)
		(void)err_set(err, r, "the answer is larger than %u MB", CLIENT_BODY_MAX >> 20);
	body = r == 0 ? json_loadb(str_text(&text), text.len, 0, NULL) : NULL;
	str_fini(&text);
	if (r == 0)
		r = version_check(body, err);
	if (r < 0) {
		json_decref(body);
		return r;
	}
	*ret = body;
	return 0;
}

void client_encode(struct str *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
			   *text) != NULL)
			str_add(out, text, 1);
		else
			str_printf(out, "%%%02X", (unsigned char)*text);
	}
}
