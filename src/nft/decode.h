/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/decode - encode and decode keys and data of set elements.
 *
 * Only this module depends on the layout of addresses, ports, pools and slots in the
 * bytes that nft/sets.h describes; adoption, error texts and vipctl share it.
 */
#pragma once

#include "base/str.h"
#include "nft/change.h"
#include "nft/kind.h"

/* address . protocol . port: keys of frontends, masq_*, xl_*, fw_frontends. */
void nft_key_tuple(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr, uint8_t proto,
		   uint16_t port);
/* pool<<12 . slot: keys of endpoints and aff_slots. */
void nft_key_slot(uint8_t key[static NFT_KEY_MAX], uint32_t pool_id, uint32_t slot);
/* A single word: key of aff_endpoints, data of all maps to pools. */
void nft_put_word(uint8_t *bytes, uint32_t word);
uint32_t nft_get_word(const uint8_t *bytes);
/* address . port . address: key of endpoint_addrs, which begins like the data of endpoints. */
void nft_key_endpoint(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr, uint16_t port);
/* nft_key_endpoint() from the data of an element of endpoints. */
void nft_key_endpoint_from(uint8_t key[static NFT_KEY_MAX], enum ipfam fam, const uint8_t *data);
/* address . address: key of the ipvs plane's hairpins. */
void nft_key_addr_pair(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr);
/*
 * Key of a source range in NFTSET_FW_RANGES or IPVSSET_RANGES: the word or the mark of the pool, in
 * it the length of the prefix, a multiple of 4, then the address.
 */
void nft_key_range(uint8_t key[static NFT_KEY_MAX], enum nft_set_id set, uint32_t word,
		   const struct ip_prefix *range);
void nft_get_range(struct ip_prefix *ret, enum ipfam fam, enum nft_set_id set, const uint8_t *key);
/* The bits of a word that name the pool, and those that are the length. */
uint32_t nft_range_mask(enum nft_set_id set);
uint32_t nft_range_bits(enum nft_set_id set, unsigned int len);
/* mark . address . port: key of the ipvs plane's reached. */
void nft_key_reached(uint8_t key[static NFT_KEY_MAX], uint32_t mark, const struct ip_addr *addr,
		     uint16_t port);
/* address . port: data of endpoints and aff_endpoints. */
void nft_data_endpoint(uint8_t data[static NFT_DATA_MAX], const struct ip_addr *addr,
		       uint16_t port);

void nft_get_tuple(struct ip_tuple *ret, enum ipfam fam, const uint8_t *key);
void nft_get_endpoint(struct ip_endpoint *ret, enum ipfam fam, const uint8_t *data);

/*
 * An element for display, without the name of its set; `data` is NULL in sets.
 *
 *     10.96.0.10:53/UDP -> pool 7 p3            frontends and the like
 *     pool 7 slot 0 -> 10.1.0.4:53              endpoints
 *     10.96.0.10                                vips, cluster_ips, hairpins
 *     10.1.0.4:53                               endpoint_addrs
 *     pool 7 from 10.0.0.0/24                   fw_ranges
 *     mark 0x5a000007 10.1.0.4:53               reached
 *     pool 7 slot 0 -> id 1, pool 7 id 1 -> 10.1.0.4:53      aff_slots, aff_endpoints
 */
void nft_elem_text(struct str *out, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		   const uint8_t *data);
/* "10.96.0.10:53/UDP" */
void nft_tuple_text(struct str *out, enum ipfam fam, const uint8_t *key);

/* Where elements are looked up for display: loaded state, a kernel, a fake. */
struct nft_source {
	/* Data of the element (not NULL in sets), or NULL when there is none. */
	const uint8_t *(*find)(const void *ctx, enum ipfam fam, enum nft_set_id set,
			       const uint8_t *key);
	/* Every key of a set, in any order. */
	void (*each)(const void *ctx, enum ipfam fam, enum nft_set_id set,
		     void (*fn)(void *arg, const uint8_t *key), void *arg);
	const void *ctx;
};

/*
 * All frontends of both families with their backends, without pool ids and slots, one a line,
 * sorted by address, protocol and port:
 *
 *     10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53 10.1.0.5:53
 *     192.0.2.1:80/TCP masq=host guard=10.0.0.0/24 -> drop; inside -> 10.1.0.4:80
 *
 * Inconsistencies (an address missing in vips, a missing pool) are in capitals.
 */
void nft_frontends_text(struct str *out, const struct nft_source *src);
/* nft_frontends_text() for the frontends in any of these sets, each once, printed by `text`. */
void nft_frontends_each(struct str *out, const struct nft_source *src, const enum nft_set_id *sets,
			size_t n_sets,
			void (*text)(struct str *out, const struct nft_source *src, enum ipfam fam,
				     const uint8_t *key));
/* " guard=10.0.0.0/24,192.0.2.0/25": the ranges under this word in a set of ranges. */
void nft_guard_text(struct str *out, const struct nft_source *src, enum ipfam fam,
		    enum nft_set_id set, uint32_t word);
