/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Configuration files: exact messages with file, line and field; values in force; written
 * configuration.
 */
#include "settings/config.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "settings/options.h"
#include "test.h"

#include "expect.h"

#define HEAD "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

static char folder[] = "/tmp/vipd-test-config-XXXXXX";

static int folder_make(void **state)
{
	return mkdtemp(folder) == NULL || chdir(folder) < 0;
}

static int folder_remove(void **state)
{
	(void)unlink("c.yaml");
	(void)unlink("c.new");
	return rmdir(folder);
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

struct parsed {
	struct options o;
	struct err err;
	int r;
};

/* Parse c.yaml with content `text` and up to three more flags. */
static void parse(struct parsed *p, const char *text, const char *a, const char *b, const char *c)
{
	const char *argv[] = { "vipd", "--config=c.yaml", a, b, c, NULL };
	int argc = 2;

	while (argv[argc] != NULL)
		argc++;
	*p = (struct parsed){ .r = 0 };
	put("c.yaml", text);
	p->r = options_parse(&p->o, argc, (char **)(uintptr_t)argv, &p->err);
}

static void parsed_fini(struct parsed *p)
{
	options_fini(&p->o);
}

static const struct {
	const char *name;
	const char *text;
	const char *err;
} refused[] = {
	{ "empty", "", "c.yaml: is empty" },
	{ "no object", "- a\n", "c.yaml:1: is not an object" },
	{ "no version", "kind: KubeProxyConfiguration\n",
	  "c.yaml:1: apiVersion is missing; required is kubeproxy.config.k8s.io/v1alpha1" },
	{ "CFG-01 version", "kind: KubeProxyConfiguration\napiVersion: v1\n",
	  "c.yaml:2: apiVersion: 'v1' is not kubeproxy.config.k8s.io/v1alpha1" },
	{ "CFG-01 kind", "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: Pod\n",
	  "c.yaml:2: kind: 'Pod' is not KubeProxyConfiguration" },
	{ "two documents", HEAD "---\na: 1\n", "c.yaml:4: a second document; allowed is one" },
	{ "syntax", HEAD "mode: [\n",
	  "c.yaml:4: while parsing a flow node: did not find expected node content" },
	{ "text wanted", HEAD "mode: 1\n", "c.yaml:3: mode: is not text" },
	{ "boolean wanted", HEAD "iptables:\n  masqueradeAll: 'yes'\n",
	  "c.yaml:4: iptables.masqueradeAll: is not true or false" },
	{ "whole number wanted", HEAD "oomScoreAdj: 1.5\n",
	  "c.yaml:3: oomScoreAdj: is not a whole number" },
	{ "number wanted", HEAD "clientConnection: {burst: 1,\n  qps: x}\n",
	  "c.yaml:4: clientConnection.qps: is not a number" },
	{ "duration wanted", HEAD "configSyncPeriod: 5\n",
	  "c.yaml:3: configSyncPeriod: is not a duration, as text such as 30s" },
	{ "bad duration", HEAD "iptables:\n  syncPeriod: 1x\n",
	  "c.yaml:4: iptables.syncPeriod: '1x' is not a duration such as 30s or 1m30s" },
	{ "list wanted", HEAD "nodePortAddresses: primary\n",
	  "c.yaml:3: nodePortAddresses: is not a list of text" },
	{ "gates wanted", HEAD "featureGates: {A: 1}\n",
	  "c.yaml:3: featureGates: is not an object of names with true or false" },
	{ "section wanted", HEAD "conntrack: 1\n", "c.yaml:3: conntrack: is not an object" },
	{ "types count in other modes too (CFG-44)", HEAD "ipvs:\n  strictARP: 1\n",
	  "c.yaml:4: ipvs.strictARP: is not true or false" },
	{ "CFG-18", HEAD "\noomScoreAdj: 2000\n",
	  "c.yaml:4: oomScoreAdj: '2000' is not a number from -1000 to 1000" },
	{ "CFG-27", HEAD "nodePortAddresses:\n- primary\n- 10.0.0.0/8\n",
	  "c.yaml:4: nodePortAddresses: \"primary\" alone, or prefixes: 'primary' is not an address prefix (ADDRESS/LENGTH)" },
	{ "CFG-44", HEAD "iptables:\n  syncPeriod: 5s\n  minSyncPeriod: 1m\n",
	  "c.yaml:5: iptables.minSyncPeriod: 1m is above iptables.syncPeriod, 5s" },
	{ "CFG-44 in another mode: bit", HEAD "mode: nftables\niptables:\n  masqueradeBit: -10\n",
	  "c.yaml:5: iptables.masqueradeBit: '-10' is not a number from 0 to 31" },
	{ "CFG-30", HEAD "mode: nftables\nnftables: {masqueradeBit: 32}\n",
	  "c.yaml:4: nftables.masqueradeBit: '32' is not a number from 0 to 31" },
	{ "CFG-44 nftables",
	  HEAD "mode: nftables\niptables: {syncPeriod: 1h}\nnftables: {minSyncPeriod: 1m}\n",
	  "c.yaml:5: nftables.minSyncPeriod: 1m is above nftables.syncPeriod, 30s" },
	{ "CFG-44 ipvs", HEAD "mode: ipvs\nipvs:\n  syncPeriod: 5s\n  minSyncPeriod: 1m\n",
	  "c.yaml:6: ipvs.minSyncPeriod: 1m is above ipvs.syncPeriod, 5s" },
	{ "CT-18", HEAD "failoverTimeout: 20ms\n",
	  "c.yaml:3: failoverTimeout: 0.02s is not a duration from 0.1s to 10s" },
	{ "CT-33", HEAD "failoverUDPTimeout: 2s\n",
	  "c.yaml:3: failoverUDPTimeout: requires --failover handshake or eject" },
	{ "CFG-35", HEAD "mode: ipvs\nipvs:\n  scheduler: wrrr\n",
	  "c.yaml:5: ipvs.scheduler: unknown scheduler 'wrrr'; allowed: rr, wrr, lc, wlc, fo, ovf, "
	  "lblc, lblcr, dh, sh, mh, sed, nq or twos, with flags after commas: mh,mh-port" },
	{ "CFG-17", HEAD "clientConnection: {contentType: text/plain}\n",
	  "c.yaml:3: clientConnection.contentType: 'text/plain' is not "
	  "application/vnd.kubernetes.protobuf or application/json" },
	{ "CFG-14", HEAD "showHiddenMetricsForVersion: x\n",
	  "c.yaml:3: showHiddenMetricsForVersion: 'x' is not 1.35, nor empty" },
	{ "CFG-25", HEAD "detectLocalMode: BridgeInterface\n",
	  "c.yaml:3: detectLocalMode: BridgeInterface requires detectLocal.bridgeInterface" },
	{ "CFG-11 one port", HEAD "\nhealthzBindAddress: 0.0.0.0:10249\n",
	  "c.yaml:4: metricsBindAddress and healthzBindAddress: 127.0.0.1:10249 and 0.0.0.0:10249 "
	  "overlap" },
	{ "Windows", HEAD "windowsRunAsService: true\n",
	  "c.yaml:3: windowsRunAsService: for Windows" },
};

static void test_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct parsed p;

		print_message("    %s\n", refused[i].name);
		parse(&p, refused[i].text, NULL, NULL, NULL);
		assert_int_equal(p.r, -EINVAL);
		assert_string_equal(p.err.text, refused[i].err);
		parsed_fini(&p);
	}
}

