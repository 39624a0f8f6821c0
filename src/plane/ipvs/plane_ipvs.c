/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs - life cycle: load, environment, sweep, check, tick, cleanup. */
#include "plane/ipvs/plane_ipvs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "nft/decode.h"
#include "plane/failover.h"
#include "plane/ipvs/state.h"

/* How often policy routing and sysctls are verified; rules also when one changes. */
#define ROUTES_PERIOD_NS (10 * NSEC_PER_SEC)
/* IPVS keeps deleted destinations, which it searches for each addition, for 2 to 4 minutes. */
#define DELETED_PERIOD_NS (240 * NSEC_PER_SEC)

static const struct plane_common_ops common_ops;

/* --- opening and closing --- */

static struct ipvs_route_config routing_of(const struct ipvs_config *c)
{
	assert(c->mark_tag % 2 == 0); /* the next one is used, too */
	return (struct ipvs_route_config){
		.marks = ipvs_marks_from(c->mark_tag != 0 ? c->mark_tag : IPVS_MARK_TAG_DEFAULT),
		.table = c->route_table != 0 ? c->route_table : IPVS_ROUTE_TABLE_DEFAULT,
		.priority = c->rule_priority != 0 ? c->rule_priority : IPVS_RULE_PRIORITY_DEFAULT,
	};
}

int ipvs_plane_open(struct plane **ret, const struct ipvs_socks *socks,
		    const struct ipvs_config *config, struct err *err)
{
	const char *name = config->sched != NULL && *config->sched ? config->sched : "rr";
	struct scheduler sched;
	struct ipvs_plane *p;
	int r = scheduler_parse(&sched, name, err);

	if (r < 0)
		return r;
	p = xcalloc(1, sizeof(*p));
	p->config = *config;
	p->sched = sched;
	p->routing = routing_of(config);
	plane_common_open(&p->common, &ipvs_plane_ops, &common_ops, socks->nft, socks->query);
	p->common.counting = config->counting;
	p->route = socks->route;
	p->rules = socks->rules;
	ipvs_wire_open(&p->wire, socks->genl);
	ipvs_wire_open(&p->large.wire, socks->large);
	p->layout.nl = socks->nft;
	list_init(&p->draining);
	list_init(&p->touched);
	*ret = &p->common.plane;
	return 0;
}

void ipvs_plane_failover(struct plane *plane, uint64_t limit_ms)
{
	const struct plane_failover_config config = {
		.table = IPVS_FAILOVER_TABLE,
		.limit_ms = limit_ms,
		.ejects = true,
		.mark = ipvs_plane_of(plane)->routing.marks.tag,
		.mark_mask = IPVS_MARK_MASK,
	};

	plane_failover_open(plane, &config);
}

static void load_reset(struct ipvs_plane *p)
{
	ipvs_loaded_close(p->load.loaded);
	vec_fini(&p->load.services.all.v);
	vec_fini(&p->load.services.found.v);
	memset(&p->load, 0, sizeof(p->load));
}

static void plane_close(struct plane *plane)
{
	struct ipvs_plane *p;

	if (plane == NULL)
		return;
	p = ipvs_plane_of(plane);
	load_reset(p);
	ipvs_vss_clear(p);
	vec_fini(&p->ops);
	ipvs_layout_fini(&p->layout);
	ipvs_wire_close(p->wire);
	ipvs_wire_close(p->large.wire);
	vec_fini(&p->large.found.v);
	nl_sock_close(p->route);
	nl_sock_close(p->rules);
	plane_common_close(&p->common);
	free(p);
}

/* --- load --- */

/*
 * Virtual services of an earlier vipd with another --ipvs-mark are vipd's, too. The policy routing
 * rules have that tag until vipd replaces them; then the table stores it for restarts during the
 * drain.
 */
static int previous_tag_read(struct ipvs_plane *p, struct err *err)
{
	struct ipvs_route_config c = p->routing;
	int n = ipvs_route_config_read(p->route, &c, err);

	if (n > 0 && c.marks.tag != p->routing.marks.tag)
		p->previous[IPVS_PREVIOUS_TAG] = c.marks.tag + 1;
	return MIN(n, 0);
}

