/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/attr.h"

#include <endian.h>
#include <string.h>

#include "base/util.h"

static void table_clear(const struct nlattr **tb, uint16_t max)
{
	for (size_t i = 0; i <= max; i++)
		tb[i] = NULL;
}

static void table_fill(const struct nlattr **tb, uint16_t max, const struct nlattr *a, size_t bytes)
{
	table_clear(tb, max);
	while (bytes >= sizeof(*a) && a->nla_len >= sizeof(*a) && a->nla_len <= bytes) {
		size_t step = MIN((size_t)MNL_ALIGN(a->nla_len), bytes);
		uint16_t type = mnl_attr_get_type(a);

		if (type <= max)
			tb[type] = a;
		bytes -= step;
		a = (const void *)((const char *)a + step);
	}
}

void nl_attr_table(const struct nlattr **tb, uint16_t max, const struct nlmsghdr *h, size_t offset)
{
	size_t head = MNL_NLMSG_HDRLEN + MNL_ALIGN(offset);

	if (h->nlmsg_len < head) {
		table_clear(tb, max);
		return;
	}
	table_fill(tb, max, (const void *)((const char *)h + head), h->nlmsg_len - head);
}

void nl_attr_nest(const struct nlattr **tb, uint16_t max, const struct nlattr *nest)
{
	if (nest == NULL) {
		table_clear(tb, max);
		return;
	}
	table_fill(tb, max, mnl_attr_get_payload(nest), mnl_attr_get_payload_len(nest));
}

const struct nlattr *nl_attr_next(const struct nlattr *nest, const struct nlattr *prev)
{
	const char *end, *at;
	const struct nlattr *a;

	if (nest == NULL)
		return NULL;
	end = (const char *)nest + nest->nla_len;
	at = prev == NULL ? mnl_attr_get_payload(nest)
			  : (const char *)prev + MNL_ALIGN(prev->nla_len);
	if (at > end || (size_t)(end - at) < sizeof(*a))
		return NULL;
	a = (const void *)at;
	if (a->nla_len < sizeof(*a) || a->nla_len > (size_t)(end - at))
		return NULL;
	return a;
}

const struct nlattr *nl_attr_find(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *found = NULL;

	nl_attr_for_each (a, nest)
		if (mnl_attr_get_type(a) == type)
			found = a;
	return found;
}

const void *nl_attr_bytes(const struct nlattr *a, size_t len)
{
	return a != NULL && mnl_attr_get_payload_len(a) >= len ? mnl_attr_get_payload(a) : NULL;
}

/* Copy the payload to `*v`, if it has at least `len` bytes. */
static bool read_to(void *v, size_t len, const struct nlattr *a)
{
	const void *p = nl_attr_bytes(a, len);

	if (p != NULL)
		memcpy(v, p, len);
	return p != NULL;
}

uint16_t nl_attr_u16(const struct nlattr *a, uint16_t fallback)
{
	uint16_t v;

	return read_to(&v, sizeof(v), a) ? v : fallback;
}

uint32_t nl_attr_u32(const struct nlattr *a, uint32_t fallback)
{
	uint32_t v;

	return read_to(&v, sizeof(v), a) ? v : fallback;
}

uint32_t nl_attr_be32(const struct nlattr *a, uint32_t fallback)
{
	uint32_t v;

	return read_to(&v, sizeof(v), a) ? be32toh(v) : fallback;
}

uint64_t nl_attr_be64(const struct nlattr *a, uint64_t fallback)
{
	uint64_t v;

	return read_to(&v, sizeof(v), a) ? be64toh(v) : fallback;
}

const char *nl_attr_str(const struct nlattr *a)
{
	const char *s = nl_attr_bytes(a, 1);

	return s != NULL && memchr(s, '\0', mnl_attr_get_payload_len(a)) != NULL ? s : "";
}
