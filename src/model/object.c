/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/object - life, order and equality of the objects.
 *
 * Names and hints are interned, so equality is mostly a comparison of pointers.
 * Sort orders depend on contents, never on pointers: they are visible in output
 * and must be the same in every run.
 */
#include "model/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/tuning.h"

static struct htable places;

/* --- references ---------------------------------------------------------- */

#define STARTS_AS_HEAD(type)                                                               \
	_Static_assert(offsetof(type, name) == offsetof(struct object_head, name) &&       \
			       offsetof(type, refs) == offsetof(struct object_head, refs), \
		       "release() and struct object")
STARTS_AS_HEAD(struct service);
STARTS_AS_HEAD(struct slice);
STARTS_AS_HEAD(struct node);
STARTS_AS_HEAD(struct service_cidr);

struct object object_open(enum object_kind kind)
{
	static const size_t sizes[] = {
		[OBJECT_KIND_SERVICE] = sizeof(struct service),
		[OBJECT_KIND_SLICE] = sizeof(struct slice),
		[OBJECT_KIND_NODE] = sizeof(struct node),
		[OBJECT_KIND_SERVICE_CIDR] = sizeof(struct service_cidr),
	};
	struct object o = { .kind = kind };

	assert(kind < ARRAY_SIZE(sizes) && sizes[kind] > 0);
	o.head = xcalloc(1, sizes[kind]);
	o.head->refs = 1;
	return o;
}

struct object object_ref(const struct object *o)
{
	o->head->refs++;
	return *o;
}

/* Release a reference. True: it was the last one; the names are released, too. */
static bool release(void *object)
{
	struct object_head *head = object;

	if (head == NULL || --head->refs > 0)
		return false;
	name_pair_unref(head->ns, head->name);
	return true;
}

/* --- order ---------------------------------------------------------------- */

static int ingress_cmp(const void *va, const void *vb)
{
	const struct service_ingress *a = va;
	const struct service_ingress *b = vb;

	return ip_addr_cmp(&a->addr, &b->addr) ?: CMP(a->is_proxy_mode, b->is_proxy_mode);
}

static int slice_port_cmp(const void *va, const void *vb)
{
	const struct slice_port *a = va;
	const struct slice_port *b = vb;

	return name_cmp(a->name, b->name) ?: CMP(a->proto, b->proto) ?: CMP(a->port, b->port);
}

/* --- service -------------------------------------------------------------- */

void service_close(struct service *s)
{
	if (!release(s))
		return;
	vec_for_each (p, &s->ports)
		name_unref(p->name);
	vec_fini(&s->ports);
	vec_fini(&s->external_ips);
	vec_fini(&s->ingress);
	vec_fini(&s->source_ranges);
	if (s->tuning != NULL) {
		name_unref(s->tuning->scheduler);
		name_unref(s->tuning->weights);
		name_unref(s->tuning->drain_timeout);
		name_unref(s->tuning->forwarding);
		weights_close(s->tuning->by_name);
		free(s->tuning->weights_error);
		free(s->tuning);
	}
	free(s);
}

static void weights_read(struct service_tuning *t)
{
	struct err err;

	if (t->weights == NULL || t->by_name != NULL || t->weights_error != NULL)
		return;
	if (weights_parse(&t->by_name, t->weights->text, &err) < 0)
		t->weights_error = xstrdup(err.text);
}

/* Ports keep their order: messages and the plan's rows refer to their index. */
void service_normalise(struct service *s)
{
	if (s->tuning != NULL)
		weights_read(s->tuning);
	vec_sort(&s->external_ips, ip_addr_cmp);
	vec_sort(&s->ingress, ingress_cmp);
	vec_sort(&s->source_ranges, ip_prefix_cmp);
	vec_fit(&s->ports);
	vec_fit(&s->external_ips);
	vec_fit(&s->ingress);
	vec_fit(&s->source_ranges);
}

static bool tunings_are_equal(const struct service_tuning *a, const struct service_tuning *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a->scheduler == b->scheduler && a->is_kube_router == b->is_kube_router &&
	       a->weights == b->weights && a->drain_timeout == b->drain_timeout &&
	       a->forwarding == b->forwarding && a->is_dsr == b->is_dsr;
}

