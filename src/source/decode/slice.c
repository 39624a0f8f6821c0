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

/* EPS-05, EPS-06: a port without a valid number is skipped. */
static void port_decode(struct slice *s, const json_t *port, struct decode *d)
{
	struct slice_port p = { .proto = trail_proto(d, port) };
	const char *name;
	const json_t *number;

	if (p.proto == L4PROTO_UNSET)
		return;
	name = trail_text(d, port, "name") ?: ""; /* the API server's default */
	/* The API server accepts any number. */
	number = trail_field(d, port, "port");
	if (number != NULL && tree_type(number) == JSON_INTEGER &&
	    (tree_number(number) < 0 || tree_number(number) > UINT16_MAX)) {
		trail_note(d, "not a number from 1 to 65535, the port is skipped");
		return;
	}
	p.port = (uint16_t)trail_int(d, port, "port", 0, UINT16_MAX, 0);
	if (p.port == 0) {
		trail_note(d, "missing or 0, the port is skipped");
		return;
	}
	(void)trail_field(d, port, "name");
	p.name = decode_port_name(name, d);
	*vec_push(&s->ports) = p;
}

/* --- endpoints ------------------------------------------------------------ */

/* Unset: skipped and noted (EPS-09, EPS-19). */
static struct ip_addr address_decode(const json_t *endpoint, enum ipfam fam, struct decode *d)
{
	const json_t *list = trail_list(d, endpoint, "addresses", SIZE_MAX);
	struct ip_addr ret = { 0 };
	const char *text;

	if (tree_count(list) == 0) {
		trail_note(d, "empty, the endpoint is skipped");
		return ret;
	}
	trail_into(d);
	text = trail_element_text(d, list, 0);
	if (decode_address(&ret, text, "the endpoint is skipped", d) && ip_fam(&ret) != fam) {
		trail_note(d, "'%s' is not %s as addressType says, the endpoint is skipped", text,
			   ipfam_text(fam));
		ret = (struct ip_addr){ 0 };
	}
	trail_out(d);
	return ret;
}

/* EPS-11. */
static uint8_t conditions_decode(const json_t *endpoint, struct decode *d)
{
	const json_t *c = trail_enter(d, endpoint, "conditions");
	unsigned int flags = 0;

	flags |= trail_bool(d, c, "ready", true) ? ENDPOINT_READY : 0;
	flags |= trail_bool(d, c, "serving", true) ? ENDPOINT_SERVING : 0;
	flags |= trail_bool(d, c, "terminating", false) ? ENDPOINT_TERMINATING : 0;
	trail_out(d);
	return (uint8_t)flags;
}

/* A name that is only compared; NULL: none. A new reference. */
static const struct name *name_decode(const json_t *obj, const char *key, struct decode *d)
{
	const char *text = trail_text(d, obj, key);

	if (text != NULL && strlen(text) > DNS_SUBDOMAIN_MAX)
		(void)trail_reject(d, "%zu characters, at most %d", strlen(text),
				   DNS_SUBDOMAIN_MAX);
	return d->r == 0 && text != NULL && text[0] != '\0' ? name_get_str(text) : NULL;
}

/* EPS-13. An empty name is that of no zone and no node; the endpoint has hints. */
static struct hints hint_list_decode(const json_t *hints, const char *key,
				     const struct name *names[HINTS_MAX], struct decode *d)
{
	uint32_t n = 0;

	trail_for_each_object (entry, d, trail_list(d, hints, key, HINTS_MAX)) {
		names[n] = name_decode(entry, "name", d);
		if (names[n] == NULL && d->r == 0)
			names[n] = name_get_str("");
		n += names[n] != NULL;
	}
	return (struct hints){ names, n };
}

/* For display only: an invalid targetRef is ignored. */
static char *pod_name(const json_t *endpoint)
{
	const json_t *target = tree_get(endpoint, "targetRef");
	const char *kind = tree_word(tree_get(target, "kind"));
	const char *name = tree_word(tree_get(target, "name"));

	if (kind == NULL || strcmp(kind, "Pod") != 0 || name == NULL || !is_dns_subdomain(name))
		return NULL;
	return xstrdup(name);
}

