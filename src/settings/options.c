/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * settings/options - flags, then the configuration file, into struct options.
 *
 * With a file, flags are parsed twice: first alone, because flags that the file replaces must be
 * valid as well, then after the file, which they override or complete.
 */
#include "settings/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/tuning.h"
#include "settings/config.h"
#include "settings/flags.h"

struct parse {
	struct options *o;
	const struct config *file; /* NULL without --config */
	struct str replaced;       /* names of flags that the file replaces */
};

/* --- rows and fields --- */

static enum config_kind kind_of(const struct cli_option *f)
{
	static const enum config_kind kinds[] = {
		[CLI_ANY] = CONFIG_TEXT,         [CLI_TEXT] = CONFIG_TEXT,
		[CLI_WORD] = CONFIG_TEXT,        [CLI_CHOICE] = CONFIG_TEXT,
		[CLI_BOOL] = CONFIG_BOOL,        [CLI_INT] = CONFIG_INT,
		[CLI_NUMBER] = CONFIG_NUMBER,    [CLI_DURATION] = CONFIG_DURATION,
		[CLI_SECONDS] = CONFIG_DURATION, [CLI_PREFIXES] = CONFIG_LIST,
		[CLI_INTERFACE] = CONFIG_TEXT,   [CLI_FUNCTION] = CONFIG_TEXT,
		[CLI_ENTRIES] = CONFIG_TEXT,
	};

	return f->kind != CONFIG_NONE ? (enum config_kind)f->kind : kinds[f->value.type];
}

/* Does `end` follow `field` in `name`, which may be NULL? */
static bool is_field(const char *name, const char *field, char end)
{
	return name != NULL && str_begins(name, field) && name[strlen(field)] == end;
}

/* The row of the field (`end` 0), or one of a section ('.'). */
static const struct cli_option *field_find(const char *field, char end)
{
	return array_find(vipd_cli.options, vipd_cli.n_options, f,
			  f->kind != CONFIG_SHARED && (is_field(f->field, field, end) ||
						       is_field(f->nft_field, field, end)));
}

static enum config_kind field_kind(const char *field)
{
	const struct cli_option *f = field_find(field, '\0');

	if (f != NULL)
		return kind_of(f);
	return field_find(field, '.') != NULL ? CONFIG_SECTION : CONFIG_NONE;
}

/* Sections of the other modes show the values of the mode in use. */
static void effective_put(struct options *o, const struct cli_option *f, const char *text)
{
	json_auto_t *value = NULL;

	f = options_row(f);
	value = config_from_text(kind_of(f), text);
	if (f->field == NULL || f->kind == CONFIG_SHARED)
		return;
	(void)json_object_set(o->record.effective, f->field, value);
	if (f->nft_field != NULL)
		(void)json_object_set(o->record.effective, f->nft_field, value);
}

/* `name`: as it was spelled, "--oom-score-adj" or "oomScoreAdj". */
static int option_set(struct options *o, const struct cli_option *f, const char *name,
		      const char *value, struct err *err)
{
	int r;

	if (f->effect == CLI_REFUSED)
		return err_set(err, -EINVAL, "%s", f->help);
	r = cli_set(f, o, value, err);
	if (r == 0 && f->effect == CLI_ACCEPTED && (f->value.type != CLI_CHOICE || *value != '\0'))
		options_ignored_add(o, name, "");
	return r;
}

bool options_has(const struct options *o, const char *flag)
{
	const struct cli_option *f = cli_find(&vipd_cli, flag, strlen(flag));

	return vec_has(&o->record.settings, s,
		       s->option == f && s->value[0] != '\0' &&
			       (s->name[0] == '-' || !options_is_foreign(o, s->name)));
}

/* --- defaults that depend on the mode --- */

/*
 * SVC-10, IPT-12: in iptables mode node ports are served on all addresses of the node and on
 * localhost, unless the options say otherwise.
 */
