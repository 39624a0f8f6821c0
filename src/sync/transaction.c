/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/transaction - program dirty services in one kernel transaction.
 *
 * Build the rows of all, settle frontend conflicts, append the differences in order. A
 * rejection that names a service sets the service's group aside, and the transaction is
 * repeated without it; a rejection without a name halves the transaction until one group
 * is left. A service that takes a frontend from another one is in one group with it: the
 * frontend moves or nothing changes. What else changes in the loser follows in its turn.
 */
#include "sync/state.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "model/track.h"
#include "plan/table.h"
#include "plane/remark.h"

#define HOST_CLUSTER_IPS_LOGGED 5

/* --- items --- */

/* The outcome of `it` is known. A service that was marked again meanwhile stays dirty. */
static void item_decided(struct sync *s, struct sync_item *it)
{
	struct svc *svc = TAKE(it->svc);

	svc->is_in_transaction = false;
	if (!list_is_linked(&svc->dirty))
		model_clean(s->model, svc);
}

/* SEL-14: log a conflict when it begins, not at every sync. */
static void conflicts_log(const struct sync *s, const struct svc *svc, const struct plan_rows *old,
			  const struct plan_rows *new)
{
	size_t n_old = old ? old->conflicts.n : 0;
	size_t n = new ? new->conflicts.n : 0;
	const struct plan_conflict *c;
	struct plan_owner owner;
	size_t i = 0;

	while (i < n && i < n_old &&
	       memcmp(&old->conflicts.v[i], &new->conflicts.v[i], sizeof(*c)) == 0)
		i++;
	if (i == n)
		return;
	c = &new->conflicts.v[i];
	owner = plan_conflict_owner(s->plan, svc, c);
	log_warn(LOG_AREA_SYNC,
		 "service %s/%s: address conflict: %s port %u/%s is served by %s/%s (%s)%s",
		 svc->ns->text, svc->name->text, ip_addr_str(&c->addr), c->port,
		 l4proto_text(c->proto), owner.svc->ns->text, owner.svc->name->text,
		 plan_conflict_reason(c, &owner),
		 n - i > 1 ? "; more conflicts: see vipctl svc" : "");
}

/* Log it once for a service, and for few: kube-proxy's ipvs mode leaves all cluster IPs behind. */
static void host_cluster_ip_log(const struct sync *s, const struct svc *svc,
				const struct plan_rows *old, const struct plan_rows *next)
{
	const struct ip_addr *addr = next != NULL && next->is_of_host && svc->service != NULL
					     ? model_host_cluster_ip(s->model, svc->service)
					     : NULL;

	if (addr == NULL || s->plan->n_host_cluster_ips >= HOST_CLUSTER_IPS_LOGGED ||
	    (old != NULL && old->is_of_host))
		return;
	log_warn(LOG_AREA_SYNC,
		 "service %s/%s: cluster IP %s is an address of this node: the service takes over "
		 "its own ports on it, and all other ports stay the node's",
		 svc->ns->text, svc->name->text, ip_addr_str(addr));
}

static void rows_accept(struct sync *s, struct sync_item *it)
{
	struct svc *svc = it->svc;
	uint64_t since = svc->dirty_since_ns;

	if (it->is_whole)
		svc->trigger_ns = 0; /* measured, even if the service is dirty again */
	plan_rows_accept(s->plan, svc, TAKE(it->rows));
	if (it->is_whole && !list_is_linked(&svc->dirty))
		svc_track_begin(svc);
	if (it->is_whole)
		plane_remark_log(s->plane, svc);
	sync_failure_clear(s, svc);
	if (since > 1 && s->state == SYNC_RUNNING)
		hist_add(&s->stats.event_to_ack, now_ns() - since);
	s->stats.services++;
}

static void item_accept(struct sync *s, struct sync_item *it)
{
	struct svc *svc = it->svc;

	if (!it->is_piece) {
		conflicts_log(s, svc, svc->rows, it->rows);
		host_cluster_ip_log(s, svc, svc->rows, it->rows);
	}
	if (s->config.accepted != NULL)
		s->config.accepted(s->config.accepted_arg, svc, svc->rows, it->rows, it->is_whole);
	if (it->is_piece)
		plan_piece_accept(s->plan, svc, TAKE(it->rows),
				  svc == s->large.svc ? s->large.goal : NULL);
	else
		rows_accept(s, it);
	svc->adopted_load = s->plan->load_no;
	item_decided(s, it);
}

