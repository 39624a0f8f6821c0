/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Valid and invalid kubeconfig files; secrets must not appear in messages. */
#include "source/kube/kubeconfig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

/* --- kubeconfigs as text -------------------------------------------------- */

static void show(struct str *s, const char *name, const char *value)
{
	if (value != NULL)
		str_printf(s, " %s=%s", name, value);
}

static void show_pem(struct str *s, const char *name, const struct textfile *p)
{
	show(s, name, p->path);
	if (p->text.len > 0)
		str_printf(s, " %s:%.*s", name, (int)p->text.len, p->text.text);
}

static void show_exec(struct str *s, const struct kube_exec *x)
{
	str_printf(s, " exec=%s", x->command);
	vec_for_each (arg, &x->args)
		str_printf(s, ",%s", *arg);
	vec_for_each (e, &x->env)
		str_printf(s, ",%s", *e);
	str_printf(s, ",%s%s", strrchr(x->api_version, '/') + 1,
		   x->needs_cluster ? ",cluster" : "");
	show(s, "hint", x->install_hint);
}

static void config_text(struct str *s, const struct kubeconfig *k)
{
	vec_for_each (server, &k->servers)
		str_printf(s, "%s%s", s->len > 0 ? "," : "", *server);
	show(s, "tls", k->tls_server_name);
	show(s, "proxy", k->proxy_url);
	if (k->is_insecure)
		str_puts(s, " insecure");
	show_pem(s, "ca", &k->ca);
	show_pem(s, "cert", &k->cert);
	show_pem(s, "key", &k->key);
	show(s, "token", k->token.text.text);
	show(s, "file", k->token.path);
	show(s, "user", k->username);
	show(s, "password", k->password);
	if (k->exec != NULL)
		show_exec(s, k->exec);
}

#define HEAD                                                                           \
	"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: other\n" \
	"  context: {cluster: nowhere, user: nobody}\n- name: c\n"                     \
	"  context: {cluster: k, user: u, namespace: x}\n"
#define CLUSTER(more) \
	"clusters:\n- name: k\n  cluster: {server: 'https://10.0.0.1:6443/'" more "}\n"
#define USER(what) "users:\n- name: u\n  user: {" what "}\n"
#define EXEC(what) USER("exec: {apiVersion: client.authentication.k8s.io/v1, " what "}")

static const struct {
	const char *name;
	const char *text;
	const char *master;
	const char *want;
} good[] = {
	{ "token", HEAD CLUSTER("") USER("token: abc"), NULL, "https://10.0.0.1:6443 token=abc" },
	{ "JSON",
	  "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"k\"}}],"
	  "\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"https://a\"}}]}",
	  NULL, "https://a" },
	{ "relative paths",
	  HEAD CLUSTER(", certificate-authority: pki/ca.crt")
		  USER("client-certificate: /c.crt, client-key: k.key, tokenFile: t"),
	  NULL,
	  "https://10.0.0.1:6443 ca=/etc/k/pki/ca.crt cert=/c.crt key=/etc/k/k.key file=/etc/k/t" },
	{ "data wins over files",
	  HEAD CLUSTER(", certificate-authority: ca.crt, certificate-authority-data: Q0E=")
		  USER("client-certificate-data: Q0VSVA==, client-key-data: S0VZ, client-key: k"),
	  NULL, "https://10.0.0.1:6443 ca:CA cert:CERT key:KEY" },
	{ "name, password", HEAD CLUSTER("") USER("username: me, password: 'p:w'"), NULL,
	  "https://10.0.0.1:6443 user=me password=p:w" },
	{ "TLS name, proxy, insecure",
	  HEAD CLUSTER(", tls-server-name: kubernetes, insecure-skip-tls-verify: true, proxy-url: "
		       "'socks5://u:p@proxy:1080'") USER("token: t"),
	  NULL,
	  "https://10.0.0.1:6443 tls=kubernetes proxy=socks5://u:p@proxy:1080 insecure token=t" },
	{ "exec",
	  HEAD CLUSTER("") EXEC(
		  "command: ./bin/get, args: [a, 'b c'], env: [{name: A, value: x}, {name: B}], "
		  "provideClusterInfo: true, installHint: get it, interactiveMode: IfAvailable"),
	  NULL, "https://10.0.0.1:6443 exec=/etc/k/./bin/get,a,b c,A=x,B=,v1,cluster hint=get it" },
	{ "exec from PATH", HEAD CLUSTER("") EXEC("command: get"), NULL,
	  "https://10.0.0.1:6443 exec=get,v1" },
	{ "master overrides", HEAD CLUSTER("") USER("token: abc"), "https://b:1/",
	  "https://b:1 token=abc" },
	{ "several masters, with blanks and without scheme", HEAD CLUSTER("") USER("token: abc"),
	  "https://b:1/, c:2,,http://d ", "https://b:1,https://c:2,http://d token=abc" },
	{ "IPv6 and a prefix", HEAD CLUSTER("") USER("token: abc"),
	  "https://[fd00::1]:6443/clusters/a/", "https://[fd00::1]:6443/clusters/a token=abc" },
	{ "no user",
	  "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n" CLUSTER(""), NULL,
	  "https://10.0.0.1:6443" },
};

