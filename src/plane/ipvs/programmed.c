/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/programmed - run load() of the plane, and print the result in the format in which the
 *  plan prints desired state.
 *
 *  A destination with a start of its drain is printed apart from those that get connections.
 *  Weight 0 without it is foreign, and printed as a weight.
 */
#include "plane/ipvs/programmed.h"

#include <errno.h>
#include <linux/ip_vs.h>
#include <string.h>

#include "base/name.h"
#include "explain/text.h"
#include "model/select.h"
#include "model/tuning.h"
#include "nft/decode.h"
#include "plane/ipvs/state.h"

#define TRIES 8

static enum plan_balance balance_of(const char *name)
{
	if (strcmp(name, "rr") == 0)
		return PLAN_BALANCE_EVENLY;
	return strcmp(name, "wrr") == 0 || strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0
		       ? PLAN_BALANCE_BY_WEIGHT
		       : PLAN_BALANCE_UNKNOWN;
}

/*
 * Describe a scheduler with its flags ("mh,mh-port"); `svc_flags` as in the kernel. An unknown one
 * is "?".
 */
static void sched_describe(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags)
{
	const char *name = scheduler_name(no);
	size_t len = strlen(name);

	ret->balance = (uint8_t)balance_of(name);
	ret->is_by_client = strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0;
	if (len == 0) {
		memcpy(ret->scheduler, "?", 2);
		return;
	}
	memcpy(ret->scheduler, name, len + 1);
	scheduler_flags_text(ret->scheduler, sizeof(ret->scheduler), no, svc_flags);
}

/*
 * Only services by address and port are persistent; inside a split frontend a hash of the client
 * address replaces persistence.
 */
static void balancing_fill(struct plan_balancing *ret, struct scheduler sched, uint32_t affinity_s,
			   bool is_inside)
{
	ret->affinity_s = is_inside ? 0 : affinity_s;
	sched_describe(ret, sched.no, sched.flags);
}

/* --- desired, by the annotations of Services --- */

static void objects_balancing(const void *ctx, const struct plan_rows *rows,
			      const struct plan_pool *pool, bool is_inside,
			      struct plan_balancing *ret)
{
	const struct scheduler *by_default = ctx;
	struct scheduler sched = ipvs_sched_of(rows->svc->service, *by_default);

	sched = ipvs_sched_in_force(sched, *by_default, is_inside ? pool->affinity_s : 0,
				    pool->backends.n, 0);
	balancing_fill(ret, sched, pool->affinity_s, is_inside);
}

struct plan_balancer ipvs_objects_balancer(const struct scheduler *by_default)
{
	return (struct plan_balancer){ objects_balancing, by_default };
}

/* --- acknowledged by the kernel --- */

void ipvs_explain_balancing(const void *plane, const struct plan_rows *rows,
			    const struct plan_pool *pool, bool is_inside,
			    struct plan_balancing *ret)
{
	const struct ipvs_plane *p = plane;
	const struct ipvs_vs *vs = ipvs_vs_of_pool(p, pool);

	if (vs == NULL || vs->desired.sched.no == 0)
		return;
	balancing_fill(ret,
		       ipvs_sched_in_force(vs->desired.sched, p->sched,
					   is_inside ? vs->desired.timeout_s : 0, vs->dests.n,
					   p->missing_scheds),
		       vs->desired.timeout_s, is_inside);
}

/* --- loaded --- */

struct frontend_text {
	struct nft_source src; /* first: frontend_print() */
	const struct ipvs_plane *p;
	struct str *out;
	enum ipfam fam;
	const uint8_t *key;
};

static const uint8_t *find(const struct frontend_text *t, enum nft_set_id set, const uint8_t *key)
{
	return t->src.find(t->src.ctx, t->fam, set, key);
}

static bool is_draining(const struct ipvs_dst *d)
{
	return d->since_s != 0;
}

static void dests_text(struct str *out, const struct frontend_text *t, const struct ipvs_vs *vs)
{
	uint8_t key[NFT_KEY_MAX];

	vec_for_each (d, &vs->dests) {
		if (is_draining(d))
			continue;
		plan_led_backend_print(out, &d->addr, d->port, d->weight);
		if (d->flags & DST_DIFFERS || d->fwd != ipvs_vs_forwarding(vs))
			str_puts(out, "(OTHER-FORWARDING-OR-LIMIT)");
		nft_key_addr_pair(key, &d->addr);
		if (t != NULL && d->weight != 0 && find(t, IPVSSET_HAIRPINS, key) == NULL)
			str_puts(out, "(NOT-IN-HAIRPINS)");
	}
}

static void draining_text(struct str *out, const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	uint32_t now_s = ipvs_now_s(p);

	vec_for_each (d, &vs->dests) {
		if (!is_draining(d))
			continue;
		str_printf(out, " draining=%s/", ip_endpoint_str(&d->addr, d->port));
		if (ipvs_dst_has_deadline(d))
			str_printf(out, "%us", d->deadline_s - MIN(d->deadline_s, now_s));
		else
			str_puts(out, "no-deadline");
	}
}

