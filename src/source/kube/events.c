/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/events.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/loop.h"
#include "source/kube/query.h"

/* Servers keep Events for an hour by default, and up to a minute more (etcd leases are shared). */
#define AGAIN_NS (3720 * NSEC_PER_SEC)
#define BURST_MAX 10
#define PER_EVENT_NS (60 * NSEC_PER_SEC)
#define DENIED_PERIODS 20 /* without an attempt after a denial: an hour of default periods */
/* Limits of the API for an Event. */
#define NAME_MAX_LEN 200 /* of 253, before the hash */
#define NOTE_MAX_LEN 1024
#define INSTANCE_MAX_LEN 128

struct report {
	uint64_t key;
	enum object_kind kind;
	char *ns; /* NULL for kinds without namespace */
	char *name;
	char *reason;
	char *text;
};

struct known {
	uint64_t key;
	uint64_t at_ns;
};

struct events {
	struct events_config c;
	struct event *timer;
	struct http *http; /* of queue.v[0] */
	VEC(struct report) queue;
	VEC(struct known) known; /* reported in the last hour; the rate limits the number */
	uint64_t bucket_ns;      /* of bucket_take() */
	bool is_denied;          /* logged */
	uint32_t n_skip;         /* periods */
};

static void send_next(struct events *e);

/* --- problems ------------------------------------------------------------- */

static uint64_t text_hash(const char *ns, const char *name, const char *reason, const char *text,
			  const char *more)
{
	FINI(str_fini) struct str s = { 0 };

	str_printf(&s, "%s\n%s\n%s\n%s\n%s", ns ? ns : "", name, reason, text, more);
	return hash_bytes_fixed(s.text, s.len, 0, 0);
}

bool kube_problem_add(struct events *e, const struct kube_problem *p)
{
	uint64_t key = text_hash(p->ns, p->name, p->reason, p->text, "");

	if (vec_has(&e->known, k, k->key == key))
		return true;
	if (bucket_take(&e->bucket_ns, PER_EVENT_NS, BURST_MAX, now_ns()) > 0)
		return false;
	*vec_push(&e->queue) = (struct report){ .key = key,
						.kind = p->kind,
						.ns = *p->ns ? xstrdup(p->ns) : NULL,
						.name = xstrdup(p->name),
						.reason = xstrdup(p->reason),
						.text = xstrdup(p->text) };
	return true;
}

static void report_fini(struct report *r)
{
	free(r->ns);
	free(r->name);
	free(r->reason);
	free(r->text);
}

/* Reports that were not sent do not count. */
static void queue_clear(struct events *e)
{
	e->bucket_ns -= e->queue.n * PER_EVENT_NS;
	vec_for_each (r, &e->queue)
		report_fini(r);
	e->queue.n = 0;
}

/* The first report is done: not again while the server has its Event. */
static void report_done(struct events *e)
{
	struct report *r = &e->queue.v[0];

	*vec_push(&e->known) = (struct known){ r->key, now_ns() };
	report_fini(r);
	vec_remove(&e->queue, 0);
	send_next(e);
}

/* --- requests ------------------------------------------------------------- */

/* "/apis/GROUP/VERSION" of a resource's path, and for objects in a namespace that as well. */
static void path_put(struct str *path, const char *resource_path, const char *ns)
{
	const char *slash = strrchr(resource_path, '/');

	str_printf(path, "%.*s", (int)(slash - resource_path), resource_path);
	if (ns != NULL) {
		str_puts(path, "/namespaces/");
		str_encode(path, ns);
	}
	str_puts(path, slash);
}

static void request(struct events *e, const char *path, const char *accept, const char *body,
		    const struct http_ops *ops)
{
	http_open(&e->http, e->c.transport,
		  &(struct http_request){
			  .path = path,
			  .accept = accept,
			  .body = body,
			  .head_ns = e->c.timing->head_ns,
			  .idle_ns = e->c.timing->idle_ns,
			  .total_ns = e->c.timing->head_ns,
			  .ops = ops,
			  .arg = e,
		  });
}

/* The name of an Event: a DNS subdomain. */
static void name_put(struct str *out, const struct report *r, const char *uid)
{
	size_t len = strnlen(r->name, NAME_MAX_LEN);

	while (len > 0 && (r->name[len - 1] == '.' || r->name[len - 1] == '-'))
		len--;
	str_printf(out, "%.*s.%016" PRIx64, (int)len, r->name,
		   text_hash(r->ns, r->name, r->reason, r->text, uid ? uid : ""));
}

/* MicroTime of the API. */
static void time_put(struct str *out)
{
	int64_t ns = wall_now_ns();
	time_t s = (time_t)(ns / (int64_t)NSEC_PER_SEC);
	struct tm tm;
	char text[32];

	if (gmtime_r(&s, &tm) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) > 0)
		str_printf(out, "%s.%06dZ", text, (int)(ns % (int64_t)NSEC_PER_SEC / 1000));
}

/* At most `max` bytes, without a part of a character at the end. */
static json_t *text_json(const char *text, size_t max)
{
	size_t len = strnlen(text, max);

	while (len > 0 && !str_is_utf8(text, len))
		len--;
	return json_stringn(text, len);
}

static json_t *regarding_json(const struct report *r, const char *uid)
{
	const char *path = kube_resource(r->kind)->path + 1; /* "api/v1/services" */
	const char *version = path + strcspn(path, "/") + 1;
	json_t *obj = json_pack("{ss ss ss* ss*}", "kind", object_kind_text(r->kind), "name",
				r->name, "namespace", r->ns, "uid", uid);

	(void)json_object_set_new(obj, "apiVersion",
				  json_stringn(version, (size_t)(strrchr(version, '/') - version)));
	return obj;
}

