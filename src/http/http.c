/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http - connections, their deadlines and limits.
 *
 *     READ ── head complete ──► BODY ── last piece ──► FLUSH ── output sent ──► CLOSING
 *
 * `ready` queues connections in BODY with room in their output. A zero-length timer
 * serves the queue once per turn of the loop, so that other events are not delayed.
 * CLOSING waits until the client closes: a close by the server with unread input would
 * reset the connection, and the client would lose the answer.
 */
#include "http/http.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "http/jsonw.h"

#define OUTPUT_HIGH (128 * 1024) /* stop writing pieces ... */
#define OUTPUT_LOW (16 * 1024)   /* ... until the output shrinks to this */
#define CLOSING_MS 1000
#define ACCEPT_RETRY_S 1
#define ACCEPT_MAX 16 /* a turn */
#define LIMIT_LOG_NS (60 * NSEC_PER_SEC)

static uint64_t n_closed[HTTP_CLASSES][HTTP_LIMITS];

enum conn_state {
	CONN_READ = 0,
	CONN_BODY,
	CONN_FLUSH,
	CONN_CLOSING,
};

struct http_conn {
	struct list link;  /* in server.conns, oldest first */
	struct list ready; /* in server.ready */
	struct http_server *server;
	struct bufferevent *bev;
	struct event *deadline;
	struct ip_addr client; /* the /64 of an IPv6 address; unset on a Unix socket */
	enum conn_state state;
	bool is_chunked;
	bool is_half_closed; /* by the client */
	uint64_t end_ns;     /* of the answer */
	const struct http_body_ops *ops;
	void *body;
};

struct http_server {
	struct event_base *base;
	struct http_config config;
	struct event *accept;       /* of the listening socket; NULL: retired */
	struct event *accept_again; /* timer */
	struct event *turn;
	struct list conns;
	struct list ready;
	size_t n_conns;
	void (*gone)(void *arg); /* set by http_server_retire() */
};

/* --- answers --- */

void http_reply_stream(struct http_reply *reply, const char *type, const struct http_body_ops *ops,
		       void *state)
{
	reply->status = 200;
	reply->type = type;
	reply->ops = ops;
	reply->state = state;
}

void http_reply_error(struct http_reply *reply, int status, const char *fmt, ...)
{
	struct jsonw w = { .out = &reply->body };
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply->status = status;
	reply->type = "application/json";
	jsonw_object(&w, NULL);
	jsonw_object(&w, "error");
	jsonw_int(&w, "status", status);
	jsonw_text(&w, "text", text);
	jsonw_end(&w);
	jsonw_end(&w);
	str_puts(&reply->body, "\n");
}

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{ 200, "OK" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 431, "Request Header Fields Too Large" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

/* --- one connection --- */

static void body_close(struct http_conn *c)
{
	if (c->ops != NULL)
		c->ops->close(c->body);
	c->ops = NULL;
	c->body = NULL;
}

static void conn_close(struct http_conn *c)
{
	struct http_server *s = c->server;

	list_del(&c->link);
	list_del(&c->ready);
	body_close(c);
	bufferevent_free(c->bev);
	event_free(c->deadline);
	free(c);
	if (s->n_conns-- == s->config.connections_max && s->accept != NULL)
		(void)event_add(s->accept, NULL);
	/* Deferred: the caller may still use the server. */
	if (s->n_conns == 0 && s->gone != NULL)
		event_after(s->turn, 0);
}

static void deadline_set(struct http_conn *c, unsigned int ms)
{
	event_after(c->deadline, ms * NSEC_PER_MSEC);
}

/* The answer is written: shut down, and let the client close first. */
static void conn_finish(struct http_conn *c)
{
	if (c->is_half_closed) {
		conn_close(c);
		return;
	}
	c->state = CONN_CLOSING;
	(void)shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	deadline_set(c, CLOSING_MS);
}

static void ready_add(struct http_conn *c)
{
	list_add_tail(&c->server->ready, &c->ready);
	event_after(c->server->turn, 0);
}

static void head_send(struct http_conn *c, const struct http_reply *reply)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", reply->status,
			    reason(reply->status), reply->type);
	if (reply->status == 405)
		evbuffer_add_printf(out, "Allow: %s\r\n",
				    reply->allow != NULL ? reply->allow : "GET, HEAD");
	if (reply->ops != NULL && c->is_chunked)
		evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
	else if (reply->ops == NULL && reply->status != 304) /* 304 has no body */
		evbuffer_add_printf(out, "Content-Length: %zu\r\n", reply->body.len);
	if (reply->headers.len > 0)
		evbuffer_add(out, reply->headers.text, reply->headers.len);
	evbuffer_add_printf(out, "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
}

