/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run_migrate - kube-proxy's configuration and this node, compared with what vipd does.
 *
 * options_parse() reads the configuration as vipd would: a setting that vipd rejects is an error
 * here, and the table of flags says what each setting does. The checks of the node are doctor's.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/control.h"
#include "base/file.h"
#include "ctl/run.h"
#include "ctl/value.h"
#include "doctor/check.h"
#include "settings/config.h"
#include "settings/options.h"
#include "source/decode/yamlread.h"

#define PROBE_PORT 10256 /* at 127.0.0.1 */

#define ADVICE_STEPS \
	"stop kube-proxy, start vipd, run vipd --cleanup=kube-proxy; doc/migration.md has the exact steps and the way back"

/* --- settings --- */

/* "no effect: the log goes to standard error" without its beginning. */
static const char *reason(const char *help)
{
	const char *colon = strstr(help, "no effect: ");

	return colon != NULL ? colon + strlen("no effect: ") : help;
}

static void setting_report(json_t *r, const struct options *o, const struct options_setting *s)
{
	const char *name;
	json_auto_t *field = options_field(o, s, &name);

	switch (options_use(o, s)) {
	case OPTIONS_SAME:
		if (field != NULL)
			check_add(r, "same", CHECK_OK, NULL, "%s %s", s->name, s->value);
		else if (s->option->kind == CONFIG_SHARED)
			check_add(r, "differs", CHECK_WARNING, "use flags instead of a file",
				  "%s %s: a configuration file cannot disable this server", s->name,
				  s->value);
		else if (s->option->field != NULL)
			check_add(r, "same", CHECK_NOTE, NULL, "%s %s", s->name, s->value);
		else if (strcmp(s->name, "--config") != 0)
			check_add(r, "same", CHECK_NOTE, "pass it to vipd as a flag",
				  "%s %s: no field in the configuration file", s->name, s->value);
		break;
	case OPTIONS_DIFFERS:
		check_add(r, "differs", CHECK_NOTE,
			  field == NULL ? "use flags instead of a file" : NULL, "%s %s: %s%s",
			  s->name, s->value, s->option->differs,
			  field == NULL ? "; a configuration file has no field for it in this mode"
					: "");
		break;
	case OPTIONS_UNUSED:
		check_add(r, "no-effect", CHECK_NOTE, NULL, "%s %s: %s", s->name, s->value,
			  reason(s->option->help));
		break;
	case OPTIONS_OTHER_MODE:
		check_add(r, "other-mode", CHECK_OK, NULL, "%s %s: no effect, as in kube-proxy",
			  s->name, s->value);
		break;
	}
}

/* SVC-10: kube-proxy serves node ports on all addresses, vipd's ipvs plane on the primary ones. */
static bool needs_all_nodeports(const struct options *o)
{
	return o->plane.mode == PROXY_MODE_IPVS && !options_has(o, "nodeport-addresses");
}

/* The kubelet probes as deploy/base/daemonset.yaml says, load balancers from other hosts. */
static void probes_report(json_t *r, const struct options *o)
{
	const struct ip_endpoint *at = &o->servers.healthz;
	const struct ip_addr probed = ip_addr_loopback(IPFAM_V4);
	bool is_probed_addr = ip_addr_is_equal(&at->addr, &probed);
	const char *text = ip_endpoint_str(&at->addr, at->port);

	if (at->port != PROBE_PORT || !(is_probed_addr || ip_addr_is_any(&at->addr)))
		check_add(
			r, "probes", CHECK_WARNING,
			"in a DaemonSet leave healthzBindAddress unset (0.0.0.0:10256), or change the probes",
			"/healthz and /livez on %s: the probes of deploy/base/daemonset.yaml use 127.0.0.1:%d",
			text, PROBE_PORT);
	else if (is_probed_addr)
		check_add(r, "probes", CHECK_NOTE, NULL,
			  "/healthz on %s: other hosts, such as load balancers, cannot probe it",
			  text);
}

