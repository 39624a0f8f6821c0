/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/service - core/v1 Service, sections 2 and 3 of doc/behaviour.md.
 *
 * A Service is rejected, as by the API, if its cluster IPs contradict its families, or if two ports
 * have the same number and protocol, node port or name. Invalid addresses that only add frontends
 * (external IPs, ingress) are skipped one by one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/decode/meta.h"

#define ANNOTATION_MAX 65536 /* a weight for each of some thousand endpoints */
#define LABEL_PROXY_NAME "service.kubernetes.io/service-proxy-name"

/*
 * Index of a field's value in `words`. Absent or empty: 0, the default. An unknown word, perhaps of
 * a later version of the API: 0 and a note (IN-44).
 */
static int word_field(size_t *ret, struct decode *d, const json_t *obj, const char *key,
		      const char *const *words, size_t n, struct err *err)
{
	struct str list = { 0 };
	const char *text;
	int r;

	*ret = 0;
	r = trail_text(&text, d, obj, key, err);
	if (r < 0 || text == NULL || text[0] == '\0')
		return r;
	for (*ret = 0; *ret < n; (*ret)++)
		if (strcmp(words[*ret], text) == 0)
			return 0;
	for (size_t i = 0; i < n; i++)
		str_printf(&list, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", words[i]);
	trail_note(d, "'%.64s' is not %s, %s is used", text, str_text(&list), words[0]);
	str_fini(&list);
	*ret = 0;
	return 0;
}

/* --- ports ---------------------------------------------------------------- */

/* Leaves ret->proto L4PROTO_UNSET for a port to be skipped. */
static int port_decode(struct service_port *ret, const json_t *port, struct decode *d,
		       struct err *err)
{
	const char *name;
	int64_t node_port = 0;
	int64_t number = 0;
	int r;

	r = trail_proto(&ret->proto, d, port, err);
	if (r < 0 || ret->proto == L4PROTO_UNSET)
		return r;
	r = trail_int(&node_port, d, port, "nodePort", 0, UINT16_MAX, err);
	if (r < 0)
		return r;
	r = trail_int(&number, d, port, "port", 1, UINT16_MAX, err);
	if (r < 0)
		return r;
	if (number == 0)
		return trail_refuse(d, err, "missing");
	r = trail_text(&name, d, port, "name", err);
	if (r < 0)
		return r;
	ret->port = (uint16_t)number;
	ret->node_port = (uint16_t)node_port;
	return decode_port_name(&ret->name, name, d, err);
}

/* A value that must be unique among the ports, and the index of its port. */
struct port_claim {
	const struct name *name;
	uint32_t number;
	uint32_t index;
	uint8_t proto;
};

static int claim_cmp(const void *a, const void *b)
{
	const struct port_claim *x = a;
	const struct port_claim *y = b;

	if (x->proto != y->proto)
		return x->proto < y->proto ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->name != y->name)
		return (uintptr_t)x->name < (uintptr_t)y->name ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static bool claims_are_equal(const struct port_claim *a, const struct port_claim *b)
{
	return a->proto == b->proto && a->number == b->number && a->name == b->name;
}

/* The first port of the list with the value of an earlier port, whose index is `earlier`; or NULL.
 */
static const struct port_claim *claim_conflict(struct port_claim *claims, size_t n,
					       uint32_t *earlier)
{
	const struct port_claim *found = NULL;

	qsort(claims, n, sizeof(*claims), claim_cmp);
	for (size_t i = 1; i < n; i++) {
		if (!claims_are_equal(&claims[i - 1], &claims[i]))
			continue;
		if (found == NULL || claims[i].index < found->index) {
			found = &claims[i];
			*earlier = claims[i - 1].index;
		}
	}
	return found;
}

enum claim_what {
	CLAIM_PORT,
	CLAIM_NODE_PORT,
	CLAIM_NAME,
};

static size_t claims_fill(struct port_claim *claims, const struct service *s, enum claim_what what)
{
	size_t n = 0;

	for (size_t i = 0; i < s->ports.n; i++) {
		const struct service_port *p = &s->ports.v[i];
		struct port_claim c = { .proto = p->proto, .index = (uint32_t)i };

		if (what == CLAIM_PORT)
			c.number = p->port;
		else if (what == CLAIM_NODE_PORT)
			c.number = p->node_port;
		else
			c.name = p->name;
		if (what != CLAIM_NODE_PORT || p->node_port != 0)
			claims[n++] = c;
	}
	return n;
}

/* Index in spec.ports of the `i`th port that was not skipped. */
static uint32_t port_place(const json_t *list, uint32_t i)
{
	uint32_t place = 0;

	for (;; place++) {
		const json_t *port = json_array_get(list, place);
		const char *proto = json_string_value(json_object_get(port, "protocol"));

		if (l4proto_parse(proto) != L4PROTO_UNSET && i-- == 0)
			return place;
	}
}

/* The trail is inside spec.ports. */
static int ports_check(const struct service *s, const json_t *list, struct decode *d,
		       struct err *err)
{
	static const char *const field[] = { "port", "nodePort", "name" };
	struct port_claim *claims;
	int r = 0;

	if (s->ports.n < 2)
		return 0;
	claims = xcalloc(s->ports.n, sizeof(*claims));
	for (enum claim_what what = CLAIM_PORT; what <= CLAIM_NAME && r == 0; what++) {
		size_t n = claims_fill(claims, s, what);
		const struct port_claim *c;
		uint32_t earlier = 0;
		uint32_t place;

		c = claim_conflict(claims, n, &earlier);
		if (c == NULL)
			continue;
		place = port_place(list, c->index);
		earlier = port_place(list, earlier);
		(void)trail_element(d, list, place);
		trail_into(d);
		(void)trail_field(d, json_array_get(list, place), field[what]);
		if (what == CLAIM_NAME && c->name->len == 0)
			r = trail_refuse(d, err, "missing, as is that of ports[%u]", earlier);
		else if (what == CLAIM_NAME)
			r = trail_refuse(d, err, "'%s' with protocol %s is also ports[%u]",
					 c->name->text, l4proto_text(c->proto), earlier);
		else
			r = trail_refuse(d, err, "%u with protocol %s is also ports[%u]", c->number,
					 l4proto_text(c->proto), earlier);
	}
	free(claims);
	return r;
}

static int ports_decode(struct service *s, const json_t *spec, struct decode *d, struct err *err)
{
	const json_t *list;
	const json_t *port;
	int r;

	r = trail_list(&list, d, spec, "ports", SERVICE_PORTS_MAX, err);
	if (r < 0)
		return r;
	vec_reserve(&s->ports, json_array_size(list));
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct service_port *p = vec_push(&s->ports);

		*p = (struct service_port){ 0 };
		r = trail_element_object(&port, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = port_decode(p, port, d, err);
		if (r < 0)
			return r;
		s->ports.n -= p->proto == L4PROTO_UNSET;
		trail_out(d);
	}
	r = ports_check(s, list, d, err);
	if (r < 0)
		return r;
	trail_out(d);
	return 0;
}

/* --- cluster IPs ---------------------------------------------------------- */

static int family_text_parse(enum ipfam *ret, const char *text)
{
	if (text != NULL && strcmp(text, "IPv4") == 0)
		*ret = IPFAM_V4;
	else if (text != NULL && strcmp(text, "IPv6") == 0)
		*ret = IPFAM_V6;
	else
		return -EINVAL;
	return 0;
}

/* spec.ipFamilies: at most one of each. */
static int families_decode(enum ipfam fams[static IPFAM_N], size_t *n, const json_t *spec,
			   struct decode *d, struct err *err)
{
	const json_t *list;
	const char *text;
	int r;

	r = trail_list(&list, d, spec, "ipFamilies", IPFAM_N, err);
	if (r < 0)
		return r;
	*n = json_array_size(list);
	trail_into(d);
	for (size_t i = 0; i < *n; i++) {
		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		if (family_text_parse(&fams[i], text) < 0) {
			trail_note(d, "'%.64s' is not IPv4 or IPv6, ipFamilies is ignored",
				   text ? text : "");
			*n = 0;
			break;
		}
		if (i > 0 && fams[i] == fams[0])
			return trail_refuse(d, err, "'%s' is listed twice", text);
	}
	trail_out(d);
	return 0;
}

/* Set the cluster IP of the current field. `n_fams` 0: the address determines the family (SEL-05).
 */
static int cluster_ip_put(struct service *s, const char *text, size_t i, const enum ipfam *fams,
			  size_t n_fams, struct decode *d, struct err *err)
{
	struct ip_addr a = { 0 };
	struct err why;

	if (decode_address(&a, text, &why) < 0)
		return trail_refuse(d, err, "%s", why.text);
	if (n_fams > 0 && i >= n_fams)
		return trail_refuse(d, err, "'%.64s' has no family in spec.ipFamilies", text);
	if (n_fams > 0 && ip_fam(&a) != fams[i])
		return trail_refuse(d, err, "'%.64s' is not %s, the family of spec.ipFamilies[%zu]",
				    text, fams[i] == IPFAM_V4 ? "IPv4" : "IPv6", i);
	if (ip_is_set(&s->cluster_ip[ip_fam(&a)]))
		return trail_refuse(d, err, "'%.64s' has the family of the previous address", text);
	s->cluster_ip[ip_fam(&a)] = a;
	return 0;
}

static bool is_none(const char *text)
{
	return strcmp(text, "None") == 0;
}

/* spec.clusterIPs; `first` is spec.clusterIP. */
static int cluster_ips_decode(struct service *s, const json_t *list, const char *first,
			      const enum ipfam *fams, size_t n_fams, struct decode *d,
			      struct err *err)
{
	struct ip_addr a;
	struct ip_addr b;
	const char *text;
	int r;

	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		if (text == NULL)
			return trail_refuse(d, err, "null is not an IP address");
		r = cluster_ip_put(s, text, i, fams, n_fams, d, err);
		if (r < 0)
			return r;
		if (i == 0 && (ip_addr_parse(&a, text, NULL) < 0 ||
			       ip_addr_parse(&b, first, NULL) < 0 || !ip_addr_is_equal(&a, &b)))
			return trail_refuse(d, err, "'%.64s' differs from spec.clusterIP '%.64s'",
					    text, first);
	}
	trail_out(d);
	return 0;
}