static int load_begin(struct ipvs_plane *p, struct err *err)
{
	int r;

	load_reset(p);
	p->missing_scheds = 0;
	nft_watch_load_begin(&p->common.watch);
	ipvs_loaded_open(&p->load.loaded);
	p->load.set = IPVSSET_BEGIN;
	r = nft_genid_read(p->common.query, &p->load.genid, err);
	if (r == 0)
		r = ipvs_layout_load(&p->layout, err);
	if (r == 0)
		r = ipvs_previous_read(p, p->previous, err);
	if (r == 0)
		r = previous_tag_read(p, err);
	if (r == 0)
		r = ipvs_vss_list(p, &p->load.services, err);
	return r < 0 ? r : 1;
}

/* Destinations, then elements. 1: there is more. */
static int load_step(struct ipvs_plane *p, struct err *err)
{
	int r;

	nft_watch_read(&p->common.watch);
	if (p->load.loaded == NULL)
		return load_begin(p, err);
	r = ipvs_vss_read(p, &p->load.services, err);
	if (r == 0)
		r = ipvs_loaded_read(p, err);
	if (r != 0)
		return r;
	r = nft_watch_load_end(&p->common.watch, err);
	return r > 0 ? load_begin(p, err) : r;
}

static int plane_load(struct plane *plane, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	if (p->load.loaded == NULL) {
		ipvs_wire_forget(p->wire);
		ipvs_wire_forget(p->large.wire);
	}
	r = ipvs_wire_load(p->wire, p->common.query, err);
	if (r == 0)
		r = load_step(p, err);
	if (r != 0) {
		if (r < 0)
			load_reset(p);
		/* a table or set was deleted meanwhile */
		return r == -ENOTRECOVERABLE || r == -ENOENT ? -EAGAIN : r;
	}
	ipvs_loaded_set_frontends(p->load.loaded, p);
	for (int fam = 0; fam < IPFAM_N; fam++)
		plane_refs_restart(&p->common, fam);
	plane_loaded_begin(&p->common, TAKE(p->load.loaded), p->load.genid);
	load_reset(p);
	return 0;
}

/* --- environment --- */

static int layout_apply(struct ipvs_plane *p, const struct model *m, struct plane_result *res,
			struct err *err)
{
	struct ipvs_rules_params params = { .common = plane_rules_params_from(m),
					    .marks = p->routing.marks,
					    .is_retiring = p->is_retiring };
	bool is_emptied = p->layout.is_content_rejected && p->layout.state == IPVS_LAYOUT_ABSENT;
	int r;

	params.common.counting = p->common.counting;
	r = ipvs_layout_apply(&p->layout, &params, p->common.loaded, p->previous, &res->done, err);
	for (int fam = 0; fam < IPFAM_N && r == 0 && is_emptied && p->common.loaded != NULL; fam++)
		p->common.loaded->is_fresh[fam] = true;
	return r == -ENOBUFS ? -EBUSY : r;
}

/* A foreign rule that conflicts with rules in force is a fault to report, not a reason to stop. */
static void conflict_note(struct ipvs_plane *p, const struct err *conflict)
{
	if (conflict->text[0] != '\0') {
		if (plane_fault_set(&p->common.plane, PLANE_FAULT_ROUTING, false, conflict->text))
			log_err(LOG_AREA_PLANE, "%s; vipd's own rules stay", conflict->text);
	} else if (plane_fault_clear(&p->common.plane, PLANE_FAULT_ROUTING)) {
		log_notice(LOG_AREA_PLANE, "policy routing: recovered: no foreign rule or route "
					   "conflicts with vipd's any more");
	}
}

