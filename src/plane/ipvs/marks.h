/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/marks - what the 32 bits of a packet's mark say.
 *
 *     tag      bits 31-24   "captured by vipd": 0x5a unless configured
 *     local    bit  23      the pool holds local endpoints only
 *     pool     bits 22-12   the pool's id, and
 *              bits  7-0    its low 8 bits; all 0: look for a service by address and port
 *     none     bits 11-8    0
 *
 * Cilium puts identities of pods, 16 bits that may be any tag, into the upper half of the mark, and
 * its kind of mark, which is never 0, into bits 11-8: none of its marks is one of vipd's.
 *
 * IPVS compares the whole mark with a service's, so a captured packet has no room
 * for anybody else's bits. The tag after ours is used for a moment for what is born
 * on this host, between two hooks of its output path: so tags are even.
 *
 * A mark matters only for the packet that begins a connection; later ones are
 * found by address and port. That is why a frontend that refuses can have a mark of
 * its own, with no service behind it, and connections that go on stay unharmed.
 */
#pragma once

#include "plan/rows.h"

#define IPVS_MARK_TAG_DEFAULT 0x5a
/* Of a virtual service's mark, the tag alone says that it is vipd's. */
#define IPVS_MARK_TAG UINT32_C(0xff000000)
#define IPVS_MARK_MASK UINT32_C(0xff000f00)
#define IPVS_MARK_LOCAL UINT32_C(0x00800000)
#define IPVS_MARK_ID UINT32_C(0x007ff0ff)
/* Those of the two highest ids, which no pool gets. */
#define IPVS_MARK_REFUSE UINT32_C(0x007ff0fe)
#define IPVS_MARK_DROP UINT32_C(0x007ff0ff)
_Static_assert(PLAN_POOL_ID_MAX < 0x7fffe, "the highest ids are taken");

struct ipvs_marks {
	uint32_t tag;   /* in place: 0x5a000000 */
	uint32_t birth; /* of packets on their way out of this host: the next tag */
};

static inline struct ipvs_marks ipvs_marks_from(uint8_t tag)
{
	return (struct ipvs_marks){ .tag = (uint32_t)tag << 24,
				    .birth = ((uint32_t)tag + 1) << 24 };
}

static inline uint32_t ipvs_mark_pool(const struct ipvs_marks *m, uint32_t id, uint8_t scope)
{
	return m->tag | (scope == PLAN_SCOPE_LOCAL ? IPVS_MARK_LOCAL : 0) | (id >> 8) << 12 |
	       (id & 0xff);
}

/* The pool in a mark of ours; 0 when it names none. */
static inline uint32_t ipvs_mark_id(const struct ipvs_marks *m, uint32_t mark)
{
	uint32_t id = (mark >> 12 & 0x7ff) << 8 | (mark & 0xff);

	return (mark & IPVS_MARK_MASK) == m->tag && id <= PLAN_POOL_ID_MAX ? id : 0;
}

static inline bool ipvs_mark_is_ours(const struct ipvs_marks *m, uint32_t mark)
{
	return (mark & IPVS_MARK_MASK) == m->tag;
}
