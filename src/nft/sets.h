/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/sets - descriptions of all sets and maps of the tables.
 *
 * The kernel checks types, lengths and flags, and adoption compares them. The userdata
 * is byte for byte that of nft 1.0.6 for the declaration, so that `nft list ruleset`
 * prints the sets correctly.
 *
 * Elements are concatenations, each part padded to 4 bytes. Addresses, ports
 * and interval bounds are in network order; words, slots and kinds are 32 bit
 * numbers in host order. An l4 protocol is one byte and three of padding; a port two
 * bytes and two of padding.
 *
 * word = pool << 12 | kind (nft/kind.h); "pool<<12" is a word of kind 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"

#define NFT_TABLE_NAME_MAX 24

/* The type of a netlink message, of NFT_MSG_*; needs linux/netfilter/nfnetlink.h. */
#define NFT_TYPE(msg) (NFNL_SUBSYS_NFTABLES << 8 | (msg))

/* A word is a pool id above 12 bits of kind (nft/kind.h). */
#define NFT_KIND_BITS 12
#define NFT_KIND_MASK UINT32_C(0xfff)
#define NFT_POOL_MASK UINT32_C(0xfffff000)

/* Levels of counting; a set, or a counter of its elements, exists from a level on. */
enum nft_counting {
	NFT_COUNT_NONE = 0,
	NFT_COUNT_FRONTENDS,
	NFT_COUNT_BACKENDS,
	NFT_COUNT_ANY, /* when a table is read: do not check */
};

/* In order of creation: the kernel finds sets in a list, so the most used ones come first. */
enum nft_set_id {
	NFTSET_ENDPOINTS = 0,  /* map pool<<12 . slot                 : addr . port */
	NFTSET_FRONTENDS,      /* map addr . proto . port             : word */
	NFTSET_VIPS,           /* set addr                  every address that has a frontend */
	NFTSET_CLUSTER_IPS,    /* set addr                  unknown ports are rejected (REJ-05) */
	NFTSET_ENDPOINT_ADDRS, /* set addr . port . addr    a.port.a of every backend */
	NFTSET_MASQ_FRONTENDS, /* set addr . proto . port   always masqueraded (MASQ-07) */
	NFTSET_MASQ_HOSTS,     /* set addr . proto . port   masqueraded for this host (MASQ-08) */
	NFTSET_XL_CLUSTER,     /* map addr . proto . port             : word of the cluster pool */
	NFTSET_XL_LOCAL,       /* map addr . proto . port             : word of the local pool */
	NFTSET_FW_FRONTENDS,   /* map addr . proto . port             : word behind the ranges */
	NFTSET_FW_RANGES,      /* set pool<<12 | length . addr    prefixes (nft/decode.h) */
	NFTSET_AFFINITY,  /* map pool<<12 . client               : pool<<12 | local id; dynamic */
	NFTSET_AFF_SLOTS, /* map pool<<12 . slot                 : pool<<12 | local id */
	NFTSET_AFF_ENDPOINTS,  /* map pool<<12 | local id             : addr . port */
	NFTSET_LOCAL_BACKENDS, /* set addr          on this node, with --preserve-local-source */
	NFTSET_PAIRS,          /* set iif . iif     interfaces of packets to `vips`; dynamic */
	NFTSET_HOPS,           /* set addr . addr   addresses of such packets; dynamic */
	NFTSET_COUNTED,        /* set addr . proto . port   counts new connections; optional */
	NFTSET_REJECTED,       /* set addr . proto . port   counts rejected packets; optional */
	NFTSET_POD_CIDRS,      /* set addr range            layout.c writes it */
	NFTSET_SERVICE_CIDRS,  /* set addr range            layout.c writes it */
	NFTSET_LEAVES,         /* map kind : verdict        layout.c writes it */
	NFTSET_KINDS_X,        /* map kind : verdict        layout.c writes it */
	NFTSET_KINDS,          /* map kind : verdict        layout.c writes it */
	NFTSET_N,
	/*
	 * Of the tables for failover (plane/failover.h). A flow is the client's address and
	 * port, then the frontend's.
	 */
	FAILSET_HANDSHAKES, /* set addr . port . addr . port   SYN sent to a backend; dynamic */
	FAILSET_MOVES,      /* map addr . port . addr . port   : addr . port */
	FAILSET_CLAIMED,    /* set addr . port . addr . port   answers are dropped */
	FAILSET_ANSWERED,   /* set addr . port                 backend accepted; dynamic */
	FAILSET_REFUSED,   /* map addr . port . addr . port   : addr . port of a backend; dynamic */
	FAILSET_UDP_FLOWS, /* as those above, of flows of UDP without a reply */
	FAILSET_UDP_MOVES,
	FAILSET_UDP_CLAIMED,
	FAILSET_UDP_REPLIED, /* set addr . port                 backend replied; dynamic */
	FAILSET_END,
	/*
	 * The ipvs plane's, in a table of both families, so their names end in 4 or 6;
	 * plane/ipvs/README.md. A mark is a word like any other: 32 bits in host order.
	 */
	IPVSSET_FE =
		FAILSET_END, /* map addr . proto . port : mark    every frontend but split ones */
	IPVSSET_FE_IN,       /* map addr . proto . port : mark    split: for pods and this host */
	IPVSSET_FE_OUT,      /* map addr . proto . port : mark    split: for other clients */
	IPVSSET_GUARDED,     /* map addr . proto . port : mark    with source ranges */
	IPVSSET_RANGES,      /* set mark, length . addr    prefixes (nft/decode.h) */
	IPVSSET_VIPS,        /* set addr                  every address that has a frontend */
	IPVSSET_CLUSTER_IPS, /* set addr                  unknown ports are rejected (REJ-05) */
	IPVSSET_HAIRPINS,    /* set addr . addr           a.a of every backend (MASQ-09) */
	IPVSSET_MASQ,        /* set addr . proto . port   always masqueraded (MASQ-07) */
	IPVSSET_MASQ_HOSTS,  /* set addr . proto . port   masqueraded for this host (MASQ-08) */
	IPVSSET_LOCAL_BACKENDS, /* set addr       on this node, with --preserve-local-source */
	IPVSSET_PAIRS,          /* set iif . iif         interfaces of packets to `vips`; dynamic */
	IPVSSET_HOPS,           /* set addr . addr       addresses of such packets; dynamic */
	IPVSSET_IDLE, /* map addr . proto . port : mark    pools of frontends whose mark has none */
	IPVSSET_COUNTED,  /* set addr . proto . port   counts new connections; optional */
	IPVSSET_REJECTED, /* set addr . proto . port   counts rejected packets; optional */
	IPVSSET_REACHED,  /* set mark . addr . port    counts connections of a backend; optional */
	IPVSSET_REMEMBERED,    /* map number : value        values before vipd: IPVS_PREVIOUS_* */
	IPVSSET_POD_CIDRS,     /* set addr range */
	IPVSSET_SERVICE_CIDRS, /* set addr range */
	NFTSET_END,
};
#define FAILSET_BEGIN FAILSET_HANDSHAKES
#define IPVSSET_BEGIN IPVSSET_FE
/* Ends of an element's life in sets for failover; elements of moves have their own. */
#define FAILSET_CLAIMED_S 1
#define FAILSET_ANSWERED_S 10
#define FAILSET_REFUSED_S 1
/* End of an element's life in a set of pairs. */
#define NFT_PAIRS_MS UINT64_C(60000)

