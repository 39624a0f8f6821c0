/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/programmed - frontends in the kernel as text, without a running vipd.
 *
 * Reads the tables of this network namespace over sockets of its own; writes nothing.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * Append all frontends of both families in the format of nft_frontends_text() (nft/decode.h), one
 * per line, sorted by family, address, protocol and port. Appends nothing if vipd has no table.
 *   -EAGAIN     other processes changed the tables during each attempt
 *   -EPERM, -EOPNOTSUPP     `err` says what is missing
 */
MUST_USE int nft_programmed_text(struct str *out, struct err *err);
