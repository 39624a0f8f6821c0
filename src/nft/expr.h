/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/expr - rules of the fixed part of a table, as lists of expressions.
 *
 * A rule is a list of expressions over sixteen 32 bit registers, here called "words"
 * 0..15. A lookup's key is a range of words; an address takes one word in IPv4 and four
 * in IPv6. A rule ends at the first expression that does not match. Each function
 * appends the expression that nft writes for a statement, with nft's attributes, so that
 * `nft list ruleset` prints the statement.
 *
 * Kernel: linux/netfilter/nf_tables.h, enum nft_*_attributes.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"

struct nlattr;
struct nftnl_rule;
struct nftnl_expr;

struct nft_rule {
	struct nftnl_rule *r;
	struct nftnl_expr *l4protos; /* lookup of an anonymous set, created before the rule */
	uint64_t hash;               /* of the expressions; not 0 after nft_rules_hash() */
	uint64_t target;             /* nft_target_hash(), after nft_rules_hash() */
};

/* nft's state bits: NF_CT_STATE_*_BIT of the kernel's nf_conntrack.h. */
#define NFT_CT_STATE_INVALID 1
#define NFT_CT_STATE_ESTABLISHED 2
#define NFT_CT_STATE_RELATED 4
#define NFT_CT_STATE_NEW 8
#define NFT_CT_STATE_UNTRACKED 64

/* Zeroed memory is an empty list. */
struct nft_rules {
	VEC(struct nft_rule) v;
};

void nft_rules_fini(struct nft_rules *rs);
/* Begin a rule; expressions are appended to the last rule. */
void nft_rule_begin(struct nft_rules *rs);
/* All rules are complete: compute their hashes. */
void nft_rules_hash(struct nft_rules *rs);
/* The chain to which the rule jumps or goes, or NULL; without verdict maps. */
const char *nft_target(const struct nlattr *expressions);
/* Hash of the name of that chain; 0: none. */
uint64_t nft_target_hash(const struct nlattr *expressions);

/* Words an address takes. */
static inline unsigned int nft_addr_words(enum ipfam fam)
{
	return fam == IPFAM_V6 ? 4 : 1;
}

/* Loads. `word` is the first word written. */
void nft_expr_saddr(struct nft_rules *rs, enum ipfam fam, unsigned int word);
void nft_expr_daddr(struct nft_rules *rs, enum ipfam fam, unsigned int word);
void nft_expr_sport(struct nft_rules *rs, unsigned int word);
void nft_expr_dport(struct nft_rules *rs, unsigned int word);
void nft_expr_meta(struct nft_rules *rs, uint32_t key, unsigned int word);
void nft_expr_ct(struct nft_rules *rs, uint32_t key, unsigned int word);
void nft_expr_number(struct nft_rules *rs, unsigned int word, uint32_t value);
void nft_expr_random(struct nft_rules *rs, unsigned int word, uint32_t modulus);
/* jhash of `len` bytes from `from` on, scaled to 0..modulus-1. */
void nft_expr_jhash(struct nft_rules *rs, unsigned int word, unsigned int from, uint32_t len,
		    uint32_t modulus, uint32_t seed);
/* One byte: is the packet's local socket bound to the wildcard address? No socket: no match. */
void nft_expr_socket_wildcard(struct nft_rules *rs, unsigned int word);
/* The first byte of the transport header: the type of ICMP. */
void nft_expr_icmp_type(struct nft_rules *rs, unsigned int word);

/* Arithmetic in place. */
void nft_expr_mask(struct nft_rules *rs, unsigned int word, uint32_t mask);
void nft_expr_mask_xor(struct nft_rules *rs, unsigned int word, uint32_t mask, uint32_t bits);
/* Keep the first `len` bits of an address. */
void nft_expr_mask_addr(struct nft_rules *rs, enum ipfam fam, unsigned int word, unsigned int len);
void nft_expr_meta_set(struct nft_rules *rs, uint32_t key, unsigned int word);

/* Conditions. `op` is NFT_CMP_EQ or NFT_CMP_NEQ. */
void nft_expr_cmp(struct nft_rules *rs, uint32_t op, unsigned int word, const void *data,
		  uint32_t len);
void nft_expr_in(struct nft_rules *rs, unsigned int word, const char *set);
void nft_expr_not_in(struct nft_rules *rs, unsigned int word, const char *set);
/* { tcp, udp, sctp }: nft can decode a rule with ports only after such a match. */
void nft_expr_l4protos(struct nft_rules *rs);

/*
 * Conditions of several expressions, over word 0. `nft_match_ct_bits`: one of `bits` is set
 * (NFT_CMP_NEQ), or none (NFT_CMP_EQ).
 */
