/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/kubefeed - the Kubernetes source alone, on an event loop, for tests and measurements.
 *
 *     kubefeed --kubeconfig FILE [--node NAME] [--set backoff_min_ms=50] ...
 *
 * Writes one JSON object a line: {"event": "synced"}, {"event": "changed",
 * "services": [...]}, and a response to each command from standard input:
 * dump, status, usage, quit; mark writes the line "mark" to standard error, after all earlier lines
 * of the log. Needs no root and touches no kernel.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "source/kube/kube.h"
#include "source/kube/ledger.h"
#include "source/kube/stream.h"

/* Period of the timer whose delay measures how long the loop was busy. */
#define LAG_PERIOD_NS NSEC_PER_MSEC

struct feed {
	struct event_base *base;
	struct model model;
	struct kube *kube;
	struct kube_config config;
	const char *node;
	struct event *input;
	struct event *lag;
	uint64_t lag_at_ns;
	uint64_t lag_max_ns;
	uint64_t start_ns;
	struct str line;
	unsigned int n_collections; /* of problems that become Events */
	bool is_quiet;              /* no "changed" lines */
	bool is_synced;
};

/* --- output --------------------------------------------------------------- */

static void put_line(const struct feed *f, json_t *obj)
{
	(void)json_object_set_new(
		obj, "ms", json_real((double)(now_ns() - f->start_ns) / (double)NSEC_PER_MSEC));
	(void)json_dumpf(obj, stdout, JSON_COMPACT);
	(void)fputc('\n', stdout);
	(void)fflush(stdout);
	json_decref(obj);
}

static json_t *ip_json(const struct ip_addr *a)
{
	char text[IP_TEXT_MAX];

	return json_string(ip_addr_text(a, text));
}

static json_t *prefix_json(const struct ip_prefix *p)
{
	char text[IP_PREFIX_TEXT_MAX];

	return json_string(ip_prefix_text(p, text));
}

static void set_key(json_t *map, const struct name *ns, const struct name *name, json_t *value)
{
	struct str key = { 0 };

	str_printf(&key, "%s/%s", name_text(ns), name_text(name));
	(void)json_object_set_new(map, key.text, value);
	str_fini(&key);
}

static json_t *service_json(const struct service *s)
{
	json_t *ports = json_array();
	json_t *ips = json_array();
	json_t *external = json_array();

	for (size_t i = 0; i < IPFAM_N; i++)
		if (ip_is_set(&s->cluster_ip[i]))
			(void)json_array_append_new(ips, ip_json(&s->cluster_ip[i]));
	vec_for_each (p, &s->ports)
		(void)json_array_append_new(ports, json_pack("[ssii]", p->name->text,
							     l4proto_text(p->proto), (int)p->port,
							     (int)p->node_port));
	vec_for_each (a, &s->external_ips)
		(void)json_array_append_new(external, ip_json(a));
	return json_pack("{sssosososbsbsi}", "type", service_type_text(s->type), "ips", ips,
			 "ports", ports, "external", external, "itp_local", s->is_itp_local,
			 "etp_local", s->is_etp_local, "affinity", (int)s->affinity_s);
}

static json_t *hints_json(const struct hints *h)
{
	json_t *list = json_array();

	for (size_t i = 0; i < h->n; i++)
		(void)json_array_append_new(list, json_string(h->names[i]->text));
	return list;
}

static json_t *slice_json(const struct slice *s)
{
	json_t *endpoints = json_array();
	json_t *ports = json_array();

	vec_for_each (p, &s->ports)
		(void)json_array_append_new(ports, json_pack("[ssi]", p->name->text,
							     l4proto_text(p->proto), (int)p->port));
	vec_for_each (e, &s->endpoints)
		(void)json_array_append_new(
			endpoints,
			json_pack("[oissoo]", ip_json(&e->addr), (int)e->flags,
				  name_text(e->place->node), e->pod ? e->pod : "",
				  hints_json(&e->place->zones), hints_json(&e->place->nodes)));
	return json_pack("{sssisoso}", "service", name_text(s->service), "family",
			 s->fam == IPFAM_V6 ? 6 : 4, "ports", ports, "endpoints", endpoints);
}

static json_t *node_json(const struct node *n)
{
	json_t *addrs = json_array();
	json_t *cidrs = json_array();

	vec_for_each (a, &n->addrs)
		(void)json_array_append_new(addrs, ip_json(a));
	vec_for_each (p, &n->pod_cidrs)
		(void)json_array_append_new(cidrs, prefix_json(p));
	return json_pack("{sssssbsoso}", "name", name_text(n->name), "zone", name_text(n->zone),
			 "deleting", n->is_deleting, "addrs", addrs, "pod_cidrs", cidrs);
}

