/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/transport - libcurl on libevent.
 *
 * finish() ends each request: it moves the request to `finished`, and the event `turn` calls
 * `done`. `done` never runs inside libcurl or http_open(), so it may start the next request.
 */
#include "source/kube/transport.h"

#include <errno.h>
#ifdef __GLIBC__
#include <nss.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/vec.h"
#include "source/kube/handle.h"
#include "source/kube/peers.h"

#define BODY_MAX (64U << 10)
#define CONNECTIONS_MAX 16 /* idle connections kept open */
#define TICK_MAX_NS (2 * NSEC_PER_SEC)

struct transport {
	struct event_base *base;
	struct access *access;
	const struct kube_timing *timing;
	CURLM *multi;
	struct event *timer;  /* libcurl's */
	struct event *tick;   /* time limits, dead peers, parked requests */
	struct event *turn;   /* finished requests and those to start */
	struct event *resume; /* paused requests */
	uint64_t spent_ns;    /* for bodies in this turn */
	struct list requests; /* running */
	struct list finished;
	struct list peers; /* of struct peer */
	size_t server;     /* counts up; modulo the number of servers */
	long http_version; /* CURL_HTTP_VERSION_* of the last answer; 0: none from this server */
	bool is_plain_warned;
	struct http *probe;
	size_t alive_server;       /* of the last answer to a probe */
	uint64_t alive_ns;         /* its time */
	struct kube_status status; /* the counters */
};

struct http {
	struct list link; /* in requests or finished */
	struct transport *t;
	struct http_request request;
	char *path;
	char *sent;           /* body of the request, or NULL */
	struct handle handle; /* in `requests`, none: waits for credentials */
	bool is_parked;       /* may wait for the connection of another request; see unpark() */
	bool is_paused;
	bool has_head;
	uint64_t started_ns;
	uint64_t received_ns;
	char errbuf[CURL_ERROR_SIZE];
	struct str body;
	char *content_type;
	struct http_result result;
	struct err why;
};

/* --- the end of a request ------------------------------------------------- */

static void detach(struct http *h)
{
	if (h->handle.easy != NULL)
		(void)curl_multi_remove_handle(h->t->multi, h->handle.easy);
	handle_close(&h->handle);
}

void http_close(struct http *h)
{
	if (h == NULL)
		return;
	list_del(&h->link);
	detach(h);
	free(h->path);
	free(h->sent);
	free(h->content_type);
	str_fini(&h->body);
	free(h);
}

/* Not to be called from a callback of libcurl. */
static void finish(struct http *h, enum http_outcome outcome, const char *why)
{
	detach(h);
	list_move_tail(&h->t->finished, &h->link);
	h->result.outcome = outcome;
	(void)err_set(&h->why, 0, "%s", why);
	event_active(h->t->turn, EV_TIMEOUT, 0);
}

/* --- servers -------------------------------------------------------------- */

size_t transport_n_servers(const struct transport *t)
{
	return access_where(t->access)->servers.n;
}

void transport_leave(struct transport *t)
{
	t->http_version = 0;
	list_for_each_entry (h, &t->requests, struct http, link) {
		if (h->handle.easy != NULL)
			(void)curl_easy_setopt(h->handle.easy, CURLOPT_FORBID_REUSE, 1L);
	}
}

static const char *server_text(const struct transport *t, size_t server)
{
	return handle_server(access_where(t->access), server);
}

/* Requests without an answer from `server` end, so that they move to the next server. */
void transport_avoid(struct transport *t, size_t server)
{
	if (server != t->server || transport_n_servers(t) < 2)
		return;
	t->server++;
	t->http_version = 0;
	t->status.failovers++;
	log_notice(LOG_AREA_SOURCE, "api: %s: unreachable or failing; requests move to %s",
		   server_text(t, server), server_text(t, t->server));
	list_for_each_entry_safe (h, tmp, &t->requests, struct http, link) {
		if (h->result.server == server && !h->has_head && h->handle.easy != NULL)
			finish(h, HTTP_UNREACHABLE, "requests move to another server");
	}
}

/* No answer, or an incomplete one. */
static void lose(struct http *h, const char *why)
{
	finish(h, h->has_head ? HTTP_CUT : HTTP_UNREACHABLE, why);
	if (!h->has_head)
		transport_avoid(h->t, h->result.server);
}

/* --- answers -------------------------------------------------------------- */

static bool is_http1(const struct transport *t)
{
	return t->http_version != 0 && t->http_version < CURL_HTTP_VERSION_2_0;
}

