/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/recording - what a real API server sent (tests/data/apiserver-1.36), without its framing.
 *
 * Bad recordings abort: they are part of the tests.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct recording {
	int status;
	char content_type[80];
	struct str body;
	bool is_chunk_end; /* the body ended as HTTP wants it */
};

void recording_open(struct recording *ret, const char *name);
void recording_close(struct recording *r);