static void piece_send(struct http_conn *c, const struct str *piece)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	if (piece->len == 0)
		return;
	if (c->is_chunked)
		evbuffer_add_printf(out, "%zx\r\n", piece->len);
	evbuffer_add(out, piece->text, piece->len);
	if (c->is_chunked)
		evbuffer_add(out, "\r\n", 2);
}

static void reply_send(struct http_conn *c, struct http_reply *reply, bool is_head)
{
	c->ops = reply->ops;
	c->body = reply->state;
	head_send(c, reply);
	deadline_set(c, c->server->config.reply_ms);
	c->end_ns = now_ns() + c->server->config.reply_ms * NSEC_PER_MSEC;
	if (!is_head && c->ops != NULL) {
		piece_send(c, &reply->body);
		c->state = CONN_BODY;
		if (c->ops->begin != NULL)
			c->ops->begin(c->body, c);
		ready_add(c);
	} else {
		body_close(c);
		if (!is_head)
			evbuffer_add(bufferevent_get_output(c->bev), str_text(&reply->body),
				     reply->body.len);
		c->state = CONN_FLUSH; /* on_write() follows: the output has at least the head */
	}
	str_fini(&reply->body);
	str_fini(&reply->headers);
}

static void error_send(struct http_conn *c, int status, const char *text)
{
	struct http_reply reply = { 0 };

	log_debug(LOG_AREA_HTTP, "request answered with %d: %s", status, text);
	http_reply_error(&reply, status, "%s", text);
	reply_send(c, &reply, false);
}

static void request_handle(struct http_conn *c, const char *head, size_t len)
{
	const struct http_config *config = &c->server->config;
	struct http_request q;
	struct http_reply reply = { 0 };
	struct err err = { 0 };
	int status = http_request_parse(&q, head, len, config->takes, &err);

	if (status != 0) {
		error_send(c, status, err.text);
	} else {
		c->is_chunked = !q.is_http10;
		config->handler(config->arg, &q, &reply);
		assert(reply.status != 0 && reply.type != NULL);
		reply_send(c, &reply, q.is_head);
	}
	http_request_fini(&q);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct http_conn *c = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t max = c->server->config.head_max;
	size_t len = MIN(evbuffer_get_length(in), max);
	size_t head_len;
	const char *data;

	if (c->state != CONN_READ) { /* discard input after the request */
		evbuffer_drain(in, evbuffer_get_length(in));
		return;
	}
	data = (const char *)evbuffer_pullup(in, (ev_ssize_t)len);
	head_len = http_head_len(data, len);
	if (head_len > 0)
		request_handle(c, data, head_len); /* does not close `c` synchronously */
	else if (len == max)
		error_send(c, 431, "the head of the request is too large");
	else
		return;
	evbuffer_drain(in, evbuffer_get_length(in));
}

static bool is_endless(const struct http_conn *c)
{
	return c->state == CONN_BODY && c->ops != NULL && c->ops->begin != NULL;
}

void http_wake(struct http_conn *c)
{
	if (c->state == CONN_BODY && !list_is_linked(&c->ready) &&
	    evbuffer_get_length(bufferevent_get_output(c->bev)) < OUTPUT_HIGH)
		ready_add(c);
}

