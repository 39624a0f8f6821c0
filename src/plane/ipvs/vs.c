/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/vs - virtual services and their destinations, programmed and desired. */
#include <errno.h>
#include <linux/ip_vs.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/name.h"
#include "model/select.h"
#include "plane/ipvs/state.h"

uint32_t ipvs_now_s(const struct ipvs_plane *p)
{
	struct timespec ts;

	if (p->config.now_s != NULL)
		return p->config.now_s();
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint32_t)ts.tv_sec + 1;
}

struct ipvs_vs *ipvs_vs_find(const struct ipvs_plane *p, struct ipvs_key key)
{
	return htable_find(&p->vss, hash_bytes(&key, sizeof(key)), struct ipvs_vs, vs,
			   memcmp(&vs->key, &key, sizeof(key)) == 0);
}

uint32_t ipvs_vs_forwarding(const struct ipvs_vs *vs)
{
	if (vs != NULL && vs->key.mark == 0)
		vec_for_each (d, &vs->dests)
			if (d->since_s == 0)
				return d->fwd;
	return FORWARDING_MASQUERADE;
}

struct ipvs_vs *ipvs_vs_get(struct ipvs_plane *p, struct ipvs_key key)
{
	struct ipvs_vs *vs = ipvs_vs_find(p, key);

	if (vs != NULL)
		return vs;
	vs = xcalloc(1, sizeof(*vs));
	vs->key = key;
	vs->proto = key.proto;
	vs->drain_s = p->config.drain_s;
	vs->n_lacking = UINT32_MAX;
	list_init(&vs->draining);
	list_init(&vs->touched);
	list_init(&vs->sibling);
	list_init(&vs->vip_services);
	htable_insert(&p->vss, &vs->node, hash_bytes(&key, sizeof(key)));
	return vs;
}

void ipvs_vs_free(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	list_for_each_entry_safe (vip, tmp, &vs->vip_services, struct ipvs_vs, sibling) {
		vip->desired.pool = NULL;
		list_del(&vip->sibling);
	}
	if (p->large.vs == vs)
		p->large.vs = NULL;
	list_del(&vs->sibling);
	list_del(&vs->draining);
	list_del(&vs->touched);
	htable_remove(&p->vss, &vs->node);
	name_pair_unref(vs->ns, vs->name);
	vec_fini(&vs->dests);
	free(vs);
}

void ipvs_vss_clear(struct ipvs_plane *p)
{
	htable_for_each_entry_safe (vs, tmp, &p->vss, struct ipvs_vs)
		ipvs_vs_free(p, vs);
	htable_fini(&p->vss);
}

/* --- destinations --- */

size_t ipvs_dst_place(const struct ipvs_vs *vs, const void *at)
{
	return bisect(vs->dests.n, i, ip_endpoint_cmp(&vs->dests.v[i], at) < 0);
}

struct ipvs_dst *ipvs_dst_find(const struct ipvs_vs *vs, const void *at)
{
	return vec_search(&vs->dests, at, ip_endpoint_cmp);
}

struct ipvs_dst *ipvs_dst_get(struct ipvs_vs *vs, const struct ip_addr *addr, uint16_t port)
{
	struct ipvs_dst new = { .addr = *addr, .port = port };
	size_t i = ipvs_dst_place(vs, &new);

	if (i < vs->dests.n && ip_endpoint_cmp(&vs->dests.v[i], &new) == 0)
		return &vs->dests.v[i];
	*vec_insert(&vs->dests, i) = new;
	return &vs->dests.v[i];
}

/* --- reading --- */

static bool ipvs_is_ours(const struct ipvs_plane *p, const struct ipvs_service *s)
{
	uint32_t tag = s->key.mark & IPVS_MARK_TAG;

	if (s->key.mark != 0)
		return tag == p->routing.marks.tag || tag + 1 == p->previous[IPVS_PREVIOUS_TAG];
	return s->flags & IPVS_FLAG_OURS;
}

bool ipvs_is_excluded(const struct ipvs_key *k, const struct ip_prefix *v, size_t n)
{
	return k->mark == 0 && array_has(v, n, p, ip_prefix_contains(p, &k->addr));
}

void ipvs_vs_programmed(struct ipvs_vs *vs, const struct ipvs_service *s)
{
	vs->is_programmed = true;
	vs->programmed_sched = scheduler_no(s->sched);
	vs->programmed_flags = s->flags & ~IP_VS_SVC_F_HASHED;
	vs->programmed_timeout_s = s->timeout_s;
}

