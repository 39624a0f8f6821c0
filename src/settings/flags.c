/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * settings/flags - the table of flags and configuration fields, and values of special kinds.
 *
 * A field of the configuration file is read as the text that its flag takes. A row without
 * a name is a field only; a row without fields is a flag only.
 */
#include "settings/flags.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "settings/config.h"

#define PREVIOUS_VERSION "1.35" /* before 1.36, the kube-proxy whose flags these are */

/* --- values of special kinds --- */

/* A switch; the actions of the flag are value.min to value.max, and true is the first one. */
static int set_action(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	struct options *o = to;
	bool is_set = false;
	int r = cli_bool(&is_set, value, err);

	if (r < 0)
		return r;
	if (is_set)
		o->action = (enum options_action)f->value.min;
	else if (o->action >= f->value.min && o->action <= f->value.max)
		o->action = OPTIONS_RUN;
	return 0;
}

static int set_cleanup(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	/* Pairs: without and with force. */
	static const char words[] = "kube-proxy kube-proxy,force kube-router kube-router,force";
	struct options *o = to;
	int i = value != NULL ? str_words_find(words, value, strlen(value)) : -1;

	if (i < 0 && set_action(o, f, value, NULL) == 0)
		return 0;
	if (i < 0)
		return err_set(err, -EINVAL,
			       "'%s' is not true, false, kube-proxy[,force] or kube-router[,force]",
			       value);
	o->action = i < 2 ? OPTIONS_CLEANUP_KUBE_PROXY : OPTIONS_CLEANUP_KUBE_ROUTER;
	o->is_cleanup_forced = i % 2 == 1;
	return 0;
}

/* LIFE-11, CFG-08. Empty: the host's name. */
static int set_hostname(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	struct options *o = to;
	size_t len;

	if (*value == '\0') {
		o->hostname[0] = '\0';
		return 0;
	}
	value += strspn(value, " \t\n");
	len = strlen(value);
	while (len > 0 && isspace((unsigned char)value[len - 1]))
		len--;
	if (len == 0 || len >= sizeof(o->hostname))
		return err_set(err, -EINVAL, "empty or longer than 255 characters");
	for (size_t i = 0; i < len; i++)
		o->hostname[i] = (char)tolower((unsigned char)value[i]);
	o->hostname[len] = '\0';
	return 0;
}

/* CFG-07: empty is iptables in kube-proxy. */
static int set_mode(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	struct cli_option choice = *f;

	choice.value.type = CLI_CHOICE;
	return cli_set(&choice, to, *value != '\0' ? value : "iptables", err);
}

static int set_bind_address(void *to, const struct cli_option *f, const char *value,
			    struct err *err)
{
	struct options *o = to;
	struct ip_addr a;
	int r = ip_addr_parse(&a, *value != '\0' ? value : f->preset, err);

	if (r < 0)
		return r;
	o->servers.is_ipv6 = a.family == AF_INET6;
	memset(o->model.bind_addr, 0, sizeof(o->model.bind_addr));
	if (!ip_addr_is_any(&a)) /* LIFE-14 */
		o->model.bind_addr[ip_fam(&a)] = a;
	return 0;
}

/* SVC-09, SVC-10: "primary", or prefixes. */
static int set_nodeport_addresses(void *to, const struct cli_option *f, const char *value,
				  struct err *err)
{
	struct options *o = to;
	bool is_primary = strcmp(value, "primary") == 0 || *value == '\0';
	int r = cli_prefixes((struct cli_prefixes *)&o->model.nodeport_cidrs,
			     is_primary ? "" : value, err);

	if (r < 0)
		return err_wrap(err, r, "\"primary\" alone, or prefixes");
	o->model.has_nodeport_cidrs = !is_primary;
	return 0;
}

void options_ignored_add(struct options *o, const char *what, const char *name)
{
	struct str *all = &o->record.ignored;
	FINI(str_fini) struct str entry = { 0 };
	const char *at;

	str_printf(&entry, "%s%s", what, name);
	at = strstr(str_text(all), entry.text);
	if (at == NULL || (at[entry.len] != ',' && at[entry.len] != '\0'))
		str_printf(all, "%s%s", all->len > 0 ? ", " : "", entry.text);
}

