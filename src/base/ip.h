/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/ip - addresses, prefixes and ports as values that cannot be wrong.
 *
 * Addresses are in network byte order, as in netlink; only parsing and printing convert.
 * Ports are in host order. Unused bytes are zero, so memcmp() is equality. IPv4 is not kept as
 * ::ffff:a.b.c.d: a user may write that, and it must not collide.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

/* Index of per-family arrays. */
enum ipfam {
	IPFAM_V4 = 0,
	IPFAM_V6 = 1,
	IPFAM_N = 2,
};

struct ip_addr {
	uint8_t family; /* AF_INET or AF_INET6; 0 is "unset" */
	uint8_t pad[3];
	uint8_t bytes[16];
};
_Static_assert(sizeof(struct ip_addr) == 20, "hashed and compared as raw bytes");

struct ip_prefix {
	struct ip_addr addr; /* host bits are zero */
	uint8_t len;         /* 0..32 or 0..128 */
	uint8_t pad[3];
};
_Static_assert(sizeof(struct ip_prefix) == 24, "hashed and compared as raw bytes");

/*
 * The device of NodeLocal DNSCache has the cluster IP of the DNS service. Its packets are not
 * tracked, and so not translated: the address is no fault, and serves no node ports.
 */
#define IP_DNS_CACHE_DEVICE "nodelocaldns"

/* One end of a connection or of a datagram. */
struct ip_endpoint {
	struct ip_addr addr;
	uint16_t port; /* host order */
	uint16_t pad;
};
_Static_assert(sizeof(struct ip_endpoint) == 24, "hashed and compared as raw bytes");

/* What a client connects to. */
struct ip_tuple {
	struct ip_addr addr;
	uint16_t port; /* host order */
	uint8_t proto; /* enum l4proto */
	uint8_t pad;
};
_Static_assert(sizeof(struct ip_tuple) == 24, "hashed and compared as raw bytes");