/*
 * While there is output, the client has `stall_ms` to read more, at most until the end of the
 * answer; `reply_ms`, without an end, if the body is endless.
 */
static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
	struct http_conn *c = arg;
	const struct http_config *config = &c->server->config;
	uint64_t now = now_ns();
	uint64_t left = c->end_ns > now ? c->end_ns - now : 0;

	if ((c->state != CONN_BODY && c->state != CONN_FLUSH) ||
	    (info->n_deleted == 0 && info->orig_size > 0))
		return;
	if (is_endless(c) && evbuffer_get_length(out) == 0) {
		(void)event_del(c->deadline);
		return;
	}
	if (is_endless(c))
		left = config->reply_ms * NSEC_PER_MSEC;
	else if (evbuffer_get_length(out) > 0 && config->stall_ms != 0)
		left = MIN(left, config->stall_ms * NSEC_PER_MSEC);
	event_after(c->deadline, left);
}

/* Called when the output has shrunk to OUTPUT_LOW. */
static void on_write(struct bufferevent *bev, void *arg)
{
	struct http_conn *c = arg;

	http_wake(c);
	if (c->state == CONN_FLUSH && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
		conn_finish(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct http_conn *c = arg;

	if ((what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING)) {
		c->is_half_closed = true;
		if ((c->state == CONN_BODY && !is_endless(c)) || c->state == CONN_FLUSH)
			return; /* half closed: the client still reads */
	}
	conn_close(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct http_conn *c = arg;

	if (c->state == CONN_READ) {
		error_send(c, 408, "the head of the request did not arrive in time");
		deadline_set(c, CLOSING_MS);
		return;
	}
	if (c->state != CONN_CLOSING) {
		log_debug(LOG_AREA_HTTP,
			  "client did not read the answer in time: connection closed");
		n_closed[c->server->config.class][HTTP_LIMIT_READING]++;
	}
	conn_close(c);
}

/* --- turns --- */

static void server_gone(struct http_server *s)
{
	void (*gone)(void *arg) = s->gone;
	void *arg = s->config.arg;

	http_server_close(s);
	gone(arg);
}

static void body_step(struct http_conn *c, uint64_t deadline_ns)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	FINI(str_fini) struct str piece = { 0 };
	int r = c->ops->more(c->body, &piece, deadline_ns);

	if (r < 0) {
		log_debug(LOG_AREA_HTTP, "answer truncated: %s", strerror(-r));
		conn_close(c);
		return;
	}
	piece_send(c, &piece);
	if (r == 0) {
		body_close(c);
		if (c->is_chunked)
			evbuffer_add(out, "0\r\n\r\n", 5);
		c->state = CONN_FLUSH;
		if (evbuffer_get_length(out) == 0)
			conn_finish(c);
	} else if (r != HTTP_BODY_WAIT && evbuffer_get_length(out) < OUTPUT_HIGH) {
		list_add_tail(&c->server->ready, &c->ready);
	} /* else on_write() queues it */
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;
	uint64_t end = now_ns() + HTTP_TURN_NS;

	while (!list_is_empty(&s->ready) && now_ns() < end) {
		struct http_conn *c = list_entry(s->ready.next, struct http_conn, ready);

		list_del(&c->ready);
		body_step(c, end);
	}
	if (!list_is_empty(&s->ready))
		event_after(s->turn, 0);
	else if (s->n_conns == 0 && s->gone != NULL)
		server_gone(s);
}

/* --- limits --- */

static const char *const class_names[HTTP_CLASSES] = {
	[HTTP_CONTROL] = "control socket",
	[HTTP_HEALTH] = "health server",
	[HTTP_METRICS] = "metrics server",
	[HTTP_SERVICE_HEALTH] = "health check node ports",
};

const char *http_class_text(enum http_class class)
{
	return class_names[class];
}

uint64_t http_closed(enum http_class class, enum http_limit limit)
{
	return n_closed[class][limit];
}

/* One line a minute for each class. */
static bool may_log(enum http_class class)
{
	static uint64_t buckets[HTTP_CLASSES];

	return bucket_take(&buckets[class], LIMIT_LOG_NS, 1, now_ns()) == 0;
}

static void limit_count(const struct http_server *s, enum http_limit limit,
			const struct ip_addr *client)
{
	enum http_class class = s->config.class;

	n_closed[class][limit]++;
	if (!may_log(class))
		return;
	if (limit == HTTP_LIMIT_CLIENT)
		log_warn(
			LOG_AREA_HTTP,
			"%s: client %s has %u connections, the limit; closing its oldest without a "
			"complete request (vipd_http_connections_closed_total)",
			class_names[class], ip_addr_str(client), s->config.connections_max / 2);
	else
		log_warn(LOG_AREA_HTTP,
			 "%s: %u connections, the limit; closing the oldest without a complete "
			 "request (vipd_http_connections_closed_total)",
			 class_names[class], s->config.connections_max);
}

static struct ip_addr client_of(const struct sockaddr *peer)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)peer;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)peer;
	struct ip_addr a;

	if (peer->sa_family == AF_INET)
		return ip_addr_from_bytes(AF_INET, &in->sin_addr);
	if (peer->sa_family != AF_INET6)
		return (struct ip_addr){ 0 };
	a = ip_addr_from_bytes(AF_INET6, &in6->sin6_addr);
	a = ip_addr_unmapped(&a);
	if (a.family == AF_INET6)
		memset(a.bytes + 8, 0, 8);
	return a;
}

