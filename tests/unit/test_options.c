/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line: effects of kube-proxy's flags, exact messages, and doc/flags.md. */
#include "settings/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "settings/flags.h"
#include "test.h"

#define ARGS_MAX 20

/* Result of a parse; texts are borrowed from argv. */
struct parsed {
	struct options o;
	struct err err;
	char *text;
	int r;
};

/* `args`: words with blanks between. */
static void parse(struct parsed *p, const char *args)
{
	char *argv[ARGS_MAX + 2] = { NULL };
	char *rest;
	int argc = 0;

	*p = (struct parsed){ .text = xstrdup(args) };
	rest = p->text;
	argv[argc++] = (char *)(uintptr_t) "vipd";
	for (char *word; (word = strsep(&rest, " ")) != NULL && argc <= ARGS_MAX;)
		if (*word != '\0')
			argv[argc++] = word;
	p->r = options_parse(&p->o, argc, argv, &p->err);
}

static void parsed_fini(struct parsed *p)
{
	options_fini(&p->o);
	free(p->text);
}

/* CFG-48: values from any source. */
static void test_flagz(void **state)
{
	static const char *const wanted[] = {
		"\nmaster=https://api.example:6443,https://other\n",
		"\nmetrics-per-service=service\n",
		"\noom-score-adj=-500\n",
		"manifests=\n",
		"\ncluster-cidr=10.0.0.0/8\n",
	};
	struct parsed p;
	struct str flagz = { 0 };
	json_t *flags;
	char *configz;
	const char *name;
	json_t *value;

	(void)state;
	parse(&p, "--master=https://api.example:6443,https://other "
		  "--metrics-per-service=service --oom-score-adj -500 --cluster-cidr=10.0.0.0/8");
	assert_int_equal(p.r, 0);
	flags = options_list(&p.o);
	configz = options_configz(&p.o);
	json_object_foreach (flags, name, value)
		str_printf(&flagz, "%s=%s\n", name, json_string_value(value));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (strstr(flagz.text, wanted[i]) == NULL)
			print_error("no '%s' in\n%s\n", wanted[i], flagz.text);
		assert_non_null(strstr(flagz.text, wanted[i]));
	}
	assert_non_null(strstr(configz, "{\"kubeproxy.config.k8s.io\":{"));
	assert_non_null(strstr(configz, "\"clusterCIDR\":\"10.0.0.0/8\""));
	str_fini(&flagz);
	json_decref(flags);
	free(configz);
	parsed_fini(&p);
}

#define SCHEDULERS                                                                         \
	"rr, wrr, lc, wlc, fo, ovf, lblc, lblcr, dh, sh, mh, sed, nq or twos, with flags " \
	"after commas: mh,mh-port"

