/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/reflector.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "source/kube/query.h"

/* A watch that ends sooner and without an event has failed. */
#define SHORT_WATCH_NS NSEC_PER_SEC
/* Pause, and up to as much again, before a resource that the server lacks is requested again. */
#define ABSENT_NS (600 * NSEC_PER_SEC)
/* Answers 403 in a row before an optional resource counts as one that the server lacks. */
#define FORBIDDEN_MAX 2
/* Interval at which a persistent failure is logged again. */
#define LOG_AGAIN_NS (300 * NSEC_PER_SEC)
/* Pause before a request to the next of several servers. */
#define NEXT_SERVER_NS (50 * NSEC_PER_MSEC)

/* Consecutive failures of one sort before the reflector changes its request. */
#define WATCH_LISTS_FAILED_MAX 2
#define GARBAGE_UNTIL_LIST 2
#define GARBAGE_UNTIL_JSON 3
#define TOO_LARGE_MAX 3
#define WATCH_ERRORS_MAX 4
#define USELESS_MAX 3 /* failures, then another server is tried */

struct reflector {
	struct reflector_config c;
	struct kube_query query; /* a watch-list becomes a watch after its initial events */
	struct ledger ledger;
	struct http *http;
	struct stream *stream;
	struct event *timer; /* end of a pause; of a watch: steady, then its limit */
	bool has_bookmarks;  /* the server sends bookmarks in watches */

	/* The next request. */
	bool needs_list;
	char version[STREAM_VERSION_MAX]; /* of `query` */
	char *next;                       /* of `query` */
	uint64_t no_watch_list_until;     /* monotonic; not supported until then */
	uint64_t no_fields_until;         /* likewise; watches have the selectors of their list */

	/* This request. */
	uint64_t at_ns; /* arrival of the last bytes */
	uint64_t began_ns;
	uint64_t ends_ns;       /* when the server ends the watch */
	uint64_t list_began_ns; /* first page of the current list */
	uint64_t events_before;
	bool is_changed; /* call of `changed` pending */
	bool was_whole;  /* the ledger was complete at the last call of `changed` */

	/* Failures. */
	bool is_server_away; /* as the last request ended: http_is_away() */
	uint64_t hurried_ns; /* when reflector_server_is_back() last ended a pause */
	uint32_t doublings;
	uint32_t garbage;
	uint32_t watch_lists_failed;
	uint32_t too_large;
	uint32_t watch_errors;   /* since the last event */
	bool is_watch_forbidden; /* a list does not end this failure */
	char error[ERR_TEXT_MAX];
	uint64_t failed_ns; /* last failure */
	uint64_t gone_ns;   /* last list without a pause, for a watch whose version was lost */
	uint64_t logged_ns;

	struct kube_reflector_status status; /* see reflector_status() for what is set there */
};

static const struct http_ops http_ops;
static void begin(struct reflector *r);

/* --- failures ------------------------------------------------------------- */

/* IN-11: exponential backoff with up to 100 % jitter. */
static uint64_t pause_next(struct reflector *r, uint64_t now)
{
	const struct kube_timing *t = r->c.timing;
	uint64_t pause;

	if (now - r->failed_ns > t->calm_ns)
		r->doublings = 0;
	pause = MIN(t->backoff_min_ns << r->doublings, t->backoff_max_ns);
	r->doublings += pause < t->backoff_max_ns;
	return pause + random_below(pause);
}

/* Log a failure when it first occurs, when its words change, and every LOG_AGAIN_NS. */
static void failure_log(struct reflector *r, const char *text, uint64_t pause, uint64_t now)
{
	bool is_same = r->status.failures > 1 && str_is_equal_but_numbers(r->error, text);

	(void)snprintf(r->error, sizeof(r->error), "%s", text);
	if (is_same && now - r->logged_ns < LOG_AGAIN_NS)
		return;
	r->logged_ns = now;
	log_warn(LOG_AREA_SOURCE, "api: %s; next attempt in %.1f s", text,
		 (double)pause / (double)NSEC_PER_SEC);
}