static void nodeports_by_mode(struct options *o)
{
	static const char all[] = "0.0.0.0/0,::/0";
	const struct cli_option *addresses = cli_find(&vipd_cli, "nodeport-addresses", 18);
	const struct cli_option *localhost =
		cli_find(&vipd_cli, "iptables-localhost-nodeports", 28);
	bool is_iptables = o->plane.mode == PROXY_MODE_IPTABLES;

	if (!options_has(o, "iptables-localhost-nodeports"))
		o->model.serves_localhost = is_iptables;
	effective_put(o, localhost, o->model.serves_localhost ? "true" : "false");
	if (!is_iptables || options_has(o, "nodeport-addresses"))
		return;
	if (cli_set(addresses, o, all, NULL) < 0)
		abort(); /* a constant */
	effective_put(o, addresses, all);
}

/* --- the file --- */

/* Go's zero values stand for the default, except 0 of conntrack and of vipd's drainTimeout. */
static bool is_unset(const struct cli_option *f, const struct config_value *v)
{
	enum config_kind kind = kind_of(f);
	uint64_t ns;

	if (kind == CONFIG_ANY || v->text[0] == '\0')
		return true;
	if (str_begins(v->name, "clientConnection.") && strcmp(v->text, "0") == 0)
		return true;
	return (kind == CONFIG_DURATION || kind == CONFIG_DURATION_OR_NS) &&
	       !str_begins(v->name, "conntrack.") && strcmp(v->name, "ipvs.drainTimeout") != 0 &&
	       cli_duration(&ns, v->text, NULL) == 0 && ns == 0;
}

static int field_reject(const struct parse *p, const struct config_value *v, int code,
			struct err *err)
{
	(void)err_wrap(err, code, "%s", v->name);
	return err_wrap(err, code, "%s:%u", p->file->path, v->line);
}

/* CFG-44: values of the iptables section are checked in every mode, without effect in others. */
static int foreign_check(const struct parse *p, const struct cli_option *f,
			 const struct config_value *v, struct err *err)
{
	struct options scratch = { 0 };
	int r = str_begins(v->name, "iptables.") ? option_set(&scratch, f, v->name, v->text, err)
						 : 0;

	str_fini(&scratch.record.ignored);
	return r < 0 ? field_reject(p, v, r, err) : 0;
}

/* A repeated flag continues these lists, as in kube-proxy; vmodule also the file's (CFG-02). */
static bool is_list(const struct cli_option *f)
{
	return kind_of(f) == CONFIG_LIST || kind_of(f) == CONFIG_GATES ||
	       kind_of(f) == CONFIG_VMODULE;
}

/* Keep the texts of a setting; return the value. */
static const char *setting_add(struct options *o, const struct cli_option *f, const char *name,
			       const char *value)
{
	struct options_setting *s = vec_push(&o->record.settings);

	*s = (struct options_setting){ f, xstrdup(name), xstrdup(value) };
	return s->value;
}

static int field_apply(struct parse *p, const struct config_value *v, struct err *err)
{
	const struct cli_option *f = field_find(v->name, '\0');
	const char *text;
	int r;

	if (is_unset(f, v))
		return 0;
	/* Without effect, and equal to the default. */
	if (f->effect != CLI_EFFECTIVE && f->preset != NULL && strcmp(f->preset, v->text) == 0 &&
	    !options_is_foreign(p->o, v->name))
		return 0;
	text = setting_add(p->o, f, v->name, v->text);
	if (options_is_foreign(p->o, v->name))
		return foreign_check(p, f, v, err);
	r = option_set(p->o, f, v->name, text, err);
	if (r < 0)
		return field_reject(p, v, r, err);
	effective_put(p->o, f, text);
	return 0;
}

static int file_apply(struct parse *p, struct err *err)
{
	const struct config_value *mode = config_find(p->file, "mode");
	int r = 0;

	/* First: it selects the sections. Without it: kube-proxy's default. */
	p->o->plane.mode = PROXY_MODE_IPTABLES;
	if (mode != NULL)
		r = field_apply(p, mode, err);
	vec_for_each (v, &p->file->values)
		if (r == 0 && v != mode)
			r = field_apply(p, v, err);
	return r;
}

/* CFG-44, the periods in force: a pause above the period would make /livez fail (HC-04). */
static int flag_period_check(const struct parse *p, struct err *err)
{
	const struct options_sync *sync = &p->o->sync;
	const struct options_setting *least = NULL;

	vec_for_each (s, &p->o->record.settings)
		if (s->option->value.at == offsetof(struct options, sync.min_period_ns))
			least = s;
	if (sync->min_period_ns <= sync->period_ns || least == NULL || least->name[0] != '-')
		return 0;
	return err_set(err, -EINVAL, "%s: %s is above %s, %.6gs", least->name, least->value,
		       p->file != NULL ? "the sync period" : "--iptables-sync-period",
		       (double)sync->period_ns / NSEC_PER_SEC);
}

