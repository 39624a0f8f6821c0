/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/recording - the part of HTTP/1.1 framing that the recordings use. */
#include "recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void fail(const char *name, const char *what)
{
	(void)fprintf(stderr, "recording %s: %s\n", name, what);
	abort();
}

static void file_read(struct str *ret, const char *name)
{
	struct str path = { 0 };
	char buf[4096];
	size_t n;
	FILE *f;

	str_printf(&path, "%s/apiserver-1.36/%s", TESTS_DATA, name);
	f = fopen(path.text, "re");
	if (f == NULL)
		fail(name, "cannot be opened");
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		str_add(ret, buf, n);
	(void)fclose(f);
	str_fini(&path);
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
	struct str text = { 0 };
	bool is_chunked = false;
	const char *line;
	const char *end;

	*ret = (struct recording){ 0 };
	file_read(&text, name);
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
	str_fini(&text);
}

void recording_close(struct recording *r)
{
	str_fini(&r->body);
}
