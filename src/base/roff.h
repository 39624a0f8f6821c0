/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/roff - text in a manual page (man(7)).
 */
#pragma once

#include "base/str.h"

/* Append `text` so that roff prints it as it is: no escapes, no requests, hyphens that can be
 * copied.
 */
void roff_text(struct str *out, const char *text);
/*
 * The same of lines that were broken and indented for a terminal: one paragraph, each
 * sentence's end as it was.
 */
void roff_paragraph(struct str *out, const char *text);
