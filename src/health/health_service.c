/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health/health_service - entries by service, their sockets, and retries.
 *
 * An entry is a service on a port. When the service or its port is removed, the entry leaves
 * the table and its listeners close. The entry then answers 503 (HC-22) on its open
 * connections and is freed with the last of its listeners.
 */
#include "health/health_service.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/loop.h"
#include "model/select.h"

#define HEAD_MAX 4096
#define REPLY_MS 5000
#define CONNECTIONS_MAX 64 /* of one listener */

/* An HTTP server on one address. */
struct listener {
	struct list link; /* in entry.listeners */
	struct entry *entry;
	struct ip_addr addr;
	bool is_closing; /* accepts no connections, but has open ones */
	struct http_server *http;
};

struct entry {
	struct hnode node;   /* in services.entries, unless removed */
	struct list unbound; /* in services.unbound while an address cannot be bound */
	struct list removed; /* in services.removed */
	struct health_services *all;
	const struct name *ns;
	const struct name *name;
	uint16_t port;
	char *failure; /* logged; NULL: none */
	bool has_family[IPFAM_N];
	size_t ready[IPFAM_N]; /* EPS-24 */
	struct list counted;   /* in services.counted while `ready` is counted in steps */
	enum ipfam fam;        /* that is counted */
	struct local_ready count;
	struct list listeners;
};

struct health_services {
	struct event_base *base;
	const struct model *model;
	const struct health *health;
	struct event *retry;
	struct event *count;
	struct htable entries;
	struct list unbound;
	struct list counted;
	struct list removed;
	size_t n_listeners;
	uint64_t env_generation;
	VEC(struct ip_addr) addrs; /* of the listeners of every service of the family */
};

/* --- answers --- */

static void answer(void *arg, const struct http_request *q, struct http_reply *reply)
{
	const struct listener *d = arg;
	const struct entry *e = d->entry;
	bool is_healthy = health_is_serving(e->all->health);
	size_t n = list_is_linked(&e->removed) ? 0 : e->ready[ip_fam(&d->addr)]; /* HC-24 */

	reply->status = n > 0 && is_healthy ? 200 : 503;
	reply->type = "application/json";
	str_printf(&reply->headers,
		   "X-Content-Type-Options: nosniff\r\n"
		   "X-Load-Balancing-Endpoint-Weight: %zu\r\n",
		   n);
	/* HC-18: byte by byte the body of kube-proxy. Names are DNS labels: nothing is escaped. */
	str_printf(&reply->body,
		   "{\n\t\"service\": {\n\t\t\"namespace\": \"%s\",\n\t\t\"name\": \"%s\"\n\t},\n"
		   "\t\"localEndpoints\": %zu,\n\t\"serviceProxyHealthy\": %s\n}",
		   e->ns->text, e->name->text, n, is_healthy ? "true" : "false");
}

/* --- sockets --- */

static void entry_free(struct entry *e)
{
	list_del(&e->removed);
	list_del(&e->counted);
	vec_fini(&e->count.v);
	name_pair_unref(e->ns, e->name);
	free(e->failure);
	free(e);
}

/* The last connection of a retired server was closed. */
static void on_retired(void *arg)
{
	struct listener *d = arg;
	struct entry *e = d->entry;

	list_del(&d->link);
	free(d);
	if (list_is_linked(&e->removed) && list_is_empty(&e->listeners))
		entry_free(e);
}

static void listener_retire(struct listener *d)
{
	if (d->is_closing)
		return;
	d->is_closing = true;
	d->entry->all->n_listeners--;
	http_server_retire(d->http, on_retired);
}

static int listener_add(struct entry *e, const struct ip_addr *addr, struct err *err)
{
	const struct ip_endpoint at = { .addr = *addr, .port = e->port };
	AUTO(free) struct listener *d = xcalloc(1, sizeof(*d));
	struct http_config http = { .class = HTTP_SERVICE_HEALTH,
				    .head_max = HEAD_MAX,
				    .head_ms = HTTP_PROBE_HEAD_MS,
				    .reply_ms = REPLY_MS,
				    .connections_max = CONNECTIONS_MAX,
				    .takes = HTTP_TAKES_ANY, /* HC-15 */
				    .handler = answer,
				    .arg = d };
	int fd = -1;
	int r = listen_tcp(&fd, &at, false, err);

	if (r == 0)
		r = http_server_open(&d->http, e->all->base, fd, &http, err);
	if (r < 0)
		return r;
	d->entry = e;
	d->addr = *addr;
	e->all->n_listeners++;
	list_add_tail(&e->listeners, &TAKE(d)->link);
	return 0;
}

