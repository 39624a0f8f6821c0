/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options - one table of flags and fields: how each is read, and what --help says.
 *
 * A field of the configuration file is read as the text its flag would take, by the
 * same function. A row without a name is a field only, one without a field is a
 * flag only.
 */
#include "daemon/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/roff.h"
#include "daemon/config.h"

#define VERSION_BEFORE "1.35" /* of the kube-proxy whose flags these are, 1.36 */
#define CONTROL_SOCKET_DEFAULT "/run/vipd/control.sock"
#define SYNC_PERIOD_DEFAULT_NS (30 * NSEC_PER_SEC)
#define AUDIT_PERIOD_DEFAULT_NS (300 * NSEC_PER_SEC)

struct flag;

struct parse {
	struct options *o;
	struct model_config *config;
	const struct config *file;   /* NULL without --config */
	const struct flag *flag;     /* the row in hand ... */
	const char *name;            /* ... as it was spelled: "--oom-score-adj", "oomScoreAdj" */
	struct str ignored;          /* names of what is without effect */
	struct str beside;           /* names of flags that the file takes the place of */
	bool has_nodeport_addresses; /* "primary" or prefixes were asked for */
	bool has_localhost;          /* localhostNodePorts was set, to ... */
	bool is_localhost;
};

typedef int (*flag_fn)(struct parse *p, const char *value, struct err *err);

struct flag {
	const char *name; /* NULL: a field only */
	const char *arg;  /* NULL: a switch, which may be given as --name=false */
	flag_fn parse;
	const char *help;
	/* The rest is about the file; CONFIG_NONE: the field has a row of its own. */
	const char *fields; /* NULL: none; several with blanks between */
	enum config_kind kind;
	const char *preset; /* in force when nobody says anything, as text; NULL: nothing */
};

/* --- value kinds --- */

static int parse_bool(bool *ret, const char *value, struct err *err)
{
	static const char *const words[2][6] = { /* Go's strconv.ParseBool() */
						 { "0", "f", "F", "false", "False", "FALSE" },
						 { "1", "t", "T", "true", "True", "TRUE" }
	};

	if (value == NULL) {
		*ret = true;
		return 0;
	}
	for (int truth = 0; truth < 2; truth++)
		for (size_t i = 0; i < ARRAY_SIZE(words[truth]); i++)
			if (strcmp(value, words[truth][i]) == 0) {
				*ret = truth;
				return 0;
			}
	return err_set(err, -EINVAL, "'%s' is not true or false", value);
}

/* Go's durations: a sequence of numbers with units, "1m30s", "250ms"; "0" alone. */
static int parse_duration(uint64_t *ret, const char *value, struct err *err)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },
		{ "us", NSEC_PER_USEC },
		{ "ms", NSEC_PER_MSEC },
		{ "s", NSEC_PER_SEC },
		{ "m", 60 * NSEC_PER_SEC },
		{ "h", 3600 * NSEC_PER_SEC },
		/* the two signs for micro, as Go prints and reads them */
		{ "\u00b5s", NSEC_PER_USEC },
		{ "\u03bcs", NSEC_PER_USEC },
	};
	const char *p = value;
	double total = 0;

	if (strcmp(value, "0") == 0) {
		*ret = 0;
		return 0;
	}
	while (*p != '\0') {
		char *end;
		double n = isdigit((unsigned char)*p) || *p == '.' ? strtod(p, &end) : -1;
		size_t unit_len;
		size_t i = 0;

		if (n < 0 || end == p)
			return err_set(err, -EINVAL, "'%s' is not a duration such as 30s or 1m30s",
				       value);
		unit_len = strspn(end, "nusmh\u00b5\u03bc");
		while (i < ARRAY_SIZE(units) && (strlen(units[i].unit) != unit_len ||
						 strncmp(units[i].unit, end, unit_len) != 0))
			i++;
		if (i == ARRAY_SIZE(units))
			return err_set(err, -EINVAL, "'%s' is not a duration such as 30s or 1m30s",
				       value);
		total += n * (double)units[i].ns;
		p = end + unit_len;
	}
	if (p == value || total > 1e18)
		return err_set(err, -EINVAL, "'%s' is not a duration such as 30s or 1m30s", value);
	*ret = (uint64_t)total;
	return 0;
}

struct prefixes {
	struct ip_prefix *v;
	size_t n;
};

/* Comma separated; blanks around entries are ignored. */
static int parse_prefixes(struct prefixes *ret, const char *value, struct err *err)
{
	char *copy = xstrdup(value);
	char *rest = copy;
	char *word;
	int r = 0;

	*ret = (struct prefixes){ 0 };
	while (r == 0 && (word = strsep(&rest, ",")) != NULL) {
		size_t len;

		word += strspn(word, " \t");
		len = strcspn(word, " \t");
		word[len] = '\0';
		if (*word == '\0')
			continue;
		ret->v = xreallocarray(ret->v, ret->n + 1, sizeof(*ret->v));
		r = ip_prefix_parse(&ret->v[ret->n], word, err);
		ret->n += r == 0;
	}
	free(copy);
	if (r < 0) {
		free(ret->v);
		*ret = (struct prefixes){ 0 };
	}
	return r;
}

static int parse_ifname(char ret[static IFNAME_MAX], const char *value, struct err *err)
{
	size_t len = strlen(value);

	if (len == 0 || len >= IFNAME_MAX || strpbrk(value, "/ \t") != NULL)
		return err_set(err, -EINVAL, "'%s' is not an interface name (1 to %d characters)",
			       value, IFNAME_MAX - 1);
	memcpy(ret, value, len + 1);
	return 0;
}

/* --- flags --- */

static int flag_help(struct parse *p, const char *value, struct err *err)
{
	p->o->action = OPTIONS_HELP;
	if (value != NULL && strcmp(value, "table") == 0)
		p->o->action = OPTIONS_TABLE;
	else if (value != NULL && strcmp(value, "man") == 0)
		p->o->action = OPTIONS_MAN;
	return 0;
}

static int flag_version(struct parse *p, const char *value, struct err *err)
{
	p->o->action = OPTIONS_VERSION;
	return 0;
}

static int flag_cleanup(struct parse *p, const char *value, struct err *err)
{
	bool is_forced = value != NULL && strcmp(value, "kube-proxy,force") == 0;
	bool is_set = false;

	if (is_forced || (value != NULL && strcmp(value, "kube-proxy") == 0)) {
		p->o->action = OPTIONS_CLEANUP_KUBE_PROXY;
		p->o->is_cleanup_forced = is_forced;
		return 0;
	}
	if (parse_bool(&is_set, value, NULL) < 0)
		return err_set(err, -EINVAL,
			       "'%s' is not true, false, kube-proxy or kube-proxy,force", value);
	if (is_set)
		p->o->action = OPTIONS_CLEANUP;
	return 0;
}

static int flag_manifests(struct parse *p, const char *value, struct err *err)
{
	if (*value == '\0')
		return err_set(err, -EINVAL, "a folder is wanted");
	p->o->manifests = value;
	return 0;
}

static int flag_kubeconfig(struct parse *p, const char *value, struct err *err)
{
	(void)err;
	p->o->kubeconfig = *value ? value : NULL;
	return 0;
}

static int flag_master(struct parse *p, const char *value, struct err *err)
{
	(void)err;
	p->o->master = *value ? value : NULL;
	return 0;
}

static int flag_content_type(struct parse *p, const char *value, struct err *err)
{
	(void)err;
	p->o->api_content_type = *value ? value : NULL;
	return 0;
}

static int flag_qps(struct parse *p, const char *value, struct err *err)
{
	char *end;

	p->o->api_qps = strtod(value, &end);
	if (*value == '\0' || *end != '\0' || !isfinite(p->o->api_qps))
		return err_set(err, -EINVAL, "'%s' is not a number", value);
	return 0;
}

static int flag_burst(struct parse *p, const char *value, struct err *err)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (*value == '\0' || *end != '\0' || n < 0 || n > 1000000)
		return err_set(err, -EINVAL, "'%s' is not a number from 0 to 1000000", value);
	p->o->api_burst = (int)n;
	return 0;
}

static int flag_hostname(struct parse *p, const char *value, struct err *err)
{
	size_t len = strlen(value);

	if (len == 0) /* as if it were not given */
		return 0;
	value += strspn(value, " \t\n");
	len = strlen(value);
	while (len > 0 && isspace((unsigned char)value[len - 1]))
		len--;
	if (len == 0 || len >= sizeof(p->o->hostname))
		return err_set(err, -EINVAL, "empty or longer than 255 characters");
	for (size_t i = 0; i < len; i++)
		p->o->hostname[i] = (char)tolower((unsigned char)value[i]);
	p->o->hostname[len] = '\0';
	return 0;
}

static int flag_proxy_mode(struct parse *p, const char *value, struct err *err)
{
	if (strcmp(value, "nftables") == 0)
		p->o->mode = PROXY_MODE_NFTABLES;
	else if (*value == '\0' || strcmp(value, "iptables") == 0)
		p->o->mode = PROXY_MODE_IPTABLES;
	else if (strcmp(value, "ipvs") == 0)
		p->o->mode = PROXY_MODE_IPVS;
	else
		return err_set(err, -EINVAL, "'%s' is not nftables, ipvs or iptables", value);
	return 0;
}

