/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/service - core/v1 Service, sections 2 and 3 of doc/behaviour.md.
 *
 * A Service is rejected, as by the API, if its cluster IPs contradict its families, or if two ports
 * have the same number and protocol, node port or name. Invalid addresses that only add frontends
 * (external IPs, ingress) are skipped one by one, those above a limit left out.
 */
#include <errno.h>
#include <string.h>

#include "source/decode/meta.h"

#define ANNOTATION_MAX 65536 /* a weight for each of some thousand endpoints */
#define LABEL_PROXY_NAME "service.kubernetes.io/service-proxy-name"

/*
 * Index of a field's value in `words`. Absent or empty: 0, the default. An unknown word, perhaps of
 * a later version of the API: 0 and a note (IN-44).
 */
static int word_field(struct decode *d, const json_t *obj, const char *key, const char *words)
{
	const char *text = trail_text(d, obj, key);
	FINI(str_fini) struct str list = { 0 };
	int i = text != NULL && text[0] != '\0' ? str_words_find(words, text, strlen(text)) : 0;

	if (i >= 0)
		return i;
	str_words_print(&list, words);
	trail_note(d, "'%.64s' is not %s, %.*s is used", text, list.text, (int)strcspn(words, " "),
		   words);
	return 0;
}

/* --- ports ---------------------------------------------------------------- */

/* Skipped with an unknown protocol. */
static void port_decode(struct service *s, const json_t *port, struct decode *d)
{
	struct service_port p = { .proto = trail_proto(d, port) };

	if (p.proto == L4PROTO_UNSET)
		return;
	p.node_port = (uint16_t)trail_int(d, port, "nodePort", 0, UINT16_MAX, 0);
	p.port = (uint16_t)trail_int(d, port, "port", 1, UINT16_MAX, 0);
	if (p.port == 0)
		(void)trail_reject(d, "missing");
	p.name = decode_port_name(trail_text(d, port, "name"), d);
	*vec_push(&s->ports) = p;
}

/* What must be unique among the ports of a protocol, in the order of the checks. */
enum claim_what {
	CLAIM_PORT,
	CLAIM_NODE_PORT,
	CLAIM_NAME,
};

struct port_claim {
	uintptr_t value; /* a number, or the address of a name; 0: none */
	uint8_t proto;
	uint32_t index; /* of the port in service.ports */
};

static int claim_cmp(const void *a, const void *b)
{
	const struct port_claim *x = a;
	const struct port_claim *y = b;

	return CMP(x->value, y->value) ?: CMP(x->proto, y->proto) ?: CMP(x->index, y->index);
}

static uintptr_t claim_value(const struct service_port *p, enum claim_what what)
{
	const uintptr_t values[] = { p->port, p->node_port, (uintptr_t)p->name };

	return values[what];
}

/* The index in spec.ports of the i-th port that was not skipped. */
static uint32_t port_place(const json_t *list, uint32_t i)
{
	for (uint32_t place = 0;; place++) {
		const char *proto = tree_text(tree_get(tree_at(list, place), "protocol"));

		if (l4proto_parse(proto) != L4PROTO_UNSET && i-- == 0)
			return place;
	}
}

/* `c` is also that of the claim before it. The trail is at spec.ports. */
static void claim_reject(const struct service *s, enum claim_what what, const struct port_claim *c,
			 const json_t *list, struct decode *d)
{
	static const char *const fields[] = { "port", "nodePort", "name" };
	const struct service_port *p = &s->ports.v[c->index];
	uint32_t place = port_place(list, c->index);
	uint32_t earlier = port_place(list, c[-1].index);

	trail_into(d);
	(void)trail_element(d, list, place);
	trail_into(d);
	(void)trail_field(d, tree_at(list, place), fields[what]);
	if (what == CLAIM_NAME && p->name->len == 0)
		(void)trail_reject(d, "missing; ports[%u] has no name either", earlier);
	else if (what == CLAIM_NAME)
		(void)trail_reject(d, "'%s' with protocol %s is also ports[%u]", p->name->text,
				   l4proto_text(p->proto), earlier);
	else
		(void)trail_reject(d, "%u with protocol %s is also ports[%u]",
				   (unsigned int)c->value, l4proto_text(p->proto), earlier);
}