/* A family without policy routing has failed, and is left out. */
static int routes_apply(struct ipvs_plane *p, size_t *n_writes, struct err *err)
{
	struct plane *plane = &p->common.plane;
	struct err own[IPFAM_N] = { 0 };
	struct err conflict = { 0 };

	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = plane->family[fam].is_failed
				? 0
				: ipvs_route_apply(p->route, &p->routing, fam, n_writes, &conflict,
						   &own[fam]);

		if (r == 0 || plane_family_fail(plane, fam, r, &own[fam]) == 0)
			continue;
		*err = own[own[IPFAM_V4].text[0] != '\0' ? IPFAM_V4 : fam];
		if (r == -EBUSY)
			(void)plane_fault_set(plane, PLANE_FAULT_ROUTING, true, err->text);
		return r;
	}
	conflict_note(p, &conflict);
	return 0;
}

static int plane_env(struct plane *plane, const struct model *m, struct plane_result *res,
		     struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	p->model = m;
	r = layout_apply(p, m, res, err);
	if (r == 0)
		r = ipvs_sysctls_apply(p, res, err);
	if (r == 0)
		r = routes_apply(p, &res->done.n_writes, err);
	return r;
}

/* --- sweep --- */

static int plane_sweep(struct plane *plane, struct plane_result *res, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	if (p->common.loaded == NULL)
		return 0;
	r = plane_sweep_elements(&p->common, res, err);
	if (r == 0)
		r = ipvs_ops_sweep(p, res, err);
	if (r != 0)
		return r;
	plane_sweep_end(&p->common);
	return 0;
}

static bool plane_leads(const struct plane *plane, const struct plan_frontend *f)
{
	static const enum nft_set_id maps[] = { IPVSSET_FE, IPVSSET_FE_OUT, IPVSSET_FE_IN };
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	for (size_t i = 0; p->common.loaded != NULL && i < ARRAY_SIZE(maps); i++) {
		const uint8_t *data =
			plane_loaded_find(p->common.loaded, ip_fam(&f->addr), maps[i], key);

		if (data != NULL && (nft_get_word(data) & IPVS_MARK_ID) < IPVS_MARK_REJECT)
			return true;
	}
	return false;
}

/* --- check --- */

static int layouts_check(struct plane_common *c, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(&c->plane);
	uint64_t handle = p->layout.handle;
	int r = ipvs_layout_load(&p->layout, err);

	plane_failover_recheck(c);
	if (r < 0)
		return r;
	if (p->layout.state != IPVS_LAYOUT_PRESENT)
		return err_set(err, PLANE_CHECK_LOST, "table inet " IPVS_TABLE " is %s",
			       p->layout.handle == 0 ? "gone" : "beyond repair");
	if (p->layout.handle != handle)
		return err_set(err, PLANE_CHECK_LOST, "table inet " IPVS_TABLE " was replaced");
	return PLANE_CHECK_CHANGED;
}

/* --- tick --- */

/* A failure here does not fail the family: its rules are in force. */
static void routes_watch(struct ipvs_plane *p)
{
	struct err conflict = { 0 };
	bool is_any_failed = false;
	size_t n = 0;

	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct err err = { 0 };

		if (p->common.plane.family[fam].is_failed ||
		    ipvs_route_apply(p->route, &p->routing, fam, &n, &conflict, &err) == 0)
			continue;
		is_any_failed = true;
		log_warn(LOG_AREA_PLANE, "policy routing: not repaired: %s; next attempt in 10 s",
			 err.text);
	}
	if (!is_any_failed)
		conflict_note(p, &conflict);
	p->common.plane.n_repaired += n;
	if (n > 0)
		log_notice(
			LOG_AREA_PLANE,
			"policy routing: modified by another process; repaired: kernel operations %zu",
			n);
}

/* Without the rules new connections fail: they are not left to the next tick. */
static int rules_check(struct plane *plane, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);

	if (p->rules != NULL) {
		uint64_t n = nl_sock_stats(p->rules)->n_recvs;

		nl_sock_drain(p->rules);
		if (nl_sock_stats(p->rules)->n_recvs != n)
			routes_watch(p);
	}
	return plane_check(plane, err);
}

static uint64_t tick_settings(struct ipvs_plane *p, uint64_t now)
{
	if (p->routes_at == 0)
		p->routes_at = now + ROUTES_PERIOD_NS;
	if (now < p->routes_at)
		return p->routes_at;
	p->routes_at = now + ROUTES_PERIOD_NS;
	if (!p->is_retiring)
		ipvs_sysctls_watch(p);
	routes_watch(p);
	/* The load gives it to the services that name it. */
	p->common.plane.is_load_wanted = ipvs_sched_is_loaded(p);
	return p->routes_at;
}