static int flag_bind_address(struct parse *p, const char *value, struct err *err)
{
	static const uint8_t any[16];
	struct ip_addr a;
	int r;

	if (*value == '\0') /* as if it were not given */
		return 0;
	r = ip_addr_parse(&a, value, err);
	if (r == 0)
		p->o->is_bind_ipv6 = a.family == AF_INET6;
	if (r == 0 && memcmp(a.bytes, any, sizeof(any)) != 0) /* LIFE-14 */
		p->config->bind_addr[ip_fam(&a)] = a;
	return r;
}

static int flag_cluster_cidr(struct parse *p, const char *value, struct err *err)
{
	struct prefixes list;
	int r = parse_prefixes(&list, value, err);

	free(p->config->cluster_cidrs.v);
	p->config->cluster_cidrs.v = list.v;
	p->config->cluster_cidrs.n = p->config->cluster_cidrs.cap = list.n;
	return r;
}

static int flag_service_cidr(struct parse *p, const char *value, struct err *err)
{
	struct prefixes list;
	int r = parse_prefixes(&list, value, err);

	free(p->config->service_cidrs.v);
	p->config->service_cidrs.v = list.v;
	p->config->service_cidrs.n = p->config->service_cidrs.cap = list.n;
	return r;
}

static int flag_nodeport_addresses(struct parse *p, const char *value, struct err *err)
{
	struct prefixes list = { 0 };
	bool is_primary = strcmp(value, "primary") == 0 || *value == '\0'; /* SVC-09, SVC-10 */
	int r = is_primary ? 0 : parse_prefixes(&list, value, err);

	if (r < 0)
		return err_wrap(err, r, "\"primary\" alone, or prefixes");
	free(p->config->nodeport_cidrs.v);
	p->has_nodeport_addresses = *value != '\0';
	p->config->has_nodeport_cidrs = !is_primary;
	p->config->nodeport_cidrs.v = list.v;
	p->config->nodeport_cidrs.n = p->config->nodeport_cidrs.cap = list.n;
	return 0;
}

static int flag_localhost_nodeports(struct parse *p, const char *value, struct err *err)
{
	p->has_localhost = true;
	return parse_bool(&p->is_localhost, value, err);
}

/* The default of kube-proxy's configuration; the nftables plane serves it. */
static bool is_iptables_mode(const struct options *o)
{
	return o->mode == PROXY_MODE_IPTABLES || (o->mode == PROXY_MODE_UNSET && o->config != NULL);
}

/*
 * SVC-10, IPT-12: in iptables mode node ports are served on all addresses of the node and on
 * localhost, unless the options say otherwise.
 */
static void nodeports_by_mode(struct parse *p)
{
	static const struct ip_prefix all[] = { { .addr = { .family = AF_INET } },
						{ .addr = { .family = AF_INET6 } } };
	static const char *const texts[] = { "0.0.0.0/0", "::/0" };
	struct options *o = p->o;
	bool is_iptables = is_iptables_mode(o);
	json_t *list;

	p->config->serves_localhost = p->has_localhost ? p->is_localhost : is_iptables;
	config_tree_put(o->effective, "iptables.localhostNodePorts",
			json_boolean(p->config->serves_localhost));
	if (!is_iptables || p->has_nodeport_addresses)
		return;
	list = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		json_array_append_new(list, json_string(texts[i]));
		*vec_push(&p->config->nodeport_cidrs) = all[i];
	}
	p->config->has_nodeport_cidrs = true;
	config_tree_put(o->effective, "nodePortAddresses", list);
}

static int flag_detect_local(struct parse *p, const char *value, struct err *err)
{
	static const struct {
		const char *text;
		enum detect_local mode;
	} modes[] = {
		{ "", DETECT_LOCAL_CLUSTER_CIDR },
		{ "ClusterCIDR", DETECT_LOCAL_CLUSTER_CIDR },
		{ "NodeCIDR", DETECT_LOCAL_NODE_CIDR },
		{ "BridgeInterface", DETECT_LOCAL_BRIDGE },
		{ "InterfaceNamePrefix", DETECT_LOCAL_PREFIX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(modes[i].text, value) == 0) {
			p->config->detect_local = modes[i].mode;
			return 0;
		}
	return err_set(err, -EINVAL,
		       "'%s' is not ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
		       value);
}

/* Empty: as if they were not given; validate() asks for the one that the mode needs. */
static int flag_pod_bridge(struct parse *p, const char *value, struct err *err)
{
	return *value == '\0' ? 0 : parse_ifname(p->o->pod_bridge, value, err);
}

static int flag_pod_prefix(struct parse *p, const char *value, struct err *err)
{
	return *value == '\0' ? 0 : parse_ifname(p->o->pod_prefix, value, err);
}

static int flag_strict(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->o->is_strict, value, err);
}

static int flag_masquerade_all(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->config->is_masquerade_all, value, err);
}

static void ignored_add(struct parse *p, const char *what, const char *name)
{
	str_printf(&p->ignored, "%s%s%s", p->ignored.len > 0 ? ", " : "", what, name);
}

/* One NAME=true|false. */
static int gate_parse(struct parse *p, char *gate, struct err *err)
{
	char *value = strchr(gate, '=');
	bool is_on = false;
	int r;

	if (value == NULL)
		return err_set(err, -EINVAL, "'%s' is not NAME=true or NAME=false", gate);
	*value++ = '\0';
	r = parse_bool(&is_on, value, err);
	if (r < 0)
		return err_wrap(err, r, "%s", gate);
	if (strcmp(gate, "AllowServiceExternalIPs") == 0) /* SVC-13 */
		p->config->no_external_ips = !is_on;
	else
		ignored_add(p, "feature gate ", gate);
	return 0;
}

static int flag_feature_gates(struct parse *p, const char *value, struct err *err)
{
	char *copy = xstrdup(value);
	char *rest = copy;
	char *word;
	int r = 0;

	while (r == 0 && (word = strsep(&rest, ",")) != NULL) {
		word += strspn(word, " \t");
		word[strcspn(word, " \t")] = '\0';
		if (*word != '\0')
			r = gate_parse(p, word, err);
	}
	free(copy);
	return r;
}

static int flag_min_sync(struct parse *p, const char *value, struct err *err)
{
	return parse_duration(&p->o->min_sync_period_ns, value, err);
}

static int flag_audit(struct parse *p, const char *value, struct err *err)
{
	return parse_duration(&p->o->audit_period_ns, value, err);
}

static int flag_table_owner(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->o->is_table_owner, value, err);
}

static int flag_guard(struct parse *p, const char *value, struct err *err)
{
	p->o->is_guard_off = strcmp(value, "off") == 0;
	if (!p->o->is_guard_off && strcmp(value, "auto") != 0)
		return err_set(err, -EINVAL, "'%s' is not auto or off", value);
	return 0;
}

static int flag_counting(struct parse *p, const char *value, struct err *err)
{
	static const char *const words[] = {
		[PLANE_COUNT_NONE] = "none",
		[PLANE_COUNT_SERVICES] = "service",
		[PLANE_COUNT_ENDPOINTS] = "endpoint",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(value, words[i]) == 0) {
			p->o->counting = (enum plane_counting)i;
			return 0;
		}
	return err_set(err, -EINVAL, "'%s' is not none, service or endpoint", value);
}

static int flag_control(struct parse *p, const char *value, struct err *err)
{
	p->o->control_socket = value;
	return 0;
}

static int parse_int(int64_t *ret, const char *value, int64_t min, int64_t max, struct err *err)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (*value == '\0' || *end != '\0' || errno != 0 || n < min || n > max)
		return err_set(err, -EINVAL, "'%s' is not a number from %lld to %lld", value,
			       (long long)min, (long long)max);
	*ret = n;
	return 0;
}

static int flag_verbosity(struct parse *p, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 0, INT32_MAX, err);

	if (r == 0)
		p->o->verbosity = (int)n;
	return r;
}

/* LEVEL for all areas, or AREA=LEVEL; later ones win. */
static int log_level_take(struct options *o, char *word, struct err *err)
{
	char *equals = strchr(word, '=');
	const char *text = equals != NULL ? equals + 1 : word;
	int level = log_level_parse(text);
	int area = -1;

	if (level < 0)
		return err_set(err, -EINVAL, "'%s' is not error, warn, notice, info or debug",
			       text);
	if (equals != NULL) {
		*equals = '\0';
		area = log_area_parse(word);
		if (area < 0)
			return err_set(err, -EINVAL, "'%s' is no area of the log", word);
	}
	for (int i = 0; i < LOG_AREA_N; i++)
		if (area < 0 || i == area)
			o->area_level[i] = (enum log_level)level;
	return 0;
}

static int flag_log_level(struct parse *p, const char *value, struct err *err)
{
	char *copy = xstrdup(value);
	char *rest = copy;
	char *word;
	int r = 0;

	while (r == 0 && (word = strsep(&rest, ",")) != NULL)
		r = log_level_take(p->o, word, err);
	free(copy);
	return r;
}

static int flag_vmodule(struct parse *p, const char *value, struct err *err)
{
	char *copy = xstrdup(value);
	char *rest = copy;
	char *word;
	int r = 0;

	while (r == 0 && (word = strsep(&rest, ",")) != NULL) {
		char *level = strchr(word, '=');
		int64_t n;
		int area;

		if (*word == '\0')
			continue;
		if (level == NULL)
			r = err_set(err, -EINVAL, "'%s' is not AREA=N", word);
		else
			*level++ = '\0';
		if (r == 0)
			r = parse_int(&n, level, 0, INT32_MAX, err);
		if (r < 0)
			break;
		area = log_area_parse(word);
		if (area >= 0)
			p->o->area_verbosity[area] = (int)n;
		else
			ignored_add(p, "vmodule ", word);
	}
	free(copy);
	return r;
}

