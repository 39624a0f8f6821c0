/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/base64 - RFC 4648 section 4, as kubeconfig files and HTTP's Basic scheme use it. */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * Append what `text` stands for; blanks and line ends in it do not count.
 * -EINVAL, with `ret` as it was; the message does not quote the text.
 */
MUST_USE int base64_decode(struct str *ret, const char *text, size_t len, struct err *err);
/* Append the text of `data`. */
void base64_encode(struct str *ret, const void *data, size_t len);