/* SEL-01, SEL-05. */
static int cluster_ip_decode(struct service *s, const json_t *spec, struct decode *d,
			     struct err *err)
{
	enum ipfam fams[IPFAM_N] = { 0 };
	const json_t *list;
	const char *first;
	size_t n_fams;
	int r;

	r = families_decode(fams, &n_fams, spec, d, err);
	if (r < 0)
		return r;
	r = trail_list(&list, d, spec, "clusterIPs", IPFAM_N, err);
	if (r < 0)
		return r;
	r = trail_text(&first, d, spec, "clusterIP", err);
	if (r < 0)
		return r;
	s->is_headless = first == NULL || first[0] == '\0' || is_none(first);
	if (s->type == SERVICE_TYPE_EXTERNALNAME)
		return 0; /* SEL-02: not served */
	if (s->is_headless) {
		if ((first == NULL || first[0] == '\0') && json_array_size(list) > 0)
			return trail_refuse(d, err, "missing, although spec.clusterIPs is given");
		if (first == NULL || first[0] == '\0')
			trail_note(d, "missing, nothing is served");
		return 0;
	}
	if (json_array_size(list) == 0)
		return cluster_ip_put(s, first, 0, fams, n_fams, d, err);
	(void)trail_field(d, spec, "clusterIPs");
	return cluster_ips_decode(s, list, first, fams, n_fams, d, err);
}