/* Reject the first port that has a value of an earlier one. The trail is at spec.ports. */
static void ports_check(const struct service *s, const json_t *list, struct decode *d)
{
	AUTO(vec_fini) VEC(struct port_claim) claims = { 0 };
	const struct port_claim *found = NULL;

	if (s->ports.n < 2)
		return;
	for (enum claim_what what = CLAIM_PORT; what <= CLAIM_NAME && d->r == 0; what++) {
		vec_clear(&claims);
		vec_for_each (p, &s->ports)
			*vec_push(&claims) = (struct port_claim){ claim_value(p, what), p->proto,
								  (uint32_t)(p - s->ports.v) };
		vec_sort(&claims, claim_cmp);
		for (const struct port_claim *c = claims.v + 1; c < vec_end(&claims); c++)
			if (c->value != 0 && c->value == c[-1].value && c->proto == c[-1].proto &&
			    (found == NULL || c->index < found->index))
				found = c;
		if (found != NULL)
			claim_reject(s, what, found, list, d);
	}
}

/*
 * The API has no limits for these lists. A Service with more entries is not rejected: until each
 * has a version that is served, nothing is swept. Returns how many of the current list are left
 * out.
 */
static uint32_t entries_left_out(const json_t *list, size_t max, struct decode *d)
{
	size_t n = tree_count(list);

	if (n <= max)
		return 0;
	trail_note(d, "%zu entries: those after the first %zu are left out", n, max);
	return (uint32_t)(n - max);
}

static void ports_decode(struct service *s, const json_t *spec, struct decode *d)
{
	const json_t *list = trail_list(d, spec, "ports", SIZE_MAX);
	size_t n = 0;

	(void)entries_left_out(list, SERVICE_PORTS_MAX, d);
	vec_reserve(&s->ports, MIN(tree_count(list), (size_t)SERVICE_PORTS_MAX));
	trail_for_each_object (port, d, list)
		if (n++ < SERVICE_PORTS_MAX)
			port_decode(s, port, d);
	ports_check(s, list, d);
}

/* --- cluster IPs ---------------------------------------------------------- */

/* spec.ipFamilies: at most one of each. Returns their number. */
static size_t families_decode(enum ipfam fams[static IPFAM_N], const json_t *spec, struct decode *d)
{
	const json_t *list = trail_list(d, spec, "ipFamilies", IPFAM_N);

	trail_for_each (i, d, list) {
		const char *text = trail_element_text(d, list, i) ?: "";

		fams[i] = strcmp(text, "IPv6") == 0 ? IPFAM_V6 : IPFAM_V4;
		if (strcmp(text, ipfam_text(fams[i])) != 0) {
			trail_note(d, "'%.64s' is not IPv4 or IPv6, ipFamilies is ignored", text);
			trail_out(d);
			return 0;
		}
		if (i > 0 && fams[i] == fams[0])
			(void)trail_reject(d, "'%s' is listed twice", text);
	}
	return tree_count(list);
}

/* Set the cluster IP of the current field. `n_fams` 0: the address has the family (SEL-05). */
static void cluster_ip_put(struct service *s, const char *text, size_t i, const enum ipfam *fams,
			   size_t n_fams, struct decode *d)
{
	struct ip_addr a;

	if (!decode_address(&a, text, NULL, d))
		return;
	if (n_fams > 0 && i >= n_fams)
		(void)trail_reject(d, "'%.64s': spec.ipFamilies[%zu] is missing", text, i);
	else if (n_fams > 0 && ip_fam(&a) != fams[i])
		(void)trail_reject(d, "'%.64s' is not %s, the family of spec.ipFamilies[%zu]", text,
				   ipfam_text(fams[i]), i);
	else if (ip_is_set(&s->cluster_ip[ip_fam(&a)]))
		(void)trail_reject(d, "'%.64s' has the family of the previous address", text);
	else
		s->cluster_ip[ip_fam(&a)] = a;
}