static const struct {
	const char *name;
	const char *args;
	const char *err;
} refused[] = {
	{ "CFG-06 positional", "x", "unexpected argument 'x'" },
	{ "unknown", "--no-such-flag", "unknown option '--no-such-flag' (see --help)" },
	{ "misspelt", "--masquerade-al",
	  "unknown option '--masquerade-al' (did you mean '--masquerade-all'?) (see --help)" },
	{ "unknown letter", "-x", "unknown option '-x' (see --help)" },
	{ "no value", "--manifests", "--manifests: value missing: DIR (see --help)" },
	{ "empty value", "--manifests=", "--manifests: value missing: DIR" },
	{ "CFG-38 too long", "--ipvs-tcp-timeout=2147484s",
	  "--ipvs-tcp-timeout: '2147484s' is above the kernel's limit of 2147483s" },
	{ "no empty choice", "--nft-guard=", "--nft-guard: '' is not auto or off" },
	{ "choice", "--status-page=maybe", "--status-page: 'maybe' is not auto, on or off" },
	{ "no page", "--status-page=on --metrics-port=0",
	  "--status-page=on requires a metrics server; --metrics-port is 0" },
	{ "CFG-07 other", "--proxy-mode kernelspace",
	  "--proxy-mode: 'kernelspace' is not nftables, ipvs or iptables" },
	{ "ipvs mark, odd", "--ipvs-mark=0x5b",
	  "--ipvs-mark: '0x5b' is not an even number from 2 to 254" },
	{ "ipvs table of the kernel's", "--ipvs-route-table=254",
	  "--ipvs-route-table: '254' is one of the kernel's own tables, 253 to 255" },
	{ "ipvs priority", "--ipvs-rule-priority=32763",
	  "--ipvs-rule-priority: '32763' is not a number from 1 to 32762" },
	{ "CFG-09", "--bind-address=1.2.3", "--bind-address: '1.2.3' is not an IP address" },
	{ "metrics-per-service", "--metrics-per-service=pod",
	  "--metrics-per-service: 'pod' is not none, service or endpoint" },
	{ "CFG-15", "--config-sync-period=0", "--config-sync-period: '0' is not above 0" },
	{ "CFG-17 qps", "--kube-api-qps=x", "--kube-api-qps: 'x' is not a number" },
	{ "CFG-17 burst", "--kube-api-burst=-1",
	  "--kube-api-burst: '-1' is not a number from 0 to 1000000" },
	{ "CFG-18", "--oom-score-adj=-1001",
	  "--oom-score-adj: '-1001' is not a number from -1000 to 1000" },
	{ "CFG-19 no value", "--feature-gates=A",
	  "--feature-gates: 'A' is not NAME=true or NAME=false" },
	{ "CFG-19 bad value", "--feature-gates=A=maybe",
	  "--feature-gates: A: 'maybe' is not true or false" },
	{ "CFG-20 -v", "-v=x", "-v: 'x' is not a number from 0 to 2147483647" },
	{ "CFG-20 -v below 0", "-v=-1", "-v: '-1' is not a number from 0 to 2147483647" },
	{ "CFG-17 qps, no number", "--kube-api-qps=nan", "--kube-api-qps: 'nan' is not a number" },
	{ "CFG-14", "--show-hidden-metrics-for-version=1.10",
	  "--show-hidden-metrics-for-version: '1.10' is not 1.35, nor empty" },
	{ "CFG-25 empty", "--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=",
	  "--detect-local-mode: InterfaceNamePrefix requires --pod-interface-name-prefix" },
	{ "CFG-29 below 0", "--iptables-masquerade-bit=-10",
	  "--iptables-masquerade-bit: '-10' is not a number from 0 to 31" },
	{ "CFG-39", "--conntrack-min=-1",
	  "--conntrack-min: '-1' is not a number from 0 to 2147483647" },
	{ "CFG-40", "--conntrack-tcp-timeout-established=-1s",
	  "--conntrack-tcp-timeout-established: '-1s' is not a duration such as 30s or 1m30s" },
	{ "CFG-20 vmodule", "--vmodule=sync", "--vmodule: 'sync' is not AREA=N" },
	{ "CFG-20 format", "--logging-format=xml", "--logging-format: 'xml' is not text or json" },
	{ "CFG-25", "--detect-local-mode=BridgeInterface",
	  "--detect-local-mode: BridgeInterface requires --pod-bridge-interface" },
	{ "CFG-29", "--iptables-masquerade-bit=32",
	  "--iptables-masquerade-bit: '32' is not a number from 0 to 31" },
	{ "CFG-32", "--iptables-sync-period=0s", "--iptables-sync-period: '0s' is not above 0" },
	{ "CFG-38", "--ipvs-tcp-timeout=1x",
	  "--ipvs-tcp-timeout: '1x' is not a duration such as 30s or 1m30s" },
	{ "CFG-38 hexadecimal", "--ipvs-tcp-timeout=0x10s",
	  "--ipvs-tcp-timeout: '0x10s' is not a duration such as 30s or 1m30s" },
	{ "CFG-38 exponent", "--ipvs-tcp-timeout=1e3s",
	  "--ipvs-tcp-timeout: '1e3s' is not a duration such as 30s or 1m30s" },
	{ "CFG-44", "--iptables-sync-period=5s --iptables-min-sync-period=6s",
	  "--iptables-min-sync-period: 6s is above --iptables-sync-period, 5s" },
	{ "CFG-44, the name without prefix", "--iptables-sync-period=5s --min-sync-period=60s",
	  "--min-sync-period: 60s is above --iptables-sync-period, 5s" },
	{ "CFG-44, the default period", "--min-sync-period=1m",
	  "--min-sync-period: 1m is above --iptables-sync-period, 30s" },
	{ "CFG-44 ipvs, the periods in force",
	  "--proxy-mode=ipvs --ipvs-sync-period=1h --iptables-min-sync-period=31s",
	  "--iptables-min-sync-period: 31s is above --iptables-sync-period, 30s" },
	{ "CT-18 range", "--failover-timeout=20ms",
	  "--failover-timeout: 0.02s is not a duration from 0.1s to 10s" },
	{ "CT-18 too long", "--failover=handshake --failover-timeout=11s",
	  "--failover-timeout: 11s is not a duration from 0.1s to 10s" },
	{ "CT-18 zero", "--failover-timeout=0", "--failover-timeout: '0' is not above 0" },
	{ "CT-33 range", "--failover=eject --failover-udp-timeout=20ms",
	  "--failover-udp-timeout: 0.02s is not 0, nor a duration from 0.1s to 10s" },
	{ "CT-33 alone", "--failover-udp-timeout=2s",
	  "--failover-udp-timeout: requires --failover handshake or eject" },
	{ "CT-18 ipvs", "--failover=handshake --proxy-mode=ipvs",
	  "--failover: 'handshake' is not available with --proxy-mode ipvs; use eject or off" },
	{ "CT-33 ipvs", "--failover=eject --failover-udp-timeout=1s --proxy-mode=ipvs",
	  "--failover-udp-timeout: not available with --proxy-mode ipvs" },
	{ "CT-18 word", "--failover=move", "--failover: 'move' is not off, handshake or eject" },
	{ "IPVS-14", "--proxy-mode=ipvs --ipvs-scheduler=wrrr",
	  "--ipvs-scheduler: unknown scheduler 'wrrr'; allowed: " SCHEDULERS },
	{ "IPVS-14 flag", "--proxy-mode=ipvs --ipvs-scheduler=rr,mh-port",
	  "--ipvs-scheduler: flag 'mh-port' is not for scheduler 'rr'; allowed: " SCHEDULERS },
	{ "CFG-17 encoding", "--kube-api-content-type=text/plain",
	  "--kube-api-content-type: 'text/plain' is not application/vnd.kubernetes.protobuf or "
	  "application/json" },
	{ "CFG-11 one port",
	  "--healthz-bind-address=127.0.0.1:7 --metrics-bind-address=127.0.0.1:7",
	  "--metrics-bind-address and --healthz-bind-address: 127.0.0.1:7 and 127.0.0.1:7 overlap" },
	{ "CFG-11 one port, all addresses", "--metrics-port=10256",
	  "--metrics-bind-address and --healthz-bind-address: 127.0.0.1:10256 and 0.0.0.0:10256 "
	  "overlap" },
	{ "CFG-11 one port, both families",
	  "--healthz-bind-address=[::1]:7 --metrics-bind-address=0.0.0.0:7",
	  "--metrics-bind-address and --healthz-bind-address: 0.0.0.0:7 and [::1]:7 overlap" },
	{ "two sources", "--manifests a --kubeconfig b",
	  "--kubeconfig: cannot be combined with --manifests" },
	{ "two sources, master", "--manifests a --master b",
	  "--master: cannot be combined with --manifests" },
};