bool service_is_equal(const struct service *a, const struct service *b)
{
	return a->ns == b->ns && a->name == b->name && a->created_s == b->created_s &&
	       a->type == b->type && a->is_headless == b->is_headless &&
	       a->has_proxy_name_label == b->has_proxy_name_label &&
	       a->is_itp_local == b->is_itp_local && a->is_etp_local == b->is_etp_local &&
	       a->affinity_s == b->affinity_s &&
	       a->health_check_node_port == b->health_check_node_port &&
	       a->n_bad_source_ranges == b->n_bad_source_ranges &&
	       a->n_left_out_addrs == b->n_left_out_addrs &&
	       memcmp(a->cluster_ip, b->cluster_ip, sizeof(a->cluster_ip)) == 0 &&
	       vec_is_equal(&a->ports, &b->ports) && tunings_are_equal(a->tuning, b->tuning) &&
	       vec_is_equal(&a->external_ips, &b->external_ips) &&
	       vec_is_equal(&a->ingress, &b->ingress) &&
	       vec_is_equal(&a->source_ranges, &b->source_ranges);
}

/* --- slice ---------------------------------------------------------------- */

void slice_close(struct slice *s)
{
	if (!release(s))
		return;
	vec_for_each (p, &s->ports)
		name_unref(p->name);
	vec_for_each (e, &s->endpoints) {
		if (s->pods == NULL)
			free(e->pod);
		slice_place_unref(e->place);
	}
	vec_fini(&s->ports);
	vec_fini(&s->endpoints);
	free(s->pods);
	name_unref(s->service);
	free(s);
}

static int hints_cmp(const struct hints *a, const struct hints *b)
{
	for (size_t i = 0; i < MIN(a->n, b->n); i++) {
		int r = name_cmp(a->names[i], b->names[i]);

		if (r != 0)
			return r;
	}
	return CMP(a->n, b->n);
}

static int slice_place_cmp(const struct slice_place *a, const struct slice_place *b)
{
	if (a == b)
		return 0;
	return name_cmp(a->node, b->node) ?: name_cmp(a->zone, b->zone) ?:
	       hints_cmp(&a->zones, &b->zones) ?: hints_cmp(&a->nodes, &b->nodes);
}

/* 0 is best: ready, then serving, then not terminating (EPS-21). */
static int worth(uint8_t flags)
{
	return (flags & ENDPOINT_READY ? 0 : 4) + (flags & ENDPOINT_SERVING ? 0 : 2) +
	       (flags & ENDPOINT_TERMINATING ? 1 : 0);
}

int slice_endpoint_cmp(const void *va, const void *vb)
{
	const struct slice_endpoint *a = va;
	const struct slice_endpoint *b = vb;

	return ip_addr_cmp(&a->addr, &b->addr) ?: worth(a->flags) - worth(b->flags) ?:
	       strcmp(a->pod ?: "", b->pod ?: "") ?: slice_place_cmp(a->place, b->place);
}

/* One block for all names instead of one for each: saves 10 MB at 250,000 endpoints. */
static void pack_pods(struct slice *s)
{
	size_t len = 0;
	char *to;

	vec_for_each (e, &s->endpoints)
		len += e->pod != NULL ? strlen(e->pod) + 1 : 0;
	if (len == 0 || s->pods != NULL)
		return;
	to = s->pods = xmalloc(len);
	vec_for_each (e, &s->endpoints) {
		char *pod = e->pod;

		if (pod == NULL)
			continue;
		e->pod = to;
		to = stpcpy(to, pod) + 1;
		free(pod);
	}
}