static bool is_http2(const struct transport *t)
{
	return t->http_version >= CURL_HTTP_VERSION_2_0;
}

bool http_is_away(const struct http_result *result)
{
	return result->outcome == HTTP_UNREACHABLE || result->outcome == HTTP_CUT ||
	       (result->outcome == HTTP_ANSWERED && result->status >= 502 &&
		result->status <= 504 && result->retry_after_s == 0);
}

bool http_is_useless(const struct http_result *result)
{
	return result->outcome == HTTP_CUT || result->outcome == HTTP_STOPPED ||
	       (result->outcome == HTTP_ANSWERED && result->status == 401);
}

uint64_t http_pause(const struct http_result *result)
{
	uint64_t ns = result->retry_after_s * NSEC_PER_SEC;

	return ns == 0 ? 0 : ns + random_below(ns / 4 + NSEC_PER_SEC);
}

static void answer_begin(struct http *h)
{
	curl_off_t retry_after = 0;
	long status = 0;
	char *type = NULL;

	(void)curl_easy_getinfo(h->handle.easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(h->handle.easy, CURLINFO_CONTENT_TYPE, &type);
	(void)curl_easy_getinfo(h->handle.easy, CURLINFO_RETRY_AFTER, &retry_after);
	(void)curl_easy_getinfo(h->handle.easy, CURLINFO_HTTP_VERSION, &h->t->http_version);
	h->has_head = true;
	h->result.status = (int)status;
	h->result.retry_after_s = (uint64_t)MIN(MAX(retry_after, 0), RETRY_AFTER_MAX_S);
	h->content_type = type ? xstrdup(type) : NULL;
	if (is_http1(h->t))
		event_active(h->t->tick, EV_TIMEOUT, 0); /* for unpark() */
	if (status == 200 && h->request.ops->head != NULL)
		h->result.code = h->request.ops->head(h->request.arg, type, &h->why);
}

/* One header line; the empty line ends the head. 1xx answers precede the final answer. */
static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	struct http *h = arg;
	size_t len = size * n;
	long status = 0;

	h->received_ns = now_ns();
	if (len > 2 || h->has_head)
		return len;
	(void)curl_easy_getinfo(h->handle.easy, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 200)
		answer_begin(h);
	return h->result.code < 0 ? 0 : len;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct http *h = arg;
	size_t len = size * n;

	h->received_ns = now_ns();
	if (!h->has_head)
		answer_begin(h);
	if (h->result.code < 0)
		return 0;
	if (h->result.status != 200 || h->request.ops->data == NULL) {
		size_t kept = MIN(len, BODY_MAX - h->body.len);

		str_add(&h->body, data, kept);
		return kept; /* less than `len` ends the transfer */
	}
	if (h->t->spent_ns >= h->t->timing->turn_ns) {
		h->is_paused = true;
		event_after(h->t->resume, 0);
		return CURL_WRITEFUNC_PAUSE; /* libcurl keeps the bytes and stops reading */
	}
	h->result.code = h->request.ops->data(h->request.arg, data, len, &h->why);
	h->t->spent_ns += now_ns() - h->received_ns;
	return h->result.code < 0 ? 0 : len;
}

/* libcurl's message may quote a proxy URL from the environment with its password. */
static const char *failure_text(const struct http *h, CURLcode code)
{
	bool is_safe = h->errbuf[0] != '\0' && strchr(h->errbuf, '@') == NULL;

	return is_safe ? h->errbuf : curl_easy_strerror(code);
}

static void transfer_done(struct http *h, CURLcode code)
{
	struct err text;

	if (h->result.code < 0) {
		text = h->why;
		finish(h, HTTP_STOPPED, text.text);
		return;
	}
	if (code == CURLE_OK || h->body.len == BODY_MAX) {
		finish(h, HTTP_ANSWERED, "");
		return;
	}
	(void)err_set(&text, 0, "%s%s", h->has_head ? "connection lost: " : "",
		      failure_text(h, code));
	lose(h, text.text);
}

/* NULL: a handle of libcurl's own. */
static struct http *request_of(CURL *easy)
{
	char *h = NULL;

	(void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &h);
	return (struct http *)(void *)h;
}

/* True: a transfer has failed. */
static bool collect_done(struct transport *t)
{
	bool is_failed = false;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(t->multi, &left)) != NULL) {
		CURLcode code = m->data.result; /* freed with the handle */

		if (m->msg != CURLMSG_DONE)
			continue;
		is_failed |= code != CURLE_OK;
		transfer_done(request_of(m->easy_handle), code);
	}
	return is_failed;
}

