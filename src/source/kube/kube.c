/* SPDX-License-Identifier: GPL-2.0-or-later */
/* source/kube - transport, reflectors and the gate of section 1.3. */
#include "source/kube/kube.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/loop.h"
#include "source/kube/access.h"
#include "source/kube/events.h"
#include "source/kube/handle.h"
#include "source/kube/query.h"
#include "source/kube/reflector.h"
#include "source/kube/transport.h"

/* As the flags of kube-proxy. */
#define QPS_DEFAULT 5
#define QPS_MIN 0.001
#define BURST_DEFAULT 10

/* The gate waits for the first two (IN-15). */
enum which {
	WHICH_SERVICES = 0,
	WHICH_SLICES,
	WHICH_CIDRS,
	WHICH_NODE, /* last: only with a node name */
	WHICH_N,
};

struct kube {
	struct model *model;
	const struct kube_timing *timing;
	bool was_node_known; /* at some time: then the last copy counts */
	struct kube_callbacks callbacks;
	struct access *access;
	struct transport *transport;
	double qps;
	uint64_t burst;
	uint64_t bucket_ns;
	struct reflector *reflectors[WHICH_N];
	size_t n;
	struct events *events;  /* NULL: off */
	size_t first_rejection; /* the first one to add, in the order of the ledgers */
	uint32_t n_collections;
	struct event *moved; /* other servers */
	struct event *gate;  /* time limit for Node and ServiceCIDRs */
	bool is_synced;
};

/* --- --kube-api-qps ------------------------------------------------------- */

static uint64_t on_admit(void *arg)
{
	struct kube *k = arg;
	uint64_t each_ns = (uint64_t)((double)NSEC_PER_SEC / MAX(k->qps, QPS_MIN));

	return k->qps < 0 ? 0 : bucket_take(&k->bucket_ns, each_ns, k->burst, now_ns());
}

/* --- the gate ------------------------------------------------------------- */

static void open_gate(struct kube *k)
{
	const char *warning = kube_server_warning(k);

	if (warning != NULL)
		log_warn(LOG_AREA_SOURCE, "api: %s: %s", kube_status(k).server, warning);
	(void)event_del(k->gate);
	k->is_synced = true;
	k->callbacks.synced(k->callbacks.arg);
}

static void on_gate(evutil_socket_t fd, short what, void *arg)
{
	struct kube *k = arg;

	for (size_t i = 0; i < k->n; i++)
		if (!reflector_is_complete(k->reflectors[i]))
			log_warn(LOG_AREA_SOURCE, "api: %s: not synced; continuing without it",
				 kube_resource(reflector_ledger(k->reflectors[i])->kind)->name);
	open_gate(k);
}

/* With a cloud provider, a controller assigns the addresses of a new Node. */
static bool lacks_addresses(const struct node *self)
{
	return self != NULL && self->addrs.n == 0;
}

/* A complete list: also one without this Node, but not one with a Node that cannot be read. */
static bool is_node_known(const struct kube *k)
{
	const struct reflector *r;

	if (k->n <= WHICH_NODE)
		return true;
	r = k->reflectors[WHICH_NODE];
	return reflector_is_complete(r) && ledger_is_complete(reflector_ledger(r), NULL) &&
	       !lacks_addresses(k->model->self);
}

/* Returns whether the environment has changed. */
static bool awaited_follow(struct kube *k)
{
	bool has_cidrs = reflector_is_complete(k->reflectors[WHICH_CIDRS]);
	bool is_node_new;

	/* Node ports that are open stay open: a Node that is created later may lack addresses. */
	k->was_node_known |= is_node_known(k);
	is_node_new = model_await_node(k->model, !k->was_node_known, now_ns());
	return model_await_service_cidrs(k->model, !has_cidrs, now_ns()) || is_node_new;
}

static void on_listed(void *arg)
{
	struct kube *k = arg;
	bool is_all = true;

	if (awaited_follow(k) && k->is_synced)
		k->callbacks.changed(k->callbacks.arg);
	if (k->is_synced || !reflector_is_complete(k->reflectors[WHICH_SERVICES]) ||
	    !reflector_is_complete(k->reflectors[WHICH_SLICES]))
		return;
	for (size_t i = 0; i < k->n; i++)
		is_all &= reflector_is_complete(k->reflectors[i]);
	if (is_all)
		open_gate(k);
	else if (!event_pending(k->gate, EV_TIMEOUT, NULL))
		event_after(k->gate, k->timing->others_ns);
}

/* IN-11: one pause, not one for each kind, after the server was away. */
static void on_answered(void *arg)
{
	struct kube *k = arg;

	for (size_t i = 0; i < k->n; i++)
		reflector_server_is_back(k->reflectors[i]);
}

static void on_moved(evutil_socket_t fd, short what, void *arg)
{
	struct kube *k = arg;

	transport_leave(k->transport);
	for (size_t i = 0; i < k->n; i++)
		reflector_other_servers(k->reflectors[i]);
}

static void on_changed(void *arg)
{
	struct kube *k = arg;

	(void)awaited_follow(k);
	k->callbacks.changed(k->callbacks.arg);
}

/* --- Events --------------------------------------------------------------- */

