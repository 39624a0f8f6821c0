/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options - one table of flags: how each is read, and what --help says. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTROL_SOCKET_DEFAULT "/run/vipd/control.sock"
#define AUDIT_PERIOD_DEFAULT_NS (300 * NSEC_PER_SEC)

struct parse {
	struct options *o;
	struct model_config *config;
};

typedef int (*flag_fn)(struct parse *p, const char *value, struct err *err);

struct flag {
	const char *name;
	const char *arg; /* NULL: a switch, which may be given as --name=false */
	flag_fn parse;
	const char *help;
};

/* --- value kinds --- */

static int parse_bool(bool *ret, const char *value, struct err *err)
{
	if (value == NULL || strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
		*ret = true;
	else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
		*ret = false;
	else
		return err_set(err, -EINVAL, "'%s' is not true or false", value);
	return 0;
}

/* Go's durations: a sequence of numbers with units, "1m30s", "250ms"; "0" alone. */
static int parse_duration(uint64_t *ret, const char *value, struct err *err)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },           { "us", NSEC_PER_USEC },    { "ms", NSEC_PER_MSEC },
		{ "s", NSEC_PER_SEC }, { "m", 60 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC },
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
		unit_len = strspn(end, "nusmh");
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
	return 0;
}

static int flag_version(struct parse *p, const char *value, struct err *err)
{
	p->o->action = OPTIONS_VERSION;
	return 0;
}

static int flag_cleanup(struct parse *p, const char *value, struct err *err)
{
	bool is_set = false;
	int r = parse_bool(&is_set, value, err);

	if (r == 0 && is_set)
		p->o->action = OPTIONS_CLEANUP;
	return r;
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
	if (*value == '\0' || *end != '\0')
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
	size_t len;

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
	if (*value == '\0' || strcmp(value, "nftables") == 0)
		return 0;
	return err_set(err, -EINVAL, "'%s' is not a plane of this vipd (nftables)", value);
}

static int flag_bind_address(struct parse *p, const char *value, struct err *err)
{
	static const uint8_t any[16];
	struct ip_addr a;
	int r = ip_addr_parse(&a, value, err);

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
	p->config->has_nodeport_cidrs = !is_primary;
	p->config->nodeport_cidrs.v = list.v;
	p->config->nodeport_cidrs.n = p->config->nodeport_cidrs.cap = list.n;
	return 0;
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

static int flag_pod_bridge(struct parse *p, const char *value, struct err *err)
{
	return parse_ifname(p->o->pod_bridge, value, err);
}

static int flag_pod_prefix(struct parse *p, const char *value, struct err *err)
{
	return parse_ifname(p->o->pod_prefix, value, err);
}

static int flag_masquerade_all(struct parse *p, const char *value, struct err *err)
{
	return parse_bool(&p->config->is_masquerade_all, value, err);
}

static int flag_feature_gates(struct parse *p, const char *value, struct err *err)
{
	static const char gate[] = "AllowServiceExternalIPs=";
	const char *at = value;

	while (at != NULL && *at != '\0') {
		size_t len = strcspn(at, ",");

		if (strncmp(at, gate, sizeof(gate) - 1) ==
		    0) { /* SVC-13; others have no effect here */
			bool is_on = false;
			char word[8] = { 0 };
			int r;

			memcpy(word, at + sizeof(gate) - 1,
			       MIN(len - (sizeof(gate) - 1), sizeof(word) - 1));
			r = parse_bool(&is_on, word, err);
			if (r < 0)
				return r;
			p->config->no_external_ips = !is_on;
		}
		at += len;
		at += *at == ',';
	}
	return 0;
}

static int flag_min_sync(struct parse *p, const char *value, struct err *err)
{
	return parse_duration(&p->o->min_sync_period_ns, value, err);
}

static int flag_audit(struct parse *p, const char *value, struct err *err)
{
	return parse_duration(&p->o->audit_period_ns, value, err);
}

static int flag_control(struct parse *p, const char *value, struct err *err)
{
	p->o->control_socket = value;
	return 0;
}

static int flag_verbosity(struct parse *p, const char *value, struct err *err)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (*value == '\0' || *end != '\0' || n < 0 || n > 10)
		return err_set(err, -EINVAL, "'%s' is not a number from 0 to 10", value);
	p->o->verbosity = (int)n;
	return 0;
}