static void test_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct parsed p;

		print_message("    %s\n", refused[i].name);
		parse(&p, refused[i].args);
		assert_int_equal(p.r, -EINVAL);
		assert_string_equal(p.err.text, refused[i].err);
		parsed_fini(&p);
	}
}

static const struct {
	const char *name;
	const char *args;
	const char *note; /* the only one; NULL: none */
} noted[] = {
	{ "nothing", "", NULL },
	{ "empty values, as kube-proxy takes them",
	  "--bind-address= --pod-bridge-interface= --pod-interface-name-prefix= "
	  "--show-hidden-metrics-for-version= --hostname-override= --healthz-bind-address=",
	  NULL },
	{ "Go's booleans and durations, and any verbosity",
	  "--masquerade-all=TRUE --bind-address-hard-fail=f --iptables-min-sync-period=500\u00b5s "
	  "-v=99 --vmodule=sync=11",
	  NULL },
	{ "flags of libraries in kube-proxy",
	  "--boot-id-file=/proc/sys/kernel/random/boot_id --machine-id-file /etc/machine-id "
	  "--show-hidden-metrics-for-version=1.35",
	  "accepted without effect: --boot-id-file, --machine-id-file, "
	  "--show-hidden-metrics-for-version" },
	{ "IPVS-14 in another mode, as in kube-proxy", "--ipvs-scheduler=wrrr", NULL },
	{ "what is honoured",
	  "--cluster-cidr=10.0.0.0/8 --masquerade-all --proxy-mode nftables -v=4", NULL },
	{ "all that is ignored, in one line, as it is called",
	  "--iptables-masquerade-bit=3 --ipvs-min-sync-period 1s --ipvs-strict-arp --log_dir=/tmp",
	  "accepted without effect: --iptables-masquerade-bit, --ipvs-min-sync-period, "
	  "--ipvs-strict-arp, --log-dir" },
	{ "gates and areas that are not ours",
	  "--feature-gates=NFTablesProxyMode=true,AllowServiceExternalIPs=false "
	  "--vmodule=proxier=9,sync=4",
	  "accepted without effect: feature gate NFTablesProxyMode, vmodule proxier" },
	{ "CFG-07 iptables", "--proxy-mode=iptables",
	  "mode iptables, kube-proxy's default, is served with nftables" },
	{ "the table owner in another mode", "--nft-table-owner --proxy-mode=ipvs",
	  "--nft-table-owner: no effect with --proxy-mode ipvs" },
	{ "localhost node ports on primary addresses",
	  "--proxy-mode=ipvs --iptables-localhost-nodeports",
	  "iptables.localhostNodePorts: no effect: nodePortAddresses contains no loopback "
	  "address" },
	{ "localhost node ports",
	  "--proxy-mode=ipvs --iptables-localhost-nodeports --nodeport-addresses=127.0.0.0/8",
	  NULL },
};

