/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/kubeconfig - see kubeconfig.h. */
#include "source/kube/kubeconfig.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/decode/trail.h"
#include "source/decode/yamlread.h"
#include "source/kube/base64.h"
#include "source/kube/textfile.h"

#define ENTRIES_MAX 10000
#define EXEC_GROUP "client.authentication.k8s.io/"

struct reader {
	struct decode d;
	const char *dir;
	struct kubeconfig *k;
};

/* --- fields --------------------------------------------------------------- */

/* Copy a text field that is no secret; NULL: absent or empty. */
static int public_text(char **ret, struct reader *rd, const json_t *obj, const char *key,
		       struct err *err)
{
	const char *text;
	int r = trail_text(&text, &rd->d, obj, key, err);

	if (r == 0 && text != NULL && text[0] != '\0') {
		free(*ret);
		*ret = xstrdup(text);
	}
	return r;
}

/* Check the type of a field that may be a secret, without quoting its value. */
static int secret_check(struct reader *rd, const json_t *v, struct err *err)
{
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return trail_refuse(&rd->d, err, "is not text (write it in quotes)");
	return 0;
}

/* Copy a field that is a secret. */
static int secret_text(char **ret, struct reader *rd, const json_t *obj, const char *key,
		       struct err *err)
{
	const json_t *v = trail_field(&rd->d, obj, key);
	int r = v == NULL ? 0 : secret_check(rd, v, err);

	if (v == NULL || r < 0)
		return r;
	/* A line end would start another header of the request. */
	if (strpbrk(json_string_value(v), "\r\n") != NULL)
		return trail_refuse(&rd->d, err, "contains a line end");
	if (json_string_length(v) > 0)
		*ret = xstrdup(json_string_value(v));
	return 0;
}

static char *path_from(const char *dir, const char *path)
{
	struct str text = { 0 };

	if (path[0] == '/')
		return xstrdup(path);
	str_printf(&text, "%s/%s", dir, path);
	return text.text;
}

static int path_field(char **ret, struct reader *rd, const json_t *obj, const char *key,
		      struct err *err)
{
	const char *text;
	int r = trail_text(&text, &rd->d, obj, key, err);

	if (r == 0 && text != NULL && text[0] != '\0')
		*ret = path_from(rd->dir, text);
	return r;
}

/* `key` (a path) and `data_key` (base64), which has precedence. */
static int pem_field(struct kube_pem *ret, struct reader *rd, const json_t *obj, const char *key,
		     const char *data_key, struct err *err)
{
	const json_t *v;
	struct err why;
	int r = path_field(&ret->path, rd, obj, key, err);

	if (r < 0)
		return r;
	v = trail_field(&rd->d, obj, data_key);
	if (v == NULL || json_string_length(v) == 0)
		return v == NULL || json_is_string(v) ? 0
						      : trail_refuse(&rd->d, err, "is not text");
	if (base64_decode(&ret->data, json_string_value(v), json_string_length(v), &why) < 0)
		return trail_refuse(&rd->d, err, "%s", why.text);
	free(ret->path);
	ret->path = NULL;
	return 0;
}

/* --- servers -------------------------------------------------------------- */

static int server_check(const char *url, struct err *err)
{
	CURLU *u = curl_url();
	char *scheme = NULL;
	char *user = NULL;
	char *query = NULL;
	int r = 0;

	if (u == NULL || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
		r = err_set(err, -EINVAL, "not a URL such as https://10.0.0.1:6443");
	else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
		r = err_set(err, -EINVAL, "'%.16s' is neither https nor http", scheme);
	else if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK)
		r = err_set(err, -EINVAL, "contains a user; use a kubeconfig");
	else if (curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_OK)
		r = err_set(err, -EINVAL, "contains a query");
	curl_free(scheme);
	curl_free(user);
	curl_free(query);
	curl_url_cleanup(u);
	return r;
}

