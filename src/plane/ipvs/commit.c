/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/commit - one commit: add hairpins, add to IPVS, change nf_tables, remove from IPVS.
 *
 *  The difference between desired and programmed becomes operations on IPVS. A commit compares only
 * what it touched: destinations that it names, and all destinations of a service that is_whole.
 * Each acknowledged operation is recorded at once: the programmed state is correct also after a
 * rejection.
 */
#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "base/log.h"
#include "model/tuning.h"
#include "plane/ipvs/state.h"

/* kube-proxy's ipvs mode binds the addresses of Services to this device. */
#define KUBE_IPVS "kube-ipvs0"
#define SWEEP_SERVICES 8192 /* of a step of the sweep */

/* --- operations --- */

static struct ipvs_op *op_push(struct ipvs_plane *p, uint8_t cmd, struct ipvs_vs *vs)
{
	struct ipvs_op *op = vec_push(&p->ops);

	*op = (struct ipvs_op){ .cmd = cmd, .service.key = vs->key, .tag = vs };
	return op;
}

/* Destinations after the operations so far. */
static size_t dests_count(const struct ipvs_vs *vs)
{
	size_t n = 0;

	if (vs->dests.n <= IPVS_MH_DESTS_MAX)
		return vs->dests.n;
	vec_for_each (d, &vs->dests)
		n += d->flags & DST_PROGRAMMED || d->desired_weight != 0;
	return n;
}

/* The desired virtual service. */
static struct ipvs_service vs_desired(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	struct ipvs_service s = { .key = vs->key };
	struct scheduler sched = ipvs_sched_in_force(vs->desired.sched, p->sched,
						     vs->key.mark != 0 ? vs->desired.timeout_s : 0,
						     dests_count(vs), p->missing_scheds);

	s.flags = sched.flags;
	if (vs->key.mark == 0) {
		s.flags |=
			IPVS_FLAG_OURS | (vs->desired.timeout_s != 0 ? IP_VS_SVC_F_PERSISTENT : 0);
		s.timeout_s = vs->desired.timeout_s;
	}
	memcpy(s.sched, scheduler_name(sched.no), strlen(scheduler_name(sched.no)) + 1);
	return s;
}

void ipvs_op_service(struct ipvs_plane *p, uint8_t cmd, struct ipvs_vs *vs)
{
	op_push(p, cmd, vs)->service = vs_desired(p, vs);
}

void ipvs_op_dest(struct ipvs_plane *p, uint8_t cmd, struct ipvs_vs *vs, const struct ipvs_dst *d,
		  uint32_t weight)
{
	op_push(p, cmd, vs)->dest = (struct ipvs_dest){
		.addr = d->addr, .port = d->port, .fwd = vs->desired.forwarding, .weight = weight
	};
}

void ipvs_op_drain(struct ipvs_plane *p, struct ipvs_vs *vs, const struct ipvs_dst *d,
		   uint32_t since_s, uint32_t deadline_s)
{
	op_push(p, IPVS_CMD_SET_DEST, vs)->dest =
		(struct ipvs_dest){ .addr = d->addr,
				    .port = d->port,
				    .fwd = d->fwd,
				    .weight = p->is_retiring ? d->weight : 0,
				    .l_thresh = since_s,
				    .u_thresh = deadline_s != 0 ? deadline_s : IPVS_THRESH_NONE };
}

/* --- results --- */

static void service_done(struct ipvs_vs *vs, const struct ipvs_op *op)
{
	if (op->cmd == IPVS_CMD_DEL_SERVICE) {
		vs->is_programmed = false;
		return;
	}
	vs->is_new |= op->cmd == IPVS_CMD_NEW_SERVICE;
	ipvs_vs_programmed(vs, &op->service);
}

/* The kernel does not have the destination any more. */
static void dst_gone(struct ipvs_dst *d)
{
	d->flags &= (uint8_t) ~(DST_PROGRAMMED | DST_DIFFERS | DST_DRAINING);
}

