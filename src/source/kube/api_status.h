/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/api_status - the API's Status object (metav1.Status): the error of a request. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* Store code, reason and message as one line; returns the code. */
int api_status_text(struct err *ret, const json_t *status);
/* The requested resource version is newer than the server's (ResourceVersionTooLarge). */
bool api_status_is_too_large(const json_t *status);
