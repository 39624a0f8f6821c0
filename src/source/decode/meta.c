/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/decode/meta.h"

#include <errno.h>
#include <string.h>

static const struct kind_row {
	const char *name;
	const char *version; /* apiVersion */
	const char *old;     /* another one; NULL: none */
	enum object_kind kind;
} kinds[] = {
	{ "Service", "v1", NULL, OBJECT_KIND_SERVICE },
	{ "EndpointSlice", "discovery.k8s.io/v1", NULL, OBJECT_KIND_SLICE },
	{ "Node", "v1", NULL, OBJECT_KIND_NODE },
	{ "ServiceCIDR", "networking.k8s.io/v1", "networking.k8s.io/v1beta1",
	  OBJECT_KIND_SERVICE_CIDR },
	{ "List", "v1", NULL, OBJECT_KIND_LIST },
};

const char *object_kind_text(enum object_kind kind)
{
	const struct kind_row *row = array_find(kinds, ARRAY_SIZE(kinds), k, k->kind == kind);

	return row != NULL ? row->name : "object";
}

void object_title(struct str *ret, enum object_kind kind, const struct name *ns,
		  const struct name *name)
{
	if (name == NULL)
		str_puts(ret, kind == OBJECT_KIND_OTHER ? "document" : object_kind_text(kind));
	else
		str_printf(ret, "%s %s%s%s", object_kind_text(kind), name_text(ns), ns ? "/" : "",
			   name->text);
}

/* Length of the group in "group/version"; 0: the core group. */
static size_t group_len(const char *api)
{
	const char *slash = strrchr(api, '/');

	return slash != NULL ? (size_t)(slash - api) : 0;
}

/* Compare "group/version" with the row; another group is another kind. */
static int match_version(enum object_kind *ret, const struct kind_row *row, const char *api,
			 struct decode *d)
{
	const char *version = row->version;
	size_t len = group_len(api);
	/* "/v1" is of the core group, too. */
	const char *full = len == 0 && api[0] == '/' ? api + 1 : api;
	bool is_known =
		strcmp(full, version) == 0 || (row->old != NULL && strcmp(full, row->old) == 0);

	if (!is_known && group_len(version) == len && strncmp(version, api, len) == 0)
		return trail_reject(d, "'%.64s' is not supported, use '%s'", api, version);
	*ret = is_known ? row->kind : OBJECT_KIND_OTHER;
	return 0;
}

static bool is_list_name(const char *name, size_t *len)
{
	*len = strlen(name);
	if (*len <= strlen("List") || strcmp(name + *len - strlen("List"), "List") != 0)
		return false;
	*len -= strlen("List");
	return true;
}

int decode_kind(enum object_kind *ret, enum object_kind *items, const json_t *obj, struct decode *d,
		struct err *err)
{
	const char *name;
	const char *api;
	bool is_list;
	size_t len;
	const struct kind_row *row;

	trail_start(d, err);
	if (!tree_is(obj, JSON_OBJECT))
		return trail_reject(d, "not an object");
	name = trail_required(d, obj, "kind");
	api = trail_required(d, obj, "apiVersion");
	if (d->r < 0)
		return d->r;
	is_list = is_list_name(name, &len);
	*items = OBJECT_KIND_LIST;
	row = array_find(kinds, ARRAY_SIZE(kinds), k,
			 strlen(k->name) == len && strncmp(k->name, name, len) == 0);
	if (row == NULL) {
		*ret = is_list ? OBJECT_KIND_LIST : OBJECT_KIND_OTHER;
		*items = OBJECT_KIND_OTHER;
		return 0;
	}
	if (!is_list)
		return match_version(ret, row, api, d);
	*ret = OBJECT_KIND_LIST;
	return match_version(items, row, api, d);
}

/* --- names ---------------------------------------------------------------- */