static void dest_done(struct ipvs_plane *p, struct ipvs_vs *vs, const struct ipvs_op *op)
{
	struct ipvs_dst *d = ipvs_dst_find(vs, &op->dest);

	p->large.is_stale |= p->large.vs == vs && op->cmd == IPVS_CMD_DEL_DEST;
	p->n_deleted[0] += op->cmd == IPVS_CMD_DEL_DEST;
	if (d == NULL)
		return;
	if (p->large.vs == vs)
		d->flags |= DST_RECENT;
	if (op->cmd == IPVS_CMD_DEL_DEST) {
		dst_gone(d);
		return;
	}
	if (op->cmd == IPVS_CMD_NEW_DEST)
		d->flags |= DST_NEW;
	d->flags |= DST_PROGRAMMED;
	d->flags &= (uint8_t)~DST_DIFFERS;
	d->weight = (uint16_t)op->dest.weight;
	d->fwd = op->dest.fwd;
	d->since_s = op->dest.l_thresh;
	d->deadline_s = op->dest.u_thresh < IPVS_THRESH_NONE ? op->dest.u_thresh : 0;
	if (op->dest.l_thresh == 0)
		d->flags &= (uint8_t)~DST_DRAINING;
}

/* The object of a rejected operation does not exist, or has no scheduler any more. */
static void missing_note(struct ipvs_vs *vs, const struct ipvs_op *op)
{
	struct ipvs_dst *d;

	/* ip_vs_edit_service() has unbound the old scheduler, unless the new one does not exist. */
	if (op->cmd == IPVS_CMD_SET_SERVICE && op->result != -ENOENT)
		vs->programmed_sched = 0;
	if (op->result == -ESRCH) {
		vs->is_programmed = false;
		vec_for_each (each, &vs->dests)
			dst_gone(each);
		return;
	}
	d = op->cmd >= IPVS_CMD_NEW_DEST ? ipvs_dst_find(vs, &op->dest) : NULL;
	if (d != NULL && op->result == -ENOENT)
		dst_gone(d);
}

static bool is_removal(const struct ipvs_op *op)
{
	return op->cmd == IPVS_CMD_DEL_SERVICE || op->cmd == IPVS_CMD_DEL_DEST ||
	       (op->cmd == IPVS_CMD_SET_DEST && op->dest.l_thresh != 0);
}

static bool is_sched_missing(const struct ipvs_op *op)
{
	return op->result == -ENOENT &&
	       (op->cmd == IPVS_CMD_NEW_SERVICE || op->cmd == IPVS_CMD_SET_SERVICE);
}

static bool is_excluded(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	return ipvs_is_excluded(&vs->key, p->config.exclude, p->config.n_exclude);
}

/* A foreign virtual service has the address and port that affinity or forwarding needs. */
static int occupied_err(const struct ipvs_plane *p, const struct ipvs_vs *vs, const char *key,
			struct err *err)
{
	if (if_nametoindex(KUBE_IPVS) != 0 && !is_excluded(p, vs))
		return err_set(err, -EEXIST,
			       "IPVS %s: kube-proxy's ipvs mode left a virtual service there; "
			       "run vipd --cleanup=kube-proxy, which hands it over to vipd",
			       key);
	return err_set(err, -EEXIST,
		       "IPVS %s: a foreign virtual service is there (ipvsadm -Ln): delete it, or "
		       "serve without %s",
		       key,
		       vs->desired.forwarding != FORWARDING_MASQUERADE ? "vipd.io/forwarding"
								       : "ClientIP affinity");
}

/* Without the default scheduler no service can be served: no service is at fault. */
static int sched_fault(struct ipvs_plane *p, const char *sched, struct err *err)
{
	int r = err_set(err, -EPERM,
			"IPVS scheduler %s is not loaded: modprobe ip_vs_%s, or choose another "
			"with --ipvs-scheduler",
			sched, sched);

	(void)plane_fault_set(&p->common.plane, PLANE_FAULT_SCHEDULER, true, err->text);
	return r;
}