/* Schedule the next request after `pause`; 0: after the backoff. */
static void failed(struct reflector *r, uint64_t pause, const char *why)
{
	uint64_t now = now_ns();
	struct err text;

	(void)err_set(&text, 0, "%s %s: %s", r->query.kind == KUBE_QUERY_LIST ? "list" : "watch",
		      r->status.resource, why);
	if (pause == 0)
		pause = pause_next(r, now);
	r->failed_ns = now;
	r->status.failures++;
	if (r->status.error_ns == 0)
		r->status.error_ns = now;
	failure_log(r, text.text, pause, now);
	event_after(r->timer, pause);
}

/* Try all servers before the first backoff. */
static void server_failed(struct reflector *r, const char *why)
{
	size_t n = transport_n_servers(r->c.transport);

	failed(r, (r->status.failures + 1) % n == 0 ? 0 : NEXT_SERVER_NS, why);
}

static void recovered(struct reflector *r)
{
	if (r->status.failures == 0)
		return;
	log_notice(LOG_AREA_SOURCE, "api: %s: recovered after %u failures in %.1f s",
		   r->status.resource, r->status.failures,
		   (double)(now_ns() - r->status.error_ns) / (double)NSEC_PER_SEC);
	r->status.failures = 0;
	r->error[0] = '\0';
	r->status.error_ns = 0;
}

/*
 * A watch at a version that the server has lost gets neither events nor bookmarks until the
 * server's version is higher: list again, see too_large_note(). Its server may also have stopped
 * to send bookmarks: no limit until the next one.
 */
static void silence_note(struct reflector *r)
{
	if (r->query.kind != KUBE_QUERY_WATCH || !r->has_bookmarks ||
	    r->status.events != r->events_before ||
	    now_ns() - r->began_ns < r->c.timing->bookmark_ns)
		return;
	r->has_bookmarks = false;
	r->needs_list = true;
}

/* --- requests ------------------------------------------------------------- */

static enum kube_query_kind kind_next(const struct reflector *r)
{
	if (!r->needs_list)
		return KUBE_QUERY_WATCH;
	if (r->next != NULL || r->query.is_unpaged || now_ns() < r->no_watch_list_until)
		return KUBE_QUERY_LIST;
	return KUBE_QUERY_WATCH_LIST;
}

/* Time left for all pages of the list; at least 1. */
static uint64_t list_left_ns(const struct reflector *r)
{
	uint64_t spent = now_ns() - r->list_began_ns;

	return spent < r->c.timing->list_ns ? r->c.timing->list_ns - spent : 1;
}

/*
 * Servers that send bookmarks send one a minute. The limit is random: after a restart of the server
 * all clients begin to wait at the same time. 0: no limit.
 */
static uint64_t watch_idle_ns(const struct reflector *r)
{
	uint64_t ns = r->c.timing->bookmark_ns;

	return r->has_bookmarks ? ns + random_below(ns) : 0;
}

/* End a watch that the server does not end. */
static void limit_arm(struct reflector *r)
{
	event_after(r->timer, r->ends_ns - now_ns() + r->c.timing->idle_ns);
}

static void request(struct reflector *r)
{
	const struct kube_timing *t = r->c.timing;
	struct kube_query *q = &r->query;
	FINI(str_fini) struct str path = { 0 };
	const char *accept = r->c.is_json_only
				     ? "application/json"
				     : "application/vnd.kubernetes.protobuf,application/json";

	q->next = r->next;
	q->timeout_s = t->watch_min_s + random_below(t->watch_max_s - t->watch_min_s + 1);
	r->ends_ns = now_ns() + q->timeout_s * NSEC_PER_SEC;
	if (q->kind != KUBE_QUERY_LIST)
		limit_arm(r);
	kube_query_text(&path, q);
	http_open(&r->http, r->c.transport,
		  &(struct http_request){
			  .path = path.text,
			  .accept = accept,
			  .head_ns = t->head_ns,
			  .idle_ns = q->kind == KUBE_QUERY_WATCH ? watch_idle_ns(r) : t->idle_ns,
			  .total_ns = q->kind == KUBE_QUERY_WATCH ? 0 : list_left_ns(r),
			  .ops = &http_ops,
			  .arg = r,
		  });
}

