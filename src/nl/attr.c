/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/attr.h"

#include <endian.h>
#include <string.h>

/* The whole attribute at `at`, or NULL: no more before `end`. */
static const struct nlattr *attr_at(const char *at, const char *end)
{
	const struct nlattr *a = (const void *)at;

	if (at > end || (size_t)(end - at) < sizeof(*a))
		return NULL;
	return a->nla_len >= sizeof(*a) && a->nla_len <= end - at ? a : NULL;
}

static const struct nlattr *attr_after(const struct nlattr *a, const char *end)
{
	return attr_at((const char *)a + MNL_ALIGN(a->nla_len), end);
}

static void table_fill(const struct nlattr **tb, uint16_t max, const char *at, const char *end)
{
	for (size_t i = 0; i <= max; i++)
		tb[i] = NULL;
	for (const struct nlattr *a = attr_at(at, end); a != NULL; a = attr_after(a, end))
		if (mnl_attr_get_type(a) <= max)
			tb[mnl_attr_get_type(a)] = a;
}

void nl_attr_table(const struct nlattr **tb, uint16_t max, const struct nlmsghdr *h, size_t offset)
{
	const char *at = (const char *)h;

	table_fill(tb, max, at + MNL_NLMSG_HDRLEN + MNL_ALIGN(offset), at + h->nlmsg_len);
}

static const char *nest_end(const struct nlattr *nest)
{
	return (const char *)nest + nest->nla_len;
}

void nl_attr_nest(const struct nlattr **tb, uint16_t max, const struct nlattr *nest)
{
	if (nest != NULL)
		table_fill(tb, max, mnl_attr_get_payload(nest), nest_end(nest));
	else
		table_fill(tb, max, NULL, NULL);
}

const struct nlattr *nl_attr_next(const struct nlattr *nest, const struct nlattr *prev)
{
	if (nest == NULL)
		return NULL;
	return prev != NULL ? attr_after(prev, nest_end(nest))
			    : attr_at(mnl_attr_get_payload(nest), nest_end(nest));
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

bool nl_attr_addr(struct ip_addr *ret, const struct nlattr *a, uint8_t family)
{
	const void *p = nl_attr_bytes(a, family == AF_INET6 ? 16 : 4);

	if (p != NULL)
		*ret = ip_addr_from_bytes(family, p);
	return p != NULL;
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
