/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/proto_objects - tables of the messages, and one function that reads all of them.
 *
 * A new field needs one entry of its MESSAGE(). Of labels and annotations, which can have hundreds
 * of kilobytes, only those that vipd reads are kept.
 */
#include "source/kube/proto_objects.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum field_type {
	FIELD_TEXT = 1,    /* "" means absent */
	FIELD_TEXT_OR_NIL, /* optional in the API: "" is a value */
	FIELD_INT,         /* 0 means absent */
	FIELD_INT_OR_NIL,
	FIELD_BOOL_OR_NIL,
	FIELD_MESSAGE,
	FIELD_TIME, /* metav1.Time, as RFC 3339 */
	FIELD_TEXTS,
	FIELD_MESSAGES,
	FIELD_MAP, /* of text to text; the keys in `kept_keys` */
};

struct message;

struct field {
	uint32_t number;
	enum field_type type;
	const char *name;
	const struct message *of; /* FIELD_MESSAGE, FIELD_MESSAGES */
};

struct message {
	const struct field *fields;
	size_t n;
};

#define MESSAGE(name, ...)                                           \
	static const struct field name##_fields[] = { __VA_ARGS__ }; \
	static const struct message name = { name##_fields, ARRAY_SIZE(name##_fields) }

/* --- messages ------------------------------------------------------------- */

/* Labels and annotations. */
static const char *const kept_keys[] = {
	"kubernetes.io/service-name",
	"service.kubernetes.io/headless",
	"service.kubernetes.io/service-proxy-name",
	"topology.kubernetes.io/zone",
	"endpoints.kubernetes.io/last-change-trigger-time",
	"k8s.io/initial-events-end",
	"vipd.io/scheduler",
	"vipd.io/weights",
	"vipd.io/drain-timeout",
	"vipd.io/forwarding",
	"kube-router.io/service.scheduler",
	"kube-router.io/service.dsr",
};

#define OBJECT_META                                                                \
	{ 1, FIELD_TEXT, "name" }, { 3, FIELD_TEXT, "namespace" },                 \
		{ 6, FIELD_TEXT, "resourceVersion" }, { 11, FIELD_MAP, "labels" }, \
	{                                                                          \
		12, FIELD_MAP, "annotations"                                       \
	}

MESSAGE(object_meta, OBJECT_META);
MESSAGE(service_meta, OBJECT_META, { 8, FIELD_TIME, "creationTimestamp" });
MESSAGE(node_meta, OBJECT_META, { 9, FIELD_TIME, "deletionTimestamp" });

/* Name and version of a malformed object. */
MESSAGE(identity_meta, { 1, FIELD_TEXT, "name" }, { 3, FIELD_TEXT, "namespace" },
	{ 6, FIELD_TEXT, "resourceVersion" });
MESSAGE(list_meta, { 2, FIELD_TEXT, "resourceVersion" }, { 3, FIELD_TEXT, "continue" });

MESSAGE(service_port, { 1, FIELD_TEXT, "name" }, { 2, FIELD_TEXT, "protocol" },
	{ 3, FIELD_INT, "port" }, { 5, FIELD_INT, "nodePort" });
MESSAGE(client_ip, { 1, FIELD_INT_OR_NIL, "timeoutSeconds" });
MESSAGE(affinity_config, { 1, FIELD_MESSAGE, "clientIP", &client_ip });
MESSAGE(service_spec, { 1, FIELD_MESSAGES, "ports", &service_port }, { 3, FIELD_TEXT, "clusterIP" },
	{ 4, FIELD_TEXT, "type" }, { 5, FIELD_TEXTS, "externalIPs" },
	{ 7, FIELD_TEXT, "sessionAffinity" }, { 9, FIELD_TEXTS, "loadBalancerSourceRanges" },
	{ 11, FIELD_TEXT, "externalTrafficPolicy" }, { 12, FIELD_INT, "healthCheckNodePort" },
	{ 14, FIELD_MESSAGE, "sessionAffinityConfig", &affinity_config },
	{ 18, FIELD_TEXTS, "clusterIPs" }, { 19, FIELD_TEXTS, "ipFamilies" },
	{ 22, FIELD_TEXT_OR_NIL, "internalTrafficPolicy" });
MESSAGE(ingress, { 1, FIELD_TEXT, "ip" }, { 3, FIELD_TEXT_OR_NIL, "ipMode" });
MESSAGE(load_balancer, { 1, FIELD_MESSAGES, "ingress", &ingress });
MESSAGE(service_status, { 1, FIELD_MESSAGE, "loadBalancer", &load_balancer });
MESSAGE(service, { 1, FIELD_MESSAGE, "metadata", &service_meta },
	{ 2, FIELD_MESSAGE, "spec", &service_spec },
	{ 3, FIELD_MESSAGE, "status", &service_status });

MESSAGE(conditions, { 1, FIELD_BOOL_OR_NIL, "ready" }, { 2, FIELD_BOOL_OR_NIL, "serving" },
	{ 3, FIELD_BOOL_OR_NIL, "terminating" });
MESSAGE(target, { 1, FIELD_TEXT, "kind" }, { 3, FIELD_TEXT, "name" });

/* ForZone and ForNode. */
MESSAGE(hint, { 1, FIELD_TEXT, "name" });
MESSAGE(hints, { 1, FIELD_MESSAGES, "forZones", &hint }, { 2, FIELD_MESSAGES, "forNodes", &hint });
MESSAGE(endpoint, { 1, FIELD_TEXTS, "addresses" }, { 2, FIELD_MESSAGE, "conditions", &conditions },
	{ 4, FIELD_MESSAGE, "targetRef", &target }, { 6, FIELD_TEXT_OR_NIL, "nodeName" },
	{ 7, FIELD_TEXT_OR_NIL, "zone" }, { 8, FIELD_MESSAGE, "hints", &hints });
MESSAGE(slice_port, { 1, FIELD_TEXT_OR_NIL, "name" }, { 2, FIELD_TEXT_OR_NIL, "protocol" },
	{ 3, FIELD_INT_OR_NIL, "port" });
MESSAGE(slice, { 1, FIELD_MESSAGE, "metadata", &object_meta },
	{ 2, FIELD_MESSAGES, "endpoints", &endpoint }, { 3, FIELD_MESSAGES, "ports", &slice_port },
	{ 4, FIELD_TEXT, "addressType" });

MESSAGE(taint, { 1, FIELD_TEXT, "key" });
MESSAGE(node_spec, { 1, FIELD_TEXT, "podCIDR" }, { 5, FIELD_MESSAGES, "taints", &taint },
	{ 7, FIELD_TEXTS, "podCIDRs" });
MESSAGE(node_address, { 1, FIELD_TEXT, "type" }, { 2, FIELD_TEXT, "address" });
MESSAGE(node_status, { 5, FIELD_MESSAGES, "addresses", &node_address });
MESSAGE(node, { 1, FIELD_MESSAGE, "metadata", &node_meta },
	{ 2, FIELD_MESSAGE, "spec", &node_spec }, { 3, FIELD_MESSAGE, "status", &node_status });

MESSAGE(service_cidr_spec, { 1, FIELD_TEXTS, "cidrs" });
MESSAGE(service_cidr, { 1, FIELD_MESSAGE, "metadata", &object_meta },
	{ 2, FIELD_MESSAGE, "spec", &service_cidr_spec });

MESSAGE(cause, { 1, FIELD_TEXT, "reason" });
MESSAGE(details, { 4, FIELD_MESSAGES, "causes", &cause });
MESSAGE(status, { 3, FIELD_TEXT, "message" }, { 4, FIELD_TEXT, "reason" },
	{ 5, FIELD_MESSAGE, "details", &details }, { 6, FIELD_INT, "code" });

/* --- reading -------------------------------------------------------------- */

struct reader {
	struct tree_pool *pool;
	size_t budget; /* values left of PROTO_COST_MAX, for all levels of one object */
};

static int message_read(json_t **ret, struct reader *rd, const struct message *m, struct proto p,
			struct err *err);

/*
 * The API server accepts any bytes in texts that it does not interpret, such as annotations; in its
 * JSON, too, they are U+FFFD.
 */
static json_t *text_read(struct reader *rd, const struct proto_field *f)
{
	FINI(str_fini) struct str text = { 0 };

	if (str_is_utf8((const char *)f->data, f->len))
		return tree_new_text(rd->pool, f->data, f->len);
	str_add_utf8(&text, (const char *)f->data, f->len);
	return tree_new_text(rd->pool, text.text, text.len);
}

/* Fields of metav1.Time: 1 seconds; 2 nanos, which its JSON form lacks, too. */
static int time_read(json_t **ret, struct reader *rd, const struct proto_field *f, struct err *err)
{
	struct proto p = proto_over(f->data, f->len);
	struct proto_field part;
	time_t seconds = 0;
	char text[40];
	struct tm tm;
	size_t len;
	int r;

	while ((r = proto_next(&part, &p, err)) > 0)
		if (part.number == 1 && part.type == PROTO_VARINT)
			seconds = (time_t)part.value;
	if (r < 0)
		return r;
	len = gmtime_r(&seconds, &tm) == NULL
		      ? 0
		      : strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (len == 0)
		return err_set(err, -EBADMSG, "not a time");
	*ret = tree_new_text(rd->pool, text, len);
	return 0;
}

/* The list or map of the field in `obj`, created for its first entry. */
static json_t *container(json_t *obj, struct reader *rd, const struct field *fd)
{
	json_t *c = (json_t *)(uintptr_t)tree_get(obj, fd->name);

	if (c == NULL) {
		c = tree_new(rd->pool, fd->type == FIELD_MAP ? JSON_OBJECT : JSON_ARRAY);
		tree_set(obj, fd->name, c);
	}
	return c;
}

static const char *kept_key(const struct proto_field *key)
{
	const char *const *found =
		array_find(kept_keys, ARRAY_SIZE(kept_keys), k,
			   strlen(*k) == key->len && memcmp(*k, key->data, key->len) == 0);

	return found != NULL ? *found : NULL;
}

/* Fields of a map entry: 1 key, 2 value. */
static int entry_read(json_t *obj, struct reader *rd, const struct field *fd,
		      const struct proto_field *f, struct err *err)
{
	struct proto_field part[2];
	int r = proto_fields(part, ARRAY_SIZE(part), f->data, f->len, err);
	const char *text = r == 0 ? kept_key(&part[0]) : NULL;

	if (text != NULL)
		tree_set(container(obj, rd, fd), text, text_read(rd, &part[1]));
	return r;
}

/* A value that means absent. */
static bool is_nothing(const struct field *fd, const struct proto_field *f)
{
	return fd->type == FIELD_INT
		       ? f->value == 0
		       : f->len == 0 && (fd->type == FIELD_TEXT || fd->type == FIELD_TIME);
}

/* Read one value of the field's type; `ret` is NULL if it means absent, and for an entry of a map.
 */
static int value_read(json_t **ret, json_t *obj, struct reader *rd, const struct field *fd,
		      const struct proto_field *f, struct err *err)
{
	bool is_number = fd->type == FIELD_INT || fd->type == FIELD_INT_OR_NIL ||
			 fd->type == FIELD_BOOL_OR_NIL;

	*ret = NULL;
	if (rd->budget == 0)
		return err_set(err, -E2BIG, "more than %d values, the limit of an object",
			       PROTO_COST_MAX);
	rd->budget--;
	if (f->type != (is_number ? PROTO_VARINT : PROTO_BYTES))
		return err_set(err, -EBADMSG, "wire type %d", (int)f->type);
	if (is_nothing(fd, f))
		return 0;
	switch (fd->type) {
	case FIELD_TEXT:
	case FIELD_TEXT_OR_NIL:
	case FIELD_TEXTS:
		*ret = text_read(rd, f);
		return 0;
	case FIELD_INT:
	case FIELD_INT_OR_NIL:
		*ret = tree_new_number(rd->pool, (int64_t)f->value);
		return 0;
	case FIELD_BOOL_OR_NIL:
		*ret = tree_new(rd->pool, f->value != 0 ? JSON_TRUE : JSON_FALSE);
		return 0;
	case FIELD_MESSAGE:
	case FIELD_MESSAGES:
		return message_read(ret, rd, fd->of, proto_over(f->data, f->len), err);
	case FIELD_TIME:
		return time_read(ret, rd, f, err);
	case FIELD_MAP:
		return entry_read(obj, rd, fd, f, err);
	}
	return 0;
}

static int field_read(json_t *obj, struct reader *rd, const struct field *fd,
		      const struct proto_field *f, struct err *err)
{
	bool is_list = fd->type == FIELD_TEXTS || fd->type == FIELD_MESSAGES;
	json_t *v;
	int r = value_read(&v, obj, rd, fd, f, err);

	if (r < 0 && is_list)
		return err_wrap(err, r, "%s[%zu]", fd->name, tree_count(tree_get(obj, fd->name)));
	if (r < 0)
		return err_wrap(err, r, "%s", fd->name);
	if (is_list)
		tree_append(container(obj, rd, fd), v);
	else if (v != NULL)
		tree_set(obj, fd->name, v);
	return 0;
}

static int message_read(json_t **ret, struct reader *rd, const struct message *m, struct proto p,
			struct err *err)
{
	struct proto_field f;
	int r = 0;

	*ret = tree_new(rd->pool, JSON_OBJECT);
	while (r >= 0 && (r = proto_next(&f, &p, err)) > 0) {
		const struct field *fd = array_find(m->fields, m->n, k, k->number == f.number);

		if (fd != NULL)
			r = field_read(*ret, rd, fd, &f, err);
	}
	return r;
}

int proto_object(const json_t **ret, struct tree_pool *pool, enum object_kind kind,
		 const void *data, size_t len, struct err *err)
{
	static const struct message *const messages[] = {
		[OBJECT_KIND_OTHER] = &status,   [OBJECT_KIND_SERVICE] = &service,
		[OBJECT_KIND_SLICE] = &slice,    [OBJECT_KIND_NODE] = &node,
		[OBJECT_KIND_LIST] = &list_meta, [OBJECT_KIND_SERVICE_CIDR] = &service_cidr,
	};
	struct reader rd = { .pool = pool, .budget = PROTO_COST_MAX };
	json_t *obj;
	int r = message_read(&obj, &rd, messages[kind], proto_over(data, len), err);

	if (r == 0)
		*ret = obj;
	return r;
}

int proto_identity(const json_t **ret, struct tree_pool *pool, struct proto object, struct err *err)
{
	struct reader rd = { .pool = pool, .budget = PROTO_COST_MAX };
	json_t *obj;
	json_t *meta;
	int r;

	if (!proto_enter(&object, 1))
		return err_set(err, -EBADMSG, "no metadata");
	r = message_read(&meta, &rd, &identity_meta, object, err);
	if (r < 0)
		return r;
	obj = tree_new(pool, JSON_OBJECT);
	tree_set(obj, "metadata", meta);
	*ret = obj;
	return 0;
}

/* --- the envelope --------------------------------------------------------- */

/* Fields of TypeMeta: 1 apiVersion, 2 kind. */
int proto_kind_read(char ret[static PROTO_KIND_MAX], const void *data, size_t len, struct err *err)
{
	struct proto_field f[2];
	int r = proto_fields(f, ARRAY_SIZE(f), data, len, err);

	if (r < 0)
		return r;
	if (f[1].len >= PROTO_KIND_MAX || memchr(f[1].data, 0, f[1].len) != NULL ||
	    !str_is_utf8((const char *)f[1].data, f[1].len))
		return err_set(err, -EBADMSG, "kind: invalid");
	memcpy(ret, f[1].data, f[1].len);
	ret[f[1].len] = '\0';
	return 0;
}

/* Fields: 1 TypeMeta, 2 raw. */
int proto_envelope_read(struct proto_envelope *ret, const void *data, size_t len, struct err *err)
{
	struct proto_field f[2];
	int r;

	if (len < PROTO_MAGIC_LEN || memcmp(data, PROTO_MAGIC, PROTO_MAGIC_LEN) != 0)
		return err_set(err, -EBADMSG, "no magic bytes of Kubernetes' protobuf");
	r = proto_fields(f, ARRAY_SIZE(f), (const uint8_t *)data + PROTO_MAGIC_LEN,
			 len - PROTO_MAGIC_LEN, err);
	if (r == 0)
		r = proto_kind_read(ret->kind, f[0].data, f[0].len, err);
	if (r < 0)
		return err_wrap(err, r, "envelope");
	ret->raw = f[1].data;
	ret->raw_len = f[1].len;
	return 0;
}
