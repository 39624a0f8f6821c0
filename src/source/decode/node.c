/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/node - core/v1 Node and networking.k8s.io/v1 ServiceCIDR, sections 1.4, 1.5 and 16; the
 * decoder of any kind.
 */
#include <string.h>

#include "source/decode/meta.h"

#define LABEL_ZONE "topology.kubernetes.io/zone"
#define TAINT_AUTOSCALER "ToBeDeletedByClusterAutoscaler"

/* HC-08. */
static void taints_decode(struct node *n, const json_t *spec, struct decode *d)
{
	trail_for_each_object (taint, d, trail_list(d, spec, "taints", SERVICE_ADDRS_MAX)) {
		const char *key = trail_text(d, taint, "key");

		n->has_autoscaler_taint |= key != NULL && strcmp(key, TAINT_AUTOSCALER) == 0;
	}
}

static struct ip_prefix prefix_decode(const char *text, struct decode *d)
{
	struct ip_prefix p = { 0 };
	struct err why;

	if (ip_prefix_parse(&p, text ? text : "", &why) < 0)
		(void)trail_reject(d, "%s", why.text);
	return p;
}

/* spec.podCIDRs, or spec.podCIDR of old objects. */
static void pod_cidrs_decode(struct node *n, const json_t *spec, struct decode *d)
{
	const json_t *list = trail_list(d, spec, "podCIDRs", SERVICE_ADDRS_MAX);
	const char *text = tree_count(list) == 0 ? trail_text(d, spec, "podCIDR") : NULL;

	if (text != NULL && text[0] != '\0')
		*vec_push(&n->pod_cidrs) = prefix_decode(text, d);
	trail_for_each (i, d, list)
		*vec_push(&n->pod_cidrs) = prefix_decode(trail_element_text(d, list, i), d);
}

/* Append the entries of status.addresses with type `kind`. */
static void addresses_of_type(struct node *n, const json_t *list, const char *kind,
			      struct decode *d)
{
	trail_for_each_object (entry, d, list) {
		const char *type = trail_text(d, entry, "type");
		struct ip_addr a;

		if (type != NULL && strcmp(type, kind) == 0 &&
		    decode_address(&a, trail_text(d, entry, "address"), "skipped", d))
			*vec_push(&n->addrs) = a;
	}
}

/* LIFE-12: all internal addresses, then all external ones. */
static void addresses_decode(struct node *n, const json_t *obj, struct decode *d)
{
	const json_t *status = trail_enter(d, obj, "status");
	const json_t *list = trail_list(d, status, "addresses", SERVICE_ADDRS_MAX);

	addresses_of_type(n, list, "InternalIP", d);
	addresses_of_type(n, list, "ExternalIP", d);
	trail_out(d);
}

static void decode_node(struct node *n, const struct meta *m, struct decode *d)
{
	const char *zone = meta_label(m, LABEL_ZONE, d);
	const json_t *spec;

	n->is_deleting = tree_text(tree_get(m->obj, "deletionTimestamp")) != NULL;
	if (zone != NULL && zone[0] != '\0') /* IN-22 */
		n->zone = name_get_str(zone);
	spec = trail_enter(d, m->root, "spec");
	taints_decode(n, spec, d);
	pod_cidrs_decode(n, spec, d);
	trail_out(d);
	addresses_decode(n, m->root, d);
}

static void decode_service_cidr(struct service_cidr *c, const struct meta *m, struct decode *d)
{
	const json_t *spec = trail_enter(d, m->root, "spec");
	const json_t *list = trail_list(d, spec, "cidrs", SERVICE_ADDRS_MAX);

	trail_for_each (i, d, list)
		*vec_push(&c->cidrs) = prefix_decode(trail_element_text(d, list, i), d);
	trail_out(d);
}

int decode_object(struct object *ret, enum object_kind kind, const json_t *obj, struct decode *d,
		  struct err *err)
{
	struct meta m = meta_read(kind, obj, d, err);
	FINI(object_fini) struct object o = { 0 };
	int r = 0;

	if (d->r < 0)
		return d->r;
	o = object_open(kind);
	o.head->ns = m.ns != NULL ? name_get_str(m.ns) : NULL;
	o.head->name = name_get_str(m.name);
	switch (kind) {
	case OBJECT_KIND_SERVICE:
		decode_service(o.service, &m, d);
		break;
	case OBJECT_KIND_SLICE:
		r = decode_slice(o.slice, &m, d);
		break;
	case OBJECT_KIND_NODE:
		decode_node(o.node, &m, d);
		break;
	case OBJECT_KIND_SERVICE_CIDR:
		decode_service_cidr(o.cidr, &m, d);
		break;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	if (d->r < 0)
		return d->r;
	if (r == 0)
		*ret = object_ref(&o);
	return r;
}
