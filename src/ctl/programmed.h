/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/programmed - the programmed state of either plane, read from the kernel without vipd. */
#pragma once

#include <jansson.h>

#include "ctl/client.h"
#include "plane/ipvs/programmed.h"

/* Zeroed memory is empty. */
struct programmed {
	bool is_ipvs;                 /* false: nftables */
	struct ipvs_programmed lines; /* of nftables, frontends only: plane/nft/programmed.h */
};

/*
 * `plane`: "nftables", "ipvs", or NULL for the plane whose tables exist. During a change of planes
 * both exist: nftables is read, because it translates packets before IPVS, with a note on stderr.
 */
MUST_USE int programmed_read(struct programmed *ret, const char *plane, struct err *err);
void programmed_fini(struct programmed *h);
/*
 * Return the plane of the running vipd. -EINVAL: `plane` is set and differs; -ENODATA:
 * programmed_read() does not support it; other errors of client_json().
 */
MUST_USE int programmed_plane(const char **ret, const struct client *c, const char *plane,
			      struct err *err);
/* An array of lines: those that contain `part`; NULL: all. Destroys `text`. */
json_t *programmed_lines(struct str *text, const char *part);
