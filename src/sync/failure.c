/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sync/failure - services and address families that the kernel rejected, and what is pending. */
#include "sync/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define SPARED_RETRY_MAX_NS (300 * NSEC_PER_SEC) /* each attempt costs a load */
#define OCCUPIED_RETRY_MAX_NS (10 * NSEC_PER_SEC)

struct sync_failure *sync_failure_find(const struct sync *s, const struct svc *svc)
{
	return htable_find(&s->failures, name_pair_hash(svc->ns, svc->name), struct sync_failure, f,
			   f->ns == svc->ns && f->name == svc->name);
}

static void failure_close(struct sync *s, struct sync_failure *f)
{
	htable_remove(&s->failures, &f->node);
	name_pair_unref(f->ns, f->name);
	free(f);
}

static void failure_end(struct sync *s, struct sync_failure *f)
{
	s->is_load_wanted |= f->spared_load == s->plan->load_no; /* to sweep what was spared */
	failure_close(s, f);
}

uint64_t sync_backoff(uint32_t attempts, uint64_t max)
{
	uint64_t ns = SYNC_RETRY_MIN_NS << MIN(attempts, (uint32_t)20);

	return MIN(ns, max);
}

/* A service whose key a foreign object occupies is retried often: the object may go. */
static uint64_t retry_max_ns(const struct sync_failure *f)
{
	if (f->code == -EEXIST)
		return OCCUPIED_RETRY_MAX_NS;
	return f->spared_load != 0 ? SPARED_RETRY_MAX_NS : SYNC_RETRY_MAX_NS;
}

void sync_failure_note(struct sync *s, struct svc *svc, int code, const struct err *err,
		       uint64_t now)
{
	struct sync_failure *f = sync_failure_find(s, svc);

	if (f == NULL) {
		f = xcalloc(1, sizeof(*f));
		f->ns = name_ref(svc->ns);
		f->name = name_ref(svc->name);
		f->since_ns = now;
		htable_insert(&s->failures, &f->node, name_pair_hash(svc->ns, svc->name));
	}
	if (sync_is_plane_loaded(s))
		f->spared_load = s->plan->load_no;
	f->code = code;
	f->retry_ns = now + sync_backoff(f->attempts++, retry_max_ns(f));
	s->next_retry_ns = MIN(s->next_retry_ns, f->retry_ns);
	if (strncmp(f->text, err->text, sizeof(f->text) - 1) != 0)
		log_warn(LOG_AREA_SYNC,
			 "service %s/%s: rejected by the kernel: %s; %s; next attempt in %.1f s",
			 svc->ns->text, svc->name->text, err->text,
			 svc->rows != NULL ? "previous rules stay" : "not programmed",
			 (double)(f->retry_ns - now) / NSEC_PER_SEC);
	(void)snprintf(f->text, sizeof(f->text), "%.*s", (int)sizeof(f->text) - 1, err->text);
	s->stats.rejected++;
	if (s->config.rejected != NULL)
		s->config.rejected(s->config.accepted_arg, svc, f->text);
}

void sync_failure_clear(struct sync *s, const struct svc *svc)
{
	struct sync_failure *f = sync_failure_find(s, svc);

	if (f == NULL)
		return;
	log_notice(LOG_AREA_SYNC, "service %s/%s: recovered after %u rejections", svc->ns->text,
		   svc->name->text, f->attempts);
	failure_end(s, f);
}

uint64_t sync_failures_requeue(struct sync *s, uint64_t now)
{
	uint64_t next = SYNC_NEVER;

	if (s->failures.count == 0)
		return SYNC_NEVER;
	if (now < s->next_retry_ns)
		return s->next_retry_ns;
	htable_for_each_entry_safe (f, tmp, &s->failures, struct sync_failure) {
		struct svc *svc = model_find(s->model, f->ns, f->name);

		if (svc == NULL) {
			failure_end(s, f);
		} else if (f->retry_ns <= now) {
			f->retry_ns = now + SYNC_RETRY_MAX_NS; /* the attempt sets it again */
			if (f->spared_load != 0 && !sync_is_plane_loaded(s))
				s->is_load_wanted = true;
			else
				model_mark_dirty(s->model, svc, now);
		} else {
			next = MIN(next, f->retry_ns);
		}
	}
	s->next_retry_ns = next;
	return next;
}