/*
 * When a connection breaks, libcurl 7.88 ends only the transfer that read from it. An action on
 * all sockets ends the other transfers of the connection.
 */
static void collect(struct transport *t)
{
	AUTO(vec_fini) VEC(int) fds = { 0 };
	int running;

	if (!collect_done(t))
		return;
	list_for_each (n, &t->peers)
		*vec_push(&fds) = list_entry(n, struct peer, link)->fd;
	vec_for_each (fd, &fds)
		(void)curl_multi_socket_action(t->multi, *fd, CURL_CSELECT_IN, &running);
	(void)collect_done(t);
}

/* --- libcurl's events ----------------------------------------------------- */

/* Of a socket, or libcurl's timer: its event has no descriptor, which is CURL_SOCKET_TIMEOUT. */
static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct transport *t = arg;
	int mask =
		(what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
	int running;

	t->spent_ns = 0;
	(void)curl_multi_socket_action(t->multi, fd, mask, &running);
	collect(t);
}

/*
 * Resume one paused request: libcurl delivers its bytes in this call, and it may pause again. When
 * on_body() ends the request, libcurl returns the error here and reports it nowhere else.
 */
static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct transport *t = arg;
	CURLcode code;

	t->spent_ns = 0;
	list_for_each_entry (h, &t->requests, struct http, link) {
		if (!h->is_paused)
			continue;
		event_after(t->resume, 0); /* for the next one */
		h->is_paused = false;
		list_move_tail(&t->requests, &h->link); /* round robin */
		code = curl_easy_pause(h->handle.easy, CURLPAUSE_CONT);
		if (code != CURLE_OK)
			transfer_done(h, code);
		collect(t);
		return;
	}
}

static int on_timer_request(CURLM *multi, long timeout_ms, void *arg)
{
	struct transport *t = arg;

	if (timeout_ms < 0)
		(void)event_del(t->timer);
	else
		event_after(t->timer, (uint64_t)timeout_ms * NSEC_PER_MSEC);
	return 0;
}

static int on_socket_request(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct transport *t = arg;
	struct peer *p = socket_arg;
	short events = (short)((what & CURL_POLL_IN ? EV_READ : 0) |
			       (what & CURL_POLL_OUT ? EV_WRITE : 0) | EV_PERSIST);

	if (what == CURL_POLL_REMOVE) {
		if (p != NULL) {
			(void)curl_multi_assign(t->multi, fd, NULL);
			peer_close(p);
		}
		return 0;
	}
	if (p == NULL) {
		const struct http *h = request_of(easy);

		p = peer_open(&t->peers, fd, h != NULL ? h->result.server : t->server);
		(void)curl_multi_assign(t->multi, fd, p);
	}
	if (p->event != NULL && event_get_events(p->event) == events)
		return 0;
	event_drop(p->event);
	p->event = xevent_new(t->base, fd, events, on_ready, t);
	return event_add(p->event, NULL) < 0 ? -1 : 0;
}

/* --- sockets -------------------------------------------------------------- */

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	struct http *h = arg;

	peer_options_set(fd, h->t->timing->keepalive_ns);
	h->is_parked = false;
	h->t->status.connections++;
	return CURL_SOCKOPT_OK;
}

/* The request has a connection: a new one, or the one of another request. */
static int on_connection(void *arg, char *remote, char *local, int remote_port, int local_port)
{
	struct http *h = arg;

	h->is_parked = false;
	return CURL_PREREQFUNC_OK;
}

/* --- dead peers ----------------------------------------------------------- */

/*
 * Any answer shows that the server is alive, so all connections to it count as alive: libcurl
 * selects the connection of a probe. TCP keepalive detects half-open connections.
 */
static void probe_done(void *arg, const struct http_result *result)
{
	struct transport *t = arg;

	t->probe = NULL;
	if (result->status == 0)
		return;
	t->alive_server = result->server;
	t->alive_ns = now_ns();
}

static void probe(struct transport *t)
{
	static const struct http_ops ops = { .done = probe_done };
	struct http_request request = {
		.path = "/version",
		.accept = "application/json",
		.is_probe = true,
		/* Longer than probe_ns: the quiet connection is closed before the probe fails. */
		.head_ns = 2 * t->timing->probe_ns,
		.idle_ns = 2 * t->timing->probe_ns,
		.total_ns = 4 * t->timing->probe_ns,
		.ops = &ops,
		.arg = t,
	};

	if (t->probe != NULL)
		return;
	t->status.probes++;
	http_open(&t->probe, t, &request);
}