void nft_match_meta(struct nft_rules *rs, uint32_t key, uint32_t op, uint32_t value);
void nft_match_family(struct nft_rules *rs, enum ipfam fam);
void nft_match_l4proto(struct nft_rules *rs, uint8_t proto);
void nft_match_ct_state(struct nft_rules *rs, uint32_t state);
/* A TCP packet with (flags & mask) `op` value; TH_SYN and others of netinet/tcp.h. */
void nft_match_tcp_flags(struct nft_rules *rs, uint8_t mask, uint32_t op, uint8_t value);
void nft_match_ct_bits(struct nft_rules *rs, uint32_t key, uint32_t bits, uint32_t op);
/* The packet has the reply direction of its connection. */
void nft_match_reply(struct nft_rules *rs);
/* The address is one of this host; `flags` NFTA_FIB_F_SADDR or _DADDR. */
void nft_match_fib_local(struct nft_rules *rs, uint32_t flags, uint32_t op);
/* Compare an interface's name (`key`), or its beginning, with `name`. */
void nft_match_ifname(struct nft_rules *rs, uint32_t key, uint32_t op, const char *name,
		      bool is_prefix);

/* Keys of sets: ip daddr . meta l4proto . th dport; and as the client sent it, the protocol first.
 */
void nft_expr_tuple(struct nft_rules *rs, enum ipfam fam);
void nft_expr_original_daddr(struct nft_rules *rs, enum ipfam fam);
void nft_expr_original_tuple(struct nft_rules *rs, enum ipfam fam);
/* ... of the connection that an ICMP error is about. */
void nft_expr_related_tuple(struct nft_rules *rs, enum ipfam fam);

/* Keys of sets for failover: saddr . sport . daddr . dport, of the packet or as the client sent it.
 */
void nft_expr_flow(struct nft_rules *rs, enum ipfam fam);
void nft_expr_original_flow(struct nft_rules *rs, enum ipfam fam);

/* Maps: the data replaces the key from `word` on; or a verdict is taken. */
void nft_expr_map(struct nft_rules *rs, unsigned int word, const char *map);
void nft_expr_vmap(struct nft_rules *rs, unsigned int word, const char *map);
/* Element of a dynamic map or set: key at `key`, data at `data`. `op` is NFT_DYNSET_OP_*. */
#define NFT_NO_DATA UINT32_MAX /* `data` of a set */
void nft_expr_dynset(struct nft_rules *rs, uint32_t op, const char *map, unsigned int key,
		     unsigned int data, uint64_t timeout_ms);

/*
 * Matches a packet that is forwarded to its input interface. nf_tables cannot compare two
 * registers, and `fib` is limited to prerouting before Linux 5.19: so the rule adds iif . iif to
 * the dynamic set `pairs`, and looks iif . oif up.
 */
void nft_match_returns(struct nft_rules *rs, const char *pairs);
/*
 * Matches a packet that is forwarded to its destination without a router in between, in the same
 * way: daddr . daddr is added to the dynamic set `hops`, and daddr . next hop looked up.
 */
void nft_match_neighbour(struct nft_rules *rs, enum ipfam fam, const char *hops);

/* Statements. */
/* Write a source or destination address into the packet, checksums included; uses word 0. */
void nft_expr_saddr_set(struct nft_rules *rs, const struct ip_addr *addr);
void nft_expr_daddr_set(struct nft_rules *rs, const struct ip_addr *addr);
void nft_expr_meta_number(struct nft_rules *rs, uint32_t key, uint32_t value);
void nft_expr_counter(struct nft_rules *rs);
/* `verdict` is NF_DROP, NFT_RETURN, NFT_JUMP or NFT_GOTO; `chain` NULL for the first two. */
void nft_expr_verdict(struct nft_rules *rs, int verdict, const char *chain);
void nft_expr_dnat(struct nft_rules *rs, enum ipfam fam, unsigned int addr, unsigned int port);
/* With fully random source ports (MASQ-12). */
void nft_expr_masquerade(struct nft_rules *rs);
/* To this host itself. */
void nft_expr_redirect(struct nft_rules *rs);
void nft_expr_reject_tcp(struct nft_rules *rs);
void nft_expr_reject_port(struct nft_rules *rs, enum ipfam fam);
/* nft_expr_reject_port() in a table of both families. */
void nft_expr_reject_port_any(struct nft_rules *rs);

/* A number, NFTA_COUNTER_*, of the expression if it is a counter, else 0. */
uint64_t nft_counter(const struct nlattr *expression, uint16_t type);

/* The value that an expression "cmp" with this NFTA_EXPR_DATA compares with. */
const struct nlattr *nft_cmp_value(const struct nlattr *data);
/* Does the rule with these NFTA_RULE_EXPRESSIONS drop or reject every packet? */
bool nft_rejects_all(const struct nlattr *expressions);
/* Does every packet get the rule's verdict: accept, return, jump, ...? */
bool nft_is_unconditional(const struct nlattr *expressions);

/*
 * What the rule accepts if it has at most one condition: on the state or status of connections, of
 * nft or iptables' `-m conntrack`, or on a prefix (CNI plugins accept all packets of pods).
 */
enum {
	NFT_ACCEPTS_ESTABLISHED = 1, /* packets of established connections */
	NFT_ACCEPTS_NEW = 2,
	NFT_ACCEPTS_DNAT = 4, /* new and established: those with a translated destination */
	NFT_ACCEPTS_ALL = 15, /* no condition */
};
unsigned int nft_accepts(const struct nlattr *expressions);
