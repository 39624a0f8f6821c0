/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/slice - discovery.k8s.io/v1 EndpointSlice, section 4 of doc/behaviour.md. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/decode/meta.h"

#define LABEL_SERVICE_NAME "kubernetes.io/service-name"
#define LABEL_HEADLESS "service.kubernetes.io/headless"
#define ANNOTATION_TRIGGER_TIME "endpoints.kubernetes.io/last-change-trigger-time"

/* EPS-05, EPS-06: a port without a name or a number is skipped. */
static int port_decode(struct slice *s, const json_t *port, struct decode *d, struct err *err)
{
	struct slice_port p = { 0 };
	const char *name;
	int64_t number = 0;
	int r;

	r = trail_proto(&p.proto, d, port, err);
	if (r < 0 || p.proto == L4PROTO_UNSET)
		return r;
	r = trail_text(&name, d, port, "name", err);
	if (r < 0)
		return r;
	if (name == NULL) {
		trail_note(d, "missing, the port is skipped");
		return 0;
	}
	r = trail_int(&number, d, port, "port", 0, UINT16_MAX, err);
	if (r < 0)
		return r;
	if (number == 0) {
		trail_note(d, "missing or 0, the port is skipped");
		return 0;
	}
	(void)trail_field(d, port, "name");
	r = decode_port_name(&p.name, name, d, err);
	if (r < 0)
		return r;
	p.port = (uint16_t)number;
	*vec_push(&s->ports) = p;
	return 0;
}

static int ports_decode(struct slice *s, const json_t *obj, struct decode *d, struct err *err)
{
	const json_t *list;
	const json_t *port;
	int r;

	r = trail_list(&list, d, obj, "ports", SLICE_PORTS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&port, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = port_decode(s, port, d, err);
		if (r < 0)
			return r;
		trail_out(d);
	}
	trail_out(d);
	return 0;
}

/* --- endpoints ------------------------------------------------------------ */

/* 0 with `ret` unset: skipped and noted (EPS-09, EPS-19). */
static int address_decode(struct ip_addr *ret, const json_t *endpoint, enum ipfam fam,
			  struct decode *d, struct err *err)
{
	struct ip_addr a = { 0 };
	const json_t *list;
	const char *text;
	struct err why;
	int r;

	*ret = a;
	r = trail_list(&list, d, endpoint, "addresses", SIZE_MAX, err);
	if (r < 0)
		return r;
	if (json_array_size(list) == 0) {
		trail_note(d, "empty, the endpoint is skipped");
		return 0;
	}
	trail_into(d);
	r = trail_element_text(&text, d, list, 0, err);
	if (r < 0)
		return r;
	if (decode_address(&a, text ? text : "", &why) < 0)
		trail_note(d, "%s, the endpoint is skipped", why.text);
	else if (ip_fam(&a) != fam)
		trail_note(d, "'%s' is not %s as addressType says, the endpoint is skipped", text,
			   fam == IPFAM_V4 ? "IPv4" : "IPv6");
	else
		*ret = a;
	trail_out(d);
	return 0;
}

/* EPS-11. */
static int conditions_decode(uint8_t *ret, const json_t *endpoint, struct decode *d,
			     struct err *err)
{
	bool is_ready = true;
	bool is_serving = true;
	bool is_terminating = false;
	const json_t *c;
	int r;

	r = trail_object(&c, d, endpoint, "conditions", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_bool(&is_ready, d, c, "ready", err);
	if (r < 0)
		return r;
	r = trail_bool(&is_serving, d, c, "serving", err);
	if (r < 0)
		return r;
	r = trail_bool(&is_terminating, d, c, "terminating", err);
	if (r < 0)
		return r;
	trail_out(d);
	*ret = (uint8_t)((is_ready ? ENDPOINT_READY : 0) | (is_serving ? ENDPOINT_SERVING : 0) |
			 (is_terminating ? ENDPOINT_TERMINATING : 0));
	return 0;
}

static int hints_read(const struct name **names, size_t *n, const json_t *list, struct decode *d,
		      struct err *err)
{
	const json_t *entry;
	const char *text;
	int r;

	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&entry, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = trail_text(&text, d, entry, "name", err);
		if (r < 0)
			return r;
		if (text != NULL && strlen(text) > DNS_SUBDOMAIN_MAX)
			return trail_refuse(d, err, "%zu characters, at most %d", strlen(text),
					    DNS_SUBDOMAIN_MAX);
		trail_out(d);
		if (text != NULL && text[0] != '\0')
			names[(*n)++] = name_get_str(text);
	}
	return 0;
}

/* EPS-13. */
static int hint_list_decode(struct hints **ret, const json_t *hints, const char *key,
			    struct decode *d, struct err *err)
{
	const struct name *names[HINTS_MAX];
	const json_t *list;
	size_t n = 0;
	int r;

	r = trail_list(&list, d, hints, key, HINTS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	r = hints_read(names, &n, list, d, err);
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			name_unref(names[i]);
		return r;
	}
	trail_out(d);
	*ret = hints_make(names, n);
	return 0;
}

static int hints_decode(struct slice_endpoint *e, const json_t *endpoint, struct decode *d,
			struct err *err)
{
	const json_t *hints;
	int r;

	r = trail_object(&hints, d, endpoint, "hints", err);
	if (r < 0 || hints == NULL)
		return r;
	trail_into(d);
	r = hint_list_decode(&e->zones, hints, "forZones", d, err);
	if (r < 0)
		return r;
	r = hint_list_decode(&e->nodes, hints, "forNodes", d, err);
	if (r < 0)
		return r;
	trail_out(d);
	return 0;
}