/* `is_retiring`, by the table's rules: destinations drain with their weight. */
static void dst_programmed(struct ipvs_dst *d, const struct ipvs_dest *found, bool is_retiring)
{
	bool is_draining =
		found->l_thresh != 0 && found->u_thresh != 0 && (found->weight == 0 || is_retiring);

	d->flags |= DST_PROGRAMMED | DST_COUNTED;
	d->weight = (uint16_t)MIN(found->weight, (uint32_t)UINT16_MAX);
	d->fwd = found->fwd;
	if (!is_draining && (found->u_thresh != 0 || found->l_thresh != 0))
		d->flags |= DST_DIFFERS;
	if (is_draining || !(d->flags & DST_DRAINING)) { /* else a foreign weight */
		d->since_s = is_draining ? found->l_thresh : 0;
		d->deadline_s =
			is_draining && found->u_thresh < IPVS_THRESH_NONE ? found->u_thresh : 0;
	}
	d->active = found->active;
	d->inactive = found->inactive;
}

/*
 * Sort, and drop entries that are neither programmed nor desired. A dump can list a destination
 * twice.
 */
static void dests_tidy(struct ipvs_vs *vs, size_t n_known)
{
	if (vs->dests.n > n_known)
		vec_sort(&vs->dests, ip_endpoint_cmp);
	vec_for_each (d, &vs->dests)
		if (!(d->flags & DST_PROGRAMMED))
			d->flags &= (uint8_t)~DST_DRAINING;
	vec_keep(&vs->dests, d,
		 (d->flags & DST_PROGRAMMED || d->desired_weight != 0) &&
			 (d == vs->dests.v || ip_endpoint_cmp(d - 1, d) != 0));
}

/*
 * The kernel has the destinations `found`, and no others. Those with a flag in `kept` stay as they
 * are.
 */
static void dests_programmed(const struct ipvs_plane *p, struct ipvs_vs *vs,
			     const struct ipvs_dests *found, uint8_t kept)
{
	bool is_retiring = p->is_retiring || ipvs_layout_is_retiring(&p->layout);
	size_t n_known = vs->dests.n; /* sorted; new ones follow, in the kernel's order */
	uint32_t place = 0;

	vec_for_each (d, &vs->dests)
		if (!(d->flags & kept))
			d->flags &= (uint8_t) ~(DST_PROGRAMMED | DST_DIFFERS);
	vec_for_each (f, &found->v) {
		struct ipvs_dst *d =
			vec_bsearch(f, vs->dests.v, n_known, sizeof(*d), ip_endpoint_cmp);

		if (d != NULL && d->flags & kept)
			continue;
		if (d == NULL) {
			d = vec_push(&vs->dests);
			*d = (struct ipvs_dst){ .addr = f->addr, .port = f->port };
		}
		dst_programmed(d, f, is_retiring);
		d->place = place++;
	}
	dests_tidy(vs, n_known);
}

int ipvs_vss_list(struct ipvs_plane *p, struct ipvs_list *l, struct err *err)
{
	int r = ipvs_wire_services(p->wire, &l->all, err);

	l->at = 0;
	l->vs = NULL;
	if (r == 0)
		ipvs_vss_clear(p);
	return r;
}

/* Request the destinations of the next service, if it is vipd's. */
static int list_begin(struct ipvs_plane *p, struct ipvs_list *l, struct err *err)
{
	const struct ipvs_service *s = &l->all.v.v[l->at++];

	if (!ipvs_is_ours(p, s))
		return 0;
	l->vs = ipvs_vs_get(p, s->key);
	l->vs->is_kept = ipvs_is_excluded(&s->key, p->config.exclude, p->config.n_exclude);
	ipvs_vs_programmed(l->vs, s);
	vec_clear(&l->found.v);
	return ipvs_wire_dests_begin(p->wire, &s->key, &l->seq, err);
}

/* Read the next datagram; raises `n` by its destinations. */
static int list_next(struct ipvs_plane *p, struct ipvs_list *l, size_t *n, struct err *err)
{
	size_t before = l->found.v.n;
	int r = ipvs_wire_dests_next(p->wire, &l->vs->key, l->seq, &l->found, err);

	*n += l->found.v.n - before;
	if (r == 0) {
		struct ipvs_vs *vs = TAKE(l->vs);

		dests_programmed(p, vs, &l->found, 0);
		/* One whose destinations all drain is vipd's. */
		vs->is_kept &= vs->dests.n == 0 || vec_has(&vs->dests, d, d->since_s == 0);
	}
	return MIN(r, 0);
}

int ipvs_vss_read(struct ipvs_plane *p, struct ipvs_list *l, struct err *err)
{
	size_t n = 0;
	int r = 0;

	while (n < IPVS_READ_DESTS && r == 0 && (l->vs != NULL || l->at < l->all.v.n)) {
		n += l->vs == NULL;
		r = l->vs == NULL ? list_begin(p, l, err) : list_next(p, l, &n, err);
	}
	return r < 0 ? r : n > 0;
}