static bool is_label(const char *text, size_t len)
{
	if (len == 0 || text[0] == '-' || text[len - 1] == '-')
		return false;
	for (const char *c = text; c < text + len; c++)
		if (!(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9') && *c != '-')
			return false;
	return true;
}

bool is_dns_label(const char *text)
{
	size_t len = strlen(text);

	return len <= DNS_LABEL_MAX && is_label(text, len);
}

bool is_dns_subdomain(const char *text)
{
	if (strlen(text) > DNS_SUBDOMAIN_MAX)
		return false;
	for (;;) {
		size_t len = strcspn(text, ".");

		if (!is_label(text, len))
			return false;
		if (text[len] == '\0')
			return true;
		text += len + 1;
	}
}

static void reject_name(struct decode *d, const char *text, bool needs_label)
{
	size_t max = needs_label ? DNS_LABEL_MAX : DNS_SUBDOMAIN_MAX;

	if (strlen(text) > max)
		(void)trail_reject(d, "%zu characters, at most %zu", strlen(text), max);
	else
		(void)trail_reject(d,
				   "'%.64s' is not a name (lower-case letters, digits and '-'%s)",
				   text, needs_label ? "" : " or '.'");
}

static const char *namespace_read(const struct meta *m, struct decode *d)
{
	const char *ns = trail_text(d, m->obj, "namespace");

	if (ns == NULL || ns[0] == '\0')
		ns = d->default_ns;
	if (ns == NULL)
		(void)trail_reject(d, "missing");
	else if (!is_dns_label(ns))
		reject_name(d, ns, true);
	return ns;
}

struct meta meta_read(enum object_kind kind, const json_t *obj, struct decode *d, struct err *err)
{
	bool is_service = kind == OBJECT_KIND_SERVICE;
	struct meta m = { .root = obj };

	trail_start(d, err);
	if (!tree_is(obj, JSON_OBJECT))
		(void)trail_reject(d, "not an object");
	m.obj = trail_enter(d, obj, "metadata");
	if (is_service || kind == OBJECT_KIND_SLICE)
		m.ns = namespace_read(&m, d);
	m.name = trail_required(d, m.obj, "name");
	if (d->r == 0 && !(is_service ? is_dns_label(m.name) : is_dns_subdomain(m.name)))
		reject_name(d, m.name, is_service);
	trail_out(d);
	return m;
}

int decode_key(const struct name **ns, const struct name **name, enum object_kind kind,
	       const json_t *obj, struct decode *d, struct err *err)
{
	struct meta m = meta_read(kind, obj, d, err);

	if (d->r < 0)
		return d->r;
	*ns = m.ns ? name_get_str(m.ns) : NULL;
	*name = name_get_str(m.name);
	return 0;
}

void meta_value_at(const struct meta *m, const char *list, const char *key, struct decode *d)
{
	(void)trail_enter(d, m->root, "metadata");
	(void)trail_field(d, m->obj, list);
	trail_into(d);
	(void)trail_field(d, tree_get(m->obj, list), key);
}

const char *meta_label(const struct meta *m, const char *key, struct decode *d)
{
	const json_t *labels;
	const char *text;

	(void)trail_enter(d, m->root, "metadata");
	labels = trail_enter(d, m->obj, "labels");
	text = trail_text(d, labels, key);
	/* The API server stores null in a map of strings as "". */
	if (text == NULL && tree_is(tree_get(labels, key), JSON_NULL))
		text = "";
	trail_out(d);
	trail_out(d);
	return text;
}

const char *meta_annotation(const struct meta *m, const char *key)
{
	return tree_word(tree_get(tree_get(m->obj, "annotations"), key));
}

/* --- values --------------------------------------------------------------- */

uint8_t trail_proto(struct decode *d, const json_t *obj)
{
	const char *text = trail_text(d, obj, "protocol");
	uint8_t proto = (uint8_t)l4proto_parse(text);

	if (proto == L4PROTO_UNSET)
		trail_note(d, "'%.64s' is not TCP, UDP or SCTP, the port is skipped", text);
	return proto;
}

static bool is_host(const struct ip_addr *a)
{
	static const uint8_t ones[4] = { 255, 255, 255, 255 };

	if (ip_addr_is_any(a))
		return false;
	if (a->family == AF_INET6)
		return a->bytes[0] != 0xff;
	return (a->bytes[0] & 0xf0) != 0xe0 && memcmp(a->bytes, ones, sizeof(ones)) != 0;
}

bool decode_address(struct ip_addr *ret, const char *text, const char *effect, struct decode *d)
{
	struct ip_addr a;
	struct err why;
	int r = ip_addr_parse(&a, text ?: "", &why);

	if (r == 0)
		a = ip_addr_unmapped(&a);
	if (r == 0 && !is_host(&a))
		r = err_set(&why, -EINVAL, "'%.64s' is not the address of a host", text);
	if (r == 0)
		*ret = a;
	else if (effect == NULL)
		(void)trail_reject(d, "%s", why.text);
	else
		trail_note(d, "%s, %s", why.text, effect);
	return r == 0;
}

const struct name *decode_port_name(const char *text, struct decode *d)
{
	if (text != NULL && text[0] != '\0' && !is_dns_label(text))
		reject_name(d, text, true);
	return d->r == 0 ? name_get_str(text ? text : "") : NULL;
}
