/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decoding of objects: tables of YAML input and one line of text. The text has every field that
 * differs from the common base object, so a case states the whole result.
 */
#include "source/decode/decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "recording.h"
#include "source/decode/jsonsplit.h"
#include "source/decode/yamlread.h"
#include "test.h"

/* --- objects as text ------------------------------------------------------ */

static void ip_put(struct str *s, const char *what, const struct ip_addr *a)
{
	char buf[IP_TEXT_MAX];

	if (ip_is_set(a))
		str_printf(s, " %s%s", what, ip_addr_text(a, buf));
}

static void service_text(struct str *s, const struct service *v)
{
	char buf[IP_PREFIX_TEXT_MAX];

	str_printf(s, "%s/%s %s", v->ns->text, v->name->text, service_type_text(v->type));
	ip_put(s, "v4=", &v->cluster_ip[IPFAM_V4]);
	ip_put(s, "v6=", &v->cluster_ip[IPFAM_V6]);
	vec_for_each (p, &v->ports) {
		str_printf(s, " [%s:%s:%u", p->name->text, l4proto_text(p->proto), p->port);
		str_printf(s, p->node_port ? ":%u]" : "]", p->node_port);
	}
	str_puts(s, v->is_headless ? " headless" : "");
	str_puts(s, v->has_proxy_name_label ? " proxy-name" : "");
	str_puts(s, v->is_itp_local ? " itp-local" : "");
	str_puts(s, v->is_etp_local ? " etp-local" : "");
	if (v->affinity_s != 0)
		str_printf(s, " affinity=%u", v->affinity_s);
	if (v->tuning != NULL)
		str_printf(s, " sched=%s weights=%s drain=%s fwd=%s%s",
			   name_text(v->tuning->scheduler), name_text(v->tuning->weights),
			   name_text(v->tuning->drain_timeout), name_text(v->tuning->forwarding),
			   v->tuning->is_dsr ? "(dsr)" : "");
	if (v->health_check_node_port != 0)
		str_printf(s, " health=%u", v->health_check_node_port);
	if (v->created_s != 0)
		str_printf(s, " created=%" PRId64, v->created_s);
	vec_for_each (a, &v->external_ips)
		ip_put(s, "ext=", a);
	vec_for_each (i, &v->ingress)
		ip_put(s, i->is_proxy_mode ? "proxy=" : "vip=", &i->addr);
	vec_for_each (p, &v->source_ranges)
		str_printf(s, " from=%s", ip_prefix_text(p, buf));
	if (v->n_bad_source_ranges != 0)
		str_printf(s, " bad-ranges=%u", v->n_bad_source_ranges);
}

static void hints_text(struct str *s, const char *what, const struct hints *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		str_printf(s, "%s%s", what, h->names[i]->text);
}

static void slice_text(struct str *s, const struct slice *v)
{
	char buf[IP_TEXT_MAX];

	str_printf(s, "%s/%s of %s %s", v->ns->text, v->name->text, v->service->text,
		   v->fam == IPFAM_V4 ? "v4" : "v6");
	if (v->version != 0)
		str_printf(s, " version=%" PRIu64, v->version);
	if (v->trigger_ns != 0)
		str_printf(s, " trigger=%" PRId64, v->trigger_ns);
	vec_for_each (p, &v->ports)
		str_printf(s, " [%s:%s:%u]", p->name->text, l4proto_text(p->proto), p->port);
	vec_for_each (e, &v->endpoints) {
		str_printf(s, " %s%s%s%s", ip_addr_text(&e->addr, buf),
			   e->flags & ENDPOINT_READY ? "+r" : "",
			   e->flags & ENDPOINT_SERVING ? "+s" : "",
			   e->flags & ENDPOINT_TERMINATING ? "+t" : "");
		if (e->place->node != NULL)
			str_printf(s, "@%s", e->place->node->text);
		if (e->place->zone != NULL)
			str_printf(s, "/%s", e->place->zone->text);
		if (e->pod != NULL)
			str_printf(s, "(%s)", e->pod);
		hints_text(s, ",zone=", &e->place->zones);
		hints_text(s, ",node=", &e->place->nodes);
	}
}

static void node_text(struct str *s, const struct node *v)
{
	char buf[IP_PREFIX_TEXT_MAX];

	str_printf(s, "%s", v->name->text);
	if (v->zone != NULL)
		str_printf(s, " zone=%s", v->zone->text);
	str_puts(s, v->is_deleting ? " deleting" : "");
	str_puts(s, v->has_autoscaler_taint ? " taint" : "");
	vec_for_each (a, &v->addrs)
		ip_put(s, "", a);
	vec_for_each (p, &v->pod_cidrs)
		str_printf(s, " pods=%s", ip_prefix_text(p, buf));
}

static void object_text(struct str *s, const struct object *o)
{
	char buf[IP_PREFIX_TEXT_MAX];

	switch (o->kind) {
	case OBJECT_KIND_SERVICE:
		service_text(s, o->service);
		break;
	case OBJECT_KIND_SLICE:
		slice_text(s, o->slice);
		break;
	case OBJECT_KIND_NODE:
		node_text(s, o->node);
		break;
	case OBJECT_KIND_SERVICE_CIDR:
		str_puts(s, o->cidr->name->text);
		vec_for_each (p, &o->cidr->cidrs)
			str_printf(s, " %s", ip_prefix_text(p, buf));
		break;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		str_puts(s, "-");
		break;
	}
}

static void on_note(void *arg, const struct decode *d, const char *text)
{
	struct str *notes = arg;

	(void)d;
	str_printf(notes, "%s%s", notes->len > 0 ? "; " : "", text);
}

/* Text that begins with {" is JSON: YAML cannot contain a NUL. */
static json_t *from_yaml(const char *text)
{
	AUTO(yaml_close) struct yaml *y = NULL;
	json_t *v = NULL;
	struct err err;

	if (strncmp(text, "{\"", 2) == 0)
		return json_loads(text, JSON_ALLOW_NUL, NULL);
	yaml_open_text(&y, text, strlen(text), 1);
	if (yaml_next(y, &v, &err) != YAML_DOCUMENT)
		fail_msg("%s: %s", err.text, text);
	return v;
}

/* --- tables --------------------------------------------------------------- */

struct decode_case {
	const char *name;
	const char *spec; /* inserted between the table's head and tail */
	int ret;
	const char *text; /* the object if `ret` is 0, else the error */
	const char *notes;
};

static void run_cases(const char *head, const char *tail, enum object_kind kind,
		      const struct decode_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct decode_case *c = &cases[i];
		struct str notes = { 0 };
		struct str text = { 0 };
		struct str yaml = { 0 };
		struct decode d = { .note = on_note, .arg = &notes, .default_ns = "default" };
		struct object o = { 0 };
		struct err err = { .text = "" };
		json_t *obj;
		int r;

		print_message("    %s\n", c->name);
		str_printf(&yaml, "%s%s%s", head, c->spec, tail);
		obj = from_yaml(str_text(&yaml));
		r = decode_object(&o, kind, obj, &d, &err);
		if (r == 0)
			object_text(&text, &o);
		else if (r < 0)
			str_puts(&text, err.text);
		assert_string_equal(str_text(&text), c->text ? c->text : "");
		assert_int_equal(r, c->ret);
		assert_string_equal(str_text(&notes), c->notes ? c->notes : "");
		assert_int_equal(o.kind, r == 0 ? kind : OBJECT_KIND_OTHER);
		object_fini(&o);
		json_decref(obj);
		str_fini(&notes);
		str_fini(&text);
		str_fini(&yaml);
	}
	assert_int_equal(name_count(), 0);
}

#define RUN(head, tail, kind, cases) run_cases(head, tail, kind, cases, ARRAY_SIZE(cases))

