/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/base64 - RFC 4648 section 4, for kubeconfig files and HTTP's Basic scheme. */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * Append the decoded `text`; white space is ignored. -EINVAL: `ret` unchanged; the message does not
 * quote the text.
 */
MUST_USE int base64_decode(struct str *ret, const char *text, size_t len, struct err *err);
/* Append the encoded `data`. */
void base64_encode(struct str *ret, const void *data, size_t len);