/* The service keeps its programmed rows; the next attempt starts from them. */
static void piece_reject(struct sync *s, struct sync_item *it, int code, const struct err *err,
			 uint64_t now)
{
	struct svc *svc = it->svc;

	plan_piece_reject(svc, TAKE(it->rows));
	/* Before the sweep every object must be requested once, or it is removed: plane.h. */
	if (svc == s->large.svc && sync_is_plane_loaded(s)) {
		s->large.is_rejected = true;
	} else {
		if (svc == s->large.svc)
			sync_large_forget(s);
		sync_failure_note(s, svc, code, err, now);
		if (svc->is_unchanged) { /* else changed meanwhile: retry at once */
			list_del(&svc->dirty);
			svc->dirty_since_ns = 0;
		}
	}
	item_decided(s, it);
}

static void item_reject(struct sync *s, struct sync_item *it, int code, const struct err *err,
			uint64_t now)
{
	int64_t trigger_ns = it->svc->trigger_ns;
	bool is_kept = it->svc->service != NULL || it->svc->n_slices > 0;
	struct svc *svc = it->svc;

	plan_claims_defer(s->plan, svc);
	if (it->is_piece) {
		piece_reject(s, it, code, err, now);
	} else {
		plan_rows_reject(s->plan, svc, TAKE(it->rows));
		sync_failure_note(s, svc, code, err, now);
		item_decided(s, it);
	}
	if (is_kept) /* still pending: MET-27 */
		svc->trigger_ns = trigger_ns;
}

/*
 * The service only gives up what it has lost; the rest of its change follows. It gains nothing, so
 * it does not count as one of the transaction (plan_is_lost()).
 */
static struct sync_item item_make_piece(struct sync *s, struct svc *svc)
{
	if (svc == s->large.svc)
		sync_large_forget(s);
	if (!list_is_linked(&svc->dirty))
		model_mark_displaced(s->model, svc);
	plan_claim(s->plan, svc);
	return (struct sync_item){ .svc = svc, .is_settled = true, .is_piece = true };
}

/* `rows`: desired, not settled. */
static struct sync_item item_of(struct svc *svc, struct plan_rows *rows)
{
	list_del(&svc->dirty);
	svc->is_in_transaction = true;
	return (struct sync_item){ .svc = svc, .rows = rows, .is_whole = true };
}

static struct sync_item item_make(struct sync *s, struct svc *svc)
{
	if (plan_is_large(s->plan, svc) && svc->rows != NULL)
		return item_make_piece(s, svc);
	if (svc == s->large.svc)
		sync_large_forget(s);
	return item_of(svc, plan_rows_build(s->plan, svc));
}

size_t sync_rows_weight(const struct plan_rows *rows)
{
	size_t n;

	rows = plan_rows_or_none(rows);
	n = 4 + (size_t)rows->frontends.n;
	vec_for_each (pool, &rows->pools)
		n += pool->ranges.n + pool->backends.n + plan_table_slots(pool);
	return n;
}

/* Of what the item adds or removes. */
static size_t item_weight(const struct sync_item *it)
{
	size_t n = sync_rows_weight(it->rows);

	return it->is_whole ? MAX(n, sync_rows_weight(it->svc->rows)) : n;
}

/* Append an item, as a group of its own. */
static void item_add(struct sync *s, struct sync_item it)
{
	it.group = s->items.n;
	*vec_push(&s->items) = it;
}

static size_t item_find(const struct sync *s, const struct svc *svc)
{
	for (size_t i = 0; i < s->items.n; i++)
		if (s->items.v[i].svc == svc)
			return i;
	return s->items.n;
}

/* The item of `svc`, which gains a frontend, with its whole change. */
static size_t item_need(struct sync *s, struct svc *svc)
{
	size_t at = item_find(s, svc);
	struct sync_item *it = &s->items.v[at];

	if (at == s->items.n) {
		item_add(s, item_make(s, svc));
	} else if (it->is_piece && it->rows == NULL) {
		struct sync_item whole = item_make(s, svc);

		whole.group = it->group;
		whole.no = it->no;
		*it = whole;
	}
	return at;
}

/* `loser` gives up a frontend to `winner`: join their groups, the winner's first. */
static void items_join(struct sync *s, size_t winner, size_t loser)
{
	uint32_t to = s->items.v[winner].group;
	uint32_t from = s->items.v[loser].group;
	uint32_t n = 0;

	if (to == from)
		return;
	vec_for_each (it, &s->items)
		n += it->group == to;
	vec_for_each (it, &s->items) {
		it->no += it->group == from ? n : 0;
		if (it->group == to || it->group == from)
			it->group = MIN(to, from);
	}
}