static const struct decode_case service_cases[] = {
	/* SEL-01 to SEL-05 */
	{ "cluster IP alone tells its family", "clusterIP: 10.96.0.1", 0,
	  "shop/cart ClusterIP v4=10.96.0.1", NULL },
	{ "v6 alone", "clusterIP: 'fd00::0001'", 0, "shop/cart ClusterIP v6=fd00::1", NULL },
	{ "T-016 families in reverse order",
	  "clusterIP: 'fd00::1', clusterIPs: ['fd00::1', 10.96.0.1], ipFamilies: [IPv6, IPv4]", 0,
	  "shop/cart ClusterIP v4=10.96.0.1 v6=fd00::1", NULL },
	{ "SEL-05 second family without an address",
	  "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ipFamilies: [IPv4, IPv6]", 0,
	  "shop/cart ClusterIP v4=10.96.0.1", NULL },
	{ "clusterIPs without ipFamilies",
	  "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1']", 0,
	  "shop/cart ClusterIP v4=10.96.0.1 v6=fd00::1", NULL },
	{ "SEL-01 headless", "clusterIP: None, clusterIPs: [None], ports: [{port: 80}]", 0,
	  "shop/cart ClusterIP [:TCP:80] headless", NULL },
	{ "SEL-01 no cluster IP", "type: NodePort", 0, "shop/cart NodePort headless",
	  "spec.clusterIP: missing, nothing is served" },
	{ "SEL-02 ExternalName", "type: ExternalName, externalName: example.org", 0,
	  "shop/cart ExternalName headless", NULL },
	{ "SEL-02 ExternalName with a cluster IP", "type: ExternalName, clusterIP: 10.96.0.1", 0,
	  "shop/cart ExternalName", NULL },
	{ "SVC-02 tolerant addresses", "clusterIP: 010.096.000.001", 0,
	  "shop/cart ClusterIP v4=10.96.0.1", NULL },
	{ "cluster IP is no address", "clusterIP: 10.96.0.256", -EINVAL,
	  "spec.clusterIP: '10.96.0.256' is not an IP address", NULL },
	{ "cluster IP is multicast", "clusterIP: 224.0.0.1", -EINVAL,
	  "spec.clusterIP: '224.0.0.1' is not the address of a host", NULL },
	{ "cluster IP is unspecified", "clusterIP: '::'", -EINVAL,
	  "spec.clusterIP: '::' is not the address of a host", NULL },
	{ "cluster IP is broadcast", "clusterIP: 255.255.255.255", -EINVAL,
	  "spec.clusterIP: '255.255.255.255' is not the address of a host", NULL },
	{ "cluster IP of the wrong family", "clusterIP: 'fd00::1', ipFamilies: [IPv4]", -EINVAL,
	  "spec.clusterIP: 'fd00::1' is not IPv4, the family of spec.ipFamilies[0]", NULL },
	{ "second cluster IP of the wrong family",
	  "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 10.96.0.2], ipFamilies: [IPv4, IPv6]",
	  -EINVAL, "spec.clusterIPs[1]: '10.96.0.2' is not IPv6, the family of spec.ipFamilies[1]",
	  NULL },
	{ "cluster IP without a family",
	  "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1'], ipFamilies: [IPv4]", -EINVAL,
	  "spec.clusterIPs[1]: 'fd00::1': spec.ipFamilies[1] is missing", NULL },
	{ "two cluster IPs of one family",
	  "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 10.96.0.2]", -EINVAL,
	  "spec.clusterIPs[1]: '10.96.0.2' has the family of the previous address", NULL },
	{ "clusterIPs disagree", "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.2]", -EINVAL,
	  "spec.clusterIPs[0]: '10.96.0.2' differs from spec.clusterIP '10.96.0.1'", NULL },
	{ "clusterIPs without clusterIP", "clusterIPs: [10.96.0.2]", -EINVAL,
	  "spec.clusterIP: missing, although spec.clusterIPs is given", NULL },
	{ "three cluster IPs", "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, a, b]", -E2BIG,
	  "spec.clusterIPs: 3 entries, at most 2", NULL },
	{ "unknown family", "clusterIP: 10.96.0.1, ipFamilies: [ipv4]", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.ipFamilies[0]: 'ipv4' is not IPv4 or IPv6, ipFamilies is ignored" },
	{ "family twice", "clusterIP: 10.96.0.1, ipFamilies: [IPv4, IPv4]", -EINVAL,
	  "spec.ipFamilies[1]: 'IPv4' is listed twice", NULL },
	{ "unknown type", "type: Loadbalancer, clusterIP: 10.96.0.1", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.type: 'Loadbalancer' is not ClusterIP, NodePort, LoadBalancer or ExternalName, "
	  "ClusterIP is used" },
	{ "null is absent", "type: null, clusterIP: 10.96.0.1, ports: null, externalIPs: null", 0,
	  "shop/cart ClusterIP v4=10.96.0.1", NULL },

	/* ports */
	{ "T-023 one number, three protocols, SEL-13",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP},"
	  " {name: c, port: 53, protocol: SCTP}]",
	  0, "shop/cart ClusterIP v4=10.96.0.1 [a:TCP:53] [b:UDP:53] [c:SCTP:53]", NULL },
	{ "T-024 node port shared by protocols",
	  "clusterIP: 10.96.0.1, type: NodePort, ports: [{name: a, port: 1, nodePort: 3001},"
	  " {name: b, port: 1, nodePort: 3001, protocol: UDP}]",
	  0, "shop/cart NodePort v4=10.96.0.1 [a:TCP:1:3001] [b:UDP:1:3001]", NULL },
	{ "smallest and largest",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 1}, {name: b, "
	  "port: 65535}]",
	  0, "shop/cart ClusterIP v4=10.96.0.1 [a:TCP:1] [b:TCP:65535]", NULL },
	{ "port 0", "clusterIP: 10.96.0.1, ports: [{port: 0}]", -EINVAL,
	  "spec.ports[0].port: 0 is not a number from 1 to 65535", NULL },
	{ "port 70000",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 1}, {name: b, port: 2}, "
	  "{name: c, port: 70000}]",
	  -EINVAL, "spec.ports[2].port: 70000 is not a number from 1 to 65535", NULL },
	{ "negative port", "clusterIP: 10.96.0.1, ports: [{port: -1}]", -EINVAL,
	  "spec.ports[0].port: -1 is not a number from 1 to 65535", NULL },
	{ "half a port", "clusterIP: 10.96.0.1, ports: [{port: 80.5}]", -EINVAL,
	  "spec.ports[0].port: 80.5 is not a number from 1 to 65535", NULL },
	{ "port as text", "clusterIP: 10.96.0.1, ports: [{port: '80'}]", -EINVAL,
	  "spec.ports[0].port: '80' is not a number from 1 to 65535", NULL },
	{ "no port", "clusterIP: 10.96.0.1, ports: [{name: http}]", -EINVAL,
	  "spec.ports[0].port: missing", NULL },
	{ "node port too large", "clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 65536}]",
	  -EINVAL, "spec.ports[0].nodePort: 65536 is not a number from 0 to 65535", NULL },
	{ "unknown protocol", "clusterIP: 10.96.0.1, ports: [{port: 80, protocol: tcp}]", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.ports[0].protocol: 'tcp' is not TCP, UDP or SCTP, the port is skipped" },
	{ "IN-44 the ports beside an unknown protocol count",
	  "clusterIP: 10.96.0.1, ports: [{port: 80, name: a, protocol: QUIC}, "
	  "{port: 81, name: b}]",
	  0, "shop/cart ClusterIP v4=10.96.0.1 [b:TCP:81]",
	  "spec.ports[0].protocol: 'QUIC' is not TCP, UDP or SCTP, the port is skipped" },
	{ "two ports after a skipped one are named by their positions",
	  "clusterIP: 10.96.0.1, ports: [{port: 80, name: a, protocol: QUIC}, "
	  "{port: 81, name: b}, {port: 81, name: c}]",
	  -EINVAL, "spec.ports[2].port: 81 with protocol TCP is also ports[1]",
	  "spec.ports[0].protocol: 'QUIC' is not TCP, UDP or SCTP, the port is skipped" },
	{ "port name is no label", "clusterIP: 10.96.0.1, ports: [{port: 80, name: HTTP}]", -EINVAL,
	  "spec.ports[0].name: 'HTTP' is not a name (lower-case letters, digits and '-')", NULL },
	{ "port is no object", "clusterIP: 10.96.0.1, ports: [80]", -EINVAL,
	  "spec.ports[0]: 80 is not an object", NULL },
	{ "port is null", "clusterIP: 10.96.0.1, ports: [null]", -EINVAL,
	  "spec.ports[0]: null is not an object", NULL },
	{ "ports is no list", "clusterIP: 10.96.0.1, ports: {port: 80}", -EINVAL,
	  "spec.ports: an object is not a list", NULL },
	{ "same port twice",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 80}, {name: b, port: 81},"
	  " {name: c, port: 80}]",
	  -EINVAL, "spec.ports[2].port: 80 with protocol TCP is also ports[0]", NULL },
	{ "same node port twice",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 80, nodePort: 30000}, "
	  "{name: b, port: 81, nodePort: 30000}]",
	  -EINVAL, "spec.ports[1].nodePort: 30000 with protocol TCP is also ports[0]", NULL },
	{ "same name twice",
	  "clusterIP: 10.96.0.1, ports: [{name: a, port: 80}, {name: a, port: 81}]", -EINVAL,
	  "spec.ports[1].name: 'a' with protocol TCP is also ports[0]", NULL },
	{ "two ports without names", "clusterIP: 10.96.0.1, ports: [{port: 80}, {port: 81}]",
	  -EINVAL, "spec.ports[1].name: missing; ports[0] has no name either", NULL },
	{ "one name, two protocols",
	  "clusterIP: 10.96.0.1, ports: [{name: dns, port: 53}, {name: dns, port: 53, protocol: UDP}]",
	  0, "shop/cart ClusterIP v4=10.96.0.1 [dns:TCP:53] [dns:UDP:53]", NULL },

	/* addresses */
	{ "SVC-14 T-019 external IPs",
	  "clusterIP: 10.96.0.1, externalIPs: ['', 192.0.2.1, ' ', abc, 'fd00::9', 0.0.0.0, "
	  "192.0.2.1, 192.0.2.001]",
	  0, "shop/cart ClusterIP v4=10.96.0.1 ext=192.0.2.1 ext=fd00::9",
	  "spec.externalIPs[3]: 'abc' is not an IP address, skipped; "
	  "spec.externalIPs[5]: '0.0.0.0' is not the address of a host, skipped" },
	{ "SVC-02 IPv4-mapped addresses",
	  "clusterIP: '::ffff:10.96.0.1', externalIPs: ['::ffff:192.0.2.1', 192.0.2.1], "
	  "loadBalancerSourceRanges: ['::ffff:10.0.0.0/104', 'fd00::/8']",
	  0, "shop/cart ClusterIP v4=10.96.0.1 ext=192.0.2.1 from=fd00::/8 bad-ranges=1",
	  "spec.loadBalancerSourceRanges[0]: '::ffff:10.0.0.0/104' is an IPv4-mapped range; "
	  "it allows no address" },
	{ "external IPs are no list", "clusterIP: 10.96.0.1, externalIPs: 192.0.2.1", -EINVAL,
	  "spec.externalIPs: '192.0.2.1' is not a list", NULL },
	{ "external IP is no text", "clusterIP: 10.96.0.1, externalIPs: [1]", -EINVAL,
	  "spec.externalIPs[0]: 1 is not text (write it in quotes)", NULL },
	{ "SVC-20 T-017 T-018 ranges",
	  "clusterIP: 10.96.0.1, loadBalancerSourceRanges: [' 203.0.113.000/025 ', 'fd00::/8']", 0,
	  "shop/cart ClusterIP v4=10.96.0.1 from=203.0.113.0/25 from=fd00::/8", NULL },
	{ "SVC-23 bad ranges are counted",
	  "clusterIP: 10.96.0.1, loadBalancerSourceRanges: [10.0.0.0, 10.0.0.0/33, 10.0.0.0/8, '']",
	  0, "shop/cart ClusterIP v4=10.96.0.1 from=10.0.0.0/8 bad-ranges=3",
	  "spec.loadBalancerSourceRanges[0]: '10.0.0.0' is not an address prefix "
	  "(ADDRESS/LENGTH); it allows no address; "
	  "spec.loadBalancerSourceRanges[1]: '10.0.0.0/33' has no valid prefix length; "
	  "it allows no address; "
	  "spec.loadBalancerSourceRanges[3]: '' is not an address prefix (ADDRESS/LENGTH); "
	  "it allows no address" },

	/* policies */
	{ "policies",
	  "clusterIP: 10.96.0.1, type: LoadBalancer, internalTrafficPolicy: Local, "
	  "externalTrafficPolicy: Local, healthCheckNodePort: 30001",
	  0, "shop/cart LoadBalancer v4=10.96.0.1 itp-local etp-local health=30001", NULL },
	{ "policies spelled out",
	  "clusterIP: 10.96.0.1, internalTrafficPolicy: Cluster, "
	  "externalTrafficPolicy: ''",
	  0, "shop/cart ClusterIP v4=10.96.0.1", NULL },
	{ "unknown ETP", "clusterIP: 10.96.0.1, externalTrafficPolicy: local", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.externalTrafficPolicy: 'local' is not Cluster or Local, Cluster is used" },
	{ "unknown ITP", "clusterIP: 10.96.0.1, internalTrafficPolicy: PreferLocal", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.internalTrafficPolicy: 'PreferLocal' is not Cluster or Local, Cluster is used" },
	{ "health port", "clusterIP: 10.96.0.1, healthCheckNodePort: 100000", -EINVAL,
	  "spec.healthCheckNodePort: 100000 is not a number from 0 to 65535", NULL },
	{ "SVC-31 affinity default", "clusterIP: 10.96.0.1, sessionAffinity: ClientIP", 0,
	  "shop/cart ClusterIP v4=10.96.0.1 affinity=10800", NULL },
	{ "affinity timeout",
	  "clusterIP: 10.96.0.1, sessionAffinity: ClientIP, "
	  "sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}",
	  0, "shop/cart ClusterIP v4=10.96.0.1 affinity=1", NULL },
	{ "affinity None ignores the timeout",
	  "clusterIP: 10.96.0.1, sessionAffinity: None, "
	  "sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}",
	  0, "shop/cart ClusterIP v4=10.96.0.1", NULL },
	{ "affinity too long",
	  "clusterIP: 10.96.0.1, sessionAffinity: ClientIP, "
	  "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}",
	  -EINVAL,
	  "spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 is not a number from 1 to 86400",
	  NULL },
	{ "unknown affinity", "clusterIP: 10.96.0.1, sessionAffinity: Cookie", 0,
	  "shop/cart ClusterIP v4=10.96.0.1",
	  "spec.sessionAffinity: 'Cookie' is not None or ClientIP, None is used" },
};

static void test_service(void **state)
{
	(void)state;
	RUN("{metadata: {namespace: shop, name: cart}, spec: {", "}}", OBJECT_KIND_SERVICE,
	    service_cases);
}

#define LABEL63 "a123456789b123456789c123456789d123456789e123456789f123456789123"

static const struct decode_case service_meta_cases[] = {
	{ "default namespace", "metadata: {name: a}", 0, "default/a ClusterIP v4=10.96.0.1", NULL },
	{ "SEL-15 name begins with a digit", "metadata: {namespace: shop, name: 1a}", 0,
	  "shop/1a ClusterIP v4=10.96.0.1", NULL },
	{ "longest name", "metadata: {name: " LABEL63 "}", 0,
	  "default/" LABEL63 " ClusterIP v4=10.96.0.1", NULL },
	{ "name too long", "metadata: {name: " LABEL63 "x}", -EINVAL,
	  "metadata.name: 64 characters, at most 63", NULL },
	{ "name with a dot", "metadata: {name: a.b}", -EINVAL,
	  "metadata.name: 'a.b' is not a name (lower-case letters, digits and '-')", NULL },
	{ "name ends with a dash", "metadata: {name: a-}", -EINVAL,
	  "metadata.name: 'a-' is not a name (lower-case letters, digits and '-')", NULL },
	{ "name with a slash", "metadata: {name: a/b}", -EINVAL,
	  "metadata.name: 'a/b' is not a name (lower-case letters, digits and '-')", NULL },
	{ "no name", "metadata: {namespace: shop}", -EINVAL, "metadata.name: missing", NULL },
	{ "empty name", "metadata: {name: ''}", -EINVAL, "metadata.name: missing", NULL },
	{ "no metadata", "x: 1", -EINVAL, "metadata.name: missing", NULL },
	{ "metadata is text", "metadata: x", -EINVAL, "metadata: 'x' is not an object", NULL },
	{ "name is a number", "metadata: {name: 12}", -EINVAL,
	  "metadata.name: 12 is not text (write it in quotes)", NULL },
	{ "bad namespace", "metadata: {name: a, namespace: A_b}", -EINVAL,
	  "metadata.namespace: 'A_b' is not a name (lower-case letters, digits and '-')", NULL },
	{ "SEL-03 any value of the label, even none",
	  "metadata: {name: a, labels: {service.kubernetes.io/service-proxy-name: ''}}", 0,
	  "default/a ClusterIP v4=10.96.0.1 proxy-name", NULL },
	{ "SEL-03 a null value is empty",
	  "metadata: {name: a, labels: {service.kubernetes.io/service-proxy-name: }}", 0,
	  "default/a ClusterIP v4=10.96.0.1 proxy-name", NULL },
	{ "labels are no object", "metadata: {name: a, labels: [1]}", -EINVAL,
	  "metadata.labels: a list is not an object", NULL },
	{ "label is no text",
	  "metadata: {name: a, labels: {service.kubernetes.io/service-proxy-name: 1}}", -EINVAL,
	  "metadata.labels[service.kubernetes.io/service-proxy-name]: 1 is not text "
	  "(write it in quotes)",
	  NULL },
	{ "annotations of a scheduler, as written",
	  "metadata: {name: a, annotations: {vipd.io/scheduler: 'mh,mh-port', vipd.io/weights: x, "
	  "vipd.io/drain-timeout: 1m, kube-router.io/service.scheduler: lc, other: y}}",
	  0, "default/a ClusterIP v4=10.96.0.1 sched=mh,mh-port weights=x drain=1m fwd=", NULL },
	{ "an annotation that is a number, and one without a value",
	  "metadata: {name: a, annotations: {vipd.io/drain-timeout: 3600, vipd.io/scheduler: , "
	  "vipd.io/forwarding: route}}",
	  0, "default/a ClusterIP v4=10.96.0.1 sched= weights= drain= fwd=route",
	  "metadata.annotations[vipd.io/drain-timeout]: not text (write it in quotes): ignored" },
	{ "an annotation that is an object",
	  "metadata: {name: a, annotations: {vipd.io/weights: {a: 1}}}", 0,
	  "default/a ClusterIP v4=10.96.0.1",
	  "metadata.annotations[vipd.io/weights]: not text (write it in quotes): ignored" },
	{ "kube-router's annotation",
	  "metadata: {name: a, annotations: {kube-router.io/service.scheduler: lc}}", 0,
	  "default/a ClusterIP v4=10.96.0.1 sched=lc weights= drain= fwd=", NULL },
	{ "kube-router's forwarding",
	  "metadata: {name: a, annotations: {kube-router.io/service.dsr: tunnel}}", 0,
	  "default/a ClusterIP v4=10.96.0.1 sched= weights= drain= fwd=tunnel(dsr)", NULL },
	{ "vipd's has precedence",
	  "metadata: {name: a, annotations: {vipd.io/forwarding: route, "
	  "kube-router.io/service.dsr: tunnel}}",
	  0, "default/a ClusterIP v4=10.96.0.1 sched= weights= drain= fwd=route", NULL },
	{ "other annotations",
	  "metadata: {name: a, annotations: {kube-router.io/service.hairpin: ''}}", 0,
	  "default/a ClusterIP v4=10.96.0.1", NULL },
	{ "created", "metadata: {name: a, creationTimestamp: 2026-11-20T09:45:21Z}", 0,
	  "default/a ClusterIP v4=10.96.0.1 created=1795167921", NULL },
	{ "created at an unknown time", "metadata: {name: a, creationTimestamp: yesterday}", 0,
	  "default/a ClusterIP v4=10.96.0.1", NULL },
	{ "SVC-16 SVC-19 ingress",
	  "metadata: {name: a}, status: {loadBalancer: {ingress: [{ip: 198.51.100.9}, "
	  "{ip: 'fd00::9', ipMode: VIP}, {ip: 198.51.100.10, ipMode: Proxy}, "
	  "{hostname: lb.example.org}, {ip: ''}, {ip: x}, {ip: 198.51.100.11, ipMode: Other}]}}",
	  0,
	  "default/a ClusterIP v4=10.96.0.1 vip=198.51.100.9 vip=fd00::9 proxy=198.51.100.10 "
	  "proxy=198.51.100.11",
	  "status.loadBalancer.ingress[5].ip: 'x' is not an IP address, skipped; "
	  "status.loadBalancer.ingress[6].ipMode: 'Other' is not VIP or Proxy, "
	  "the address is not captured" },
	{ "ingress is no list", "metadata: {name: a}, status: {loadBalancer: {ingress: 1}}",
	  -EINVAL, "status.loadBalancer.ingress: 1 is not a list", NULL },
	{ "status is no object", "metadata: {name: a}, status: 1", -EINVAL,
	  "status: 1 is not an object", NULL },
	{ "SEL-10 a deletion timestamp changes nothing",
	  "metadata: {name: a, deletionTimestamp: 2026-11-20T09:45:21Z}", 0,
	  "default/a ClusterIP v4=10.96.0.1", NULL },
};

static void test_service_meta(void **state)
{
	(void)state;
	RUN("{spec: {clusterIP: 10.96.0.1}, ", "}", OBJECT_KIND_SERVICE, service_meta_cases);
}

static void test_service_frame(void **state)
{
	static const struct decode_case cases[] = {
		{ "no spec", "{metadata: {name: a}}", -EINVAL, "spec: missing", NULL },
		{ "spec is text", "{metadata: {name: a}, spec: x}", -EINVAL,
		  "spec: 'x' is not an object", NULL },
		{ "text", "hello", -EINVAL, "not an object", NULL },
		{ "list", "[]", -EINVAL, "not an object", NULL },
		{ "null", "~", -EINVAL, "not an object", NULL },
	};

	(void)state;
	RUN("", "", OBJECT_KIND_SERVICE, cases);
}

static const struct decode_case slice_cases[] = {
	{ "EPS-11 T-037 condition defaults",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1]}, "
	  "{addresses: [10.1.0.2], conditions: {ready: false}}, "
	  "{addresses: [10.1.0.3], conditions: {ready: null, serving: false, terminating: true}}]",
	  0, "shop/s of cart v4 10.1.0.1+r+s 10.1.0.2+s 10.1.0.3+r+t", NULL },
	{ "EPS-05 EPS-06 T-035 T-036 ports",
	  "addressType: IPv4, ports: [{name: http, port: 80}, {name: null, port: 81}, "
	  "{name: '', port: 82}, {name: dns, port: null, protocol: UDP}, {name: x, port: 0}, "
	  "{port: 83}, {name: sctp, port: 84, protocol: SCTP}, {name: over, port: 70000}, "
	  "{name: under, port: -1}]",
	  0, "shop/s of cart v4 [http:TCP:80] [:TCP:81] [:TCP:82] [:TCP:83] [sctp:SCTP:84]",
	  "ports[3].port: missing or 0, the port is skipped; "
	  "ports[4].port: missing or 0, the port is skipped; "
	  "ports[7].port: not a number from 1 to 65535, the port is skipped; "
	  "ports[8].port: not a number from 1 to 65535, the port is skipped" },
	{ "EPS-09 EPS-19 addresses",
	  "addressType: IPv4, endpoints: [{addresses: []}, {addresses: null}, {}, "
	  "{addresses: [abc, 10.1.0.1]}, {addresses: ['fd00::1']}, "
	  "{addresses: [10.1.0.2, nonsense]}, {addresses: [010.001.000.003]}]",
	  0, "shop/s of cart v4 10.1.0.2+r+s 10.1.0.3+r+s",
	  "endpoints[0].addresses: empty, the endpoint is skipped; "
	  "endpoints[1].addresses: empty, the endpoint is skipped; "
	  "endpoints[2].addresses: empty, the endpoint is skipped; "
	  "endpoints[3].addresses[0]: 'abc' is not an IP address, the endpoint is skipped; "
	  "endpoints[4].addresses[0]: 'fd00::1' is not IPv4 as addressType says, "
	  "the endpoint is skipped" },
	{ "v6",
	  "addressType: IPv6, endpoints: [{addresses: ['FD00::01']}, {addresses: [10.1.0.1]}]", 0,
	  "shop/s of cart v6 fd00::1+r+s",
	  "endpoints[1].addresses[0]: '10.1.0.1' is not IPv6 as addressType says, "
	  "the endpoint is skipped" },
	{ "EPS-12 EPS-13 node, pod and hints",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], nodeName: n1, "
	  "targetRef: {kind: Pod, name: cart-1}, hints: {forZones: [{name: b}, {name: a}, "
	  "{name: b}], forNodes: [{name: n1}]}}, {addresses: [10.1.0.2], nodeName: '', "
	  "targetRef: {kind: VM, name: x}, hints: {forZones: [], forNodes: null}, zone: a}]",
	  0, "shop/s of cart v4 10.1.0.1+r+s@n1(cart-1),zone=a,zone=b,node=n1 10.1.0.2+r+s/a",
	  NULL },
	{ "EPS-13 an empty name is a hint",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], hints: {forZones: [{name: ''}]}}]",
	  0, "shop/s of cart v4 10.1.0.1+r+s,zone=", NULL },
	{ "IPv4-mapped address", "addressType: IPv4, endpoints: [{addresses: ['::ffff:10.1.0.1']}]",
	  0, "shop/s of cart v4 10.1.0.1+r+s", NULL },
	{ "a zone that is no name, for display only",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], zone: ''}, {addresses: [10.1.0.2], zone: 7}]",
	  0, "shop/s of cart v4 10.1.0.1+r+s 10.1.0.2+r+s", NULL },
	{ "EPS-07 nothing in it", "addressType: IPv4, endpoints: null, ports: null", 0,
	  "shop/s of cart v4", NULL },
	{ "EPS-01 T-027 FQDN", "addressType: FQDN, endpoints: [{addresses: [example.org]}]",
	  DECODE_IGNORED, NULL, "addressType: FQDN is not supported, the slice is ignored" },
	{ "unknown address type", "addressType: ipv4", DECODE_IGNORED, NULL,
	  "addressType: 'ipv4' is not IPv4, IPv6 or FQDN, the slice is ignored" },
	{ "no address type", "endpoints: []", -EINVAL, "addressType: missing", NULL },
	{ "port is text", "addressType: IPv4, ports: [{name: a, port: '80'}]", -EINVAL,
	  "ports[0].port: '80' is not a number from 0 to 65535", NULL },
	{ "port name is no label", "addressType: IPv4, ports: [{name: a_b, port: 80}]", -EINVAL,
	  "ports[0].name: 'a_b' is not a name (lower-case letters, digits and '-')", NULL },
	{ "IN-44 unknown protocol",
	  "addressType: IPv4, ports: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 81}]", 0,
	  "shop/s of cart v4 [b:TCP:81]",
	  "ports[0].protocol: 'HTTP' is not TCP, UDP or SCTP, the port is skipped" },
	{ "condition is text",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], conditions: {ready: 'yes'}}]",
	  -EINVAL, "endpoints[0].conditions.ready: 'yes' is not true or false", NULL },
	{ "addresses is text", "addressType: IPv4, endpoints: [{addresses: 10.1.0.1}]", -EINVAL,
	  "endpoints[0].addresses: '10.1.0.1' is not a list", NULL },
	{ "endpoint is null", "addressType: IPv4, endpoints: [null]", -EINVAL,
	  "endpoints[0]: null is not an object", NULL },
	{ "hint is text",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], hints: {forZones: [a]}}]",
	  -EINVAL, "endpoints[0].hints.forZones[0]: 'a' is not an object", NULL },
	{ "second hint is bad, the first is given back",
	  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], hints: {forZones: [{name: a}], "
	  "forNodes: [{name: n1}, 7]}}]",
	  -EINVAL, "endpoints[0].hints.forNodes[1]: 7 is not an object", NULL },
};

