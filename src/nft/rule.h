/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/rule - rules as lists of operations that read like nft's text.
 *
 *     RULE(rs, fam, DADDR, IN(NFTSET_CLUSTER_IPS), FIB_TYPE(DADDR, NEQ, LOCAL), COUNTER, DROP);
 *     ip daddr @cluster_ips fib daddr type != local counter drop
 *
 * A rule computes with sixteen 32 bit registers, here called "words" 0..15, and ends at the first
 * condition that is not true. An address takes one word in IPv4 and four in IPv6, the name of an
 * interface four, any other value one. Loads write words one after the other, from word 0 on:
 * SADDR, DPORT, DADDR is a key of a set of addresses, ports and addresses. The conditions, maps and
 * statements that follow use these words; the next load begins at word 0 again. Lengths are
 * asserted: what a lookup gets is as long as the keys of its set.
 *
 * Each operation appends the expressions that nft writes for it, with nft's attributes, so that
 * `nft list ruleset` prints the rule.
 *
 * Addresses, sets and some statements depend on `fam`, the family of the rule. Numbers are in host
 * order. Arguments are borrowed until RULE() returns. The names are short: include this header only
 * in files that build rules.
 *
 * Kernel: linux/netfilter/nf_tables.h, enum nft_*_attributes.
 */
#pragma once

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "nft/expr.h"
#include "nft/sets.h"

struct nft_cursor;
struct nft_op;
typedef void nft_op_fn(struct nft_cursor *c, const struct nft_op *op);

/* A function that appends expressions to the rule, and its arguments. */
struct nft_op {
	nft_op_fn *append; /* NULL: the end of a list */
	uint32_t a, b;
	union {
		const void *data;
		uint64_t timeout_ms;
	};
};

/* Append a rule with these operations. */
void nft_rule_add(struct nft_rules *rs, enum ipfam fam, const struct nft_op *ops);
#define RULE(rs, fam, ...) nft_rule_add(rs, fam, OPS(__VA_ARGS__))
/* One operation: nft_op_`name`() and its arguments. */
#define OP(name, ...)                      \
	{                                  \
		nft_op_##name, __VA_ARGS__ \
	}
/* A list of operations; outside of functions it lives as long as the process. */
#define OPS(...) ((const struct nft_op[]){ __VA_ARGS__, { NULL } })
/* These operations, if a condition is true when the rule is built. */
#define WHEN(is_true, ...) OP(when, is_true, .data = OPS(__VA_ARGS__))
/*
 * The next load begins at this word, in IPv4 and in IPv6, and words below it keep their values.
 * So does what is used then: a set's key or a map's data in ADD, UPDATE and DELETE, and the value
 * of META_SET. Lookups have their whole key from word 0 on.
 */
#define AT(v4, v6) OP(at, v4, v6)

/* Loads: fields of the packet. Offsets: RFC 791 section 3.1, RFC 8200 section 3. */
#define SADDR OP(address, 12, 8)
#define DADDR OP(address, 16, 24)
#define TRANSPORT(offset, len) OP(transport, offset, len)
#define SPORT TRANSPORT(0, 2) /* of TCP, UDP, SCTP */
#define DPORT TRANSPORT(2, 2)
#define ICMP_TYPE TRANSPORT(0, 1)
/* One byte: is the packet's local socket bound to the wildcard address? No socket: no match. */
#define SOCKET_WILDCARD OP(socket_wildcard)
/* The address of the router that gets the packet, or of its destination. */
#define NEXTHOP OP(nexthop, NFT_RT_NEXTHOP4, NFT_RT_NEXTHOP6)

/* Loads: metadata, and the connection; ORIGINAL_: as the client sent its packets. */
#define META(key) OP(meta, NFT_META_##key)
#define CT(key) OP(ct, NFT_CT_##key)
#define ORIGINAL_SADDR OP(ct_original, NFT_CT_SRC_IP, NFT_CT_SRC_IP6)
#define ORIGINAL_DADDR OP(ct_original, NFT_CT_DST_IP, NFT_CT_DST_IP6)
#define ORIGINAL_SPORT OP(ct_original, NFT_CT_PROTO_SRC, NFT_CT_PROTO_SRC)
#define ORIGINAL_DPORT OP(ct_original, NFT_CT_PROTO_DST, NFT_CT_PROTO_DST)