static void begin(struct reflector *r)
{
	uint64_t wait;

	assert(r->http == NULL);
	if (r->next != NULL && list_left_ns(r) == 1) {
		free(TAKE(r->next));
		failed(r, 0, "list incomplete at its time limit");
		return;
	}
	wait = r->c.admit(r->c.arg);
	if (wait > 0) {
		event_after(r->timer, wait);
		return;
	}
	(void)event_del(r->timer);
	r->query.kind = kind_next(r);
	r->began_ns = now_ns();
	r->events_before = r->status.events;
	if (r->query.kind != KUBE_QUERY_WATCH && r->next == NULL) {
		ledger_list_begin(&r->ledger);
		r->list_began_ns = r->began_ns;
		r->query.is_unselected = r->began_ns < r->no_fields_until;
	}
	request(r);
}

/* --- objects -------------------------------------------------------------- */

static void report_changed(struct reflector *r)
{
	bool is_whole = ledger_is_complete(&r->ledger, NULL);

	if (!r->is_changed && is_whole == r->was_whole)
		return;
	r->is_changed = false;
	r->was_whole = is_whole;
	r->c.changed(r->c.arg);
}

static void request_end(struct reflector *r)
{
	http_close(TAKE(r->http));
	stream_close(TAKE(r->stream));
	report_changed(r);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct reflector *r = arg;

	if (r->http != NULL && now_ns() < r->ends_ns) { /* from on_head() */
		recovered(r);
		limit_arm(r);
		return;
	}
	if (r->http != NULL) {
		log_info(LOG_AREA_SOURCE,
			 "api: watch %s: not ended by the server after its timeout; restarted",
			 r->status.resource);
		silence_note(r);
		request_end(r);
	}
	begin(r);
}

static void list_complete(struct reflector *r, const char *version)
{
	size_t n = ledger_list_end(&r->ledger, r->at_ns);

	log_info(LOG_AREA_SOURCE, "api: %s: %zu objects at version %s, %zu deleted",
		 r->status.resource, ledger_objects(&r->ledger), version, n);
	(void)snprintf(r->version, sizeof(r->version), "%s", version);
	r->is_changed |= n > 0;
	r->status.is_complete = true;
	r->needs_list = false;
	r->query.is_version_lost = false;
	r->query.is_unpaged = false;
	r->garbage = r->watch_lists_failed = r->too_large = r->watch_errors = 0;
	if (!r->is_watch_forbidden)
		recovered(r);
	report_changed(r);
	r->c.listed(r->c.arg);
}

/*
 * Our version is newer than the server's. A server that lags catches up; a server that was restored
 * from a backup does not: after TOO_LARGE_MAX failures its state is accepted.
 */
static void too_large_note(struct reflector *r, const struct api_status *status)
{
	if (!status->is_too_large || ++r->too_large < TOO_LARGE_MAX)
		return;
	r->too_large = 0;
	r->needs_list = r->query.is_version_lost = true;
}

static void watch_list_failed(struct reflector *r)
{
	if (r->query.kind != KUBE_QUERY_WATCH_LIST ||
	    ++r->watch_lists_failed < WATCH_LISTS_FAILED_MAX)
		return;
	r->watch_lists_failed = 0;
	r->no_watch_list_until = now_ns() + r->c.timing->unsupported_ns;
}

/* The server cannot continue the watch; it may be able to list. */
static void watch_error_note(struct reflector *r, int code)
{
	r->watch_errors += code >= 500 && r->query.kind == KUBE_QUERY_WATCH;
	/* A server that has just started may forbid all (is_forbidden_for_long()). */
	r->is_watch_forbidden |= code == 403 && r->query.kind == KUBE_QUERY_WATCH &&
				 r->status.failures >= FORBIDDEN_MAX;
	r->needs_list |= r->watch_errors >= WATCH_ERRORS_MAX || r->is_watch_forbidden;
}