/* spec.clusterIPs; `first` is spec.clusterIP. */
static void cluster_ips_decode(struct service *s, const json_t *list, const char *first,
			       const enum ipfam *fams, size_t n_fams, struct decode *d)
{
	struct ip_addr a;
	struct ip_addr b;

	trail_for_each (i, d, list) {
		const char *text = trail_element_text(d, list, i);

		if (text == NULL) {
			(void)trail_reject(d, "null is not an IP address");
			break;
		}
		cluster_ip_put(s, text, i, fams, n_fams, d);
		if (i == 0 && (ip_addr_parse(&a, text, NULL) < 0 ||
			       ip_addr_parse(&b, first, NULL) < 0 || !ip_addr_is_equal(&a, &b)))
			(void)trail_reject(d, "'%.64s' differs from spec.clusterIP '%.64s'", text,
					   first);
	}
}

/* SEL-01, SEL-05. */
static void cluster_ip_decode(struct service *s, const json_t *spec, struct decode *d)
{
	enum ipfam fams[IPFAM_N] = { 0 };
	size_t n_fams = families_decode(fams, spec, d);
	const json_t *list = trail_list(d, spec, "clusterIPs", IPFAM_N);
	const char *first = trail_text(d, spec, "clusterIP");
	bool is_missing = first == NULL || first[0] == '\0';

	s->is_headless = is_missing || strcmp(first, "None") == 0;
	if (s->type == SERVICE_TYPE_EXTERNALNAME)
		return; /* SEL-02: not served */
	if (is_missing && tree_count(list) > 0)
		(void)trail_reject(d, "missing, although spec.clusterIPs is given");
	if (is_missing)
		trail_note(d, "missing, nothing is served");
	if (s->is_headless)
		return;
	if (tree_count(list) == 0) {
		cluster_ip_put(s, first, 0, fams, n_fams, d);
		return;
	}
	(void)trail_field(d, spec, "clusterIPs");
	cluster_ips_decode(s, list, first, fams, n_fams, d);
}

/* --- other addresses ------------------------------------------------------ */

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

/* SVC-14. */
static void external_ips_decode(struct service *s, const json_t *spec, struct decode *d)
{
	const json_t *list = trail_list(d, spec, "externalIPs", SIZE_MAX);

	s->n_left_out_addrs += entries_left_out(list, SERVICE_ADDRS_MAX, d);
	trail_for_each (i, d, list) {
		const char *text = trail_element_text(d, list, i);
		struct ip_addr a;

		if (i < SERVICE_ADDRS_MAX && text != NULL && !is_blank(text) &&
		    decode_address(&a, text, "skipped", d) &&
		    !vec_has(&s->external_ips, it, ip_addr_is_equal(it, &a)))
			*vec_push(&s->external_ips) = a;
	}
}

#define RANGES_FULL \
	"it and those after it allow no address: the ranges of %u ports have at most %d elements"

/* Elements in the kernel. SVC-21: of a family with length 0 no range is programmed. */
static size_t range_elements(const struct service *s, const struct ip_prefix *p)
{
	return p->len == 0 ? 0 : (size_t)s->ports.n << service_range_bits(p);
}

/* SVC-20, SVC-23: invalid ranges are counted, because they must not open the service. */
static void source_ranges_decode(struct service *s, const json_t *spec, struct decode *d)
{
	const json_t *list = trail_list(d, spec, "loadBalancerSourceRanges", SIZE_MAX);
	size_t n = tree_count(list), n_elements = 0;

	if (n > SERVICE_RANGES_MAX) {
		s->n_bad_source_ranges = (uint32_t)(n - SERVICE_RANGES_MAX);
		trail_note(d, "%zu entries: those after the first %d allow no address", n,
			   SERVICE_RANGES_MAX);
	}
	trail_for_each (i, d, list) {
		const char *text = trail_element_text(d, list, i);
		AUTO(free) char *trimmed = NULL;
		struct ip_prefix p;
		struct err why;
		size_t len, n_more;
		int r;

		if (i >= SERVICE_RANGES_MAX)
			continue;
		text = text ? text + strspn(text, " \t\r\n") : "";
		len = strlen(text);
		while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
			len--;
		trimmed = xstrndup(text, len);
		r = ip_prefix_parse(&p, trimmed, &why);
		/* It would restrict neither family. */
		if (r == 0 && ip_addr_unmapped(&p.addr).family != p.addr.family)
			r = err_set(&why, -EINVAL, "'%s' is an IPv4-mapped range", trimmed);
		if (r < 0) {
			s->n_bad_source_ranges++;
			trail_note(d, "%s; it allows no address", why.text);
			continue;
		}
		if (vec_has(&s->source_ranges, it, ip_prefix_cmp(it, &p) == 0))
			continue;
		n_more = range_elements(s, &p);
		n_elements += n_more;
		if (n_more == 0 || n_elements <= SERVICE_RANGE_ELEMENTS_MAX) {
			*vec_push(&s->source_ranges) = p;
			continue;
		}
		s->n_bad_source_ranges++;
		if (n_elements - n_more <= SERVICE_RANGE_ELEMENTS_MAX)
			trail_note(d, RANGES_FULL, s->ports.n, SERVICE_RANGE_ELEMENTS_MAX);
	}
}

