/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/recording - answers of a real API server (tests/data/apiserver-1.36) without framing. An
 * invalid recording aborts the test.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct recording {
	int status;
	char content_type[80];
	struct str body;
	bool is_chunk_end; /* the body has its HTTP end */
};

void recording_open(struct recording *ret, const char *name);
void recording_close(struct recording *r);