static void peers_check(struct transport *t, uint64_t now)
{
	list_for_each_entry (p, &t->peers, struct peer, link) {
		uint64_t alive_ns = p->server == t->alive_server ? t->alive_ns : 0;
		enum peer_state state = peer_check(p, t->timing, alive_ns, now);

		if (state == PEER_QUIET)
			probe(t);
		if (state != PEER_DEAD)
			continue;
		t->status.dead_connections++;
		log_notice(LOG_AREA_SOURCE, "api: %s: connection closed: no data for %.3g s",
			   server_text(t, p->server), (double)p->silence_ns / (double)NSEC_PER_SEC);
		transport_avoid(t, p->server);
		return; /* it may have closed others: they follow at the next check */
	}
}

/* --- limits --------------------------------------------------------------- */

/* Is a request over a limit? If so, `why` is the text. */
static bool is_overdue(const struct http *h, uint64_t now, struct err *why)
{
	uint64_t limit = h->has_head ? h->request.idle_ns : h->request.head_ns;
	uint64_t total = now - h->started_ns;
	uint64_t idle = h->has_head ? now - h->received_ns : total;

	if (h->handle.easy == NULL || h->is_paused)
		return false;
	if (h->request.total_ns != 0 && total >= h->request.total_ns)
		(void)err_set(why, 0, "incomplete after %.3g s",
			      (double)total / (double)NSEC_PER_SEC);
	else if (limit != 0 && idle >= limit)
		(void)err_set(why, 0, "%s for %.3g s", h->has_head ? "no data" : "no answer",
			      (double)idle / (double)NSEC_PER_SEC);
	else
		return false;
	return true;
}

/* End one request, and those that move to another server with it. False: none is overdue. */
static bool expire(struct transport *t, uint64_t now)
{
	struct err why;

	list_for_each_entry (h, &t->requests, struct http, link) {
		if (!is_overdue(h, now, &why))
			continue;
		lose(h, why.text);
		return true;
	}
	return false;
}

/*
 * Start requests that wait for a connection that cannot be shared. libcurl 8.14 to 8.20 leaves
 * them paused when the connection turns out to be HTTP/1.1, until the request that uses it ends;
 * a watch takes minutes.
 */
static void unpark(struct transport *t)
{
	list_for_each_entry (h, &t->requests, struct http, link) {
		if (!h->is_parked)
			continue;
		h->is_parked = false;
		(void)curl_multi_remove_handle(t->multi, h->handle.easy);
		(void)curl_easy_setopt(h->handle.easy, CURLOPT_PIPEWAIT, 0L);
		(void)curl_multi_add_handle(t->multi, h->handle.easy);
	}
}

static void tick_schedule(struct transport *t)
{
	if (!list_is_empty(&t->requests) && !event_pending(t->tick, EV_TIMEOUT, NULL))
		event_after(t->tick, MIN(t->timing->quiet_ns / 10, TICK_MAX_NS));
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct transport *t = arg;
	uint64_t now = now_ns();

	while (expire(t, now))
		;
	if (is_http1(t))
		unpark(t);
	if (is_http2(t)) /* HTTP/1.1 allows no probe */
		peers_check(t, now);
	tick_schedule(t);
}

/* --- the start of a request ----------------------------------------------- */

static void callbacks_set(struct http *h)
{
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_PRIVATE, h);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_ERRORBUFFER, h->errbuf);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_HEADERFUNCTION, on_header);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_HEADERDATA, h);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_WRITEDATA, h);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_SOCKOPTDATA, h);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_PREREQFUNCTION, on_connection);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_PREREQDATA, h);
}

static int request_prepare(struct http *h, const struct access_grant *g)
{
	struct transport *t = h->t;
	const char *server = server_text(t, h->result.server);
	bool is_tls = handle_is_tls(server);
	int r = handle_open(&h->handle, g, h->result.server, &h->request, t->timing->connect_ns);

	if (r < 0)
		return r;
	callbacks_set(h);
	/* Share a connection. Plain http has no HTTP/2: a request would wait for a watch to end. */
	h->is_parked = is_tls && !is_http1(t);
	(void)curl_easy_setopt(h->handle.easy, CURLOPT_PIPEWAIT, (long)h->is_parked);
	if (g->authorization != NULL && !is_tls && !t->is_plain_warned) {
		t->is_plain_warned = true;
		log_warn(LOG_AREA_SOURCE,
			 "api: %s: credentials are not sent over plain http; use https", server);
	}
	return 0;
}

