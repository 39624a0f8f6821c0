/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/http: clients that are slow, stall, flood, disconnect, and send too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "http/http_port.h"
#include "http_talk.h"

#define PATH "/tmp/vipd-test-http.%d"
#define GET "GET / HTTP/1.1\r\n\r\n"

struct server {
	struct talk talk;
	struct http_server *http;
	char path[64];
	size_t n_handled;
	size_t pieces; /* of the next body */
	size_t piece_size;
	int end;       /* what the body's last call returns */
	size_t made;   /* requested pieces */
	size_t closed; /* bodies that were closed */
	size_t n_gone;
	struct http_conn *endless;
};

struct body {
	struct server *s;
	size_t n;
};

static int body_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct body *b = state;

	(void)deadline_ns;
	if (b->n == b->s->pieces)
		return b->s->end;
	for (size_t i = 0; i < b->s->piece_size; i++)
		str_add(out, "x", 1);
	b->n++;
	b->s->made++;
	return 1;
}

static void body_close(void *state)
{
	struct body *b = state;

	b->s->closed++;
	free(b);
}

static const struct http_body_ops body_ops = { body_more, body_close };

/* An endless body: a large piece fills the socket, then small ones follow. */
static void endless_begin(void *state, struct http_conn *conn)
{
	((struct body *)state)->s->endless = conn;
}

static int endless_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct body *b = state;
	size_t n = b->n++ == 0 ? b->s->piece_size : 1;

	(void)deadline_ns;
	for (size_t i = 0; i < n; i++)
		str_add(out, "x", 1);
	return HTTP_BODY_WAIT;
}

static const struct http_body_ops endless_ops = { endless_more, body_close, endless_begin };

static void handle(void *arg, const struct http_request *q, struct http_reply *reply)
{
	struct server *s = arg;
	struct body *b;

	s->n_handled++;
	if (strcmp(q->path, "/whole") == 0) {
		reply->status = 200;
		reply->type = "text/plain";
		str_puts(&reply->body, "whole\n");
		return;
	}
	if (strcmp(q->path, "/conflict") == 0) {
		http_reply_error(reply, 409, "conflict");
		return;
	}
	b = xcalloc(1, sizeof(*b));
	b->s = s;
	http_reply_stream(reply, "text/plain",
			  strcmp(q->path, "/endless") == 0 ? &endless_ops : &body_ops, b);
}

static void server_begin(struct server *s, struct http_config config)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct err err;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*s = (struct server){ .pieces = 3, .piece_size = 10 };
	(void)snprintf(s->path, sizeof(s->path), PATH, getpid());
	(void)unlink(s->path);
	strcpy(addr.sun_path, s->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 256), 0);
	s->talk.base = event_base_new();
	config.handler = handle;
	config.arg = s;
	assert_int_equal(http_server_open(&s->http, s->talk.base, fd, &config, &err), 0);
}

static void server_end(struct server *s)
{
	http_server_close(s->http);
	event_base_free(s->talk.base);
	(void)unlink(s->path);
}

static const struct http_config plain = { HTTP_CONFIG_DEFAULT };