/* Read the service without its destinations. 1: vipd's. 0: the kernel has none of vipd's. */
static int service_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	struct ipvs_service s = { 0 };
	int r = ipvs_wire_service(p->wire, &vs->key, &s, err);

	if (r < 0 && r != -ESRCH)
		return r;
	if (r == 0)
		ipvs_vs_programmed(vs, &s);
	vs->is_foreign = r == 0 && !ipvs_is_ours(p, &s);
	vs->is_programmed = r == 0 && !vs->is_foreign;
	if (vs->is_programmed)
		return 1;
	dests_programmed(p, vs, &(struct ipvs_dests){ 0 }, 0);
	return 0;
}

/* If it fails, the acknowledged state stays. */
static int dests_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	AUTO(vec_fini) struct ipvs_dests found = { 0 };
	int r = ipvs_wire_dests(p->wire, &vs->key, &found, err);

	if (r == 0)
		dests_programmed(p, vs, &found, 0);
	return r;
}

int ipvs_vs_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	int r = service_read(p, vs, err);

	return r > 0 ? dests_read(p, vs, err) : r;
}

int ipvs_dests_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	if (ipvs_vs_is_large(vs))
		return ipvs_large_read(p, vs, err);
	/* By address: another process may have replaced it. */
	return vs->key.mark == 0 ? ipvs_vs_read(p, vs, err) : dests_read(p, vs, err);
}

/* --- large services --- */

#define LARGE_RESTARTS 3

/*
 * An operation takes twice as long as an element of nf_tables, and IPVS searches its list of
 * destinations for each operation: so many destinations add the time of one element.
 */
#define DESTS_OF_WORK 1000
/* For each of them the kernel fills the 4,093 slots of `mh` again: 0.1 to 0.4 ms. */
#define MH_WORK 40

struct ipvs_vs *ipvs_vs_of_pool(const struct ipvs_plane *p, const struct plan_pool *pool)
{
	return ipvs_vs_by_mark(p, pool->fam,
			       ipvs_mark_pool(&p->routing.marks, pool->id, pool->scope));
}

static bool has_mh(const struct ipvs_vs *vs)
{
	return vs != NULL && vs->is_programmed && vs->programmed_sched == scheduler_no("mh");
}

size_t ipvs_dests_work(const struct ipvs_vs *vs, size_t n)
{
	return 2 + n / DESTS_OF_WORK + (has_mh(vs) ? MH_WORK : 0);
}

/*
 * Does the service get `mh`? By its settings; for a deleted service by its virtual service, which
 * does not change before the deletion is committed.
 */
static bool gets_mh(const struct ipvs_plane *p, const struct svc *svc)
{
	const struct service *s = svc->service;
	const struct plan_rows *rows = svc->rows;
	const struct ipvs_vs *vs = s == NULL && rows != NULL && rows->pools.n > 0
					   ? ipvs_vs_of_pool(p, &rows->pools.v[0])
					   : NULL;
	struct scheduler sched = vs != NULL ? vs->desired.sched : ipvs_sched_of(s, p->sched);

	/* With both, IPVS has a service by mark, which gets mh (ipvs_sched_in_force()). */
	return sched.no == scheduler_no("mh") ||
	       (s != NULL && s->affinity_s != 0 && service_is_etp_local(s));
}

/* Work of adding a destination: IPVS also searches those that were deleted recently. */
static size_t addition_work(const struct ipvs_plane *p, const struct ipvs_vs *vs, bool is_mh)
{
	size_t n = (vs != NULL ? vs->dests.n : 0) + p->n_deleted[0] + p->n_deleted[1];

	return ipvs_dests_work(vs, n) + (is_mh && !has_mh(vs) ? MH_WORK : 0);
}

size_t ipvs_backend_work(const struct plane *plane, const struct svc *svc,
			 const struct plan_pool *pool, const struct plan_frontend *leading,
			 size_t n_leading)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	const struct ipvs_vs *vs = pool != NULL ? ipvs_vs_of_pool(p, pool) : NULL;
	bool is_mh = gets_mh(p, svc);
	bool is_by_mark;
	size_t by_vip = 0;
	size_t work;

	if (pool == NULL)
		return is_mh ? MH_WORK : 1;
	is_mh &= pool->backends.n <= IPVS_MH_DESTS_MAX;
	is_by_mark = pool->affinity_s == 0 || (vs != NULL && !vs->desired.is_vip_only);
	if (vs != NULL)
		list_for_each_entry (vip, &vs->vip_services, struct ipvs_vs, sibling)
			by_vip += addition_work(p, vip, is_mh);
	if (pool->affinity_s != 0 && leading != NULL && by_vip == 0) {
		struct ipvs_key vip = ipvs_key_vip(&leading->addr, leading->proto, leading->port);

		/* As of that one, which may still have draining backends. */
		by_vip = n_leading * addition_work(p, ipvs_vs_find(p, vip), is_mh);
	}
	work = by_vip + (is_by_mark ? addition_work(p, vs, is_mh) : 0);
	/* Other operations of the loaded phase only compare. */
	if (vs != NULL && p->common.loaded != NULL &&
	    (uint64_t)vs->n_lacking * work <= PLANE_PIECE_WORK)
		return 1;
	return MAX(work, (size_t)1);
}

