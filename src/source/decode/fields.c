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

static int object_check(const json_t *obj, const struct known *known, struct decode *d,
			struct err *err);

/* Report the first element with unknown fields only: lists repeat their mistakes. */
static int list_check(const json_t *list, const struct known *known, struct decode *d,
		      struct err *err)
{
	int r = 0;

	trail_into(d);
	for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
		const json_t *element = trail_element(d, list, i);

		trail_into(d);
		r = object_check(element, known, d, err);
		if (r >= 0)
			trail_out(d);
	}
	if (r >= 0)
		trail_out(d);
	return r;
}

/* 1: a field was noted. The decoder checks the types of values. */
static int object_check(const json_t *obj, const struct known *known, struct decode *d,
			struct err *err)
{
	const char *key;
	json_t *v;
	int found = 0;

	/* jansson's macro takes a pointer without const; it does not write. */
	json_object_foreach ((json_t *)(uintptr_t)obj, key, v) {
		const struct known *k = known_find(known, key);
		int r = 1;

		(void)trail_field(d, obj, key);
		if (k == NULL && d->is_strict)
			return trail_refuse(d, err, "unknown field");
		if (k == NULL) {
			trail_note(d, "unknown field, ignored");
		} else if (k->of != NULL && json_is_array(v)) {
			r = list_check(v, k->of, d, err);
		} else if (k->of != NULL) {
			trail_into(d);
			r = object_check(v, k->of, d, err);
			if (r >= 0)
				trail_out(d);
		} else {
			r = 0;
		}
		if (r < 0)
			return r;
		found |= r;
	}
	return found;
}

int decode_fields(enum object_kind kind, const json_t *obj, struct decode *d, struct err *err)
{
	trail_start(d);
	return MIN(object_check(obj, known_of(kind), d, err), 0);
}