/* Losers may be many, with a large change each: that does not belong to the transaction. */
static void item_displace(struct sync *s, size_t winner, struct svc *loser)
{
	size_t at = item_find(s, loser);

	if (at == s->items.n && sync_is_adopted(s, loser))
		item_add(s, item_make_piece(s, loser));
	else if (at == s->items.n && !plan_is_large(s->plan, loser))
		item_add(s, item_make(s, loser));
	/* Its own turn, in this load, finds that the kernel has the frontend for the winner. */
	if (at < s->items.n)
		items_join(s, winner, at);
}

static void item_settle(struct sync *s, size_t i)
{
	struct plan_displaced *displaced = &s->displaced;

	s->items.v[i].is_settled = true;
	vec_clear(&displaced->svcs);
	plan_heirs(s->plan, s->items.v[i].svc, displaced);
	vec_for_each (winner, &displaced->svcs)
		items_join(s, item_need(s, *winner), i);
	vec_clear(&displaced->svcs);
	if (s->items.v[i].rows != NULL)
		plan_rows_settle(s->plan, s->items.v[i].rows, displaced);
	vec_for_each (loser, &displaced->svcs)
		item_displace(s, i, *loser);
}

static int item_cmp(const void *a, const void *b)
{
	const struct sync_item *x = a;
	const struct sync_item *y = b;

	return CMP(x->group, y->group) ?: CMP(x->no, y->no);
}

/*
 * Give frontends that several services claim to one by precedence (SEL-14). Services that exchange
 * one are appended; afterwards the items of a group are adjacent.
 */
static void items_settle(struct sync *s)
{
	for (size_t n = 1; n > 0;) { /* item_need() may replace a settled one */
		n = 0;
		for (size_t i = 0; i < s->items.n; i++) {
			if (s->items.v[i].is_settled)
				continue;
			item_settle(s, i);
			n++;
		}
	}
	vec_sort(&s->items, item_cmp);
}

#define CHANGED_RETRY_NS (30 * NSEC_PER_SEC) /* from a change of a spared service to a load */
#define CLAIMS_MAX 2048 /* claims, at least one per service, in a step: about 5 ms */

/*
 * Register the claims of all dirty services before the first of them is built: the service
 * that gains or keeps a frontend may be far behind its loser in the queue. Returns whether
 * services are left for the next step. Changed services are at the end of the queue, in adoption
 * at its head: the search begins there and ends with the last of them.
 */
static bool claims_register(struct sync *s)
{
	struct list *dirty = &s->model->dirty;
	bool is_forward = s->state == SYNC_ADOPTING;
	uint64_t begin = s->model->n_changed; /* the end of a claim may mark another service */
	uint64_t found = s->claimed_no;
	size_t n = 0;

	if (dirty->next == dirty->prev)
		return false;
	for (struct list *l = is_forward ? dirty->next : dirty->prev;
	     l != dirty && (!s->are_claims_made || found != s->model->n_changed);
	     l = is_forward ? l->next : l->prev) {
		struct svc *svc = list_entry(l, struct svc, dirty);

		s->stats.claims_searched++;
		found += !svc->is_unchanged;
		/* That of a large service under way shows whether it changed meanwhile. */
		if (svc->is_unchanged || svc == s->large.svc)
			continue;
		if (n >= CLAIMS_MAX)
			return true;
		n += MAX(plan_claim_work(s->plan, svc), (size_t)1);
		plan_claim(s->plan, svc);
	}
	s->are_claims_made = true;
	s->claimed_no = begin - (s->large.svc != NULL && !s->large.svc->is_unchanged);
	return false;
}

/*
 * A frontend without endpoints in the model, but with endpoints in the kernel: the source
 * may not have read the service's slices yet. Frontends that were accepted with endpoints
 * before lost them by a change.
 */
static bool is_unexplained(const struct sync *s, const struct svc *svc,
			   const struct plan_frontend *f)
{
	return f->target.verdict == PLAN_VERDICT_REJECT &&
	       (svc->rows == NULL || plan_rows_frontend(svc->rows, f) == NULL) &&
	       s->plane->ops->leads(s->plane, f);
}