/* An ERROR event: -ESTALE if the version is lost, else -EAGAIN. */
static int error_event(struct reflector *r, const json_t *obj, struct err *err)
{
	struct api_status status;

	api_status_read(&status, obj);
	too_large_note(r, &status);
	watch_error_note(r, status.code);
	*err = status.text;
	return status.code == 410 ? -ESTALE : -EAGAIN;
}

static int bookmark(struct reflector *r, const json_t *obj, struct err *err)
{
	bool is_list = r->query.kind == KUBE_QUERY_WATCH_LIST;
	const char *version = stream_version_of(obj);

	/* An ordinary bookmark: the server has ignored sendInitialEvents. */
	if (is_list && (!stream_is_initial_end(obj) || version == NULL))
		return err_set(err, -EOPNOTSUPP, "bookmark before the end of the initial events");
	r->query.kind = KUBE_QUERY_WATCH;
	r->has_bookmarks |= !is_list;
	http_set_idle(r->http, watch_idle_ns(r));
	if (is_list)
		list_complete(r, version);
	return 0;
}

static int event_take(struct reflector *r, enum stream_event event, const json_t *obj,
		      struct err *err)
{
	switch (event) {
	case STREAM_ITEM:
	case STREAM_ADDED:
	case STREAM_MODIFIED:
		r->is_changed |= ledger_put(&r->ledger, obj, r->at_ns) > 0;
		return 0;
	case STREAM_DELETED:
		r->is_changed |= ledger_del(&r->ledger, obj, r->at_ns) > 0;
		return 0;
	case STREAM_BOOKMARK:
		return bookmark(r, obj, err);
	case STREAM_ERROR:
		return error_event(r, obj, err);
	case STREAM_UNKNOWN: /* only unreadable */
		break;
	}
	return 0;
}

/*
 * An unreadable object of a list does not affect the others. In a watch an event without an object
 * name may concern any object: list again.
 */
static int on_object(void *arg, enum stream_event event, const json_t *obj, const char *why,
		     struct err *err)
{
	struct reflector *r = arg;
	const char *version = stream_version_of(obj);
	int n = 0;

	r->status.events++;
	r->status.last_event_ns = r->at_ns;
	if (why == NULL || (event == STREAM_DELETED && obj != NULL))
		n = event_take(r, event, obj, err);
	else
		ledger_unreadable(&r->ledger, obj, why);
	/* Initial events are not sorted by version: only the bookmark at their end has the version.
	 */
	if (n < 0 || r->query.kind != KUBE_QUERY_WATCH)
		return n;
	if (why != NULL && (obj == NULL || event == STREAM_ERROR || event == STREAM_UNKNOWN))
		return err_set(err, -ESTALE, "unreadable event: %s", why);
	if (version != NULL)
		(void)snprintf(r->version, sizeof(r->version), "%s", version);
	if (why == NULL) {
		r->watch_errors = 0;
		recovered(r);
	}
	return 0;
}

/* --- answers -------------------------------------------------------------- */

static int on_head(void *arg, const char *content_type, struct err *err)
{
	struct reflector *r = arg;

	r->status.encoding = (uint8_t)stream_encoding_of(content_type);
	if (r->status.encoding == STREAM_ENCODING_UNSET)
		return err_set(err, -EBADMSG, "content type '%.64s' is neither protobuf nor JSON",
			       content_type ? content_type : "");
	r->status.lists += r->query.kind != KUBE_QUERY_WATCH && r->next == NULL;
	r->status.watches += r->query.kind != KUBE_QUERY_LIST;
	r->is_watch_forbidden &= r->query.kind == KUBE_QUERY_LIST;
	stream_open(&r->stream,
		    &(struct stream_config){
			    .mode = r->query.kind == KUBE_QUERY_LIST ? STREAM_LIST : STREAM_WATCH,
			    .encoding = r->status.encoding,
			    .kind = r->query.resource->kind,
			    .object = on_object,
			    .arg = r,
		    });
	/* A quiet watch gets no event that ends the failure. */
	if (r->query.kind == KUBE_QUERY_WATCH && r->status.failures > 0)
		event_after(r->timer, r->c.timing->steady_ns);
	r->c.answered(r->c.arg);
	return 0;
}