/* After the sweep all virtual services of an earlier --ipvs-mark drain. */
static void tick_previous_tag(struct ipvs_plane *p)
{
	uint32_t tag = p->previous[IPVS_PREVIOUS_TAG] - 1;
	struct err err = { 0 };

	if (p->previous[IPVS_PREVIOUS_TAG] == 0 || p->common.loaded != NULL)
		return;
	list_for_each_entry (vs, &p->draining, struct ipvs_vs, draining)
		if ((vs->key.mark & IPVS_MARK_TAG) == tag)
			return;
	if (ipvs_sysctls_forget_tag(p, &err) < 0)
		log_warn(LOG_AREA_PLANE,
			 "earlier --ipvs-mark 0x%x: not removed from the table: %s; next attempt "
			 "in 1 s",
			 tag >> 24, err.text);
	else
		log_info(LOG_AREA_PLANE,
			 "earlier --ipvs-mark 0x%x: its last virtual service is deleted; the mark "
			 "is free",
			 tag >> 24);
}

static void tick_deleted(struct ipvs_plane *p, uint64_t now)
{
	if (now < p->deleted_at)
		return;
	p->deleted_at = now + DELETED_PERIOD_NS;
	p->n_deleted[1] = p->n_deleted[0];
	p->n_deleted[0] = 0;
}

static uint64_t plane_tick(struct plane *plane, uint64_t now)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	uint64_t next;
	uint64_t at;

	tick_deleted(p, now);
	if (plane_is_adopting(&p->common))
		return now + NSEC_PER_SEC;
	next = tick_settings(p, now);
	at = plane_failover_follow(&p->common, now);
	next = at != 0 ? MIN(at, next) : next;
	at = ipvs_drain_tick(p, now);
	tick_previous_tag(p);
	/* A backend may start to drain at any time: it is checked a second later. */
	return at != 0 ? MIN(at, next) : MIN(next, now + NSEC_PER_SEC);
}

/* --- cleanup --- */

static int services_cleanup(struct ipvs_plane *p, struct err *err)
{
	struct plane_result res = { 0 };
	int r = ipvs_vss_list(p, &p->load.services, err);

	for (r = r < 0 ? r : 1; r > 0;)
		r = ipvs_vss_read(p, &p->load.services, err);
	load_reset(p);
	if (r < 0)
		return r;
	vec_clear(&p->ops);
	htable_for_each_entry (vs, &p->vss, struct ipvs_vs)
		if (!vs->is_kept)
			ipvs_op_service(p, IPVS_CMD_DEL_SERVICE, vs);
	return ipvs_ops_send(p, &res, err);
}

/* A query of the family would load the module on a node without IPVS. */
static bool is_loaded(const struct ipvs_plane *p)
{
	return p->config.sysctl_root == NULL ||
	       access(str_local(256, "%s/proc/net/ip_vs", p->config.sysctl_root), F_OK) == 0;
}

static int plane_cleanup(struct plane *plane, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	bool has_ipvs = is_loaded(p);
	int r = has_ipvs ? ipvs_wire_resolve(p->wire, err) : 0;

	plane_loaded_end(&p->common);
	if (r == 0)
		r = ipvs_layout_load(&p->layout, err);
	if (r == -EEXIST) /* a foreign table of that name */
		r = 0;
	p->is_retiring |= r == 0 && ipvs_layout_is_retiring(&p->layout);
	if (r == 0)
		r = ipvs_previous_read(p, p->previous, err);
	if (r == 0)
		r = MIN(ipvs_route_config_read(p->route, &p->routing, err), 0);
	/* Before the table with the previous values is deleted: the next process can restore them.
	 */
	if (r == 0 && has_ipvs)
		ipvs_sysctls_restore(p, false);
	if (r == 0) /* before IPVS: no more packets are led there */
		r = nft_tables_delete(p->common.cmd, &ipvs_schema, IPFAM_V4, NULL, err);
	if (r == 0)
		r = plane_failover_cleanup(&p->common, IPVS_FAILOVER_TABLE, err);
	if (r == 0 && has_ipvs) {
		r = services_cleanup(p, err);
		/* Until now expire_nodest_conn ended the connections of deleted destinations. */
		ipvs_sysctls_restore(p, true);
	}
	if (r == 0)
		r = ipvs_route_cleanup(p->route, err);
	return r;
}