static void test_answers(void **state)
{
	struct server s;
	struct str body = { 0 };
	struct str answer = { 0 };
	int fd;

	(void)state;
	server_begin(&s, plain);
	assert_int_equal(talk_get(&s.talk, s.path, GET, &body), 200);
	assert_int_equal(body.len, 30);
	assert_int_equal(talk_get(&s.talk, s.path, "GET /whole HTTP/1.1\r\n\r\n", &body), 200);
	assert_string_equal(body.text, "whole\n");
	fd = talk_connect(s.path);
	talk_all(&s.talk, fd, "GET /conflict HTTP/1.0\r\n\r\n", 26, &answer);
	close(fd);
	assert_int_equal(strncmp(answer.text, "HTTP/1.1 409 Conflict\r\n", 23), 0);
	str_clear(&answer);

	/* HTTP/1.0 has no chunks: the body ends with the connection. */
	fd = talk_connect(s.path);
	talk_all(&s.talk, fd, "GET / HTTP/1.0\r\n\r\n", 18, &answer);
	close(fd);
	assert_null(strcasestr(answer.text, "chunked"));
	assert_int_equal(talk_parse(&answer, &body), 200);
	assert_int_equal(body.len, 6 + 30);

	/* HEAD: an equal head; no body is generated. */
	str_clear(&answer);
	s.made = 0;
	fd = talk_connect(s.path);
	talk_all(&s.talk, fd, "HEAD / HTTP/1.1\r\n\r\n", 19, &answer);
	close(fd);
	assert_string_equal(strstr(answer.text, "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(s.made, 0);
	assert_int_equal(s.closed, 3);
	str_fini(&body);
	str_fini(&answer);
	server_end(&s);
}

static void test_malformed(void **state)
{
	static const struct {
		const char *request;
		int status;
	} cases[] = {
		{ "\x16\x03\x01\r\n\r\n", 400 },
		{ "GET /%0 HTTP/1.1\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405 },
		{ "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413 },
		{ "GET / HTTP/3.0\r\n\r\n", 505 },
	};
	struct server s;
	struct str body = { 0 };

	(void)state;
	server_begin(&s, plain);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(talk_get(&s.talk, s.path, cases[i].request, &body),
				 cases[i].status);
		assert_non_null(strstr(body.text, "{\"error\":{\"status\":"));
	}
	assert_int_equal(s.n_handled, 0);
	str_fini(&body);
	server_end(&s);
}

/* More than head_max in one line or in several: rejected, and the answer arrives. */
static void test_huge_head(void **state)
{
	struct server s;
	struct str request = { 0 };
	struct str body = { 0 };

	(void)state;
	server_begin(&s, plain);
	str_puts(&request, "GET /");
	for (int i = 0; i < 200000; i++)
		str_puts(&request, "aaaaaaaaaa");
	assert_int_equal(talk_get(&s.talk, s.path, request.text, &body), 431);
	str_clear(&request);
	str_puts(&request, "GET / HTTP/1.1\r\n");
	for (int i = 0; i < 100000; i++)
		str_puts(&request, "A: b\r\n");
	assert_int_equal(talk_get(&s.talk, s.path, request.text, &body), 431);
	assert_int_equal(s.n_handled, 0);
	str_fini(&request);
	str_fini(&body);
	server_end(&s);
}

/* Single bytes do not extend the time limit, which applies to the whole head. */
static void test_drip(void **state)
{
	struct http_config config = plain;
	struct server s;
	struct str answer = { 0 };
	uint64_t begin;
	uint64_t last = 0;
	int fd;

	(void)state;
	config.head_ms = 60;
	server_begin(&s, config);
	fd = talk_connect(s.path);
	begin = now_ns();
	while (talk_read(fd, &answer, SIZE_MAX)) {
		assert_true(now_ns() - begin < TALK_LIMIT_NS);
		if (now_ns() - last > 5 * NSEC_PER_MSEC) {
			(void)!send(fd, "G", 1, MSG_NOSIGNAL);
			last = now_ns();
		}
		talk_turn(&s.talk);
	}
	assert_true(now_ns() - begin >= 40 * NSEC_PER_MSEC); /* the loop's clock is coarse */
	assert_int_equal(strncmp(str_text(&answer), "HTTP/1.1 408", 12), 0);
	close(fd);
	talk_turn(&s.talk);
	assert_int_equal(http_server_connections(s.http), 0);
	str_fini(&answer);
	server_end(&s);
}

/* A client that does not read: little of the body is generated, then the connection is closed. */
static void test_stalled_reader(void **state)
{
	struct http_config config = plain;
	struct server s;
	uint64_t begin;
	int fd;

	(void)state;
	config.reply_ms = 80;
	server_begin(&s, config);
	s.pieces = 100000;
	s.piece_size = 1000;
	fd = talk_connect(s.path);
	assert_int_equal(send(fd, GET, strlen(GET), 0), (ssize_t)strlen(GET));
	begin = now_ns();
	do
		talk_turn(&s.talk);
	while (s.closed == 0 && now_ns() - begin < TALK_LIMIT_NS);
	assert_int_equal(s.closed, 1);
	assert_true(now_ns() - begin >= 60 * NSEC_PER_MSEC);
	assert_true(s.made < 1000); /* what fits the socket and the buffer: under 1 MB of 100 */
	assert_int_equal(http_server_connections(s.http), 0);
	close(fd);
	server_end(&s);
}

/* Pieces of an endless body that follow do not give a client that reads nothing more time. */
static void test_stalled_subscriber(void **state)
{
	static const char request[] = "GET /endless HTTP/1.1\r\n\r\n";
	struct http_config config = plain;
	struct server s;
	int sndbuf;
	socklen_t len = sizeof(sndbuf);
	int fd;

	(void)state;
	config.reply_ms = 80;
	server_begin(&s, config);
	fd = talk_connect(s.path);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len), 0);
	/* libevent fills a quarter of the socket; http_wake() has no effect from 128 KB on */
	s.piece_size = (size_t)sndbuf / 2;
	assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	for (int i = 0; s.closed == 0 && i < 200; i++) { /* far longer than reply_ms */
		talk_turn(&s.talk);
		if (s.endless != NULL && s.closed == 0)
			http_wake(s.endless);
		(void)usleep(5000);
	}
	assert_int_equal(s.closed, 1);
	assert_int_equal(http_server_connections(s.http), 0);
	close(fd);
	server_end(&s);
}

/* The client disconnects in the middle. */
static void test_reader_leaves(void **state)
{
	struct server s;
	struct str some = { 0 };
	int fd;

	(void)state;
	server_begin(&s, plain);
	s.pieces = 100000;
	s.piece_size = 1000;
	fd = talk_connect(s.path);
	assert_int_equal(send(fd, GET, strlen(GET), 0), (ssize_t)strlen(GET));
	for (int i = 0; i < 10; i++) {
		talk_turn(&s.talk);
		assert_true(talk_read(fd, &some, SIZE_MAX));
	}
	close(fd);
	for (int i = 0; i < 10 && s.closed == 0; i++)
		talk_turn(&s.talk);
	assert_int_equal(s.closed, 1);
	assert_int_equal(http_server_connections(s.http), 0);
	str_fini(&some);
	server_end(&s);
}

/* "printf ... | socat - UNIX:...": the client has closed its sending side and reads the answer. */
static void test_half_close(void **state)
{
	struct server s;
	struct str answer = { 0 };
	struct str body = { 0 };
	int fd;

	(void)state;
	server_begin(&s, plain);
	s.pieces = 1000;
	s.piece_size = 1000;
	fd = talk_connect(s.path);
	assert_int_equal(send(fd, GET, strlen(GET), 0), (ssize_t)strlen(GET));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	talk_all(&s.talk, fd, NULL, 0, &answer);
	assert_int_equal(talk_parse(&answer, &body), 200);
	assert_int_equal(body.len, 1000000);
	close(fd);
	str_fini(&answer);
	str_fini(&body);
	server_end(&s);
}

/* A body that ends early is recognisable as incomplete. */
static void test_cut_body(void **state)
{
	struct server s;
	struct str body = { 0 };

	(void)state;
	server_begin(&s, plain);
	s.end = -ENOENT;
	assert_int_equal(talk_get(&s.talk, s.path, GET, &body), -1);
	assert_int_equal(s.closed, 1);
	str_fini(&body);
	server_end(&s);
}

/* Connections above connections_max wait until others are closed. */
static void test_crowd(void **state)
{
	struct http_config config = plain;
	struct server s;
	struct str answer[20] = { 0 };
	int fd[20];
	size_t open = ARRAY_SIZE(fd);
	uint64_t begin = now_ns();

	(void)state;
	config.connections_max = 4;
	server_begin(&s, config);
	s.pieces = 50;
	s.piece_size = 20000;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = talk_connect(s.path);
		assert_int_equal(send(fd[i], GET, strlen(GET), 0), (ssize_t)strlen(GET));
	}
	while (open > 0 && now_ns() - begin < TALK_LIMIT_NS) { /* since the last answer */
		talk_turn(&s.talk);
		assert_true(http_server_connections(s.http) <= 4);
		for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
			if (fd[i] >= 0 && !talk_read(fd[i], &answer[i], SIZE_MAX)) {
				close(fd[i]);
				fd[i] = -1;
				open--;
				begin = now_ns();
			}
	}
	assert_int_equal(open, 0);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		struct str body = { 0 };

		assert_int_equal(talk_parse(&answer[i], &body), 200);
		assert_int_equal(body.len, 1000000);
		str_fini(&body);
		str_fini(&answer[i]);
	}
	server_end(&s);
}