/* --- other addresses ------------------------------------------------------ */

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

/* Append a value unless the vector contains it. */
#define vec_push_once(vec, value)                                                          \
	do {                                                                               \
		bool is_present = false;                                                   \
		vec_for_each (it, (vec))                                                   \
			is_present = is_present || memcmp(it, &(value), sizeof(*it)) == 0; \
		if (!is_present)                                                           \
			*vec_push(vec) = (value);                                          \
	} while (0)

/* SVC-14. */
static int external_ips_decode(struct service *s, const json_t *spec, struct decode *d,
			       struct err *err)
{
	const json_t *list;
	struct ip_addr a;
	const char *text;
	struct err why;
	int r;

	r = trail_list(&list, d, spec, "externalIPs", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		if (text == NULL || is_blank(text))
			continue;
		if (decode_address(&a, text, &why) < 0)
			trail_note(d, "%s, skipped", why.text);
		else
			vec_push_once(&s->external_ips, a);
	}
	trail_out(d);
	return 0;
}

/* SVC-20, SVC-23: invalid ranges are counted, because they must not open the service. */
static int source_ranges_decode(struct service *s, const json_t *spec, struct decode *d,
				struct err *err)
{
	const json_t *list;
	struct ip_prefix p;
	const char *text;
	struct err why;
	char trimmed[80];
	int r;