static int number_cmp(const void *a, const void *b)
{
	return CMP(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* What comes before its protocol and number in the order by number. */
static uint64_t number_key(uint8_t proto, uint16_t port)
{
	return (uint64_t)proto << 48 | (uint64_t)port << 32;
}

static void ports_index(struct slice *s)
{
	AUTO(vec_fini) VEC(uint64_t) keys = { 0 };

	vec_reserve(&keys, s->ports.n);
	for (size_t i = 0; i < s->ports.n; i++)
		*vec_push(&keys) = number_key(s->ports.v[i].proto, s->ports.v[i].port) | i;
	vec_sort(&keys, number_cmp);
	for (size_t i = 0; i < keys.n; i++)
		s->ports.v[i].by_number = (uint32_t)keys.v[i];
}

void slice_normalise(struct slice *s)
{
	vec_sort(&s->ports, slice_port_cmp);
	ports_index(s);
	vec_sort(&s->endpoints, slice_endpoint_cmp);
	vec_fit(&s->ports);
	vec_fit(&s->endpoints);
	pack_pods(s);
}

const struct slice_port *slice_port_find(const struct slice *s, const struct name *name,
					 uint8_t proto)
{
	const struct slice_port key = { .name = name, .proto = proto };
	size_t lo = bisect(s->ports.n, i, slice_port_cmp(&s->ports.v[i], &key) < 0);

	if (lo == s->ports.n || s->ports.v[lo].name != name || s->ports.v[lo].proto != proto)
		return NULL;
	return &s->ports.v[lo];
}

static const struct slice_port *port_by_number(const struct slice *s, size_t i)
{
	return &s->ports.v[s->ports.v[i].by_number];
}

static bool is_number_before(const struct slice *s, size_t i, uint64_t key, uint64_t *work)
{
	const struct slice_port *p = port_by_number(s, i);

	++*work;
	return number_key(p->proto, p->port) < key;
}

const struct slice_port *slice_port_at(const struct slice *s, uint8_t proto, uint16_t port,
				       size_t i, uint64_t *work)
{
	uint64_t key = number_key(proto, port);
	const struct slice_port *p;

	i += bisect(s->ports.n, k, is_number_before(s, k, key, work));
	p = i < s->ports.n ? port_by_number(s, i) : NULL;
	return p != NULL && p->proto == proto && p->port == port ? p : NULL;
}

bool slice_ports_are_equal(const struct slice *a, const struct slice *b)
{
	return a->fam == b->fam && vec_is_equal(&a->ports, &b->ports);
}

bool slice_is_equal(const struct slice *a, const struct slice *b)
{
	if (a->ns != b->ns || a->name != b->name || a->service != b->service ||
	    !slice_ports_are_equal(a, b) || a->endpoints.n != b->endpoints.n)
		return false;
	for (size_t i = 0; i < a->endpoints.n; i++)
		if (slice_endpoint_cmp(&a->endpoints.v[i], &b->endpoints.v[i]) != 0)
			return false;
	return true;
}

static int addr_cmp(const struct slice *s, size_t i, const struct ip_addr *a, uint64_t *work)
{
	++*work;
	return ip_addr_cmp(&s->endpoints.v[i].addr, a);
}

bool slices_overlap(const struct slice *a, const struct slice *b, uint64_t *work)
{
	const struct slice *few = a->endpoints.n < b->endpoints.n ? a : b;
	const struct slice *many = few == a ? b : a;
	size_t n = many->endpoints.n;
	size_t i = 0;
	int c = 0;

	vec_for_each (e, &few->endpoints) {
		if (few->endpoints.n < n / 16) /* searches need fewer comparisons than a walk */
			i += bisect(n - i, k, addr_cmp(many, i + k, &e->addr, work) < 0);
		while (i < n && (c = addr_cmp(many, i, &e->addr, work)) < 0)
			i++;
		if (i < n && c == 0)
			return true;
	}
	return false;
}

/* --- node and service CIDR ------------------------------------------------ */

void node_close(struct node *n)
{
	if (!release(n))
		return;
	vec_fini(&n->addrs);
	vec_fini(&n->pod_cidrs);
	name_unref(n->zone);
	free(n);
}

/* The order of addresses matters: the first of a family is the node's (LIFE-12). */
void node_normalise(struct node *n)
{
	vec_sort(&n->pod_cidrs, ip_prefix_cmp);
}

bool node_is_equal(const struct node *a, const struct node *b)
{
	return a->name == b->name && a->zone == b->zone && a->is_deleting == b->is_deleting &&
	       a->has_autoscaler_taint == b->has_autoscaler_taint &&
	       vec_is_equal(&a->addrs, &b->addrs) && vec_is_equal(&a->pod_cidrs, &b->pod_cidrs);
}

void service_cidr_close(struct service_cidr *c)
{
	if (!release(c))
		return;
	vec_fini(&c->cidrs);
	free(c);
}

/* --- any of them --- */

void object_fini(struct object *o)
{
	switch (o->kind) {
	case OBJECT_KIND_SERVICE:
		service_close(o->service);
		break;
	case OBJECT_KIND_SLICE:
		slice_close(o->slice);
		break;
	case OBJECT_KIND_NODE:
		node_close(o->node);
		break;
	case OBJECT_KIND_SERVICE_CIDR:
		service_cidr_close(o->cidr);
		break;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	*o = (struct object){ 0 };
}

/* --- places --------------------------------------------------------------- */

static int hint_name_cmp(const void *a, const void *b)
{
	return name_cmp(*(const struct name *const *)a, *(const struct name *const *)b);
}

static struct hints hints_sorted(struct hints h)
{
	uint32_t n = 0;

	if (h.n > 1)
		qsort(h.names, h.n, sizeof(*h.names), hint_name_cmp);
	for (uint32_t i = 0; i < h.n; i++) {
		if (n > 0 && h.names[n - 1] == h.names[i])
			name_unref(h.names[i]);
		else
			h.names[n++] = h.names[i];
	}
	h.n = n;
	return h;
}

/* The names have keyed hashes already. */
static uint32_t hints_hash(uint32_t hash, const struct hints *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		hash = hash * UINT32_C(0x9e3779b1) + h->names[i]->node.hash;
	return hash + h->n;
}

static void hints_release(const struct hints *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		name_unref(h->names[i]);
}

/* Move the names of `h` to `to`. Returns the end of them. */
static const struct name **hints_move(struct hints *ret, struct hints h, const struct name **to)
{
	*ret = (struct hints){ to, h.n };
	for (uint32_t i = 0; i < h.n; i++)
		*to++ = h.names[i];
	return to;
}

struct slice_place *slice_place_make(const struct name *node, const struct name *zone,
				     struct hints zones, struct hints nodes)
{
	struct slice_place like = { .refs = 1, .node = node, .zone = zone };
	struct slice_place *p;
	uint32_t hash;

	like.zones = hints_sorted(zones);
	like.nodes = hints_sorted(nodes);
	hash = hints_hash(hints_hash(name_pair_hash(node, zone), &like.zones), &like.nodes);
	htable_for_each_hash (n, &places, hash) {
		p = container_of(n, struct slice_place, hnode);
		if (slice_place_cmp(p, &like) != 0)
			continue;
		name_unref(node);
		name_unref(zone);
		hints_release(&like.zones);
		hints_release(&like.nodes);
		return slice_place_ref(p);
	}
	p = xmalloc(sizeof(*p) + (like.zones.n + like.nodes.n) * sizeof(*p->names));
	*p = like;
	(void)hints_move(&p->nodes, like.nodes, hints_move(&p->zones, like.zones, p->names));
	htable_insert(&places, &p->hnode, hash);
	return p;
}

struct slice_place *slice_place_ref(struct slice_place *p)
{
	p->refs++;
	return p;
}

void slice_place_unref(struct slice_place *p)
{
	if (p == NULL || --p->refs > 0)
		return;
	htable_remove(&places, &p->hnode);
	if (places.count == 0)
		htable_fini(&places);
	name_unref(p->node);
	name_unref(p->zone);
	hints_release(&p->zones);
	hints_release(&p->nodes);
	free(p);
}

bool hints_contain(const struct hints *h, const struct name *n)
{
	return array_has(h->names, h->n, name, *name == n);
}

/* --- text ------------------------------------------------------------------ */

const char *service_type_text(enum service_type t)
{
	static const char *const texts[] = {
		[SERVICE_TYPE_UNSET] = "-",
		[SERVICE_TYPE_CLUSTERIP] = "ClusterIP",
		[SERVICE_TYPE_NODEPORT] = "NodePort",
		[SERVICE_TYPE_LOADBALANCER] = "LoadBalancer",
		[SERVICE_TYPE_EXTERNALNAME] = "ExternalName",
	};

	return texts[t];
}