static int rejected_err(struct ipvs_plane *p, const struct ipvs_op *op, struct err *err)
{
	const char *key = ipvs_key_str(&op->service.key);
	int r = op->result;

	if (is_sched_missing(op)) /* the default scheduler: others are replaced by the default */
		return sched_fault(p, op->service.sched, err);
	if (r == -EEXIST && op->cmd == IPVS_CMD_NEW_SERVICE &&
	    ((const struct ipvs_vs *)op->tag)->is_foreign)
		return occupied_err(p, op->tag, key, err);
	if (r == -EEXIST || r == -ESRCH || (r == -ENOENT && op->cmd >= IPVS_CMD_NEW_DEST))
		r = -ESTALE;
	/* The address of the destination is not unicast, such as a broadcast one. */
	if (r == -EINVAL && op->cmd == IPVS_CMD_NEW_DEST)
		r = -EADDRNOTAVAIL;
	if (op->cmd < IPVS_CMD_NEW_DEST)
		return err_set(err, r, "IPVS %s: %s", key, strerror(-op->result));
	return err_set(err, r, "IPVS %s, destination %s: %s", key,
		       ip_endpoint_str(&op->dest.addr, op->dest.port), strerror(-op->result));
}

/*
 * The kernel lacks a scheduler of the commit: replace it in all services of the commit, as the
 * kernel requests the module again for each operation with it. False: it is the default.
 */
static bool sched_replace(struct ipvs_plane *p, const struct ipvs_op *op)
{
	uint8_t no = scheduler_no(op->service.sched);
	struct ipvs_tuning tuning;

	if (no == p->sched.no || ((const struct ipvs_vs *)op->tag)->svc == NULL)
		return false;
	p->missing_scheds |= UINT32_C(1) << no;
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched) {
		if (vs->svc == NULL || vs->desired.sched.no != no)
			continue;
		ipvs_tuning_read(&tuning, p, vs->svc->service, NULL);
		vs->desired.sched = tuning.sched;
	}
	p->is_sched_replaced = true;
	return true;
}

static int results_note(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	int r = 0;

	vec_for_each (op, &p->ops) {
		struct ipvs_vs *vs = op->tag;

		if (!op->is_done)
			continue;
		if (op->result == 0 && op->cmd >= IPVS_CMD_NEW_DEST) {
			dest_done(p, vs, op);
		} else if (op->result == 0) {
			service_done(vs, op);
		} else {
			missing_note(vs, op);
			/* The removal is already done. */
			if (is_removal(op) && (op->result == -ENOENT || op->result == -ESRCH))
				continue;
			if (is_sched_missing(op) && sched_replace(p, op))
				continue;
			if (r == 0) {
				r = rejected_err(p, op, err);
				res->culprit = vs->svc;
				/* Else the kernel is at fault, or the service: rejected_err(). */
				if (op->cmd < IPVS_CMD_NEW_DEST &&
				    op->cmd != IPVS_CMD_SET_SERVICE && r != -EEXIST && r != -EPERM)
					res->families = (uint8_t)(1u << vs->key.fam);
			}
		}
	}
	return r;
}

/* Only the default scheduler can be unsafe here: tuning.c checks those of annotations. */
static int unsafe_check(struct ipvs_plane *p, struct err *err)
{
	vec_for_each (op, &p->ops)
		if (ipvs_sched_is_unsafe(p, scheduler_no(op->service.sched)))
			return sched_fault(p, op->service.sched, err);
	return 0;
}

int ipvs_ops_send(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	uint64_t began;
	int r;

	if (p->ops.n == 0)
		return 0;
	began = now_ns();
	r = unsafe_check(p, err);
	while (r == 0 && p->ops.n > 0 && !p->is_sched_replaced) {
		r = ipvs_wire_send(p->wire, p->ops.v, p->ops.n, &res->done.n_writes, err);
		if (r == 0 || r == -ECANCELED) {
			r = results_note(p, res, err);
			vec_keep(&p->ops, op, !op->is_done); /* after a removal already done */
		}
	}
	vec_clear(&p->ops);
	res->done.kernel_ns += now_ns() - began;
	res->done.n_batches++;
	return r == -ENOBUFS ? -EBUSY : r;
}

/* --- additions --- */

bool ipvs_vs_differs(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	struct ipvs_service desired;

	if (!ipvs_vs_is_desired(vs) || !vs->is_programmed)
		return false;
	desired = vs_desired(p, vs);
	return vs->programmed_sched != scheduler_no(desired.sched) ||
	       vs->programmed_flags != desired.flags ||
	       (vs->programmed_timeout_s != desired.timeout_s && desired.timeout_s != 0);
}