void sync_rows_explain(struct sync *s, struct plan_rows *rows)
{
	size_t n = rows->frontends.n;

	if (!s->is_sweep_on_hold || !sync_is_plane_loaded(s))
		return;
	vec_keep(&rows->frontends, f, !is_unexplained(s, rows->svc, f));
	if (rows->frontends.n < n)
		plan_rows_drop_unled(rows);
}

static void item_diff(struct sync *s, struct sync_item *it)
{
	if (it->is_piece && it->rows == NULL)
		it->rows = plan_piece_yield(s->plan, it->svc);
	if (it->rows != NULL && !it->is_piece) {
		sync_rows_explain(s, it->rows);
		if (sync_is_plane_loaded(s))
			s->plane->ops->adopt(s->plane, s->plan, it->rows);
		plan_rows_number(s->plan, it->rows);
	}
	it->ops_begin = s->ops.ops.n;
	plan_diff(&s->ops, it->svc, sync_programmed(s, it->svc), it->rows);
	plan_ops_leave_out(s->plan, &s->ops, it->ops_begin);
	it->ops_end = s->ops.ops.n;
}

/*
 * The kernel objects of a spared service are known only while the plane is loaded: put the service
 * off until the next load, which is near if the service was changed, and due if it was deleted.
 */
static bool is_put_off(struct sync *s, struct svc *svc, uint64_t now)
{
	struct sync_failure *f = sync_is_plane_loaded(s) ? NULL : sync_failure_find(s, svc);

	if (f == NULL || f->spared_load == 0)
		return false;
	plan_claim(s->plan, svc); /* the model may free it if it claims nothing */
	f->retry_ns = svc->service == NULL ? 0 : MIN(f->retry_ns, now + CHANGED_RETRY_NS);
	s->next_retry_ns = MIN(s->next_retry_ns, f->retry_ns);
	list_del(&svc->dirty);
	svc->dirty_since_ns = 0;
	return true;
}

/*
 * A deleted service keeps its frontends until the large services that get them take them. One that
 * is large itself is examined when its turn may begin.
 */
static bool is_awaiting(struct sync *s, struct svc *svc)
{
	if (svc->service != NULL || !sync_is_adopted(s, svc))
		return false;
	if (s->large.svc != NULL && plan_is_large(s->plan, svc))
		return true;
	plan_claim(s->plan, svc);
	return plan_awaits_heir(s->plan, svc);
}

/*
 * A large service of which few endpoints changed is programmed like others, if its rows are the
 * kernel's. Otherwise it is the next one that is programmed in pieces.
 */
static void large_collect(struct sync *s, struct svc *svc)
{
	struct plan_rows *rows = NULL;

	if (sync_is_adopted(s, svc) && !sync_is_plane_loaded(s))
		rows = plan_rows_patch(s->plan, svc);
	if (rows != NULL)
		item_add(s, item_of(svc, rows));
	else if (s->large.svc == NULL)
		sync_large_begin(s, svc);
}

/*
 * Collect the services that get frontends of `svc`: they may be many, with a large change each.
 * Returns whether all fit into the transaction, of `weight` so far. Otherwise `svc`, which gives up
 * what these get, follows in a later one.
 */
static bool heirs_collect(struct sync *s, struct svc *svc, size_t weight)
{
	plan_claim(s->plan, svc);
	vec_clear(&s->displaced.svcs);
	plan_heirs(s->plan, svc, &s->displaced);
	vec_for_each (heir, &s->displaced.svcs) {
		if (weight >= s->config.batch_ops)
			return false;
		if (item_find(s, *heir) < s->items.n)
			continue;
		item_add(s, item_make(s, *heir));
		weight += item_weight(&vec_end(&s->items)[-1]);
	}
	return true;
}

/* Fill the transaction: build rows, settle conflicts, append the differences in order. */
static void items_collect(struct sync *s, uint64_t now)
{
	struct list *dirty = &s->model->dirty;
	struct list *last = dirty; /* up to this one they stay in the queue */
	size_t weight = 0;

	vec_clear(&s->items);
	while (last->next != dirty && weight < s->config.batch_ops) {
		struct list *l = last->next;
		struct svc *svc = list_entry(l, struct svc, dirty);
		size_t n = s->items.n;

		if (svc->is_in_transaction) /* marked again by a later service */
			break;
		if (svc == s->large.svc || is_put_off(s, svc, now) || is_awaiting(s, svc))
			;
		else if (plan_is_large(s->plan, svc))
			large_collect(s, svc);
		else if (heirs_collect(s, svc, weight))
			item_add(s, item_make(s, svc));
		for (; n < s->items.n; n++)
			weight += item_weight(&s->items.v[n]);
		if (last->next == l)
			last = l;
	}
}

