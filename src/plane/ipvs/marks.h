/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/marks - meaning of the 32 bits of a packet's mark: doc/design/0007-ipvs-plane.md.
 *
 *      tag      bits 31-24   captured by vipd: 0x5a unless configured
 *      local    bit  23      the pool has local endpoints only
 *      pool     bits 22-12   high bits of the pool's id, and
 *               bits  7-0    its low 8 bits; all 0: virtual service by address and port
 *      none     bits 11-8    0; never 0 in a mark of Cilium
 *
 *  A captured packet has the tag alone, and the pool only at the last place before IPVS, which
 *  compares the whole mark with a service's mark. Packets of this host carry the next tag between
 *  two hooks of the output path: tags are even.
 *
 *  Only the mark of the packet for which IPVS chooses a backend matters; IPVS finds others by
 *  address and port. A frontend without endpoints can therefore have a mark without a virtual
 *  service, and its established connections go on.
 */
#pragma once

#include "plan/rows.h"

#define IPVS_MARK_TAG_DEFAULT 0x5a
/* Bits that make the mark of a virtual service vipd's. */
#define IPVS_MARK_TAG UINT32_C(0xff000000)
#define IPVS_MARK_MASK UINT32_C(0xff000f00)
#define IPVS_MARK_LOCAL UINT32_C(0x00800000)
#define IPVS_MARK_ID UINT32_C(0x007ff0ff)
/* Marks of the two highest ids, which no pool gets. */
#define IPVS_MARK_REJECT UINT32_C(0x007ff0fe)
#define IPVS_MARK_DROP UINT32_C(0x007ff0ff)
_Static_assert(PLAN_POOL_ID_MAX < 0x7fffe, "the highest ids are taken");

struct ipvs_marks {
	uint32_t tag;   /* in position: 0x5a000000 */
	uint32_t birth; /* of packets that leave this host: the next tag */
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

/* Pool id in a mark of vipd; 0 = none. */
static inline uint32_t ipvs_mark_id(const struct ipvs_marks *m, uint32_t mark)
{
	uint32_t id = (mark >> 12 & 0x7ff) << 8 | (mark & 0xff);

	return (mark & IPVS_MARK_MASK) == m->tag && id <= PLAN_POOL_ID_MAX ? id : 0;
}

static inline bool ipvs_mark_is_ours(const struct ipvs_marks *m, uint32_t mark)
{
	return (mark & IPVS_MARK_MASK) == m->tag;
}
