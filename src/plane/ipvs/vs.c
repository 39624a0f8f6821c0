/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/vs - virtual services and their destinations, as held and as wanted. */
#include <assert.h>
#include <errno.h>
#include <linux/ip_vs.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/name.h"
#include "plane/ipvs/state.h"

uint32_t ipvs_now_s(const struct ipvs_plane *p)
{
	struct timespec ts;

	if (p->config.now_s != NULL)
		return p->config.now_s();
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint32_t)ts.tv_sec + 1;
}

struct ipvs_key ipvs_key_mark(enum ipfam fam, uint32_t mark)
{
	struct ipvs_key k;

	memset(&k, 0, sizeof(k)); /* hashed and compared as bytes */
	k.fam = (uint8_t)fam;
	k.mark = mark;
	return k;
}

struct ipvs_key ipvs_key_vip(const struct ip_addr *addr, uint8_t proto, uint16_t port)
{
	struct ipvs_key k;

	memset(&k, 0, sizeof(k));
	k.fam = (uint8_t)ip_fam(addr);
	k.proto = proto;
	k.port = port;
	k.addr = *addr;
	return k;
}

static struct ipvs_key key_clean(const struct ipvs_key *k)
{
	return k->mark != 0 ? ipvs_key_mark(k->fam, k->mark)
			    : ipvs_key_vip(&k->addr, k->proto, k->port);
}

struct ipvs_vs *ipvs_vs_find(const struct ipvs_plane *p, const struct ipvs_key *key)
{
	htable_for_each_hash (n, &p->vss, hash_bytes(key, sizeof(*key))) {
		struct ipvs_vs *vs = container_of(n, struct ipvs_vs, node);

		if (memcmp(&vs->key, key, sizeof(*key)) == 0)
			return vs;
	}
	return NULL;
}

struct ipvs_vs *ipvs_vs_get(struct ipvs_plane *p, const struct ipvs_key *key)
{
	struct ipvs_vs *vs = ipvs_vs_find(p, key);

	if (vs != NULL)
		return vs;
	vs = xcalloc(1, sizeof(*vs));
	vs->key = *key;
	vs->proto = key->proto;
	vs->drain_s = p->config.drain_s;
	list_init(&vs->leaving);
	list_init(&vs->sibling);
	list_init(&vs->classics);
	htable_insert(&p->vss, &vs->node, hash_bytes(key, sizeof(*key)));
	return vs;
}

void ipvs_vs_free(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	list_for_each_safe (l, tmp, &vs->classics) {
		list_entry(l, struct ipvs_vs, sibling)->pool = NULL;
		list_del(l);
	}
	list_del(&vs->sibling);
	list_del(&vs->leaving);
	htable_remove(&p->vss, &vs->node);
	name_unref(vs->ns);
	name_unref(vs->name);
	vec_fini(&vs->dests);
	free(vs);
}

void ipvs_vss_clear(struct ipvs_plane *p)
{
	htable_for_each_safe (n, tmp, &p->vss)
		ipvs_vs_free(p, container_of(n, struct ipvs_vs, node));
	htable_fini(&p->vss);
	p->vss = (struct htable){ 0 };
}

/* --- destinations --- */

static int dst_cmp(const struct ipvs_dst *d, const struct ip_addr *addr, uint16_t port)
{
	int c = ip_addr_cmp(&d->addr, addr);

	return c != 0 ? c : (d->port > port) - (d->port < port);
}