	r = trail_list(&list, d, spec, "loadBalancerSourceRanges", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t len;

		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		text = text ? text + strspn(text, " \t\r\n") : "";
		len = strlen(text);
		while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
			len--;
		len = MIN(len, sizeof(trimmed) - 1);
		memcpy(trimmed, text, len);
		trimmed[len] = '\0';
		if (ip_prefix_parse(&p, trimmed, &why) < 0) {
			s->n_bad_source_ranges++;
			trail_note(d, "%s; it allows no address", why.text);
			continue;
		}
		vec_push_once(&s->source_ranges, p);
	}
	trail_out(d);
	return 0;
}

/* SVC-16: an entry with an unknown mode captures nothing, like Proxy. */
static int ingress_entry(struct service *s, const json_t *entry, struct decode *d, struct err *err)
{
	struct service_ingress in = { 0 };
	const char *mode;
	const char *text;
	struct err why;
	int r;

	r = trail_text(&mode, d, entry, "ipMode", err);
	if (r < 0)
		return r;
	in.is_proxy_mode = mode != NULL && strcmp(mode, "VIP") != 0;
	if (in.is_proxy_mode && strcmp(mode, "Proxy") != 0)
		trail_note(d, "'%.64s' is not VIP or Proxy, the address is not captured", mode);
	r = trail_text(&text, d, entry, "ip", err);
	if (r < 0 || text == NULL || is_blank(text))
		return r;
	if (decode_address(&in.addr, text, &why) < 0)
		trail_note(d, "%s, skipped", why.text);
	else
		vec_push_once(&s->ingress, in);
	return 0;
}