/* CFG-44. The error names the file or the flag. */
static int periods_check(const struct parse *p, const char *section, struct err *err)
{
	const json_t *all = p->o->record.effective;
	const char *name = str_local(64, "%s.minSyncPeriod", section);
	const char *least = json_string_value(json_object_get(all, name));
	const char *period =
		json_string_value(json_object_get(all, str_local(64, "%s.syncPeriod", section)));
	const struct config_value *v;
	uint64_t period_ns;
	uint64_t least_ns;

	if (period == NULL || least == NULL || cli_duration(&period_ns, period, NULL) < 0 ||
	    cli_duration(&least_ns, least, NULL) < 0 || least_ns <= period_ns)
		return 0;
	if (p->file == NULL)
		return err_set(err, -EINVAL,
			       "--%s-min-sync-period: %s is above --%s-sync-period, %s", section,
			       least, section, period);
	v = config_find(p->file, name);
	return err_set(err, -EINVAL, "%s:%u: %s: %s is above %s.syncPeriod, %s", p->file->path,
		       v ? v->line : 0, name, least, section, period);
}

/* Of a file, the section of the mode. Mode nftables has the flags of iptables. */
static int all_periods_check(const struct parse *p, struct err *err)
{
	bool is_nft = p->o->plane.mode == PROXY_MODE_NFTABLES;

	if (p->o->plane.mode == PROXY_MODE_IPVS)
		return periods_check(p, "ipvs", err);
	return periods_check(p, is_nft && p->file != NULL ? "nftables" : "iptables", err);
}

static bool is_failover_time(uint64_t ns)
{
	return ns >= 100 * NSEC_PER_MSEC && ns <= 10 * NSEC_PER_SEC;
}

/* Name the flag or the field with this value: a file replaces the flag. */
static int value_reject(const struct parse *p, const char *flag, const char *field, struct err *err)
{
	const struct config_value *v = p->file ? config_find(p->file, field) : NULL;

	return v != NULL ? field_reject(p, v, -EINVAL, err) : err_wrap(err, -EINVAL, "%s", flag);
}

/* CT-18 */
static int failover_check(const struct parse *p, struct err *err)
{
	const struct options_plane *plane = &p->o->plane;

	if (!is_failover_time(plane->failover_ns)) {
		(void)err_set(err, -EINVAL, "%.6gs is not a duration from 0.1s to 10s",
			      (double)plane->failover_ns / NSEC_PER_SEC);
		return value_reject(p, "--failover-timeout", "failoverTimeout", err);
	}
	if (plane->mode == PROXY_MODE_IPVS && plane->failover == FAILOVER_HANDSHAKE) {
		(void)err_set(err, -EINVAL,
			      "'handshake' is not available with --proxy-mode ipvs; "
			      "use eject or off");
		return value_reject(p, "--failover", "failover", err);
	}
	return 0;
}

/* CT-33 */
static int failover_udp_check(const struct parse *p, struct err *err)
{
	const struct options_plane *plane = &p->o->plane;
	uint64_t ns = plane->failover_udp_ns;

	if (ns == 0)
		return 0;
	if (!is_failover_time(ns))
		(void)err_set(err, -EINVAL, "%.6gs is not 0, nor a duration from 0.1s to 10s",
			      (double)ns / NSEC_PER_SEC);
	else if (plane->failover == FAILOVER_OFF)
		(void)err_set(err, -EINVAL, "requires --failover handshake or eject");
	else if (plane->mode == PROXY_MODE_IPVS)
		(void)err_set(err, -EINVAL, "not available with --proxy-mode ipvs");
	else
		return 0;
	return value_reject(p, "--failover-udp-timeout", "failoverUDPTimeout", err);
}

