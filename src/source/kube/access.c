/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/access.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "source/decode/decode.h"
#include "source/kube/kube.h"

#define TOKEN_MAX (256U << 10)
#define PEM_MAX (1U << 20)
#define PLUGIN_OUTPUT_MAX (1U << 20)
/* Pause after a failure of a plugin. */
#define PLUGIN_PAUSE_NS (2 * NSEC_PER_SEC)
/* Shortest validity of a plugin's output: a wrong clock must not run the plugin for each request */
#define PLUGIN_LIFE_MIN_NS (30 * NSEC_PER_SEC)

struct plugin {
	struct process *process;
	json_t *status;      /* of the last valid output; NULL: none */
	uint64_t expires_ns; /* of `status`; UINT64_MAX: never */
	uint64_t not_before_ns;
	struct err err; /* of the last failure */
};

struct access {
	struct event_base *base;
	const struct kube_config *config;
	struct kubeconfig *where;
	struct textfile kubeconfig; /* to detect changes */
	struct plugin plugin;
	struct str authorization;
	struct event *ready; /* of access_wake() */
	struct event *moved; /* of access_open() */
	struct str logged;   /* texts of warnings since access_read_again() */
	char *rejected;      /* of the last reading; NULL: nothing */
};

#define LOGGED_MAX 4096
#define PREVIOUS_STAY "previous credentials stay in use"

/* --- files ---------------------------------------------------------------- */

/* Each request finds the faults: log each once. */
static void warn_once(struct access *a, const char *text, const char *consequence)
{
	if (str_has_line(str_text(&a->logged), text))
		return;
	if (a->logged.len > LOGGED_MAX)
		str_clear(&a->logged);
	str_printf(&a->logged, "%s\n", text);
	log_warn(LOG_AREA_SOURCE, "api: credentials: %s; %s", text, consequence);
}

static void reject(struct access *a, const char *text)
{
	warn_once(a, text, PREVIOUS_STAY);
	if (a->rejected == NULL)
		a->rejected = xasprintf("credentials: %s; %s", text, PREVIOUS_STAY);
}

/* An error only if the file was never read; otherwise its last content stays. */
static int file_check(struct access *a, struct textfile *f, size_t max, struct err *err)
{
	struct err why;
	int r;

	if (f->path == NULL)
		return 0;
	r = textfile_check(f, max, &why);
	if (r >= 0)
		return 0;
	if (f->text.len == 0)
		return err_set(err, r, "%s", why.text);
	reject(a, why.text);
	return 0;
}

static void plugin_discard(struct plugin *p)
{
	json_decref(TAKE(p->status));
	p->not_before_ns = 0;
}

static int where_open(struct kubeconfig **ret, const struct access *a, struct err *err)
{
	return kubeconfig_open(ret, a->config->kubeconfig, a->config->master,
			       a->config->account_dir, err);
}

/* Load a changed kubeconfig and discard all that depends on the previous one. */
static void kubeconfig_check(struct access *a)
{
	AUTO(kubeconfig_close) struct kubeconfig *fresh = NULL;
	struct err err;
	int r;

	if (a->kubeconfig.path == NULL)
		return;
	r = textfile_check(&a->kubeconfig, KUBECONFIG_MAX, &err);
	if (r == 0)
		return;
	if (r > 0)
		r = where_open(&fresh, a, &err);
	if (r < 0) {
		str_clear(&a->kubeconfig.text); /* read it again at the next request */
		reject(a, err.text);
		return;
	}
	log_notice(LOG_AREA_SOURCE, "api: kubeconfig %s: changed; loaded", a->kubeconfig.path);
	/* A kubeconfig has one; those of --master do not change. */
	if (strcmp(a->where->servers.v[0], fresh->servers.v[0]) != 0)
		event_active(a->moved, EV_TIMEOUT, 0);
	kubeconfig_close(a->where);
	a->where = TAKE(fresh);
	process_close(TAKE(a->plugin.process));
	plugin_discard(&a->plugin);
	event_active(a->ready, EV_TIMEOUT, 0);
}