static struct listener *listener_find(const struct entry *e, const struct ip_addr *addr)
{
	list_for_each_entry (d, &e->listeners, struct listener, link) {
		if (!d->is_closing && ip_addr_is_equal(&d->addr, addr))
			return d;
	}
	return NULL;
}

static bool is_wanted(const struct entry *e, const struct ip_addr *addr)
{
	if (!e->has_family[ip_fam(addr)])
		return false;
	return vec_has(&e->all->addrs, a, ip_addr_is_equal(a, addr));
}

/* Retry in `s` seconds at the latest. */
static void retry_in(struct health_services *hs, unsigned int s)
{
	if (!list_is_empty(&hs->unbound) && (s == 0 || !event_pending(hs->retry, EV_TIMEOUT, NULL)))
		event_after(hs->retry, s * NSEC_PER_SEC);
}

/*
 * The first failure is not logged and retried in the next turn of the loop: two services
 * that swap their ports in one sync conflict for one turn.
 */
static void bind_failed(struct entry *e, const struct err *err)
{
	if (!list_is_linked(&e->unbound)) {
		list_add_tail(&e->all->unbound, &e->unbound);
		retry_in(e->all, 0);
		return;
	}
	if (e->failure != NULL)
		return;
	e->failure = xasprintf("service %s/%s: health check node port %u: %s", e->ns->text,
			       e->name->text, e->port, err->text);
	log_warn(LOG_AREA_HTTP, "%s; next attempt in %d s", e->failure, LISTEN_RETRY_S);
}

static void bind_done(struct entry *e)
{
	list_del(&e->unbound);
	if (e->failure != NULL)
		log_notice(LOG_AREA_HTTP, "service %s/%s: health check node port %u: recovered",
			   e->ns->text, e->name->text, e->port);
	free(TAKE(e->failure));
}

/* Close listeners that are not desired, and open missing ones as far as possible. */
static void entry_listen(struct entry *e)
{
	struct err err = { 0 };
	bool is_whole = true;

	list_for_each_entry_safe (d, tmp, &e->listeners, struct listener, link) {
		if (!is_wanted(e, &d->addr))
			listener_retire(d);
	}
	vec_for_each (a, &e->all->addrs)
		if (e->has_family[ip_fam(a)] && listener_find(e, a) == NULL)
			is_whole &= listener_add(e, a, &err) == 0;
	if (is_whole)
		bind_done(e);
	else
		bind_failed(e, &err);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct health_services *hs = arg;

	list_for_each_entry_safe (e, tmp, &hs->unbound, struct entry, unbound)
		entry_listen(e);
	retry_in(hs, LISTEN_RETRY_S);
}

/* --- entries --- */

static struct entry *entry_find(const struct health_services *hs, const struct svc *svc)
{
	return htable_find(&hs->entries, name_pair_hash(svc->ns, svc->name), struct entry, e,
			   e->ns == svc->ns && e->name == svc->name);
}

static struct entry *entry_add(struct health_services *hs, const struct svc *svc, uint16_t port)
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->all = hs;
	e->ns = name_ref(svc->ns);
	e->name = name_ref(svc->name);
	e->port = port;
	list_init(&e->listeners);
	htable_insert(&hs->entries, &e->node, name_pair_hash(svc->ns, svc->name));
	return e;
}

static void entry_retire(struct entry *e)
{
	struct health_services *hs = e->all;

	htable_remove(&hs->entries, &e->node);
	list_del(&e->unbound);
	list_del(&e->counted);
	list_for_each_entry_safe (d, tmp, &e->listeners, struct listener, link)
		listener_retire(d);
	list_add_tail(&hs->removed, &e->removed); /* only now: on_retired() would free the entry */
	if (list_is_empty(&e->listeners))
		entry_free(e);
	retry_in(hs, 0); /* the port is free for another entry */
}

/* A step. False: all are counted. */
static bool entry_count(struct entry *e, const struct svc *svc)
{
	for (; e->fam < IPFAM_N; e->fam++) {
		bool has_family = service_has_family(svc->service, e->fam);

		if (has_family &&
		    local_ready_step(&e->count, e->all->model, svc, e->fam, SELECT_STEP_WORK))
			return true;
		e->ready[e->fam] = has_family ? e->count.v.n : 0;
		vec_fini(&e->count.v);
		e->count.port = 0;
	}
	return false;
}