static int server_put(struct kubeconfig *k, const char *url, size_t len, struct err *err)
{
	char *text;
	int r;

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (k->servers.n == KUBECONFIG_SERVERS_MAX)
		return err_set(err, -E2BIG, "more than %d servers", KUBECONFIG_SERVERS_MAX);
	/* client-go uses http for "host:port", which would expose credentials. */
	if (memmem(url, len, "://", 3) == NULL) {
		struct str s = { 0 };

		str_printf(&s, "https://%.*s", (int)len, url);
		text = s.text;
	} else {
		text = xstrndup(url, len);
	}
	r = server_check(text, err);
	if (r < 0)
		free(text);
	else
		*vec_push(&k->servers) = text;
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
static int proxy_check(struct reader *rd, const char *proxy, struct err *err)
{
	static const char *const schemes[] = { "http", "https", "socks5", "socks5h", "socks4" };
	CURLU *u = curl_url();
	char *scheme = NULL;
	bool is_good = false;

	if (u != NULL &&
	    curl_url_set(u, CURLUPART_URL, proxy, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK)
		for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
			is_good |= strcmp(scheme, schemes[i]) == 0;
	curl_free(scheme);
	curl_url_cleanup(u);
	return is_good ? 0
		       : trail_refuse(&rd->d, err,
				      "not a proxy URL (http, https, socks4, socks5, socks5h)");
}

/* --- the cluster ---------------------------------------------------------- */

static int cluster_read(struct reader *rd, const json_t *c, const char *master, struct err *err)
{
	struct kubeconfig *k = rd->k;
	const char *server;
	struct err why;
	int r;

	r = pem_field(&k->ca, rd, c, "certificate-authority", "certificate-authority-data", err);
	if (r == 0)
		r = trail_bool(&k->is_insecure, &rd->d, c, "insecure-skip-tls-verify", err);
	if (r == 0)
		r = public_text(&k->tls_server_name, rd, c, "tls-server-name", err);
	if (r == 0)
		r = secret_text(&k->proxy_url, rd, c, "proxy-url", err);
	if (r == 0 && k->proxy_url != NULL)
		r = proxy_check(rd, k->proxy_url, err);
	if (r == 0)
		r = trail_text(&server, &rd->d, c, "server", err);
	if (r < 0 || k->servers.n > 0)
		return r;
	if (server == NULL || server[0] == '\0')
		return trail_refuse(&rd->d, err, "missing");
	if (server_put(k, server, strlen(server), &why) < 0)
		return trail_refuse(&rd->d, err, "%s", why.text);
	return 0;
}

/* --- the user ------------------------------------------------------------- */

static int exec_args(struct kube_exec *x, struct reader *rd, const json_t *obj, struct err *err)
{
	const json_t *list;
	int r = trail_list(&list, &rd->d, obj, "args", ENTRIES_MAX, err);

	if (r < 0)
		return r;
	trail_into(&rd->d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *arg = trail_element(&rd->d, list, i);

		r = secret_check(rd, arg, err);
		if (r < 0)
			return r;
		*vec_push(&x->args) = xstrdup(json_string_value(arg));
	}
	trail_out(&rd->d);
	return 0;
}

static int exec_env(struct kube_exec *x, struct reader *rd, const json_t *obj, struct err *err)
{
	const json_t *entry;
	const json_t *list;
	int r = trail_list(&list, &rd->d, obj, "env", ENTRIES_MAX, err);

	if (r < 0)
		return r;
	trail_into(&rd->d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct kube_exec_env *e;

		r = trail_element_object(&entry, &rd->d, list, i, err);
		if (r < 0)
			return r;
		trail_into(&rd->d);
		e = vec_push(&x->env);
		*e = (struct kube_exec_env){ NULL, NULL };
		r = secret_text(&e->value, rd, entry, "value", err);
		if (r == 0)
			r = public_text(&e->name, rd, entry, "name", err);
		if (r < 0)
			return r;
		if (e->name == NULL || strchr(e->name, '=') != NULL)
			return trail_refuse(&rd->d, err, "missing, or not the name of a variable");
		trail_out(&rd->d);
	}
	trail_out(&rd->d);
	return 0;
}

static int exec_command(struct kube_exec *x, struct reader *rd, const json_t *obj, struct err *err)
{
	const char *text;
	int r = trail_text(&text, &rd->d, obj, "command", err);

	if (r < 0)
		return r;
	if (text == NULL || text[0] == '\0')
		return trail_refuse(&rd->d, err, "missing");
	x->command = strchr(text, '/') != NULL ? path_from(rd->dir, text) : xstrdup(text);
	return 0;
}

/* A daemon has no terminal: interactiveMode must not be Always. */
static int exec_mode(struct reader *rd, const json_t *obj, struct err *err)
{
	const char *mode;
	int r = trail_text(&mode, &rd->d, obj, "interactiveMode", err);

	if (r == 0 && mode != NULL && strcmp(mode, "Always") == 0)
		return trail_refuse(&rd->d, err, "Always needs a terminal; use Never");
	return r;
}

static int exec_read(struct reader *rd, const json_t *obj, struct err *err)
{
	struct kube_exec *x = rd->k->exec = xcalloc(1, sizeof(*x));
	const char *version;
	int r;

	r = trail_text(&version, &rd->d, obj, "apiVersion", err);
	if (r < 0)
		return r;
	if (version == NULL ||
	    (strcmp(version, EXEC_GROUP "v1") != 0 && strcmp(version, EXEC_GROUP "v1beta1") != 0))
		return trail_refuse(&rd->d, err, "must be " EXEC_GROUP "v1 or v1beta1");
	x->api_version = xstrdup(version);
	r = exec_command(x, rd, obj, err);
	if (r == 0)
		r = exec_args(x, rd, obj, err);
	if (r == 0)
		r = exec_env(x, rd, obj, err);
	if (r == 0)
		r = exec_mode(rd, obj, err);
	if (r == 0)
		r = trail_bool(&x->wants_cluster, &rd->d, obj, "provideClusterInfo", err);
	if (r == 0)
		r = public_text(&x->install_hint, rd, obj, "installHint", err);
	return r;
}

/* Fields that change the identity of the client and that vipd does not implement. */
static int unsupported(struct reader *rd, const json_t *u, struct err *err)
{
	static const char *const keys[] = { "auth-provider", "as", "as-uid", "as-groups",
					    "as-user-extra" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (trail_field(&rd->d, u, keys[i]) != NULL)
			return trail_refuse(&rd->d, err, "not supported");
	return 0;
}

static int user_read(struct reader *rd, const json_t *u, struct err *err)
{
	struct kubeconfig *k = rd->k;
	const json_t *exec;
	int r;

	r = unsupported(rd, u, err);
	if (r == 0)
		r = pem_field(&k->cert, rd, u, "client-certificate", "client-certificate-data",
			      err);
	if (r == 0)
		r = pem_field(&k->key, rd, u, "client-key", "client-key-data", err);
	if (r == 0)
		r = secret_text(&k->token, rd, u, "token", err);
	if (r == 0)
		r = path_field(&k->token_file, rd, u, "tokenFile", err);
	if (r == 0)
		r = secret_text(&k->username, rd, u, "username", err);
	if (r == 0)
		r = secret_text(&k->password, rd, u, "password", err);
	if (r == 0)
		r = trail_object(&exec, &rd->d, u, "exec", err);
	if (r < 0 || exec == NULL)
		return r;
	trail_into(&rd->d);
	r = exec_read(rd, exec, err);
	if (r == 0)
		trail_out(&rd->d);
	return r;
}

/* --- named entries -------------------------------------------------------- */

/*
 * Find member `inner` of the entry `name` in the list `key`. The trail ends inside `inner`.
 */
static int entry_find(const json_t **ret, struct reader *rd, const json_t *root, const char *key,
		      const char *inner, const char *name, struct err *err)
{
	const json_t *entry;
	const json_t *list;
	const char *text;
	int r;

	trail_start(&rd->d);
	r = trail_list(&list, &rd->d, root, key, ENTRIES_MAX, err);
	if (r < 0)
		return r;
	trail_into(&rd->d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&entry, &rd->d, list, i, err);
		if (r < 0)
			return r;
		trail_into(&rd->d);
		r = trail_text(&text, &rd->d, entry, "name", err);
		if (r < 0)
			return r;
		if (text != NULL && strcmp(text, name) == 0) {
			r = trail_object(ret, &rd->d, entry, inner, err);
			trail_into(&rd->d);
			return r;
		}
		trail_out(&rd->d);
	}
	trail_out(&rd->d);
	return trail_refuse(&rd->d, err, "has no entry '%.64s'", name);
}

static int context_read(struct reader *rd, const json_t *root, const char *master, struct err *err)
{
	const char *cluster = NULL;
	const char *user = NULL;
	const json_t *entry;
	const char *name;
	int r;

	trail_start(&rd->d);
	r = trail_text(&name, &rd->d, root, "current-context", err);
	if (r < 0)
		return r;
	if (name == NULL || name[0] == '\0')
		return trail_refuse(&rd->d, err, "missing");
	r = entry_find(&entry, rd, root, "contexts", "context", name, err);
	if (r == 0)
		r = trail_text(&user, &rd->d, entry, "user", err);
	if (r == 0)
		r = trail_text(&cluster, &rd->d, entry, "cluster", err);
	if (r == 0 && (cluster == NULL || cluster[0] == '\0'))
		r = trail_refuse(&rd->d, err, "missing");
	if (r == 0)
		r = entry_find(&entry, rd, root, "clusters", "cluster", cluster, err);
	if (r == 0)
		r = cluster_read(rd, entry, master, err);
	if (r < 0 || user == NULL || user[0] == '\0')
		return r;
	r = entry_find(&entry, rd, root, "users", "user", user, err);
	return r < 0 ? r : user_read(rd, entry, err);
}

static int pairs_check(const struct kubeconfig *k, struct err *err)
{
	bool has_cert = k->cert.path != NULL || k->cert.data.len > 0;
	bool has_key = k->key.path != NULL || k->key.data.len > 0;

	if (has_cert != has_key)
		return err_set(err, -EINVAL, "client %s without its %s",
			       has_cert ? "certificate" : "key", has_cert ? "key" : "certificate");
	if (k->is_insecure && (k->ca.path != NULL || k->ca.data.len > 0))
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
	json_t *root = NULL;
	int r = 0;

	if (master != NULL && master[0] != '\0')
		r = master_parse(k, master, err);
	if (r < 0)
		return r;
	yaml_open_text(&y, text, len, 1);
	r = yaml_next(y, &root, err);
	if (r < 0)
		return err_wrap(err, r, "line %u", yaml_line(y));
	if (r != YAML_DOCUMENT || !json_is_object(root)) {
		json_decref(root);
		return err_set(err, -EINVAL, "not a kubeconfig");
	}
	r = context_read(&rd, root, master, err);
	if (r < 0)
		r = err_wrap(err, r, "line %u", yaml_line_of(y, &rd.d));
	json_decref(root);
	if (r == 0)
		r = pairs_check(k, err);
	if (r < 0)
		return r;
	*ret = TAKE(k);
	return 0;
}

/* --- files ---------------------------------------------------------------- */

/* The kubelet sets KUBERNETES_SERVICE_HOST and _PORT in every container. */
static int account_open(struct kubeconfig **ret, const char *account_dir, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = xcalloc(1, sizeof(*k));
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	struct str url = { 0 };
	int r;

	if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0')
		return err_set(err, -ENOENT,
			       "neither --kubeconfig nor --master is set, and this is not a pod "
			       "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)");
	str_printf(&url, strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host,
		   port);
	r = server_put(k, url.text, url.len, err);
	str_fini(&url);
	if (r < 0)
		return err_wrap(err, r, "KUBERNETES_SERVICE_HOST");
	k->ca.path = path_from(account_dir, "ca.crt");
	k->token_file = path_from(account_dir, "token");
	*ret = TAKE(k);
	return 0;
}

static int master_open(struct kubeconfig **ret, const char *master, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = xcalloc(1, sizeof(*k));
	int r = master_parse(k, master, err);

	if (r == 0)
		*ret = TAKE(k);
	return r;
}

int kubeconfig_open(struct kubeconfig **ret, const char *path, const char *master,
		    const char *account_dir, struct err *err)
{
	struct str text = { 0 };
	const char *slash;
	char *dir;
	int r;

	if (path == NULL || path[0] == '\0')
		return master != NULL && master[0] != '\0' ? master_open(ret, master, err)
							   : account_open(ret, account_dir, err);
	r = textfile_read(&text, path, KUBECONFIG_MAX, err);
	if (r < 0)
		return r;
	slash = strrchr(path, '/');
	dir = slash != NULL ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	r = kubeconfig_parse(ret, str_text(&text), text.len, dir, master, err);
	free(dir);
	str_fini(&text);
	return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

/* --- life ----------------------------------------------------------------- */

static void pem_fini(struct kube_pem *p)
{
	free(p->path);
	str_fini(&p->data);
}

static void exec_close(struct kube_exec *x)
{
	if (x == NULL)
		return;
	vec_for_each (arg, &x->args)
		free(*arg);
	vec_fini(&x->args);
	vec_for_each (e, &x->env) {
		free(e->name);
		free(e->value);
	}
	vec_fini(&x->env);
	free(x->command);
	free(x->api_version);
	free(x->install_hint);
	free(x);
}

void kubeconfig_close(struct kubeconfig *k)
{
	if (k == NULL)
		return;
	vec_for_each (server, &k->servers)
		free(*server);
	vec_fini(&k->servers);
	free(k->tls_server_name);
	free(k->proxy_url);
	pem_fini(&k->ca);
	pem_fini(&k->cert);
	pem_fini(&k->key);
	free(k->token);
	free(k->token_file);
	free(k->username);
	free(k->password);
	exec_close(k->exec);
	free(k);
}
