/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http_parse - parser of request heads. Pure.
 *
 * Reads the request line and the headers that matter here. A request with a body is
 * rejected, except with HTTP_TAKES_ANY.
 */
#include "http/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STATUS_BAD 400
#define STATUS_METHOD 405
#define STATUS_BODY 413
#define STATUS_UNKNOWN_METHOD 501
#define STATUS_VERSION 505

size_t http_head_len(const char *data, size_t len)
{
	const char *end = data + len;
	const char *p = data;

	/* The end of a line, then an empty line: an empty first line does not end the head. */
	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		p++;
		if (p < end && *p == '\n')
			return (size_t)(p + 1 - data);
		if (end - p >= 2 && memcmp(p, "\r\n", 2) == 0)
			return (size_t)(p + 2 - data);
	}
	return 0;
}

/* Decode in place: RFC 3986 section 2.1, and in a query "+" is a space. False: not text. */
static bool decode(char *text, bool is_query)
{
	char *out = text;

	for (const char *p = text; *p != '\0'; p++) {
		int c = (unsigned char)*p;

		if (c == '+' && is_query) {
			c = ' ';
		} else if (c == '%') {
			const char digits[] = { p[1], p[1] != '\0' ? p[2] : '\0', '\0' };

			if (strspn(digits, "0123456789abcdefABCDEF") != 2)
				return false;
			c = (int)strtol(digits, NULL, 16);
			p += 2;
		}
		if (c < 0x20 || c == 0x7f)
			return false;
		*out++ = (char)c;
	}
	*out = '\0';
	return str_is_utf8(text, (size_t)(out - text));
}

static int params_parse(struct http_request *ret, char *query, struct err *err)
{
	while (query != NULL && *query != '\0') {
		char *value = strsep(&query, "&");
		char *name = strsep(&value, "=");

		if (ret->params.n == HTTP_PARAMS_MAX)
			return err_set(err, STATUS_BAD, "too many parameters");
		if (!decode(name, true) || (value != NULL && !decode(value, true)))
			return err_set(err, STATUS_BAD, "the query is not percent-encoded text");
		*vec_push(&ret->params) = (struct http_param){ name, value ? value : "" };
	}
	return 0;
}

static int target_parse(struct http_request *ret, char *target, struct err *err)
{
	if (strncasecmp(target, "http://", 7) == 0) { /* absolute form */
		char *slash = strchr(target + 7, '/');

		if (slash == NULL)
			return err_set(err, STATUS_BAD, "the request names no path");
		/* The authority has precedence over the Host header (RFC 9112 section 3.2.2). */
		ret->host = target;
		memmove(target, target + 7, (size_t)(slash - target - 7));
		slash[-7] = '\0';
		target = slash;
	}
	if (target[0] != '/')
		return err_set(err, STATUS_BAD, "the request names no path");
	target[strcspn(target, "#")] = '\0';
	ret->path = strsep(&target, "?");
	return decode(ret->path, false)
		       ? params_parse(ret, target, err)
		       : err_set(err, STATUS_BAD, "the path is not percent-encoded text");
}

static int method_parse(struct http_request *ret, const char *method, enum http_takes takes,
			struct err *err)
{
	static const char others[] = "POST PUT DELETE PATCH OPTIONS CONNECT TRACE";

	ret->is_write = takes == HTTP_TAKES_WRITES &&
			(strcmp(method, "PUT") == 0 || strcmp(method, "POST") == 0);
	ret->is_head = strcmp(method, "HEAD") == 0;
	if (ret->is_write || ret->is_head || strcmp(method, "GET") == 0)
		return 0;
	ret->is_other = str_words_find(others, method, strlen(method)) >= 0;
	if (ret->is_other)
		return takes == HTTP_TAKES_WRITES
			       ? 0 /* which methods a path has is for the handler */
			       : err_set(err, STATUS_METHOD, "only GET and HEAD are allowed");
	return err_set(err, STATUS_UNKNOWN_METHOD, "no such method");
}

/* METHOD SP TARGET SP HTTP/1.x (RFC 9112 section 3) */
static int line_parse(struct http_request *ret, char *line, enum http_takes takes, struct err *err)
{
	char *target = strchr(line, ' ');
	char *version = strrchr(line, ' ');
	int status;

	if (target == version || target == line || strlen(version) != 9 ||
	    strncmp(version, " HTTP/", 6) != 0)
		return err_set(err, STATUS_BAD, "not a request line");
	if (strncmp(version, " HTTP/1.", 8) != 0 || version[8] < '0' || version[8] > '9')
		return err_set(err, STATUS_VERSION, "only HTTP/1.0 and HTTP/1.1 are supported");
	ret->is_http10 = version[8] == '0';
	*target++ = *version = '\0';
	status = method_parse(ret, line, takes, err);
	return status != 0 && takes != HTTP_TAKES_ANY ? status : target_parse(ret, target, err);
}

/* Evaluate a header. A second Host is an error: the destination would be ambiguous. */
static int header_take(struct http_request *ret, bool *has_host, char *line, struct err *err)
{
	char *value = strchr(line, ':');

	/* RFC 9112 section 5.1: request smuggling */
	if (value == NULL || value == line || strchr(" \t", line[0]) || strchr(" \t", value[-1]))
		return err_set(err, STATUS_BAD, "not a header line");
	*value++ = '\0';
	value += strspn(value, " \t");
	for (size_t n = strlen(value); n > 0 && strchr(" \t", value[n - 1]); n--)
		value[n - 1] = '\0';
	if ((strcasecmp(line, "Content-Length") == 0 &&
	     (*value == '\0' || value[strspn(value, "0")] != '\0')) ||
	    strcasecmp(line, "Transfer-Encoding") == 0)
		return err_set(err, STATUS_BODY, "a request body is not allowed");
	if (strcasecmp(line, "If-None-Match") == 0)
		ret->if_none_match = value; /* the last of several decides */
	if (strcasecmp(line, "Host") != 0)
		return 0;
	if (*has_host)
		return err_set(err, STATUS_BAD, "more than one Host header");
	*has_host = true;
	if (ret->host == NULL)
		ret->host = value;
	return 0;
}

/* Drop errors that HTTP_TAKES_ANY allows; the target is parsed in any case. */
int http_request_parse(struct http_request *ret, const char *head, size_t len,
		       enum http_takes takes, struct err *err)
{
	char *rest = xstrndup(head, len);
	bool has_host = false;
	char *line;

	*ret = (struct http_request){ .head = rest };
	if (strlen(rest) != len)
		return err_set(err, STATUS_BAD, "the head contains a NUL byte");
	while ((line = strsep(&rest, "\n")) != NULL) {
		size_t n = strlen(line);
		int status;

		if (n > 0 && line[n - 1] == '\r')
			line[n - 1] = '\0';
		if (*line == '\0' && line != ret->head)
			break;
		status = line == ret->head ? line_parse(ret, line, takes, err)
					   : header_take(ret, &has_host, line, err);
		if (status != 0 && !(takes == HTTP_TAKES_ANY && status == STATUS_BODY))
			return status;
	}
	return 0;
}

void http_request_fini(struct http_request *q)
{
	free(q->head);
	vec_fini(&q->params);
	*q = (struct http_request){ 0 };
}

const char *http_request_param(const struct http_request *q, const char *name)
{
	const struct http_param *found = vec_find(&q->params, p, strcmp(p->name, name) == 0);

	return found != NULL ? found->value : NULL;
}