static size_t group_end(const struct sync *s, size_t i)
{
	for (i++; i < s->items.n && s->items.v[i].group == s->items.v[i - 1].group; i++)
		;
	return i;
}

static size_t group_begin(const struct sync *s, size_t i)
{
	while (i > 0 && s->items.v[i].group == s->items.v[i - 1].group)
		i--;
	return i;
}

/* --- committing --- */

static int commit_range(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err);

/* Does the item gain a frontend that another undecided item of [begin, end) still has? */
static bool is_gaining(const struct sync *s, size_t begin, size_t end, const struct sync_item *it)
{
	for (size_t k = it->ops_begin; k < it->ops_end; k++) {
		const struct plan_op *op = &s->ops.ops.v[k];

		if (op->kind == PLAN_FRONTEND_ADD &&
		    array_has(s->items.v + begin, end - begin, of,
			      of->svc != NULL && of->svc != it->svc && of->svc->rows != NULL &&
				      plan_rows_frontend(of->svc->rows, op->frontend) != NULL))
			return true;
	}
	return false;
}

/* Does the item only give up frontends, one of them claimed? */
static bool is_losing(const struct sync *s, const struct sync_item *it)
{
	return it->is_piece &&
	       array_has(s->ops.ops.v + it->ops_begin, it->ops_end - it->ops_begin, op,
			 op->kind == PLAN_FRONTEND_DEL &&
				 plan_is_claimed(it->svc, op->old_frontend));
}

/*
 * Can the item be committed without its group? Yes when it gains no frontend of the group,
 * and no service that may be the rejected one takes a frontend that the item serves now.
 */
static bool is_separable(const struct sync *s, size_t begin, size_t end, const struct sync_item *it)
{
	return (it->rows == NULL || it->rows->conflicts.n == 0) && !is_losing(s, it) &&
	       !is_gaining(s, begin, end, it);
}

/* Record a failure for the group [begin, end), except for separable services. */
static int reject_group(struct sync *s, size_t begin, size_t end, const struct svc *culprit,
			int code, const struct err *err, uint64_t now)
{
	for (size_t i = begin; i < end && end - begin > 1; i++) {
		const struct sync_item *it = &s->items.v[i];
		struct err own = { 0 };
		int r;

		if (it->svc == culprit || !is_separable(s, begin, end, it))
			continue;
		r = commit_range(s, i, i + 1, now, &own);
		if (r < 0)
			return r;
	}
	for (size_t i = begin; i < end; i++)
		if (s->items.v[i].svc != NULL)
			item_reject(s, &s->items.v[i], code, err, now);
	return 0;
}

/* Commit [begin, end) without the group of item `bad`. */
static int commit_without(struct sync *s, size_t begin, size_t end, size_t bad, int code,
			  uint64_t now, struct err *err)
{
	size_t bad_begin = MAX(group_begin(s, bad), begin);
	size_t bad_end = MIN(group_end(s, bad), end);
	int r = reject_group(s, bad_begin, bad_end, s->items.v[bad].svc, code, err, now);

	if (r == 0)
		r = commit_range(s, begin, bad_begin, now, err);
	return r < 0 ? r : commit_range(s, bad_end, end, now, err);
}

static int commit_halves(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err)
{
	size_t mid = group_begin(s, begin + (end - begin) / 2);
	int r;

	if (mid <= begin)
		mid = group_end(s, begin);
	r = commit_range(s, begin, mid, now, err);
	return r < 0 ? r : commit_range(s, mid, end, now, err);
}

/* Repeat in verify mode if the kernel state differs from svc->rows. */
static int commit_ops(struct sync *s, size_t begin, size_t end, struct plane_result *res,
		      struct err *err)
{
	const struct plan_op *ops = s->ops.ops.v + s->items.v[begin].ops_begin;
	size_t n = s->items.v[end - 1].ops_end - s->items.v[begin].ops_begin;
	int r;

	if (n == 0)
		return 0;
	s->stats.steps++;
	r = s->plane->ops->commit(s->plane, ops, n, PLANE_COMMIT_NORMAL, res, err);
	if (r == -ESTALE) {
		res->families = 0;
		res->culprit = NULL;
		s->audit.is_wanted = true; /* the repeated commit repairs its own rows */
		log_notice(LOG_AREA_SYNC,
			   "kernel state differs from the programmed state: %s; verifying",
			   err->text);
		r = s->plane->ops->commit(s->plane, ops, n, PLANE_COMMIT_VERIFY, res, err);
	}
	s->is_tick_wanted = true;
	if (r == 0)
		sync_family_ok(s, ops, n);
	return r;
}