/* All connections have answers that their clients do not read: a further client is served soon. */
static void test_unread_crowd(void **state)
{
	static const char whole[] = "GET /whole HTTP/1.1\r\n\r\n";
	struct http_config config = plain;
	struct server s;
	struct str answer = { 0 };
	uint64_t before = http_closed(HTTP_METRICS, HTTP_LIMIT_READING);
	uint64_t warnings = log_count(LOG_LEVEL_WARN);
	int fd[5];

	(void)state;
	config.class = HTTP_METRICS;
	config.connections_max = 4;
	config.reply_ms = 3600 * 1000;
	config.stall_ms = 20;
	server_begin(&s, config);
	s.pieces = 50;
	s.piece_size = 20000;
	for (size_t i = 0; i < 4; i++) {
		fd[i] = talk_connect(s.path);
		assert_int_equal(send(fd[i], GET, strlen(GET), 0), (ssize_t)strlen(GET));
	}
	while (s.n_handled < 4)
		talk_turn(&s.talk);
	fd[4] = talk_connect(s.path);
	talk_all(&s.talk, fd[4], whole, sizeof(whole) - 1, &answer);
	assert_int_equal(strncmp(str_text(&answer), "HTTP/1.1 200", 12), 0);
	assert_true(http_closed(HTTP_METRICS, HTTP_LIMIT_READING) > before);
	assert_int_equal(log_count(LOG_LEVEL_WARN) - warnings, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	str_fini(&answer);
	server_end(&s);
}

/*
 * More connections without a request than the limit, opened again when closed: a request is
 * answered nevertheless, before any of them times out.
 */
static void test_idle_crowd(void **state)
{
	struct http_config config = plain;
	struct server s;
	struct str answer = { 0 };
	struct str body = { 0 };
	uint64_t before = http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL);
	int idle[40];
	int fd;

	(void)state;
	config.class = HTTP_HEALTH;
	config.connections_max = 8;
	config.head_ms = 3600 * 1000;
	server_begin(&s, config);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++) {
		idle[i] = talk_connect(s.path);
		if (i % 2 != 0) /* an incomplete request is not a request */
			assert_int_equal(send(idle[i], "GET / HT", 8, 0), 8);
	}
	fd = talk_connect(s.path);
	talk_all(&s.talk, fd, GET, strlen(GET), &answer);
	assert_true(http_server_connections(s.http) <= 8);
	assert_int_equal(talk_parse(&answer, &body), 200);
	assert_true(http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL) - before >= ARRAY_SIZE(idle) - 8);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		close(idle[i]);
	str_fini(&answer);
	str_fini(&body);
	server_end(&s);
}