/* As kube-proxy, which has no use for it in other modes. */
static int scheduler_check(const struct parse *p, struct err *err)
{
	const char *text = p->o->ipvs.sched;
	struct scheduler ignored;
	struct err why;

	if (p->o->plane.mode != PROXY_MODE_IPVS || text == NULL ||
	    scheduler_parse(&ignored, text, &why) == 0)
		return 0;
	(void)err_set(err, -EINVAL,
		      "%s; allowed: rr, wrr, lc, wlc, fo, ovf, lblc, lblcr, dh, sh, mh, sed, nq or "
		      "twos, with flags after commas: mh,mh-port",
		      why.text);
	return value_reject(p, "--ipvs-scheduler", "ipvs.scheduler", err);
}

/* CFG-10, CFG-11, CFG-22: address and port where they were left open; `port` -1: no flag. */
static void place_complete(struct options *o, const char *field, struct ip_endpoint *place,
			   int32_t port, struct ip_addr addr, uint16_t preset)
{
	if (!ip_is_set(&place->addr))
		place->addr = addr;
	if (port == 0) /* no server, even with an address */
		place->port = 0;
	else if (place->port == 0)
		place->port = port > 0 ? (uint16_t)port : preset;
	if (port > 0)
		(void)json_object_set_new(o->record.effective, field,
					  json_string(ip_endpoint_str(&place->addr, place->port)));
}

/* CFG-10, CFG-11: two servers at one port. An unspecified address is all, of both families. */
static int ports_check(const struct parse *p, struct err *err)
{
	const struct ip_endpoint *healthz = &p->o->servers.healthz;
	const struct ip_endpoint *metrics = &p->o->servers.metrics;
	const struct config_value *v;

	if (metrics->port == 0 || metrics->port != healthz->port ||
	    !(ip_addr_is_any(&metrics->addr) || ip_addr_is_any(&healthz->addr) ||
	      ip_addr_is_equal(&metrics->addr, &healthz->addr)))
		return 0;
	(void)err_set(err, -EINVAL, "%s: %s and %s overlap",
		      p->file != NULL ? "metricsBindAddress and healthzBindAddress"
				      : "--metrics-bind-address and --healthz-bind-address",
		      ip_endpoint_str(&metrics->addr, metrics->port),
		      ip_endpoint_str(&healthz->addr, healthz->port));
	if (p->file == NULL)
		return -EINVAL;
	v = config_find(p->file, "metricsBindAddress")
		    ?: config_find(p->file, "healthzBindAddress");
	return err_wrap(err, -EINVAL, "%s:%u", p->file->path, v != NULL ? v->line : 0);
}

/* CFG-25, CFG-26 */
static int interface_check(const struct parse *p, struct err *err)
{
	struct options *o = p->o;
	bool is_bridge = o->model.detect_local == DETECT_LOCAL_BRIDGE;
	const char *interface = is_bridge ? o->pods.bridge : o->pods.prefix;

	if (!is_bridge && o->model.detect_local != DETECT_LOCAL_PREFIX)
		return 0;
	if (*interface == '\0') {
		const struct cli_option *f =
			is_bridge ? cli_find(&vipd_cli, "pod-bridge-interface", 20)
				  : cli_find(&vipd_cli, "pod-interface-name-prefix", 25);

		(void)err_set(err, -EINVAL, "%s requires %s",
			      is_bridge ? "BridgeInterface" : "InterfaceNamePrefix",
			      p->file != NULL ? f->field : cli_name(f));
		return value_reject(p, "--detect-local-mode", "detectLocalMode", err);
	}
	memcpy(o->model.detect_ifname, interface, IFNAME_MAX);
	return 0;
}

static int source_check(const struct parse *p, struct err *err)
{
	const struct options *o = p->o;

	if (o->manifests == NULL || (o->api.kubeconfig == NULL && o->api.master == NULL))
		return 0;
	(void)err_set(err, -EINVAL, "cannot be combined with --manifests");
	return o->api.kubeconfig != NULL
		       ? value_reject(p, "--kubeconfig", "clientConnection.kubeconfig", err)
		       : err_wrap(err, -EINVAL, "--master");
}