static int large_begin(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	struct ipvs_large *l = &p->large;
	int r = ipvs_wire_resolve(l->wire, err);

	if (r == 0)
		r = service_read(p, vs, err);
	if (r <= 0)
		return r;
	r = ipvs_wire_dests_begin(l->wire, &vs->key, &l->seq, err);
	if (r < 0)
		return r;
	vec_for_each (d, &vs->dests)
		d->flags &= (uint8_t)~DST_RECENT;
	vec_clear(&l->found.v);
	l->vs = vs;
	l->is_stale = false;
	return 1;
}

/* Everything is read: it becomes the programmed state. */
static int large_end(struct ipvs_plane *p, struct err *err)
{
	struct ipvs_large *l = &p->large;
	struct ipvs_vs *vs = TAKE(l->vs);

	if (l->is_stale) {
		if (++l->n_restarts <= LARGE_RESTARTS)
			return large_begin(p, vs, err);
		l->n_restarts = 0;
		return err_set(err, -EAGAIN, "the service changes faster than it can be read");
	}
	dests_programmed(p, vs, &l->found, DST_RECENT);
	vec_fini(&l->found.v);
	l->n_restarts = 0;
	vs->is_read |= vs->is_awaited; /* also if a check of drains has read the last part */
	vs->is_awaited = false;
	return 0;
}

int ipvs_large_read(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	struct ipvs_large *l = &p->large;
	bool is_other = l->vs != NULL && l->vs != vs;
	int r = l->vs == NULL ? large_begin(p, vs, err) : 1;
	size_t end = l->found.v.n + IPVS_READ_DESTS;

	if (r <= 0)
		return r;
	while (r > 0 && l->found.v.n < end)
		r = ipvs_wire_dests_next(l->wire, &l->vs->key, l->seq, &l->found, err);
	if (r < 0)
		l->vs = NULL;
	else if (r == 0)
		r = large_end(p, err);
	return is_other ? 1 : r; /* its reader begins again */
}

/* Raises `work` by the number of destinations. */
static int audit_read_one(struct ipvs_plane *p, struct ipvs_vs *vs, size_t *work, struct err *err)
{
	bool is_by_mark = vs->key.mark != 0;
	int r;

	/* A pool names its destinations; services by address may be many times as many. */
	if (vs->is_read || (is_by_mark && !ipvs_vs_is_large(vs)))
		return 0;
	if (*work >= IPVS_READ_DESTS)
		return 1;
	*work += IPVS_READ_REQUEST + vs->dests.n;
	r = ipvs_large_read(p, vs, err);
	vs->is_awaited = r > 0;
	vs->is_read = r == 0 || r == -EAGAIN; /* -EAGAIN: the acknowledged state stays */
	return vs->is_read ? 0 : r;
}

/* Work of repairing all destinations of the service. */
static size_t repair_work(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	size_t n = 0;

	vec_for_each (d, &vs->dests)
		n += d->desired_weight != 0 && !ipvs_dst_is_good(vs, d);
	return n * addition_work(p, vs, false);
}

/* If the repairs cost more than a piece, reduce a part to the work of a piece. */
static void part_limit(const struct ipvs_plane *p, const struct plan_rows *rows, size_t *part)
{
	size_t most = 1; /* of an operation */
	size_t work = 0;

	vec_for_each (pool, &rows->pools) {
		const struct ipvs_vs *vs = ipvs_vs_of_pool(p, pool);

		if (vs == NULL)
			continue;
		work += repair_work(p, vs);
		most = MAX(most, addition_work(p, vs, false));
	}
	if (work > PLANE_PIECE_WORK)
		*part = *part / most + 1;
}

int ipvs_audit_read(struct plane *plane, const struct plan_rows *rows, size_t *part,
		    struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	size_t work = 0;
	int r = 0;

	vec_for_each (pool, &rows->pools) {
		struct ipvs_vs *vs = ipvs_vs_of_pool(p, pool);

		if (vs == NULL)
			continue;
		r = audit_read_one(p, vs, &work, err);
		list_for_each_entry (vip, &vs->vip_services, struct ipvs_vs, sibling)
			if (r == 0)
				r = audit_read_one(p, vip, &work, err);
		if (r != 0)
			return r;
	}
	if (work > 0) /* the first part is compared in a step of its own */
		return 1;
	part_limit(p, rows, part);
	return 0;
}