static void vs_text(struct str *out, const struct frontend_text *t, const struct ipvs_vs *vs)
{
	struct plan_balancing balancing = { .affinity_s =
						    vs->programmed_flags & IP_VS_SVC_F_PERSISTENT
							    ? vs->programmed_timeout_s
							    : 0 };

	sched_describe(&balancing, vs->programmed_sched, vs->programmed_flags);
	if (!vec_has(&vs->dests, d, !is_draining(d)))
		str_puts(out, " NOWHERE");
	dests_text(out, t, vs);
	plan_led_balancing_print(out, &balancing);
	draining_text(out, t->p, vs);
}

static const struct ipvs_vs *vs_find_noted(const struct frontend_text *t, struct ipvs_key key)
{
	struct ipvs_vs *vs = ipvs_vs_find(t->p, key);

	if (vs != NULL)
		vs->is_referenced = true;
	return vs;
}

static const struct ipvs_vs *vs_by_mark(const struct frontend_text *t, uint32_t mark)
{
	return vs_find_noted(t, ipvs_key_mark(t->fam, mark));
}

static const struct ipvs_vs *vs_by_vip(const struct frontend_text *t)
{
	struct ip_tuple tuple;

	nft_get_tuple(&tuple, t->fam, t->key);
	return vs_find_noted(t, ipvs_key_vip(&tuple.addr, tuple.proto, tuple.port));
}

/* `data`: the mark of a frontend; NULL: none. */
static void forwarding_print(const struct frontend_text *t, const uint8_t *data)
{
	uint32_t forwarding = ipvs_vs_forwarding(
		data != NULL && nft_get_word(data) == t->p->routing.marks.tag ? vs_by_vip(t)
									      : NULL);

	if (forwarding != FORWARDING_MASQUERADE)
		str_printf(t->out, " forwarding=%s", forwarding_str(forwarding));
}

/* The mark has no pool: `idle` has the mark of the pool. */
static const struct ipvs_vs *idle_vs(const struct frontend_text *t)
{
	const uint8_t *data = find(t, IPVSSET_IDLE, t->key);

	if (data == NULL)
		str_puts(t->out, " NOT-IN-IDLE");
	return data != NULL ? vs_by_mark(t, nft_get_word(data)) : NULL;
}

static void target_text(const struct frontend_text *t, const uint8_t *data, bool is_inside)
{
	uint32_t mark = data != NULL ? nft_get_word(data) : 0;
	uint32_t id = mark & IPVS_MARK_ID;
	const struct ipvs_vs *vs;

	str_puts(t->out, " ->");
	if (data == NULL) {
		str_puts(t->out, " NOWHERE");
	} else if (!ipvs_mark_is_ours(&t->p->routing.marks, mark)) {
		str_printf(t->out, " MARK-0x%x", mark);
	} else if (id == IPVS_MARK_REJECT || id == IPVS_MARK_DROP) {
		str_puts(t->out, id == IPVS_MARK_REJECT ? " reject" : " drop");
		vs = is_inside ? NULL : idle_vs(t);
		if (vs != NULL) /* new connections are rejected, established ones drain */
			draining_text(t->out, t->p, vs);
	} else {
		vs = id == 0 ? vs_by_vip(t) : vs_by_mark(t, mark);
		if (vs == NULL)
			str_puts(t->out, " NO-VIRTUAL-SERVICE");
		else
			vs_text(t->out, t, vs);
		if (id == 0)
			(void)idle_vs(t);
	}
}

static void frontend_print(struct str *out, const struct nft_source *src, enum ipfam fam,
			   const uint8_t *key)
{
	const struct frontend_text *all = (const struct frontend_text *)src;
	struct frontend_text t = { *src, all->p, out, fam, key };
	const uint8_t *guard = find(&t, IPVSSET_GUARDED, key);
	const uint8_t *data = find(&t, IPVSSET_FE, key);

	nft_tuple_text(out, fam, key);
	if (find(&t, IPVSSET_CLUSTER_IPS, key) != NULL)
		str_puts(out, " cluster-ip");
	if (find(&t, IPVSSET_VIPS, key) == NULL)
		str_puts(out, " NOT-IN-VIPS");
	if (find(&t, IPVSSET_MASQ, key) != NULL)
		str_puts(out, " masq");
	if (find(&t, IPVSSET_MASQ_HOSTS, key) != NULL)
		str_puts(out, " masq=host");
	forwarding_print(&t, data != NULL ? data : find(&t, IPVSSET_FE_OUT, key));
	if (guard != NULL)
		nft_guard_text(out, src, fam, IPVSSET_RANGES, nft_get_word(guard));
	if (data != NULL) {
		target_text(&t, data, false);
		return;
	}
	target_text(&t, find(&t, IPVSSET_FE_OUT, key), false);
	str_puts(out, "; inside");
	target_text(&t, find(&t, IPVSSET_FE_IN, key), true);
}

static int key_cmp(const void *a, const void *b)
{
	const struct ipvs_vs *const *x = a;
	const struct ipvs_vs *const *y = b;

	return memcmp(&(*x)->key, &(*y)->key, sizeof((*x)->key));
}

