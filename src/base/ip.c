/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/ip - see ip.h. Tolerant parsing, canonical printing. */
#include "base/ip.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* inet_pton() refuses leading zeros of decimal octets, also in the tail of "::ffff:010.1.2.3". */
int ip_addr_parse(struct ip_addr *ret, const char *text, struct err *err)
{
	const char *colon = strrchr(text, ':');
	const char *tail = colon != NULL ? colon + 1 : text;
	const char *octet = strchr(tail, '.') != NULL ? tail : NULL;
	struct ip_addr a = { .family = colon != NULL ? AF_INET6 : AF_INET };
	char buf[IP_TEXT_MAX] = "";
	size_t n = 0;

	for (const char *p = text; *p != '\0'; p++) {
		while (p == octet && *p == '0' && isdigit((unsigned char)p[1]))
			octet = ++p;
		if (*p == '.')
			octet = p + 1;
		if (n < sizeof(buf) - 1) /* no address is as long as the buffer */
			buf[n++] = *p;
	}
	if (inet_pton(a.family, buf, a.bytes) != 1)
		return err_set(err, -EINVAL, "'%.64s' is not an IP address", text);
	*ret = a;
	return 0;
}

static void clear_host_bits(struct ip_prefix *p)
{
	size_t len = ip_len(ip_fam(&p->addr));

	for (size_t i = 0; i < len; i++) {
		int keep = (int)p->len - (int)(i * 8);

		if (keep <= 0)
			p->addr.bytes[i] = 0;
		else if (keep < 8)
			p->addr.bytes[i] &= (uint8_t)(0xff << (8 - keep));
	}
}

int ip_prefix_parse(struct ip_prefix *ret, const char *text, struct err *err)
{
	const char *slash = strchr(text, '/');
	struct ip_prefix p = { 0 };
	char addr[IP_TEXT_MAX];
	unsigned long len;
	char *end;

	if (slash != NULL)
		(void)snprintf(addr, sizeof(addr), "%.*s", (int)MIN(slash - text, IP_TEXT_MAX),
			       text);
	if (slash == NULL || slash - text >= IP_TEXT_MAX || ip_addr_parse(&p.addr, addr, NULL) < 0)
		return err_set(err, -EINVAL, "'%.64s' is not an address prefix (ADDRESS/LENGTH)",
			       text);
	len = strtoul(slash + 1, &end, 10);
	if (!isdigit((unsigned char)slash[1]) || *end != '\0' || len > ip_len(ip_fam(&p.addr)) * 8)
		return err_set(err, -EINVAL, "'%.64s' has no valid prefix length", text);
	p.len = (uint8_t)len;
	clear_host_bits(&p);
	*ret = p;
	return 0;
}

const char *ip_addr_text(const struct ip_addr *a, char buf[static IP_TEXT_MAX])
{
	if (!ip_is_set(a) || inet_ntop(a->family, a->bytes, buf, IP_TEXT_MAX) == NULL)
		memcpy(buf, "-", 2);
	return buf;
}

const char *ip_prefix_text(const struct ip_prefix *p, char buf[static IP_PREFIX_TEXT_MAX])
{
	(void)snprintf(buf, IP_PREFIX_TEXT_MAX, "%s/%u", ip_addr_str(&p->addr), p->len);
	return buf;
}

const char *ip_endpoint_text(const struct ip_addr *a, uint16_t port,
			     char buf[static IP_ENDPOINT_TEXT_MAX])
{
	(void)snprintf(buf, IP_ENDPOINT_TEXT_MAX, a->family == AF_INET6 ? "[%s]:%u" : "%s:%u",
		       ip_addr_str(a), port);
	return buf;
}

int ip_endpoint_parse(struct ip_addr *ret, uint16_t *port, const char *text)
{
	bool is_v6 = text[0] == '[';
	char host[IP_TEXT_MAX];
	char digits[16];
	struct ip_addr addr;
	unsigned long n;
	int end = 0;

	(void)sscanf(text, is_v6 ? "[%47[^]]]:%15[0-9]%n" : "%47[^:]:%15[0-9]%n", host, digits,
		     &end);
	if (end == 0 || text[end] != '\0' || ip_addr_parse(&addr, host, NULL) < 0 ||
	    (addr.family == AF_INET6) != is_v6)
		return -EINVAL;
	n = strtoul(digits, NULL, 10);
	if (n < 1 || n > UINT16_MAX)
		return -EINVAL;
	*ret = addr;
	*port = (uint16_t)n;
	return 0;
}

int ip_given_parse(struct ip_addr *ret, uint16_t *port, const char *text)
{
	char host[IP_TEXT_MAX];
	int end = 0;

	*port = 0;
	if (ip_addr_parse(ret, text, NULL) == 0)
		return 0;
	(void)sscanf(text, "[%47[0-9a-fA-F:.]]%n", host, &end);
	if (end > 0 && text[end] == '\0' && strchr(host, ':') != NULL)
		return ip_addr_parse(ret, host, NULL);
	return ip_endpoint_parse(ret, port, text);
}

struct ip_addr ip_addr_from_bytes(uint8_t family, const void *bytes)
{
	struct ip_addr a = { .family = family };

	memcpy(a.bytes, bytes, ip_len(ip_fam(&a)));
	return a;
}

struct ip_addr ip_addr_unmapped(const struct ip_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (a->family != AF_INET6 || memcmp(a->bytes, mapped, sizeof(mapped)) != 0)
		return *a;
	return ip_addr_from_bytes(AF_INET, a->bytes + sizeof(mapped));
}