static int set_gate(void *to, const char *gate, const char *value, struct err *err)
{
	struct options *o = to;
	bool is_on = false;
	int r;

	if (*gate == '\0' && value == NULL)
		return 0;
	if (value == NULL)
		return err_set(err, -EINVAL, "'%s' is not NAME=true or NAME=false", gate);
	r = cli_bool(&is_on, value, err);
	if (r < 0)
		return err_wrap(err, r, "%s", gate);
	if (strcmp(gate, "AllowServiceExternalIPs") == 0) /* SVC-13 */
		o->model.no_external_ips = !is_on;
	else
		options_ignored_add(o, "feature gate ", gate);
	return 0;
}

/* LEVEL for all areas, or AREA=LEVEL; the last one counts. */
static int set_level(void *to, const char *word, const char *value, struct err *err)
{
	struct options *o = to;
	const char *text = value != NULL ? value : word;
	int level = log_level_parse(text);
	int area = value != NULL ? log_area_parse(word) : -1;

	if (level < 0)
		return err_set(err, -EINVAL, "'%s' is not error, warn, notice, info or debug",
			       text);
	if (value != NULL && area < 0)
		return err_set(err, -EINVAL, "'%s' is not an area of the log", word);
	for (int i = 0; i < LOG_AREA_N; i++)
		if (area < 0 || i == area)
			o->log.area_level[i] = (enum log_level)level;
	return 0;
}

static int set_module(void *to, const char *word, const char *value, struct err *err)
{
	struct options *o = to;
	int64_t n;
	int area = log_area_parse(word);
	int r;

	if (*word == '\0' && value == NULL)
		return 0;
	if (value == NULL)
		return err_set(err, -EINVAL, "'%s' is not AREA=N", word);
	r = cli_int(&n, value, 0, INT32_MAX, err);
	if (r < 0)
		return r;
	if (area >= 0)
		o->log.area_verbosity[area] = (int)n;
	else
		options_ignored_add(o, "vmodule ", word);
	return 0;
}

/* "10.0.0.1:80", "[::1]:80", or an address alone: port 0. CFG-21: empty is the default. */
static int set_place(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	const char *colon = strrchr(value, ':');
	bool is_bare = colon == NULL || (value[0] != '[' && strchr(value, ':') != colon) ||
		       (value[0] == '[' && colon[-1] != ']');
	size_t len = is_bare ? strlen(value) : (size_t)(colon - value);
	struct ip_endpoint place = { 0 };
	char text[IP_TEXT_MAX] = "";
	int64_t port = 0;
	int r = 0;

	if (len > 1 && value[0] == '[' && value[len - 1] == ']') {
		value++;
		len -= 2;
	}
	memcpy(text, value, MIN(len, sizeof(text) - 1));
	if (*value != '\0')
		r = ip_addr_parse(&place.addr, text, err);
	if (r == 0 && !is_bare)
		r = cli_int(&port, colon + 1, 1, UINT16_MAX, err);
	if (r < 0)
		return r;
	place.port = (uint16_t)port;
	memcpy((char *)to + f->value.at, &place, sizeof(place));
	return 0;
}

static int set_ipvs_mark(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	struct options *o = to;
	char *end;
	unsigned long n = strtoul(value, &end, 0);

	if (end == value || *end != '\0' || n < 2 || n > 254 || n % 2 != 0)
		return err_set(err, -EINVAL, "'%s' is not an even number from 2 to 254", value);
	o->ipvs.mark_tag = (uint8_t)n;
	return 0;
}

static int set_ipvs_table(void *to, const struct cli_option *f, const char *value, struct err *err)
{
	struct options *o = to;
	int64_t n;
	int r = cli_int(&n, value, 1, UINT32_MAX, err);

	if (r == 0 && n >= 253 && n <= 255)
		return err_set(err, -EINVAL, "'%s' is one of the kernel's own tables, 253 to 255",
			       value);
	if (r == 0)
		o->ipvs.route_table = (uint32_t)n;
	return r;
}

/* --- the table --- */