void ipvs_op_service_renew(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	if (!ipvs_vs_differs(p, vs))
		return;
	/* The kernel waits until no processor uses the scheduler that it unbinds. */
	if (vs->programmed_sched != 0 &&
	    vs->programmed_sched != scheduler_no(vs_desired(p, vs).sched) &&
	    p->n_renewed++ >= IPVS_RENEWALS)
		return;
	ipvs_op_service(p, IPVS_CMD_SET_SERVICE, vs);
}

static void dst_add(struct ipvs_plane *p, struct ipvs_vs *vs, struct ipvs_dst *d)
{
	if (d->desired_weight == 0 || ipvs_dst_is_good(vs, d))
		return;
	ipvs_op_dest(p, d->flags & DST_PROGRAMMED ? IPVS_CMD_SET_DEST : IPVS_CMD_NEW_DEST, vs, d,
		     d->desired_weight);
}

/*
 * `is_by_addr`: only new virtual services by address. If one is foreign, the kernel rejects its
 * addition, but not destinations that follow in the datagram.
 */
static void additions_collect(struct ipvs_plane *p, bool is_by_addr)
{
	vec_clear(&p->ops);
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched) {
		if (!ipvs_vs_is_desired(vs) || (is_by_addr && vs->key.mark != 0))
			continue;
		if (!vs->is_programmed) {
			vs->is_whole |= !vs->is_part;
			ipvs_op_service(p, IPVS_CMD_NEW_SERVICE, vs);
		}
		if (is_by_addr)
			continue;
		ipvs_op_service_renew(p, vs);
		vec_for_each (d, &vs->dests)
			if ((vs->is_whole && !vs->is_part) || d->flags & DST_TOUCHED)
				dst_add(p, vs, d);
	}
}

/*
 * Program desired services and destinations. On failure `culprit` is the rejected service.
 * After a missing scheduler was replaced, only operations without an acknowledgement are sent
 * again.
 */
static int additions_send(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	int r;

	do {
		p->is_sched_replaced = false;
		p->n_renewed = 0;
		res->culprit = NULL;
		res->families = 0; /* of the attempt with the missing scheduler */
		r = 0;
		for (int i = 1; r == 0 && !p->is_sched_replaced && i >= 0; i--) {
			additions_collect(p, i == 1);
			r = ipvs_ops_send(p, res, err);
		}
	} while (p->is_sched_replaced && r != -EBUSY);
	return r;
}

/* --- removals --- */

static bool is_to_drain(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	bool is_compared = vs->is_whole || d->flags & DST_TOUCHED;
	bool stays = ipvs_vs_is_desired(vs) && (d->desired_weight != 0 || !is_compared);

	return d->flags & DST_PROGRAMMED && !(d->flags & DST_DRAINING) && !stays;
}

/* Do at most `*left` work, and reduce it. False: destinations are left. */
static bool vs_remove(struct ipvs_plane *p, struct ipvs_vs *vs, size_t *left)
{
	size_t work = ipvs_dests_work(vs, vs->dests.n);
	bool has_dests = false;
	bool is_done = true;

	ipvs_drain_retime(p, vs);
	vec_for_each (d, &vs->dests) {
		bool is_left = is_to_drain(vs, d);
		bool is_gone = is_left && *left > 0 && ipvs_drain_begin(p, vs, d);

		is_done &= !is_left || *left > 0;
		*left -= is_left ? MIN(work, *left) : 0;
		has_dests |= d->flags & DST_PROGRAMMED && !is_gone;
	}
	if (!ipvs_vs_is_desired(vs) && vs->is_programmed && !has_dests)
		ipvs_op_service(p, IPVS_CMD_DEL_SERVICE, vs);
	ipvs_drain_watch(p, vs);
	return is_done;
}

/* Start to drain programmed services and destinations that are not desired. */
static int removals_send(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	size_t left = SIZE_MAX;

	vec_clear(&p->ops);
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched)
		(void)vs_remove(p, vs, &left);
	return ipvs_ops_send(p, res, err);
}