/* All, beginning with the one that was put off last time. */
static void rejections_add(struct kube *k, struct events *e)
{
	AUTO(vec_fini) VEC(struct kube_problem) all = { 0 };
	size_t first = k->first_rejection;

	for (size_t i = 0; i < k->n; i++) {
		const struct ledger *l = reflector_ledger(k->reflectors[i]);

		vec_for_each (it, &l->remarks) {
			const struct ledger_key *rm = *it;
			struct kube_problem p = { l->kind, name_text(rm->ns), name_text(rm->name),
						  "InvalidObject", rm->text };

			if (rm->is_rejected)
				*vec_push(&all) = p;
		}
	}
	for (size_t i = 0; i < all.n; i++) {
		k->first_rejection = (first + i) % all.n;
		if (!kube_problem_add(e, &all.v[k->first_rejection]))
			return;
	}
	k->first_rejection = 0;
}

/*
 * The first problems may use up the rate of Events, so the order alternates: after every second
 * collection, because the callback alternates its own order with each call.
 */
static void on_collect(void *arg, struct events *e)
{
	struct kube *k = arg;
	bool are_rejections_first = (k->n_collections++ & 2) != 0;

	if (are_rejections_first)
		rejections_add(k, e);
	if (k->callbacks.problems != NULL)
		k->callbacks.problems(k->callbacks.arg, e);
	if (!are_rejections_first)
		rejections_add(k, e);
}

/* --- life ----------------------------------------------------------------- */

static void reflectors_open(struct kube *k, struct event_base *base, struct model *m, bool is_json)
{
	static const enum object_kind kinds[WHICH_N] = {
		[WHICH_SERVICES] = OBJECT_KIND_SERVICE,
		[WHICH_SLICES] = OBJECT_KIND_SLICE,
		[WHICH_CIDRS] = OBJECT_KIND_SERVICE_CIDR,
		[WHICH_NODE] = OBJECT_KIND_NODE,
	};
	bool has_node = m->config.node_name != NULL && m->config.node_name->len > 0;
	struct reflector_config config = {
		.base = base,
		.transport = k->transport,
		.access = k->access,
		.model = m,
		.timing = k->timing,
		.is_json_only = is_json,
		.admit = on_admit,
		.answered = on_answered,
		.listed = on_listed,
		.changed = on_changed,
		.arg = k,
	};

	(void)model_await_node(m, has_node, now_ns());
	for (; k->n < (has_node ? WHICH_N : WHICH_NODE); k->n++) {
		config.kind = kinds[k->n];
		reflector_open(&k->reflectors[k->n], &config);
	}
}

int kube_open(struct kube **ret, struct event_base *base, struct model *m,
	      const struct kube_config *config, const struct kube_callbacks *callbacks,
	      struct err *err)
{
	AUTO(kube_close) struct kube *k = xcalloc(1, sizeof(*k));
	int r;

	k->model = m;
	k->timing = &config->timing;
	k->callbacks = *callbacks;
	k->qps = config->qps != 0 ? config->qps : QPS_DEFAULT;
	k->burst = (uint64_t)(config->burst != 0 ? config->burst : BURST_DEFAULT);
	k->gate = xtimer_new(base, on_gate, k);
	k->moved = xtimer_new(base, on_moved, k);
	r = access_open(&k->access, base, config, k->moved, err);
	if (r == 0)
		r = transport_open(&k->transport, base, k->access, k->timing, err);
	if (r < 0)
		return err_wrap(err, r, "API server");
	reflectors_open(k, base, m, config->is_json);
	if (k->timing->events_ns != 0)
		events_open(&k->events,
			    &(struct events_config){ .base = base,
						     .transport = k->transport,
						     .node = name_text(m->config.node_name),
						     .timing = k->timing,
						     .collect = on_collect,
						     .arg = k });
	*ret = TAKE(k);
	return 0;
}

void kube_close(struct kube *k)
{
	if (k == NULL)
		return;
	for (size_t i = 0; i < k->n; i++)
		reflector_close(k->reflectors[i]);
	events_close(k->events);
	transport_close(k->transport);
	access_close(k->access);
	event_drop(k->gate);
	event_drop(k->moved);
	free(k);
}

void kube_read_again(struct kube *k)
{
	access_read_again(k->access);
	for (size_t i = 0; i < k->n; i++)
		reflector_hurry(k->reflectors[i]);
	if (k->events != NULL)
		events_hurry(k->events);
}

/* --- status --------------------------------------------------------------- */

struct kube_status kube_status(const struct kube *k)
{
	return transport_status(k->transport);
}

const char *kube_server_warning(const struct kube *k)
{
	const struct svc *svc = model_find_text(k->model, "default", "kubernetes");
	struct ip_addr addr;

	if (svc == NULL || svc->service == NULL ||
	    handle_server_ip(&addr, kube_status(k).server) < 0 ||
	    !ip_addr_is_equal(&svc->service->cluster_ip[ip_fam(&addr)], &addr))
		return NULL;
	return "address is a cluster IP, which vipd itself serves: vipd cannot start after a "
	       "reboot; set an address of the control plane (--master or kubeconfig)";
}

bool kube_is_complete(const struct kube *k, struct str *why)
{
	for (size_t i = 0; i < k->n; i++)
		if (i != WHICH_CIDRS &&
		    !ledger_is_complete(reflector_ledger(k->reflectors[i]), why))
			return false;
	if (!is_node_known(k) && why != NULL)
		str_puts(why, lacks_addresses(k->model->self) ? "Node: no addresses yet"
							      : "Node: not received");
	return is_node_known(k);
}

bool kube_reflector_status(const struct kube *k, size_t i, struct kube_reflector_status *ret)
{
	if (i >= k->n)
		return false;
	reflector_status(k->reflectors[i], ret);
	return true;
}