static void test_slice(void **state)
{
	(void)state;
	RUN("{metadata: {namespace: shop, name: s, labels: {kubernetes.io/service-name: cart}}, ",
	    "}", OBJECT_KIND_SLICE, slice_cases);
}

static const struct decode_case slice_meta_cases[] = {
	{ "IN-40 version and trigger time",
	  "name: a.b, labels: {kubernetes.io/service-name: cart}, resourceVersion: '1234', "
	  "annotations: {endpoints.kubernetes.io/last-change-trigger-time: "
	  "'2026-11-20T09:45:21.25Z'}",
	  0, "default/a.b of cart v4 version=1234 trigger=1795167921250000000", NULL },
	{ "IN-40 malformed, and a version that is no number",
	  "name: a, labels: {kubernetes.io/service-name: cart}, resourceVersion: 12a, "
	  "annotations: {endpoints.kubernetes.io/last-change-trigger-time: now}",
	  0, "default/a of cart v4", NULL },
	{ "version that does not fit",
	  "name: a, labels: {kubernetes.io/service-name: cart}, "
	  "resourceVersion: '99999999999999999999'",
	  0, "default/a of cart v4", NULL },
	{ "IN-34 T-026 no service", "name: a", DECODE_IGNORED, NULL,
	  "metadata.labels[kubernetes.io/service-name]: missing, the slice is ignored" },
	{ "IN-34 empty service", "name: a, labels: {kubernetes.io/service-name: ''}",
	  DECODE_IGNORED, NULL,
	  "metadata.labels[kubernetes.io/service-name]: missing, the slice is ignored" },
	{ "no service by that name can exist", "name: a, labels: {kubernetes.io/service-name: A}",
	  DECODE_IGNORED, NULL,
	  "metadata.labels[kubernetes.io/service-name]: 'A' is not the name of a service, the slice "
	  "is ignored" },
	{ "IN-04 T-008 headless",
	  "name: a, labels: {kubernetes.io/service-name: cart, service.kubernetes.io/headless: ''}",
	  DECODE_IGNORED, NULL, NULL },
	{ "no name", "labels: {kubernetes.io/service-name: cart}", -EINVAL,
	  "metadata.name: missing", NULL },
};