static void settings_report(json_t *r, const struct options *o)
{
	/* The mode is the first choice of a migration, and kubeadm's file leaves it empty. */
	if (!options_has(o, "proxy-mode"))
		check_add(
			r, "differs", CHECK_NOTE, NULL,
			"mode is empty: kube-proxy's default, %s, which vipd serves with nftables: doc/migration.md",
			options_mode(o));
	if (needs_all_nodeports(o))
		check_add(
			r, "differs", CHECK_WARNING,
			"set nodePortAddresses, as --write-config-to does",
			"nodePortAddresses is empty: all addresses in kube-proxy's mode ipvs, the primary ones in vipd's");
	vec_for_each (s, &o->record.settings)
		setting_report(r, o, s);
	probes_report(r, o);
	vec_for_each (note, &o->record.notes) /* without those that the settings have */
		if (!str_begins(*note, "accepted without effect") && !str_begins(*note, "mode "))
			check_add(r, "ignored", CHECK_WARNING,
				  "delete it, or look it up in doc/flags.md", "%s", *note);
}

/* --- the node --- */

/* A kube-proxy that runs, and its kernel state, are what is to be replaced. */
static void node_report(json_t *r, const struct options *o)
{
	json_auto_t *node = check_run(options_plane(o));
	json_t *c;
	size_t i;

	json_array_foreach (node, i, c) {
		enum check_level level = check_level(c);
		bool is_proxies = strcmp(check_text(c, "check"), "proxies") == 0;

		if (is_proxies)
			check_add(r, "kube-proxy", level > CHECK_NOTE ? CHECK_NOTE : level,
				  check_text(c, "advice"), "%s", check_text(c, "found"));
		else if (level > CHECK_OK)
			(void)json_array_append(r, c);
	}
	check_add(r, "steps", CHECK_NOTE, ADVICE_STEPS, "kube-proxy to vipd, one node at a time");
}

/* --- vipd's configuration --- */

static int config_write(const struct options *o, const char *path, struct err *err)
{
	json_auto_t *root = json_object();
	FINI(str_fini) struct str text = { 0 };

	vec_for_each (s, &o->record.settings) {
		enum options_use use = options_use(o, s);
		const char *name;
		json_auto_t *value = options_field(o, s, &name);

		if (value != NULL && (use == OPTIONS_SAME || use == OPTIONS_DIFFERS))
			(void)json_object_set(root, name, value);
	}
	(void)json_object_set_new(root, "mode", json_string(options_mode(o)));
	if (needs_all_nodeports(o))
		(void)json_object_set_new(root, "nodePortAddresses",
					  json_pack("[s, s]", "0.0.0.0/0", "::/0"));
	config_print(&text, root);
	if (strcmp(path, "-") != 0)
		return file_write(path, text.text, err);
	(void)out_write(text.text, text.len);
	return 0;
}

static int report_show(const struct run *run, const struct options *o)
{
	json_t *report = json_array();
	json_auto_t *answer = NULL;

	settings_report(report, o);
	node_report(report, o);
	answer = json_pack("{s:i, s:s, s:s, s:o}", "api", CONTROL_API_VERSION, "mode",
			   options_mode(o), "worst", check_level_text(check_report_worst(report)),
			   "results", report);
	return answer_show(run, answer, (int)doctor_exit(answer), show_doctor);
}

/* --- kube-proxy's file --- */

static int stdin_read(struct str *ret, struct err *err)
{
	char buf[4096];
	ssize_t n;

	while (ret->len <= CONFIG_SIZE_MAX && (n = read(STDIN_FILENO, buf, sizeof(buf))) != 0) {
		if (n == -1)
			return err_errno(err, "standard input");
		str_add(ret, buf, (size_t)n);
	}
	return 0;
}

/* `text` as standard input: config_read() does not wait for a pipe's writer. */
static int stdin_set(const char *text, size_t len, struct err *err)
{
	AUTO(close) int fd = memfd_create("stdin", MFD_CLOEXEC);

	if (fd == -1 || write(fd, text, len) == -1 || dup2(fd, STDIN_FILENO) == -1)
		return err_errno(err, "standard input");
	return 0;
}