static void put_dump(const struct feed *f)
{
	json_t *services = json_object();
	json_t *slices = json_object();
	json_t *cidrs = json_array();

	htable_for_each (node, &f->model.services) {
		const struct svc *svc = container_of(node, struct svc, node);

		if (svc->service != NULL)
			set_key(services, svc->ns, svc->name, service_json(svc->service));
	}
	htable_for_each (node, &f->model.slices) {
		const struct slice_entry *e = container_of(node, struct slice_entry, node);

		set_key(slices, e->slice->ns, e->slice->name, slice_json(e->slice));
	}
	vec_for_each (p, &f->model.env.service_cidrs)
		(void)json_array_append_new(cidrs, prefix_json(p));
	put_line(f,
		 json_pack("{sssosososbso}", "answer", "dump", "services", services, "slices",
			   slices, "cidrs", cidrs, "keeps_cidrs", f->model.env.keeps_service_cidrs,
			   "node", f->model.self ? node_json(f->model.self) : json_null()));
}

static json_t *age_json(uint64_t at_ns)
{
	return at_ns == 0 ? json_null()
			  : json_real((double)(int64_t)(now_ns() - at_ns) / (double)NSEC_PER_SEC);
}

static json_t *remarks_json(const struct ledger *l)
{
	json_t *list = json_array();

	vec_for_each (rm, &l->remarks)
		(void)json_array_append_new(list,
					    json_pack("{sssssbss}", "ns", name_text((*rm)->ns),
						      "name", (*rm)->name->text, "rejected",
						      (*rm)->is_rejected, "text", (*rm)->text));
	return list;
}

static json_t *reflector_json(const struct kube_reflector_status *s)
{
	static const char *const states[] = {
		[KUBE_STATE_WAITING] = "waiting",
		[KUBE_STATE_LISTING] = "listing",
		[KUBE_STATE_WATCHING] = "watching",
	};
	static const char *const encodings[] = {
		[STREAM_ENCODING_UNSET] = "",
		[STREAM_JSON] = "json",
		[STREAM_PROTOBUF] = "protobuf",
	};
	const struct ledger *l = s->ledger;
	json_t *obj =
		json_pack("{sssbsssisssssIsIsIsIsIsIsIsI}", "state", states[s->state], "complete",
			  s->is_complete, "error", s->error, "failures", (int)s->failures,
			  "version", s->version, "encoding", encodings[s->encoding], "objects",
			  (json_int_t)s->objects, "rejected", (json_int_t)l->n_rejected, "remarked",
			  (json_int_t)l->n_remarked, "unreadable", (json_int_t)l->n_unreadable,
			  "lists", (json_int_t)s->lists, "watches", (json_int_t)s->watches,
			  "events", (json_int_t)s->events, "bytes", (json_int_t)s->bytes);
	(void)json_object_set_new(obj, "error_age", age_json(s->error_ns));
	(void)json_object_set_new(obj, "event_age", age_json(s->last_event_ns));
	(void)json_object_set_new(obj, "remarks", remarks_json(l));
	return obj;
}

static void put_status(const struct feed *f)
{
	struct kube_status s = kube_status(f->kube);
	struct kube_reflector_status rs;
	json_t *reflectors = json_object();
	struct str unknown = { 0 };

	(void)kube_is_complete(f->kube, &unknown);
	for (size_t i = 0; kube_reflector_status(f->kube, i, &rs); i++)
		(void)json_object_set_new(reflectors, rs.resource, reflector_json(&rs));
	put_line(f, json_pack("{sssssbsbsssisIsIsIsIsIso}", "answer", "status", "server", s.server,
			      "http2", s.is_http2, "synced", f->is_synced, "unknown",
			      str_text(&unknown), "collections", (int)f->n_collections, "requests",
			      (json_int_t)s.requests, "connections", (json_int_t)s.connections,
			      "failovers", (json_int_t)s.failovers, "probes", (json_int_t)s.probes,
			      "dead", (json_int_t)s.dead_connections, "reflectors", reflectors));
	str_fini(&unknown);
}