static int flag_log_format(struct parse *p, const char *value, struct err *err)
{
	bool is_json = strcmp(value, "json") == 0;

	if (!is_json && *value != '\0' && strcmp(value, "text") != 0)
		return err_set(err, -EINVAL, "'%s' is not text or json", value);
	p->o->log_format = is_json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
	return 0;
}

static int flag_oom(struct parse *p, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, -1000, 1000, err);

	if (r == 0)
		p->o->oom_score_adj = (int32_t)n;
	return r;
}

static int flag_init_only(struct parse *p, const char *value, struct err *err)
{
	bool is_set = false;
	int r = parse_bool(&is_set, value, err);

	if (r == 0 && is_set)
		p->o->action = OPTIONS_INIT_ONLY;
	return r;
}

static int flag_config(struct parse *p, const char *value, struct err *err)
{
	(void)err;
	p->o->config = *value ? value : NULL;
	return 0;
}

static int flag_write_config(struct parse *p, const char *value, struct err *err)
{
	(void)err;
	p->o->write_config_to = *value ? value : NULL;
	return 0;
}

/* Good values are accepted and named, bad ones refused as kube-proxy would. */
static int flag_ignored(struct parse *p, const char *value, struct err *err)
{
	uint64_t ns;
	int64_t n;
	bool b;
	int r = 0;

	switch (p->flag->kind) {
	case CONFIG_BOOL:
		r = parse_bool(&b, value, err);
		break;
	case CONFIG_INT:
		r = parse_int(&n, value, INT32_MIN, INT32_MAX, err);
		break;
	case CONFIG_DURATION:
	case CONFIG_DURATION_OR_NS:
		r = parse_duration(&ns, value, err);
		break;
	case CONFIG_NONE:
	case CONFIG_SECTION:
	case CONFIG_TEXT:
	case CONFIG_NUMBER:
	case CONFIG_LIST:
	case CONFIG_GATES:
	case CONFIG_VMODULE:
	case CONFIG_ANY:
		break;
	}
	if (r == 0)
		ignored_add(p, p->name, "");
	return r;
}

static int flag_ignored_period(struct parse *p, const char *value, struct err *err)
{
	uint64_t ns;
	int r = parse_duration(&ns, value, err);

	if (r == 0 && ns == 0)
		return err_set(err, -EINVAL, "'%s' is not above 0", value);
	return r < 0 ? r : flag_ignored(p, value, err);
}

static int flag_ignored_bit(struct parse *p, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 0, 31, err);

	return r < 0 ? r : flag_ignored(p, value, err);
}

/* As kube-proxy 1.36: hidden metrics of the minor version before, or none. */
static int flag_ignored_version(struct parse *p, const char *value, struct err *err)
{
	if (*value == '\0')
		return 0;
	if (strcmp(value, VERSION_BEFORE) != 0)
		return err_set(err, -EINVAL, "'%s' is not " VERSION_BEFORE ", nor empty", value);
	return flag_ignored(p, value, err);
}

/* CT-17: whole seconds, fractions are cut. */
static int parse_seconds(uint64_t *ret, const char *value, struct err *err)
{
	uint64_t ns;
	int r = parse_duration(&ns, value, err);

	if (r == 0)
		*ret = ns / NSEC_PER_SEC;
	return r;
}

static int parse_count(uint32_t *ret, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 0, INT32_MAX, err);

	if (r == 0)
		*ret = (uint32_t)n;
	return r;
}

static int flag_ct_max(struct parse *p, const char *value, struct err *err)
{
	return parse_count(&p->o->sysctls.max_per_core, value, err);
}

static int flag_ct_min(struct parse *p, const char *value, struct err *err)
{
	return parse_count(&p->o->sysctls.max_min, value, err);
}

static int flag_ct_established(struct parse *p, const char *value, struct err *err)
{
	return parse_seconds(&p->o->sysctls.tcp_established_s, value, err);
}

static int flag_ct_close_wait(struct parse *p, const char *value, struct err *err)
{
	return parse_seconds(&p->o->sysctls.tcp_close_wait_s, value, err);
}

static int flag_ct_liberal(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->o->sysctls.is_tcp_liberal, value, err);
}

static int flag_ct_udp(struct parse *p, const char *value, struct err *err)
{
	return parse_seconds(&p->o->sysctls.udp_s, value, err);
}

static int flag_ct_udp_stream(struct parse *p, const char *value, struct err *err)
{
	return parse_seconds(&p->o->sysctls.udp_stream_s, value, err);
}

static int flag_dead_flows(struct parse *p, const char *value, struct err *err)
{
	if (strcmp(value, "keep") != 0 && strcmp(value, "reset") != 0)
		return err_set(err, -EINVAL, "'%s' is not keep or reset", value);
	p->o->resets_dead_flows = *value == 'r';
	return 0;
}

static int flag_sync_period(struct parse *p, const char *value, struct err *err)
{
	int r = parse_duration(&p->o->sync_period_ns, value, err);

	if (r == 0 && p->o->sync_period_ns == 0)
		return err_set(err, -EINVAL, "'%s' is not above 0", value);
	return r;
}

/* "10.0.0.1:80", "[::1]:80", or an address alone: port 0. Empty: as if it were not given. */
static int parse_place(struct listen_place *ret, const char *value, struct err *err)
{
	const char *colon = strrchr(value, ':');
	bool is_bare = colon == NULL || (value[0] != '[' && strchr(value, ':') != colon) ||
		       (value[0] == '[' && colon[-1] != ']');
	size_t len = is_bare ? strlen(value) : (size_t)(colon - value);
	struct listen_place place = { 0 };
	char text[IP_TEXT_MAX] = "";
	int64_t port = 0;
	int r = 0;

	if (*value == '\0') /* CFG-21 */
		return 0;
	if (len > 1 && value[0] == '[' && value[len - 1] == ']') {
		value++;
		len -= 2;
	}
	memcpy(text, value, MIN(len, sizeof(text) - 1));
	r = ip_addr_parse(&place.addr, text, err);
	if (r == 0 && !is_bare)
		r = parse_int(&port, colon + 1, 1, UINT16_MAX, err);
	if (r < 0)
		return r;
	place.port = (uint16_t)port;
	*ret = place;
	return 0;
}

static int parse_port(int32_t *ret, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 0, UINT16_MAX, err);

	if (r == 0)
		*ret = (int32_t)n;
	return r;
}

static int flag_healthz(struct parse *p, const char *value, struct err *err)
{
	return parse_place(&p->o->healthz, value, err);
}

static int flag_healthz_port(struct parse *p, const char *value, struct err *err)
{
	return parse_port(&p->o->healthz_port, value, err);
}

static int flag_metrics(struct parse *p, const char *value, struct err *err)
{
	return parse_place(&p->o->metrics, value, err);
}

static int flag_metrics_port(struct parse *p, const char *value, struct err *err)
{
	return parse_port(&p->o->metrics_port, value, err);
}

static int flag_status_page(struct parse *p, const char *value, struct err *err)
{
	static const struct {
		const char *text;
		enum status_page page;
	} pages[] = {
		{ "auto", STATUS_PAGE_AUTO },
		{ "on", STATUS_PAGE_ON },
		{ "off", STATUS_PAGE_OFF },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		if (strcmp(pages[i].text, value) == 0) {
			p->o->status_page = pages[i].page;
			return 0;
		}
	return err_set(err, -EINVAL, "'%s' is not auto, on or off", value);
}

static int flag_hard_fail(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->o->is_bind_hard_fail, value, err);
}

/* --- ipvs --- */

static int flag_ipvs_scheduler(struct parse *p, const char *value, struct err *err)
{
	p->o->ipvs.scheduler = *value != '\0' ? value : NULL;
	return 0;
}

static int flag_ipvs_exclude(struct parse *p, const char *value, struct err *err)
{
	struct prefixes list;
	int r = parse_prefixes(&list, value, err);

	free(p->o->ipvs.exclude.v);
	p->o->ipvs.exclude.v = list.v;
	p->o->ipvs.exclude.n = p->o->ipvs.exclude.cap = list.n;
	return r;
}

/* IPVS-07: whole seconds; 0 = as it is. */
static int parse_ipvs_seconds(uint32_t *ret, const char *value, struct err *err)
{
	uint64_t s;
	int r = parse_seconds(&s, value, err);

	if (r == 0 && s > INT32_MAX / 1000)
		return err_set(err, -ERANGE, "'%s' is longer than IPVS can wait", value);
	if (r == 0)
		*ret = (uint32_t)s;
	return r;
}

static int flag_ipvs_tcp(struct parse *p, const char *value, struct err *err)
{
	return parse_ipvs_seconds(&p->o->ipvs.tcp_s, value, err);
}

static int flag_ipvs_tcpfin(struct parse *p, const char *value, struct err *err)
{
	return parse_ipvs_seconds(&p->o->ipvs.tcpfin_s, value, err);
}

static int flag_ipvs_udp(struct parse *p, const char *value, struct err *err)
{
	return parse_ipvs_seconds(&p->o->ipvs.udp_s, value, err);
}