#define NFT_SET_USERDATA_MAX 256

/* Description of one set for one family, in the kernel's terms. */
struct nft_set_desc {
	char name[16];      /* set when the rest is */
	uint32_t flags;     /* NFT_SET_*: linux/netfilter/nf_tables.h */
	uint32_t key_type;  /* nft's type number; concatenations 6 bits a part */
	uint32_t key_len;   /* bytes */
	uint32_t data_type; /* 0 = a set; NFT_DATA_VERDICT = a verdict map */
	uint32_t data_len;
	uint32_t size;       /* 0 = grows */
	uint64_t timeout_ms; /* 0 = none */
	uint32_t gc_ms;      /* between collections of deleted elements; 0 = the kernel's second */
	size_t userdata_len;
	uint8_t userdata[NFT_SET_USERDATA_MAX];
};

/* NFPROTO_* of a table of one family. */
static inline uint8_t nft_family(enum ipfam fam)
{
	return ip_family(fam); /* NFPROTO_IPV4 and NFPROTO_IPV6 are AF_INET and AF_INET6 */
}
/* nft's word for NFPROTO_*: "ip", "inet". */
const char *nft_family_text(uint8_t family);
static inline const char *nft_fam_text(enum ipfam fam)
{
	return nft_family_text(nft_family(fam));
}

/* Borrow the description; it lives as long as the process. */
const struct nft_set_desc *nft_set_desc(enum nft_set_id id, enum ipfam fam);
static inline size_t nft_key_len(enum nft_set_id id, enum ipfam fam)
{
	return nft_set_desc(id, fam)->key_len;
}
static inline size_t nft_data_len(enum nft_set_id id, enum ipfam fam)
{
	return nft_set_desc(id, fam)->data_len;
}
/* Does a table with this level of counting (enum nft_counting) have the set? */
bool nft_set_exists(enum nft_set_id id, unsigned int counting);
/* Do services decide its elements? Not: counters, the layout, and what packets fill. */
bool nft_set_is_of_services(enum nft_set_id id);
/* Does each key begin with an address? */
bool nft_set_begins_with_addr(enum nft_set_id id);
/* Are the keys frontends: address . protocol . port? */
bool nft_set_is_by_tuple(enum nft_set_id id);
/* Does each element lead from a frontend to the pool in its word? */
bool nft_set_is_leading(enum nft_set_id id);
/* Does each element have a counter of its own? */
bool nft_set_counts(enum nft_set_id id, unsigned int counting);
/* The inline set { tcp, udp, sctp } of rules: anonymous, one for both families. */
const struct nft_set_desc *nft_set_desc_l4protos(void);
/* The set among [begin, end); `end` when it is none of them. */
enum nft_set_id nft_set_by_name(const char *name, enum ipfam fam, enum nft_set_id begin,
				enum nft_set_id end);