static int on_data(void *arg, const void *data, size_t len, struct err *err)
{
	struct reflector *r = arg;
	int n;

	r->status.bytes += len;
	r->at_ns = now_ns();
	n = stream_feed(r->stream, data, len, err);
	if (r->query.kind == KUBE_QUERY_WATCH)
		report_changed(r);
	return n;
}

/* --- how requests end ----------------------------------------------------- */

/* The body is malformed. */
static void garbage(struct reflector *r, const char *why)
{
	r->garbage++;
	if (r->garbage >= GARBAGE_UNTIL_JSON && r->status.encoding == STREAM_PROTOBUF &&
	    !r->c.is_json_only) {
		log_warn(LOG_AREA_SOURCE,
			 "api: %s: malformed protobuf; requesting JSON from now on",
			 r->status.resource);
		r->c.is_json_only = true;
	}
	if (r->garbage >= GARBAGE_UNTIL_LIST)
		r->needs_list = true;
	watch_list_failed(r);
	failed(r, 0, why);
}

static void list_over(struct reflector *r)
{
	struct stream_list list;
	struct err err;
	bool is_again;

	if (stream_end(r->stream, &list, &err) < 0) {
		garbage(r, err.text);
		return;
	}
	r->query.has_no_cache |= r->version[0] == '\0' && list.next != NULL;
	is_again = r->next != NULL && list.next != NULL && strcmp(r->next, list.next) == 0;
	free(r->next);
	r->next = list.next;
	if (r->next == NULL) {
		list_complete(r, list.version);
	} else if (is_again) {
		free(TAKE(r->next));
		failed(r, 0, "continue token repeats");
		return;
	}
	begin(r);
}

static void watch_over(struct reflector *r)
{
	struct err err;

	if (r->query.kind == KUBE_QUERY_WATCH_LIST) {
		watch_list_failed(r);
		failed(r, 0, "ended before the end of the initial events");
	} else if (stream_end(r->stream, NULL, &err) < 0) {
		garbage(r, err.text);
	} else if (r->status.events == r->events_before &&
		   now_ns() - r->began_ns < SHORT_WATCH_NS) {
		failed(r, 0, "ended within 1 s without an event");
	} else {
		r->garbage = 0;
		silence_note(r);
		recovered(r);
		begin(r);
	}
}

/* The server does not support the request. */
static void unacceptable(struct reflector *r, const char *why)
{
	if (r->query.kind == KUBE_QUERY_WATCH_LIST) {
		log_info(LOG_AREA_SOURCE, "api: %s: watch-list rejected: %s; using lists",
			 r->status.resource, why);
		r->no_watch_list_until = now_ns() + r->c.timing->unsupported_ns;
		begin(r);
		return;
	}
	free(TAKE(r->next));
	r->needs_list = r->query.is_version_lost = true;
	failed(r, 0, why);
}

/* API servers before 1.31 reject a field selector of Services. */
static void list_unselected(struct reflector *r, const char *why)
{
	log_info(LOG_AREA_SOURCE, "api: %s: field selector not supported: %s; listing without it",
		 r->status.resource, why);
	r->no_fields_until = now_ns() + r->c.timing->unsupported_ns;
	begin(r);
}

/*
 * The server has lost the version at which a watch resumes: list at once, unless that happened
 * within the longest backoff. When the server ends a running watch for a lost version, it ends the
 * watches of all clients: a backoff spreads their lists.
 */