/* CFG-02, CFG-03, CFG-45: notes, joined with newlines. */
static const struct {
	const char *name;
	const char *text;
	const char *flag;
	const char *notes;
} noted[] = {
	{ "nothing to say", HEAD "mode: nftables\n", NULL, "" },
	{ "CFG-03 unknown fields and keys given twice",
	  HEAD "mode: nftables\nmodes: x\nnftables:\n  masqueradeAll: true\n  bit: 1\n"
	       "  masqueradeAll: false\n",
	  NULL,
	  "c.yaml: strict decoding failed: line 8: duplicate key 'masqueradeAll': the last one "
	  "counts, line 4: unknown field 'modes', line 7: unknown field 'nftables.bit'\n" },
	{ "CFG-02 flags that have a field", HEAD "mode: nftables\n", "--masquerade-all",
	  "c.yaml replaces these flags: --masquerade-all\n" },
	{ "CFG-22", HEAD "mode: nftables\n", "--healthz-port=1",
	  "c.yaml replaces these flags: --healthz-port\n" },
	{ "CFG-02 flags that have none", HEAD "mode: nftables\n", "--master=https://x", "" },
	{ "fields without effect, and those that ask for nothing",
	  HEAD
	  "mode: nftables\nportRange: 1-2\nbindAddressHardFail: false\n"
	  "configSyncPeriod: 1m\nlogging: {format: json, flushFrequency: 0}\n"
	  "featureGates: {WinDSR: true}\nipvs: {scheduler: rr}\niptables: {masqueradeBit: 1}\n",
	  NULL,
	  "accepted without effect: portRange, configSyncPeriod, "
	  "feature gate WinDSR\n" },
	{ "CFG-44 periods of another mode", HEAD "mode: ipvs\niptables: {minSyncPeriod: 1m}\n",
	  NULL, "" },
	{ "CFG-44 a period that another section has",
	  HEAD "mode: nftables\niptables: {minSyncPeriod: 10s}\nnftables: {syncPeriod: 5s}\n", NULL,
	  "" },
	{ "JSON",
	  "{\"apiVersion\":\"kubeproxy.config.k8s.io/v1alpha1\",\n\t\"kind\":"
	  "\"KubeProxyConfiguration\", \"mode\": \"nftables\",\n\t\"x\": 1}",
	  NULL, "c.yaml: strict decoding failed: line 3: unknown field 'x'\n" },
};