int ipvs_ops_sweep(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	size_t left = PLANE_PIECE_WORK;
	bool is_done = true;
	size_t n = 0;
	int r;

	vec_clear(&p->ops);
	htable_for_each_entry_safe (vs, tmp, &p->vss, struct ipvs_vs) {
		if (vs->is_kept && !vs->desired.exists && is_excluded(p, vs)) {
			ipvs_vs_free(p, vs); /* foreign: nothing would find that it is deleted */
			continue;
		}
		if (vs->is_kept || vs->is_swept || p->common.plane.family[vs->key.fam].is_failed)
			continue;
		is_done = left > 0 && n++ < SWEEP_SERVICES;
		if (!is_done)
			break;
		ipvs_vs_touch(p, vs, NULL);
		vs->is_whole = true;
		vs->is_swept = is_done = vs_remove(p, vs, &left);
	}
	r = ipvs_ops_send(p, res, err);
	ipvs_ops_done(p);
	return r < 0 ? r : !is_done;
}

/* --- the end of a commit --- */

static void vs_undo(struct ipvs_vs *vs)
{
	if (vs->desired.pool != vs->was.pool) {
		list_del(&vs->sibling);
		if (vs->was.pool != NULL)
			list_add_tail(&vs->was.pool->vip_services, &vs->sibling);
	}
	vs->desired = vs->was;
	vec_for_each (d, &vs->dests) {
		if (!(d->flags & DST_TOUCHED))
			continue;
		d->flags = (uint8_t)((d->flags & ~DST_DRAINING) | (d->was_flags & DST_DRAINING));
		d->desired_weight = d->was_desired_weight;
	}
}

/* A new destination of a virtual service that was vipd's before may have connections: it drains. */
static void additions_withdraw(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	bool has_clients = vs->is_programmed && !vs->is_new;
	uint32_t now_s = ipvs_now_s(p);

	vec_for_each (d, &vs->dests) {
		bool is_withdrawn = d->flags & DST_NEW && d->desired_weight == 0;

		if (!(d->flags & DST_PROGRAMMED))
			continue;
		if (is_withdrawn && has_clients) {
			(void)ipvs_drain_begin(p, vs, d);
		} else if (is_withdrawn) {
			ipvs_op_dest(p, IPVS_CMD_DEL_DEST, vs, d, 0);
		} else if (d->flags & DST_DRAINING && d->weight != 0) {
			d->flags &= (uint8_t)~DST_COUNTED;
			ipvs_op_drain(p, vs, d, now_s, ipvs_drain_deadline(now_s, vs->drain_s));
		}
	}
	if (vs->is_new && !vs->desired.exists)
		ipvs_op_service(p, IPVS_CMD_DEL_SERVICE, vs);
	else if (vs->programmed_sched == 0)
		ipvs_op_service_renew(p, vs);
}

/*
 * The commit failed: restore the desired state, delete what was added. `is_rejected`: in the loaded
 * phase sweep() keeps what the kernel has of these services. `is_unknown`: nf_tables may lead to
 * what was added, which stays until the sweep of the load that follows.
 */
static void commit_undo(struct ipvs_plane *p, bool is_rejected, bool is_unknown)
{
	struct plane_result res = { 0 };
	struct err err = { 0 };

	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched)
		vs_undo(vs);
	vec_clear(&p->ops);
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched) {
		if (is_unknown)
			break;
		additions_withdraw(p, vs);
		vs->is_kept |= is_rejected && p->common.loaded != NULL;
		ipvs_drain_watch(p, vs);
	}
	if (ipvs_ops_send(p, &res, &err) < 0)
		log_warn(LOG_AREA_PLANE,
			 "IPVS: failed commit not undone: %s; the next audit repairs it", err.text);
	ipvs_ops_done(p);
}

void ipvs_ops_done(struct ipvs_plane *p)
{
	list_for_each_entry_safe (vs, tmp, &p->touched, struct ipvs_vs, touched) {
		list_del(&vs->touched);
		vs->is_whole = vs->is_part = vs->is_new = false;
		vs->has_serving = false;
		vs->svc = NULL;
		vec_for_each (d, &vs->dests)
			d->flags &= (uint8_t) ~(DST_NEW | DST_TOUCHED);
		vec_keep(&vs->dests, d, d->flags & DST_PROGRAMMED || d->desired_weight != 0);
		if (!vs->desired.exists && !vs->is_programmed)
			ipvs_vs_free(p, vs);
	}
	p->is_sched_replaced = false; /* a commit without an answer leaves it */
}

