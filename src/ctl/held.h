/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/held - the programmed state of either plane, read from the kernel without vipd.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* Zeroed memory is empty. */
struct held {
	bool is_ipvs; /* false: nftables */
	struct str
		text; /* one line per frontend: plane/nft/programmed.h, plane/ipvs/programmed.h */
	struct str routing; /* ipvs plane: existing rules and routes, and required ones */
	struct str routing_want;
};

/*
 * `plane`: "nftables", "ipvs", or NULL for the plane whose tables exist. During a change of planes
 * both exist: nftables is read, because it translates packets before IPVS, with a note on stderr.
 */
MUST_USE int held_read(struct held *ret, const char *plane, struct err *err);
void held_fini(struct held *h);
/* Call `fn` for each line of frontends, then of routing. Destroys both texts. */
void held_lines(struct held *h, void (*fn)(void *arg, const char *line, bool is_frontend),
		void *arg);