#define CLI_SETTINGS options
#define ANY CLI_VALUE(CLI_ANY)
#define TEXT(member) CLI_VALUE(CLI_TEXT, CLI_AT(member))
#define BOOL(member) CLI_VALUE(CLI_BOOL, CLI_AT(member))
#define CHOICE(member) CLI_VALUE(CLI_CHOICE, CLI_AT(member))
#define INT(member, min, max) CLI_VALUE(CLI_INT, CLI_AT(member), min, max)
#define TIME(member, min) CLI_VALUE(CLI_DURATION, CLI_AT(member), min)
#define SECONDS(member, max) CLI_VALUE(CLI_SECONDS, CLI_AT(member), 0, max)
#define PREFIXES(member) CLI_VALUE(CLI_PREFIXES, CLI_AT(member))
#define INTERFACE(member) CLI_VALUE(CLI_INTERFACE, CLI_AT(member))
#define PLACE(member) CLI_VALUE(CLI_FUNCTION, CLI_AT(member), .set = set_place)
#define ENTRIES(function) CLI_VALUE(CLI_ENTRIES, .set_entry = function)
#define SPECIAL(function) CLI_VALUE(CLI_FUNCTION, .set = function)
#define ACTION(action) CLI_VALUE(CLI_FUNCTION, 0, 0, action, action, set_action)
/* Checked and not stored. */
#define CHECKED(type, min, max) CLI_VALUE(type, 0, 0, min, max)

#define IPVS_SECONDS_MAX (INT32_MAX / 1000)

#define LOG_NOTE "no effect: the log goes to standard error"
#define ID_NOTE "no effect: machine and boot ids are not read"
#define MARK_NOTE "no effect: masquerading uses no packet mark"
#define IPVS_PERIOD_NOTE "no effect: see --min-sync-period"
#define WINDOWS_NOTE "for Windows"