/* Where it stands, or should. */
static size_t dst_place(const struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port)
{
	size_t lo = 0;
	size_t hi = vs->dests.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (dst_cmp(&vs->dests.v[mid], addr, port) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct ipvs_dst *ipvs_dst_find(const struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port)
{
	size_t i = dst_place(vs, addr, port);

	return i < vs->dests.n && dst_cmp(&vs->dests.v[i], addr, port) == 0 ? &vs->dests.v[i]
									    : NULL;
}

struct ipvs_dst *ipvs_dst_get(struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port)
{
	size_t i = dst_place(vs, addr, port);

	if (i < vs->dests.n && dst_cmp(&vs->dests.v[i], addr, port) == 0)
		return &vs->dests.v[i];
	(void)vec_push(&vs->dests);
	memmove(&vs->dests.v[i + 1], &vs->dests.v[i],
		(vs->dests.n - 1 - i) * sizeof(vs->dests.v[0]));
	vs->dests.v[i] = (struct ipvs_dst){ .addr = *addr, .port = port, .want_weight = 1 };
	return &vs->dests.v[i];
}

/* --- reading --- */

bool ipvs_is_ours(const struct ipvs_plane *p, const struct ipvs_service *s)
{
	if (s->key.mark != 0)
		return (s->key.mark & IPVS_MARK_TAG) == p->marks.tag;
	if (!(s->flags & IPVS_FLAG_OURS))
		return false;
	for (size_t i = 0; i < p->config.n_exclude; i++)
		if (ip_prefix_contains(&p->config.exclude[i], &s->key.addr))
			return false;
	return true;
}

struct service_list {
	VEC(struct ipvs_service) v;
};

static void services_begin(void *arg)
{
	struct service_list *l = arg;

	vec_clear(&l->v);
}

static void service_found(void *arg, const struct ipvs_service *s)
{
	struct service_list *l = arg;

	*vec_push(&l->v) = *s;
}

static void vs_held(struct ipvs_vs *vs, const struct ipvs_service *s)
{
	vs->is_held = true;
	vs->held_sched = ipvs_sched_no(s->sched);
	vs->held_flags = s->flags & ~IPVS_FLAG_HASHED;
	vs->held_timeout_s = s->timeout_s;
}

static void dests_begin(void *arg)
{
	struct ipvs_vs *vs = arg;

	vec_for_each (d, &vs->dests)
		d->flags &= (uint8_t) ~(DST_HELD | DST_ODD);
}

static void dest_found(void *arg, const struct ipvs_dest *found)
{
	struct ipvs_vs *vs = arg;
	struct ipvs_dst *d = ipvs_dst_get(vs, &found->addr, found->port);
	bool is_draining;

	d->flags |= DST_HELD | DST_LOOKED;
	d->weight = (uint16_t)MIN(found->weight, (uint32_t)IPVS_WEIGHT_MAX);
	is_draining = found->weight == 0 && found->l_thresh != 0;
	if (found->fwd != 0 || (!is_draining && (found->u_thresh != 0 || found->l_thresh != 0)))
		d->flags |= DST_ODD;
	d->since_s = is_draining ? found->l_thresh : 0;
	d->deadline_s = is_draining && found->u_thresh < IPVS_THRESH_NONE ? found->u_thresh : 0;
	d->active = found->active;
	d->inactive = found->inactive;
}

/* What nobody has, or wants, is no entry. */
static void dests_tidy(struct ipvs_vs *vs)
{
	size_t kept = 0;

	for (size_t i = 0; i < vs->dests.n; i++) {
		struct ipvs_dst *d = &vs->dests.v[i];

		if (!(d->flags & DST_HELD))
			d->flags &= (uint8_t)~DST_LEAVING;
		if (d->flags & (DST_HELD | DST_WANTED))
			vs->dests.v[kept++] = *d;
	}
	vs->dests.n = kept;
}

static int dests_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	int r = ipvs_wire_dests(p->wire, &vs->key, dests_begin, dest_found, vs, err);

	if (r == 0)
		dests_tidy(vs);
	return r;
}

int ipvs_vss_read(struct ipvs_plane *p, struct err *err)
{
	struct service_list l = { 0 };
	int r = ipvs_wire_services(p->wire, services_begin, service_found, &l, err);

	if (r == 0)
		ipvs_vss_clear(p);
	for (size_t i = 0; i < l.v.n && r == 0; i++) {
		struct ipvs_key key = key_clean(&l.v.v[i].key);
		struct ipvs_vs *vs;

		if (!ipvs_is_ours(p, &l.v.v[i]))
			continue;
		vs = ipvs_vs_get(p, &key);
		vs_held(vs, &l.v.v[i]);
		r = dests_read(p, vs, err);
	}
	vec_fini(&l.v);
	return r;
}

struct one {
	struct ipvs_vs *vs;
	bool is_found;
	bool is_foreign;
	const struct ipvs_plane *p;
};

static void one_found(void *arg, const struct ipvs_service *s)
{
	struct one *one = arg;

	one->is_found = true;
	one->is_foreign = !ipvs_is_ours(one->p, s);
	vs_held(one->vs, s);
}

int ipvs_vs_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	struct one one = { .vs = vs, .p = p };
	int r = ipvs_wire_service(p->wire, &vs->key, one_found, &one, err);

	if (r == -ESRCH)
		r = 0;
	if (r < 0)
		return r;
	vs->is_held = one.is_found && !one.is_foreign;
	vs->is_foreign = one.is_foreign;
	if (!vs->is_held) {
		dests_begin(vs);
		dests_tidy(vs);
		return 0;
	}
	return dests_read(p, vs, err);
}