/* Loads: values. RANDOM and JHASH are below `modulus`. */
#define NUMBER(n) VALUE(sizeof(uint32_t), &(const uint32_t){ n })
#define ADDRESS(addr) VALUE((uint32_t)ip_len(ip_fam(addr)), (addr)->bytes)
#define VALUE(len, bytes) OP(value, len, .data = (bytes))
#define RANDOM(modulus) OP(random, modulus)
/* The hash of the words from AT() on, into the word before them. */
#define JHASH(modulus, seed) OP(jhash, modulus, seed)

/* Keys of sets: daddr . l4proto . dport; and as the client sent it, the protocol first. */
#define TUPLE DADDR, META(L4PROTO), DPORT
#define ORIGINAL_TUPLE L4PROTOS, ORIGINAL_DADDR, META(L4PROTO), ORIGINAL_DPORT
/* ... of the connection that an ICMP error is about. */
#define RELATED_TUPLE ORIGINAL_DADDR, CT(PROTOCOL), ORIGINAL_DPORT
/* Keys of sets for failover: saddr . sport . daddr . dport, or as the client sent it. */
#define FLOW SADDR, SPORT, DADDR, DPORT
#define ORIGINAL_FLOW ORIGINAL_SADDR, ORIGINAL_SPORT, ORIGINAL_DADDR, ORIGINAL_DPORT

/* Changes of the last load: value & mask ^ bits; PREFIX keeps the first bits of an address. */
#define MASK(mask) MASK_XOR(mask, 0)
#define MASK_XOR(mask, bits) OP(mask_xor, mask, bits)
#define MASK_BYTE(mask) OP(mask_byte, mask)
#define PREFIX(len) OP(prefix, len)

/* Conditions on what was loaded; `op` is EQ or NEQ. IS_DATA: `len` bytes. */
#define EQ NFT_CMP_EQ
#define NEQ NFT_CMP_NEQ
#define IS(op, n) IS_DATA(op, sizeof(uint32_t), &(const uint32_t){ n })
#define IS_BYTE(op, n) IS_DATA(op, sizeof(uint8_t), &(const uint8_t){ n })
#define IS_DATA(op, len, bytes) OP(is, op, len, .data = (bytes))
#define IS_ADDRESS(addr) IS_DATA(EQ, (uint32_t)ip_len(ip_fam(addr)), (addr)->bytes)
#define IN(set) LOOKUP(EQ, set)
#define NOT_IN(set) LOOKUP(NEQ, set)
#define LOOKUP(op, set) OP(lookup, op, set)

/* Conditions with their loads. */
#define META_IS(key, op, n) META(key), IS(op, n)
/* The name (IFNAMSIZ bytes) of an interface, or its beginning; `key` is IIFNAME or OIFNAME. */
#define IFNAME(key, op, name, is_prefix) \
	META(key), IS_DATA(op, (is_prefix) ? (uint32_t)strnlen(name, IFNAMSIZ) : IFNAMSIZ, name)
/* The packet has the rule's family: for tables of both. */
#define FAMILY OP(family)
#define L4PROTO(proto) META(L4PROTO), IS_BYTE(EQ, proto)
/* { tcp, udp, sctp }: nft can decode a rule with ports only after such a match. */
#define L4PROTOS OP(l4protos)
/* A TCP packet with (flags & mask) `op` value; TH_SYN and others of netinet/tcp.h. */
#define TCP_FLAGS(mask, op, value) \
	L4PROTO(IPPROTO_TCP), TRANSPORT(13, 1), MASK_BYTE(mask), IS_BYTE(op, value)
