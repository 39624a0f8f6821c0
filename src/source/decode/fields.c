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
	const char *names; /* separated by blanks; values are not checked */
	/* Fields whose values, or whose elements, are checked. */
	struct {
		const char *name;
		const struct known *of;
	} nested[3];
};

static const struct known meta = {
	"name namespace labels annotations generateName uid resourceVersion generation "
	"creationTimestamp deletionTimestamp deletionGracePeriodSeconds ownerReferences "
	"finalizers managedFields selfLink"
};

static const struct known service_port = { "name protocol port targetPort nodePort appProtocol" };
static const struct known client_ip = { "timeoutSeconds" };
static const struct known affinity = { "", { { "clientIP", &client_ip } } };
static const struct known service_spec = {
	"type clusterIP clusterIPs selector ipFamilies ipFamilyPolicy internalTrafficPolicy "
	"externalTrafficPolicy sessionAffinity externalIPs healthCheckNodePort loadBalancerIP "
	"loadBalancerClass loadBalancerSourceRanges allocateLoadBalancerNodePorts "
	"publishNotReadyAddresses trafficDistribution externalName",
	{ { "ports", &service_port }, { "sessionAffinityConfig", &affinity } }
};
static const struct known service = { "apiVersion kind status",
				      { { "metadata", &meta }, { "spec", &service_spec } } };

static const struct known conditions = { "ready serving terminating" };
static const struct known hints = { "forZones forNodes" };
static const struct known endpoint = {
	"addresses nodeName zone targetRef hostname deprecatedTopology",
	{ { "conditions", &conditions }, { "hints", &hints } }
};
static const struct known slice_port = { "name protocol port appProtocol" };
static const struct known slice = {
	"apiVersion kind addressType",
	{ { "metadata", &meta }, { "endpoints", &endpoint }, { "ports", &slice_port } }
};

static const struct known node = { "apiVersion kind spec status", { { "metadata", &meta } } };
static const struct known cidr_spec = { "cidrs" };
static const struct known cidr = { "apiVersion kind status",
				   { { "metadata", &meta }, { "spec", &cidr_spec } } };

/* `*of`: the fields of its value; NULL: not checked. */
static bool is_known(const struct known *known, const char *key, const struct known **of)
{
	*of = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(known->nested) && known->nested[i].name != NULL; i++)
		if (strcmp(known->nested[i].name, key) == 0) {
			*of = known->nested[i].of;
			return true;
		}
	return str_words_find(known->names, key, strlen(key)) >= 0;
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
		const struct known *of;

		(void)trail_field(d, obj, key);
		if (!is_known(known, key, &of)) {
			has_unknown = true;
			if (d->is_strict)
				(void)trail_reject(d, "unknown field");
			trail_note(d, "unknown field, ignored");
		} else if (of != NULL && json_is_array(v)) {
			has_unknown |= list_check(v, of, d);
		} else if (of != NULL) {
			trail_into(d);
			has_unknown |= object_check(v, of, d);
			trail_out(d);
		}
	}
	return has_unknown;
}

int decode_fields(enum object_kind kind, const json_t *obj, struct decode *d, struct err *err)
{
	static const struct known *const kinds[] = {
		[OBJECT_KIND_SERVICE] = &service,
		[OBJECT_KIND_SLICE] = &slice,
		[OBJECT_KIND_NODE] = &node,
		[OBJECT_KIND_SERVICE_CIDR] = &cidr,
	};

	trail_start(d, err);
	(void)object_check(obj, kinds[kind], d);
	return d->r;
}