/* --- retire --- */

/*
 * UDP clients move to the other plane at their next packet while packets still reach IPVS. A later
 * packet has no conntrack entry any more (nf_conntrack_udp_timeout_stream).
 */
#define RETIRE_MIN_NS (150 * NSEC_PER_SEC)
/* Between two steps of its load(). */
#define RETIRE_STEP_NS (10 * NSEC_PER_MSEC)

/*
 * New connections go to the other plane; all services start to drain, UDP services are deleted at
 * once. Nothing happens if nothing leads to IPVS. Rules and routes stay as the earlier process had
 * configured them: established connections need them. 1: call it again.
 */
static int retire_begin(struct ipvs_plane *p, const struct model *m, uint64_t now, struct err *err)
{
	struct plane_result res = { 0 };
	bool has_datagrams;
	int r = 0;

	if (!p->is_retiring && p->load.loaded == NULL) {
		if (!is_loaded(p))
			return 0;
		r = ipvs_layout_load(&p->layout, err);
		if (r == -EEXIST || (r == 0 && p->layout.state != IPVS_LAYOUT_PRESENT))
			return 0;
		p->common.counting = PLANE_COUNT_NONE;
		if (r == 0)
			r = MIN(ipvs_route_config_read(p->route, &p->routing, err), 0);
	}
	if (!p->is_retiring) {
		if (r == 0)
			r = plane_load(&p->common.plane, err);
		if (r != 0 || p->vss.count == 0)
			return r;
		p->is_retiring = true;
		r = plane_env(&p->common.plane, m, &res, err);
	}
	if (r == 0)
		r = ipvs_ops_sweep(p, &res, err);
	if (r > 0)
		return r;
	has_datagrams = ipvs_loaded_has_protocol(p->common.loaded, L4PROTO_UDP);
	plane_loaded_end(&p->common);
	p->retire_until = has_datagrams ? now + RETIRE_MIN_NS : now;
	if (r == 0)
		log_notice(LOG_AREA_PLANE,
			   "ipvs: another plane serves; %zu virtual services stay until their "
			   "connections end or the drain timeout passes",
			   p->vss.count);
	return r;
}

static int plane_retire(struct plane *plane, const struct model *m, uint64_t now, uint64_t *again,
			struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	*again = 0;
	if (!p->is_retiring || p->common.loaded != NULL) {
		r = retire_begin(p, m, now, err);
		if (r > 0)
			*again = now + RETIRE_STEP_NS;
		if (r != 0)
			return MIN(r, 0);
	}
	if (p->is_retiring && (now < p->retire_until || !list_is_empty(&p->draining))) {
		*again = plane_tick(plane, now);
		return 0;
	}
	if (p->is_retiring)
		log_notice(LOG_AREA_PLANE,
			   "ipvs: the last connections have ended; removing vipd's IPVS state");
	return plane_cleanup(plane, err);
}

/* --- counters: plane/counters.c --- */

/*
 * IPVS's own counters change only while its estimator runs, and that is off (sysctl.c). vipd's are
 * elements: of `counted` and `refused` while the frontend exists, of `reached` while the backend
 * is in its pool.
 */
static const struct plane_counting_chain counting_chains[] = {
	{ "no_endpoints", PLANE_REJECT_NO_ENDPOINTS },
	{ "no_local", PLANE_REJECT_NO_LOCAL_ENDPOINTS },
	{ "guard4", PLANE_REJECT_SOURCE_RANGES },
	{ "guard6", PLANE_REJECT_SOURCE_RANGES },
	{ "unknown_port", PLANE_REJECT_UNKNOWN_PORT },
	{ "vip_loop", PLANE_REJECT_UNKNOWN_PORT },
	{ "unknown_address", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "no_socket", PLANE_INVALID_DROPPED },
	{ NULL },
};

