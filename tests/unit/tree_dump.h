/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A value of decode/tree.h as JSON with sorted keys. */
#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "source/decode/tree.h"

/* Keys of all messages. */
static const char *const tree_keys[] = {
	"address",
	"addressType",
	"addresses",
	"annotations",
	"causes",
	"cidrs",
	"clientIP",
	"clusterIP",
	"clusterIPs",
	"code",
	"conditions",
	"continue",
	"creationTimestamp",
	"deletionTimestamp",
	"details",
	"endpoints",
	"endpoints.kubernetes.io/last-change-trigger-time",
	"externalIPs",
	"externalTrafficPolicy",
	"forNodes",
	"forZones",
	"healthCheckNodePort",
	"hints",
	"hostname",
	"ingress",
	"internalTrafficPolicy",
	"ip",
	"ipFamilies",
	"ipMode",
	"k8s.io/initial-events-end",
	"key",
	"kind",
	"kube-router.io/service.dsr",
	"kube-router.io/service.scheduler",
	"kubernetes.io/service-name",
	"labels",
	"loadBalancer",
	"loadBalancerSourceRanges",
	"message",
	"metadata",
	"name",
	"namespace",
	"nodeName",
	"nodePort",
	"podCIDR",
	"podCIDRs",
	"port",
	"ports",
	"protocol",
	"ready",
	"reason",
	"resourceVersion",
	"retryAfterSeconds",
	"service.kubernetes.io/headless",
	"service.kubernetes.io/service-proxy-name",
	"serving",
	"sessionAffinity",
	"sessionAffinityConfig",
	"spec",
	"status",
	"taints",
	"targetRef",
	"terminating",
	"timeoutSeconds",
	"topology.kubernetes.io/zone",
	"type",
	"vipd.io/drain-timeout",
	"vipd.io/forwarding",
	"vipd.io/scheduler",
	"vipd.io/weights",
	"zone",
};

/* A new reference to a copy that is jansson's. */
static inline json_t *tree_copy(const json_t *v)
{
	json_t *ret;

	switch (tree_type(v)) {
	case JSON_OBJECT:
		ret = json_object();
		for (size_t i = 0; i < ARRAY_SIZE(tree_keys); i++)
			if (tree_get(v, tree_keys[i]) != NULL)
				(void)json_object_set_new_nocheck(
					ret, tree_keys[i], tree_copy(tree_get(v, tree_keys[i])));
		return ret;
	case JSON_ARRAY:
		ret = json_array();
		for (size_t i = 0; i < tree_count(v); i++)
			(void)json_array_append_new(ret, tree_copy(tree_at(v, i)));
		return ret;
	case JSON_STRING:
		return json_stringn_nocheck(tree_text(v), tree_text_len(v));
	case JSON_INTEGER:
		return json_integer(tree_number(v));
	case JSON_REAL:
		return json_real(json_real_value(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return json_boolean(json_is_true(v));
	case JSON_NULL:
		break;
	}
	return json_null();
}

/* malloc'ed. */
static inline char *tree_dump(const json_t *v)
{
	json_t *copy = tree_copy(v);
	char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(copy);
	return text;
}