static void test_slice_meta(void **state)
{
	(void)state;
	RUN("{addressType: IPv4, metadata: {", "}}", OBJECT_KIND_SLICE, slice_meta_cases);
}

/* The weights of too many pods: a warning, and the other annotations. */
static void test_long_annotation(void **state)
{
	static char spec[70000];
	static const struct decode_case long_case[] = {
		{ "annotation of 65,537 characters", spec, 0,
		  "default/a ClusterIP v4=10.96.0.1 sched=mh weights= drain= fwd=",
		  "metadata.annotations[vipd.io/weights]: 65537 characters, at most 65536: "
		  "ignored" },
	};
	static const char begin[] = "metadata: {name: a, annotations: {vipd.io/weights: ";
	size_t n = sizeof(begin) - 1;

	(void)state;
	memcpy(spec, begin, n);
	memset(spec + n, 'x', 65537);
	strcpy(spec + n + 65537, ", vipd.io/scheduler: mh}}");
	RUN("{spec: {clusterIP: 10.96.0.1}, ", "}", OBJECT_KIND_SERVICE, long_case);
}

/* A value with a NUL is not the value before the NUL. */
static void test_nul(void **state)
{
	static const struct decode_case services[] = {
		{ "annotation",
		  "\"metadata\":{\"name\":\"a\",\"annotations\":{\"vipd.io/scheduler\":"
		  "\"mh\\u0000x\",\"vipd.io/weights\":\"x\"}}",
		  0, "default/a ClusterIP v4=10.96.0.1 sched= weights=x drain= fwd=", NULL },
		{ "name", "\"metadata\":{\"name\":\"a\\u0000b\"}", -EINVAL,
		  "metadata.name: contains a NUL character", NULL },
	};
	static const struct decode_case slices[] = {
		{ "pod and zone",
		  "\"zone\":\"z\\u0000\",\"targetRef\":{\"kind\":\"Pod\",\"name\":\"p\\u0000q\"}",
		  0, "default/a of cart v4 10.0.1.1+r+s", NULL },
	};

	(void)state;
	RUN("{\"spec\":{\"clusterIP\":\"10.96.0.1\"},", "}", OBJECT_KIND_SERVICE, services);
	RUN("{\"metadata\":{\"name\":\"a\",\"labels\":{\"kubernetes.io/service-name\":\"cart\"}},"
	    "\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"10.0.1.1\"],",
	    "}]}", OBJECT_KIND_SLICE, slices);
}