/*
 * Commit items [begin, end); each is accepted or rejected on its own. Returns a negative
 * errno when the outcome is unknown, our tables are gone, or (-EAGAIN) an address family is
 * newly left out; the other items are then undecided.
 */
static int commit_range(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err)
{
	struct plane_result res = { 0 };
	int r;

	if (begin >= end)
		return 0;
	r = commit_ops(s, begin, end, &res, err);
	sync_result_note(s, &res);
	if (r == 0) {
		if (res.done.n_writes > 0)
			s->rejected_since_ns = 0;
		for (size_t i = begin; i < end; i++)
			item_accept(s, &s->items.v[i]);
		return 0;
	}
	if (r == -EINPROGRESS)
		return -EAGAIN;
	sync_error_note(s, err, now);
	s->stats.failures++;
	if (sync_family_failed(s, r, &res, err))
		return -EAGAIN;
	if (r == -EBUSY || r == -ENOTRECOVERABLE || r == -EPERM)
		return r;
	if (s->rejected_since_ns == 0)
		s->rejected_since_ns = now;
	for (size_t i = begin; res.culprit != NULL && i < end; i++)
		if (s->items.v[i].svc == res.culprit)
			return commit_without(s, begin, end, i, r, now, err);
	if (group_end(s, begin) >= end)
		return reject_group(s, begin, end, NULL, r, err, now);
	return commit_halves(s, begin, end, now, err);
}

/* Put undecided items back to the front of the queue in their order. */
static void items_put_back(struct sync *s)
{
	for (size_t i = s->items.n; i-- > 0;) {
		struct sync_item *it = &s->items.v[i];

		if (it->svc == NULL)
			continue;
		plan_claims_defer(s->plan, it->svc);
		if (it->is_piece && it->rows != NULL)
			plan_piece_reject(it->svc, TAKE(it->rows));
		else
			plan_rows_reject(s->plan, it->svc, TAKE(it->rows));
		if (it->svc == s->large.svc)
			sync_large_forget(s);
		it->svc->is_in_transaction = false;
		list_del(&it->svc->dirty);
		list_add_after(&s->model->dirty, &it->svc->dirty);
	}
}

static int items_commit(struct sync *s, uint64_t now, struct err *err)
{
	int r;

	items_settle(s);
	vec_clear(&s->ops.ops);
	vec_for_each (it, &s->items)
		item_diff(s, it);
	r = commit_range(s, 0, s->items.n, now, err);
	if (r < 0)
		items_put_back(s);
	return r;
}

int sync_commit_rows(struct sync *s, struct svc *svc, struct plan_rows *rows, bool is_piece,
		     uint64_t now, struct err *err)
{
	bool is_whole = !is_piece && svc->is_unchanged;

	vec_clear(&s->items);
	if (is_whole) /* otherwise it stays dirty */
		list_del(&svc->dirty);
	svc->is_in_transaction = true;
	item_add(s, (struct sync_item){ .svc = svc,
					.rows = rows,
					.is_settled = true,
					.is_piece = is_piece,
					.is_whole = is_whole });
	vec_for_each (loser, &s->displaced.svcs)
		item_displace(s, 0, *loser);
	items_settle(s);
	if (s->items.n != 1 && rows != NULL && /* lost to a service that gains from a loser */
	    vec_has(&rows->frontends, f, plan_is_lost(s->plan, svc, f))) {
		items_put_back(s);
		return 0;
	}
	return items_commit(s, now, err);
}

int sync_commit_displaced(struct sync *s, uint64_t now, struct err *err)
{
	vec_clear(&s->items);
	vec_for_each (svc, &s->displaced.svcs)
		item_add(s, item_make(s, *svc));
	return items_commit(s, now, err);
}

int sync_transaction(struct sync *s, uint64_t now)
{
	struct err err = { 0 };

	sync_large_follow(s, now);
	if (claims_register(s))
		return 0;
	s->large.is_turn = !s->large.is_turn;
	if (s->large.svc != NULL && s->large.is_turn)
		return sync_large_step(s, now, &err);
	items_collect(s, now);
	if (s->items.n == 0 && s->large.svc != NULL)
		return sync_large_step(s, now, &err);
	return items_commit(s, now, &err);
}