static int flag_ipvs_drain(struct parse *p, const char *value, struct err *err)
{
	int r = parse_ipvs_seconds(&p->o->ipvs.drain_s, value, err);

	p->o->ipvs.has_drain = r == 0;
	return r;
}

static int flag_ipvs_mark(struct parse *p, const char *value, struct err *err)
{
	char *end;
	unsigned long n = strtoul(value, &end, 0);

	if (end == value || *end != '\0' || n < 2 || n > 254 || n % 2 != 0)
		return err_set(err, -EINVAL, "'%s' is not an even number from 2 to 254", value);
	p->o->ipvs.mark_tag = (uint32_t)n;
	return 0;
}

static int flag_ipvs_table(struct parse *p, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 1, UINT32_MAX, err);

	if (r == 0 && n >= 253 && n <= 255)
		return err_set(err, -EINVAL, "tables 253 to 255 are the kernel's own");
	if (r == 0)
		p->o->ipvs.route_table = (uint32_t)n;
	return r;
}

static int flag_ipvs_priority(struct parse *p, const char *value, struct err *err)
{
	int64_t n;
	int r = parse_int(&n, value, 1, 32762, err);

	if (r == 0)
		p->o->ipvs.rule_priority = (uint32_t)n;
	return r;
}

static int flag_ipvs_estimation(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->o->ipvs.is_estimating, value, err);
}

static int flag_refused(struct parse *p, const char *value, struct err *err)
{
	return err_set(err, -EINVAL, "%s", p->flag->help);
}

#define HELP_NO_SERVER "this vipd has no such HTTP server"
#define HELP_IPVS_ARP "no address is bound to a device here: there is no ARP to be strict about"
#define HELP_IPVS_PERIOD "the same as in other modes counts: --min-sync-period, --audit-period"
#define HELP_WINDOWS "for Windows"
#define HELP_LOG "vipd logs to standard error, unbuffered"
#define HELP_NO_ID "vipd reads no id of the machine or of its boot"
#define HELP_NO_MARK "vipd uses no packet mark"