/* Structs that begin like these: ip_endpoint_cmp(), ip_tuple_cmp(). */
#define BEGINS_LIKE_ENDPOINT(type)                                                         \
	_Static_assert(offsetof(type, addr) == 0 &&                                        \
			       offsetof(type, port) == offsetof(struct ip_endpoint, port), \
		       #type)
#define BEGINS_LIKE_TUPLE(type)                                                           \
	_Static_assert(offsetof(type, addr) == 0 &&                                       \
			       offsetof(type, port) == offsetof(struct ip_tuple, port) && \
			       offsetof(type, proto) == offsetof(struct ip_tuple, proto), \
		       #type)

/* What a client's packet shows of its flow. */
struct ip_flow {
	struct ip_endpoint from;
	struct ip_endpoint to; /* of the family of `from` */
	uint32_t proto;        /* enum l4proto */
};
_Static_assert(sizeof(struct ip_flow) == 52, "hashed as raw bytes");

#define IP_TEXT_MAX 48 /* an address and its terminator */
#define IP_PREFIX_TEXT_MAX 52
#define IP_ENDPOINT_TEXT_MAX 58 /* "[address]:port" */

static inline enum ipfam ip_fam(const struct ip_addr *a)
{
	return a->family == AF_INET6 ? IPFAM_V6 : IPFAM_V4;
}

static inline const char *ipfam_text(enum ipfam fam)
{
	return fam == IPFAM_V6 ? "IPv6" : "IPv4";
}

static inline size_t ip_len(enum ipfam fam)
{
	return fam == IPFAM_V6 ? 16 : 4;
}

static inline bool ip_is_set(const struct ip_addr *a)
{
	return a->family != 0;
}

/*
 * Parse an address. Tolerant as Kubernetes' readers are (behaviour SVC-02):
 * leading zeros of IPv4 octets are decimal padding; IPv6 zones are rejected.
 * -EINVAL with `ret` untouched.
 */
MUST_USE int ip_addr_parse(struct ip_addr *ret, const char *text, struct err *err);
/* "address/length", host bits are cleared; same tolerance, also in the length. */
MUST_USE int ip_prefix_parse(struct ip_prefix *ret, const char *text, struct err *err);

/* Canonical text (RFC 5952 for IPv6). Return `buf`. */
const char *ip_addr_text(const struct ip_addr *a, char buf[static IP_TEXT_MAX]);
const char *ip_prefix_text(const struct ip_prefix *p, char buf[static IP_PREFIX_TEXT_MAX]);
/* "1.2.3.4:80", "[2001:db8::1]:80"; `port` in host order. */
const char *ip_endpoint_text(const struct ip_addr *a, uint16_t port,
			     char buf[static IP_ENDPOINT_TEXT_MAX]);
/*
 * As above, in a buffer that lives as long as the enclosing block; the body of an if or a loop is a
 * block, also without braces.
 */
#define ip_addr_str(a) ip_addr_text((a), (char[IP_TEXT_MAX]){ 0 })
#define ip_prefix_str(p) ip_prefix_text((p), (char[IP_PREFIX_TEXT_MAX]){ 0 })
#define ip_endpoint_str(a, port) ip_endpoint_text((a), (port), (char[IP_ENDPOINT_TEXT_MAX]){ 0 })

/*
 * "1.2.3.4:80", "[2001:db8::1]:80": -EINVAL if it is not an address and a port in 1..65535.
 * A bare address is not taken.
 */
MUST_USE int ip_endpoint_parse(struct ip_addr *ret, uint16_t *port, const char *text);
/* As a person writes it: also an address alone, in brackets or not; then `port` is 0. */
MUST_USE int ip_given_parse(struct ip_addr *ret, uint16_t *port, const char *text);

static inline uint8_t ip_family(enum ipfam fam)
{
	return fam == IPFAM_V6 ? AF_INET6 : AF_INET;
}

/* From raw network-order bytes: 4 for AF_INET, 16 for AF_INET6. */
struct ip_addr ip_addr_from_bytes(uint8_t family, const void *bytes);
/* The IPv4 address of an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2), else `a` itself. */
struct ip_addr ip_addr_unmapped(const struct ip_addr *a);
/* Order two struct ip_addr by family, then bytes; for qsort() and bsearch(), too. */
int ip_addr_cmp(const void *a, const void *b);
/* Order two struct ip_endpoint, or others that begin like it, by address, then port. */
int ip_endpoint_cmp(const void *a, const void *b);
/* Order two struct ip_tuple, or others that begin like it, by address, protocol, port. */
int ip_tuple_cmp(const void *a, const void *b);
/* Order two struct ip_prefix by address, then length. */
int ip_prefix_cmp(const void *a, const void *b);
bool ip_addr_is_equal(const struct ip_addr *a, const struct ip_addr *b);
bool ip_addr_is_loopback(const struct ip_addr *a);
/* 169.254.0.0/16, fe80::/10 */
bool ip_addr_is_link_local(const struct ip_addr *a);
/* 0.0.0.0, ::, or unset */
bool ip_addr_is_any(const struct ip_addr *a);
/* The address of a socket; returns its length. */
socklen_t ip_sockaddr(struct sockaddr_storage *ret, const struct ip_addr *a, uint16_t port);
/* 127.0.0.1 or ::1 */
struct ip_addr ip_addr_loopback(enum ipfam fam);
bool ip_prefix_contains(const struct ip_prefix *p, const struct ip_addr *a);
/* Does `outer` cover all of `inner`? */
bool ip_prefix_covers(const struct ip_prefix *outer, const struct ip_prefix *inner);
/* Sort `n` prefixes, and drop those inside of another one. Returns how many are left. */
size_t ip_prefixes_reduce(struct ip_prefix *v, size_t n);
/* ip_prefixes_reduce(), and join the halves of a prefix, but not to a prefix of all addresses. */
size_t ip_prefixes_join(struct ip_prefix *v, size_t n);
/*
 * Number `i`, from 0, of the prefixes of `len` bits in `p`. `len` is 1 to 128, at most 3 more than
 * p->len, and p->len..len do not cross a byte.
 */
struct ip_prefix ip_prefix_part(const struct ip_prefix *p, unsigned int len, unsigned int i);
/* The prefix of full length that holds only `a`. */
struct ip_prefix ip_prefix_host(const struct ip_addr *a);

/* Transport protocols of services: IP protocol numbers. */
enum l4proto {
	L4PROTO_UNSET = 0,
	L4PROTO_TCP = 6,
	L4PROTO_UDP = 17,
	L4PROTO_SCTP = 132,
};

/* "TCP", "UDP", "SCTP"; "-" for others. */
const char *l4proto_text(uint8_t proto);
/* From the API's spelling; "" and NULL mean TCP (SEL-13). L4PROTO_UNSET if unknown. */
enum l4proto l4proto_parse(const char *text);
/* Cut off a suffix such as "/tcp", in any case; L4PROTO_UNSET without one. */
enum l4proto l4proto_cut(char *text);