static int files_check(struct access *a, struct err *err)
{
	int r;

	free(TAKE(a->rejected));
	kubeconfig_check(a);
	r = file_check(a, &a->where->token, TOKEN_MAX, err);
	if (r == 0)
		r = file_check(a, &a->where->ca, PEM_MAX, err);
	if (r == 0)
		r = file_check(a, &a->where->cert, PEM_MAX, err);
	if (r == 0)
		r = file_check(a, &a->where->key, PEM_MAX, err);
	if (r == 0 && a->rejected == NULL && a->where->exec == NULL)
		str_clear(&a->logged); /* all is well: a fault that returns is logged again */
	return r;
}

/* --- grants -------------------------------------------------------------- */

/* A text of a plugin's output; NULL: absent or empty. */
static const char *field(const json_t *status, const char *key)
{
	const char *text = json_string_value(json_object_get(status, key));

	return text != NULL && text[0] != '\0' ? text : NULL;
}

static const char *pem(const struct textfile *f)
{
	return textfile_is_set(f) ? str_text(&f->text) : NULL;
}

/* Authorization header of a token without the white space around it. */
static int bearer(struct str *ret, const char *token, size_t size, struct err *err)
{
	static const char blank[] = " \t\r\n";
	size_t start = strspn(token, blank);
	size_t len = strcspn(token + start, blank);

	if (len == 0 || start + len + strspn(token + start + len, blank) != size)
		return err_set(err, -EINVAL, "token is empty or contains white space");
	str_puts(ret, "Bearer ");
	str_add(ret, token + start, len);
	return 0;
}

static int authorization(struct access *a, struct err *err)
{
	const struct kubeconfig *k = a->where;
	const char *token = field(a->plugin.status, "token");
	FINI(str_fini) struct str pair = { 0 };

	str_clear(&a->authorization);
	if (textfile_is_set(&k->token))
		return bearer(&a->authorization, str_text(&k->token.text), k->token.text.len, err);
	if (k->username != NULL) {
		str_printf(&pair, "%s:%s", k->username, k->password ? k->password : "");
		str_puts(&a->authorization, "Basic ");
		base64_encode(&a->authorization, pair.text, pair.len);
		return 0;
	}
	return token == NULL ? 0 : bearer(&a->authorization, token, strlen(token), err);
}

int access_get_now(struct access *a, struct access_grant *ret, struct err *err)
{
	const struct kubeconfig *k = a->where;
	const char *cert = field(a->plugin.status, "clientCertificateData");
	int r = authorization(a, err);

	*ret = (struct access_grant){
		.where = k,
		.ca = pem(&k->ca),
		.cert = pem(&k->cert),
		.key = pem(&k->key),
	};
	if (a->authorization.len > 0)
		ret->authorization = a->authorization.text;
	if (cert != NULL) {
		ret->cert = cert;
		ret->key = field(a->plugin.status, "clientKeyData");
	}
	return r < 0 ? err_wrap(err, r, "credentials") : 0;
}

/* --- the plugin ----------------------------------------------------------- */

/* status.expirationTimestamp on the monotonic clock, less a tenth of the validity (at most 60 s) */
static uint64_t expiry(const char *text)
{
	int64_t at_ns;
	int64_t left_ns;

	if (text == NULL || decode_time(&at_ns, text) < 0)
		return UINT64_MAX;
	left_ns = at_ns - wall_now_ns();
	left_ns -= MIN(left_ns / 10, (int64_t)(60 * NSEC_PER_SEC));
	return now_ns() + (uint64_t)MAX(left_ns, (int64_t)PLUGIN_LIFE_MIN_NS);
}