static const struct flag flags[] = {
	/* vipd's own */
	{ "manifests", "DIR", flag_manifests,
	  "serve the Service, EndpointSlice, Node and ServiceCIDR objects in the files of this folder" },
	{ "strict", NULL, flag_strict,
	  "reject manifests' objects with unknown fields, instead of a warning [false]" },
	{ "control-socket", "PATH", flag_control,
	  "where vipctl asks (default " CONTROL_SOCKET_DEFAULT ", empty: nowhere)", NULL,
	  CONFIG_NONE, CONTROL_SOCKET_DEFAULT },
	{ "service-cluster-ip-range", "LIST", flag_service_cidr,
	  "prefixes of cluster IPs: addresses in them that no service has are dropped" },
	{ "min-sync-period", "TIME", flag_min_sync,
	  "shortest time from the end of a sync to the next; first sync and repairs do not wait [0s]",
	  NULL, CONFIG_NONE, "0s" },
	{ "audit-period", "TIME", flag_audit,
	  "compare the kernel with what it should hold this often (default 5m, 0: never)", NULL,
	  CONFIG_NONE, "5m" },
	{ "status-page", "WHEN", flag_status_page,
	  "a page for people beside /metrics: on, off or auto, which is on when that is for this host only (default auto)",
	  NULL, CONFIG_NONE, "auto" },
	{ "metrics-per-service", "WHAT", flag_counting,
	  "count new connections of each service, or endpoint too: none (default), service, endpoint",
	  NULL, CONFIG_NONE, "none" },

	/* commands */
	{ "config", "FILE", flag_config,
	  "a KubeProxyConfiguration, in place of the flags that have a field in it" },
	{ "write-config-to", "FILE", flag_write_config,
	  "write what is in force as a configuration file, and exit" },
	{ "cleanup", NULL, flag_cleanup,
	  "remove everything of vipd's from the kernel, and exit; --cleanup=kube-proxy: what "
	  "kube-proxy left there, while vipd serves (--cleanup=kube-proxy,force: in any case)" },
	{ "init-only", NULL, flag_init_only,
	  "set sysctls, which needs more than CAP_NET_ADMIN, and exit: for an init container" },
	{ "version", NULL, flag_version, "print the version and exit" },
	{ "help", NULL, flag_help, "print this and exit; --help=table: all flags and fields" },

	/* where objects come from */
	{ "kubeconfig", "FILE", flag_kubeconfig,
	  "serve what the API server says that this file names (default: the pod's own account)",
	  "clientConnection.kubeconfig", CONFIG_TEXT, "" },
	{ "master", "URLS", flag_master,
	  "the API server in place of the kubeconfig's; several with commas between: the first that "
	  "answers" },
	{ "api-servers", "URLS", flag_master, "the same as --master" },
	{ "kube-api-content-type", "TYPE", flag_content_type,
	  "application/vnd.kubernetes.protobuf (default) or application/json",
	  "clientConnection.contentType", CONFIG_TEXT, "application/vnd.kubernetes.protobuf" },
	{ NULL, NULL, flag_ignored, "what is accepted follows from contentType",
	  "clientConnection.acceptContentTypes", CONFIG_TEXT, "" },
	{ "kube-api-qps", "N", flag_qps, "lists and watches begun a second (default 5)",
	  "clientConnection.qps", CONFIG_NUMBER, "5" },
	{ "kube-api-burst", "N", flag_burst, "how many of them at once (default 10)",
	  "clientConnection.burst", CONFIG_INT, "10" },
	{ "config-sync-period", "TIME", flag_ignored_period,
	  "objects are never handed out again: what is held is compared with the kernel instead",
	  "configSyncPeriod", CONFIG_DURATION, "15m" },

	/* this node */
	{ "hostname-override", "NAME", flag_hostname,
	  "this node's name (default: the host name); endpoints with this nodeName are local",
	  "hostnameOverride", CONFIG_TEXT, "" },
	{ "bind-address", "IP", flag_bind_address,
	  "this node's address of its family, in place of the Node object's", "bindAddress",
	  CONFIG_TEXT, "0.0.0.0" },
	{ "nodeport-addresses", "LIST", flag_nodeport_addresses,
	  "\"primary\" (default; all addresses in iptables mode), or prefixes of node port addresses; "
	  "a family without a prefix has no node ports",
	  "nodePortAddresses", CONFIG_LIST, "" },
	{ "oom-score-adj", "N", flag_oom,
	  "-1000 to 1000, where vipd may set it (default: as it is)", "oomScoreAdj", CONFIG_INT,
	  NULL },

	/* traffic */
	{ "proxy-mode", "MODE", flag_proxy_mode,
	  "nftables (default) or ipvs; iptables is served with nftables", "mode", CONFIG_TEXT,
	  "nftables" },
	{ "cluster-cidr", "LIST", flag_cluster_cidr,
	  "prefixes of all pods, for ClusterCIDR detection", "clusterCIDR", CONFIG_TEXT, "" },
	{ "detect-local-mode", "MODE", flag_detect_local,
	  "how a pod's packet is told: ClusterCIDR (default), NodeCIDR, BridgeInterface, "
	  "InterfaceNamePrefix",
	  "detectLocalMode", CONFIG_TEXT, "ClusterCIDR" },
	{ "pod-bridge-interface", "NAME", flag_pod_bridge,
	  "the bridge of BridgeInterface detection", "detectLocal.bridgeInterface", CONFIG_TEXT,
	  "" },
	{ "pod-interface-name-prefix", "PREFIX", flag_pod_prefix,
	  "the prefix of InterfaceNamePrefix detection", "detectLocal.interfaceNamePrefix",
	  CONFIG_TEXT, "" },
	{ "masquerade-all", NULL, flag_masquerade_all, "masquerade all traffic to cluster IPs",
	  "iptables.masqueradeAll nftables.masqueradeAll", CONFIG_BOOL, "false" },
	{ "feature-gates", "LIST", flag_feature_gates,
	  "NAME=true|false,...: AllowServiceExternalIPs; others are accepted without effect",
	  "featureGates", CONFIG_GATES, "" },
	{ "iptables-min-sync-period", "TIME", flag_min_sync,
	  "the same as --min-sync-period; of the file, the section of its mode counts",
	  "iptables.minSyncPeriod nftables.minSyncPeriod", CONFIG_DURATION, "0s" },
	{ "iptables-sync-period", "TIME", flag_sync_period,
	  "unhealthy once the kernel has been behind for twice this long (default 30s); what it "
	  "refused is tried again after 0.1 s, then less and less often",
	  "iptables.syncPeriod nftables.syncPeriod", CONFIG_DURATION, "30s" },
	{ "iptables-masquerade-bit", "N", flag_ignored_bit, HELP_NO_MARK, "iptables.masqueradeBit",
	  CONFIG_INT, "14" },
	{ NULL, NULL, flag_ignored_bit, HELP_NO_MARK, "nftables.masqueradeBit", CONFIG_INT, "14" },
	{ "iptables-localhost-nodeports", NULL, flag_localhost_nodeports,
	  "serve node ports on 127.0.0.1 and ::1 for this node's processes (default in iptables "
	  "mode)",
	  "iptables.localhostNodePorts", CONFIG_BOOL, "false" },

	/* tracked flows */
	{ "nft-table-owner", NULL, flag_table_owner,
	  "have nobody else change vipd's tables, and a flush of the ruleset leave them out (needs "
	  "Linux 6.9)",
	  NULL, CONFIG_NONE, "false" },
	{ "nft-guard", "WHEN", flag_guard,
	  "a small table that a flush of the ruleset leaves, so that established connections go on "
	  "until vipd's tables are back: auto (default; needs Linux 6.9), or off",
	  NULL, CONFIG_NONE, "auto" },
	{ "dead-flows", "WHAT", flag_dead_flows,
	  "TCP connections whose endpoint is gone for good: keep (default), or reset: the client is "
	  "told at its next packet",
	  NULL, CONFIG_NONE, "keep" },
	{ "conntrack-max-per-core", "N", flag_ct_max,
	  "raise the kernel's limit of tracked flows to this times CPUs (default 32768, 0: leave it)",
	  "conntrack.maxPerCore", CONFIG_INT, "32768" },
	{ "conntrack-min", "N", flag_ct_min, "but at least to this (default 131072)",
	  "conntrack.min", CONFIG_INT, "131072" },
	{ "conntrack-tcp-timeout-established", "TIME", flag_ct_established,
	  "how long an idle TCP connection is tracked (default 24h, 0: leave it)",
	  "conntrack.tcpEstablishedTimeout", CONFIG_DURATION, "24h0m0s" },
	{ "conntrack-tcp-timeout-close-wait", "TIME", flag_ct_close_wait,
	  "the same of a half closed one (default 1h, 0: leave it)",
	  "conntrack.tcpCloseWaitTimeout", CONFIG_DURATION, "1h0m0s" },
	{ "conntrack-tcp-be-liberal", NULL, flag_ct_liberal,
	  "have out-of-window TCP packets accepted, not called INVALID", "conntrack.tcpBeLiberal",
	  CONFIG_BOOL, "false" },
	{ "conntrack-udp-timeout", "TIME", flag_ct_udp,
	  "how long a UDP flow without an answer is tracked (default 0: leave it)",
	  "conntrack.udpTimeout", CONFIG_DURATION, "0s" },
	{ "conntrack-udp-timeout-stream", "TIME", flag_ct_udp_stream,
	  "the same of an answered one (default 0: leave it)", "conntrack.udpStreamTimeout",
	  CONFIG_DURATION, "0s" },

	/* HTTP servers */
	{ "healthz-bind-address", "IP:PORT", flag_healthz,
	  "where /healthz and /livez are asked (default 0.0.0.0:10256, or [::]:10256)",
	  "healthzBindAddress", CONFIG_TEXT, "" },
	{ "healthz-port", "N", flag_healthz_port,
	  "the port of --healthz-bind-address if it has none; 0: no such server",
	  "healthzBindAddress" },
	{ "metrics-bind-address", "IP:PORT", flag_metrics,
	  "where /metrics and /proxyMode are asked (default 127.0.0.1:10249, or [::1]:10249)",
	  "metricsBindAddress", CONFIG_TEXT, "" },
	{ "metrics-port", "N", flag_metrics_port,
	  "the port of --metrics-bind-address if it has none; 0: no such server",
	  "metricsBindAddress" },
	{ "bind-address-hard-fail", NULL, flag_hard_fail,
	  "end when one of these addresses cannot be had (default: try again every 5 s)",
	  "bindAddressHardFail", CONFIG_BOOL, "false" },
	{ "profiling", NULL, flag_ignored, HELP_NO_SERVER, "enableProfiling", CONFIG_BOOL,
	  "false" },
	{ "show-hidden-metrics-for-version", "VERSION", flag_ignored_version,
	  "no metric here is hidden; " VERSION_BEFORE " or empty", "showHiddenMetricsForVersion",
	  CONFIG_TEXT, "" },

	/* logs */
	{ "v", "N", flag_verbosity, "0: transitions and problems, 2: every sync, 4: details",
	  "logging.verbosity", CONFIG_INT, "0" },
	{ "vmodule", "LIST", flag_vmodule,
	  "AREA=N,...: the same for single areas: main, source, model, plan, sync, nl, plane, "
	  "conntrack, serve",
	  "logging.vmodule", CONFIG_VMODULE, "" },
	{ "log-level", "LIST", flag_log_level,
	  "error, warn, notice, info or debug, or AREA=LEVEL,... for single areas: wins over -v and "
	  "--vmodule; vipctl log changes it at run time" },
	{ "logging-format", "FORMAT", flag_log_format,
	  "format of the log: text, or json: one object a line (default text)", "logging.format",
	  CONFIG_TEXT, "text" },
	{ "log-flush-frequency", "TIME", flag_ignored, HELP_LOG, "logging.flushFrequency",
	  CONFIG_DURATION_OR_NS, "0s" },
	{ NULL, NULL, flag_ignored, HELP_LOG, "logging.options", CONFIG_ANY, NULL },
	{ "log-text-split-stream", NULL, flag_ignored, HELP_LOG, "logging.options" },
	{ "log-text-info-buffer-size", "SIZE", flag_ignored, HELP_LOG, "logging.options" },
	{ "log-json-split-stream", NULL, flag_ignored, HELP_LOG, "logging.options" },
	{ "log-json-info-buffer-size", "SIZE", flag_ignored, HELP_LOG, "logging.options" },
	{ "logtostderr", NULL, flag_ignored, HELP_LOG },
	{ "alsologtostderr", NULL, flag_ignored, HELP_LOG },
	{ "stderrthreshold", "N", flag_ignored, HELP_LOG },
	{ "log-dir", "DIR", flag_ignored, HELP_LOG },
	{ "log-file", "FILE", flag_ignored, HELP_LOG },
	{ "log-file-max-size", "N", flag_ignored, HELP_LOG },
	{ "log-backtrace-at", "WHERE", flag_ignored, HELP_LOG },
	{ "add-dir-header", NULL, flag_ignored, HELP_LOG },
	{ "skip-headers", NULL, flag_ignored, HELP_LOG },
	{ "skip-log-headers", NULL, flag_ignored, HELP_LOG },
	{ "one-output", NULL, flag_ignored, HELP_LOG },
	{ "boot-id-file", "FILES", flag_ignored, HELP_NO_ID },
	{ "machine-id-file", "FILES", flag_ignored, HELP_NO_ID },

	/* ipvs */
	{ "ipvs-scheduler", "NAME", flag_ipvs_scheduler,
	  "rr (default), wrr, lc, wlc, fo, ovf, lblc, lblcr, dh, sh, mh, sed, nq, twos; flags after "
	  "commas: mh,mh-fallback,mh-port; a service's own: annotation vipd.io/scheduler",
	  "ipvs.scheduler", CONFIG_TEXT, "" },
	{ "ipvs-drain-timeout", "TIME", flag_ipvs_drain,
	  "how long a backend that leaves may keep its connections (default 15m, 0 = for ever); a "
	  "service's own: annotation vipd.io/drain-timeout",
	  "ipvs.drainTimeout", CONFIG_DURATION, "15m" },
	{ "ipvs-exclude-cidrs", "LIST", flag_ipvs_exclude,
	  "virtual services at these addresses are never touched", "ipvs.excludeCIDRs", CONFIG_LIST,
	  "" },
	{ "ipvs-tcp-timeout", "TIME", flag_ipvs_tcp,
	  "of an idle TCP connection in IPVS (0 = as the kernel has it)", "ipvs.tcpTimeout",
	  CONFIG_DURATION, "0s" },
	{ "ipvs-tcpfin-timeout", "TIME", flag_ipvs_tcpfin, "the same after its end began",
	  "ipvs.tcpFinTimeout", CONFIG_DURATION, "0s" },
	{ "ipvs-udp-timeout", "TIME", flag_ipvs_udp, "the same of a UDP flow", "ipvs.udpTimeout",
	  CONFIG_DURATION, "0s" },
	{ "ipvs-mark", "TAG", flag_ipvs_mark,
	  "the upper eight bits of packet marks, even (default 0x5a); the next number is used too",
	  NULL, CONFIG_NONE, "0x5a" },
	{ "ipvs-route-table", "N", flag_ipvs_table,
	  "the routing table that captured packets are looked up in (default 23130)", NULL,
	  CONFIG_NONE, "23130" },
	{ "ipvs-rule-priority", "N", flag_ipvs_priority,
	  "the first of four policy routing rules (default 100)", NULL, CONFIG_NONE, "100" },
	{ "ipvs-estimation", NULL, flag_ipvs_estimation,
	  "let IPVS keep its own counters and rates (ipvsadm --stats, --rate): it walks over all virtual services and backends every two seconds",
	  NULL, CONFIG_NONE, "false" },
	{ "ipvs-sync-period", "TIME", flag_ignored_period, HELP_IPVS_PERIOD, "ipvs.syncPeriod",
	  CONFIG_DURATION, "30s" },
	{ "ipvs-min-sync-period", "TIME", flag_ignored, HELP_IPVS_PERIOD, "ipvs.minSyncPeriod",
	  CONFIG_DURATION, "0s" },
	{ "ipvs-strict-arp", NULL, flag_ignored, HELP_IPVS_ARP, "ipvs.strictARP", CONFIG_BOOL,
	  "false" },

	/* other modes */
	{ NULL, NULL, flag_ignored, HELP_WINDOWS, "winkernel.networkName", CONFIG_TEXT, "" },
	{ NULL, NULL, flag_ignored, HELP_WINDOWS, "winkernel.sourceVip", CONFIG_TEXT, "" },
	{ NULL, NULL, flag_ignored, HELP_WINDOWS, "winkernel.enableDSR", CONFIG_BOOL, "false" },
	{ NULL, NULL, flag_ignored, HELP_WINDOWS, "winkernel.rootHnsEndpointName", CONFIG_TEXT,
	  "" },
	{ NULL, NULL, flag_ignored, HELP_WINDOWS, "winkernel.forwardHealthCheckVip", CONFIG_BOOL,
	  "false" },
	{ NULL, NULL, flag_refused, HELP_WINDOWS, "windowsRunAsService", CONFIG_BOOL, "false" },
	{ NULL, NULL, flag_ignored, "nobody uses it any more", "portRange", CONFIG_TEXT, "" },
};

