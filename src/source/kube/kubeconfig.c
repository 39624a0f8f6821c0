/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/kubeconfig.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "source/decode/trail.h"
#include "source/decode/yamlread.h"

#define ENTRIES_MAX 10000
#define EXEC_GROUP "client.authentication.k8s.io/"

struct reader {
	struct decode d;
	const char *dir;
	struct kubeconfig *k;
};

/* --- fields --------------------------------------------------------------- */

/* Takes `text`. */
static const char *keep(struct kubeconfig *k, char *text)
{
	*vec_push(&k->texts) = text;
	return text;
}

/* Copy a text field that is no secret; NULL: absent or empty. */
static const char *public_text(struct reader *rd, const json_t *obj, const char *key)
{
	const char *text = trail_text(&rd->d, obj, key);

	return text != NULL && text[0] != '\0' ? keep(rd->k, xstrdup(text)) : NULL;
}

/* The text of a field that may be a secret: a value of another type is not quoted. */
static const char *secret_value(struct reader *rd, const json_t *v)
{
	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
		return json_string_value(v);
	(void)trail_reject(&rd->d, "is not text (write it in quotes)");
	return "";
}

/* Copy a field that is a secret; NULL: absent or empty. */
static const char *secret_text(struct reader *rd, const json_t *obj, const char *key)
{
	const json_t *v = trail_field(&rd->d, obj, key);
	const char *text = v != NULL ? secret_value(rd, v) : "";

	/* A line end would start another header of the request. */
	if (strpbrk(text, "\r\n") != NULL)
		(void)trail_reject(&rd->d, "contains a line end");
	return text[0] != '\0' ? keep(rd->k, xstrdup(text)) : NULL;
}

/* The caller owns the path. */
static char *path_from(const char *dir, const char *path)
{
	return path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", dir, path);
}

static char *path_field(struct reader *rd, const json_t *obj, const char *key)
{
	const char *text = trail_text(&rd->d, obj, key);

	return text != NULL && text[0] != '\0' ? path_from(rd->dir, text) : NULL;
}

/* `key` (a path) and `data_key` (base64), which has precedence. */
static void pem_field(struct textfile *ret, struct reader *rd, const json_t *obj, const char *key,
		      const char *data_key)
{
	const json_t *v;
	struct err why;

	ret->path = path_field(rd, obj, key);
	v = trail_field(&rd->d, obj, data_key);
	if (v != NULL && !json_is_string(v))
		(void)trail_reject(&rd->d, "is not text");
	if (json_string_length(v) == 0)
		return;
	if (base64_decode(&ret->text, json_string_value(v), json_string_length(v), &why) < 0)
		(void)trail_reject(&rd->d, "%s", why.text);
	free(TAKE(ret->path));
}

/* --- servers -------------------------------------------------------------- */

DEFINE_AUTO(char *, curl_free);
DEFINE_AUTO(CURLU *, curl_url_cleanup);

static int server_check(const char *url, struct err *err)
{
	AUTO(curl_url_cleanup) CURLU *u = curl_url();
	AUTO(curl_free) char *scheme = NULL;
	AUTO(curl_free) char *user = NULL;
	AUTO(curl_free) char *query = NULL;

	if (u == NULL || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
		return err_set(err, -EINVAL, "not a URL such as https://10.0.0.1:6443");
	if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
		return err_set(err, -EINVAL, "'%.16s' is neither https nor http", scheme);
	if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK)
		return err_set(err, -EINVAL, "contains a user; use a kubeconfig");
	if (curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_OK)
		return err_set(err, -EINVAL, "contains a query");
	return 0;
}

static int server_put(struct kubeconfig *k, const char *url, size_t len, struct err *err)
{
	AUTO(free) char *text = NULL;
	int r;

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (k->servers.n == KUBECONFIG_SERVERS_MAX)
		return err_set(err, -E2BIG, "more than %d servers", KUBECONFIG_SERVERS_MAX);
	/* client-go uses http for "host:port", which would expose credentials. */
	if (memmem(url, len, "://", 3) == NULL)
		text = xasprintf("https://%.*s", (int)len, url);
	else
		text = xstrndup(url, len);
	r = server_check(text, err);
	if (r == 0)
		*vec_push(&k->servers) = TAKE(text);
	return r;
}