/* A field of /proc/self/status, in KiB. */
static json_int_t proc_kib(const char *name)
{
	FILE *p = fopen("/proc/self/status", "re");
	long value = -1;
	char line[128];

	while (p != NULL && fgets(line, sizeof(line), p) != NULL)
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			value = strtol(line + strlen(name) + 1, NULL, 10);
	if (p != NULL)
		(void)fclose(p);
	return value;
}

static void put_usage(struct feed *f)
{
	struct mallinfo2 m = mallinfo2();
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	put_line(f, json_pack("{sssIsIsIsfsf}", "answer", "usage", "rss_kib", proc_kib("VmRSS"),
			      "peak_kib", proc_kib("VmHWM"), "heap_kib",
			      (json_int_t)(m.uordblks / 1024), "cpu_ms",
			      (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
				      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3,
			      "lag_ms", (double)f->lag_max_ns / (double)NSEC_PER_MSEC));
	f->lag_max_ns = 0;
}

/* --- events --------------------------------------------------------------- */

/* In place of the sync: take the dirty services. */
static void drain(struct feed *f)
{
	json_t *list = json_array();

	while (!list_is_empty(&f->model.dirty)) {
		struct svc *svc = list_entry(f->model.dirty.next, struct svc, dirty);
		struct str key = { 0 };

		str_printf(&key, "%s/%s", svc->ns->text, svc->name->text);
		if (!f->is_quiet)
			(void)json_array_append_new(list, json_string(key.text));
		str_fini(&key);
		model_clean(&f->model, svc);
	}
	if (f->is_quiet)
		json_decref(list);
	else
		put_line(f, json_pack("{ssso}", "event", "changed", "services", list));
}

static void on_changed(void *arg)
{
	drain(arg);
}

static void on_synced(void *arg)
{
	struct feed *f = arg;

	f->is_synced = true;
	put_line(f, json_pack("{ss}", "event", "synced"));
}

static void on_lag(evutil_socket_t fd, short what, void *arg)
{
	struct feed *f = arg;
	uint64_t now = now_ns();

	if (f->lag_at_ns != 0 && now - f->lag_at_ns > LAG_PERIOD_NS)
		f->lag_max_ns = MAX(f->lag_max_ns, now - f->lag_at_ns - LAG_PERIOD_NS);
	f->lag_at_ns = now;
}

static void command(struct feed *f, const char *text)
{
	if (strcmp(text, "dump") == 0)
		put_dump(f);
	else if (strcmp(text, "status") == 0)
		put_status(f);
	else if (strcmp(text, "usage") == 0)
		put_usage(f);
	else if (strcmp(text, "mark") == 0)
		(void)fputs("mark\n", stderr);
	else if (strcmp(text, "again") == 0)
		kube_read_again(f->kube);
	else if (strcmp(text, "quit") == 0)
		event_base_loopbreak(f->base);
	else
		put_line(f, json_pack("{ss}", "answer", "unknown command"));
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	struct feed *f = arg;
	char buf[256];
	ssize_t n = read((int)fd, buf, sizeof(buf));
	char *end;

	if (n <= 0) {
		event_base_loopbreak(f->base);
		return;
	}
	str_add(&f->line, buf, (size_t)n);
	while ((end = strchr(str_text(&f->line), '\n')) != NULL) {
		struct str rest = { 0 };

		*end = '\0';
		str_puts(&rest, end + 1);
		command(f, f->line.text);
		str_fini(&f->line);
		f->line = rest;
	}
}

/* --- options -------------------------------------------------------------- */

/* "head_ms=100", "watch_min_s=3": a field of struct kube_timing. */
static bool timing_set(struct kube_timing *t, const char *text)
{
	const struct {
		const char *name;
		uint64_t *field;
		uint64_t unit;
	} fields[] = {
		{ "connect_ms", &t->connect_ns, NSEC_PER_MSEC },
		{ "head_ms", &t->head_ns, NSEC_PER_MSEC },
		{ "idle_ms", &t->idle_ns, NSEC_PER_MSEC },
		{ "list_ms", &t->list_ns, NSEC_PER_MSEC },
		{ "bookmark_ms", &t->bookmark_ns, NSEC_PER_MSEC },
		{ "quiet_ms", &t->quiet_ns, NSEC_PER_MSEC },
		{ "probe_ms", &t->probe_ns, NSEC_PER_MSEC },
		{ "keepalive_ms", &t->keepalive_ns, NSEC_PER_MSEC },
		{ "turn_ns", &t->turn_ns, 1 },
		{ "backoff_min_ms", &t->backoff_min_ns, NSEC_PER_MSEC },
		{ "backoff_max_ms", &t->backoff_max_ns, NSEC_PER_MSEC },
		{ "calm_ms", &t->calm_ns, NSEC_PER_MSEC },
		{ "steady_ms", &t->steady_ns, NSEC_PER_MSEC },
		{ "others_ms", &t->others_ns, NSEC_PER_MSEC },
		{ "plugin_ms", &t->plugin_ns, NSEC_PER_MSEC },
		{ "events_ms", &t->events_ns, NSEC_PER_MSEC },
		{ "watch_min_s", &t->watch_min_s, 1 },
		{ "watch_max_s", &t->watch_max_s, 1 },
		{ "unsupported_ms", &t->unsupported_ns, NSEC_PER_MSEC },
	};
	size_t len = strcspn(text, "=");

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (strlen(fields[i].name) == len && memcmp(fields[i].name, text, len) == 0 &&
		    text[len] == '=') {
			*fields[i].field = strtoull(text + len + 1, NULL, 10) * fields[i].unit;
			return true;
		}
	return false;
}

static int options_parse(struct feed *f, int argc, char **argv)
{
	static const struct option options[] = {
		{ "kubeconfig", required_argument, NULL, 'k' },
		{ "master", required_argument, NULL, 'm' },
		{ "content-type", required_argument, NULL, 'c' },
		{ "account-dir", required_argument, NULL, 'a' },
		{ "node", required_argument, NULL, 'n' },
		{ "set", required_argument, NULL, 's' },
		{ "qps", required_argument, NULL, 'q' },
		{ "burst", required_argument, NULL, 'b' },
		{ "quiet", no_argument, NULL, 'Q' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	kube_config_init(&f->config);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			f->config.kubeconfig = optarg;
			break;
		case 'm':
			f->config.master = optarg;
			break;
		case 'c':
			f->config.is_json = strcmp(optarg, "application/json") == 0;
			break;
		case 'a':
			f->config.account_dir = optarg;
			break;
		case 'n':
			f->node = optarg;
			break;
		case 'q':
			f->config.qps = strtod(optarg, NULL);
			break;
		case 'b':
			f->config.burst = (int)strtol(optarg, NULL, 10);
			break;
		case 's':
			if (!timing_set(&f->config.timing, optarg))
				return -EINVAL;
			break;
		case 'Q':
			f->is_quiet = true;
			break;
		case 'v':
			log_level_set_all(LOG_LEVEL_DEBUG);
			break;
		default:
			return -EINVAL;
		}
	}
	return optind == argc ? 0 : -EINVAL;
}

/* --- life ----------------------------------------------------------------- */

static void on_problems(void *arg, struct events *e)
{
	struct feed *f = arg;

	(void)e;
	f->n_collections++;
}

static int feed_open(struct feed *f, struct err *err)
{
	struct timeval lag = { 0, (suseconds_t)(LAG_PERIOD_NS / NSEC_PER_USEC) };
	struct kube_callbacks callbacks = {
		.synced = on_synced, .changed = on_changed, .problems = on_problems, .arg = f
	};

	(void)signal(SIGPIPE, SIG_IGN);
	f->start_ns = now_ns();
	f->base = event_base_new();
	f->input = event_new(f->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, f);
	f->lag = event_new(f->base, -1, EV_PERSIST, on_lag, f);
	(void)event_add(f->input, NULL);
	(void)event_add(f->lag, &lag);
	model_init(&f->model);
	f->model.config.node_name = f->node ? name_get_str(f->node) : NULL;
	model_configured(&f->model);
	return kube_open(&f->kube, f->base, &f->model, &f->config, &callbacks, err);
}

static void feed_close(struct feed *f)
{
	kube_close(f->kube);
	f->is_quiet = true;
	drain(f);
	model_fini(&f->model);
	event_free(f->input);
	event_free(f->lag);
	event_base_free(f->base);
	str_fini(&f->line);
}

int main(int argc, char **argv)
{
	static struct feed f;
	struct err err = { .text = "" };
	int r;

	if (options_parse(&f, argc, argv) < 0) {
		(void)fprintf(stderr, "kubefeed: bad options, see tests/tools/kubefeed.c\n");
		return 2;
	}
	r = feed_open(&f, &err);
	if (r < 0)
		(void)fprintf(stderr, "kubefeed: %s\n", err.text);
	else
		(void)event_base_dispatch(f.base);
	feed_close(&f);
	return r < 0;
}