static void test_good(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct err err = { .text = "" };
		struct kubeconfig *k = NULL;
		struct str s = { 0 };

		print_message("    %s\n", good[i].name);
		if (kubeconfig_parse(&k, good[i].text, strlen(good[i].text), "/etc/k",
				     good[i].master, &err) < 0)
			fail_msg("%s", err.text);
		config_text(&s, k);
		assert_string_equal(s.text, good[i].want);
		kubeconfig_close(k);
		str_fini(&s);
	}
}

static const struct {
	const char *name;
	const char *text;
	const char *master;
	const char *want;
} bad[] = {
	{ "empty", "", NULL, "not a kubeconfig" },
	{ "not an object", "- a\n", NULL, "not a kubeconfig" },
	{ "not YAML", "a: [\n", NULL, "line 2: " },
	{ "no context", "clusters: []\n", NULL, "current-context: missing" },
	{ "unknown context", "current-context: c\ncontexts: [{name: d}]\n", NULL,
	  "contexts: has no entry 'c'" },
	{ "unknown cluster", HEAD "clusters: []\n", NULL, "clusters: has no entry 'k'" },
	{ "unknown user", HEAD CLUSTER("") "users: []\n", NULL, "users: has no entry 'u'" },
	{ "no server", HEAD "clusters: [{name: k, cluster: {}}]\n", NULL,
	  "clusters[0].cluster.server: missing" },
	{ "a server that is none", HEAD "clusters: [{name: k, cluster: {server: 'ftp://x'}}]\n",
	  NULL, "clusters[0].cluster.server: 'ftp' is neither https nor http" },
	{ "a server with a user",
	  HEAD "clusters: [{name: k, cluster: {server: 'https://SECRET:SECRET@x'}}]\n", NULL,
	  "clusters[0].cluster.server: contains a user; use a kubeconfig" },
	{ "a server with a blank", HEAD "clusters: [{name: k, cluster: {server: 'https://a b'}}]\n",
	  NULL, "clusters[0].cluster.server: not a URL" },
	{ "a proxy that is none", HEAD CLUSTER(", proxy-url: 'gopher://me:SECRET@proxy:1080'"),
	  NULL, "clusters[0].cluster.proxy-url: not a proxy URL" },
	{ "an argument that is no text", HEAD CLUSTER("") EXEC("command: x, args: [5335]"), NULL,
	  "users[0].user.exec.args[0]: is not text" },
	{ "bad data", HEAD CLUSTER(", certificate-authority-data: '***'"), NULL,
	  "clusters[0].cluster.certificate-authority-data: not base64" },
	{ "secret data", HEAD CLUSTER("") USER("client-key-data: SECRETSECRET1"), NULL,
	  "users[0].user.client-key-data: not base64" },
	{ "token is a number", HEAD CLUSTER("") USER("token: 5335"), NULL,
	  "users[0].user.token: is not text (write it in quotes)" },
	{ "token with a line end", HEAD CLUSTER("") USER("token: \"SECRET\\nX-Evil: 1\""), NULL,
	  "users[0].user.token: contains a line end" },
	{ "password is a list", HEAD CLUSTER("") USER("username: a, password: [SECRET]"), NULL,
	  "users[0].user.password: is not text" },
	{ "certificate without key", HEAD CLUSTER("") USER("client-certificate: c"), NULL,
	  "client certificate without its key" },
	{ "key without certificate", HEAD CLUSTER("") USER("client-key: c"), NULL,
	  "client key without its certificate" },
	{ "insecure with an authority",
	  HEAD CLUSTER(", insecure-skip-tls-verify: true, certificate-authority: x"), NULL,
	  "users: has no entry" },
	{ "insecure with an authority",
	  HEAD CLUSTER(", insecure-skip-tls-verify: true, certificate-authority: x")
		  USER("token: SECRET"),
	  NULL, "exclude each other" },
	{ "auth-provider", HEAD CLUSTER("") USER("auth-provider: {name: gcp}"), NULL,
	  "users[0].user.auth-provider: not supported" },
	{ "impersonation", HEAD CLUSTER("") USER("as: root"), NULL,
	  "users[0].user.as: not supported" },
	{ "exec of an old version",
	  HEAD CLUSTER("")
		  USER("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
	  NULL,
	  "users[0].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or v1beta1" },
	{ "exec of nothing", HEAD CLUSTER("") EXEC("args: [a]"), NULL,
	  "users[0].user.exec.command: missing" },
	{ "exec that asks", HEAD CLUSTER("") EXEC("command: x, interactiveMode: Always"), NULL,
	  "users[0].user.exec.interactiveMode: Always needs a terminal" },
	{ "exec with a bad variable", HEAD CLUSTER("") EXEC("command: x, env: [{name: 'A=B'}]"),
	  NULL, "users[0].user.exec.env[0].name: missing, or not the name of a variable" },
	{ "exec with a secret that is no text",
	  HEAD CLUSTER("") EXEC("command: x, env: [{name: A, value: 5335}]"), NULL,
	  "users[0].user.exec.env[0].value: is not text" },
	{ "master is nothing", HEAD CLUSTER("") USER("token: SECRET"), " , ", "--master: empty" },
	{ "master is odd", HEAD CLUSTER("") USER("token: SECRET"), "https://a,gopher://b",
	  "--master: 'gopher' is neither https nor http" },
	{ "too many masters", HEAD CLUSTER(""), "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
	  "--master: more than 16 servers" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { .text = "" };
		struct kubeconfig *k = NULL;
		int r = kubeconfig_parse(&k, bad[i].text, strlen(bad[i].text), "/", bad[i].master,
					 &err);

		print_message("    %s\n", bad[i].name);
		assert_true(r < 0);
		assert_null(k);
		if (strstr(err.text, bad[i].want) == NULL)
			fail_msg("%s", err.text);
		assert_null(strstr(err.text, "SECRET"));
		assert_null(strstr(err.text, "5335"));
	}
}

/* --- files ---------------------------------------------------------------- */

static char dir[] = "/tmp/vipd-test-kubeconfig-XXXXXX";

static char *in_dir(const char *name)
{
	struct str s = { 0 };

	str_printf(&s, "%s/%s", dir, name);
	return s.text;
}

static void write_file(const char *name, const char *text)
{
	char *path = in_dir(name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
	free(path);
}

static void test_open(void **state)
{
	struct err err = { .text = "" };
	struct kubeconfig *k = NULL;
	struct str s = { 0 };
	char *path = in_dir("config");

	assert_int_equal(kubeconfig_open(&k, path, NULL, "/x", &err), -ENOENT);
	assert_non_null(strstr(err.text, path));
	write_file("config", HEAD CLUSTER("") USER("tokenFile: t"));
	assert_int_equal(kubeconfig_open(&k, path, NULL, "/x", &err), 0);
	assert_non_null(strstr(k->token.path,
			       dir)); /* relative to the file, not to the working directory */
	kubeconfig_close(k);
	write_file("config", "kind: Config\ncurrent-context: [\n");
	assert_int_equal(kubeconfig_open(&k, path, NULL, "/x", &err), -EINVAL);
	assert_non_null(strstr(err.text, "config: line "));

	/* Only a master: no credentials. */
	assert_int_equal(kubeconfig_open(&k, "", "https://a", "/x", &err), 0);
	config_text(&s, k);
	assert_string_equal(s.text, "https://a");
	kubeconfig_close(k);
	str_fini(&s);
	free(path);
}

static void test_account(void **state)
{
	static const struct {
		const char *host;
		const char *port;
		const char *want; /* NULL: refused */
	} cases[] = {
		{ "10.96.0.1", "443", "https://10.96.0.1:443 ca=/sa/ca.crt file=/sa/token" },
		{ "fd00::1", "443", "https://[fd00::1]:443 ca=/sa/ca.crt file=/sa/token" },
		{ "10.96.0.1", NULL, NULL },
		{ NULL, "443", NULL },
		{ "", "", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { .text = "" };
		struct kubeconfig *k = NULL;
		struct str s = { 0 };
		int r;

		(void)unsetenv("KUBERNETES_SERVICE_HOST");
		(void)unsetenv("KUBERNETES_SERVICE_PORT");
		if (cases[i].host != NULL)
			(void)setenv("KUBERNETES_SERVICE_HOST", cases[i].host, 1);
		if (cases[i].port != NULL)
			(void)setenv("KUBERNETES_SERVICE_PORT", cases[i].port, 1);
		r = kubeconfig_open(&k, NULL, NULL, "/sa", &err);
		if (cases[i].want == NULL) {
			assert_int_equal(r, -ENOENT);
			assert_non_null(strstr(err.text, "--kubeconfig"));
			continue;
		}
		assert_int_equal(r, 0);
		config_text(&s, k);
		assert_string_equal(s.text, cases[i].want);
		kubeconfig_close(k);
		str_fini(&s);
	}
}

static void test_textfile(void **state)
{
	struct textfile f = { .path = in_dir("token") };
	char *link_to = in_dir("b");
	struct err err;

	assert_int_equal(textfile_check(&f, 100, &err), -ENOENT);
	write_file("token", "one");
	assert_int_equal(textfile_check(&f, 100, &err), 1);
	assert_string_equal(f.text.text, "one");
	assert_int_equal(textfile_check(&f, 100, &err), 0);
	/* Written again with equal content. */
	assert_int_equal(unlink(f.path), 0);
	write_file("token", "one");
	assert_int_equal(textfile_check(&f, 100, &err), 0);
	/* While it is written the earlier content stays. */
	assert_int_equal(unlink(f.path), 0);
	write_file("token", "");
	assert_int_equal(textfile_check(&f, 100, &err), -ENODATA);
	assert_string_equal(f.text.text, "one");
	/* A text that is cut at a NUL byte would be another one. */
	assert_int_equal(truncate(f.path, 3), 0);
	assert_int_equal(textfile_check(&f, 100, &err), -EBADMSG);
	assert_string_equal(f.text.text, "one");
	/* A link that changes its target, as in a mounted secret. */
	assert_int_equal(unlink(f.path), 0);
	write_file("b", "two");
	assert_int_equal(symlink(link_to, f.path), 0);
	assert_int_equal(textfile_check(&f, 100, &err), 1);
	assert_string_equal(f.text.text, "two");
	assert_int_equal(unlink(f.path), 0);
	assert_int_equal(textfile_check(&f, 100, &err), -ENOENT);
	assert_string_equal(f.text.text, "two");
	write_file("token", "far too long");
	assert_int_equal(textfile_check(&f, 5, &err), -EFBIG);
	assert_string_equal(f.text.text, "two");
	textfile_fini(&f);
	free(link_to);
}

static void test_base64(void **state)
{
	/* RFC 4648 section 10, and invalid input. */
	static const struct {
		const char *text;
		const char *data; /* NULL: refused */
	} cases[] = {
		{ "", "" },
		{ "Zg==", "f" },
		{ "Zm8=", "fo" },
		{ "Zm9v", "foo" },
		{ "Zm9vYg==", "foob" },
		{ "Zm9vYmE=", "fooba" },
		{ "Zm9vYmFy", "foobar" },
		{ " Zm9v\nYmFy\r\n", "foobar" },
		{ "Zg=", NULL },
		{ "Z", NULL },
		{ "Zg==Zg==", NULL },
		{ "Zm9v-", NULL },
		{ "====", NULL },
		{ "Zm=v", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str s = { 0 };
		struct str back = { 0 };
		int r;

		str_puts(&s, "x");
		r = base64_decode(&s, cases[i].text, strlen(cases[i].text), NULL);
		assert_int_equal(r, cases[i].data == NULL ? -EINVAL : 0);
		assert_string_equal(s.text + 1, cases[i].data ? cases[i].data : "");
		base64_encode(&back, s.text + 1, s.len - 1);
		if (cases[i].data != NULL && strpbrk(cases[i].text, " \n") == NULL)
			assert_string_equal(str_text(&back), cases[i].text);
		str_fini(&s);
		str_fini(&back);
	}
}

static int make_dir(void **state)
{
	return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
	static const char *const names[] = { "config", "token", "b" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *path = in_dir(names[i]);

		(void)unlink(path);
		free(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),     cmocka_unit_test(test_bad),
		cmocka_unit_test(test_open),     cmocka_unit_test(test_account),
		cmocka_unit_test(test_textfile), cmocka_unit_test(test_base64),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