static int is_in_force(const struct plane_common *c, enum ipfam fam)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)c;

	/* One table, also while the policy routing of a family has failed. */
	return p->load.loaded == NULL && p->layout.state == IPVS_LAYOUT_PRESENT ? 1 : -EAGAIN;
}

/* Mark of a pool by its id. */
static uint32_t pool_mark(const struct ipvs_plane *p, enum ipfam fam, uint32_t id)
{
	uint32_t local = ipvs_mark_pool(&p->routing.marks, id, PLAN_SCOPE_LOCAL);
	const struct ipvs_vs *vs = ipvs_vs_by_mark(p, fam, local);

	return vs != NULL && vs->desired.exists
		       ? local
		       : ipvs_mark_pool(&p->routing.marks, id, PLAN_SCOPE_CLUSTER);
}

static bool slot_counter(const struct plane_common *c, enum nft_set_id set,
			 const struct plane_counted *s, uint8_t key[static NFT_KEY_MAX],
			 uint8_t data[static NFT_DATA_MAX])
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)c;

	nft_key_reached(key, pool_mark(p, ip_fam(&s->at.addr), s->pool_id), &s->at.addr,
			s->at.port);
	return true;
}

/* --- operations --- */

/* Elements are removed before their targets. */
static const enum nft_set_id sweep_order[] = {
	IPVSSET_FE,          IPVSSET_FE_OUT,  IPVSSET_FE_IN,          IPVSSET_GUARDED,
	IPVSSET_IDLE,        IPVSSET_MASQ,    IPVSSET_MASQ_HOSTS,     IPVSSET_VIPS,
	IPVSSET_CLUSTER_IPS, IPVSSET_RANGES,  IPVSSET_HAIRPINS,       IPVSSET_COUNTED,
	IPVSSET_REJECTED,    IPVSSET_REACHED, IPVSSET_LOCAL_BACKENDS,
};

static struct nft_table_ref table(const struct plane_common *c, enum ipfam fam)
{
	return ipvs_table(fam);
}

static const struct plane_common_ops common_ops = {
	.table = table,
	.sets = &ipvs_plane_sets,
	.counted = { IPVSSET_VIPS, IPVSSET_CLUSTER_IPS, IPVSSET_HAIRPINS, IPVSSET_LOCAL_BACKENDS },
	.retained_set = NFTSET_END,
	.sweep = sweep_order,
	.n_sweep = ARRAY_SIZE(sweep_order),
	.n_frontends = 2,
	.layouts_check = layouts_check,
	.loaded_close = ipvs_loaded_close,
	.is_in_force = is_in_force,
	.counting_chains = counting_chains,
	.slot_counters = (const enum nft_set_id[]){ IPVSSET_REACHED },
	.n_slot_counters = 1,
	.slot_counter = slot_counter,
};

const struct plane_ops ipvs_plane_ops = {
	.name = "ipvs",
	.traits = { .pool_class = ipvs_pool_class, .has_forwarding = true },
	.load = plane_load,
	.adopt = ipvs_adopt,
	.env = plane_env,
	.commit = ipvs_commit,
	.sweep = plane_sweep,
	.audit_read = ipvs_audit_read,
	.backend_work = ipvs_backend_work,
	.orphaned = plane_orphaned,
	.is_orphaned = plane_is_orphaned,
	.leads = plane_leads,
	.check = rules_check,
	.touched = plane_touched,
	.tick = plane_tick,
	.rule_counts = plane_rule_counts,
	.count = plane_count,
	.draining = ipvs_drain_each,
	.drains = ipvs_drain_count,
	.handshakes = plane_handshakes,
	.answers = plane_answers,
	.balancing = ipvs_explain_balancing,
	.remark = ipvs_remark,
	.retire = plane_retire,
	.prepare = ipvs_sysctls_prepare,
	.cleanup = plane_cleanup,
	.close = plane_close,
};
