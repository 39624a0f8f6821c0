/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/fields - tables of the API's fields, to report misspelled ones.
 *
 * For manifests only: an API server prunes unknown fields, or is of a later version. The tables
 * include fields that vipd does not use (section 1.7 of doc/behaviour.md). Content of labels,
 * annotations, selector, status and the Node's spec is not checked.
 */
#include <string.h>

#include "source/decode/trail.h"

struct known {
	const char *name;
	const struct known
		*of; /* fields of the value, or of the elements of a list; NULL: not checked */
};

#define END                \
	{                  \
		NULL, NULL \
	}

static const struct known meta_fields[] = {
	{ "name", NULL },
	{ "namespace", NULL },
	{ "labels", NULL },
	{ "annotations", NULL },
	{ "generateName", NULL },
	{ "uid", NULL },
	{ "resourceVersion", NULL },
	{ "generation", NULL },
	{ "creationTimestamp", NULL },
	{ "deletionTimestamp", NULL },
	{ "deletionGracePeriodSeconds", NULL },
	{ "ownerReferences", NULL },
	{ "finalizers", NULL },
	{ "managedFields", NULL },
	{ "selfLink", NULL },
	END,
};

static const struct known port_fields[] = {
	{ "name", NULL },
	{ "protocol", NULL },
	{ "port", NULL },
	{ "targetPort", NULL },
	{ "nodePort", NULL },
	{ "appProtocol", NULL },
	END,
};

static const struct known client_ip_fields[] = { { "timeoutSeconds", NULL }, END };
static const struct known affinity_fields[] = { { "clientIP", client_ip_fields }, END };

static const struct known service_spec_fields[] = {
	{ "type", NULL },
	{ "clusterIP", NULL },
	{ "clusterIPs", NULL },
	{ "ports", port_fields },
	{ "selector", NULL },
	{ "ipFamilies", NULL },
	{ "ipFamilyPolicy", NULL },
	{ "internalTrafficPolicy", NULL },
	{ "externalTrafficPolicy", NULL },
	{ "sessionAffinity", NULL },
	{ "sessionAffinityConfig", affinity_fields },
	{ "externalIPs", NULL },
	{ "healthCheckNodePort", NULL },
	{ "loadBalancerIP", NULL },
	{ "loadBalancerClass", NULL },
	{ "loadBalancerSourceRanges", NULL },
	{ "allocateLoadBalancerNodePorts", NULL },
	{ "publishNotReadyAddresses", NULL },
	{ "trafficDistribution", NULL },
	{ "externalName", NULL },
	END,
};

static const struct known conditions_fields[] = {
	{ "ready", NULL },
	{ "serving", NULL },
	{ "terminating", NULL },
	END,
};

static const struct known hints_fields[] = { { "forZones", NULL }, { "forNodes", NULL }, END };

static const struct known endpoint_fields[] = {
	{ "addresses", NULL }, { "conditions", conditions_fields }, { "nodeName", NULL },
	{ "zone", NULL },      { "hints", hints_fields },           { "targetRef", NULL },
	{ "hostname", NULL },  { "deprecatedTopology", NULL },      END,
};

static const struct known slice_port_fields[] = {
	{ "name", NULL }, { "protocol", NULL }, { "port", NULL }, { "appProtocol", NULL }, END,
};

static const struct known cidr_spec_fields[] = { { "cidrs", NULL }, END };

#define TYPE                                      \
	{ "apiVersion", NULL }, { "kind", NULL }, \
	{                                         \
		"metadata", meta_fields           \
	}

static const struct known service_fields[] = {
	TYPE,
	{ "spec", service_spec_fields },
	{ "status", NULL },
	END,
};
static const struct known slice_fields[] = {
	TYPE,
	{ "addressType", NULL },
	{ "endpoints", endpoint_fields },
	{ "ports", slice_port_fields },
	END,
};
static const struct known node_fields[] = { TYPE, { "spec", NULL }, { "status", NULL }, END };
static const struct known cidr_fields[] = {
	TYPE,
	{ "spec", cidr_spec_fields },
	{ "status", NULL },
	END,
};

static const struct known *known_of(enum object_kind kind)
{
	switch (kind) {
	case OBJECT_KIND_SERVICE:
		return service_fields;
	case OBJECT_KIND_SLICE:
		return slice_fields;
	case OBJECT_KIND_NODE:
		return node_fields;
	case OBJECT_KIND_SERVICE_CIDR:
		return cidr_fields;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	return NULL;
}

static const struct known *known_find(const struct known *known, const char *key)
{
	for (; known->name != NULL; known++)
		if (strcmp(known->name, key) == 0)
			return known;
	return NULL;
}

static bool object_check(const json_t *obj, const struct known *known, struct decode *d);

/* Report the first element with unknown fields only: lists repeat their mistakes. */
static bool list_check(const json_t *list, const struct known *known, struct decode *d)
{
	bool has_unknown = false;

	trail_into(d);
	for (size_t i = 0; i < json_array_size(list) && !has_unknown; i++) {
		const json_t *element = trail_element(d, list, i);

		trail_into(d);
		has_unknown = object_check(element, known, d);
		trail_out(d);
	}
	trail_out(d);
	return has_unknown;
}

/* True: a field is unknown. The decoder checks the types of values. */
static bool object_check(const json_t *obj, const struct known *known, struct decode *d)
{
	const char *key;
	json_t *v;
	bool has_unknown = false;

	/* jansson's macro takes a pointer without const; it does not write. */
	json_object_foreach ((json_t *)(uintptr_t)obj, key, v) {
		const struct known *k = known_find(known, key);

		(void)trail_field(d, obj, key);
		if (k == NULL) {
			has_unknown = true;
			if (d->is_strict)
				(void)trail_refuse(d, "unknown field");
			trail_note(d, "unknown field, ignored");
		} else if (k->of != NULL && json_is_array(v)) {
			has_unknown |= list_check(v, k->of, d);
		} else if (k->of != NULL) {
			trail_into(d);
			has_unknown |= object_check(v, k->of, d);
			trail_out(d);
		}
	}
	return has_unknown;
}

int decode_fields(enum object_kind kind, const json_t *obj, struct decode *d, struct err *err)
{
	trail_start(d, err);
	(void)object_check(obj, known_of(kind), d);
	return d->r;
}