static char *event_json(const struct events *e, const struct report *r, const char *uid)
{
	FINI(str_fini) struct str name = { 0 };
	FINI(str_fini) struct str when = { 0 };
	AUTO(free) char *instance = xasprintf("vipd-%.*s", INSTANCE_MAX_LEN - 5, e->c.node);
	json_auto_t *obj = NULL;

	name_put(&name, r, uid);
	time_put(&when);
	obj = json_pack("{ssss s{ssss} ss ss ss ss ss ss so so}", "apiVersion", "events.k8s.io/v1",
			"kind", "Event", "metadata", "name", name.text, "namespace",
			r->ns ? r->ns : "default", "eventTime", str_text(&when), "type", "Warning",
			"reason", r->reason, "action", "Serve", "reportingController", "vipd",
			"reportingInstance", instance, "note", text_json(r->text, NOTE_MAX_LEN),
			"regarding", regarding_json(r, uid));
	return json_dumps(obj, JSON_COMPACT);
}

/* No answer, too many requests, or a failure of the server: again in the next period. */
static bool is_transient(const struct http_result *result)
{
	int status = result->status;

	return result->outcome != HTTP_ANSWERED || status == 401 || status == 429 || status >= 500;
}

/* --- POST ----------------------------------------------------------------- */

/*
 * 403 of the authorizer: no Event can be written. Another 403, of a quota or of a namespace that is
 * being deleted, concerns one Event.
 */
static bool is_denial(const struct http_result *result)
{
	return result->status == 403 &&
	       strstr(str_text(result->body), " cannot create resource ") != NULL;
}

static void post_done(void *arg, const struct http_result *result)
{
	struct events *e = arg;
	const struct report *r = &e->queue.v[0];
	int status = result->status;

	e->http = NULL;
	if (is_transient(result)) {
		queue_clear(e);
		return;
	}
	if (is_denial(result)) {
		if (!e->is_denied)
			log_notice(LOG_AREA_SOURCE,
				   "api: Events: no permission to create events.events.k8s.io; "
				   "problems are not reported");
		e->is_denied = true;
		e->n_skip = DENIED_PERIODS;
		queue_clear(e);
		return;
	}
	if (status >= 400 && status != 409)
		log_info(
			LOG_AREA_SOURCE,
			"api: Event about %s %s%s%s: not created: status %d; not sent again for %d min",
			object_kind_text(r->kind), r->ns ? r->ns : "", r->ns ? "/" : "", r->name,
			status, (int)(AGAIN_NS / NSEC_PER_SEC / 60));
	else
		e->is_denied = false;
	report_done(e);
}

static void post(struct events *e, const char *uid)
{
	static const struct http_ops ops = { .done = post_done };
	const struct report *r = &e->queue.v[0];
	FINI(str_fini) struct str path = { 0 };
	AUTO(free) char *body = event_json(e, r, uid);

	path_put(&path, "/apis/events.k8s.io/v1/events", r->ns ? r->ns : "default");
	request(e, path.text, "application/json", body, &ops);
}

/* --- the uid: without it `kubectl describe` does not find the Event --------- */

static void lookup_done(void *arg, const struct http_result *result)
{
	struct events *e = arg;
	const json_t *items;
	json_auto_t *list = NULL;
	const char *uid;

	e->http = NULL;
	if (is_transient(result)) {
		queue_clear(e);
		return;
	}
	/* NULL: another error, or more than metadata, which some servers cannot send alone. */
	list = json_loadb(str_text(result->body), result->body->len, JSON_ALLOW_NUL, NULL);
	items = json_object_get(list, "items");
	uid = json_string_value(
		json_object_get(json_object_get(json_array_get(items, 0), "metadata"), "uid"));
	/* Servers may encode an empty list as null. */
	if (json_is_null(items) || (json_is_array(items) && json_array_size(items) == 0))
		report_done(e); /* the object was deleted */
	else
		post(e, uid);
}

static void send_next(struct events *e)
{
	static const struct http_ops ops = { .done = lookup_done };
	FINI(str_fini) struct str path = { 0 };

	if (e->queue.n == 0)
		return;
	path_put(&path, kube_resource(e->queue.v[0].kind)->path, e->queue.v[0].ns);
	str_puts(&path, "?resourceVersion=0&fieldSelector=metadata.name%3D");
	str_encode(&path, e->queue.v[0].name);
	request(e, path.text,
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		NULL, &ops);
}

/* --- life ----------------------------------------------------------------- */

/* Half a period to one and a half: nodes that find a problem together report it one by one. */
static void timer_arm(struct events *e)
{
	uint64_t ns = e->c.timing->events_ns;

	event_after(e->timer, ns / 2 + random_below(ns));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct events *e = arg;
	uint64_t now = now_ns();

	timer_arm(e);
	if (e->queue.n > 0)
		return;
	if (e->n_skip > 0) {
		e->n_skip--;
		return;
	}
	vec_keep(&e->known, k, now - k->at_ns < AGAIN_NS);
	e->c.collect(e->c.arg, e);
	send_next(e);
}

void events_open(struct events **ret, const struct events_config *config)
{
	struct events *e = xcalloc(1, sizeof(*e));

	e->c = *config;
	e->timer = xtimer_new(config->base, on_timer, e);
	timer_arm(e);
	*ret = e;
}

void events_hurry(struct events *e)
{
	e->is_denied = false;
	e->n_skip = 0;
}

void events_close(struct events *e)
{
	if (e == NULL)
		return;
	http_close(e->http);
	event_drop(e->timer);
	queue_clear(e);
	vec_fini(&e->queue);
	vec_fini(&e->known);
	free(e);
}