static const struct flag flags[] = {
	{ "manifests", "DIR", flag_manifests,
	  "serve the Service, EndpointSlice, Node and ServiceCIDR objects in the files of this folder" },
	{ "kubeconfig", "FILE", flag_kubeconfig,
	  "serve what the API server says that this file names (default: the pod's own account)" },
	{ "master", "URLS", flag_master,
	  "the API server in place of the kubeconfig's; several with commas between: the first that "
	  "answers" },
	{ "api-servers", "URLS", flag_master, "the same as --master" },
	{ "kube-api-content-type", "TYPE", flag_content_type,
	  "application/vnd.kubernetes.protobuf (default) or application/json" },
	{ "kube-api-qps", "N", flag_qps, "lists and watches begun a second (default 5)" },
	{ "kube-api-burst", "N", flag_burst, "how many of them at once (default 10)" },
	{ "hostname-override", "NAME", flag_hostname,
	  "this node's name (default: the host name); endpoints with this nodeName are local" },
	{ "proxy-mode", "MODE", flag_proxy_mode, "the plane: nftables (default)" },
	{ "bind-address", "IP", flag_bind_address,
	  "this node's address of its family, in place of the Node object's" },
	{ "nodeport-addresses", "LIST", flag_nodeport_addresses,
	  "\"primary\" (default), or prefixes: node ports are served on the host's addresses in them" },
	{ "cluster-cidr", "LIST", flag_cluster_cidr,
	  "prefixes of all pods, for ClusterCIDR detection" },
	{ "detect-local-mode", "MODE", flag_detect_local,
	  "how a pod's packet is told: ClusterCIDR (default), NodeCIDR, BridgeInterface, "
	  "InterfaceNamePrefix" },
	{ "pod-bridge-interface", "NAME", flag_pod_bridge,
	  "the bridge of BridgeInterface detection" },
	{ "pod-interface-name-prefix", "PREFIX", flag_pod_prefix,
	  "the prefix of InterfaceNamePrefix detection" },
	{ "masquerade-all", NULL, flag_masquerade_all, "masquerade all traffic to cluster IPs" },
	{ "service-cluster-ip-range", "LIST", flag_service_cidr,
	  "prefixes of cluster IPs: addresses in them that no service has are dropped" },
	{ "feature-gates", "LIST", flag_feature_gates,
	  "NAME=true|false,...: AllowServiceExternalIPs" },
	{ "min-sync-period", "TIME", flag_min_sync,
	  "wait at least this long from one sync to the next (default 0: sync at once)" },
	{ "audit-period", "TIME", flag_audit,
	  "compare the kernel with what it should hold this often (default 5m, 0: never)" },
	{ "control-socket", "PATH", flag_control,
	  "where vipctl asks (default " CONTROL_SOCKET_DEFAULT ", empty: nowhere)" },
	{ "cleanup", NULL, flag_cleanup, "remove everything of vipd's from the kernel, and exit" },
	{ "v", "N", flag_verbosity, "0: transitions and problems, 2: every sync, 4: details" },
	{ "version", NULL, flag_version, "print the version and exit" },
	{ "help", NULL, flag_help, "print this and exit" },
};

void options_help(void)
{
	printf("usage: vipd --manifests DIR [--hostname-override NAME] [flags]\n\n"
	       "Makes Kubernetes service addresses work on this node, in the kernel.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		char head[64];

		(void)snprintf(head, sizeof(head), "%s%s%s%s",
			       strlen(flags[i].name) == 1 ? "-" : "--", flags[i].name,
			       flags[i].arg ? " " : "", flags[i].arg ? flags[i].arg : "");
		printf("  %-34s %s\n", head, flags[i].help);
	}
}

/* Everything that needs more than one flag. */
static int validate(struct options *o, struct model_config *config, struct err *err)
{
	if (config->detect_local == DETECT_LOCAL_UNSET)
		config->detect_local = DETECT_LOCAL_CLUSTER_CIDR;
	if (config->detect_local == DETECT_LOCAL_BRIDGE) {
		if (o->pod_bridge[0] == '\0')
			return err_set(
				err, -EINVAL,
				"--detect-local-mode=BridgeInterface wants --pod-bridge-interface");
		memcpy(config->detect_ifname, o->pod_bridge, IFNAME_MAX);
	}
	if (config->detect_local == DETECT_LOCAL_PREFIX) {
		if (o->pod_prefix[0] == '\0')
			return err_set(err, -EINVAL,
				       "--detect-local-mode=InterfaceNamePrefix wants "
				       "--pod-interface-name-prefix");
		memcpy(config->detect_ifname, o->pod_prefix, IFNAME_MAX);
	}
	if (o->manifests != NULL && (o->kubeconfig != NULL || o->master != NULL))
		return err_set(err, -EINVAL,
			       "--manifests: a folder and an API server exclude each other");
	return 0;
}

static const struct flag *flag_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (strlen(flags[i].name) == len && strncmp(flags[i].name, name, len) == 0)
			return &flags[i];
	return NULL;
}

/* One argument, with its value from "=..." or, for flags that want one, from the next. */
static int parse_one(struct parse *p, char **argv, int *i, struct err *err)
{
	const char *arg = argv[*i];
	const char *name = arg + (strncmp(arg, "--", 2) == 0 ? 2 : 1);
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct flag *f;
	int r;

	if (arg[0] != '-' || *name == '\0') /* CFG-06 */
		return err_set(err, -EINVAL, "unexpected argument '%s'", arg);
	f = strcmp(arg, "-h") == 0 ? flag_find("help", 4) : flag_find(name, len);
	if (f == NULL)
		return err_set(err, -EINVAL, "unknown flag '%s' (see --help)", arg);
	if (f->arg != NULL && value == NULL) {
		if (argv[*i + 1] == NULL)
			return err_set(err, -EINVAL, "--%s wants a value: %s", f->name, f->arg);
		value = argv[++*i];
	}
	r = f->parse(p, value, err);
	return r < 0 ? err_wrap(err, r, "--%s", f->name) : 0;
}

int options_parse(struct options *o, struct model_config *config, int argc, char **argv,
		  struct err *err)
{
	struct parse p = { o, config };
	char host[sizeof(o->hostname)] = "";
	int r;

	*o = (struct options){ .control_socket = CONTROL_SOCKET_DEFAULT,
			       .audit_period_ns = AUDIT_PERIOD_DEFAULT_NS };
	for (int i = 1; i < argc; i++) {
		r = parse_one(&p, argv, &i, err);
		if (r < 0)
			return r;
	}
	if (o->hostname[0] == '\0') {
		if (gethostname(host, sizeof(host) - 1) < 0)
			return err_errno(err, "host name");
		r = flag_hostname(&p, host, err);
		if (r < 0)
			return err_wrap(err, r, "host name");
	}
	return validate(o, config, err);
}