static void test_node(void **state)
{
	static const struct decode_case cases[] = {
		{ "LIFE-12 addresses in order",
		  "metadata: {name: n1.example.org, labels: {topology.kubernetes.io/zone: za}}, "
		  "spec: {podCIDR: 10.9.0.0/24, podCIDRs: [10.244.1.0/24, 'fd00:244:1::/64']}, "
		  "status: {addresses: [{type: ExternalIP, address: 203.0.113.1}, "
		  "{type: InternalIP, address: 192.168.77.11}, {type: Hostname, address: n1}, "
		  "{type: InternalIP, address: 'fd77::11'}]}",
		  0,
		  "n1.example.org zone=za 192.168.77.11 fd77::11 203.0.113.1 "
		  "pods=10.244.1.0/24 pods=fd00:244:1::/64",
		  NULL },
		{ "IN-22 empty zone, old pod CIDR",
		  "metadata: {name: n1, labels: {topology.kubernetes.io/zone: ''}}, "
		  "spec: {podCIDR: 10.9.0.0/24}",
		  0, "n1 pods=10.9.0.0/24", NULL },
		{ "HC-08 deletion and taint",
		  "metadata: {name: n1, deletionTimestamp: 2026-11-20T09:45:21Z}, spec: {taints: "
		  "[{key: a}, {key: ToBeDeletedByClusterAutoscaler, value: x}]}",
		  0, "n1 deleting taint", NULL },
		{ "address that is none",
		  "metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: x}, "
		  "{type: InternalIP}, {type: InternalIP, address: 192.0.2.1}]}",
		  0, "n1 192.0.2.1",
		  "status.addresses[0].address: 'x' is not an IP address, skipped; "
		  "status.addresses[1].address: '' is not an IP address, skipped" },
		{ "bad pod CIDR", "metadata: {name: n1}, spec: {podCIDRs: [10.0.0.0]}", -EINVAL,
		  "spec.podCIDRs[0]: '10.0.0.0' is not an address prefix (ADDRESS/LENGTH)", NULL },
		{ "only a name", "metadata: {name: n1}", 0, "n1", NULL },
		{ "upper-case name", "metadata: {name: N1}", -EINVAL,
		  "metadata.name: 'N1' is not a name (lower-case letters, digits and '-' or '.')",
		  NULL },
	};

	(void)state;
	RUN("{", "}", OBJECT_KIND_NODE, cases);
}