/* --- what the table says --- */

static bool flag_is_ignored(const struct flag *f)
{
	return f->parse == flag_ignored || f->parse == flag_ignored_period ||
	       f->parse == flag_ignored_bit || f->parse == flag_ignored_version;
}

static const char *flag_fate(const struct flag *f)
{
	return flag_is_ignored(f) ? "accepted" : f->parse == flag_refused ? "refused" : "honoured";
}

static void help_line(struct str *ret, const struct flag *f)
{
	struct str head = { 0 };

	str_printf(&head, "%s%s%s%s", strlen(f->name) == 1 ? "-" : "--", f->name, f->arg ? " " : "",
		   f->arg ? f->arg : "");
	str_printf(ret, "  %-36s %s\n", head.text, f->help);
	str_fini(&head);
}

void options_help(struct str *ret)
{
	str_puts(ret, "usage: vipd --manifests DIR [--hostname-override NAME] [flags]\n"
		      "       vipd --kubeconfig FILE | --config FILE [flags]\n\n"
		      "Makes Kubernetes service addresses work on this node, in the kernel.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].name != NULL && !flag_is_ignored(&flags[i]))
			help_line(ret, &flags[i]);
	str_puts(ret, "\nAccepted for kube-proxy's sake, without effect:\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].name != NULL && flag_is_ignored(&flags[i]))
			help_line(ret, &flags[i]);
}

/* Cells of Markdown: a bar would end one. */
static void cell_put(struct str *ret, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '|')
			str_puts(ret, "\\");
		str_add(ret, text, 1);
	}
}

void options_table(struct str *ret)
{
	str_puts(ret, "| flag | config field | fate | note |\n|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		const struct flag *f = &flags[i];
		const char *field = f->fields ? f->fields : "";

		if (f->name != NULL)
			str_printf(ret, "| `%s%s` |", strlen(f->name) == 1 ? "-" : "--", f->name);
		else
			str_puts(ret, "| |");
		while (*field != '\0') {
			size_t len = strcspn(field, " ");

			str_printf(ret, " `%.*s`", (int)len, field);
			field += len + (field[len] == ' ');
		}
		str_printf(ret, " | %s | ", flag_fate(f));
		cell_put(ret, f->help);
		str_puts(ret, " |\n");
	}
}

/* --- the manual page --- */

static void man_flag(struct str *ret, const struct flag *f)
{
	str_puts(ret, ".TP\n.B ");
	str_puts(ret, strlen(f->name) == 1 ? "\\-" : "\\-\\-");
	roff_text(ret, f->name);
	if (f->arg != NULL) {
		str_puts(ret, " \\fI");
		roff_text(ret, f->arg);
	}
	str_puts(ret, "\n");
	roff_paragraph(ret, f->help);
}

static void man_flags(struct str *ret, bool is_ignored)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].name != NULL && flag_is_ignored(&flags[i]) == is_ignored)
			man_flag(ret, &flags[i]);
}

void options_man(struct str *ret)
{
	str_puts(ret,
		 ".TH VIPD 8 \"\" \"vipd " VIPD_VERSION "\" \"vipd\"\n"
		 ".SH NAME\n"
		 "vipd \\- the service proxy of a Kubernetes node\n"
		 ".SH SYNOPSIS\n"
		 ".B vipd \\-\\-manifests\n.I DIR\n[\\fIflags\\fR]\n.br\n"
		 ".B vipd \\-\\-kubeconfig\n.I FILE\n[\\fIflags\\fR]\n.br\n"
		 ".B vipd \\-\\-config\n.I FILE\n[\\fIflags\\fR]\n"
		 ".SH DESCRIPTION\n"
		 ".B vipd\n"
		 "makes Kubernetes service addresses work on this node, in the kernel. It reads\n"
		 "Services and EndpointSlices from an API server or from a folder of manifests,\n"
		 "and keeps nf_tables equal to what they say. What is in the kernel stays when\n"
		 ".B vipd\n"
		 "ends, and is adopted when it starts: connections notice neither.\n"
		 ".PP\n"
		 "The flags are those of kube\\-proxy, and some more.\n"
		 ".SH FLAGS\n");
	man_flags(ret, false);
	str_puts(ret, ".SH FLAGS WITHOUT EFFECT\n"
		      "Accepted because command lines of kube\\-proxy have them.\n");
	man_flags(ret, true);
	str_puts(
		ret,
		".SH SIGNALS\n.TP\n.B SIGTERM\\fR, \\fBSIGINT\nexit; rules stay in the kernel.\n"
		".TP\n.B SIGHUP\n"
		"read the configuration file and the sources again: manifests, the kubeconfig and\n"
		"the files it names. Fields of the log take effect; other fields that changed are\n"
		"logged by name, with \\(lqrestart needed\\(rq.\n"
		".SH EXIT STATUS\n"
		"0: ended by a signal, or done. 1: it could not go on, or the configuration\n"
		"file changed and it wants to be started with it. 2: usage.\n"
		".SH FILES\n.TP\n.I /run/vipd/control.sock\n"
		"the control socket, for\n.BR vipctl (8).\n"
		".TP\n.I /run/vipd/lock\n"
		"locked by the vipd of each network namespace.\n"
		".TP\n.I /run/vipd/drained\n"
		"endpoints that an operator has drained.\n"
		".SH SEE ALSO\n.BR vipctl (8),\n.BR nft (8)\n");
}

/* --- rows and fields --- */

/* Next of a row's fields, into `name`; NULL after the last. */
static const char *field_next(const char *at, char name[static 64])
{
	size_t len;

	if (at == NULL || *at == '\0')
		return NULL;
	len = strcspn(at, " ");
	assert(len < 64);
	memcpy(name, at, len);
	name[len] = '\0';
	return at + len + (at[len] == ' ');
}

static const struct flag *field_find(const char *want)
{
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		const char *at = flags[i].fields;

		while (flags[i].kind != CONFIG_NONE && (at = field_next(at, name)) != NULL)
			if (strcmp(name, want) == 0)
				return &flags[i];
	}
	return NULL;
}

static enum config_kind field_kind(const char *want)
{
	const struct flag *f = field_find(want);
	size_t len = strlen(want);
	char name[64];

	if (f != NULL)
		return f->kind;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		const char *at = flags[i].fields;

		while ((at = field_next(at, name)) != NULL)
			if (strncmp(name, want, len) == 0 && name[len] == '.')
				return CONFIG_SECTION;
	}
	return CONFIG_NONE;
}

/* For all fields of the row: sections of other modes say the same as that of ours. */
static void effective_put(struct options *o, const struct flag *f, const char *text)
{
	const char *at = f->fields;
	char name[64];

	while (f->kind != CONFIG_NONE && (at = field_next(at, name)) != NULL)
		config_tree_put(o->effective, name, config_from_text(f->kind, text));
}

static bool is_prefix(const char *prefix, const char *text)
{
	return strncmp(prefix, text, strlen(prefix)) == 0;
}

/* --- the file --- */

/* CFG-45: sections of modes that were not chosen. */
static bool is_foreign(const struct parse *p, const char *field)
{
	bool is_nft = p->o->mode == PROXY_MODE_NFTABLES;
	bool is_ipvs = p->o->mode == PROXY_MODE_IPVS;

	return (!is_ipvs && is_prefix("ipvs.", field)) || is_prefix("winkernel.", field) ||
	       (!is_nft && is_prefix("nftables.", field)) ||
	       ((is_nft || is_ipvs) && is_prefix("iptables.", field));
}

/* Go's zero values, for which defaults are filled in; but 0 says something about conntrack. */
static bool is_unset(const struct flag *f, const struct config_value *v)
{
	uint64_t ns;

	if (f->kind == CONFIG_ANY || v->text[0] == '\0')
		return true;
	if (is_prefix("clientConnection.", v->name) && strcmp(v->text, "0") == 0)
		return true;
	return (f->kind == CONFIG_DURATION || f->kind == CONFIG_DURATION_OR_NS) &&
	       !is_prefix("conntrack.", v->name) && parse_duration(&ns, v->text, NULL) == 0 &&
	       ns == 0;
}

/* What is in force anyhow asks for nothing. */
static bool is_preset(const struct flag *f, const struct config_value *v)
{
	json_t *preset = f->preset ? config_from_text(f->kind, f->preset) : NULL;
	bool is_equal = preset != NULL && json_equal(preset, v->json);

	json_decref(preset);
	return is_equal;
}

static int field_refuse(const struct parse *p, const struct config_value *v, int code,
			struct err *err)
{
	(void)err_wrap(err, code, "%s", v->name);
	return err_wrap(err, code, "%s:%u", p->file->path, v->line);
}

/* CFG-44: the iptables section is checked in every mode, without effect in others. */
static int foreign_check(const struct parse *p, const struct flag *f, const struct config_value *v,
			 struct err *err)
{
	struct options o = *p->o;
	struct model_config config = *p->config;
	struct parse scratch = { .o = &o, .config = &config, .flag = f, .name = v->name };
	int r = is_prefix("iptables.", v->name) ? f->parse(&scratch, v->text, err) : 0;