static void unreferenced_vs_text(struct str *out, const struct ipvs_plane *p,
				 const struct ipvs_vs *vs)
{
	if (vs->key.mark != 0)
		str_printf(out, "mark/0x%x/%s ->", vs->key.mark, ipfam_text(vs->key.fam));
	else
		str_printf(out, "virtual/%s ->", ipvs_key_str(&vs->key));
	dests_text(out, NULL, vs);
	draining_text(out, p, vs);
	str_puts(out, "\n");
}

/* Virtual services that no frontend leads to: they drain after a change. */
static void unreferenced_text(struct str *out, const struct ipvs_plane *p)
{
	AUTO(vec_fini) VEC(const struct ipvs_vs *) rest = { 0 };

	htable_for_each_entry (vs, &p->vss, const struct ipvs_vs)
		if (!vs->is_referenced)
			*vec_push(&rest) = vs;
	vec_sort(&rest, key_cmp);
	vec_for_each (vs, &rest)
		unreferenced_vs_text(out, p, *vs);
}

/* Each frontend, then services of vipd that no frontend uses; once a load. */
static void loaded_text(struct str *out, const struct ipvs_plane *p)
{
	static const enum nft_set_id sets[] = { IPVSSET_FE, IPVSSET_FE_OUT, IPVSSET_FE_IN };
	const struct frontend_text all = { plane_loaded_source(p->common.loaded), p };

	nft_frontends_each(out, &all.src, sets, ARRAY_SIZE(sets), frontend_print);
	unreferenced_text(out, p);
}

/* --- reading --- */

void ipvs_programmed_fini(struct ipvs_programmed *h)
{
	str_fini(&h->frontends);
	str_fini(&h->routing);
	str_fini(&h->routing_desired);
	*h = (struct ipvs_programmed){ 0 };
}

static int table_load(struct ipvs_plane *p, bool has_rules, struct err *err)
{
	int r = plane_load_all(&p->common.plane, err);
	uint32_t tag = r == 0 ? ipvs_loaded_tag(p->common.loaded) : 0;

	if (r < 0 || has_rules || tag == 0 || tag == p->routing.marks.tag)
		return r;
	p->routing.marks = ipvs_marks_from((uint8_t)(tag >> 24));
	return plane_load_all(&p->common.plane, err);
}

/* Returns 1 if another process changed the table meanwhile. */
static int read_once(struct ipvs_programmed *ret, struct ipvs_plane *p, struct err *err)
{
	int n_rules;
	int r;

	ipvs_programmed_fini(ret);
	n_rules = ipvs_route_config_read(p->route, &p->routing, err);
	if (n_rules < 0)
		return n_rules;
	r = ipvs_layout_load(&p->layout, err);
	ret->exists = r == 0 && p->layout.state == IPVS_LAYOUT_PRESENT;
	if (r == 0 && ret->exists)
		r = table_load(p, n_rules > 0, err);
	if (r == 0)
		r = ipvs_route_text(p->route, &p->routing, &ret->routing_desired, &ret->routing,
				    NULL, NULL, err);
	if (r < 0)
		return r == -EAGAIN ? 1 : r;
	if (ret->exists)
		loaded_text(&ret->frontends, p);
	return 0;
}

int ipvs_programmed_read_from(struct ipvs_programmed *ret, const struct ipvs_socks *socks,
			      struct err *err)
{
	const struct ipvs_config config = { .sysctl_root = NULL };
	struct plane *plane;
	int r = ipvs_plane_open(&plane, socks, &config, err);

	if (r < 0)
		return r;
	ipvs_plane_of(plane)->layout.is_readonly = true;
	r = socks->watch != NULL ? plane_watch_with(plane, socks->watch, err) : 0;
	r = r < 0 ? r : 1;
	for (int i = 0; i < TRIES && r > 0; i++)
		r = read_once(ret, ipvs_plane_of(plane), err);
	plane->ops->close(plane);
	return r > 0 ? err_set(err, -EAGAIN, "the table of vipd changes faster than it can be read")
		     : r;
}

int ipvs_programmed_read(struct ipvs_programmed *ret, struct err *err)
{
	static const int protocols[] = { NETLINK_NETFILTER, NETLINK_NETFILTER, NETLINK_GENERIC,
					 NETLINK_ROUTE, NETLINK_NETFILTER };
	struct nl_sock *nl[ARRAY_SIZE(protocols)] = { NULL };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(protocols) && r == 0; i++)
		r = nl_sock_open(&nl[i], protocols[i], err);
	if (r == 0)
		return ipvs_programmed_read_from(ret,
						 &(struct ipvs_socks){ .nft = nl[0],
								       .query = nl[1],
								       .genl = nl[2],
								       .route = nl[3],
								       .watch = nl[4] },
						 err);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
		nl_sock_close(nl[i]);
	return r;
}

int ipvs_programmed_exists(struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	struct nft_fixed_table t;
	int r = nl_sock_open(&nl, NETLINK_NETFILTER, err);

	return r < 0 ? r : nft_fixed_table_find(&t, nl, IPFAM_V4, &ipvs_schema, err);
}