/* SVC-16: an entry with an unknown mode captures nothing, like Proxy. */
static void ingress_entry(struct service *s, const json_t *entry, struct decode *d)
{
	struct service_ingress in = { 0 };
	const char *mode = trail_text(d, entry, "ipMode");
	const char *text;

	in.is_proxy_mode = mode != NULL && strcmp(mode, "VIP") != 0;
	if (in.is_proxy_mode && strcmp(mode, "Proxy") != 0)
		trail_note(d, "'%.64s' is not VIP or Proxy, the address is not captured", mode);
	text = trail_text(d, entry, "ip");
	if (text != NULL && !is_blank(text) && decode_address(&in.addr, text, "skipped", d) &&
	    !vec_has(&s->ingress, it, memcmp(it, &in, sizeof(in)) == 0))
		*vec_push(&s->ingress) = in;
}

static void ingress_decode(struct service *s, const json_t *obj, struct decode *d)
{
	const json_t *status = trail_enter(d, obj, "status");
	const json_t *balancer = trail_enter(d, status, "loadBalancer");
	const json_t *list = trail_list(d, balancer, "ingress", SIZE_MAX);
	size_t n = 0;

	s->n_left_out_addrs += entries_left_out(list, SERVICE_ADDRS_MAX, d);
	trail_for_each_object (entry, d, list)
		if (n++ < SERVICE_ADDRS_MAX)
			ingress_entry(s, entry, d);
	trail_out(d);
	trail_out(d);
}

/* `n` addresses of the current list, `first` and all after it. */
static void addresses_left_out(struct service *s, uint32_t n, const struct ip_addr *first,
			       uint32_t max, struct decode *d)
{
	s->n_left_out_addrs += n;
	trail_note(d, "%u left out, from %s on: at most %u addresses of a Service with %u ports", n,
		   ip_addr_str(first), max, s->ports.n);
}

/*
 * SVC-15, SVC-19: some steps of a service have the size of all its frontends (0012), so their
 * number is limited. Addresses keep the order of the object here: one that is appended displaces no
 * other.
 */
static void addresses_limit(struct service *s, const json_t *obj, struct decode *d)
{
	uint32_t n_ports = MAX(s->ports.n, 1U);
	uint32_t max = MAX(SERVICE_FRONTENDS_MAX / n_ports, SERVICE_ADDRS_MIN);
	uint32_t room =
		max - ip_is_set(&s->cluster_ip[IPFAM_V4]) - ip_is_set(&s->cluster_ip[IPFAM_V6]);
	uint32_t n_ingress = MIN(s->ingress.n, room);
	uint32_t n_external = MIN(s->external_ips.n, room - n_ingress);

	if (n_ingress < s->ingress.n) {
		(void)trail_field(d, trail_enter(d, trail_enter(d, obj, "status"), "loadBalancer"),
				  "ingress");
		addresses_left_out(s, s->ingress.n - n_ingress, &s->ingress.v[n_ingress].addr, max,
				   d);
		trail_out(d);
		trail_out(d);
	}
	if (n_external < s->external_ips.n) {
		(void)trail_field(d, trail_enter(d, obj, "spec"), "externalIPs");
		addresses_left_out(s, s->external_ips.n - n_external,
				   &s->external_ips.v[n_external], max, d);
		trail_out(d);
	}
	vec_cut(&s->ingress, n_ingress);
	vec_cut(&s->external_ips, n_external);
}

/* --- policies ------------------------------------------------------------- */