void sync_failures_fini(struct sync *s)
{
	htable_for_each_entry_safe (f, tmp, &s->failures, struct sync_failure)
		failure_close(s, f);
	htable_fini(&s->failures);
}

size_t sync_failure_count(const struct sync *s)
{
	return s->failures.count;
}

size_t sync_occupied_count(const struct sync *s)
{
	size_t n_occupied = 0;

	htable_for_each_entry (f, &s->failures, const struct sync_failure)
		n_occupied += f->code == -EEXIST;
	return n_occupied;
}

static int failure_cmp(const void *a, const void *b)
{
	const struct sync_failure *fa = *(const struct sync_failure *const *)a;
	const struct sync_failure *fb = *(const struct sync_failure *const *)b;

	return name_pair_cmp(fa->ns, fa->name, fb->ns, fb->name);
}

const struct sync_failure **sync_failures(const struct sync *s, size_t *n)
{
	const struct sync_failure **v = xcalloc(s->failures.count, sizeof(*v));
	size_t i = 0;

	htable_for_each_entry (f, &s->failures, const struct sync_failure)
		v[i++] = f;
	qsort(v, i, sizeof(*v), failure_cmp);
	*n = i;
	return v;
}

/* --- what is pending --- */

#define DIRTY_CHECK_MAX 64

size_t sync_pending_count(const struct sync *s)
{
	size_t n = 0;

	list_for_each (l, &s->model->dirty)
		n++;
	htable_for_each_entry (f, &s->failures, const struct sync_failure) {
		const struct svc *svc = model_find(s->model, f->ns, f->name);

		n += svc == NULL || !list_is_linked(&svc->dirty); /* else it is counted already */
	}
	return n;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The queue is in order of arrival; entries that a foreign change made dirty have no time. */
static uint64_t dirty_since(const struct sync *s)
{
	int checked = 0;

	list_for_each_entry (svc, &s->model->dirty, struct svc, dirty) {
		if (svc->dirty_since_ns > 1)
			return svc->dirty_since_ns;
		if (++checked == DIRTY_CHECK_MAX)
			break;
	}
	return 0;
}

/* Is the service the cause, whatever state the kernel is in? See plane_ops.commit. */
static bool is_of_service(const struct sync_failure *f)
{
	return f->code == -ENOSPC || f->code == -EADDRNOTAVAIL || f->code == -EEXIST;
}

/* While the kernel accepts changes, the services are the cause of rejections, however many. */
static uint64_t rejected_since(const struct sync *s)
{
	uint64_t since = 0;
	size_t n = 0;

	if (s->rejected_since_ns == 0 || s->failures.count * 2 < s->model->stats.services)
		return 0;
	htable_for_each_entry (f, &s->failures, const struct sync_failure) {
		if (is_of_service(f))
			continue;
		since = earlier(since, f->since_ns);
		n++;
	}
	return n == 0 || n * 2 < s->model->stats.services ? 0 : MAX(since, s->rejected_since_ns);
}

uint64_t sync_pending_since(const struct sync *s)
{
	if (s->state == SYNC_WAITING)
		return 0;
	return earlier(earlier(s->pending_since_ns, dirty_since(s)), rejected_since(s));
}

/* --- address families --- */

/* After so many rejections in a row the family is the cause, not the services. */
#define FAMILY_REJECTIONS_MAX 8

bool sync_family_failed(struct sync *s, int r, const struct plane_result *res,
			const struct err *err)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		if (res->families != 1u << fam)
			continue;
		if (r == -ENOTRECOVERABLE) /* the next load finds which families are gone */
			return s->state == SYNC_ADOPTING && plane_family_lost(s->plane, fam) == 0;
		if (++s->family_rejections[fam] < FAMILY_REJECTIONS_MAX && r != -EPERM &&
		    r != -EOPNOTSUPP && r != -EAFNOSUPPORT && r != -EBUSY)
			return false;
		s->family_rejections[fam] = 0;
		return plane_family_fail(s->plane, fam, r, err) == 0;
	}
	return false;
}

void sync_family_ok(struct sync *s, const struct plan_op *ops, size_t n)
{
	for (size_t i = 0; i < n && (s->family_rejections[0] | s->family_rejections[1]) != 0; i++) {
		const struct plan_op *op = &ops[i];
		const struct plan_frontend *f = op->frontend ? op->frontend : op->old_frontend;

		s->family_rejections[op->pool != NULL ? op->pool->fam : ip_fam(&f->addr)] = 0;
	}
}
