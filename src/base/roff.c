/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/roff - escapes. */
#include "base/roff.h"

static void roff_char(struct str *out, char c)
{
	/* A dot or a quote at the beginning of a line would be a request. */
	if ((c == '.' || c == '\'') && (out->len == 0 || out->text[out->len - 1] == '\n'))
		str_puts(out, "\\&");
	if (c == '\\')
		str_puts(out, "\\e");
	else if (c == '-')
		str_puts(out, "\\-");
	else
		str_add(out, &c, 1);
}

void roff_text(struct str *out, const char *text)
{
	for (; *text != '\0'; text++)
		roff_char(out, *text);
}

void roff_paragraph(struct str *out, const char *text)
{
	while (*text == ' ')
		text++;
	for (; *text != '\0'; text++) {
		if (*text != '\n') {
			roff_char(out, *text);
			continue;
		}
		while (text[1] == ' ')
			text++;
		str_puts(out, "\n");
	}
	if (out->len > 0 && out->text[out->len - 1] != '\n')
		str_puts(out, "\n");
}