/* Everything that needs more than one flag. */
static int validate(const struct parse *p, struct err *err)
{
	struct options *o = p->o;
	enum ipfam fam = o->servers.is_ipv6 ? IPFAM_V6 : IPFAM_V4;
	int r = flag_period_check(p, err);

	if (r == 0)
		r = all_periods_check(p, err);
	if (r == 0)
		r = failover_check(p, err);
	if (r == 0)
		r = failover_udp_check(p, err);
	if (r == 0)
		r = scheduler_check(p, err);
	place_complete(o, "healthzBindAddress", &o->servers.healthz, o->servers.healthz_port,
		       (struct ip_addr){ .family = ip_family(fam) }, 10256);
	place_complete(o, "metricsBindAddress", &o->servers.metrics, o->servers.metrics_port,
		       ip_addr_loopback(fam), 10249);
	if (r == 0)
		r = ports_check(p, err);
	if (r == 0 && o->servers.page == STATUS_PAGE_ON && o->servers.metrics.port == 0)
		r = err_set(err, -EINVAL,
			    "--status-page=on requires a metrics server; --metrics-port is 0");
	if (r == 0)
		r = interface_check(p, err);
	return r == 0 ? source_check(p, err) : r;
}

/* --- flags --- */

/* CFG-02: the file replaces flags that have a field, with exceptions. */
static bool is_replaced(const struct parse *p, const struct cli_option *f)
{
	return p->file != NULL && f->field != NULL && strcmp(f->field, "hostnameOverride") != 0 &&
	       !str_begins(f->field, "logging.");
}

/* An empty flag does not override the file. */
static const char *empty_value(const struct parse *p, const struct cli_option *f)
{
	const struct config_value *v =
		p->file != NULL && f->field != NULL ? config_find(p->file, f->field) : NULL;

	return v != NULL ? v->text : "";
}

static int flag_apply(struct parse *p, const struct cli_option *f, const char *value,
		      struct err *err)
{
	const char *name = cli_name(f);
	FINI(str_fini) struct str list = { 0 };
	int r;

	if (is_replaced(p, f)) {
		str_printf(&p->replaced, "%s%s", p->replaced.len > 0 ? ", " : "", name);
		return 0;
	}
	vec_for_each (s, &p->o->record.settings) {
		if (s->option != f || !is_list(f) || s->value[0] == '\0')
			continue;
		str_clear(&list);
		str_printf(&list, "%s%s%s", s->value, *value != '\0' ? "," : "", value);
	}
	if (list.len > 0)
		value = list.text;
	else if (value != NULL && *value == '\0')
		value = empty_value(p, f);
	r = option_set(p->o, f, name, value, err);
	if (r < 0)
		return err_wrap(err, r, "%s", name);
	value = setting_add(p->o, f, name, value ? value : "true");
	/* An empty value is the default. */
	effective_put(p->o, f, *value == '\0' && f->preset != NULL ? f->preset : value);
	return 0;
}

static int flags_apply(struct parse *p, int argc, char **argv, struct err *err)
{
	struct cli_args args = { argc, argv };
	const struct cli_option *f;
	const char *value;
	struct err cause;
	int r;

	while ((r = cli_next(&args, &vipd_cli, &f, &value, &cause)) > 0) {
		if (f == NULL) /* CFG-06 */
			return err_set(err, -EINVAL, "unexpected argument '%s'", value);
		r = flag_apply(p, f, value, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? err_set(err, r, "%s (see --help)", cause.text) : 0;
}

PRINTF_LIKE(2, 3)
static void note(struct options *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	*vec_push(&o->record.notes) = xvasprintf(fmt, ap);
	va_end(ap);
}

static bool has_loopback_prefix(const struct model_config *c)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct ip_addr a = ip_addr_loopback(fam);

		if (vec_has(&c->nodeport_cidrs, p, ip_prefix_contains(p, &a)))
			return true;
	}
	return false;
}

static void notes_make(const struct parse *p)
{
	struct options *o = p->o;

	if (p->file != NULL && p->file->complaints.len > 0)
		note(o, "%s: strict decoding failed: %s", o->config, p->file->complaints.text);
	if (p->replaced.len > 0)
		note(o, "%s replaces these flags: %s", o->config, p->replaced.text);
	if (o->record.ignored.len > 0)
		note(o, "accepted without effect: %s", o->record.ignored.text);
	if (o->plane.mode == PROXY_MODE_IPTABLES)
		note(o, "mode iptables, kube-proxy's default, is served with nftables");
	if (o->plane.mode == PROXY_MODE_IPVS && o->plane.is_table_owner)
		note(o, "--nft-table-owner: no effect with --proxy-mode ipvs");
	if (options_has(o, "iptables-localhost-nodeports") && o->model.serves_localhost &&
	    !has_loopback_prefix(&o->model))
		note(o, "iptables.localhostNodePorts: no effect: nodePortAddresses contains no "
			"loopback address");
}