static bool is_listed_at_once(struct reflector *r, const char *why)
{
	uint64_t now = now_ns();

	if (r->query.kind != KUBE_QUERY_WATCH || r->status.events > r->events_before + 1 ||
	    now - r->began_ns > SHORT_WATCH_NS || now - r->gone_ns < r->c.timing->backoff_max_ns)
		return false;
	log_notice(LOG_AREA_SOURCE, "api: watch %s: %s; listing again", r->status.resource, why);
	r->gone_ns = now;
	r->needs_list = true;
	begin(r);
	return true;
}

/* Code 410, of an answer or of an event: the continue token or the version has expired. */
static void gone(struct reflector *r, const char *why)
{
	if (is_listed_at_once(r, why))
		return;
	r->query.is_unpaged |= r->next != NULL;
	free(TAKE(r->next));
	r->query.is_version_lost |= r->query.kind != KUBE_QUERY_WATCH;
	r->needs_list = true;
	watch_list_failed(r);
	failed(r, 0, why);
}

/* on_head() or on_data() has ended the request. */
static void stopped(struct reflector *r, int code, const char *why)
{
	if (code == -EBADMSG) {
		garbage(r, why);
	} else if (code == -EOPNOTSUPP) {
		unacceptable(r, why);
	} else if (code == -ESTALE) {
		gone(r, why);
	} else {
		watch_list_failed(r);
		failed(r, 0, why);
	}
}

/* An older server: its upgrade adds the resource, or the permission. */
static void absent(struct reflector *r, const char *why)
{
	recovered(r);
	event_after(r->timer, ABSENT_NS + random_below(ABSENT_NS));
	if (r->status.is_complete)
		return;
	log_notice(LOG_AREA_SOURCE, "api: %s: %s; continuing without it", r->status.resource, why);
	r->status.is_complete = true;
	r->c.listed(r->c.arg);
}

static void not_found(struct reflector *r, const char *why)
{
	r->query.is_old_path = !r->query.is_old_path && r->query.resource->old_path != NULL;
	if (r->query.is_old_path) {
		begin(r);
		return;
	}
	/* The loss of a resource that was listed may be a fault: its objects stay. */
	if (r->query.resource->is_optional && r->version[0] == '\0')
		absent(r, why);
	else
		failed(r, 0, why);
}

/*
 * Authorization precedes routing: 403 may mean that the server lacks the resource. But a server
 * that has just started may forbid all.
 */
static bool is_forbidden_for_long(const struct reflector *r)
{
	return r->query.resource->is_optional &&
	       (r->status.is_complete || r->status.failures >= FORBIDDEN_MAX);
}

static void rejected(struct reflector *r, const struct http_result *result)
{
	enum stream_encoding e = stream_encoding_of(result->content_type);
	uint64_t pause = http_pause(result);
	struct api_status answer;
	const char *why = answer.text.text;
	int status = result->status;

	if (stream_status(&answer, e, str_text(result->body), result->body->len))
		too_large_note(r, &answer);
	else
		(void)err_set(&answer.text, 0, "status %d", status);
	if (status == 401)
		access_reject(r->c.access);
	r->c.is_json_only |= status == 406;
	if (status == 403 || status >= 500)
		watch_list_failed(r);
	/* A load balancer without a server: for all clients watches cost less than lists. */
	if (status < 502 || status > 504)
		watch_error_note(r, status);
	if (status >= 500 || status < 400)
		transport_avoid(r->c.transport, result->server);
	if (status == 404 || (status == 403 && is_forbidden_for_long(r)))
		not_found(r, why);
	else if (status == 410)
		gone(r, why);
	else if (status == 400 && kube_query_is_selected_list(&r->query))
		list_unselected(r, why);
	else if (status == 401 || status == 403 || status == 406 || status == 408)
		failed(r, 0, why);
	else if (status == 429 || ((status >= 500 || status < 400) && pause != 0))
		failed(r, pause, why);
	else if (status >= 400 && status < 500)
		unacceptable(r, why);
	else
		server_failed(r, why);
}