static void test_noted(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(noted); i++) {
		struct str notes = { 0 };
		struct parsed p;

		print_message("    %s\n", noted[i].name);
		parse(&p, noted[i].text, noted[i].flag, NULL, NULL);
		assert_int_equal(p.r, 0);
		vec_for_each (note, &p.o.record.notes)
			str_printf(&notes, "%s\n", *note);
		assert_string_equal(str_text(&notes), noted[i].notes);
		str_fini(&notes);
		parsed_fini(&p);
	}
}

static const char *const full = HEAD
	"mode: nftables\n"
	"hostnameOverride: From-File\n"
	"bindAddress: 192.0.2.1\n"
	"clusterCIDR: 10.0.0.0/8,fd00::/8\n"
	"nodePortAddresses: [10.1.0.0/16, 'fd00:1::/64']\n"
	"clientConnection: {kubeconfig: /k, contentType: application/json, qps: 7.5, burst: 9}\n"
	"detectLocalMode: InterfaceNamePrefix\n"
	"detectLocal: {interfaceNamePrefix: veth}\n"
	"featureGates: {AllowServiceExternalIPs: false}\n"
	"iptables: {masqueradeAll: false, minSyncPeriod: 9s}\n"
	"nftables: {masqueradeAll: true, minSyncPeriod: 2s}\n"
	"logging: {verbosity: 4, vmodule: [{filePattern: sync, verbosity: 2}]}\n"
	"oomScoreAdj: -10\n";

