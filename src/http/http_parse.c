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
	const char *p = data;
	const char *end = data + len;

	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));

		if (lf == NULL)
			return 0;
		/* An empty first line does not end the head. */
		if (p != data && (lf == p || (lf == p + 1 && *p == '\r')))
			return (size_t)(lf + 1 - data);
		p = lf + 1;
	}
	return 0;
}

static int reject(struct err *err, int status, const char *text)
{
	(void)err_set(err, 0, "%s", text);
	return status;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* RFC 3986 section 2.1; in a query "+" is a space too. NULL unless the result is text. */
static char *decode(const char *text, size_t len, bool is_query)
{
	char *out = xmalloc(len + 1);
	bool is_text = true;
	size_t n = 0;

	for (size_t i = 0; is_text && i < len; i++) {
		int c = (unsigned char)text[i];

		if (c == '+' && is_query) {
			c = ' ';
		} else if (c == '%') {
			int hi = len - i > 2 ? hex(text[i + 1]) : -1;
			int lo = len - i > 2 ? hex(text[i + 2]) : -1;

			c = hi < 0 || lo < 0 ? 0 : hi * 16 + lo;
			i += 2;
		}
		is_text = c >= 0x20 && c != 0x7f;
		out[n++] = (char)c;
	}
	out[n] = '\0';
	if (is_text && str_is_utf8(out, n))
		return out;
	free(out);
	return NULL;
}

static int params_parse(struct http_request *ret, const char *query, size_t len, struct err *err)
{
	const char *end = query + len;

	while (query < end) {
		const char *amp = memchr(query, '&', (size_t)(end - query));
		const char *stop = amp ? amp : end;
		const char *eq = memchr(query, '=', (size_t)(stop - query));
		const char *name_end = eq ? eq : stop;
		struct http_param *param;

		if (ret->params.n == HTTP_PARAMS_MAX)
			return reject(err, STATUS_BAD, "too many parameters");
		param = vec_push(&ret->params);
		param->name = decode(query, (size_t)(name_end - query), true);
		param->value = eq ? decode(eq + 1, (size_t)(stop - eq - 1), true) : xstrdup("");
		if (param->name == NULL || param->value == NULL)
			return reject(err, STATUS_BAD, "the query is not percent-encoded text");
		query = stop + 1;
	}
	return 0;
}

static int target_parse(struct http_request *ret, const char *target, size_t len, struct err *err)
{
	const char *mark;

	if (len > 7 && strncasecmp(target, "http://", 7) == 0) { /* absolute form */
		const char *slash = memchr(target + 7, '/', len - 7);

		if (slash == NULL)
			return reject(err, STATUS_BAD, "the request names no path");
		/* The authority of the target has precedence over the Host header (RFC 9112
		 * section 3.2.2). */
		ret->host = xstrndup(target + 7, (size_t)(slash - target - 7));
		len -= (size_t)(slash - target);
		target = slash;
	}
	if (len == 0 || target[0] != '/')
		return reject(err, STATUS_BAD, "the request names no path");
	mark = memchr(target, '#', len);
	if (mark != NULL)
		len = (size_t)(mark - target);
	mark = memchr(target, '?', len);
	ret->path = decode(target, mark ? (size_t)(mark - target) : len, false);
	if (ret->path == NULL)
		return reject(err, STATUS_BAD, "the path is not percent-encoded text");
	if (mark == NULL)
		return 0;
	return params_parse(ret, mark + 1, len - (size_t)(mark + 1 - target), err);
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

static int method_parse(struct http_request *ret, const char *method, size_t len,
			enum http_takes takes, struct err *err)
{
	static const char *const others[] = { "POST",    "PUT",     "DELETE", "PATCH",
					      "OPTIONS", "CONNECT", "TRACE" };

	ret->is_write = takes == HTTP_TAKES_WRITES &&
			(is_word(method, len, "PUT") || is_word(method, len, "POST"));
	if (ret->is_write)
		return 0;
	ret->is_head = is_word(method, len, "HEAD");
	if (ret->is_head || is_word(method, len, "GET"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (is_word(method, len, others[i]))
			return reject(err, STATUS_METHOD,
				      takes == HTTP_TAKES_WRITES
					      ? "only GET, HEAD, PUT and POST"
					      : "only GET and HEAD: nothing is changed here");
	return reject(err, STATUS_UNKNOWN_METHOD, "no such method");
}

/* METHOD SP TARGET SP HTTP/1.x (RFC 9112 section 3) */
static int line_parse(struct http_request *ret, const char *line, size_t len, enum http_takes takes,
		      struct err *err)
{
	const char *sp1 = memchr(line, ' ', len);
	const char *sp2 = memrchr(line, ' ', len);
	const char *version = sp2 ? sp2 + 1 : NULL;
	size_t version_len = sp2 ? (size_t)(line + len - version) : 0;
	int status;

	if (sp1 == NULL || sp1 == sp2 || sp1 == line || memchr(line, '\0', len) != NULL)
		return reject(err, STATUS_BAD, "not a request line");
	if (version_len != 8 || memcmp(version, "HTTP/", 5) != 0)
		return reject(err, STATUS_BAD, "not a request line");
	if (memcmp(version + 5, "1.", 2) != 0 || version[7] < '0' || version[7] > '9')
		return reject(err, STATUS_VERSION, "HTTP/1.0 and HTTP/1.1 are spoken here");
	ret->is_http10 = version[7] == '0';
	status = method_parse(ret, line, (size_t)(sp1 - line), takes, err);
	if (status != 0 && takes != HTTP_TAKES_ANY)
		return status;
	return target_parse(ret, sp1 + 1, (size_t)(sp2 - sp1 - 1), err);
}

static bool is_zero(const char *text, size_t len)
{
	size_t digits = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '0')
			digits++;
		else if (text[i] != ' ' && text[i] != '\t')
			return false;
	}
	return digits > 0;
}

static char *value_copy(const char *text, size_t len)
{
	while (len > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	return xstrndup(text, len);
}

/* Evaluate a header. A second Host is an error: the destination would be ambiguous. */
static int header_take(struct http_request *ret, bool *has_host, const char *line, size_t name_len,
		       size_t len, struct err *err)
{
	const char *value = line + name_len + 1;
	size_t value_len = len - name_len - 1;

	if (name_len == 4 && strncasecmp(line, "Host", 4) == 0) {
		if (*has_host)
			return reject(err, STATUS_BAD, "more than one Host header");
		*has_host = true;
		if (ret->host == NULL)
			ret->host = value_copy(value, value_len);
	} else if (name_len == 13 && strncasecmp(line, "If-None-Match", 13) == 0) {
		free(ret->if_none_match); /* the last of several decides */
		ret->if_none_match = value_copy(value, value_len);
	}
	return 0;
}

static int header_check(struct http_request *ret, bool *has_host, const char *line, size_t len,
			struct err *err)
{
	const char *colon = memchr(line, ':', len);
	size_t name_len = colon ? (size_t)(colon - line) : 0;

	if (name_len == 0 || line[0] == ' ' || line[0] == '\t' || line[name_len - 1] == ' ' ||
	    line[name_len - 1] == '\t' ||
	    memchr(line, '\0', len) != NULL) /* RFC 9112 section 5.1: request smuggling */
		return reject(err, STATUS_BAD, "not a header line");
	if ((name_len == 14 && strncasecmp(line, "Content-Length", 14) == 0 &&
	     !is_zero(colon + 1, len - name_len - 1)) ||
	    (name_len == 17 && strncasecmp(line, "Transfer-Encoding", 17) == 0))
		return reject(err, STATUS_BODY, "requests have no body here");
	return header_take(ret, has_host, line, name_len, len, err);
}

/* Drop errors that HTTP_TAKES_ANY allows; the target is parsed in any case. */
int http_request_parse(struct http_request *ret, const char *head, size_t len,
		       enum http_takes takes, struct err *err)
{
	const char *p = head;
	const char *end = head + len;
	bool has_host = false;

	*ret = (struct http_request){ 0 };
	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		const char *stop = lf ? lf : end;
		size_t n = (size_t)(stop - p);
		int status;

		if (n > 0 && p[n - 1] == '\r')
			n--;
		if (n == 0 && p != head)
			break;
		status = p == head ? line_parse(ret, p, n, takes, err)
				   : header_check(ret, &has_host, p, n, err);
		if (status != 0 && !(takes == HTTP_TAKES_ANY && status == STATUS_BODY))
			return status;
		p = stop + 1;
	}
	return ret->path ? 0 : reject(err, STATUS_BAD, "not a request line");
}

void http_request_fini(struct http_request *q)
{
	free(q->path);
	free(q->host);
	free(q->if_none_match);
	vec_for_each (param, &q->params) {
		free(param->name);
		free(param->value);
	}
	vec_fini(&q->params);
	*q = (struct http_request){ 0 };
}

const char *http_request_param(const struct http_request *q, const char *name)
{
	vec_for_each (param, &q->params)
		if (strcmp(param->name, name) == 0)
			return param->value;
	return NULL;
}