	str_fini(&scratch.ignored);
	return r < 0 ? field_refuse(p, v, r, err) : 0;
}

static int field_apply(struct parse *p, const struct config_value *v, struct err *err)
{
	const struct flag *f = field_find(v->name);
	char *text;
	int r;

	if (is_unset(f, v))
		return 0;
	if (is_foreign(p, v->name))
		return foreign_check(p, f, v, err);
	if (flag_fate(f)[0] != 'h' && is_preset(f, v))
		return 0;
	text = xstrdup(v->text);
	*vec_push(&p->o->texts) = text;
	p->flag = f;
	p->name = v->name;
	r = f->parse(p, text, err);
	if (r < 0)
		return field_refuse(p, v, r, err);
	effective_put(p->o, f, text);
	return 0;
}

static int file_apply(struct parse *p, struct err *err)
{
	const struct config_value *mode = config_find(p->file, "mode");
	int r = 0;

	/* First of all: it says which sections count. Nothing at all is kube-proxy's default. */
	p->o->mode = PROXY_MODE_IPTABLES;
	if (mode != NULL)
		r = field_apply(p, mode, err);
	vec_for_each (v, &p->file->values)
		if (r == 0 && v != mode)
			r = field_apply(p, v, err);
	return r;
}

/* Of a section's field: what the file says, also where it has no effect, or what is in force. */
static const char *period_text(const struct parse *p, const char *name)
{
	const struct config_value *v = p->file ? config_find(p->file, name) : NULL;
	uint64_t ns;

	if (v != NULL && parse_duration(&ns, v->text, NULL) == 0 && ns > 0)
		return v->text;
	return json_string_value(config_tree_get(p->o->effective, name));
}

/* CFG-44: where the period is said, in the file or by a flag. */
static int periods_check(const struct parse *p, const char *section, struct err *err)
{
	const struct config_value *v;
	const char *period;
	const char *least;
	char name[64];
	uint64_t period_ns;
	uint64_t least_ns;

	(void)snprintf(name, sizeof(name), "%s.syncPeriod", section);
	period = period_text(p, name);
	(void)snprintf(name, sizeof(name), "%s.minSyncPeriod", section);
	least = period_text(p, name);
	if (period == NULL || least == NULL || parse_duration(&period_ns, period, NULL) < 0 ||
	    parse_duration(&least_ns, least, NULL) < 0 || least_ns <= period_ns)
		return 0;
	if (p->file == NULL)
		return err_set(err, -EINVAL,
			       "--%s-min-sync-period: %s is above --%s-sync-period, %s", section,
			       least, section, period);
	v = config_find(p->file, name);
	return err_set(err, -EINVAL, "%s:%u: %s: %s is above %s.syncPeriod, %s", p->file->path,
		       v ? v->line : 0, name, least, section, period);
}

static int all_periods_check(const struct parse *p, struct err *err)
{
	int r = periods_check(p, "iptables", err);

	if (r == 0 && p->o->mode == PROXY_MODE_NFTABLES && p->file != NULL)
		r = periods_check(p, "nftables", err);
	if (r == 0 && p->o->mode == PROXY_MODE_IPVS)
		r = periods_check(p, "ipvs", err);
	return r;
}

/* CFG-10, CFG-11, CFG-22: what was left open. */
static void place_complete(struct listen_place *place, int32_t port, const char *addr,
			   uint16_t preset)
{
	struct err err;

	if (!ip_is_set(&place->addr) && ip_addr_parse(&place->addr, addr, &err) < 0)
		abort(); /* ours, and good */
	if (port == 0)   /* off, whatever the address says */
		place->port = 0;
	else if (place->port == 0)
		place->port = port > 0 ? (uint16_t)port : preset;
}

static void places_complete(struct options *o)
{
	bool is_v6 = o->is_bind_ipv6;

	place_complete(&o->healthz, o->healthz_port, is_v6 ? "::" : "0.0.0.0", 10256);
	place_complete(&o->metrics, o->metrics_port, is_v6 ? "::1" : "127.0.0.1", 10249);
}

/* Everything that needs more than one flag. */
static int validate(const struct parse *p, struct err *err)
{
	struct options *o = p->o;
	struct model_config *config = p->config;
	int r = all_periods_check(p, err);

	if (r < 0)
		return r;
	places_complete(o);
	if (o->status_page == STATUS_PAGE_ON && o->metrics.port == 0)
		return err_set(err, -EINVAL,
			       "--status-page=on wants a metrics server, and --metrics-port is 0");
	if (config->detect_local == DETECT_LOCAL_UNSET)
		config->detect_local = DETECT_LOCAL_CLUSTER_CIDR;
	if (config->detect_local == DETECT_LOCAL_BRIDGE) {
		if (o->pod_bridge[0] == '\0')
			return err_set(
				err, -EINVAL,
				"--detect-local-mode=BridgeInterface wants --pod-bridge-interface "
				"(detectLocal.bridgeInterface)");
		memcpy(config->detect_ifname, o->pod_bridge, IFNAME_MAX);
	}
	if (config->detect_local == DETECT_LOCAL_PREFIX) {
		if (o->pod_prefix[0] == '\0')
			return err_set(err, -EINVAL,
				       "--detect-local-mode=InterfaceNamePrefix wants "
				       "--pod-interface-name-prefix "
				       "(detectLocal.interfaceNamePrefix)");
		memcpy(config->detect_ifname, o->pod_prefix, IFNAME_MAX);
	}
	if (o->manifests != NULL && (o->kubeconfig != NULL || o->master != NULL))
		return err_set(err, -EINVAL,
			       "--manifests: a folder and an API server exclude each other");
	return 0;
}

/* Words of a name may be joined by '_' as well. */
static const struct flag *flag_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		const char *own = flags[i].name;
		size_t k = 0;

		if (own == NULL || strlen(own) != len)
			continue;
		while (k < len && (name[k] == own[k] || (name[k] == '_' && own[k] == '-')))
			k++;
		if (k == len)
			return &flags[i];
	}
	return NULL;
}

/* CFG-02: what the file takes the place of, and what wins over it. */
static bool is_beside(const struct parse *p, const struct flag *f)
{
	return p->file != NULL && f->fields != NULL && strcmp(f->fields, "hostnameOverride") != 0 &&
	       !is_prefix("logging.", f->fields);
}

static int flag_apply(struct parse *p, const struct flag *f, const char *value, struct err *err)
{
	char name[64];
	int r;

	(void)snprintf(name, sizeof(name), "%s%s", strlen(f->name) == 1 ? "-" : "--", f->name);
	if (is_beside(p, f)) {
		str_printf(&p->beside, "%s%s", p->beside.len > 0 ? ", " : "", name);
		return 0;
	}
	p->flag = f;
	p->name = name;
	r = f->parse(p, value, err);
	if (r < 0)
		return err_wrap(err, r, "%s", name);
	if (f->preset != NULL && value != NULL && *value == '\0')
		effective_put(p->o, f, f->preset); /* as if it were not given */
	else
		effective_put(p->o, f, value ? value : "true");
	(void)json_object_set_new(p->o->given, f->name, json_string(value ? value : "true"));
	return 0;
}

/* One argument, with its value from "=..." or, for flags that want one, from the next. */
static int parse_one(struct parse *p, char **argv, int *i, struct err *err)
{
	const char *arg = argv[*i];
	const char *name = arg + (strncmp(arg, "--", 2) == 0 ? 2 : 1);
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct flag *f;

	if (arg[0] != '-' || *name == '\0') /* CFG-06 */
		return err_set(err, -EINVAL, "unexpected argument '%s'", arg);
	if (strcmp(arg, "-h") == 0) {
		f = flag_find("help", 4);
	} else if (arg[1] == 'v' && isdigit((unsigned char)arg[2])) { /* -v4 */
		f = flag_find("v", 1);
		value = arg + 2;
	} else {
		f = flag_find(name, len);
	}
	if (f == NULL)
		return err_set(err, -EINVAL, "unknown flag '%s' (see --help)", arg);
	if (f->arg != NULL && value == NULL) {
		if (argv[*i + 1] == NULL)
			return err_set(err, -EINVAL, "--%s wants a value: %s", f->name, f->arg);
		value = argv[++*i];
	}
	return flag_apply(p, f, value, err);
}

static void parse_fini(struct parse *p)
{
	str_fini(&p->ignored);
	str_fini(&p->beside);
}

static void note(struct options *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void note(struct options *o, const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	*vec_push(&o->notes) = text;
}

static bool has_loopback_prefix(const struct model_config *c)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct ip_addr a = ip_addr_loopback(fam);

		vec_for_each (prefix, &c->nodeport_cidrs)
			if (ip_prefix_contains(prefix, &a))
				return true;
	}
	return false;
}

static void notes_make(struct parse *p)
{
	struct options *o = p->o;

	if (p->file != NULL && p->file->complaints.len > 0)
		note(o, "%s: not as strict reading wants it: %s", o->config,
		     p->file->complaints.text);
	if (p->beside.len > 0)
		note(o, "%s takes the place of these flags: %s", o->config, p->beside.text);
	if (p->ignored.len > 0)
		note(o, "accepted without effect: %s", p->ignored.text);
	if (o->mode == PROXY_MODE_IPTABLES)
		note(o, "mode iptables, kube-proxy's default, is served with nftables");
	if (p->has_localhost && p->is_localhost && !has_loopback_prefix(p->config))
		note(o, "iptables.localhostNodePorts: no effect: nodePortAddresses contains no "
			"loopback address");
}