static void values_check(const struct parsed *p)
{
	assert_int_equal(p->r, 0);
	assert_true(p->o.model.bind_addr[0].family != 0);
	assert_int_equal(p->o.model.cluster_cidrs.n, 2);
	assert_int_equal(p->o.model.nodeport_cidrs.n, 2);
	assert_string_equal(p->o.api.kubeconfig, "/k");
	assert_true(p->o.api.is_json);
	assert_true(p->o.api.qps > 7.4 && p->o.api.qps < 7.6);
	assert_int_equal(p->o.api.burst, 9);
	assert_int_equal(p->o.model.detect_local, DETECT_LOCAL_PREFIX);
	assert_string_equal(p->o.model.detect_ifname, "veth");
	assert_true(p->o.model.no_external_ips);
	assert_true(p->o.model.is_masquerade_all);
	assert_int_equal(p->o.sync.min_period_ns, 2 * NSEC_PER_SEC);
	assert_int_equal(p->o.log.area_verbosity[LOG_AREA_SYNC], 2);
	assert_int_equal(p->o.oom_score_adj, -10);
}

static void test_values(void **state)
{
	struct str text = { 0 };
	struct parsed p;

	parse(&p, full, NULL, NULL, NULL);
	values_check(&p);
	assert_string_equal(p.o.hostname, "from-file");
	assert_int_equal(p.o.log.verbosity, 4);
	parsed_fini(&p);

	/* CFG-02: empty flags do not override the file. */
	parse(&p, full, "--hostname-override=n2", "--hostname-override=", "--logging-format=");
	values_check(&p);
	assert_string_equal(p.o.hostname, "from-file");
	options_effective(&p.o, &text);
	assert_non_null(strstr(text.text, "\nhostnameOverride: From-File\n"));
	str_clear(&text);
	parsed_fini(&p);

	/* CFG-02, T-165: these flags override the file or are added. */
	parse(&p, full, "--hostname-override=flag", "-v=1", "--cluster-cidr=192.168.0.0/16");
	values_check(&p);
	assert_string_equal(p.o.hostname, "flag");
	assert_int_equal(p.o.log.verbosity, 1);
	parsed_fini(&p);
	parse(&p, full, "--vmodule=plane=4", NULL, NULL);
	values_check(&p);
	assert_int_equal(p.o.log.area_verbosity[LOG_AREA_PLANE], 4);
	options_effective(&p.o, &text);
	assert_non_null(strstr(text.text, "    - filePattern: sync\n      verbosity: 2\n"
					  "    - filePattern: plane\n      verbosity: 4\n"));
	str_fini(&text);
	parsed_fini(&p);
}

/* An invalid flag is an error even if the file overrides it. */
static void test_bad_flag_beside(void **state)
{
	struct parsed p;

	parse(&p, full, "--cluster-cidr=x", NULL, NULL);
	assert_int_equal(p.r, -EINVAL);
	assert_string_equal(p.err.text,
			    "--cluster-cidr: 'x' is not an address prefix (ADDRESS/LENGTH)");
	parsed_fini(&p);
}

/* CFG-44: the flag completes the file. */
static void test_period_flag(void **state)
{
	struct parsed p;

	parse(&p, HEAD "mode: nftables\nnftables: {syncPeriod: 5s}\n", "--min-sync-period=6s", NULL,
	      NULL);
	assert_int_equal(p.r, -EINVAL);
	assert_string_equal(p.err.text, "--min-sync-period: 6s is above the sync period, 5s");
	parsed_fini(&p);
}

/* The error names the file, not a flag that was not given. */
static void test_two_sources(void **state)
{
	struct parsed p;

	parse(&p, HEAD "clientConnection: {kubeconfig: /x}\n", "--manifests=m", NULL, NULL);
	assert_int_equal(p.r, -EINVAL);
	assert_string_equal(p.err.text, "c.yaml:3: clientConnection.kubeconfig: cannot be combined "
					"with --manifests");
	parsed_fini(&p);
}

