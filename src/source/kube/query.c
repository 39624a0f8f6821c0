/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/query.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

#define PAGE_SIZE "1000"

static const struct kube_resource resources[] = {
	{ OBJECT_KIND_SERVICE, "services", "/api/v1/services",
	  .labels = "!service.kubernetes.io/service-proxy-name", .fields = "spec.clusterIP!=None" },
	{ OBJECT_KIND_SLICE, "endpointslices", "/apis/discovery.k8s.io/v1/endpointslices",
	  .labels = "!service.kubernetes.io/headless" },
	{ OBJECT_KIND_NODE, "nodes", "/api/v1/nodes" },
	{ OBJECT_KIND_SERVICE_CIDR, "servicecidrs", "/apis/networking.k8s.io/v1/servicecidrs",
	  .old_path = "/apis/networking.k8s.io/v1beta1/servicecidrs", .is_optional = true },
};

const struct kube_resource *kube_resource(enum object_kind kind)
{
	const struct kube_resource *found =
		array_find(resources, ARRAY_SIZE(resources), r, r->kind == kind);

	assert(found != NULL);
	return found;
}

bool kube_query_is_selected_list(const struct kube_query *q)
{
	return q->kind == KUBE_QUERY_LIST && q->next == NULL && q->resource->fields != NULL &&
	       !q->is_unselected;
}

static void param(struct str *ret, const char *key, const char *value)
{
	str_printf(ret, "%s%s=", strchr(str_text(ret), '?') != NULL ? "&" : "?", key);
	str_encode(ret, value);
}

/*
 * The first list accepts any version (from the server's cache); later lists must not be older.
 * Servers before 1.34 send pages of these from etcd, and a whole list from the cache.
 */
static void list_params(struct str *ret, const struct kube_query *q)
{
	bool is_from_cache = q->version[0] != '\0' && !q->is_version_lost && q->next == NULL;

	if (!q->is_unpaged && (!is_from_cache || q->has_no_cache))
		param(ret, "limit", PAGE_SIZE);
	if (q->next != NULL) {
		param(ret, "continue", q->next);
	} else if (q->version[0] == '\0') {
		param(ret, "resourceVersion", "0");
	} else if (!q->is_version_lost) {
		param(ret, "resourceVersion", q->version);
		param(ret, "resourceVersionMatch", "NotOlderThan");
	}
}

static void watch_params(struct str *ret, const struct kube_query *q)
{
	bool has_version = q->version[0] != '\0' && !q->is_version_lost;

	param(ret, "watch", "1");
	param(ret, "allowWatchBookmarks", "true");
	param(ret, "timeoutSeconds", str_local(24, "%" PRIu64, q->timeout_s));
	if (q->kind == KUBE_QUERY_WATCH_LIST) {
		param(ret, "sendInitialEvents", "true");
		param(ret, "resourceVersionMatch", "NotOlderThan");
	}
	if (q->kind == KUBE_QUERY_WATCH || has_version)
		param(ret, "resourceVersion", q->version);
}

void kube_query_text(struct str *ret, const struct kube_query *q)
{
	str_puts(ret, q->is_old_path ? q->resource->old_path : q->resource->path);
	if (q->kind == KUBE_QUERY_LIST)
		list_params(ret, q);
	else
		watch_params(ret, q);
	if (q->resource->labels != NULL)
		param(ret, "labelSelector", q->resource->labels);
	if (q->resource->fields != NULL && !q->is_unselected)
		param(ret, "fieldSelector", q->resource->fields);
	if (q->resource->kind == OBJECT_KIND_NODE) {
		AUTO(free) char *own = xasprintf("metadata.name=%s", q->node);

		param(ret, "fieldSelector", own);
	}
}