/* A turn of the loop accepts a bounded number of clients, although each evicts another. */
static void test_accept_turn(void **state)
{
	struct http_config config = plain;
	struct server s;
	uint64_t before = http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL);
	uint64_t accepted = 0;
	int idle[200];

	(void)state;
	config.class = HTTP_HEALTH;
	config.connections_max = 8;
	config.head_ms = 3600 * 1000;
	server_begin(&s, config);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		idle[i] = talk_connect(s.path);
	while (accepted < ARRAY_SIZE(idle)) {
		uint64_t was = accepted;

		assert_true(s.talk.turns < 1000);
		talk_turn(&s.talk);
		accepted = http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL) - before +
			   http_server_connections(s.http);
		assert_true(accepted - was <= 16);
		assert_true(was > 0 || accepted > 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		close(idle[i]);
	server_end(&s);
}

/* At the limit a client that is about to send its request stays until another one waits. */
static void test_room_for_none(void **state)
{
	static const char whole[] = "GET /whole HTTP/1.1\r\n\r\n";
	struct http_config config = plain;
	struct server s;
	struct str answer = { 0 };
	uint64_t before = http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL);
	int fd[5];

	(void)state;
	config.class = HTTP_HEALTH;
	config.connections_max = 4;
	server_begin(&s, config);
	for (size_t i = 0; i < 4; i++) {
		const char *text = i < 3 ? "GET /endless HTTP/1.1\r\n\r\n" : "GET /who";

		fd[i] = talk_connect(s.path);
		assert_int_equal(send(fd[i], text, strlen(text), 0), (ssize_t)strlen(text));
	}
	for (size_t i = 0; i < 20; i++)
		talk_turn(&s.talk);
	assert_int_equal(s.n_handled, 3);
	assert_int_equal(http_server_connections(s.http), 4);
	assert_int_equal(http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL), before);
	fd[4] = talk_connect(s.path);
	talk_all(&s.talk, fd[4], whole, sizeof(whole) - 1, &answer);
	assert_int_equal(strncmp(str_text(&answer), "HTTP/1.1 200", 12), 0);
	assert_int_equal(http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL), before + 1);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	str_fini(&answer);
	server_end(&s);
}