static int credential_read(struct access *a, const struct str *output, struct err *err)
{
	json_auto_t *root = json_loadb(str_text(output), output->len, 0, NULL);
	json_t *status = json_object_get(root, "status");
	const char *version = field(root, "apiVersion");
	bool has_cert = field(status, "clientCertificateData") != NULL;

	if (version == NULL || !json_is_object(status))
		return err_set(err, -EBADMSG, "did not print an ExecCredential with a status");
	if (strcmp(version, a->where->exec->api_version) != 0)
		return err_set(err, -EBADMSG, "printed apiVersion '%.64s' instead of %s", version,
			       a->where->exec->api_version);
	if (field(status, "token") == NULL && !has_cert)
		return err_set(err, -EBADMSG, "printed neither a token nor a certificate");
	if (has_cert != (field(status, "clientKeyData") != NULL))
		return err_set(err, -EBADMSG, "printed only one of certificate and key");
	json_decref(a->plugin.status);
	a->plugin.status = json_incref(status);
	a->plugin.expires_ns = expiry(field(status, "expirationTimestamp"));
	return 0;
}

/* The last valid output stays in use until the server rejects it; -errno if there is none. */
static int plugin_failed(struct access *a, int r, struct err *err)
{
	struct plugin *p = &a->plugin;

	(void)err_wrap(err, r, "plugin %s", a->where->exec->command);
	p->not_before_ns = now_ns() + PLUGIN_PAUSE_NS;
	if (p->status != NULL) {
		warn_once(a, err->text, PREVIOUS_STAY);
		p->expires_ns = now_ns() + PLUGIN_LIFE_MIN_NS;
		return 0;
	}
	p->err = *err;
	return r;
}

static void on_plugin(void *arg, int r, const struct str *output, const char *why)
{
	struct access *a = arg;
	struct err err = { .text = "" };

	a->plugin.process = NULL;
	r = r < 0 ? err_set(&err, r, "%s", why) : credential_read(a, output, &err);
	if (r < 0)
		(void)plugin_failed(a, r, &err);
	event_active(a->ready, EV_TIMEOUT, 0);
}

/* spec.cluster of the ExecCredential (provideClusterInfo). */
static json_t *cluster_json(const struct access *a)
{
	const struct kubeconfig *k = a->where;
	const char *ca = pem(&k->ca);
	FINI(str_fini) struct str text = { 0 };

	if (ca != NULL)
		base64_encode(&text, ca, strlen(ca));
	return json_pack("{s:s, s:s*, s:o*, s:s*, s:s*}", "server", k->servers.v[0],
			 "tls-server-name", k->tls_server_name, "insecure-skip-tls-verify",
			 k->is_insecure ? json_true() : NULL, "proxy-url", k->proxy_url,
			 "certificate-authority-data", ca != NULL ? str_text(&text) : NULL);
}

static char *exec_info(const struct access *a)
{
	const struct kube_exec *x = a->where->exec;
	json_auto_t *root = json_pack("{s:s, s:s, s:{s:b, s:o*}}", "apiVersion", x->api_version,
				      "kind", "ExecCredential", "spec", "interactive", 0, "cluster",
				      x->needs_cluster ? cluster_json(a) : NULL);
	AUTO(free) char *dump = json_dumps(root, JSON_COMPACT);

	return xasprintf("KUBERNETES_EXEC_INFO=%s", dump ? dump : "{}");
}

/* The environment of vipd with the plugin's variables in place of ours. All malloc'ed. */
static char **environment(const struct access *a)
{
	const struct kube_exec *x = a->where->exec;
	VEC(char *) v = { 0 };

	*vec_push(&v) = exec_info(a);
	vec_for_each (e, &x->env)
		*vec_push(&v) = xstrdup(*e);
	for (char **e = environ; *e != NULL; e++) {
		size_t len = strcspn(*e, "=") + 1;

		if (!vec_has(&v, have, strncmp(*have, *e, len) == 0))
			*vec_push(&v) = xstrdup(*e);
	}
	*vec_push(&v) = NULL;
	return v.v;
}