/* For display only: an invalid zone is ignored. */
static const struct name *zone_name(const json_t *endpoint)
{
	const char *zone = tree_word(tree_get(endpoint, "zone"));

	return zone != NULL && zone[0] != '\0' && strlen(zone) <= DNS_SUBDOMAIN_MAX
		       ? name_get_str(zone)
		       : NULL;
}

static struct slice_place *place_decode(const json_t *endpoint, struct decode *d)
{
	const struct name *names[2][HINTS_MAX];
	const struct name *node = name_decode(endpoint, "nodeName", d);
	const json_t *hints = trail_enter(d, endpoint, "hints");
	struct hints zones = hint_list_decode(hints, "forZones", names[0], d);
	struct hints nodes = hint_list_decode(hints, "forNodes", names[1], d);

	trail_out(d);
	return slice_place_make(node, zone_name(endpoint), zones, nodes);
}

static void endpoint_decode(struct slice *s, const json_t *endpoint, struct decode *d)
{
	struct ip_addr addr = address_decode(endpoint, s->fam, d);
	struct slice_endpoint *e;

	if (!ip_is_set(&addr))
		return;
	e = vec_push(&s->endpoints);
	*e = (struct slice_endpoint){ .addr = addr };
	e->flags = conditions_decode(endpoint, d);
	e->pod = pod_name(endpoint);
	e->place = place_decode(endpoint, d);
}

/* --- the slice ------------------------------------------------------------ */

/* EPS-01, IN-35. */
static int family_decode(struct slice *s, const json_t *obj, struct decode *d)
{
	const char *text = trail_text(d, obj, "addressType");

	if (text == NULL)
		return trail_reject(d, "missing");
	s->fam = strcmp(text, "IPv6") == 0 ? IPFAM_V6 : IPFAM_V4;
	if (strcmp(text, ipfam_text(s->fam)) == 0)
		return 0;
	if (strcmp(text, "FQDN") == 0)
		trail_note(d, "FQDN is not supported, the slice is ignored");
	else
		trail_note(d, "'%.64s' is not IPv4, IPv6 or FQDN, the slice is ignored", text);
	return DECODE_IGNORED;
}

/* IN-04, IN-34, EPS-02. */
static int labels_decode(struct slice *s, const struct meta *m, struct decode *d)
{
	const char *headless = meta_label(m, LABEL_HEADLESS, d);
	const char *service;

	if (headless != NULL)
		return DECODE_IGNORED;
	service = meta_label(m, LABEL_SERVICE_NAME, d);
	if (d->r < 0)
		return d->r;
	if (service != NULL && is_dns_label(service)) {
		s->service = name_get_str(service);
		return 0;
	}
	meta_value_at(m, "labels", LABEL_SERVICE_NAME, d);
	if (service == NULL || service[0] == '\0')
		trail_note(d, "missing, the slice is ignored");
	else
		trail_note(d, "'%.64s' is not the name of a service, the slice is ignored",
			   service);
	return DECODE_IGNORED;
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

int decode_slice(struct slice *s, const struct meta *m, struct decode *d)
{
	const char *trigger = meta_annotation(m, ANNOTATION_TRIGGER_TIME);
	const json_t *list;
	int r;

	s->version = version_value(tree_text(tree_get(m->obj, "resourceVersion")));
	if (trigger != NULL && decode_time(&s->trigger_ns, trigger) < 0)
		s->trigger_ns = 0; /* IN-40 */
	r = labels_decode(s, m, d);
	if (r == 0)
		r = family_decode(s, m->root, d);
	if (r != 0)
		return r;
	trail_for_each_object (port, d, trail_list(d, m->root, "ports", SLICE_PORTS_MAX))
		port_decode(s, port, d);
	list = trail_list(d, m->root, "endpoints", SLICE_ENDPOINTS_MAX);
	vec_reserve(&s->endpoints, tree_count(list));
	trail_for_each_object (endpoint, d, list)
		endpoint_decode(s, endpoint, d);
	return 0;
}