static const struct cli_option flags[] = {
	{ "config", "FILE", TEXT(config), "read a KubeProxyConfiguration file",
	  .group = "Commands and configuration" },
	{ "write-config-to", "FILE", TEXT(write_config_to),
	  "write the effective configuration and exit" },
	{ "cleanup", "[=WHAT]",
	  CLI_VALUE(CLI_FUNCTION, 0, 0, OPTIONS_CLEANUP, OPTIONS_CLEANUP_KUBE_ROUTER, set_cleanup),
	  "remove state of vipd, kube-proxy or kube-router",
	  .words = "true false kube-proxy kube-proxy,force kube-router kube-router,force" },
	{ "init-only", NULL, ACTION(OPTIONS_INIT_ONLY), "set privileged sysctls and exit" },
	{ "completion", "SHELL", CLI_VALUE(CLI_WORD, CLI_AT(shell)),
	  "print a completion script and exit", .words = "bash zsh fish" },
	{ "version", NULL, ACTION(OPTIONS_VERSION), "print version and commit, and exit" },
	{ "help", NULL, ACTION(OPTIONS_HELP), "print this help and exit", .letter = 'h' },

	{ "manifests", "DIR", CLI_VALUE(CLI_TEXT, CLI_AT(manifests), 1),
	  "serve the objects in the files of DIR",
	  .group = "Source of Services and EndpointSlices" },
	{ "strict", NULL, BOOL(is_strict), "reject manifests with unknown fields" },
	{ "kubeconfig", "FILE", TEXT(api.kubeconfig),
	  "kubeconfig file with authorization information", "", "clientConnection.kubeconfig",
	  .differs = "the file must exist where vipd runs; deploy/ has a kubeconfig of its own" },
	{ "master", "URLS", TEXT(api.master), "addresses of API servers (override kubeconfig)" },
	{ "api-servers", "URLS", TEXT(api.master), "alias of --master" },
	{ "kube-api-content-type", "TYPE", CHOICE(api.is_json), "encoding",
	  "application/vnd.kubernetes.protobuf", "clientConnection.contentType",
	  .words = "application/vnd.kubernetes.protobuf application/json" },
	{ NULL, NULL, ANY, "no effect: follows from contentType", "",
	  "clientConnection.acceptContentTypes", .effect = CLI_ACCEPTED },
	{ "kube-api-qps", "N", CLI_VALUE(CLI_NUMBER, CLI_AT(api.qps)),
	  "limit of lists and watches per second", "5", "clientConnection.qps" },
	{ "kube-api-burst", "N", INT(api.burst, 0, 1000000), "burst of lists and watches", "10",
	  "clientConnection.burst" },
	{ "events-period", "TIME", TIME(api.timing.events_ns, 0),
	  "report problems as Events (0: never)", "3m" },
	{ "config-sync-period", "TIME", CHECKED(CLI_DURATION, 1, 0),
	  "no effect: see --audit-period", "15m", "configSyncPeriod", .effect = CLI_ACCEPTED },

	{ "hostname-override", "NAME", SPECIAL(set_hostname), "name of this node [host name]", "",
	  "hostnameOverride", .group = "Node" },
	{ "bind-address", "IP", SPECIAL(set_bind_address), "overrides the node's primary IP",
	  "0.0.0.0", "bindAddress" },
	{ "nodeport-addresses", "LIST", SPECIAL(set_nodeport_addresses),
	  "CIDRs of node port IPs, or \"primary\"", "", "nodePortAddresses", .kind = CONFIG_LIST },
	{ "iptables-localhost-nodeports", NULL, BOOL(model.serves_localhost),
	  "serve node ports on 127.0.0.1 and ::1", "false", "iptables.localhostNodePorts",
	  .differs = "on ::1 as well, without route_localnet, and in all modes" },
	{ "oom-score-adj", "N", INT(oom_score_adj, -1000, 1000),
	  "oom-score-adj value, -1000 to 1000", NULL, "oomScoreAdj" },

	{ "proxy-mode", "MODE", CLI_VALUE(CLI_FUNCTION, CLI_AT(plane.mode), 0, 0, set_mode),
	  "nftables, ipvs or iptables", "nftables", "mode", .words = "nftables ipvs iptables",
	  .differs =
		  "vipd has rules of its own, and serves iptables with nftables: doc/migration.md",
	  .group = "Traffic" },
	{ "cluster-cidr", "LIST", PREFIXES(model.cluster_cidrs),
	  "CIDR ranges of the pods in the cluster", "", "clusterCIDR", .kind = CONFIG_TEXT },
	{ "detect-local-mode", "MODE",
	  CLI_VALUE(CLI_CHOICE, CLI_AT(model.detect_local), DETECT_LOCAL_CLUSTER_CIDR),
	  "mode to detect local traffic", "ClusterCIDR", "detectLocalMode",
	  "ClusterCIDR NodeCIDR BridgeInterface InterfaceNamePrefix" },
	{ "pod-bridge-interface", "NAME", INTERFACE(pods.bridge), "bridge of the pods' interfaces",
	  "", "detectLocal.bridgeInterface" },
	{ "pod-interface-name-prefix", "NAME", INTERFACE(pods.prefix),
	  "prefix of pods' interface names", "", "detectLocal.interfaceNamePrefix" },
	{ "masquerade-all", NULL, BOOL(model.is_masquerade_all),
	  "masquerade all traffic sent via cluster IPs", "false", "iptables.masqueradeAll",
	  .nft_field = "nftables.masqueradeAll" },
	{ "preserve-local-source", NULL, BOOL(model.preserves_local_source),
	  "keep source addresses for endpoints on this node", "false" },
	{ "service-cluster-ip-range", "LIST", PREFIXES(model.service_cidrs),
	  "CIDR ranges of cluster IPs" },
	{ "feature-gates", "LIST", ENTRIES(set_gate),
	  "NAME=true|false,...: AllowServiceExternalIPs", "", "featureGates", .kind = CONFIG_GATES,
	  .differs = "only AllowServiceExternalIPs has an effect" },
	{ "dead-flows", "keep|reset", CHOICE(conntrack.is_reset),
	  "TCP connections to removed endpoints", "keep", .words = "keep reset" },
	{ "failover", "WHAT", CHOICE(plane.failover), "move TCP handshakes without an answer",
	  "off", "failover", .words = "off handshake eject" },
	{ "failover-timeout", "TIME", TIME(plane.failover_ns, 1),
	  "time until an unanswered handshake moves", "500ms", "failoverTimeout" },
	{ "failover-udp-timeout", "TIME", TIME(plane.failover_udp_ns, 0),
	  "time until a UDP flow moves (0: never)", "0s", "failoverUDPTimeout" },

	{ "min-sync-period", "TIME", TIME(sync.min_period_ns, 0), "shortest pause between syncs",
	  "0s", .group = "Synchronization with the kernel" },
	{ "iptables-min-sync-period", "TIME", TIME(sync.min_period_ns, 0),
	  "alias of --min-sync-period", "0s", "iptables.minSyncPeriod",
	  .nft_field = "nftables.minSyncPeriod",
	  .differs = "repairs and the first change after an idle period do not wait" },
	{ "iptables-sync-period", "TIME", TIME(sync.period_ns, 1),
	  "/healthz fails if pending for twice this", "30s", "iptables.syncPeriod",
	  .nft_field = "nftables.syncPeriod",
	  .differs = "no periodic full sync: --audit-period compares; only /healthz uses it" },
	{ "audit-period", "TIME", TIME(sync.audit_ns, 0),
	  "compare kernel and desired state (0: never)", "5m" },
	{ "nft-table-owner", NULL, BOOL(plane.is_table_owner),
	  "own the nft tables exclusively (Linux 6.9)", "false" },
	{ "nft-guard", "WHEN", CHOICE(plane.is_guard_off),
	  "keep connections when rules are flushed", "auto", .words = "auto off" },
	{ "metrics-per-service", "WHAT", CHOICE(plane.counting),
	  "count connections per service or endpoint", "none", .words = "none service endpoint" },

	{ "conntrack-max-per-core", "N", INT(conntrack.sysctls.max_per_core, 0, INT32_MAX),
	  "entry limit per CPU core (0: unchanged)", "32768", "conntrack.maxPerCore",
	  .group = "Connection tracking", .differs = "at most 1048576 in all, as from 1.36" },
	{ "conntrack-min", "N", INT(conntrack.sysctls.max_min, 0, INT32_MAX),
	  "minimum number of conntrack entries", "131072", "conntrack.min" },
	{ "conntrack-tcp-timeout-established", "TIME",
	  SECONDS(conntrack.sysctls.tcp_established_s, 0), "timeout of idle TCP flows", "24h0m0s",
	  "conntrack.tcpEstablishedTimeout" },
	{ "conntrack-tcp-timeout-close-wait", "TIME",
	  SECONDS(conntrack.sysctls.tcp_close_wait_s, 0), "timeout of half-closed TCP", "1h0m0s",
	  "conntrack.tcpCloseWaitTimeout" },
	{ "conntrack-tcp-be-liberal", NULL, BOOL(conntrack.sysctls.is_tcp_liberal),
	  "accept out-of-window TCP packets", "false", "conntrack.tcpBeLiberal" },
	{ "conntrack-udp-timeout", "TIME", SECONDS(conntrack.sysctls.udp_s, 0),
	  "timeout of unreplied UDP (0: unchanged)", "0s", "conntrack.udpTimeout" },
	{ "conntrack-udp-timeout-stream", "TIME", SECONDS(conntrack.sysctls.udp_stream_s, 0),
	  "timeout of replied UDP flows", "0s", "conntrack.udpStreamTimeout" },

	{ "control-socket", "PATH", CLI_VALUE(CLI_TEXT, CLI_AT(control_socket), -1),
	  "socket for vipctl", CONTROL_SOCKET_PATH, .group = "Servers" },
	{ "healthz-bind-address", "IP:PORT", PLACE(servers.healthz),
	  "address of /healthz, /livez [0.0.0.0:10256]", "", "healthzBindAddress" },
	{ "healthz-port", "N", INT(servers.healthz_port, 0, UINT16_MAX),
	  "port of /healthz (0: no server)", NULL, "healthzBindAddress", .kind = CONFIG_SHARED },
	{ "metrics-bind-address", "IP:PORT", PLACE(servers.metrics),
	  "address of /metrics [127.0.0.1:10249]", "", "metricsBindAddress" },
	{ "metrics-port", "N", INT(servers.metrics_port, 0, UINT16_MAX),
	  "port of /metrics (0: no server)", NULL, "metricsBindAddress", .kind = CONFIG_SHARED },
	{ "bind-address-hard-fail", NULL, BOOL(servers.is_hard_fail),
	  "treat failure to bind to a port as fatal", "false", "bindAddressHardFail" },
	{ "status-page", "WHEN", CHOICE(servers.page), "page beside /metrics: auto, on or off",
	  "auto", .words = "auto on off" },
	{ "profiling", NULL, CHECKED(CLI_BOOL, 0, 0), "no effect: no such server", "false",
	  "enableProfiling", .effect = CLI_ACCEPTED },
	{ "show-hidden-metrics-for-version", "VERSION", CHECKED(CLI_CHOICE, 0, 0),
	  "no effect: no hidden metrics", "", "showHiddenMetricsForVersion", PREVIOUS_VERSION,
	  .effect = CLI_ACCEPTED },

	{ "v", "N", INT(log.verbosity, 0, INT32_MAX), "log verbosity: 0 events, 2 syncs, 4 details",
	  "0", "logging.verbosity", .group = "Log", .differs = "0 events, 2 syncs, 4 details" },
	{ "vmodule", "LIST", ENTRIES(set_module), "verbosity per area: AREA=N,...", "",
	  "logging.vmodule", .kind = CONFIG_VMODULE,
	  .differs = "patterns are areas of vipd's log, not files of kube-proxy" },
	{ "log-level", "LIST", ENTRIES(set_level), "LEVEL, or AREA=LEVEL,...; overrides -v" },
	{ "logging-format", "FORMAT", CHOICE(log.format), "text, or json: one object per line",
	  "text", "logging.format", "text json" },
	{ "log-flush-frequency", "TIME", CHECKED(CLI_DURATION, 0, 0), LOG_NOTE, "0s",
	  "logging.flushFrequency", .kind = CONFIG_DURATION_OR_NS, .effect = CLI_ACCEPTED },
	{ NULL, NULL, ANY, LOG_NOTE, NULL, "logging.options", .kind = CONFIG_ANY,
	  .effect = CLI_ACCEPTED },
#define LOG_SWITCH(name) CLI_VALUE(name, NULL, ANY, LOG_NOTE, .effect = CLI_ACCEPTED)
#define LOG_VALUE(name, arg) CLI_VALUE(name, arg, ANY, LOG_NOTE, .effect = CLI_ACCEPTED)
	LOG_SWITCH("log-text-split-stream"),
	LOG_VALUE("log-text-info-buffer-size", "SIZE"),
	LOG_SWITCH("log-json-split-stream"),
	LOG_VALUE("log-json-info-buffer-size", "SIZE"),
	LOG_SWITCH("logtostderr"),
	LOG_SWITCH("alsologtostderr"),
	LOG_VALUE("stderrthreshold", "N"),
	LOG_VALUE("log-dir", "DIR"),
	LOG_VALUE("log-file", "FILE"),
	LOG_VALUE("log-file-max-size", "N"),
	LOG_VALUE("log-backtrace-at", "WHERE"),
	LOG_SWITCH("add-dir-header"),
	LOG_SWITCH("skip-headers"),
	LOG_SWITCH("skip-log-headers"),
	LOG_SWITCH("one-output"),
	{ "boot-id-file", "FILES", ANY, ID_NOTE, .effect = CLI_ACCEPTED },
	{ "machine-id-file", "FILES", ANY, ID_NOTE, .effect = CLI_ACCEPTED },

	{ "ipvs-scheduler", "NAME", TEXT(ipvs.sched), "IPVS scheduler [rr]", "", "ipvs.scheduler",
	  .group = "IPVS" },
	{ "ipvs-drain-timeout", "TIME", SECONDS(ipvs.drain_s, IPVS_SECONDS_MAX),
	  "drain timeout of removed backends", "15m", "ipvs.drainTimeout" },
	{ "ipvs-exclude-cidrs", "LIST", PREFIXES(ipvs_exclude),
	  "CIDRs of virtual services not to touch", "", "ipvs.excludeCIDRs", .kind = CONFIG_LIST },
	{ "ipvs-tcp-timeout", "TIME", SECONDS(ipvs.timeouts.tcp, IPVS_SECONDS_MAX),
	  "timeout of idle TCP flows (0: unchanged)", "0s", "ipvs.tcpTimeout" },
	{ "ipvs-tcpfin-timeout", "TIME", SECONDS(ipvs.timeouts.tcp_fin, IPVS_SECONDS_MAX),
	  "TCP timeout after FIN (0: unchanged)", "0s", "ipvs.tcpFinTimeout" },
	{ "ipvs-udp-timeout", "TIME", SECONDS(ipvs.timeouts.udp, IPVS_SECONDS_MAX),
	  "timeout of UDP flows (0: unchanged)", "0s", "ipvs.udpTimeout" },
	{ "ipvs-mark", "TAG", SPECIAL(set_ipvs_mark), "upper eight bits of packet marks, even",
	  "0x5a" },
	{ "ipvs-route-table", "N", SPECIAL(set_ipvs_table), "routing table of captured packets",
	  "23130" },
	{ "ipvs-rule-priority", "N", INT(ipvs.rule_priority, 1, 32762),
	  "first of four routing rule priorities", "100" },
	{ "ipvs-estimation", NULL, BOOL(ipvs.is_estimating),
	  "IPVS counters and rates (ipvsadm --stats)", "false" },
	{ "ipvs-sync-period", "TIME", CHECKED(CLI_DURATION, 1, 0), IPVS_PERIOD_NOTE, "30s",
	  "ipvs.syncPeriod", .effect = CLI_ACCEPTED },
	{ "ipvs-min-sync-period", "TIME", CHECKED(CLI_DURATION, 0, 0), IPVS_PERIOD_NOTE, "0s",
	  "ipvs.minSyncPeriod", .effect = CLI_ACCEPTED },
	{ "ipvs-strict-arp", NULL, CHECKED(CLI_BOOL, 0, 0),
	  "no effect: no address is bound to a device", "false", "ipvs.strictARP",
	  .effect = CLI_ACCEPTED },
	{ "iptables-masquerade-bit", "N", CHECKED(CLI_INT, 0, 31), MARK_NOTE, "14",
	  "iptables.masqueradeBit", .effect = CLI_ACCEPTED },
	{ NULL, NULL, CHECKED(CLI_INT, 0, 31), MARK_NOTE, "14", "nftables.masqueradeBit",
	  .effect = CLI_ACCEPTED },

#define WINDOWS(field, type, preset)                                            \
	CLI_VALUE(NULL, NULL, CHECKED(type, 0, 0), WINDOWS_NOTE, preset, field, \
		  .effect = CLI_ACCEPTED)
	WINDOWS("winkernel.networkName", CLI_TEXT, ""),
	WINDOWS("winkernel.sourceVip", CLI_TEXT, ""),
	WINDOWS("winkernel.enableDSR", CLI_BOOL, "false"),
	WINDOWS("winkernel.rootHnsEndpointName", CLI_TEXT, ""),
	WINDOWS("winkernel.forwardHealthCheckVip", CLI_BOOL, "false"),
	{ NULL, NULL, CHECKED(CLI_BOOL, 0, 0), WINDOWS_NOTE, "false", "windowsRunAsService",
	  .effect = CLI_REFUSED },
	{ NULL, NULL, CHECKED(CLI_TEXT, 0, 0), "no effect: kube-proxy does not use it either", "",
	  "portRange", .effect = CLI_ACCEPTED },
};

const struct cli vipd_cli = {
	.name = "vipd",
	.usage = "Usage: vipd --manifests DIR [--hostname-override NAME] [FLAGS]\n"
		 "       vipd --kubeconfig FILE | --config FILE [FLAGS]\n\n"
		 "Make Kubernetes service addresses work on this node, in the kernel.\n",
	.usage_end = "\nExplanations: man vipd\n",
	.options = flags,
	.n_options = ARRAY_SIZE(flags),
};
