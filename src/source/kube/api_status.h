/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/api_status - the API's Status object (metav1.Status): the error of a request. */
#pragma once

#include "base/err.h"
#include "source/decode/tree.h"

struct api_status {
	int code;
	struct err text;   /* code, reason and message, one line */
	bool is_too_large; /* the requested version is newer than the server's */
};
void api_status_read(struct api_status *ret, const json_t *status);