/* For display only: an invalid targetRef is ignored. */
static char *pod_name(const json_t *endpoint)
{
	const json_t *target = json_object_get(endpoint, "targetRef");
	const char *kind = json_string_value(json_object_get(target, "kind"));
	const char *name = json_string_value(json_object_get(target, "name"));

	if (kind == NULL || strcmp(kind, "Pod") != 0 || name == NULL || !is_dns_subdomain(name))
		return NULL;
	return xstrdup(name);
}

static int endpoint_decode(struct slice *s, const json_t *endpoint, struct decode *d,
			   struct err *err)
{
	struct slice_endpoint *e;
	struct ip_addr addr;
	const char *node;
	int r;

	r = address_decode(&addr, endpoint, s->fam, d, err);
	if (r < 0 || !ip_is_set(&addr))
		return r;
	e = vec_push(&s->endpoints);
	*e = (struct slice_endpoint){ .addr = addr };
	r = conditions_decode(&e->flags, endpoint, d, err);
	if (r < 0)
		return r;
	r = trail_text(&node, d, endpoint, "nodeName", err);
	if (r < 0)
		return r;
	if (node != NULL && strlen(node) > DNS_SUBDOMAIN_MAX)
		return trail_refuse(d, err, "%zu characters, at most %d", strlen(node),
				    DNS_SUBDOMAIN_MAX);
	if (node != NULL && node[0] != '\0')
		e->node = name_get_str(node);
	e->pod = pod_name(endpoint);
	return hints_decode(e, endpoint, d, err);
}

static int endpoints_decode(struct slice *s, const json_t *obj, struct decode *d, struct err *err)
{
	const json_t *endpoint;
	const json_t *list;
	int r;

	r = trail_list(&list, d, obj, "endpoints", SLICE_ENDPOINTS_MAX, err);
	if (r < 0)
		return r;
	vec_reserve(&s->endpoints, json_array_size(list));
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&endpoint, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = endpoint_decode(s, endpoint, d, err);
		if (r < 0)
			return r;
		trail_out(d);
	}
	trail_out(d);
	return 0;
}

/* --- the slice ------------------------------------------------------------ */

/* EPS-01, IN-35. */
static int family_decode(struct slice *s, const json_t *obj, struct decode *d, struct err *err)
{
	const char *text;
	int r;

	r = trail_text(&text, d, obj, "addressType", err);
	if (r < 0)
		return r;
	if (text == NULL)
		return trail_refuse(d, err, "missing");
	if (strcmp(text, "FQDN") == 0) {
		trail_note(d, "FQDN is not supported, the slice is ignored");
		return DECODE_IGNORED;
	}
	if (strcmp(text, "IPv4") != 0 && strcmp(text, "IPv6") != 0) {
		trail_note(d, "'%.64s' is not IPv4, IPv6 or FQDN, the slice is ignored", text);
		return DECODE_IGNORED;
	}
	s->fam = strcmp(text, "IPv6") == 0 ? IPFAM_V6 : IPFAM_V4;
	return 0;
}

/* IN-04, IN-34, EPS-02. */
static int labels_decode(struct slice *s, const struct meta *m, struct decode *d, struct err *err)
{
	const char *headless;
	const char *service;
	int r;

	r = meta_label(&headless, m, LABEL_HEADLESS, d, err);
	if (r < 0)
		return r;
	if (headless != NULL)
		return DECODE_IGNORED;
	r = meta_label(&service, m, LABEL_SERVICE_NAME, d, err);
	if (r < 0)
		return r;
	if (service == NULL || service[0] == '\0') {
		meta_label_at(m, LABEL_SERVICE_NAME, d);
		trail_note(d, "missing, the slice is ignored");
		return DECODE_IGNORED;
	}
	if (!is_dns_label(service)) {
		meta_label_at(m, LABEL_SERVICE_NAME, d);
		return trail_refuse(d, err, "'%.64s' is not the name of a service", service);
	}
	s->service = name_get_str(service);
	return 0;
}

/* EPS-15: opaque by the API's rules, but a number on all known servers. */
static uint64_t version_value(const char *text)
{
	char *end;
	unsigned long long n;

	if (text == NULL || !isdigit((unsigned char)text[0]))
		return 0;
	errno = 0;
	n = strtoull(text, &end, 10);
	return errno != 0 || *end != '\0' ? 0 : n;
}

int decode_slice(struct slice **ret, const json_t *obj, struct decode *d, struct err *err)
{
	AUTO(slice_close) struct slice *s = slice_open();
	const char *trigger;
	struct meta m;
	int r;

	r = meta_read(&m, OBJECT_KIND_SLICE, obj, d, err);
	if (r < 0)
		return r;
	s->ns = name_get_str(m.ns);
	s->name = name_get_str(m.name);
	s->version = version_value(json_string_value(json_object_get(m.obj, "resourceVersion")));
	trigger = meta_annotation(&m, ANNOTATION_TRIGGER_TIME);
	if (trigger != NULL && decode_time(&s->trigger_ns, trigger) < 0)
		s->trigger_ns = 0; /* IN-40 */
	r = labels_decode(s, &m, d, err);
	if (r != 0)
		return r;
	r = family_decode(s, obj, d, err);
	if (r != 0)
		return r;
	r = ports_decode(s, obj, d, err);
	if (r < 0)
		return r;
	r = endpoints_decode(s, obj, d, err);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}