/* SVC-26, SVC-28 to SVC-31. Values as in the object; the model applies them. */
static void policies_decode(struct service *s, const json_t *spec, struct decode *d)
{
	static const char words[] = "Cluster Local";
	const json_t *client_ip;

	s->is_etp_local = word_field(d, spec, "externalTrafficPolicy", words) != 0;
	s->is_itp_local = word_field(d, spec, "internalTrafficPolicy", words) != 0;
	s->health_check_node_port =
		(uint16_t)trail_int(d, spec, "healthCheckNodePort", 0, UINT16_MAX, 0);
	if (word_field(d, spec, "sessionAffinity", "None ClientIP") == 0)
		return;
	client_ip = trail_enter(d, trail_enter(d, spec, "sessionAffinityConfig"), "clientIP");
	s->affinity_s = (uint32_t)trail_int(d, client_ip, "timeoutSeconds", 1, AFFINITY_MAX_S,
					    AFFINITY_DEFAULT_S);
	trail_out(d);
	trail_out(d);
}

static void spec_decode(struct service *s, const json_t *obj, struct decode *d)
{
	static const char types[] = "ClusterIP NodePort LoadBalancer ExternalName";
	const json_t *spec = trail_enter(d, obj, "spec");

	if (spec == NULL)
		(void)trail_reject(d, "missing");
	s->type = (uint8_t)(SERVICE_TYPE_CLUSTERIP + word_field(d, spec, "type", types));
	cluster_ip_decode(s, spec, d);
	ports_decode(s, spec, d);
	external_ips_decode(s, spec, d);
	source_ranges_decode(s, spec, d);
	policies_decode(s, spec, d);
	trail_out(d);
}

/* The value as in the object. Text never rejects a service; another type does with --strict. */
static const struct name *annotation(const struct meta *m, const char *key, struct decode *d)
{
	const json_t *list = tree_get(m->obj, "annotations");
	const json_t *v = tree_get(list, key);
	const char *text = tree_word(v);
	size_t len = text != NULL ? strlen(text) : 0;
	bool is_text = v == NULL || tree_is(v, JSON_STRING) || tree_is(v, JSON_NULL);

	if (is_text && len <= ANNOTATION_MAX)
		return text != NULL ? name_get_str(text) : NULL;
	meta_value_at(m, "annotations", key, d);
	if (is_text)
		trail_note(d, "%zu characters, at most %d: ignored", len, ANNOTATION_MAX);
	else if (d->is_strict)
		(void)trail_text(d, list, key);
	else
		trail_note(d, "not text (write it in quotes): ignored");
	trail_out(d);
	trail_out(d);
	return NULL;
}

static void tuning_decode(struct service *s, const struct meta *m, struct decode *d)
{
	struct service_tuning t = {
		.scheduler = annotation(m, "vipd.io/scheduler", d),
		.weights = annotation(m, "vipd.io/weights", d),
		.drain_timeout = annotation(m, "vipd.io/drain-timeout", d),
		.forwarding = annotation(m, "vipd.io/forwarding", d),
	};

	if (t.scheduler == NULL) {
		t.scheduler = annotation(m, "kube-router.io/service.scheduler", d);
		t.is_kube_router = t.scheduler != NULL;
	}
	if (t.forwarding == NULL) {
		t.forwarding = annotation(m, "kube-router.io/service.dsr", d);
		t.is_dsr = t.forwarding != NULL;
	}
	if (t.scheduler == NULL && t.weights == NULL && t.drain_timeout == NULL &&
	    t.forwarding == NULL)
		return;
	s->tuning = xcalloc(1, sizeof(*s->tuning));
	*s->tuning = t;
}

void decode_service(struct service *s, const struct meta *m, struct decode *d)
{
	const char *created = tree_text(tree_get(m->obj, "creationTimestamp"));
	int64_t created_ns;

	if (created != NULL && decode_time(&created_ns, created) == 0)
		s->created_s = created_ns / (int64_t)NSEC_PER_SEC;
	s->has_proxy_name_label = meta_label(m, LABEL_PROXY_NAME, d) != NULL;
	spec_decode(s, m->root, d);
	ingress_decode(s, m->root, d);
	addresses_limit(s, m->root, d);
	if (d->r == 0)
		tuning_decode(s, m, d);
}