static void ended(struct reflector *r, const struct http_result *result)
{
	uint32_t before = r->status.failures;

	r->is_server_away = http_is_away(result);
	switch (result->outcome) {
	case HTTP_ANSWERED:
		if (result->status != 200)
			rejected(r, result);
		else if (r->query.kind == KUBE_QUERY_LIST)
			list_over(r);
		else
			watch_over(r);
		break;
	case HTTP_UNREACHABLE:
		server_failed(r, result->why);
		break;
	case HTTP_NO_ACCESS:
		failed(r, 0, result->why);
		break;
	case HTTP_CUT:
		silence_note(r);
		watch_list_failed(r);
		/* A middlebox may cut every connection long before calm_ns. */
		if (r->query.kind == KUBE_QUERY_WATCH &&
		    now_ns() - r->began_ns > r->c.timing->steady_ns)
			r->doublings = 0;
		failed(r, 0, result->why);
		break;
	case HTTP_STOPPED:
		stopped(r, result->code, result->why);
		break;
	}
	if (http_is_useless(result) && r->status.failures > before &&
	    r->status.failures % USELESS_MAX == 0)
		transport_avoid(r->c.transport, result->server);
}

static void on_done(void *arg, const struct http_result *result)
{
	struct reflector *r = arg;

	r->http = NULL;
	(void)event_del(r->timer);
	ended(r, result);
	/* The stream of the ended request: the next request opens its stream in on_head(). */
	stream_close(TAKE(r->stream));
	report_changed(r); /* events before the end are valid */
}

static const struct http_ops http_ops = { on_head, on_data, on_done };

/* --- life ----------------------------------------------------------------- */

void reflector_open(struct reflector **ret, const struct reflector_config *config)
{
	struct reflector *r = xcalloc(1, sizeof(*r));

	r->c = *config;
	r->query = (struct kube_query){ .resource = kube_resource(config->kind),
					.node = name_text(config->model->config.node_name),
					.version = r->version };
	r->status = (struct kube_reflector_status){ .resource = r->query.resource->name,
						    .error = r->error,
						    .version = r->version,
						    .ledger = &r->ledger };
	ledger_init(&r->ledger, config->model, config->kind);
	r->needs_list = true;
	r->was_whole = true;
	r->timer = xtimer_new(config->base, on_timer, r);
	event_active(r->timer, EV_TIMEOUT, 0);
	*ret = r;
}

void reflector_hurry(struct reflector *r)
{
	if (r->http == NULL)
		event_active(r->timer, EV_TIMEOUT, 0);
}

void reflector_other_servers(struct reflector *r)
{
	request_end(r);
	free(TAKE(r->next));
	r->needs_list = r->query.is_version_lost = true;
	reflector_hurry(r);
}

void reflector_server_is_back(struct reflector *r)
{
	uint64_t now = now_ns();

	/* Seldom: a server that loses each answer after its head looks as if it was back. */
	if (!r->is_server_away || r->http != NULL ||
	    (r->hurried_ns != 0 && now - r->hurried_ns < r->c.timing->calm_ns))
		return;
	r->hurried_ns = now;
	reflector_hurry(r);
}

void reflector_close(struct reflector *r)
{
	if (r == NULL)
		return;
	http_close(r->http);
	stream_close(r->stream);
	event_drop(r->timer);
	ledger_fini(&r->ledger);
	free(r->next);
	free(r);
}

bool reflector_is_complete(const struct reflector *r)
{
	return r->status.is_complete;
}

const struct ledger *reflector_ledger(const struct reflector *r)
{
	return &r->ledger;
}

void reflector_status(const struct reflector *r, struct kube_reflector_status *ret)
{
	*ret = r->status;
	ret->state = r->http == NULL                     ? KUBE_STATE_WAITING
		     : r->query.kind == KUBE_QUERY_WATCH ? KUBE_STATE_WATCHING
							 : KUBE_STATE_LISTING;
	ret->objects = ledger_objects(&r->ledger);
}