static void test_service_cidr(void **state)
{
	static const struct decode_case cases[] = {
		{ "two families", "spec: {cidrs: [10.96.0.0/12, 'fd00:10:96::/112']}", 0,
		  "kubernetes 10.96.0.0/12 fd00:10:96::/112", NULL },
		{ "none", "spec: {}", 0, "kubernetes", NULL },
		{ "bad", "spec: {cidrs: [10.96.0.0/12, x]}", -EINVAL,
		  "spec.cidrs[1]: 'x' is not an address prefix (ADDRESS/LENGTH)", NULL },
	};

	(void)state;
	RUN("{metadata: {name: kubernetes}, ", "}", OBJECT_KIND_SERVICE_CIDR, cases);
}

/* --- kinds, keys, bounds, times -------------------------------------------- */

static const struct {
	const char *text;
	int ret;
	enum object_kind kind;
	enum object_kind items;
	const char *err;
} kind_cases[] = {
	{ "{apiVersion: v1, kind: Service}", 0, OBJECT_KIND_SERVICE, OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice}", 0, OBJECT_KIND_SLICE,
	  OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: v1, kind: Node}", 0, OBJECT_KIND_NODE, OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR}", 0, OBJECT_KIND_SERVICE_CIDR,
	  OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: networking.k8s.io/v1beta1, kind: ServiceCIDR}", 0, OBJECT_KIND_SERVICE_CIDR,
	  OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: v1, kind: List}", 0, OBJECT_KIND_LIST, OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: v1, kind: ServiceList}", 0, OBJECT_KIND_LIST, OBJECT_KIND_SERVICE, NULL },
	{ "{apiVersion: discovery.k8s.io/v1, kind: EndpointSliceList}", 0, OBJECT_KIND_LIST,
	  OBJECT_KIND_SLICE, NULL },
	{ "{apiVersion: v1, kind: PodList}", 0, OBJECT_KIND_LIST, OBJECT_KIND_OTHER, NULL },
	{ "{apiVersion: apps/v1, kind: Deployment}", 0, OBJECT_KIND_OTHER, OBJECT_KIND_OTHER,
	  NULL },
	{ "{apiVersion: serving.knative.dev/v1, kind: Service}", 0, OBJECT_KIND_OTHER,
	  OBJECT_KIND_LIST, NULL },
	{ "{apiVersion: v1, kind: service}", 0, OBJECT_KIND_OTHER, OBJECT_KIND_OTHER, NULL },
	{ "{apiVersion: /v1, kind: ServiceList}", 0, OBJECT_KIND_LIST, OBJECT_KIND_SERVICE, NULL },
	{ "{apiVersion: v2, kind: Service}", -EINVAL, 0, 0,
	  "apiVersion: 'v2' is not supported, use 'v1'" },
	{ "{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice}", -EINVAL, 0, 0,
	  "apiVersion: 'discovery.k8s.io/v1beta1' is not supported, use 'discovery.k8s.io/v1'" },
	{ "{apiVersion: v1}", -EINVAL, 0, 0, "kind: missing" },
	{ "{kind: Service}", -EINVAL, 0, 0, "apiVersion: missing" },
	{ "{kind: 1, apiVersion: v1}", -EINVAL, 0, 0, "kind: 1 is not text (write it in quotes)" },
	{ "[]", -EINVAL, 0, 0, "not an object" },
};

static void test_kind(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kind_cases); i++) {
		enum object_kind items = OBJECT_KIND_OTHER;
		enum object_kind kind = OBJECT_KIND_OTHER;
		json_t *obj = from_yaml(kind_cases[i].text);
		struct decode d = { 0 };
		struct err err;

		print_message("    %s\n", kind_cases[i].text);
		assert_int_equal(decode_kind(&kind, &items, obj, &d, &err), kind_cases[i].ret);
		if (kind_cases[i].ret < 0)
			assert_string_equal(err.text, kind_cases[i].err);
		assert_int_equal(kind, kind_cases[i].kind);
		if (kind_cases[i].ret == 0)
			assert_int_equal(items, kind_cases[i].items);
		json_decref(obj);
	}
}

static void test_key(void **state)
{
	json_t *obj = from_yaml("{metadata: {name: cart}, spec: nonsense}");
	struct decode d = { .default_ns = "default" };
	const struct name *ns = NULL;
	const struct name *name = NULL;

	(void)state;
	assert_int_equal(decode_key(&ns, &name, OBJECT_KIND_SERVICE, obj, &d, NULL), 0);
	assert_string_equal(ns->text, "default");
	assert_string_equal(name->text, "cart");
	name_unref(ns);
	name_unref(name);
	assert_int_equal(decode_key(&ns, &name, OBJECT_KIND_NODE, obj, &d, NULL), 0);
	assert_null(ns);
	name_unref(name);
	d.default_ns = NULL;
	assert_int_equal(decode_key(&ns, &name, OBJECT_KIND_SERVICE, obj, &d, NULL), -EINVAL);
	json_decref(obj);
}