static void options_init(struct options *o)
{
	*o = (struct options){ .control_socket = CONTROL_SOCKET_DEFAULT,
			       .audit_period_ns = AUDIT_PERIOD_DEFAULT_NS,
			       .sync_period_ns = SYNC_PERIOD_DEFAULT_NS,
			       .healthz_port = -1,
			       .metrics_port = -1,
			       .oom_score_adj = OOM_SCORE_UNSET,
			       .sysctls = { .max_per_core = 32768,
					    .max_min = 131072,
					    .tcp_established_s = 86400,
					    .tcp_close_wait_s = 3600 } };
	for (size_t i = 0; i < ARRAY_SIZE(o->area_verbosity); i++)
		o->area_verbosity[i] = -1;
	o->effective = json_object();
	o->given = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].preset != NULL)
			effective_put(o, &flags[i], flags[i].preset);
}

void options_fini(struct options *o)
{
	vec_for_each (text, &o->texts)
		free(*text);
	vec_for_each (text, &o->notes)
		free(*text);
	vec_fini(&o->ipvs.exclude);
	vec_fini(&o->texts);
	vec_fini(&o->notes);
	json_decref(o->effective);
	o->effective = NULL;
	json_decref(o->given);
	o->given = NULL;
}

static int flags_apply(struct parse *p, int argc, char **argv, struct err *err)
{
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++)
		r = parse_one(p, argv, &i, err);
	return r;
}

/*
 * The format of the log, which is that of errors in other flags and fields, too: it is taken
 * from the flag, else from the file, before anything else is checked.
 */
static void log_format_peek(struct parse *p, int argc, char **argv)
{
	const struct config_value *field = p->file ? config_find(p->file, "logging.format") : NULL;

	if (field != NULL)
		(void)flag_log_format(p, field->text, NULL);
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i] + strspn(argv[i], "-");
		size_t len = strcspn(name, "=");
		const struct flag *f = name != argv[i] ? flag_find(name, len) : NULL;
		const char *value = name[len] == '=' ? name + len + 1 : NULL;

		if (f != NULL && f->arg != NULL && value == NULL && i + 1 < argc)
			value = argv[++i];
		if (f != NULL && f->parse == flag_log_format && value != NULL)
			(void)flag_log_format(p, value, NULL);
	}
}

/* All flags must be good, those too that a file takes the place of. Yields --config. */
static int flags_check(const char **ret, int argc, char **argv, struct err *err)
{
	struct options o;
	struct model_config config = { 0 };
	struct parse p = { .o = &o, .config = &config };
	int r;

	options_init(&o);
	r = flags_apply(&p, argc, argv, err);
	if (r == 0)
		*ret = o.action == OPTIONS_RUN || o.action == OPTIONS_CLEANUP ||
				       o.action == OPTIONS_CLEANUP_KUBE_PROXY ||
				       o.action == OPTIONS_INIT_ONLY
			       ? o.config
			       : NULL;
	parse_fini(&p);
	options_fini(&o);
	vec_fini(&config.cluster_cidrs);
	vec_fini(&config.service_cidrs);
	vec_fini(&config.nodeport_cidrs);
	return r;
}

static int hostname_find(struct parse *p, struct err *err)
{
	char host[sizeof(p->o->hostname)] = "";
	int r;

	if (p->o->hostname[0] != '\0')
		return 0;
	if (gethostname(host, sizeof(host) - 1) < 0)
		return err_errno(err, "host name");
	if (host[0] == '\0')
		return err_set(err, -EINVAL,
			       "there is no host name: --hostname-override is wanted");
	r = flag_hostname(p, host, err);
	return r < 0 ? err_wrap(err, r, "host name") : 0;
}

int options_parse(struct options *o, struct model_config *config, int argc, char **argv,
		  struct err *err)
{
	struct parse p = { .o = o, .config = config };
	struct config file = { 0 };
	const char *path = NULL;
	int r;

	options_init(o);
	log_format_peek(&p, argc, argv);
	r = flags_check(&path, argc, argv, err);
	if (r == 0 && path != NULL) {
		r = config_read(&file, path, field_kind, err);
		p.file = &file;
		log_format_peek(&p, argc, argv);
		if (r == 0)
			r = file_apply(&p, err);
	}
	if (r == 0)
		r = flags_apply(&p, argc, argv, err);
	if (r == 0)
		r = hostname_find(&p, err);
	if (r == 0)
		r = validate(&p, err);
	if (r == 0) {
		nodeports_by_mode(&p);
		notes_make(&p);
	}
	config_tree_put(o->effective, "mode",
			json_string(o->mode == PROXY_MODE_IPVS ? "ipvs"
				    : is_iptables_mode(o)      ? "iptables"
							       : "nftables"));
	if (o->write_config_to != NULL && o->action != OPTIONS_HELP &&
	    o->action != OPTIONS_VERSION && o->action != OPTIONS_TABLE && o->action != OPTIONS_MAN)
		o->action = OPTIONS_WRITE_CONFIG;
	parse_fini(&p);
	config_fini(&file);
	return r;
}

bool options_has_page(const struct options *o)
{
	return o->status_page == STATUS_PAGE_ON ||
	       (o->status_page == STATUS_PAGE_AUTO && ip_addr_is_loopback(&o->metrics.addr));
}

void options_effective(const struct options *o, struct str *ret)
{
	config_print(ret, o->effective);
}

/* `old` and `new` may be NULL: not there. */
static void differences_add(struct str *ret, const char *name, const json_t *old, const json_t *new)
{
	const json_t *trees[] = { old, new };
	const char *key;
	json_t *v;

	if (!json_is_object(old) || !json_is_object(new)) {
		if (!json_equal(old, new))
			str_printf(ret, "%s%s", ret->len > 0 ? ", " : "", name);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		json_object_foreach ((json_t *)(uintptr_t)trees[i], key, v) {
			char full[128];

			if (i == 1 && json_object_get(old, key) != NULL)
				continue; /* compared already */
			(void)snprintf(full, sizeof(full), "%s%s%s", name, *name ? "." : "", key);
			if (strcmp(full, "logging") != 0)
				differences_add(ret, full, json_object_get(old, key),
						json_object_get(new, key));
		}
}

void options_differences(const struct options *old, const struct options *new, struct str *ret)
{
	differences_add(ret, "", old->effective, new->effective);
}

bool options_take_log(struct options *o, const struct options *new)
{
	json_t *logging = json_object_get(new->effective, "logging");

	if (json_equal(json_object_get(o->effective, "logging"), logging))
		return false;
	(void)json_object_set(o->effective, "logging", logging);
	o->log_format = new->log_format;
	o->verbosity = new->verbosity;
	memcpy(o->area_verbosity, new->area_verbosity, sizeof(o->area_verbosity));
	memcpy(o->area_level, new->area_level, sizeof(o->area_level));
	return true;
}

void options_configz(const struct options *o, struct str *ret)
{
	json_t *config = json_copy(o->effective);
	json_t *all = json_object();
	char *text;

	(void)json_object_set_new(config, "apiVersion",
				  json_string("kubeproxy.config.k8s.io/v1alpha1"));
	(void)json_object_set_new(config, "kind", json_string("KubeProxyConfiguration"));
	(void)json_object_set_new(all, "kubeproxy.config.k8s.io", config);
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	str_puts(ret, text ? text : "{}");
	str_puts(ret, "\n");
	free(text);
	json_decref(all);
}

/* What stands between "://" and "@" of a URL names a user. */
static void value_put(struct str *ret, const char *value)
{
	const char *scheme;

	while ((scheme = strstr(value, "://")) != NULL) {
		size_t host = strcspn(scheme + 3, "/,");
		const char *at = memrchr(scheme + 3, '@', host);

		str_add(ret, value, (size_t)(scheme + 3 - value));
		value = at ? at + 1 : scheme + 3;
	}
	str_puts(ret, value);
}

/* In force, whoever said it: the command line, the file, or nobody. */
static void flag_value(const struct options *o, const struct flag *f, struct str *ret)
{
	const json_t *v = json_object_get(o->given, f->name);
	char name[64];
	char *text;

	if (f->fields != NULL && f->kind != CONFIG_NONE && field_next(f->fields, name) != NULL)
		v = config_tree_get(o->effective, name);
	if (v == NULL && f->fields == NULL && f->preset != NULL) {
		str_puts(ret, f->preset);
	} else if (json_is_string(v)) {
		value_put(ret, json_string_value(v));
	} else if (v != NULL) {
		text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
		value_put(ret, text ? text : "");
		free(text);
	}
}

void options_list(const struct options *o,
		  void (*add)(void *arg, const char *name, const char *value), void *arg)
{
	struct str value = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (flags[i].name == NULL || flag_is_ignored(&flags[i]))
			continue;
		str_clear(&value);
		flag_value(o, &flags[i], &value);
		add(arg, flags[i].name, str_text(&value));
	}
	str_fini(&value);
}

static void flagz_add(void *arg, const char *name, const char *value)
{
	str_printf(arg, "%s=%s\n", name, value);
}

void options_flagz(const struct options *o, struct str *ret)
{
	options_list(o, flagz_add, ret);
}