static void test_noted(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(noted); i++) {
		struct parsed p;

		print_message("    %s\n", noted[i].name);
		parse(&p, noted[i].args);
		assert_int_equal(p.r, 0);
		assert_int_equal(p.o.record.notes.n, noted[i].note != NULL);
		if (noted[i].note != NULL)
			assert_string_equal(p.o.record.notes.v[0], noted[i].note);
		parsed_fini(&p);
	}
}

/* SVC-10, IPT-12: effect of the mode on node ports, unless other options are set. */
static void test_nodeports_by_mode(void **state)
{
	static const struct {
		const char *flags;
		size_t n_cidrs; /* 0: the primary addresses */
		bool is_localhost;
	} cases[] = {
		{ "", 0, false },
		{ "--proxy-mode=nftables", 0, false },
		{ "--proxy-mode=ipvs", 0, false },
		{ "--proxy-mode=iptables", 2, true },
		{ "--proxy-mode=", 2, true },
		{ "--proxy-mode=iptables --nodeport-addresses=primary", 0, true },
		{ "--proxy-mode=iptables --nodeport-addresses=", 2, true },
		{ "--proxy-mode=iptables --nodeport-addresses=192.0.2.0/24", 1, true },
		{ "--proxy-mode=iptables --iptables-localhost-nodeports=false", 2, false },
		{ "--proxy-mode=nftables --iptables-localhost-nodeports", 0, true },
		{ "--proxy-mode=ipvs --iptables-localhost-nodeports", 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct parsed p;

		print_message("    %s\n", cases[i].flags);
		parse(&p, cases[i].flags);
		assert_int_equal(p.r, 0);
		assert_int_equal(p.o.model.nodeport_cidrs.n, cases[i].n_cidrs);
		assert_int_equal(p.o.model.has_nodeport_cidrs, cases[i].n_cidrs > 0);
		assert_int_equal(p.o.model.serves_localhost, cases[i].is_localhost);
		parsed_fini(&p);
	}
}

static void test_log_level(void **state)
{
	static const struct {
		const char *flags;
		int sync, plane; /* 0: not set */
		const char *error;
	} cases[] = {
		{ "--log-level debug", LOG_LEVEL_DEBUG, LOG_LEVEL_DEBUG, NULL },
		{ "--log-level=sync=debug", LOG_LEVEL_DEBUG, 0, NULL },
		{ "--log-level error,sync=info", LOG_LEVEL_INFO, LOG_LEVEL_ERR, NULL },
		{ "--log-level sync=info,warn", LOG_LEVEL_WARN, LOG_LEVEL_WARN, NULL },
		{ "--log-level sync=info --log-level plane=notice", LOG_LEVEL_INFO,
		  LOG_LEVEL_NOTICE, NULL },
		{ "--log-level loud", 0, 0, "'loud' is not error, warn, notice, info or debug" },
		{ "--log-level moon=debug", 0, 0, "'moon' is not an area of the log" },
		{ "--log-level sync=", 0, 0, "'' is not error" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char flags[128];
		struct parsed p;

		print_message("    %s\n", cases[i].flags);
		(void)snprintf(flags, sizeof(flags), "--manifests m %s", cases[i].flags);
		parse(&p, flags);
		assert_int_equal(p.r < 0, cases[i].error != NULL);
		if (cases[i].error != NULL)
			assert_non_null(strstr(p.err.text, cases[i].error));
		assert_int_equal(p.o.log.area_level[LOG_AREA_SYNC], cases[i].sync);
		assert_int_equal(p.o.log.area_level[LOG_AREA_PLANE], cases[i].plane);
		parsed_fini(&p);
	}
}

static void test_values(void **state)
{
	struct parsed p;

	parse(&p,
	      "--manifests m --hostname-override=N1.Example --iptables-min-sync-period 1m30s --iptables-sync-period=2m "
	      "--oom-score-adj=-5 -v2 --vmodule=sync=4,kube=1 --kube-api-qps=7.5 --masquerade-all "
	      "--feature-gates AllowServiceExternalIPs=false --nodeport_addresses=10.0.0.0/8");
	assert_int_equal(p.r, 0);
	assert_string_equal(p.o.manifests, "m");
	assert_string_equal(p.o.hostname, "n1.example"); /* CFG-08 */
	assert_int_equal(p.o.sync.min_period_ns, 90 * NSEC_PER_SEC);
	assert_int_equal(p.o.oom_score_adj, -5);
	assert_int_equal(p.o.log.verbosity, 2);
	assert_int_equal(p.o.log.area_verbosity[LOG_AREA_SYNC], 4);
	assert_int_equal(p.o.log.area_verbosity[LOG_AREA_PLANE], -1);
	assert_int_equal(p.o.log.area_level[LOG_AREA_SYNC], 0);
	assert_true(p.o.api.qps > 7.4 && p.o.api.qps < 7.6);
	assert_true(p.o.model.is_masquerade_all);
	assert_true(p.o.model.no_external_ips);
	assert_true(p.o.model.has_nodeport_cidrs);
	assert_int_equal(p.o.model.nodeport_cidrs.n, 1);
	parsed_fini(&p);
}

/* CT-17: whole seconds; what is not 0 does not become 0, which is "no limit" or "unchanged". */
static void test_seconds(void **state)
{
	static const struct {
		const char *time;
		uint32_t seconds;
	} cases[] = {
		{ "0", 0 }, { "1ns", 1 }, { "500ms", 1 }, { "1s", 1 }, { "1.5s", 1 }, { "1m", 60 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct parsed p;

		parse(&p, str_local(128, "--ipvs-drain-timeout=%s --conntrack-udp-timeout=%s",
				    cases[i].time, cases[i].time));
		assert_int_equal(p.r, 0);
		assert_int_equal(p.o.ipvs.drain_s, cases[i].seconds);
		assert_int_equal(p.o.conntrack.sysctls.udp_s, cases[i].seconds);
		parsed_fini(&p);
	}
}

/* A list continues, as pflag's StringSlice and MapStringBool; other flags have one value. */
static void test_repeated(void **state)
{
	char *text;
	struct parsed p;

	parse(&p, "--nodeport-addresses=192.168.0.0/16 --nodeport-addresses=10.0.0.0/8,fd00::/8 "
		  "--feature-gates=WinDSR=True --feature-gates=AllowServiceExternalIPs=False "
		  "--cluster-cidr=10.1.0.0/16 --cluster-cidr=10.2.0.0/16 --masquerade-all=True "
		  "--healthz-port=1 --metrics-port=9999 --bind-address=::");
	assert_int_equal(p.r, 0);
	assert_int_equal(p.o.model.nodeport_cidrs.n, 3);
	assert_int_equal(p.o.model.cluster_cidrs.n, 1);
	assert_true(p.o.model.no_external_ips);
	text = options_configz(&p.o);
	assert_non_null(strstr(text, "[\"192.168.0.0/16\",\"10.0.0.0/8\",\"fd00::/8\"]"));
	assert_non_null(strstr(text, "\"AllowServiceExternalIPs\":false"));
	assert_non_null(strstr(text, "\"WinDSR\":true"));
	assert_non_null(strstr(text, "\"clusterCIDR\":\"10.2.0.0/16\""));
	assert_non_null(strstr(text, "\"masqueradeAll\":true"));
	assert_non_null(strstr(text, "\"healthzBindAddress\":\"[::]:1\""));
	assert_non_null(strstr(text, "\"metricsBindAddress\":\"[::1]:9999\""));
	assert_string_equal(p.o.record.ignored.text, "feature gate WinDSR");
	parsed_fini(&p);
	parse(&p, "--nodeport-addresses=primary --nodeport-addresses=");
	assert_int_equal(p.r, 0);
	parsed_fini(&p);
	free(text);
}

/* The last value counts, as if the first one was not given: empty is the default. */
static void test_last(void **state)
{
	static const struct {
		const char *first;
		const char *last;
	} cases[] = {
		{ "--cleanup=true", "--cleanup=false" },
		{ "--cleanup=kube-proxy,force", "--cleanup=false" },
		{ "--cleanup=kube-router", "--cleanup=kube-proxy" },
		{ "--init-only", "--init-only=false" },
		{ "--version", "--version=false" },
		{ "--bind-address=10.9.9.9", "--bind-address=0.0.0.0" },
		{ "--bind-address=10.9.9.9", "--bind-address=fd00:7::2" },
		{ "--bind-address=fd00:7::2", "--bind-address=" },
		{ "--healthz-bind-address=10.0.0.1:9", "--healthz-bind-address=" },
		{ "--detect-local-mode=NodeCIDR", "--detect-local-mode=" },
		{ "--failover=eject", "--failover=" },
		{ "--hostname-override=n2", "--hostname-override=" },
		{ "--pod-bridge-interface=br0", "--pod-bridge-interface=" },
		{ "--pod-interface-name-prefix=veth", "--pod-interface-name-prefix=" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct parsed both;
		struct parsed last;
		struct str texts[2] = { 0 };

		print_message("    %s %s\n", cases[i].first, cases[i].last);
		parse(&both, str_local(128, "%s %s", cases[i].first, cases[i].last));
		parse(&last, cases[i].last);
		assert_int_equal(both.r, 0);
		assert_int_equal(both.o.action, last.o.action);
		assert_string_equal(both.o.hostname, last.o.hostname);
		assert_memory_equal(&both.o.servers.healthz, &last.o.servers.healthz,
				    sizeof(last.o.servers.healthz));
		assert_int_equal(both.o.servers.is_ipv6, last.o.servers.is_ipv6);
		assert_memory_equal(both.o.model.bind_addr, last.o.model.bind_addr,
				    sizeof(last.o.model.bind_addr));
		assert_int_equal(both.o.model.detect_local, last.o.model.detect_local);
		assert_int_equal(both.o.plane.failover, last.o.plane.failover);
		assert_string_equal(both.o.pods.bridge, last.o.pods.bridge);
		assert_string_equal(both.o.pods.prefix, last.o.pods.prefix);
		options_effective(&both.o, &texts[0]);
		options_effective(&last.o, &texts[1]);
		assert_string_equal(texts[0].text, texts[1].text);
		str_fini(&texts[0]);
		str_fini(&texts[1]);
		parsed_fini(&both);
		parsed_fini(&last);
	}
}

/* HC-01, CFG-09 to CFG-11, CFG-21, CFG-22: where the servers are. */
static void test_places(void **state)
{
	static const struct {
		const char *args;
		const char *healthz; /* NULL: none */
		const char *metrics;
	} cases[] = {
		{ "", "0.0.0.0:10256", "127.0.0.1:10249" },
		{ "--bind-address=192.0.2.1", "0.0.0.0:10256", "127.0.0.1:10249" },
		{ "--bind-address=::", "[::]:10256", "[::1]:10249" },
		{ "--bind-address=2001:db8::1 --metrics-bind-address=10.0.0.1:9", "[::]:10256",
		  "10.0.0.1:9" },
		{ "--healthz-bind-address=10.0.0.1 --metrics-bind-address=", "10.0.0.1:10256",
		  "127.0.0.1:10249" },
		{ "--healthz-bind-address=2001:db8::1", "[2001:db8::1]:10256", "127.0.0.1:10249" },
		{ "--healthz-bind-address=[2001:db8::1]", "[2001:db8::1]:10256",
		  "127.0.0.1:10249" },
		{ "--healthz-bind-address=[::1]:65535", "[::1]:65535", "127.0.0.1:10249" },
		{ "--healthz-port=7 --metrics-port=8", "0.0.0.0:7", "127.0.0.1:8" },
		{ "--healthz-port=7 --healthz-bind-address=10.0.0.1:9", "10.0.0.1:9",
		  "127.0.0.1:10249" },
		{ "--healthz-port=0 --healthz-bind-address=10.0.0.1:9 --metrics-port=0", NULL,
		  NULL },
		{ "--healthz-port=0 --metrics-port=10256", NULL, "127.0.0.1:10256" },
		{ "--healthz-bind-address=127.0.0.1:9 --metrics-bind-address=[::1]:9",
		  "127.0.0.1:9", "[::1]:9" },
	};
	static const char *const bad[] = {
		"--healthz-bind-address=here:80",
		"--healthz-bind-address=10.0.0.1:0",
		"--healthz-bind-address=10.0.0.1:",
		"--healthz-bind-address=10.0.0.1:65536",
		"--metrics-bind-address=[::1]80",
		"--metrics-bind-address=:80",
		"--healthz-port=-1",
		"--metrics-port=65536",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *want[2] = { cases[i].healthz, cases[i].metrics };
		struct parsed p;

		print_message("    %s\n", cases[i].args);
		parse(&p, cases[i].args);
		assert_int_equal(p.r, 0);
		assert_int_equal(p.o.sync.period_ns, 30 * NSEC_PER_SEC);
		for (int k = 0; k < 2; k++) {
			const struct ip_endpoint *at =
				k == 0 ? &p.o.servers.healthz : &p.o.servers.metrics;
			char text[IP_ENDPOINT_TEXT_MAX];

			(void)ip_endpoint_text(&at->addr, at->port, text);
			if (want[k] != NULL)
				assert_string_equal(text, want[k]);
			else
				assert_int_equal(at->port, 0);
		}
		parsed_fini(&p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct parsed p;

		print_message("    %s\n", bad[i]);
		parse(&p, bad[i]);
		assert_int_equal(p.r, -EINVAL);
		parsed_fini(&p);
	}
}

/* CFG-46 and --write-config-to. */
static void test_actions(void **state)
{
	static const struct {
		const char *args;
		enum options_action action;
	} cases[] = {
		{ "", OPTIONS_RUN },
		{ "-h", OPTIONS_HELP },
		{ "--version", OPTIONS_VERSION },
		{ "--completion zsh", OPTIONS_COMPLETION },
		{ "--cleanup", OPTIONS_CLEANUP },
		{ "--cleanup=false", OPTIONS_RUN },
		{ "--cleanup=kube-proxy", OPTIONS_CLEANUP_KUBE_PROXY },
		{ "--cleanup=kube-proxy,force", OPTIONS_CLEANUP_KUBE_PROXY },
		{ "--init-only", OPTIONS_INIT_ONLY },
		{ "--write-config-to=x --cleanup", OPTIONS_WRITE_CONFIG },
		{ "--help --write-config-to=x --config=/does/not/exist", OPTIONS_HELP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct parsed p;

		parse(&p, cases[i].args);
		assert_int_equal(p.r, 0);
		assert_int_equal(p.o.action, cases[i].action);
		parsed_fini(&p);
	}
}

/* Every flag of section 14 is known; CFG-07 to CFG-46. */
static void test_all_known(void **state)
{
	static const char *const names[] = {
		"bind-address",
		"bind-address-hard-fail",
		"cleanup",
		"cluster-cidr",
		"config",
		"config-sync-period",
		"conntrack-max-per-core",
		"conntrack-min",
		"conntrack-tcp-be-liberal",
		"conntrack-tcp-timeout-close-wait",
		"conntrack-tcp-timeout-established",
		"conntrack-udp-timeout",
		"conntrack-udp-timeout-stream",
		"detect-local-mode",
		"feature-gates",
		"healthz-bind-address",
		"healthz-port",
		"help",
		"hostname-override",
		"init-only",
		"iptables-localhost-nodeports",
		"iptables-masquerade-bit",
		"iptables-min-sync-period",
		"iptables-sync-period",
		"ipvs-exclude-cidrs",
		"ipvs-min-sync-period",
		"ipvs-scheduler",
		"ipvs-strict-arp",
		"ipvs-sync-period",
		"ipvs-tcp-timeout",
		"ipvs-tcpfin-timeout",
		"ipvs-udp-timeout",
		"kube-api-burst",
		"kube-api-content-type",
		"kube-api-qps",
		"kubeconfig",
		"log-flush-frequency",
		"logging-format",
		"masquerade-all",
		"master",
		"metrics-bind-address",
		"metrics-port",
		"nodeport-addresses",
		"oom-score-adj",
		"pod-bridge-interface",
		"pod-interface-name-prefix",
		"profiling",
		"proxy-mode",
		"show-hidden-metrics-for-version",
		"v",
		"version",
		"vmodule",
		"write-config-to",
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		print_message("    %s\n", names[i]);
		assert_non_null(cli_find(&vipd_cli, names[i], strlen(names[i])));
	}
}

/* Defaults of the table are in force and equal kube-proxy's where it has the flag. */
static void test_defaults(void **state)
{
	struct parsed p;

	parse(&p, "");
	assert_int_equal(p.r, 0);
	assert_string_equal(p.o.control_socket, "/run/vipd/control.sock");
	assert_int_equal(p.o.plane.mode, PROXY_MODE_NFTABLES);
	assert_int_equal(p.o.model.detect_local, DETECT_LOCAL_CLUSTER_CIDR);
	assert_int_equal(p.o.sync.period_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(p.o.sync.min_period_ns, 0);
	assert_int_equal(p.o.sync.audit_ns, 300 * NSEC_PER_SEC);
	assert_int_equal(p.o.api.burst, 10);
	assert_true(p.o.api.qps > 4.9 && p.o.api.qps < 5.1);
	assert_int_equal(p.o.conntrack.sysctls.max_per_core, 32768);
	assert_int_equal(p.o.conntrack.sysctls.max_min, 131072);
	assert_int_equal(p.o.conntrack.sysctls.tcp_established_s, 86400);
	assert_int_equal(p.o.conntrack.sysctls.tcp_close_wait_s, 3600);
	assert_int_equal(p.o.ipvs.drain_s, 900);
	assert_int_equal(p.o.ipvs.rule_priority, 100);
	assert_int_equal(p.o.oom_score_adj, OOM_SCORE_UNSET);
	assert_null(p.o.api.kubeconfig);
	assert_null(p.o.api.master);
	parsed_fini(&p);
}

/* The beginning of the row in doc/flags.md: names, effect, help and default. */
static void row_put(struct str *ret, const struct cli_option *o)
{
	static const char *const effects[] = { "effective", "accepted", "rejected" };
	struct str help = { 0 };

	str_puts(ret, "\n| ");
	if (o->name != NULL)
		str_printf(ret, "`%s%s` ", o->name[1] == '\0' ? "-" : "--", o->name);
	str_puts(ret, "| ");
	if (o->field != NULL)
		str_printf(ret, "`%s` ", o->field);
	if (o->nft_field != NULL)
		str_printf(ret, "`%s` ", o->nft_field);
	str_printf(ret, "| %s | ", effects[o->effect]);
	cli_help_text(&help, NULL, o);
	for (const char *p = help.text; *p != '\0'; p++)
		str_printf(ret, "%s%c", *p == '|' ? "\\" : "", *p);
	str_fini(&help);
}

/* doc/flags.md has a row for every flag and field, and no others. */
static void test_document(void **state)
{
	struct str text = { 0 };
	size_t n_rows = 0;

	assert_int_equal(file_read(&text, TESTS_DATA "/../../doc/flags.md", SIZE_MAX, NULL), 0);
	for (size_t i = 0; i < vipd_cli.n_options; i++) {
		struct str row = { 0 };
		const char *at;

		row_put(&row, &vipd_cli.options[i]);
		at = strstr(text.text, row.text);
		if (at == NULL ||
		    (strncmp(at + row.len, " |\n", 3) != 0 && strncmp(at + row.len, ". ", 2) != 0))
			fail_msg("doc/flags.md: no row %s", row.text + 1);
		str_fini(&row);
	}
	for (const char *p = text.text; (p = strstr(p, "\n| ")) != NULL; p++)
		n_rows++;
	assert_int_equal(n_rows, vipd_cli.n_options + 1); /* and the head */
	str_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_noted),
		cmocka_unit_test(test_nodeports_by_mode),
		cmocka_unit_test(test_log_level),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_actions),
		cmocka_unit_test(test_all_known),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_flagz),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