/* Each limit exceeded by one. */
static void test_bounds(void **state)
{
	static const struct {
		const char *head;
		const char *entry;
		const char *tail;
		enum object_kind kind;
		size_t max;
		const char *field;
	} cases[] = {
		{ "{metadata: {name: a, labels: {kubernetes.io/service-name: a}}, "
		  "addressType: IPv4, endpoints: [{addresses: [10.1.0.1], hints: {forZones: [",
		  "{name: z}", "]}}]}", OBJECT_KIND_SLICE, HINTS_MAX,
		  "endpoints[0].hints.forZones" },
		{ "{metadata: {name: a, labels: {kubernetes.io/service-name: a}}, "
		  "addressType: IPv4, ports: [",
		  "{name: z, port: 1}", "]}", OBJECT_KIND_SLICE, SLICE_PORTS_MAX, "ports" },
		{ "{metadata: {name: a, labels: {kubernetes.io/service-name: a}}, "
		  "addressType: IPv4, endpoints: [",
		  "{}", "]}", OBJECT_KIND_SLICE, SLICE_ENDPOINTS_MAX, "endpoints" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (size_t over = 0; over < 2; over++) {
			struct decode d = { .default_ns = "default" };
			struct str yaml = { 0 };
			struct object o = { 0 };
			struct err err;
			char want[160];
			json_t *obj;
			int r;

			str_puts(&yaml, cases[i].head);
			for (size_t k = 0; k < cases[i].max + over; k++)
				str_printf(&yaml, "%s,", cases[i].entry);
			str_puts(&yaml, cases[i].tail);
			obj = from_yaml(str_text(&yaml));
			r = decode_object(&o, cases[i].kind, obj, &d, &err);
			(void)snprintf(want, sizeof(want), "%s: %zu entries, at most %zu",
				       cases[i].field, cases[i].max + 1, cases[i].max);
			assert_int_equal(r, over ? -E2BIG : 0);
			if (over)
				assert_string_equal(err.text, want);
			object_fini(&o);
			json_decref(obj);
			str_fini(&yaml);
		}
	}
}

/* Decode a Service, and collect its notes. */
static void service_decode(struct object *o, const char *yaml, struct str *notes)
{
	struct decode d = { .default_ns = "default", .note = on_note, .arg = notes };
	json_t *obj = from_yaml(yaml);
	struct err err;

	assert_int_equal(decode_object(o, OBJECT_KIND_SERVICE, obj, &d, &err), 0);
	json_decref(obj);
}

/* Lists that the API does not limit: further entries are left out. */
static void test_left_out_entries(void **state)
{
	static const struct {
		const char *head, *before, *after, *tail;
		int max;
		const char *field;
	} cases[] = {
		{ "externalIPs: [", "", "", "]}}", SERVICE_ADDRS_MAX, "spec.externalIPs" },
		{ "}, status: {loadBalancer: {ingress: [", "{ip: ", "}", "]}}}", SERVICE_ADDRS_MAX,
		  "status.loadBalancer.ingress" },
		{ "ports: [", NULL, NULL, "]}}", SERVICE_PORTS_MAX, "spec.ports" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		FINI(str_fini) struct str notes = { 0 };
		FINI(str_fini) struct str yaml = { 0 };
		struct object o = { 0 };
		char want[160];

		str_puts(&yaml, "{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ");
		str_puts(&yaml, cases[i].head);
		for (int k = 0; k < cases[i].max + 5; k++)
			if (cases[i].before == NULL)
				str_printf(&yaml, "{name: p%d, port: %d},", k, k + 1);
			else
				str_printf(&yaml, "%s198.51.%d.%d%s,", cases[i].before, k >> 8,
					   k & 255, cases[i].after);
		str_puts(&yaml, cases[i].tail);
		service_decode(&o, str_text(&yaml), &notes);
		(void)snprintf(want, sizeof(want),
			       "%s: %d entries: those after the first %d are left out",
			       cases[i].field, cases[i].max + 5, cases[i].max);
		assert_string_equal(str_text(&notes), want);
		assert_int_equal(o.service->external_ips.n + o.service->ingress.n +
					 o.service->ports.n,
				 cases[i].max);
		assert_int_equal(o.service->n_left_out_addrs, i < 2 ? 5 : 0);
		object_fini(&o);
	}
}

/* SVC-23: source ranges above the limit do not reject the service; they allow no client. */
static void test_many_ranges(void **state)
{
	FINI(str_fini) struct str notes = { 0 };
	struct object o = { 0 };
	FINI(str_fini) struct str yaml = { 0 };
	char want[160];

	(void)state;
	str_puts(&yaml, "{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, "
			"loadBalancerSourceRanges: [");
	for (int i = 0; i < SERVICE_RANGES_MAX + 70000; i++)
		str_printf(&yaml, "10.%d.%d.0/24,", i >> 8 & 255, i & 255);
	str_puts(&yaml, "]}}");
	service_decode(&o, str_text(&yaml), &notes);
	assert_int_equal(o.service->source_ranges.n, SERVICE_RANGES_MAX);
	assert_int_equal(o.service->n_bad_source_ranges, 70000);
	(void)snprintf(want, sizeof(want),
		       "spec.loadBalancerSourceRanges: %d entries: those after the first %d "
		       "allow no address",
		       SERVICE_RANGES_MAX + 70000, SERVICE_RANGES_MAX);
	assert_string_equal(str_text(&notes), want);
	object_fini(&o);
}

/* Of all ports together: 60 ports, 100 ranges of one element, then 62 of eight. */
static void test_many_ranges_and_ports(void **state)
{
	FINI(str_fini) struct str notes = { 0 };
	struct object o = { 0 };
	FINI(str_fini) struct str yaml = { 0 };

	(void)state;
	str_puts(&yaml, "{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ports: [");
	for (int i = 0; i < 60; i++)
		str_printf(&yaml, "{name: p%d, port: %d},", i, i + 1);
	str_puts(&yaml, "], loadBalancerSourceRanges: [");
	for (int i = 0; i < 100; i++)
		str_printf(&yaml, "10.0.%d.0/24,", i);
	for (int i = 0; i < 62; i++)
		str_printf(&yaml, "10.%d.0.0/17,", i + 1);
	str_puts(&yaml, "'::/0']}}");
	service_decode(&o, str_text(&yaml), &notes);
	assert_int_equal(o.service->source_ranges.n, 1 + 100 + 55); /* 32,768 / 60 = 100 + 8 x 55 */
	assert_int_equal(o.service->n_bad_source_ranges, 7);
	assert_string_equal(
		str_text(&notes),
		"spec.loadBalancerSourceRanges[155]: it and those after it allow no address: "
		"the ranges of 60 ports have at most 32768 elements");
	object_fini(&o);
}

/*
 * SVC-15, SVC-19: each address has a frontend with each port. Addresses above the limit are left
 * out: external IPs first, of each list the last ones.
 */
static void test_many_addresses(void **state)
{
	static const struct {
		const char *name;
		const char *cluster_ips;
		int n_ports, n_ingress, n_external; /* of the object */
		int ingress, external;              /* served */
		const char *notes;
	} cases[] = {
		{ "as many as possible", "10.96.0.1", 500, 3, 61, 3, 61, "" },
		{ "one too many", "10.96.0.1", 500, 3, 62, 3, 61,
		  "spec.externalIPs: 1 left out, from 198.51.100.138 on: at most 65 addresses of a "
		  "Service with 500 ports" },
		{ "no external IP", "10.96.0.1,'fd00::1'", 500, 70, 1, 63, 0,
		  "status.loadBalancer.ingress: 7 left out, from 203.0.113.136 on: at most 65 "
		  "addresses of a Service with 500 ports; "
		  "spec.externalIPs: 1 left out, from 198.51.100.199 on: at most 65 addresses of "
		  "a Service with 500 ports" },
		{ "many ports", "10.96.0.1,'fd00::1'", SERVICE_PORTS_MAX, 2, 1, 2, 0,
		  "spec.externalIPs: 1 left out, from 198.51.100.199 on: at most 4 addresses of a "
		  "Service with 20000 ports" },
		{ "no ports", "10.96.0.1", 0, 70, 70, 70, 70, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		FINI(str_fini) struct str notes = { 0 };
		FINI(str_fini) struct str yaml = { 0 };
		struct decode d = { .default_ns = "default", .note = on_note, .arg = &notes };
		struct object o = { 0 };
		struct ip_addr first = { 0 };
		struct err err;
		json_t *obj;

		print_message("    %s\n", cases[i].name);
		str_printf(&yaml,
			   "{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, "
			   "clusterIPs: [%s], ports: [",
			   cases[i].cluster_ips);
		for (int k = 1; k <= cases[i].n_ports; k++)
			str_printf(&yaml, "{name: p%d, port: %d},", k, k);
		str_puts(&yaml, "], externalIPs: [");
		for (int k = 1; k <= cases[i].n_external; k++)
			str_printf(&yaml, "198.51.100.%d,", 200 - k);
		str_puts(&yaml, "]}, status: {loadBalancer: {ingress: [");
		for (int k = 1; k <= cases[i].n_ingress; k++)
			str_printf(&yaml, "{ip: 203.0.113.%d},", 200 - k);
		str_puts(&yaml, "]}}}");
		obj = from_yaml(str_text(&yaml));
		assert_int_equal(decode_object(&o, OBJECT_KIND_SERVICE, obj, &d, &err), 0);
		assert_int_equal(o.service->ingress.n, cases[i].ingress);
		assert_int_equal(o.service->external_ips.n, cases[i].external);
		assert_int_equal(o.service->n_left_out_addrs,
				 cases[i].n_ingress - cases[i].ingress + cases[i].n_external -
					 cases[i].external);
		assert_string_equal(str_text(&notes), cases[i].notes);
		assert_int_equal(ip_addr_parse(&first, "198.51.100.199", NULL), 0);
		assert_int_equal(vec_has(&o.service->external_ips, a, ip_addr_is_equal(a, &first)),
				 cases[i].external > 0);
		object_fini(&o);
		json_decref(obj);
	}
}

/* A service with the maximum number of ports is decoded and compared. */
static void test_many_ports(void **state)
{
	struct decode d = { .default_ns = "default" };
	struct object o = { 0 };
	struct str yaml = { 0 };
	struct err err;
	json_t *obj;

	(void)state;
	str_puts(&yaml, "{metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ports: [");
	for (int i = 0; i < SERVICE_PORTS_MAX; i++)
		str_printf(&yaml, "{name: p%d, port: %d},", i, 20000 + i);
	str_puts(&yaml, "]}}");
	obj = from_yaml(str_text(&yaml));
	assert_int_equal(decode_object(&o, OBJECT_KIND_SERVICE, obj, &d, &err), 0);
	assert_int_equal(o.service->ports.n, SERVICE_PORTS_MAX);
	assert_int_equal(o.service->ports.v[SERVICE_PORTS_MAX - 1].port,
			 20000 + SERVICE_PORTS_MAX - 1);
	object_fini(&o);
	json_object_set_new(json_array_get(json_object_get(json_object_get(obj, "spec"), "ports"),
					   SERVICE_PORTS_MAX - 1),
			    "port", json_integer(20007));
	assert_int_equal(decode_object(&o, OBJECT_KIND_SERVICE, obj, &d, &err), -EINVAL);
	assert_string_equal(err.text,
			    "spec.ports[19999].port: 20007 with protocol TCP is also ports[7]");
	json_decref(obj);
	str_fini(&yaml);
}

static const struct {
	const char *text;
	int ret;
	int64_t ns;
} time_cases[] = {
	{ "1970-01-01T00:00:00Z", 0, 0 },
	{ "2026-11-20T09:45:21Z", 0, 1795167921000000000 },
	{ "2026-11-20t09:45:21z", 0, 1795167921000000000 },
	{ "2026-11-20T10:45:21+01:00", 0, 1795167921000000000 },
	{ "2026-11-20T04:15:21-05:30", 0, 1795167921000000000 },
	{ "2026-11-20T09:45:21.123456789Z", 0, 1795167921123456789 },
	{ "2026-11-20T09:45:21.1234567899999Z", 0, 1795167921123456789 },
	{ "2026-11-20T09:45:21.5+00:00", 0, 1795167921500000000 },
	{ "2024-02-29T00:00:00Z", 0, 1709164800000000000 },
	{ "1969-12-31T23:59:59.5Z", 0, -500000000 },
	{ "2000-03-01T00:00:00Z", 0, 951868800000000000 },
	{ "2016-12-31T23:59:60Z", 0, 1483228800000000000 },
	{ "2023-02-29T00:00:00Z", -EINVAL, 0 },
	{ "1900-02-29T00:00:00Z", -EINVAL, 0 },
	{ "2026-13-01T00:00:00Z", -EINVAL, 0 },
	{ "2026-00-01T00:00:00Z", -EINVAL, 0 },
	{ "2026-11-31T00:00:00Z", -EINVAL, 0 },
	{ "2026-11-20T24:00:00Z", -EINVAL, 0 },
	{ "2026-11-20T00:60:00Z", -EINVAL, 0 },
	{ "2026-11-20T00:00:61Z", -EINVAL, 0 },
	{ "2026-11-20 00:00:00Z", -EINVAL, 0 },
	{ "2026-11-20T00:00:00", -EINVAL, 0 },
	{ "2026-11-20T00:00:00.Z", -EINVAL, 0 },
	{ "2026-11-20T00:00:00Zx", -EINVAL, 0 },
	{ "2026-11-20T00:00:00+0100", -EINVAL, 0 },
	{ "2026-11-20T00:00:00+24:00", -EINVAL, 0 },
	{ "2026-11-20T00:00", -EINVAL, 0 },
	{ "0001-01-01T00:00:00Z", -EINVAL, 0 },
	{ "9999-01-01T00:00:00Z", -EINVAL, 0 },
	{ "2026", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
};

static void test_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(time_cases); i++) {
		int64_t ns = 0;

		print_message("    %s\n", time_cases[i].text);
		assert_int_equal(decode_time(&ns, time_cases[i].text), time_cases[i].ret);
		assert_true(ns == time_cases[i].ns);
	}
}

/* --- what an API server sends ---------------------------------------------- */

struct api {
	enum object_kind kind; /* of all items */
	struct str text;       /* decoded objects, one per line */
	struct str notes;
};

static int api_decode(struct api *a, const json_t *obj)
{
	struct decode d = { .note = on_note, .arg = &a->notes };
	struct object o = { 0 };
	struct err err;
	int r;

	r = decode_object(&o, a->kind, obj, &d, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	object_text(&a->text, &o);
	str_puts(&a->text, r == DECODE_IGNORED ? "ignored\n" : "\n");
	object_fini(&o);
	return 0;
}

static int api_item(void *arg, const struct json_piece *p, struct err *err)
{
	struct api *a = arg;
	json_t *obj = json_loadb(p->text, p->len, JSON_REJECT_DUPLICATES, NULL);

	(void)err;
	assert_non_null(obj);
	(void)api_decode(a, obj);
	json_decref(obj);
	return 0;
}

/* A list without its items, or one event of a watch. */
static int api_object(void *arg, const struct json_piece *p, struct err *err)
{
	struct api *a = arg;
	json_t *obj = json_loadb(p->text, p->len, JSON_REJECT_DUPLICATES, NULL);
	const char *type = json_string_value(json_object_get(obj, "type"));

	(void)err;
	assert_non_null(obj);
	if (type != NULL && strcmp(type, "BOOKMARK") != 0) {
		str_printf(&a->text, "%s ", type);
		(void)api_decode(a, json_object_get(obj, "object"));
	} else if (type == NULL) {
		struct decode d = { 0 };
		enum object_kind items;
		enum object_kind kind;

		assert_int_equal(decode_kind(&kind, &items, obj, &d, NULL), 0);
		assert_int_equal(kind, OBJECT_KIND_LIST);
		assert_int_equal(items, a->kind);
	}
	json_decref(obj);
	return 0;
}

static const struct jsonsplit_ops api_ops = { api_item, api_object };

static void api_run(struct api *a, const char *file)
{
	struct jsonsplit s;
	struct recording r;
	struct err err;

	recording_open(&r, file);
	jsonsplit_init(&s, &api_ops, a);
	/* In pieces, as from a socket. */
	for (size_t i = 0; i < r.body.len; i += 37)
		assert_int_equal(
			jsonsplit_feed(&s, r.body.text + i, MIN(r.body.len - i, (size_t)37), &err),
			0);
	assert_int_equal(jsonsplit_end(&s, &err), 0);
	jsonsplit_fini(&s);
	recording_close(&r);
}

static void api_expect(const char *file, enum object_kind kind, const char *want)
{
	struct api a = { .kind = kind };

	print_message("    %s\n", file);
	api_run(&a, file);
	assert_string_equal(str_text(&a.text), want);
	assert_string_equal(str_text(&a.notes), "");
	str_fini(&a.text);
	str_fini(&a.notes);
	assert_int_equal(name_count(), 0);
}

#define BASE(i, ip) "shop/base" i " ClusterIP v4=10.96.40." ip " [http:TCP:80] created=1795167921\n"
#define BASE_SLICE(i, version)                                                             \
	"shop/base" i "-a of base" i " v4 version=" version " trigger=1795167921000000000" \
	" [http:TCP:8080] 10.244.1.11+r+s@n1 10.244.1.12+r+s@n1 10.244.2.11+r+s@n2"        \
	" 10.244.2.12+r+s@n2\n"

static void test_api_lists(void **state)
{
	(void)state;
	api_expect(
		"services-list.http", OBJECT_KIND_SERVICE,
		"default/kubernetes ClusterIP v4=10.96.0.1 [https:TCP:443] "
		"created=1795167921\n" BASE("0", "1") BASE("1", "2") BASE("2", "3") BASE(
			"3", "4") BASE("4", "5") BASE("5", "6")
			BASE("6",
			     "7") "shop/dual LoadBalancer v4=10.104.118.212 v6=fd00:10:96::aa52 "
				  "[http:TCP:80:32553] [dns:UDP:53:31494] etp-local affinity=10800 "
				  "health=31525 created=1795167921 vip=198.51.100.9 proxy=198.51.100.10 "
				  "from=203.0.113.0/24\n"
				  "shop/ext ExternalName headless created=1795167921\n"
				  "shop/headless ClusterIP [http:TCP:80] headless created=1795167921\n");
	api_expect("endpointslices-list.http", OBJECT_KIND_SLICE,
		   BASE_SLICE("0", "214") BASE_SLICE("1", "217") BASE_SLICE("2", "220")
			   BASE_SLICE("3", "223") BASE_SLICE("4", "226") BASE_SLICE("5", "229")
				   BASE_SLICE("6", "232"));
	api_expect("node-list.http", OBJECT_KIND_NODE,
		   "n1 zone=za 192.168.77.11 fd77::11 pods=10.244.1.0/24 "
		   "pods=fd00:244:1::/64\n");
	api_expect("servicecidrs-list.http", OBJECT_KIND_SERVICE_CIDR,
		   "kubernetes 10.96.0.0/12 fd00:10:96::/112\n");
}

/* No event of a recorded watch is rejected; the first and the last one are as recorded. */
static void test_api_watches(void **state)
{
	static const struct {
		const char *file;
		enum object_kind kind;
	} watches[] = {
		{ "services-watch.http", OBJECT_KIND_SERVICE },
		{ "services-watchlist.http", OBJECT_KIND_SERVICE },
		{ "endpointslices-watch.http", OBJECT_KIND_SLICE },
		{ "endpointslices-watchlist.http", OBJECT_KIND_SLICE },
		{ "node-watch.http", OBJECT_KIND_NODE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
		struct api a = { .kind = watches[i].kind };

		api_run(&a, watches[i].file);
		print_message("    %s: %s", watches[i].file, str_text(&a.text));
		assert_non_null(strstr(str_text(&a.text), watches[i].kind == OBJECT_KIND_NODE
								  ? "MODIFIED n1 zone="
								  : "ADDED shop/"));
		str_fini(&a.text);
		str_fini(&a.notes);
	}
	assert_int_equal(name_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_service),
		cmocka_unit_test(test_service_meta),
		cmocka_unit_test(test_service_frame),
		cmocka_unit_test(test_slice),
		cmocka_unit_test(test_slice_meta),
		cmocka_unit_test(test_long_annotation),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_service_cidr),
		cmocka_unit_test(test_kind),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_left_out_entries),
		cmocka_unit_test(test_many_ranges),
		cmocka_unit_test(test_many_ranges_and_ports),
		cmocka_unit_test(test_many_ports),
		cmocka_unit_test(test_many_addresses),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_api_lists),
		cmocka_unit_test(test_api_watches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
