/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/history - a ring of seconds. */
#include "api/history.h"

#include <stdlib.h>
#include <string.h>

#include "api/body.h"

#define COUNTERS 4
static const char *const names[COUNTERS] = { "events", "services", "writes", "rejections" };

/* Counts of one second. */
struct second {
	uint64_t at; /* now_ns() in seconds; 0 = never used */
	uint64_t n[COUNTERS];
	uint64_t acks; /* acknowledged services */
	uint64_t ack_sum_ns;
	uint64_t slow_us; /* upper bound of the longest time to acknowledge */
};

struct history {
	const struct serve_context *ctx;
	struct second ring[HISTORY_SECONDS];
	/* Counters at the last history_note(). */
	uint64_t seen[COUNTERS];
	struct hist acks;
};

void history_open(struct history **ret, const struct serve_context *ctx)
{
	struct history *h = xcalloc(1, sizeof(*h));

	h->ctx = ctx;
	*ret = h;
}

void history_close(struct history *h)
{
	free(h);
}

/* The upper bound of the highest bucket that changed; the last one has none but the maximum. */
static uint64_t slowest_us(const struct hist *old, const struct hist *new)
{
	uint64_t max = new->max_ns / NSEC_PER_USEC + 1;

	for (unsigned int i = HIST_BUCKETS; i-- > 0;)
		if (new->bucket[i] != old->bucket[i])
			return i < HIST_BUCKETS - 1 ? MIN(UINT64_C(1) << i, max) : max;
	return 0;
}

void history_note(struct history *h, uint64_t now_ns)
{
	const struct model_stats *m = &h->ctx->model->stats;
	const struct sync_stats *st = sync_stats_get(h->ctx->sync);
	const struct hist *acks = &st->event_to_ack;
	const uint64_t now[COUNTERS] = { m->service_events + m->slice_events, st->services,
					 st->writes, st->rejected };
	uint64_t at = now_ns / NSEC_PER_SEC;
	struct second *s = &h->ring[at % HISTORY_SECONDS];

	if (memcmp(now, h->seen, sizeof(now)) == 0 && acks->count == h->acks.count)
		return;
	if (s->at != at)
		*s = (struct second){ .at = at };
	for (size_t i = 0; i < COUNTERS; i++)
		s->n[i] += now[i] - h->seen[i];
	s->acks += acks->count - h->acks.count;
	s->ack_sum_ns += acks->sum_ns - h->acks.sum_ns;
	s->slow_us = MAX(s->slow_us, slowest_us(&h->acks, acks));
	memcpy(h->seen, now, sizeof(now));
	h->acks = *acks;
}

/* --- the answer --- */

static void view_second(struct jsonw *w, const struct second *s, uint64_t now_s)
{
	jsonw_object(w, NULL);
	jsonw_uint(w, "age_s", now_s - s->at);
	for (size_t i = 0; i < COUNTERS; i++)
		jsonw_uint(w, names[i], s->n[i]);
	jsonw_uint_if(w, "ack_mean_us", s->acks > 0,
		      s->ack_sum_ns / MAX(s->acks, UINT64_C(1)) / NSEC_PER_USEC);
	jsonw_uint_if(w, "ack_max_us", s->acks > 0, s->slow_us);
	jsonw_end(w);
}

void body_history(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	struct jsonw w;
	uint64_t now_s = now_ns() / NSEC_PER_SEC;
	uint64_t at = MAX(now_s, (uint64_t)HISTORY_SECONDS) - HISTORY_SECONDS + 1;

	body_begin(reply, &w);
	jsonw_uint(&w, "seconds", HISTORY_SECONDS);
	jsonw_array(&w, "items");
	/* Oldest first. */
	for (; ctx->history != NULL && at <= now_s; at++) {
		const struct second *s = &ctx->history->ring[at % HISTORY_SECONDS];

		if (s->at == at)
			view_second(&w, s, now_s);
	}
	jsonw_end(&w);
	body_end(reply, &w);
}