/* --- commit --- */

/* Read a large service in steps. Its destinations besides those of the commit: for the audit. */
static int large_verify(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	int r = ipvs_large_read(p, vs, err);

	vs->is_verified = r > 0;
	vs->is_part = true;
	return r > 0 ? err_set(err, -EINPROGRESS, "a large service is being read") : r;
}

/* Verify and audit: read the touched services, in an audit with the first part of each. */
static int services_read(struct ipvs_plane *p, enum plane_commit_mode mode, struct err *err)
{
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched) {
		int r = 0;

		if (mode == PLANE_COMMIT_VERIFY && ipvs_vs_is_large(vs)) {
			r = large_verify(p, vs, err);
			if (r < 0)
				return r;
			continue;
		}
		if (mode != PLANE_COMMIT_AUDIT || (vs->is_whole && !vs->is_read))
			r = ipvs_vs_read(p, vs, err);
		if (r < 0)
			return r;
		/* Parts that follow add the destinations of a large service. */
		vs->is_part = mode == PLANE_COMMIT_AUDIT && (vs->is_read || !vs->is_whole);
		vs->is_read &= !vs->is_whole;
		/* Else a loaded service may lack pieces (n_found in plan/rows.h). */
		vs->is_whole |= mode != PLANE_COMMIT_AUDIT && p->common.loaded == NULL;
	}
	return 0;
}

int ipvs_commit(struct plane *plane, const struct plan_op *ops, size_t n,
		enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	if (p->layout.state != IPVS_LAYOUT_PRESENT)
		return err_set(err, -ENOTRECOVERABLE,
			       "table inet " IPVS_TABLE ": layout not loaded");
	assert(mode != PLANE_COMMIT_AUDIT || p->common.loaded == NULL);
	nft_changes_reset(&p->common.changes);
	r = plane_translate(&p->common, ipvs_translate, NULL, ops, n, &res->culprit, err);
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched)
		if (mode == PLANE_COMMIT_NORMAL && vs->is_verified)
			mode = PLANE_COMMIT_VERIFY;
	for (size_t i = 0; i < n && r == 0 && mode == PLANE_COMMIT_VERIFY; i++)
		if (ops[i].kind == PLAN_FRONTEND_ADD || ops[i].kind == PLAN_FRONTEND_CHANGE)
			plane_frontend_reread(&p->common, ops[i].frontend, ops[i].svc);
	if (r == 0)
		r = plane_settle(&p->common, mode, err);
	if (r == 0 && mode != PLANE_COMMIT_NORMAL)
		r = services_read(p, mode, err);
	if (r == 0)
		r = plane_transact_early(&p->common, res, err);
	if (r == 0) {
		r = additions_send(p, res, err);
		if (r < 0)
			r = plane_early_undo(&p->common, r, res, err);
	}
	if (r == 0)
		r = plane_transact(&p->common, res, err);
	if (r < 0) {
		commit_undo(p, plane_rejection_note(&p->common, r, mode, ops, n, res), r == -EBUSY);
		return r;
	}
	if (plane_fault_clear(&p->common.plane, PLANE_FAULT_SCHEDULER))
		log_notice(LOG_AREA_PLANE, "ipvs: recovered: the kernel has scheduler %s",
			   scheduler_name(p->sched.no));
	if (mode != PLANE_COMMIT_AUDIT)
		plane_applied(&p->common);
	/* In the loaded phase another service of an earlier transaction may have been rejected. */
	list_for_each_entry (vs, &p->touched, struct ipvs_vs, touched)
		vs->is_kept = false;
	r = removals_send(p, res, err);
	ipvs_ops_done(p);
	if (r == 0)
		return 0;
	/* nf_tables is up to date: the next load, of both families, finds what is left in IPVS. */
	res->families = 0;
	return -EBUSY;
}
