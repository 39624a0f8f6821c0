/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/node - core/v1 Node and networking.k8s.io/v1 ServiceCIDR, sections 1.4, 1.5 and 16. */
#include <string.h>

#include "source/decode/meta.h"

#define LABEL_ZONE "topology.kubernetes.io/zone"
#define TAINT_AUTOSCALER "ToBeDeletedByClusterAutoscaler"

/* HC-08. */
static int taints_decode(struct node *n, const json_t *spec, struct decode *d, struct err *err)
{
	const json_t *taint;
	const json_t *list;
	const char *key;
	int r;

	r = trail_list(&list, d, spec, "taints", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&taint, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = trail_text(&key, d, taint, "key", err);
		if (r < 0)
			return r;
		trail_out(d);
		if (key != NULL && strcmp(key, TAINT_AUTOSCALER) == 0)
			n->has_autoscaler_taint = true;
	}
	trail_out(d);
	return 0;
}

static int prefix_put(struct node *n, const char *text, struct decode *d, struct err *err)
{
	struct ip_prefix p;
	struct err why;

	if (ip_prefix_parse(&p, text ? text : "", &why) < 0)
		return trail_refuse(d, err, "%s", why.text);
	*vec_push(&n->pod_cidrs) = p;
	return 0;
}

/* spec.podCIDRs, or spec.podCIDR of old objects. */
static int pod_cidrs_decode(struct node *n, const json_t *spec, struct decode *d, struct err *err)
{
	const json_t *list;
	const char *text;
	int r;

	r = trail_list(&list, d, spec, "podCIDRs", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	if (json_array_size(list) == 0) {
		r = trail_text(&text, d, spec, "podCIDR", err);
		if (r < 0 || text == NULL || text[0] == '\0')
			return r;
		return prefix_put(n, text, d, err);
	}
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		r = prefix_put(n, text, d, err);
		if (r < 0)
			return r;
	}
	trail_out(d);
	return 0;
}

/* Append the entries of status.addresses with type `want`. The trail is inside the list. */
static int addresses_of_type(struct node *n, const json_t *list, const char *want, struct decode *d,
			     struct err *err)
{
	struct ip_addr a;
	const json_t *entry;
	const char *text;
	const char *type;
	struct err why;
	int r;

	for (size_t i = 0; i < json_array_size(list); i++) {
		r = trail_element_object(&entry, d, list, i, err);
		if (r < 0)
			return r;
		trail_into(d);
		r = trail_text(&type, d, entry, "type", err);
		if (r < 0)
			return r;
		if (type != NULL && strcmp(type, want) == 0) {
			r = trail_text(&text, d, entry, "address", err);
			if (r < 0)
				return r;
			if (decode_address(&a, text ? text : "", &why) < 0)
				trail_note(d, "%s, skipped", why.text);
			else
				*vec_push(&n->addrs) = a;
		}
		trail_out(d);
	}
	return 0;
}

/* LIFE-12: all internal addresses, then all external ones. */
static int addresses_decode(struct node *n, const json_t *obj, struct decode *d, struct err *err)
{
	const json_t *status;
	const json_t *list;
	int r;

	r = trail_object(&status, d, obj, "status", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_list(&list, d, status, "addresses", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	r = addresses_of_type(n, list, "InternalIP", d, err);
	if (r < 0)
		return r;
	r = addresses_of_type(n, list, "ExternalIP", d, err);
	if (r < 0)
		return r;
	trail_out(d);
	trail_out(d);
	return 0;
}

static int decode_node(struct node **ret, const json_t *obj, struct decode *d, struct err *err)
{
	AUTO(node_close) struct node *n = node_open();
	const json_t *spec;
	const char *zone;
	struct meta m;
	int r;

	r = meta_read(&m, OBJECT_KIND_NODE, obj, d, err);
	if (r < 0)
		return r;
	n->name = name_get_str(m.name);
	n->is_deleting = json_is_string(json_object_get(m.obj, "deletionTimestamp"));
	r = meta_label(&zone, &m, LABEL_ZONE, d, err);
	if (r < 0)
		return r;
	if (zone != NULL && zone[0] != '\0') /* IN-22 */
		n->zone = name_get_str(zone);
	r = trail_object(&spec, d, obj, "spec", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = taints_decode(n, spec, d, err);
	if (r < 0)
		return r;
	r = pod_cidrs_decode(n, spec, d, err);
	if (r < 0)
		return r;
	trail_out(d);
	r = addresses_decode(n, obj, d, err);
	if (r < 0)
		return r;
	*ret = TAKE(n);
	return 0;
}

int decode_service_cidr(struct service_cidr **ret, const json_t *obj, struct decode *d,
			struct err *err)
{
	AUTO(service_cidr_close) struct service_cidr *c = service_cidr_open();
	const json_t *spec;
	const json_t *list;
	const char *text;
	struct meta m;
	int r;

	r = meta_read(&m, OBJECT_KIND_SERVICE_CIDR, obj, d, err);
	if (r < 0)
		return r;
	c->name = name_get_str(m.name);
	r = trail_object(&spec, d, obj, "spec", err);
	if (r < 0)
		return r;
	trail_into(d);
	r = trail_list(&list, d, spec, "cidrs", SERVICE_ADDRS_MAX, err);
	if (r < 0)
		return r;
	trail_into(d);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct ip_prefix p;
		struct err why;

		r = trail_element_text(&text, d, list, i, err);
		if (r < 0)
			return r;
		if (ip_prefix_parse(&p, text ? text : "", &why) < 0)
			return trail_refuse(d, err, "%s", why.text);
		*vec_push(&c->cidrs) = p;
	}
	trail_out(d);
	trail_out(d);
	*ret = TAKE(c);
	return 0;
}

int decode_object(struct object *ret, enum object_kind kind, const json_t *obj, struct decode *d,
		  struct err *err)
{
	struct object o = { .kind = kind };
	int r = 0;

	switch (kind) {
	case OBJECT_KIND_SERVICE:
		r = decode_service(&o.service, obj, d, err);
		break;
	case OBJECT_KIND_SLICE:
		r = decode_slice(&o.slice, obj, d, err);
		break;
	case OBJECT_KIND_NODE:
		r = decode_node(&o.node, obj, d, err);
		break;
	case OBJECT_KIND_SERVICE_CIDR:
		r = decode_service_cidr(&o.cidr, obj, d, err);
		break;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		return trail_refuse(d, err, "unsupported kind");
	}
	if (r == 0)
		*ret = o;
	return r;
}