static int tcp_connect(const char *from, const struct sockaddr_in *to)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, from, &addr.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

/* A client with too many connections loses its own; other clients lose none. */
static void test_client_limit(void **state)
{
	struct http_config config = plain;
	struct server s = { .pieces = 1, .piece_size = 10 };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	struct str answer = { 0 };
	uint64_t all = http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL);
	uint64_t client = http_closed(HTTP_HEALTH, HTTP_LIMIT_CLIENT);
	struct err err;
	int crowd[60];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int slow;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 64), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	config.class = HTTP_HEALTH;
	config.connections_max = 8;
	config.head_ms = 3600 * 1000;
	config.handler = handle;
	config.arg = &s;
	s.talk.base = event_base_new();
	assert_int_equal(http_server_open(&s.http, s.talk.base, listener, &config, &err), 0);
	slow = tcp_connect("127.0.0.3", &at); /* the oldest connection, and slow */
	talk_turn(&s.talk);
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i] = tcp_connect("127.0.0.2", &at);
		talk_turn(&s.talk);
		assert_true(http_server_connections(s.http) <= 1 + 4);
	}
	assert_int_equal(http_closed(HTTP_HEALTH, HTTP_LIMIT_ALL), all);
	assert_int_equal(http_closed(HTTP_HEALTH, HTTP_LIMIT_CLIENT) - client,
			 ARRAY_SIZE(crowd) - 4);
	talk_all(&s.talk, slow, GET, strlen(GET), &answer);
	assert_int_equal(strncmp(str_text(&answer), "HTTP/1.1 200", 12), 0);
	/* A burst of complete requests of one client: each is answered. */
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++)
		close(crowd[i]);
	for (size_t i = 0; i < 7; i++) {
		crowd[i] = tcp_connect("127.0.0.2", &at);
		assert_int_equal(send(crowd[i], GET, strlen(GET), 0), (ssize_t)strlen(GET));
	}
	for (size_t i = 0; i < 7; i++) {
		str_clear(&answer);
		talk_all(&s.talk, crowd[i], NULL, 0, &answer);
		assert_int_equal(strncmp(str_text(&answer), "HTTP/1.1 200", 12), 0);
		close(crowd[i]);
	}
	close(slow);
	str_fini(&answer);
	http_server_close(s.http);
	event_base_free(s.talk.base);
}

/* Closed during requests and answers: no resource leaks, no callback is called. */
static void test_close_busy(void **state)
{
	struct server s;
	int fd[3];

	(void)state;
	server_begin(&s, plain);
	s.pieces = 100000;
	s.piece_size = 1000;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = talk_connect(s.path);
	assert_int_equal(send(fd[0], GET, strlen(GET), 0), (ssize_t)strlen(GET));
	assert_int_equal(send(fd[1], "GET", 3, 0), 3);
	for (int i = 0; i < 5; i++)
		talk_turn(&s.talk);
	server_end(&s);
	assert_int_equal(s.closed, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
}

static void on_gone(void *arg)
{
	struct server *s = arg;

	s->http = NULL;
	s->n_gone++;
}

/* Retired: open connections are answered, none is accepted, and the last close frees the server. */
static void test_retire(void **state)
{
	struct server s;
	struct str answer = { 0 };
	struct str body = { 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;
	int late;

	(void)state;
	server_begin(&s, plain);
	http_server_retire(s.http, on_gone);
	assert_int_equal(s.n_gone, 1); /* no client was connected */
	event_base_free(s.talk.base);

	server_begin(&s, plain);
	fd = talk_connect(s.path);
	talk_turn(&s.talk);
	assert_int_equal(http_server_connections(s.http), 1);
	http_server_retire(s.http, on_gone);
	assert_int_equal(s.n_gone, 0);
	strcpy(addr.sun_path, s.path);
	late = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(late, (struct sockaddr *)&addr, sizeof(addr)), -1);
	close(late);
	talk_all(&s.talk, fd, "GET /whole HTTP/1.1\r\n\r\n", 23, &answer);
	assert_int_equal(talk_parse(&answer, &body), 200);
	close(fd);
	for (int i = 0; i < 10 && s.n_gone == 0; i++)
		talk_turn(&s.talk);
	assert_int_equal(s.n_gone, 1);
	event_base_free(s.talk.base);

	/* Closed while connections are open: no call. */
	server_begin(&s, plain);
	fd = talk_connect(s.path);
	talk_turn(&s.talk);
	http_server_retire(s.http, on_gone);
	server_end(&s);
	assert_int_equal(s.n_gone, 0);
	close(fd);
	str_fini(&answer);
	str_fini(&body);
}

/* Any method, with a body or an announced body. */
static void test_any_method(void **state)
{
	static const char *const requests[] = {
		"POST /whole HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
		"PUT /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"BREW /whole HTTP/1.1\r\n\r\n",
		"GET /whole HTTP/1.1\r\n\r\n",
	};
	struct http_config any = plain;
	struct str body = { 0 };
	struct server s;

	(void)state;
	any.takes = HTTP_TAKES_ANY;
	server_begin(&s, any);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		assert_int_equal(talk_get(&s.talk, s.path, requests[i], &body), 200);
		assert_string_equal(body.text, "whole\n");
	}
	/* Invalid requests stay invalid. */
	assert_int_equal(talk_get(&s.talk, s.path, "POST\r\n\r\n", &body), 400);
	assert_int_equal(talk_get(&s.talk, s.path, "POST / HTTP/2.0\r\n\r\n", &body), 505);
	server_end(&s);
	str_fini(&body);
}