/* CFG-45: in iptables mode its section counts, and masqueradeAll in ipvs mode (CFG-28). */
static void test_sections(void **state)
{
	struct parsed p;

	parse(&p, HEAD "mode: ipvs\niptables: {masqueradeAll: true}\nipvs: {drainTimeout: 0s}\n",
	      NULL, NULL, NULL);
	assert_int_equal(p.r, 0);
	assert_true(p.o.model.is_masquerade_all);
	assert_int_equal(p.o.ipvs.drain_s, 0); /* no limit; not the default */
	parsed_fini(&p);

	parse(&p, HEAD "iptables: {masqueradeAll: true}\nnftables: {minSyncPeriod: 3s}\n", NULL,
	      NULL, NULL);
	assert_int_equal(p.r, 0);
	assert_true(p.o.model.is_masquerade_all);
	assert_int_equal(p.o.sync.min_period_ns, 0);
	parsed_fini(&p);
}

/* CFG-05: a written configuration reads as equal. */
static void test_way_back(void **state)
{
	struct str first = { 0 };
	struct str second = { 0 };
	struct parsed p;

	parse(&p, full, "--hostname-override=flag", NULL, NULL);
	options_effective(&p.o, &first);
	parsed_fini(&p);
	parse(&p, first.text, NULL, NULL, NULL);
	values_check(&p);
	assert_string_equal(p.o.hostname, "flag");
	assert_int_equal(p.o.record.notes.n, 0);
	options_effective(&p.o, &second);
	assert_string_equal(first.text, second.text);
	parsed_fini(&p);

	/* IPT-12: no mode is iptables mode, which serves node ports on localhost. */
	str_clear(&first);
	str_clear(&second);
	parse(&p, HEAD, "--hostname-override=flag", NULL, NULL);
	assert_true(p.o.model.serves_localhost);
	options_effective(&p.o, &first);
	parsed_fini(&p);
	parse(&p, first.text, NULL, NULL, NULL);
	assert_true(p.o.model.serves_localhost);
	options_effective(&p.o, &second);
	assert_string_equal(first.text, second.text);
	parsed_fini(&p);
	str_fini(&first);
	str_fini(&second);
}

/* CFG-05: the configuration that flags make, written and read; flags without a field are named. */
static void test_flags_way_back(void **state)
{
	static const struct {
		const char *flags[4];
		const char *unwritten; /* NULL: none */
	} cases[] = {
		{ { "--iptables-localhost-nodeports", "--nodeport-addresses=127.0.0.0/8",
		    "--proxy-mode=iptables" },
		  NULL },
		{ { "--iptables-localhost-nodeports", "--nodeport-addresses=127.0.0.0/8" },
		  "--iptables-localhost-nodeports" },
		{ { "--min-sync-period=5s" }, NULL },
		{ { "--min-sync-period=5s", "--proxy-mode=iptables" }, NULL },
		{ { "--min-sync-period=5s", "--iptables-min-sync-period=7s" }, NULL },
		{ { "--iptables-min-sync-period=7s", "--min-sync-period=5s" }, NULL },
		{ { "--proxy-mode=ipvs", "--ipvs-scheduler=wrr", "--write-config-to=x" }, NULL },
		{ { "--metrics-port=0", "--healthz-port=0", "--ipvs-strict-arp" },
		  "--healthz-port, --metrics-port" },
		{ { "--metrics-port=0", "--metrics-port=9", "--manifests=m" }, "--manifests" },
		{ { "--proxy-mode=ipvs", "--iptables-localhost-nodeports",
		    "--iptables-sync-period=40s", "--masquerade-all" },
		  "--iptables-localhost-nodeports, --iptables-sync-period" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *argv[6] = { "vipd" };
		struct str texts[2] = { 0 };
		struct str unwritten = { 0 };
		struct parsed p = { 0 };
		struct options o;
		int argc = 1;

		print_message("    %s\n", cases[i].flags[0]);
		for (size_t k = 0; k < 4 && cases[i].flags[k] != NULL; k++)
			argv[argc++] = cases[i].flags[k];
		assert_int_equal(options_parse(&o, argc, (char **)(uintptr_t)argv, &p.err), 0);
		options_unwritten(&o, &unwritten);
		assert_string_equal(str_text(&unwritten),
				    cases[i].unwritten ? cases[i].unwritten : "");
		options_effective(&o, &texts[0]);
		parse(&p, texts[0].text, NULL, NULL, NULL);
		assert_int_equal(p.r, 0);
		if (cases[i].unwritten == NULL) {
			assert_int_equal(p.o.model.serves_localhost, o.model.serves_localhost);
			assert_int_equal(p.o.sync.min_period_ns, o.sync.min_period_ns);
			options_effective(&p.o, &texts[1]);
			assert_string_equal(texts[1].text, texts[0].text);
		}
		str_fini(&texts[0]);
		str_fini(&texts[1]);
		str_fini(&unwritten);
		parsed_fini(&p);
		options_fini(&o);
	}
}

/* A file of an installer with every field: one note, about the mode. */
static void test_every_field(void **state)
{
	const char *argv[] = { "vipd", "--config", TESTS_DATA "/config/every-field.yaml" };
	struct options o;
	struct err err;

	assert_int_equal(options_parse(&o, 3, (char **)(uintptr_t)argv, &err), 0);
	assert_int_equal(o.record.notes.n, 1);
	assert_memory_equal(o.record.notes.v[0], "mode iptables, ", 15);
	options_fini(&o);
}

/* The limit of inotify instances is exhausted. */
static bool has_no_instance;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);