static int ingress_decode(struct service *s, const json_t *obj, struct decode *d, struct err *err)
{
	const json_t *balancer;
	const json_t *status;
	const json_t *entry;
	const json_t *list;
	int r;

	r = trail_object(&status, d, obj, "status", err);
	if (r < 0 || status == NULL)
		return r;
	trail_into(d);
	r = trail_object(&balancer, d, status, "loadBalancer", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_list(&list, d, balancer, "ingress", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&entry, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = ingress_entry(s, entry, d, err);
		if (r < 0)
			return r;
		trail_out(d);
	}
	trail_out(d);
	trail_out(d);
	trail_out(d);
	return 0;
}

/* --- policies ------------------------------------------------------------- */

/* SVC-31. */
static int affinity_decode(struct service *s, const json_t *spec, struct decode *d, struct err *err)
{
	static const char *const words[] = { "None", "ClientIP" };
	int64_t timeout_s = AFFINITY_DEFAULT_S;
	const json_t *client_ip;
	const json_t *config;
	size_t is_client_ip;
	int r;

	r = word_field(&is_client_ip, d, spec, "sessionAffinity", words, ARRAY_SIZE(words), err);
	if (r < 0 || !is_client_ip)
		return r;
	r = trail_object(&config, d, spec, "sessionAffinityConfig", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_object(&client_ip, d, config, "clientIP", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_int(&timeout_s, d, client_ip, "timeoutSeconds", 1, AFFINITY_MAX_S, err);
	if (r < 0)
		return r;
	trail_out(d);
	trail_out(d);
	s->affinity_s = (uint32_t)timeout_s;
	return 0;
}

/* SVC-26, SVC-28 to SVC-30. Values as in the object; the model applies them. */
static int policies_decode(struct service *s, const json_t *spec, struct decode *d, struct err *err)
{
	static const char *const words[] = { "Cluster", "Local" };
	int64_t health_port = 0;
	size_t is_local;
	int r;

	r = word_field(&is_local, d, spec, "externalTrafficPolicy", words, ARRAY_SIZE(words), err);
	if (r < 0)
		return r;
	s->is_etp_local = is_local;
	r = word_field(&is_local, d, spec, "internalTrafficPolicy", words, ARRAY_SIZE(words), err);
	if (r < 0)
		return r;
	s->is_itp_local = is_local;
	r = trail_int(&health_port, d, spec, "healthCheckNodePort", 0, UINT16_MAX, err);
	if (r < 0)
		return r;
	s->health_check_node_port = (uint16_t)health_port;
	return affinity_decode(s, spec, d, err);
}

static int type_decode(struct service *s, const json_t *spec, struct decode *d, struct err *err)
{
	static const char *const words[] = { "ClusterIP", "NodePort", "LoadBalancer",
					     "ExternalName" };
	size_t i;
	int r;

	r = word_field(&i, d, spec, "type", words, ARRAY_SIZE(words), err);
	if (r < 0)
		return r;
	s->type = (uint8_t)(SERVICE_TYPE_CLUSTERIP + i);
	return 0;
}

static int spec_decode(struct service *s, const json_t *obj, struct decode *d, struct err *err)
{
	static int (*const parts[])(struct service *, const json_t *, struct decode *,
				    struct err *) = {
		type_decode,         cluster_ip_decode,    ports_decode,
		external_ips_decode, source_ranges_decode, policies_decode,
	};
	const json_t *spec;
	int r;

	r = trail_object(&spec, d, obj, "spec", err);
	if (r < 0)
		return r;
	if (spec == NULL)
		return trail_refuse(d, err, "missing");
	trail_into(d);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		r = parts[i](s, spec, d, err);
		if (r < 0)
			return r;
	}
	trail_out(d);
	return 0;
}

/* The value as in the object; no value rejects a service. */
static const struct name *annotation(const struct meta *m, const char *key, const char *other_key)
{
	const char *text = meta_annotation(m, key);

	if (text == NULL && other_key != NULL)
		text = meta_annotation(m, other_key);
	if (text == NULL || strlen(text) > ANNOTATION_MAX)
		return NULL;
	return name_get_str(text);
}

static void tuning_decode(struct service *s, const struct meta *m)
{
	struct service_tuning t = {
		.scheduler = annotation(m, "vipd.io/scheduler", "kube-router.io/service.scheduler"),
		.weights = annotation(m, "vipd.io/weights", NULL),
		.drain_timeout = annotation(m, "vipd.io/drain-timeout", NULL),
	};

	if (t.scheduler == NULL && t.weights == NULL && t.drain_timeout == NULL)
		return;
	s->tuning = xcalloc(1, sizeof(*s->tuning));
	*s->tuning = t;
}

int decode_service(struct service **ret, const json_t *obj, struct decode *d, struct err *err)
{
	AUTO(service_close) struct service *s = service_open();
	const char *proxy_name;
	const char *created;
	int64_t created_ns;
	struct meta m;
	int r;

	r = meta_read(&m, OBJECT_KIND_SERVICE, obj, d, err);
	if (r < 0)
		return r;
	s->ns = name_get_str(m.ns);
	s->name = name_get_str(m.name);
	created = json_string_value(json_object_get(m.obj, "creationTimestamp"));
	if (created != NULL && decode_time(&created_ns, created) == 0)
		s->created_s = created_ns / (int64_t)NSEC_PER_SEC;
	r = meta_label(&proxy_name, &m, LABEL_PROXY_NAME, d, err);
	if (r < 0)
		return r;
	s->has_proxy_name_label = proxy_name != NULL;
	r = spec_decode(s, obj, d, err);
	if (r < 0)
		return r;
	r = ingress_decode(s, obj, d, err);
	if (r < 0)
		return r;
	tuning_decode(s, &m);
	*ret = TAKE(s);
	return 0;
}