int ip_addr_cmp(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ip_addr));
}

int ip_endpoint_cmp(const void *a, const void *b)
{
	const struct ip_endpoint *x = a;
	const struct ip_endpoint *y = b;

	return ip_addr_cmp(&x->addr, &y->addr) ?: CMP(x->port, y->port);
}

int ip_tuple_cmp(const void *a, const void *b)
{
	const struct ip_tuple *x = a;
	const struct ip_tuple *y = b;

	return ip_addr_cmp(&x->addr, &y->addr) ?: CMP(x->proto, y->proto) ?: CMP(x->port, y->port);
}

int ip_prefix_cmp(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ip_prefix));
}

bool ip_addr_is_equal(const struct ip_addr *a, const struct ip_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

socklen_t ip_sockaddr(struct sockaddr_storage *ret, const struct ip_addr *a, uint16_t port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	ret->ss_family = a->family;
	if (a->family == AF_INET6) {
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, a->bytes, sizeof(in6->sin6_addr));
		return sizeof(*in6);
	}
	in->sin_port = htons(port);
	memcpy(&in->sin_addr, a->bytes, sizeof(in->sin_addr));
	return sizeof(*in);
}

struct ip_addr ip_addr_loopback(enum ipfam fam)
{
	static const struct ip_addr addrs[] = {
		[IPFAM_V4] = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		[IPFAM_V6] = { .family = AF_INET6, .bytes = { [15] = 1 } },
	};

	return addrs[fam];
}

bool ip_addr_is_loopback(const struct ip_addr *a)
{
	const struct ip_addr v6 = ip_addr_loopback(IPFAM_V6);

	return a->family == AF_INET ? a->bytes[0] == 127 : ip_addr_is_equal(a, &v6);
}

bool ip_addr_is_link_local(const struct ip_addr *a)
{
	if (a->family == AF_INET6)
		return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
	return a->bytes[0] == 169 && a->bytes[1] == 254;
}

bool ip_addr_is_any(const struct ip_addr *a)
{
	static const uint8_t zero[sizeof(a->bytes)];

	return memcmp(a->bytes, zero, sizeof(zero)) == 0;
}

bool ip_prefix_contains(const struct ip_prefix *p, const struct ip_addr *a)
{
	struct ip_prefix host = { .addr = *a, .len = p->len };

	if (p->addr.family != a->family)
		return false;
	clear_host_bits(&host);
	return ip_addr_is_equal(&host.addr, &p->addr);
}

bool ip_prefix_covers(const struct ip_prefix *outer, const struct ip_prefix *inner)
{
	return inner->len >= outer->len && ip_prefix_contains(outer, &inner->addr);
}

/*
 * A prefix sorts after the one that covers it, and all prefixes between the two are covered too:
 * comparing with the last one kept is enough.
 */
size_t ip_prefixes_reduce(struct ip_prefix *v, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), ip_prefix_cmp);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !ip_prefix_covers(&v[kept - 1], &v[i]))
			v[kept++] = v[i];
	return kept;
}

/* Sorted, and none inside another: `low` is the lower half if it shares its parent with `high`. */
static bool are_halves(const struct ip_prefix *low, const struct ip_prefix *high)
{
	struct ip_prefix parent = { .addr = low->addr, .len = (uint8_t)(low->len - 1) };

	return low->len == high->len && parent.len > 0 && ip_prefix_covers(&parent, high);
}

size_t ip_prefixes_join(struct ip_prefix *v, size_t n)
{
	size_t kept = 0;

	n = ip_prefixes_reduce(v, n);
	for (size_t i = 0; i < n; i++) {
		v[kept++] = v[i];
		for (; kept > 1 && are_halves(&v[kept - 2], &v[kept - 1]); kept--)
			v[kept - 2].len--;
	}
	return kept;
}

struct ip_prefix ip_prefix_part(const struct ip_prefix *p, unsigned int len, unsigned int i)
{
	struct ip_prefix part = { .addr = p->addr, .len = (uint8_t)len };

	part.addr.bytes[(len - 1) / 8] |= (uint8_t)(i << (8 - len % 8) % 8);
	return part;
}

struct ip_prefix ip_prefix_host(const struct ip_addr *a)
{
	return (struct ip_prefix){ .addr = *a, .len = (uint8_t)(ip_len(ip_fam(a)) * 8) };
}

static const struct {
	enum l4proto proto;
	const char *text;
} l4protos[] = {
	{ L4PROTO_TCP, "TCP" },
	{ L4PROTO_UDP, "UDP" },
	{ L4PROTO_SCTP, "SCTP" },
};

const char *l4proto_text(uint8_t proto)
{
	for (size_t i = 0; i < ARRAY_SIZE(l4protos); i++)
		if (l4protos[i].proto == proto)
			return l4protos[i].text;
	return "-";
}

enum l4proto l4proto_parse(const char *text)
{
	if (text == NULL || text[0] == '\0')
		return L4PROTO_TCP;
	for (size_t i = 0; i < ARRAY_SIZE(l4protos); i++)
		if (strcmp(text, l4protos[i].text) == 0)
			return l4protos[i].proto;
	return L4PROTO_UNSET;
}

enum l4proto l4proto_cut(char *text)
{
	char *slash = strrchr(text, '/');

	for (size_t i = 0; slash != NULL && i < ARRAY_SIZE(l4protos); i++)
		if (strcasecmp(slash + 1, l4protos[i].text) == 0) {
			*slash = '\0';
			return l4protos[i].proto;
		}
	return L4PROTO_UNSET;
}
