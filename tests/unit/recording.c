/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/recording - the part of HTTP/1.1 framing that the recordings use. */
#include "recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"

static void fail(const char *name, const char *what)
{
	(void)fprintf(stderr, "recording %s: %s\n", name, what);
	abort();
}

/* Read chunks until the last one or the end of the recording. */
static void dechunk(struct recording *r, const char *p, const char *end)
{
	while (p < end) {
		char *after;
		size_t len = strtoul(p, &after, 16);
		size_t have;

		if (after == p || end - after < 2)
			return;
		p = after + 2;
		if (len == 0) {
			r->is_chunk_end = true;
			return;
		}
		have = MIN(len, (size_t)(end - p));
		str_add(&r->body, p, have);
		if (have < len)
			return;
		p += len + 2;
	}
}

void recording_open(struct recording *ret, const char *name)
{
	AUTO(free) char *path = xasprintf("%s/apiserver-1.36/%s", TESTS_DATA, name);
	FINI(str_fini) struct str text = { 0 };
	bool is_chunked = false;
	const char *line;
	const char *end;

	*ret = (struct recording){ 0 };
	if (file_read(&text, path, SIZE_MAX, NULL) < 0)
		fail(name, "cannot be read");
	line = str_text(&text);
	end = line + text.len;
	if (sscanf(line, "HTTP/1.1 %d", &ret->status) != 1)
		fail(name, "no status line");
	while ((line = memmem(line, (size_t)(end - line), "\r\n", 2)) != NULL) {
		line += 2;
		if (strncmp(line, "\r\n", 2) == 0)
			break;
		if (strncasecmp(line, "content-type: ", 14) == 0)
			(void)snprintf(ret->content_type, sizeof(ret->content_type), "%.*s",
				       (int)strcspn(line + 14, "\r"), line + 14);
		is_chunked |= strncasecmp(line, "transfer-encoding: chunked", 26) == 0;
	}
	if (line == NULL)
		fail(name, "no end of the head");
	line += 2;
	if (is_chunked)
		dechunk(ret, line, end);
	else
		str_add(&ret->body, line, (size_t)(end - line));
}

void recording_close(struct recording *r)
{
	str_fini(&r->body);
}