int __wrap_inotify_init1(int flags)
{
	if (!has_no_instance)
		return __real_inotify_init1(flags);
	errno = EMFILE;
	return -1;
}

static void count(void *arg)
{
	(*(int *)arg)++;
}

/* CFG-04: once at first, written in place, replaced; other files in the folder have no effect. */
static void test_watch(void **state)
{
	struct event_base *base = event_base_new();
	struct config_watch *w;
	struct err err;
	int n = 0;

	put("c.yaml", "a");
	assert_int_equal(config_watch_open(&w, base, "c.yaml", count, &n, &err), 0);
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 1);
	put("c.yaml", "b");
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 2);
	put("c.new", "c");
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 2);
	assert_int_equal(rename("c.new", "c.yaml"), 0);
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 3);
	config_watch_close(w);
	event_base_free(base);
}

/* Without inotify: read every 30 s, until there is an instance. */
static void test_watch_exhausted(void **state)
{
	struct event_base *base = event_base_new();
	uint64_t warnings = log_count(LOG_LEVEL_WARN);
	struct config_watch *w;
	struct err err;
	int n = 0;

	put("c.yaml", "a");
	has_no_instance = true;
	assert_int_equal(config_watch_open(&w, base, "c.yaml", count, &n, &err), 0);
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 1);
	put("c.yaml", "b");
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 1);
	for (int i = 0; i < 3; i++) {
		has_no_instance = i < 2;
		timers_end(base);
		assert_int_equal(n, 2 + i);
	}
	assert_int_equal(log_count(LOG_LEVEL_WARN), warnings + 1);
	put("c.yaml", "c");
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(n, 5);
	config_watch_close(w);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),        cmocka_unit_test(test_noted),
		cmocka_unit_test(test_values),         cmocka_unit_test(test_bad_flag_beside),
		cmocka_unit_test(test_period_flag),    cmocka_unit_test(test_two_sources),
		cmocka_unit_test(test_sections),       cmocka_unit_test(test_way_back),
		cmocka_unit_test(test_flags_way_back), cmocka_unit_test(test_every_field),
		cmocka_unit_test(test_watch),          cmocka_unit_test(test_watch_exhausted),
	};

	return cmocka_run_group_tests_name("config", tests, folder_make, folder_remove);
}