static bool is_incomplete(const struct http_conn *c)
{
	char byte;

	/* Unread input may be a request. */
	return c->state == CONN_READ &&
	       recv(bufferevent_getfd(c->bev), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

enum eviction {
	EVICTION_DONE,
	EVICTION_UNREAD, /* none, but some connections have unread requests */
	EVICTION_BUSY,   /* none: all have unfinished answers */
};

/*
 * Close the oldest connection (of `client`, unless NULL) without a request, else the oldest
 * answered one, except `keep`.
 */
static enum eviction conn_evict(struct http_server *s, const struct ip_addr *client,
				const struct http_conn *keep)
{
	bool is_reading = false;

	for (int needs_answered = 0; needs_answered < 2; needs_answered++)
		list_for_each_entry (c, &s->conns, struct http_conn, link) {
			if (client != NULL && !ip_addr_is_equal(&c->client, client))
				continue;
			is_reading |= c->state == CONN_READ;
			if (c == keep ||
			    (needs_answered ? c->state != CONN_CLOSING : !is_incomplete(c)))
				continue;
			conn_close(c);
			return EVICTION_DONE;
		}
	return is_reading ? EVICTION_UNREAD : EVICTION_BUSY;
}

/* Make room for one more connection of this client. False: all of its connections are busy. */
static bool client_admit(struct http_server *s, const struct ip_addr *client)
{
	enum eviction result;
	size_t n = 0;

	if (!ip_is_set(client))
		return true;
	list_for_each_entry (c, &s->conns, struct http_conn, link)
		n += ip_addr_is_equal(&c->client, client);
	if (n < s->config.connections_max / 2)
		return true;
	result = conn_evict(s, client, NULL);
	if (result != EVICTION_UNREAD)
		limit_count(s, HTTP_LIMIT_CLIENT, client);
	return result != EVICTION_BUSY;
}

/*
 * Keep room for one more connection, or stop accepting until a connection ends: clients wait in
 * the backlog. While connections have unread input, try again when a client waits.
 */
static void room_make(struct http_server *s, const struct http_conn *newest)
{
	enum eviction result;

	if (s->n_conns < s->config.connections_max)
		return;
	result = conn_evict(s, NULL, newest);
	if (result == EVICTION_DONE)
		limit_count(s, HTTP_LIMIT_ALL, NULL);
	if (result != EVICTION_BUSY)
		return;
	(void)event_del(s->accept);
	if (may_log(s->config.class))
		log_warn(
			LOG_AREA_HTTP,
			"%s: %u connections, the limit, all with unfinished answers; further clients "
			"wait (vipd_http_connections_closed_total)",
			class_names[s->config.class], s->config.connections_max);
}

/* --- accepting --- */

static void conn_open(struct http_server *s, int fd, const struct sockaddr *peer)
{
	struct ip_addr client = client_of(peer);
	struct http_conn *c;

	if (!client_admit(s, &client)) {
		close(fd);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->server = s;
	c->client = client;
	c->bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
	c->deadline = xtimer_new(s->base, on_deadline, c);
	if (c->bev == NULL)
		abort(); /* out of memory, as in xmalloc() */
	bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
	(void)evbuffer_add_cb(bufferevent_get_output(c->bev), on_output, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, s->config.head_max);
	bufferevent_setwatermark(c->bev, EV_WRITE, OUTPUT_LOW, 0);
	(void)bufferevent_enable(c->bev, EV_READ);
	list_add_tail(&s->conns, &c->link);
	deadline_set(c, s->config.head_ms);
	s->n_conns++;
	room_make(s, c);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;

	if (s->accept != NULL)
		(void)event_add(s->accept, NULL);
}

static void accept_failed(struct http_server *s)
{
	if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
		return;
	log_warn(LOG_AREA_HTTP, "accept: %s; next attempt in %d s", strerror(errno),
		 ACCEPT_RETRY_S);
	(void)event_del(s->accept);
	event_after(s->accept_again, ACCEPT_RETRY_S * NSEC_PER_SEC);
}

/* Clients wait. */
static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;

	room_make(s, NULL);
	for (int i = 0; i < ACCEPT_MAX && s->n_conns < s->config.connections_max; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int conn = accept4((int)fd, (struct sockaddr *)&peer, &len,
				   SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (conn == -1) {
			accept_failed(s);
			return;
		}
		conn_open(s, conn, (const struct sockaddr *)&peer);
	}
}

/* Close the listening socket. */
static void accept_stop(struct http_server *s)
{
	int fd = event_get_fd(s->accept);

	event_free(TAKE(s->accept));
	close(fd);
}

int http_server_open(struct http_server **ret, struct event_base *base, int listen_fd,
		     const struct http_config *config, struct err *err)
{
	AUTO(http_server_close) struct http_server *s = xcalloc(1, sizeof(*s));

	(void)signal(SIGPIPE, SIG_IGN); /* a write to a closed connection returns EPIPE */
	s->base = base;
	s->config = *config;
	list_init(&s->conns);
	list_init(&s->ready);
	s->turn = xtimer_new(base, on_turn, s);
	s->accept_again = xtimer_new(base, on_accept_again, s);
	s->accept = xevent_new(base, listen_fd, EV_READ | EV_PERSIST, on_accept, s);
	if (event_add(s->accept, NULL) < 0)
		return err_set(err, -ENOMEM, "http server: no memory for events");
	*ret = TAKE(s);
	return 0;
}

void http_server_close(struct http_server *s)
{
	if (s == NULL)
		return;
	s->gone = NULL;
	list_for_each_safe (l, tmp, &s->conns)
		conn_close(list_entry(l, struct http_conn, link));
	assert(s->n_conns == 0 && list_is_empty(&s->ready));
	if (s->accept != NULL)
		accept_stop(s);
	event_drop(s->turn);
	event_drop(s->accept_again);
	free(s);
}

void http_server_retire(struct http_server *s, void (*gone)(void *arg))
{
	accept_stop(s);
	s->gone = gone;
	if (s->n_conns == 0)
		server_gone(s);
}

size_t http_server_connections(const struct http_server *s)
{
	return s->n_conns;
}
