/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/translate - operations of the plan as changes of elements: what both planes do alike. */
#pragma once

#include "plane/common.h"

/* Before or after the transaction. */
enum plane_side {
	PLANE_WAS = 0,
	PLANE_WILL,
};

struct plane_tr {
	struct plane_common *c;
	struct svc *svc; /* of the operation */
	void *arg;
};

/*
 * Translate operations with `fn` into c->changes. -ENOSPC (no pool ids) and -EINVAL (contradictory
 * operations) set `culprit`.
 */
MUST_USE int plane_translate(struct plane_common *c,
			     void (*fn)(struct plane_tr *t, const struct plan_op *op), void *arg,
			     const struct plan_op *ops, size_t n, struct svc **culprit,
			     struct err *err);

/* The key has `data` (NULL in sets) on that side of the transaction. */
void plane_element(struct plane_tr *t, enum plane_side side, enum ipfam fam, enum nft_set_id set,
		   const uint8_t *key, const uint8_t *data);
void plane_element_word(struct plane_tr *t, enum plane_side side, enum ipfam fam,
			enum nft_set_id set, const uint8_t *key, uint32_t word);
/* The address is used once on that side. */
void plane_element_count(struct plane_tr *t, enum plane_side side, enum ipfam fam,
			 enum nft_set_id set, const uint8_t *key);
/* Elements of a frontend that do not depend on where it leads; before those that do. */
void plane_frontend(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f,
		    uint8_t key[static NFT_KEY_MAX]);
void plane_locality(struct plane_tr *t, enum plane_side side, const struct plan_op *op,
		    bool is_local);
/* A frontend may have elements of an earlier structure: read all that it may have. */
void plane_frontend_reread(struct plane_common *c, const struct plan_frontend *f, struct svc *svc);