static int master_parse(struct kubeconfig *k, const char *master, struct err *err)
{
	const char *p = master;
	int r = 0;

	while (r == 0 && *p != '\0') {
		size_t len = strcspn(p, ", \t");

		if (len > 0)
			r = server_put(k, p, len, err);
		p += len;
		p += *p != '\0';
	}
	if (r == 0 && k->servers.n == 0)
		r = err_set(err, -EINVAL, "empty");
	return r < 0 ? err_wrap(err, r, "--master") : 0;
}

/* Check the URL here: libcurl's error message would quote it with its password. */
static void proxy_check(struct reader *rd, const char *proxy)
{
	static const char schemes[] = "http https socks5 socks5h socks4";
	AUTO(curl_url_cleanup) CURLU *u = curl_url();
	AUTO(curl_free) char *scheme = NULL;

	if (u == NULL ||
	    curl_url_set(u, CURLUPART_URL, proxy, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
	    str_words_find(schemes, scheme, strlen(scheme)) < 0)
		(void)trail_reject(&rd->d,
				   "not a proxy URL (http, https, socks4, socks5, socks5h)");
}

/* --- the cluster ---------------------------------------------------------- */

static void cluster_read(struct reader *rd, const json_t *c)
{
	struct kubeconfig *k = rd->k;
	const char *server;
	struct err why;

	pem_field(&k->ca, rd, c, "certificate-authority", "certificate-authority-data");
	k->is_insecure = trail_bool(&rd->d, c, "insecure-skip-tls-verify", false);
	k->tls_server_name = public_text(rd, c, "tls-server-name");
	k->proxy_url = secret_text(rd, c, "proxy-url");
	if (k->proxy_url != NULL)
		proxy_check(rd, k->proxy_url);
	if (k->servers.n > 0) { /* of --master */
		(void)trail_text(&rd->d, c, "server");
		return;
	}
	server = trail_required(&rd->d, c, "server");
	if (rd->d.r == 0 && server_put(k, server, strlen(server), &why) < 0)
		(void)trail_reject(&rd->d, "%s", why.text);
}

/* --- the user ------------------------------------------------------------- */

static void exec_args(struct kube_exec *x, struct reader *rd, const json_t *obj)
{
	const json_t *list = trail_list(&rd->d, obj, "args", ENTRIES_MAX);

	trail_for_each (i, &rd->d, list)
		*vec_push(&x->args) =
			keep(rd->k, xstrdup(secret_value(rd, trail_element(&rd->d, list, i))));
}

static void exec_env(struct kube_exec *x, struct reader *rd, const json_t *obj)
{
	trail_for_each_object (entry, &rd->d, trail_list(&rd->d, obj, "env", ENTRIES_MAX)) {
		const char *value = secret_text(rd, entry, "value");
		const char *name = trail_text(&rd->d, entry, "name");

		if (name == NULL || name[0] == '\0' || strchr(name, '=') != NULL)
			(void)trail_reject(&rd->d, "missing, or not the name of a variable");
		else
			*vec_push(&x->env) = keep(rd->k, xasprintf("%s=%s", name, value ?: ""));
	}
}

static void exec_read(struct reader *rd, const json_t *obj)
{
	struct kube_exec *x = rd->k->exec = xcalloc(1, sizeof(*x));
	struct decode *d = &rd->d;
	const char *version = trail_text(d, obj, "apiVersion");
	const char *text;

	if (version == NULL ||
	    (strcmp(version, EXEC_GROUP "v1") != 0 && strcmp(version, EXEC_GROUP "v1beta1") != 0))
		(void)trail_reject(d, "must be " EXEC_GROUP "v1 or v1beta1");
	text = trail_required(d, obj, "command");
	if (d->r < 0)
		return;
	x->api_version = keep(rd->k, xstrdup(version));
	x->command =
		keep(rd->k, strchr(text, '/') != NULL ? path_from(rd->dir, text) : xstrdup(text));
	exec_args(x, rd, obj);
	exec_env(x, rd, obj);
	text = trail_text(d, obj, "interactiveMode");
	if (text != NULL && strcmp(text, "Always") == 0) /* a daemon has no terminal */
		(void)trail_reject(d, "Always needs a terminal; use Never");
	x->needs_cluster = trail_bool(d, obj, "provideClusterInfo", false);
	x->install_hint = public_text(rd, obj, "installHint");
}

/* Fields that change the identity of the client and that vipd does not implement. */
static void unsupported(struct reader *rd, const json_t *u)
{
	static const char *const keys[] = { "auth-provider", "as", "as-uid", "as-groups",
					    "as-user-extra" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (trail_field(&rd->d, u, keys[i]) != NULL)
			(void)trail_reject(&rd->d, "not supported");
}

static void user_read(struct reader *rd, const json_t *u)
{
	struct kubeconfig *k = rd->k;
	const char *token;
	const json_t *exec;

	unsupported(rd, u);
	pem_field(&k->cert, rd, u, "client-certificate", "client-certificate-data");
	pem_field(&k->key, rd, u, "client-key", "client-key-data");
	token = secret_text(rd, u, "token");
	k->token.path = path_field(rd, u, "tokenFile");
	if (k->token.path == NULL && token != NULL)
		str_puts(&k->token.text, token);
	k->username = secret_text(rd, u, "username");
	k->password = secret_text(rd, u, "password");
	exec = trail_enter(&rd->d, u, "exec");
	if (exec != NULL)
		exec_read(rd, exec);
	trail_out(&rd->d);
}

/* --- named entries -------------------------------------------------------- */

/* Find member `inner` of the entry `name` in the list `key`. The trail ends inside `inner`. */
static const json_t *entry_find(struct reader *rd, const json_t *root, const char *key,
				const char *inner, const char *name)
{
	struct decode *d = &rd->d;

	while (d->r == 0 && d->depth > 0)
		trail_out(d);
	trail_for_each_object (entry, d, trail_list(d, root, key, ENTRIES_MAX)) {
		const char *text = trail_text(d, entry, "name");

		if (text != NULL && strcmp(text, name) == 0)
			return trail_enter(d, entry, inner);
	}
	(void)trail_reject(d, "has no entry '%.64s'", name);
	return NULL;
}

static int context_read(struct reader *rd, const json_t *root, struct err *err)
{
	struct decode *d = &rd->d;
	const char *cluster;
	const json_t *entry;
	const char *name;
	const char *user;

	trail_start(d, err);
	name = trail_required(d, root, "current-context");
	entry = entry_find(rd, root, "contexts", "context", name);
	user = trail_text(d, entry, "user");
	cluster = trail_required(d, entry, "cluster");
	entry = entry_find(rd, root, "clusters", "cluster", cluster);
	if (d->r == 0)
		cluster_read(rd, entry);
	if (d->r == 0 && user != NULL && user[0] != '\0')
		user_read(rd, entry_find(rd, root, "users", "user", user));
	return d->r;
}

static int pairs_check(const struct kubeconfig *k, struct err *err)
{
	bool has_cert = textfile_is_set(&k->cert);
	bool has_key = textfile_is_set(&k->key);

	if (has_cert != has_key)
		return err_set(err, -EINVAL, "client %s without its %s",
			       has_cert ? "certificate" : "key", has_cert ? "key" : "certificate");
	if (k->is_insecure && textfile_is_set(&k->ca))
		return err_set(err, -EINVAL,
			       "insecure-skip-tls-verify and a certificate authority exclude each "
			       "other");
	return 0;
}

int kubeconfig_parse(struct kubeconfig **ret, const char *text, size_t len, const char *dir,
		     const char *master, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = xcalloc(1, sizeof(*k));
	AUTO(yaml_close) struct yaml *y = NULL;
	struct reader rd = { .dir = dir, .k = k };
	json_auto_t *root = NULL;
	int r = 0;

	if (master != NULL && master[0] != '\0')
		r = master_parse(k, master, err);
	if (r < 0)
		return r;
	yaml_open_text(&y, text, len, 1);
	r = yaml_next(y, &root, err);
	if (r < 0)
		return err_wrap(err, r, "line %u", yaml_line(y));
	if (r != YAML_DOCUMENT || !json_is_object(root))
		return err_set(err, -EINVAL, "not a kubeconfig");
	r = context_read(&rd, root, err);
	if (r < 0)
		return err_wrap(err, r, "line %u", yaml_line_of(y, &rd.d));
	r = pairs_check(k, err);
	if (r == 0)
		*ret = TAKE(k);
	return r;
}

/* --- files ---------------------------------------------------------------- */

/* The kubelet sets KUBERNETES_SERVICE_HOST and _PORT in every container. */
static int account_read(struct kubeconfig *k, const char *account_dir, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	FINI(str_fini) struct str url = { 0 };
	int r;

	if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0')
		return err_set(
			err, -ENOENT,
			"none of --kubeconfig, --master and --manifests is set, and this is not a pod "
			"(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)");
	str_printf(&url, strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host,
		   port);
	r = server_put(k, url.text, url.len, err);
	if (r < 0)
		return err_wrap(err, r, "KUBERNETES_SERVICE_HOST");
	k->ca.path = path_from(account_dir, "ca.crt");
	k->token.path = path_from(account_dir, "token");
	return 0;
}

static int kubeconfig_without_file(struct kubeconfig **ret, const char *master,
				   const char *account_dir, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = xcalloc(1, sizeof(*k));
	bool has_master = master != NULL && master[0] != '\0';
	int r = has_master ? master_parse(k, master, err) : account_read(k, account_dir, err);

	if (r == 0)
		*ret = TAKE(k);
	return r;
}

int kubeconfig_open(struct kubeconfig **ret, const char *path, const char *master,
		    const char *account_dir, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	const char *slash;
	AUTO(free) char *dir = NULL;
	int r;

	if (path == NULL || path[0] == '\0')
		return kubeconfig_without_file(ret, master, account_dir, err);
	r = file_read(&text, path, KUBECONFIG_MAX, err);
	if (r < 0)
		return r;
	slash = strrchr(path, '/');
	dir = slash != NULL ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	r = kubeconfig_parse(ret, str_text(&text), text.len, dir, master, err);
	return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

/* --- life ----------------------------------------------------------------- */

void kubeconfig_close(struct kubeconfig *k)
{
	if (k == NULL)
		return;
	vec_free_all(&k->servers);
	vec_free_all(&k->texts);
	textfile_fini(&k->ca);
	textfile_fini(&k->cert);
	textfile_fini(&k->key);
	textfile_fini(&k->token);
	if (k->exec != NULL) {
		vec_fini(&k->exec->args);
		vec_fini(&k->exec->env);
	}
	free(k->exec);
	free(k);
}

/* --- texts of credentials -------------------------------------------------- */

bool textfile_is_set(const struct textfile *f)
{
	return f->path != NULL || f->text.len > 0;
}

int textfile_check(struct textfile *f, size_t max, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	struct str old = f->text;
	int r = file_read(&text, f->path, max, err);

	if (r == 0 && text.len == 0)
		r = err_set(err, -ENODATA, "%s: empty", f->path);
	else if (r == 0 && memchr(text.text, '\0', text.len) != NULL)
		r = err_set(err, -EBADMSG, "%s: contains a NUL character", f->path);
	if (r < 0 || (text.len == old.len && memcmp(text.text, old.text, text.len) == 0))
		return r;
	f->text = text;
	text = old;
	return 1;
}

void textfile_fini(struct textfile *f)
{
	free(f->path);
	str_fini(&f->text);
	*f = (struct textfile){ 0 };
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_decode(struct str *ret, const char *text, size_t len, struct err *err)
{
	FINI(str_fini) struct str out = { 0 };
	uint32_t bits = 0;
	size_t n = 0; /* characters without white space, with padding */
	size_t pad = 0;

	for (size_t i = 0; i < len; i++) {
		const char *at = text[i] == '\0' ? NULL : strchr(alphabet, text[i]);
		char byte;

		if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n')
			continue;
		n++;
		if (text[i] == '=' && pad < 2) {
			pad++;
			continue;
		}
		if (at == NULL || pad > 0)
			return err_set(err, -EINVAL, "not base64");
		bits = (bits << 6 | (uint32_t)(at - alphabet)) & 0xffffff;
		if (n % 4 == 1)
			continue;
		byte = (char)(bits >> (n % 4 == 2 ? 4 : n % 4 == 3 ? 2 : 0));
		str_add(&out, &byte, 1);
	}
	if (n % 4 != 0)
		return err_set(err, -EINVAL, "not base64");
	str_add(ret, str_text(&out), out.len);
	return 0;
}

void base64_encode(struct str *ret, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t step; len > 0; p += step, len -= step) {
		uint32_t bits = (uint32_t)p[0] << 16 | (len > 1 ? (uint32_t)p[1] << 8 : 0) |
				(len > 2 ? p[2] : 0);
		char out[4] = {
			alphabet[bits >> 18],
			alphabet[bits >> 12 & 63],
			len > 1 ? alphabet[bits >> 6 & 63] : '=',
			len > 2 ? alphabet[bits & 63] : '=',
		};

		step = MIN(len, (size_t)3);
		str_add(ret, out, sizeof(out));
	}
}