static int plugin_run(struct access *a, struct err *err)
{
	const struct kube_exec *x = a->where->exec;
	struct process_config config = {
		.timeout_ns = a->config->timing.plugin_ns,
		.output_max = PLUGIN_OUTPUT_MAX,
		.done = on_plugin,
		.arg = a,
	};
	char **envp = environment(a);
	VEC(const char *) argv = { 0 };
	int r;

	*vec_push(&argv) = x->command;
	vec_for_each (arg, &x->args)
		*vec_push(&argv) = *arg;
	*vec_push(&argv) = NULL;
	config.argv = (char *const *)(uintptr_t)argv.v; /* execve() does not write */
	config.envp = envp;
	r = process_open(&a->plugin.process, a->base, &config, err);
	for (char **e = envp; *e != NULL; e++)
		free(*e);
	free(envp);
	vec_fini(&argv);
	if (r == -ENOENT && x->install_hint != NULL)
		return err_set(err, r, "plugin %s: not found: %s", x->command, x->install_hint);
	return r < 0 ? err_wrap(err, r, "plugin %s", x->command) : 0;
}

/* --- requests ------------------------------------------------------------- */

static bool plugin_is_fresh(const struct access *a)
{
	return a->where->exec == NULL ||
	       (a->plugin.status != NULL && now_ns() < a->plugin.expires_ns);
}

/* Fail at once during the pause after a failure. */
static int plugin_start(struct access *a, struct err *err)
{
	int r;

	if (a->plugin.process != NULL)
		return 0;
	if (now_ns() < a->plugin.not_before_ns) {
		*err = a->plugin.err;
		return -EAGAIN;
	}
	r = plugin_run(a, err);
	return r < 0 ? plugin_failed(a, r, err) : 0;
}

void access_wake(struct access *a, struct event *ready)
{
	a->ready = ready;
}

int access_get(struct access *a, struct access_grant *ret, struct err *err)
{
	int r = files_check(a, err);

	if (r == 0 && !plugin_is_fresh(a))
		r = plugin_start(a, err);
	if (r < 0)
		return err_wrap(err, r, "credentials");
	return plugin_is_fresh(a) ? access_get_now(a, ret, err) : ACCESS_WAIT;
}

void access_reject(struct access *a)
{
	if (a->where->exec != NULL && a->plugin.process == NULL)
		plugin_discard(&a->plugin);
}

void access_read_again(struct access *a)
{
	struct err err = { .text = "" };
	int r;

	str_clear(&a->logged); /* log faults that persist once more */
	access_reject(a);
	r = files_check(a, &err);
	if (r < 0)
		warn_once(a, err.text, "requests fail until the file is readable");
	event_active(a->ready, EV_TIMEOUT, 0);
}

const struct kubeconfig *access_where(const struct access *a)
{
	return a->where;
}

const char *access_rejected(const struct access *a)
{
	return a->rejected;
}

/* --- life ----------------------------------------------------------------- */

int access_open(struct access **ret, struct event_base *base, const struct kube_config *config,
		struct event *moved, struct err *err)
{
	AUTO(access_close) struct access *a = xcalloc(1, sizeof(*a));
	int r;

	a->base = base;
	a->config = config;
	a->moved = moved;
	if (config->kubeconfig != NULL && config->kubeconfig[0] != '\0') {
		a->kubeconfig.path = xstrdup(config->kubeconfig);
		/* Before where_open(): the next check finds a change between the two reads. */
		(void)!textfile_check(&a->kubeconfig, KUBECONFIG_MAX, NULL);
	}
	r = where_open(&a->where, a, err);
	if (r == 0)
		*ret = TAKE(a);
	return r;
}

void access_close(struct access *a)
{
	if (a == NULL)
		return;
	process_close(a->plugin.process);
	plugin_discard(&a->plugin);
	kubeconfig_close(a->where);
	textfile_fini(&a->kubeconfig);
	str_fini(&a->authorization);
	str_fini(&a->logged);
	free(a->rejected);
	free(a);
}