static void options_init(struct options *o)
{
	*o = (struct options){
		.servers.healthz_port = -1,
		.servers.metrics_port = -1,
		.log.area_verbosity = { [0 ... LOG_AREA_N - 1] = -1 },
		.oom_score_adj = OOM_SCORE_UNSET,
		.record.effective = json_object(),
	};
	kube_config_init(&o->api);
	for (size_t i = 0; i < vipd_cli.n_options; i++) {
		const struct cli_option *f = &vipd_cli.options[i];

		if (f->preset == NULL)
			continue;
		effective_put(o, f, f->preset);
		if (f->value.type != CLI_FUNCTION && cli_set(f, o, f->preset, NULL) < 0)
			abort(); /* a constant of the table */
	}
}

void options_fini(struct options *o)
{
	vec_for_each (s, &o->record.settings) {
		free(s->name);
		free(s->value);
	}
	vec_free_all(&o->record.notes);
	vec_fini(&o->ipvs_exclude);
	vec_fini(&o->model.cluster_cidrs);
	vec_fini(&o->model.service_cidrs);
	vec_fini(&o->model.nodeport_cidrs);
	vec_fini(&o->record.settings);
	str_fini(&o->record.ignored);
	json_decref(o->record.effective);
	o->record.effective = NULL;
}

/*
 * The log format also applies to errors in other flags and fields: it is read from the flag,
 * else from the file, before anything is checked.
 */
static void log_format_foresee(struct options *o, const struct config *file, int argc, char **argv)
{
	const struct config_value *field = file ? config_find(file, "logging.format") : NULL;
	const struct cli_option *format = cli_find(&vipd_cli, "logging-format", 14);

	if (field != NULL)
		(void)!cli_set(format, o, field->text, NULL);
	cli_foresee(&vipd_cli, format, o, argc, argv);
}

/* Needs no valid configuration. */
static bool is_for_people(const struct options *o)
{
	return o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION || o->shell != NULL;
}

static int hostname_find(struct options *o, struct err *err)
{
	char host[sizeof(o->hostname)] = "";
	int r;

	if (o->hostname[0] != '\0')
		return 0;
	if (gethostname(host, sizeof(host) - 1) < 0)
		return err_errno(err, "host name");
	if (host[0] == '\0')
		return err_set(err, -EINVAL, "no host name: --hostname-override is required");
	r = cli_set(cli_find(&vipd_cli, "hostname-override", 17), o, host, err);
	return r < 0 ? err_wrap(err, r, "host name") : 0;
}

/* From the defaults: the file, then flags that it does not replace. */
static int file_read_apply(struct parse *p, struct config *file, const char *path, int argc,
			   char **argv, struct err *err)
{
	int r;

	options_fini(p->o);
	options_init(p->o);
	r = config_read(file, path, field_kind, err);
	p->file = file;
	log_format_foresee(p->o, file, argc, argv);
	if (r == 0)
		r = file_apply(p, err);
	return r < 0 ? r : flags_apply(p, argc, argv, err);
}

int options_parse(struct options *o, int argc, char **argv, struct err *err)
{
	struct parse p = { .o = o };
	FINI(config_fini) struct config file = { 0 };
	int r;

	options_init(o);
	log_format_foresee(o, NULL, argc, argv);
	r = flags_apply(&p, argc, argv, err);
	if (r == 0 && o->config != NULL && !is_for_people(o))
		r = file_read_apply(&p, &file, o->config, argc, argv, err);
	if (r == 0)
		r = hostname_find(o, err);
	if (r == 0)
		r = validate(&p, err);
	if (r == 0) {
		nodeports_by_mode(o);
		notes_make(&p);
	}
	(void)json_object_set_new(o->record.effective, "mode", json_string(options_mode(o)));
	if (o->shell != NULL)
		o->action = OPTIONS_COMPLETION;
	else if (o->write_config_to != NULL && !is_for_people(o))
		o->action = OPTIONS_WRITE_CONFIG;
	str_fini(&p.replaced);
	return r;
}