static void request_start(struct http *h)
{
	struct transport *t = h->t;
	struct access_grant g;
	struct err err;
	int r = (h->request.is_probe ? access_get_now : access_get)(t->access, &g, &err);

	if (r == ACCESS_WAIT)
		return;
	if (r < 0) {
		finish(h, HTTP_NO_ACCESS, err.text);
		return;
	}
	h->result.server = t->server;
	h->started_ns = now_ns();
	if (request_prepare(h, &g) < 0) {
		finish(h, HTTP_UNREACHABLE,
		       str_local(256, "invalid server URL '%s'", server_text(t, t->server)));
		return;
	}
	t->status.requests++;
	if (curl_multi_add_handle(t->multi, h->handle.easy) != CURLM_OK)
		finish(h, HTTP_UNREACHABLE, "libcurl: cannot add the request");
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct transport *t = arg;

	/* First: `done` may reject credentials or move to another server. */
	while (!list_is_empty(&t->finished)) {
		struct http *h = list_entry(t->finished.next, struct http, link);

		list_del(&h->link);
		h->result.body = &h->body;
		h->result.content_type = h->content_type;
		h->result.why = h->why.text;
		h->request.ops->done(h->request.arg, &h->result);
		http_close(h);
	}
	list_for_each_entry_safe (h, tmp, &t->requests, struct http, link) {
		if (h->handle.easy == NULL)
			request_start(h);
	}
}

void http_open(struct http **ret, struct transport *t, const struct http_request *request)
{
	struct http *h = xcalloc(1, sizeof(*h));

	h->t = t;
	h->request = *request;
	h->request.path = h->path = xstrdup(request->path);
	h->request.body = h->sent = request->body ? xstrdup(request->body) : NULL;
	list_add_tail(&t->requests, &h->link);
	*ret = h;
	tick_schedule(t);
	event_active(t->turn, EV_TIMEOUT, 0);
}

void http_set_idle(struct http *h, uint64_t idle_ns)
{
	h->request.idle_ns = idle_ns;
	h->request.total_ns = 0;
}

/* --- life ----------------------------------------------------------------- */

struct kube_status transport_status(const struct transport *t)
{
	struct kube_status s = t->status;

	s.server = server_text(t, t->server);
	s.is_http2 = is_http2(t);
	s.rejected = access_rejected(t->access);
	return s;
}

static int multi_open(struct transport *t, struct err *err)
{
#if defined(VIPD_STATIC) && defined(__GLIBC__)
	/*
	 * Names are resolved by what is linked. The modules that nsswitch.conf of a node names
	 * belong to the glibc of the node: another version of them ends the process.
	 */
	(void)__nss_configure_lookup("hosts", "files dns");
#endif
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, -ENOMEM, "libcurl: out of memory");
	t->multi = curl_multi_init();
	if (t->multi == NULL)
		return err_set(err, -ENOMEM, "libcurl: out of memory");
	(void)curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_socket_request);
	(void)curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	(void)curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_timer_request);
	(void)curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	(void)curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
#if LIBCURL_VERSION_NUM >= 0x081400 /* as CURLOPT_QUICK_EXIT, for threads of the multi handle */
	(void)curl_multi_setopt(t->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	return 0;
}

int transport_open(struct transport **ret, struct event_base *base, struct access *access,
		   const struct kube_timing *timing, struct err *err)
{
	AUTO(transport_close) struct transport *t = xcalloc(1, sizeof(*t));
	int r;

	t->base = base;
	t->access = access;
	t->timing = timing;
	list_init(&t->requests);
	list_init(&t->finished);
	list_init(&t->peers);
	t->timer = xtimer_new(base, on_ready, t);
	t->tick = xtimer_new(base, on_tick, t);
	t->turn = xtimer_new(base, on_turn, t);
	t->resume = xtimer_new(base, on_resume, t);
	access_wake(access, t->turn);
	r = multi_open(t, err);
	if (r == 0)
		*ret = TAKE(t);
	return r;
}

void transport_close(struct transport *t)
{
	if (t == NULL)
		return;
	http_close(t->probe);
	if (t->multi != NULL)
		(void)curl_multi_cleanup(t->multi);
	list_for_each_entry_safe (p, tmp, &t->peers, struct peer, link) {
		peer_close(p);
	}
	event_drop(t->timer);
	event_drop(t->tick);
	event_drop(t->turn);
	event_drop(t->resume);
	free(t);
}