/* --- listening sockets --- */

static bool lacks_v6; /* as on a kernel with ipv6.disable=1 */

int socket(int family, int type, int proto)
{
	if (family == AF_INET6 && lacks_v6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	return (int)syscall(SYS_socket, family, type, proto);
}

/* HC-01: 0.0.0.0 of a server means both families, and IPv4 on a node without IPv6. */
static void test_families(void **state)
{
	static const struct {
		const char *addr;
		bool is_dual;
		bool lacks_v6;
		int ret;
		int family;
		int v6only;
	} cases[] = {
		{ "0.0.0.0", true, false, 0, AF_INET6, 0 },
		{ "0.0.0.0", true, true, 0, AF_INET, 0 },
		{ "0.0.0.0", false, false, 0, AF_INET, 0 },
		{ "127.0.0.1", true, false, 0, AF_INET, 0 },
		{ "::", true, false, 0, AF_INET6, 0 },
		{ "::", false, false, 0, AF_INET6, 1 },
		{ "::", true, true, -EAFNOSUPPORT, 0, 0 },
	};
	int probe = socket(AF_INET6, SOCK_STREAM, 0);

	(void)state;
	if (probe < 0)
		skip();
	close(probe);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ip_endpoint at = { .port = 0 };
		struct sockaddr_storage name = { 0 };
		socklen_t len = sizeof(name);
		struct err err = { 0 };
		int fd = -1;
		int v6only = 0;

		print_message("    %s\n", cases[i].addr);
		assert_int_equal(ip_addr_parse(&at.addr, cases[i].addr, NULL), 0);
		lacks_v6 = cases[i].lacks_v6;
		assert_int_equal(listen_tcp(&fd, &at, cases[i].is_dual, &err), cases[i].ret);
		lacks_v6 = false;
		if (fd == -1) {
			assert_non_null(strstr(err.text, "listen on [::]:0: "));
			continue;
		}
		assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
		assert_int_equal(name.ss_family, cases[i].family);
		len = sizeof(v6only);
		if (name.ss_family == AF_INET6)
			assert_int_equal(getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len),
					 0);
		assert_int_equal(v6only, cases[i].v6only);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),        cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_huge_head),      cmocka_unit_test(test_drip),
		cmocka_unit_test(test_stalled_reader), cmocka_unit_test(test_stalled_subscriber),
		cmocka_unit_test(test_reader_leaves),  cmocka_unit_test(test_half_close),
		cmocka_unit_test(test_cut_body),       cmocka_unit_test(test_idle_crowd),
		cmocka_unit_test(test_client_limit),   cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_retire),         cmocka_unit_test(test_any_method),
		cmocka_unit_test(test_close_busy),     cmocka_unit_test(test_accept_turn),
		cmocka_unit_test(test_room_for_none),  cmocka_unit_test(test_families),
		cmocka_unit_test(test_unread_crowd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