/* STATE or STATUS has one of `bits` (NFT_CT_STATE_*, IPS_*), or none. */
#define CT_HAS(key, bits) CT(key), MASK(bits), IS(NEQ, 0)
#define CT_LACKS(key, bits) CT(key), MASK(bits), IS(EQ, 0)
#define CT_STATE(state) CT_HAS(STATE, NFT_CT_STATE_##state)
/* The packet has the reply direction of its connection. */
#define REPLY CT(DIRECTION), IS_BYTE(EQ, IP_CT_DIR_REPLY)
/* Type of the packet's source or destination (SADDR or DADDR): RTN_* of linux/rtnetlink.h. */
#define FIB_TYPE(which, op, type) OP(fib_type, NFTA_FIB_F_##which), IS(op, RTN_##type)
/*
 * The packet is forwarded to its input interface. nf_tables cannot compare two registers, and `fib`
 * is limited to prerouting before Linux 5.19: so the rule adds iif . iif to the dynamic set
 * `pairs`, and looks iif . oif up.
 */
#define RETURNS(pairs) \
	META(IIF), META(IIF), UPDATE(pairs, NFT_PAIRS_MS), AT(1, 1), META(OIF), IN(pairs)
/*
 * The packet is forwarded to its destination without a router in between, in the same way: daddr .
 * daddr is added to the dynamic set `hops`, and daddr . next hop looked up.
 */
#define NEIGHBOUR(hops) DADDR, DADDR, UPDATE(hops, NFT_PAIRS_MS), AT(1, 4), NEXTHOP, IN(hops)

/* Maps: the data replaces the key from word 0 on; or a verdict is taken. No element: no match. */
#define MAP(set) OP(map, set)
#define VMAP(set) OP(vmap, set)

/* An element of a dynamic set with the loaded key; of a map, with data that begins at AT(). */
#define ADD(set, ms) OP(dynset, NFT_DYNSET_OP_ADD, set, .timeout_ms = (ms))
#define UPDATE(set, ms) OP(dynset, NFT_DYNSET_OP_UPDATE, set, .timeout_ms = (ms))
#define DELETE(set) OP(dynset, NFT_DYNSET_OP_DELETE, set)

/* Statements. The loaded value is written to metadata, or to the packet, checksums included. */
#define META_SET(key) OP(meta_set, NFT_META_##key)
#define META_SET_TO(key, n) NUMBER(n), META_SET(key)
#define SADDR_SET OP(address_set, 12, 8)
#define DADDR_SET OP(address_set, 16, 24)
#define COUNTER OP(counter)
#define DNAT OP(dnat)             /* to the loaded address . port */
#define MASQUERADE OP(masquerade) /* with fully random source ports (MASQ-12) */
#define REDIRECT OP(redirect)     /* to this host itself */
#define REJECT_TCP OP(reject, NFT_REJECT_TCP_RST, 0)
#define REJECT_PORT OP(reject_port)
/* For tables of both families. */
#define REJECT_PORT_ANY OP(reject, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH)

/* Verdicts. */
#define DROP OP(verdict, NF_DROP)
#define RETURN OP(verdict, (uint32_t)NFT_RETURN)
#define JUMP(chain) OP(verdict, (uint32_t)NFT_JUMP, .data = (chain))
#define GOTO(chain) OP(verdict, (uint32_t)NFT_GOTO, .data = (chain))

/* The functions of the operations, for these macros. */
nft_op_fn nft_op_when, nft_op_at, nft_op_address, nft_op_transport;
nft_op_fn nft_op_socket_wildcard, nft_op_nexthop, nft_op_meta, nft_op_ct, nft_op_ct_original;
nft_op_fn nft_op_value, nft_op_random, nft_op_jhash;
nft_op_fn nft_op_mask_xor, nft_op_mask_byte, nft_op_prefix;
nft_op_fn nft_op_is, nft_op_lookup, nft_op_family, nft_op_l4protos;
nft_op_fn nft_op_fib_type, nft_op_map, nft_op_vmap, nft_op_dynset;
nft_op_fn nft_op_meta_set, nft_op_address_set, nft_op_counter, nft_op_dnat, nft_op_masquerade;
nft_op_fn nft_op_redirect, nft_op_reject, nft_op_reject_port, nft_op_verdict;
