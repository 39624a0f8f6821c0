/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/fault - the faults of a plane, one text for each kind. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "plane/plane.h"

#define FAMILY_RETRY_MIN_NS (200 * NSEC_PER_MSEC)
/* Each attempt reads the whole kernel state. */
#define FAMILY_RETRY_MAX_NS (10 * NSEC_PER_SEC)
/* After this time without a failure, the next one counts as the first. */
#define FAMILY_FORGET_NS (300 * NSEC_PER_SEC)
/* After this time in failure the node is not ready for traffic. */
#define FAMILY_UNREADY_NS (10 * NSEC_PER_SEC)
#define LOST_MAX 10
#define LOST_WINDOW_NS (10 * NSEC_PER_SEC)

bool plane_fault_set(struct plane *p, enum plane_fault_kind kind, bool is_unready, const char *text)
{
	struct plane_fault *f = &p->faults[kind];
	char cut[sizeof(f->text)];

	(void)snprintf(cut, sizeof(cut), "%s", text);
	if (f->is_unready == is_unready && strcmp(f->text, cut) == 0)
		return false;
	f->is_unready = is_unready && cut[0] != '\0';
	memcpy(f->text, cut, sizeof(cut));
	return true;
}

bool plane_fault_clear(struct plane *p, enum plane_fault_kind kind)
{
	return plane_fault_set(p, kind, false, "");
}

const char *plane_unready(const struct plane *p)
{
	for (int i = 0; p != NULL && i < PLANE_FAULT_N; i++)
		if (p->faults[i].is_unready)
			return p->faults[i].text;
	return NULL;
}

/* --- address families --- */

uint8_t plane_families_failed(const struct plane *p)
{
	uint8_t ret = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		ret |= (uint8_t)(p->family[fam].is_failed << fam);
	return ret;
}

bool plane_family_has_failed(const struct plane *p, enum ipfam fam)
{
	return p != NULL && p->family[fam].since_ns != 0;
}

/* Delay before the next attempt. */
static uint64_t family_pause(const struct plane_family *f)
{
	uint32_t shift = MIN(f->failures, UINT32_C(10));

	return MIN(FAMILY_RETRY_MIN_NS << shift >> 1, FAMILY_RETRY_MAX_NS);
}

int plane_family_fail(struct plane *p, enum ipfam fam, int code, const struct err *err)
{
	struct plane_family *f = &p->family[fam];
	uint64_t now = now_ns();
	char text[sizeof(p->faults[0].text)];

	if ((plane_families_failed(p) | 1u << fam) == (1u << IPFAM_N) - 1) {
		for (int i = 0; i < IPFAM_N; i++)
			p->family[i].is_failed = false;
		return code;
	}
	if (f->since_ns == 0 && now - f->recovered_ns > FAMILY_FORGET_NS)
		f->failures = 0;
	if (f->since_ns == 0)
		f->since_ns = now;
	f->retry_ns = 0;
	f->failures++;
	f->is_failed = true;
	f->n_again = 0;
	(void)snprintf(text, sizeof(text), "%s failed: %.200s", ipfam_text(fam), err->text);
	if (plane_fault_set(p, PLANE_FAULT_FAMILY + (int)fam,
			    now - f->since_ns >= FAMILY_UNREADY_NS, text))
		log_err(LOG_AREA_PLANE, "%s; previous rules stay; next attempt in %" PRIu64 " ms",
			text, family_pause(f) / NSEC_PER_MSEC);
	return 0;
}

int plane_family_lost(struct plane *p, enum ipfam fam)
{
	struct plane_family *f = &p->family[fam];
	struct err err = { 0 };
	uint64_t now = now_ns();

	if (now - f->lost_ns > LOST_WINDOW_NS) {
		f->lost_ns = now;
		f->n_lost = 0;
	}
	if (++f->n_lost <= LOST_MAX)
		return -ENOTRECOVERABLE;
	f->n_lost = 0;
	(void)err_set(&err, -ENOTRECOVERABLE, "another process repeatedly deletes vipd's table");
	return plane_family_fail(p, fam, -ENOTRECOVERABLE, &err);
}

void plane_families_settled(struct plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct plane_family *f = &p->family[fam];

		if (f->is_failed || f->since_ns == 0)
			continue;
		f->recovered_ns = now_ns();
		log_notice(LOG_AREA_PLANE,
			   "%s recovered after %" PRIu32 " failures in %" PRIu64 ".%" PRIu64 " s",
			   ipfam_text(fam), f->failures,
			   (f->recovered_ns - f->since_ns) / NSEC_PER_SEC,
			   (f->recovered_ns - f->since_ns) / (NSEC_PER_SEC / 10) % 10);
		f->since_ns = 0;
		(void)plane_fault_clear(p, PLANE_FAULT_FAMILY + fam);
	}
}

uint64_t plane_families_retry(struct plane *p, uint64_t now, bool *is_due)
{
	uint64_t next = 0;

	*is_due = false;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct plane_family *f = &p->family[fam];

		if (!f->is_failed)
			continue;
		if (f->retry_ns == 0)
			f->retry_ns = now + family_pause(f);
		if (now >= f->retry_ns) {
			f->is_failed = false;
			*is_due = true;
		} else if (next == 0 || f->retry_ns < next) {
			next = f->retry_ns;
		}
	}
	return next;
}
