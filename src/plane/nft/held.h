/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/held - what the kernel's tables say, without a running vipd.
 *
 * For people and their tools: reads the tables of this network namespace with
 * sockets of its own, writes nothing, and needs no more than what stands there.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * All frontends of both families, one a line, sorted by family, address, protocol and port,
 * as nft_frontends_text() (nft/decode.h) tells them. Nothing is appended where
 * there is no table of ours.
 *   -EAGAIN     others kept changing the ruleset while it was read
 *   -EPERM, -EOPNOTSUPP     `err` says what is missing
 */
MUST_USE int nft_held_text(struct str *out, struct err *err);