/* The first document, if it is a ConfigMap, as kubectl prints it; else NULL. */
static json_t *configmap_read(const struct str *text)
{
	AUTO(yaml_close) struct yaml *y = NULL;
	json_auto_t *root = NULL;
	struct err ignored;

	yaml_open_text(&y, str_text(text), text->len, 1);
	if (yaml_next(y, &root, &ignored) != YAML_DOCUMENT ||
	    strcmp(value_text(root, "kind"), "ConfigMap") != 0)
		return NULL;
	return TAKE(root);
}

/* Standard input and the file in a ConfigMap become /dev/stdin. */
static int input_open(const char **path, struct err *err)
{
	static const char *const keys[] = { "config.conf", "config" }; /* kubeadm's, EKS's */
	FINI(str_fini) struct str text = { 0 };
	json_auto_t *map = NULL;
	const char *inner = NULL;
	bool is_stdin = strcmp(*path, "-") == 0;
	int r = is_stdin ? stdin_read(&text, err) : file_read(&text, *path, CONFIG_SIZE_MAX, err);

	if (r < 0)
		return r;
	map = configmap_read(&text);
	for (size_t i = 0; map != NULL && inner == NULL && i < ARRAY_SIZE(keys); i++)
		inner = json_string_value(json_object_get(json_object_get(map, "data"), keys[i]));
	if (map != NULL && inner == NULL)
		return err_set(err, -EINVAL,
			       "%s: ConfigMap without the key config.conf or config in data",
			       *path);
	if (map == NULL && !is_stdin)
		return 0;
	*path = "/dev/stdin";
	return inner != NULL ? stdin_set(inner, strlen(inner), err)
			     : stdin_set(str_text(&text), text.len, err);
}

/* --- the command --- */

static bool has_flag(const struct run *run, const char *flag)
{
	size_t len = strlen(flag);

	return array_has(run->args, (size_t)run->n_args, a,
			 str_begins(*a, flag) && ((*a)[len] == '=' || (*a)[len] == '\0'));
}

/*
 * kube-proxy's command line as vipd's: `path`, NULL or of the first argument, becomes --config, and
 * the default mode is iptables.
 */
static char **argv_make(const struct run *run, const char *path, int *argc)
{
	char **argv = xcalloc((size_t)run->n_args + 3, sizeof(*argv));
	bool has_file = path != NULL;
	int n = 0;

	argv[n++] = (char *)(uintptr_t) "vipctl migrate";
	if (has_file)
		argv[n++] = (char *)(uintptr_t) "--config";
	else if (!has_flag(run, "--config") && !has_flag(run, "--proxy-mode"))
		argv[n++] = (char *)(uintptr_t) "--proxy-mode=iptables";
	if (has_file)
		argv[n++] = (char *)(uintptr_t)path;
	for (int i = has_file; i < run->n_args; i++)
		argv[n++] = run->args[i];
	*argc = n;
	return argv;
}

int run_migrate(const struct run *run)
{
	struct options o;
	struct err err;
	const char *path;
	int argc;
	AUTO(free) char **argv = NULL;
	int code = EXIT_FINE;
	int r;

	if (run->n_args == 0)
		return usage("migrate takes kube-proxy's configuration FILE, `-`, or -- FLAGS");
	path = run->args[0][0] != '-' || run->args[0][1] == '\0' ? run->args[0] : NULL;
	if (path != NULL && input_open(&path, &err) < 0)
		return complain(EXIT_USAGE, "%s", err.text);
	argv = argv_make(run, path, &argc);
	r = options_parse(&o, argc, argv, &err);
	if (r < 0)
		code = complain(EXIT_USAGE, "%s", err.text);
	else if (run->write_config_to != NULL)
		r = config_write(&o, run->write_config_to, &err);
	if (code == EXIT_FINE && r < 0)
		code = complain(EXIT_PROBLEM, "%s", err.text);
	else if (r == 0 && (run->write_config_to == NULL || strcmp(run->write_config_to, "-") != 0))
		code = report_show(run, &o);
	options_fini(&o);
	return code;
}