static void entry_count_begin(struct entry *e, const struct svc *svc)
{
	vec_fini(&e->count.v);
	e->count.port = 0;
	e->fam = 0;
	list_del(&e->counted);
	if (!entry_count(e, svc))
		return;
	list_add_tail(&e->all->counted, &e->counted);
	event_after(e->all->count, 0);
}

static void on_count(evutil_socket_t fd, short what, void *arg)
{
	struct health_services *hs = arg;
	struct entry *e;
	struct svc *svc;

	if (list_is_empty(&hs->counted))
		return;
	e = list_entry(hs->counted.next, struct entry, counted);
	svc = model_find(hs->model, e->ns, e->name);
	list_del(&e->counted);
	if (svc != NULL && svc->service != NULL && entry_count(e, svc))
		list_add_tail(&hs->counted, &e->counted);
	else
		entry_listen(e); /* of a new service or family */
	event_after(hs->count, 0);
}

/* SVC-26; 0 = none. */
static uint16_t wanted_port(const struct service *s)
{
	if (!service_is_proxied(s) || s->type != SERVICE_TYPE_LOADBALANCER ||
	    !service_is_etp_local(s))
		return 0;
	return s->health_check_node_port;
}

void health_services_accepted(struct health_services *hs, const struct svc *svc)
{
	uint16_t port = wanted_port(svc->service);
	struct entry *e;
	bool is_new = false;

	if (port == 0 && hs->entries.count == 0)
		return;
	e = entry_find(hs, svc);
	if (e != NULL && e->port != port) {
		entry_retire(e);
		e = NULL;
	}
	if (port == 0)
		return;
	if (e == NULL) {
		e = entry_add(hs, svc, port);
		is_new = true;
	}
	for (int fam = 0; fam < IPFAM_N; fam++) {
		bool has = service_has_family(svc->service, fam);

		is_new |= has != e->has_family[fam];
		e->has_family[fam] = has;
	}
	entry_count_begin(e, svc);
	if (is_new && !list_is_linked(&e->counted)) /* else: when it is counted */
		entry_listen(e);
}

/* --- addresses --- */

static bool is_match_all(const struct model_config *c, enum ipfam fam)
{
	return c->has_nodeport_cidrs &&
	       vec_has(&c->nodeport_cidrs, p, p->len == 0 && ip_fam(&p->addr) == fam);
}

/* HC-14 */
static void addrs_get(struct health_services *hs)
{
	const struct model *m = hs->model;

	vec_clear(&hs->addrs);
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		if (is_match_all(&m->config, fam))
			*vec_push(&hs->addrs) = (struct ip_addr){ .family = ip_family(fam) };
		else
			vec_for_each (a, &m->env.nodeport_addrs)
				if (ip_fam(a) == fam)
					*vec_push(&hs->addrs) = *a;
	}
}

void health_services_env(struct health_services *hs)
{
	if (hs->env_generation == hs->model->env_generation)
		return;
	hs->env_generation = hs->model->env_generation;
	addrs_get(hs);
	htable_for_each_entry (e, &hs->entries, struct entry)
		entry_listen(e);
}

/* --- life --- */

void health_services_open(struct health_services **ret, struct event_base *base,
			  const struct model *m, const struct health *health)
{
	struct health_services *hs = xcalloc(1, sizeof(*hs));

	hs->base = base;
	hs->model = m;
	hs->health = health;
	hs->retry = xtimer_new(base, on_retry, hs);
	hs->count = xtimer_new(base, on_count, hs);
	list_init(&hs->unbound);
	list_init(&hs->removed);
	list_init(&hs->counted);
	hs->env_generation = m->env_generation;
	addrs_get(hs);
	*ret = hs;
}

static void entry_close(struct entry *e)
{
	list_for_each_entry_safe (d, tmp, &e->listeners, struct listener, link) {
		http_server_close(d->http);
		free(d);
	}
	entry_free(e);
}

void health_services_close(struct health_services *hs)
{
	if (hs == NULL)
		return;
	htable_for_each_entry_safe (e, tmp, &hs->entries, struct entry)
		entry_close(e);
	list_for_each_entry_safe (e, tmp, &hs->removed, struct entry, removed)
		entry_close(e);
	htable_fini(&hs->entries);
	vec_fini(&hs->addrs);
	event_free(hs->retry);
	event_free(hs->count);
	free(hs);
}

struct health_services_stats health_services_stats(const struct health_services *hs)
{
	struct health_services_stats s = { .services = hs->entries.count,
					   .listeners = hs->n_listeners };

	list_for_each_entry (e, &hs->unbound, struct entry, unbound) {
		s.unbound++;
		if (s.failure == NULL)
			s.failure = e->failure;
	}
	return s;
}
