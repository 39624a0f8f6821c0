/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/held - what the kernel holds, of whichever plane, without a vipd.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* Zeroed memory is empty. */
struct held {
	bool is_ipvs;       /* else nftables */
	struct str text;    /* a line a frontend: plane/nft/programmed.h, plane/ipvs/programmed.h */
	struct str routing; /* of the ipvs plane: rules and routes that are there, and all */
	struct str routing_want;
};

/*
 * "nftables", "ipvs", or NULL: the plane whose tables exist. During a change of planes both exist:
 * then nftables, which translates packets before IPVS, and a remark on stderr.
 */
MUST_USE int held_read(struct held *ret, const char *plane, struct err *err);
void held_fini(struct held *h);
/* Call `fn` for each line of frontends, then of routing; the text is cut up. */
void held_lines(struct held *h, void (*fn)(void *arg, const char *line, bool is_frontend),
		void *arg);
