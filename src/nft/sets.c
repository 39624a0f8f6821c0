/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/sets.h"

#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

/*
 * Type numbers of nft (its include/datatype.h): nft stores them, so they never
 * change. A concatenation has 6 bits per part, first part highest.
 */
#define TYPE_INTEGER 4
#define TYPE_IPADDR 7
#define TYPE_IP6ADDR 8
#define TYPE_INET_PROTO 12
#define TYPE_INET_SERVICE 13
#define TYPE_MARK 19
#define TYPE_IFINDEX 20
#define TYPE_CLASSID 23
#define TYPE_BITS 6

/* A building block of keys and data. */
enum part {
	PART_END = 0,
	PART_DADDR,
	PART_SADDR,
	PART_L4PROTO,
	PART_SPORT,
	PART_DPORT,
	PART_WORD, /* meta priority */
	PART_SLOT, /* numgen random mod 65536 */
	PART_VERDICT,
	PART_MARK, /* meta mark */
	PART_IF,   /* meta iif, meta oif */
};

#define PARTS_MAX 4

struct spec {
	const char *name;
	uint32_t flags;
	/* Declared by `typeof` (nft prints the expression) or by `type`. */
	bool is_typeof;
	enum part key[PARTS_MAX];
	enum part data[PARTS_MAX];
	uint32_t size;
	uint64_t timeout_ms;
	unsigned int exists_at;
	unsigned int counts_at; /* 0 = never */
};

#define TUPLE                                        \
	{                                            \
		PART_DADDR, PART_L4PROTO, PART_DPORT \
	}
#define ADDR_PORT                      \
	{                              \
		PART_DADDR, PART_DPORT \
	}
#define BACKEND                        \
	{                              \
		PART_SADDR, PART_SPORT \
	}
#define FLOW                                                   \
	{                                                      \
		PART_SADDR, PART_SPORT, PART_DADDR, PART_DPORT \
	}
#define WORD              \
	{                 \
		PART_WORD \
	}
#define PAIR                     \
	{                        \
		PART_IF, PART_IF \
	}
#define MARK              \
	{                 \
		PART_MARK \
	}

/* Spoofed sources may fill the affinity map: affinity is then off, balancing continues. */
#define AFFINITY_SIZE 1048576
#define AFFINITY_TIMEOUT_MS (UINT64_C(10800) * 1000)
/* Handshakes without an answer: when the set is full, further ones are not moved. */
#define HANDSHAKES_SIZE 8192
/*
 * When `pairs` is full, packets of further interfaces may loop; when `hops` is, packets to further
 * neighbours are dropped.
 */
#define PAIRS_SIZE 65536
/* Evidence for ejections: when a set is full, further packets are none. */
#define ANSWERED_SIZE 65536
#define REFUSED_SIZE 1024

static const struct spec specs[NFTSET_END] = {
	[NFTSET_ENDPOINTS] = { "endpoints",
			       0,
			       true,
			       { PART_WORD, PART_SLOT },
			       ADDR_PORT,
			       .counts_at = NFT_COUNT_BACKENDS },
	[NFTSET_FRONTENDS] = { "frontends", 0, true, TUPLE, WORD },
	[NFTSET_VIPS] = { "vips", 0, false, { PART_DADDR } },
	[NFTSET_CLUSTER_IPS] = { "cluster_ips", 0, false, { PART_DADDR } },
	[NFTSET_ENDPOINT_ADDRS] = { "endpoint_addrs",
				    0,
				    true,
				    { PART_SADDR, PART_DPORT, PART_DADDR } },
	[NFTSET_MASQ_FRONTENDS] = { "masq_frontends", 0, true, TUPLE },
	[NFTSET_MASQ_HOSTS] = { "masq_hosts", 0, true, TUPLE },
	[NFTSET_XL_CLUSTER] = { "xl_cluster", 0, true, TUPLE, WORD },
	[NFTSET_XL_LOCAL] = { "xl_local", 0, true, TUPLE, WORD },
	[NFTSET_FW_FRONTENDS] = { "fw_frontends", 0, true, TUPLE, WORD },
	[NFTSET_FW_RANGES] = { "fw_ranges", 0, true, { PART_WORD, PART_SADDR } },
	[NFTSET_AFFINITY] = { "affinity",
			      NFT_SET_TIMEOUT | NFT_SET_EVAL,
			      true,
			      { PART_WORD, PART_SADDR },
			      WORD,
			      AFFINITY_SIZE,
			      AFFINITY_TIMEOUT_MS },
	[NFTSET_AFF_SLOTS] = { "aff_slots", 0, true, { PART_WORD, PART_SLOT }, WORD },
	[NFTSET_AFF_ENDPOINTS] = { "aff_endpoints", 0, true, WORD, ADDR_PORT,
				   .counts_at = NFT_COUNT_BACKENDS },
	[NFTSET_LOCAL_BACKENDS] = { "local_backends", 0, false, { PART_DADDR } },
	[NFTSET_PAIRS] = { "pairs", NFT_SET_TIMEOUT | NFT_SET_EVAL, false, PAIR, .size = PAIRS_SIZE,
			   .timeout_ms = NFT_PAIRS_MS },
	[NFTSET_HOPS] = { "hops",
			  NFT_SET_TIMEOUT | NFT_SET_EVAL,
			  false,
			  { PART_DADDR, PART_DADDR },
			  .size = PAIRS_SIZE,
			  .timeout_ms = NFT_PAIRS_MS },
	[NFTSET_COUNTED] = { "counted", 0, true, TUPLE, .exists_at = NFT_COUNT_FRONTENDS,
			     .counts_at = NFT_COUNT_FRONTENDS },
	[NFTSET_REFUSED] = { "refused", 0, true, TUPLE, .exists_at = NFT_COUNT_FRONTENDS,
			     .counts_at = NFT_COUNT_FRONTENDS },
	[NFTSET_POD_CIDRS] = { "pod_cidrs", NFT_SET_INTERVAL, false, { PART_DADDR } },
	[NFTSET_SERVICE_CIDRS] = { "service_cidrs", NFT_SET_INTERVAL, false, { PART_DADDR } },
	[NFTSET_LEAVES] = { "leaves", 0, true, WORD, { PART_VERDICT } },
	[NFTSET_KINDS_X] = { "kinds_x", 0, true, WORD, { PART_VERDICT } },
	[NFTSET_KINDS] = { "kinds", 0, true, WORD, { PART_VERDICT } },
	[FAILSET_HANDSHAKES] = { "handshakes", NFT_SET_TIMEOUT | NFT_SET_EVAL, true, FLOW,
				 .size = HANDSHAKES_SIZE, .timeout_ms = 60000 },
	[FAILSET_MOVES] = { "moves", NFT_SET_TIMEOUT, true, FLOW, ADDR_PORT,
			    .timeout_ms = FAILSET_MOVES_S * 1000 },
	[FAILSET_CLAIMED] = { "claimed", NFT_SET_TIMEOUT, true, FLOW,
			      .timeout_ms = FAILSET_CLAIMED_S * 1000 },
	[FAILSET_ANSWERED] = { "answered", NFT_SET_TIMEOUT | NFT_SET_EVAL, true, BACKEND,
			       .size = ANSWERED_SIZE, .timeout_ms = FAILSET_ANSWERED_S * 1000 },
	[FAILSET_REFUSED] = { "refused", NFT_SET_TIMEOUT | NFT_SET_EVAL, true, FLOW, ADDR_PORT,
			      .size = REFUSED_SIZE, .timeout_ms = FAILSET_REFUSED_S * 1000 },
	[FAILSET_UDP_FLOWS] = { "udp_flows", NFT_SET_TIMEOUT | NFT_SET_EVAL, true, FLOW,
				.size = HANDSHAKES_SIZE, .timeout_ms = 60000 },
	[FAILSET_UDP_MOVES] = { "udp_moves", NFT_SET_TIMEOUT, true, FLOW, ADDR_PORT,
				.timeout_ms = FAILSET_UDP_MOVES_S * 1000 },
	[FAILSET_UDP_CLAIMED] = { "udp_claimed", NFT_SET_TIMEOUT, true, FLOW,
				  .timeout_ms = FAILSET_CLAIMED_S * 1000 },
	[FAILSET_UDP_REPLIED] = { "udp_replied", NFT_SET_TIMEOUT | NFT_SET_EVAL, true, BACKEND,
				  .size = ANSWERED_SIZE, .timeout_ms = FAILSET_ANSWERED_S * 1000 },
	[IPVSSET_FE] = { "fe", 0, false, TUPLE, MARK },
	[IPVSSET_FE_IN] = { "fe_in", 0, false, TUPLE, MARK },
	[IPVSSET_FE_OUT] = { "fe_out", 0, false, TUPLE, MARK },
	[IPVSSET_GUARDED] = { "guarded", 0, false, TUPLE, MARK },
	[IPVSSET_RANGES] = { "ranges", 0, false, { PART_MARK, PART_SADDR } },
	[IPVSSET_VIPS] = { "vips", 0, false, { PART_DADDR } },
	[IPVSSET_CLUSTER_IPS] = { "cluster_ips", 0, false, { PART_DADDR } },
	[IPVSSET_HAIRPINS] = { "hairpins", 0, false, { PART_SADDR, PART_DADDR } },
	[IPVSSET_MASQ] = { "masq", 0, false, TUPLE },
	[IPVSSET_MASQ_HOSTS] = { "masq_hosts", 0, false, TUPLE },
	[IPVSSET_LOCAL_BACKENDS] = { "local_backends", 0, false, { PART_DADDR } },
	[IPVSSET_PAIRS] = { "pairs", NFT_SET_TIMEOUT | NFT_SET_EVAL, false, PAIR,
			    .size = PAIRS_SIZE, .timeout_ms = NFT_PAIRS_MS },
	[IPVSSET_HOPS] = { "hops",
			   NFT_SET_TIMEOUT | NFT_SET_EVAL,
			   false,
			   { PART_DADDR, PART_DADDR },
			   .size = PAIRS_SIZE,
			   .timeout_ms = NFT_PAIRS_MS },
	[IPVSSET_IDLE] = { "idle", 0, false, TUPLE, MARK },
	[IPVSSET_COUNTED] = { "counted", 0, false, TUPLE, .exists_at = NFT_COUNT_FRONTENDS,
			      .counts_at = NFT_COUNT_FRONTENDS },
	[IPVSSET_REFUSED] = { "refused", 0, false, TUPLE, .exists_at = NFT_COUNT_FRONTENDS,
			      .counts_at = NFT_COUNT_FRONTENDS },
	[IPVSSET_REACHED] = { "reached",
			      0,
			      false,
			      { PART_MARK, PART_DADDR, PART_DPORT },
			      .exists_at = NFT_COUNT_BACKENDS,
			      .counts_at = NFT_COUNT_BACKENDS },
	[IPVSSET_REMEMBERED] = { "remembered", 0, false, MARK, MARK },
	[IPVSSET_POD_CIDRS] = { "pod_cidrs", NFT_SET_INTERVAL, false, { PART_DADDR } },
	[IPVSSET_SERVICE_CIDRS] = { "service_cidrs", NFT_SET_INTERVAL, false, { PART_DADDR } },
};

/*
 * Userdata: type(1) len(1) value, nested; numbers are 32 bit in host order. The
 * numbers are nft's (its src/mnl.c for sets, src/expression.c, src/payload.c,
 * src/meta.c, src/numgen.c for the expressions); outer types are libnftnl's.
 */
#define UD_KEY_BYTEORDER 0
#define UD_DATA_BYTEORDER 1
#define UD_KEY_TYPEOF 3
#define UD_DATA_TYPEOF 4
#define UD_DATA_INTERVAL 6
#define UD_EXPR 0
#define UD_EXPR_DATA 1

#define BYTEORDER_NONE 0 /* verdicts, concatenations */
#define BYTEORDER_HOST 1
#define BYTEORDER_NETWORK 2

#define EXPR_VERDICT 1
#define EXPR_PAYLOAD 7
#define EXPR_META 9
#define EXPR_CONCAT 13
#define EXPR_NUMGEN 23

#define PROTO_TH 11
#define PROTO_TH_SPORT 1
#define PROTO_TH_DPORT 2
#define PROTO_IP 12
#define PROTO_IP_SADDR 11
#define PROTO_IP_DADDR 12
#define PROTO_IP6 13
#define PROTO_IP6_SADDR 8
#define PROTO_IP6_DADDR 9

/* Numbers of a part in the kernel and in userdata. */
struct part_desc {
	uint32_t type;
	uint8_t len; /* bytes of the value itself; in a concatenation it is padded to 4 */
	uint8_t expr;
	uint8_t n_data; /* numbers that describe the expression */
	uint32_t data[3];
};

static const struct part_desc part_descs[] = {
	[PART_DADDR] = { TYPE_IPADDR, 4, EXPR_PAYLOAD, 2, { PROTO_IP, PROTO_IP_DADDR } },
	[PART_SADDR] = { TYPE_IPADDR, 4, EXPR_PAYLOAD, 2, { PROTO_IP, PROTO_IP_SADDR } },
	[PART_L4PROTO] = { TYPE_INET_PROTO, 1, EXPR_META, 1, { NFT_META_L4PROTO } },
	[PART_SPORT] = { TYPE_INET_SERVICE, 2, EXPR_PAYLOAD, 2, { PROTO_TH, PROTO_TH_SPORT } },
	[PART_DPORT] = { TYPE_INET_SERVICE, 2, EXPR_PAYLOAD, 2, { PROTO_TH, PROTO_TH_DPORT } },
	[PART_WORD] = { TYPE_CLASSID, 4, EXPR_META, 1, { NFT_META_PRIORITY } },
	[PART_SLOT] = { TYPE_INTEGER, 4, EXPR_NUMGEN, 3, { NFT_NG_RANDOM, 65536, 0 } },
	[PART_VERDICT] = { NFT_DATA_VERDICT, 0, EXPR_VERDICT },
	[PART_MARK] = { TYPE_MARK, 4, EXPR_META, 1, { NFT_META_MARK } },
	[PART_IF] = { TYPE_IFINDEX, 4 }, /* declared by `type` */
};
static const struct part_desc addrs_v6[] = {
	[PART_DADDR] = { TYPE_IP6ADDR, 16, EXPR_PAYLOAD, 2, { PROTO_IP6, PROTO_IP6_DADDR } },
	[PART_SADDR] = { TYPE_IP6ADDR, 16, EXPR_PAYLOAD, 2, { PROTO_IP6, PROTO_IP6_SADDR } },
};

static const struct part_desc *part_desc(enum part p, enum ipfam fam)
{
	return fam == IPFAM_V6 && p <= PART_SADDR ? &addrs_v6[p] : &part_descs[p];
}

static size_t parts_count(const enum part parts[PARTS_MAX])
{
	size_t n = 0;

	while (n < PARTS_MAX && parts[n] != PART_END)
		n++;
	return n;
}

static uint32_t parts_type(const enum part parts[PARTS_MAX], enum ipfam fam)
{
	uint32_t type = 0;

	for (size_t i = 0; i < parts_count(parts); i++)
		type = type << TYPE_BITS | part_desc(parts[i], fam)->type;
	return type;
}

static uint32_t parts_len(const enum part parts[PARTS_MAX], enum ipfam fam)
{
	size_t n = parts_count(parts);
	uint32_t len = 0;

	if (n == 1)
		return part_desc(parts[0], fam)->len;
	for (size_t i = 0; i < n; i++)
		len += (part_desc(parts[i], fam)->len + 3U) & ~UINT32_C(3);
	return len;
}

struct udata {
	uint8_t *bytes;
	size_t len;
};

static void ud_u32(struct udata *u, uint8_t type, uint32_t value)
{
	assert(u->len + 2 + sizeof(value) <= NFT_SET_USERDATA_MAX);
	u->bytes[u->len++] = type;
	u->bytes[u->len++] = sizeof(value);
	memcpy(u->bytes + u->len, &value, sizeof(value));
	u->len += sizeof(value);
}

/* Returns the offset of the nest, for ud_end(). */
static size_t ud_begin(struct udata *u, uint8_t type)
{
	assert(u->len + 2 <= NFT_SET_USERDATA_MAX);
	u->bytes[u->len++] = type;
	u->bytes[u->len++] = 0;
	return u->len;
}

static void ud_end(struct udata *u, size_t begin)
{
	assert(u->len - begin <= UINT8_MAX);
	u->bytes[begin - 1] = (uint8_t)(u->len - begin);
}

static void ud_part(struct udata *u, enum part p, enum ipfam fam)
{
	const struct part_desc *d = part_desc(p, fam);
	size_t data;

	ud_u32(u, UD_EXPR, d->expr);
	data = ud_begin(u, UD_EXPR_DATA);
	for (uint8_t i = 0; i < d->n_data; i++)
		ud_u32(u, i, d->data[i]);
	ud_end(u, data);
}

static void ud_typeof(struct udata *u, uint8_t type, const enum part parts[PARTS_MAX],
		      enum ipfam fam)
{
	size_t n = parts_count(parts);
	size_t outer = ud_begin(u, type);

	if (n == 1) {
		ud_part(u, parts[0], fam);
	} else {
		size_t data;

		ud_u32(u, UD_EXPR, EXPR_CONCAT);
		data = ud_begin(u, UD_EXPR_DATA);
		for (size_t i = 0; i < n; i++) {
			size_t part = ud_begin(u, (uint8_t)i);

			ud_part(u, parts[i], fam);
			ud_end(u, part);
		}
		ud_end(u, data);
	}
	ud_end(u, outer);
}

static uint32_t parts_byteorder(const enum part parts[PARTS_MAX])
{
	if (parts_count(parts) != 1 || parts[0] == PART_VERDICT)
		return BYTEORDER_NONE;
	return parts[0] == PART_WORD || parts[0] == PART_MARK || parts[0] == PART_L4PROTO
		       ? BYTEORDER_HOST
		       : BYTEORDER_NETWORK;
}

static size_t userdata_write(uint8_t bytes[NFT_SET_USERDATA_MAX], const struct spec *s,
			     enum ipfam fam)
{
	struct udata u = { .bytes = bytes };
	bool is_map = s->data[0] != PART_END;

	ud_u32(&u, UD_KEY_BYTEORDER, parts_byteorder(s->key));
	if (is_map)
		ud_u32(&u, UD_DATA_BYTEORDER, parts_byteorder(s->data));
	if (s->is_typeof)
		ud_typeof(&u, UD_KEY_TYPEOF, s->key, fam);
	if (s->is_typeof && is_map)
		ud_typeof(&u, UD_DATA_TYPEOF, s->data, fam);
	if (is_map)
		ud_u32(&u, UD_DATA_INTERVAL, 0);
	return u.len;
}

static void desc_fill(struct nft_set_desc *d, const struct spec *s, enum ipfam fam)
{
	d->name = s->name;
	d->flags = s->flags;
	d->key_type = parts_type(s->key, fam);
	d->key_len = parts_len(s->key, fam);
	d->size = s->size;
	d->timeout_ms = s->timeout_ms;
	if (s->data[0] != PART_END) {
		d->flags |= NFT_SET_MAP;
		d->data_type = parts_type(s->data, fam);
		d->data_len = parts_len(s->data, fam);
	}
	d->userdata_len = userdata_write(d->userdata, s, fam);
}

const struct nft_set_desc *nft_set_desc(enum nft_set_id id, enum ipfam fam)
{
	static struct nft_set_desc descs[IPFAM_N][NFTSET_END]; /* constants, computed once */
	static char names[IPFAM_N][NFTSET_END - IPVSSET_BEGIN][16];
	struct nft_set_desc *d;

	assert(id < NFTSET_END && id != NFTSET_N && fam < IPFAM_N);
	d = &descs[fam][id];
	if (d->name != NULL)
		return d;
	desc_fill(d, &specs[id], fam);
	if (id >= IPVSSET_BEGIN) { /* both families in one table */
		char *name = names[fam][id - IPVSSET_BEGIN];

		(void)snprintf(name, sizeof(names[0][0]), "%s%d", specs[id].name,
			       fam == IPFAM_V6 ? 6 : 4);
		d->name = name;
	}
	return d;
}

bool nft_set_exists(enum nft_set_id id, unsigned int counting)
{
	return counting >= specs[id].exists_at;
}

bool nft_set_is_among(enum nft_set_id id, const enum nft_set_id *sets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sets[i] == id)
			return true;
	return false;
}

bool nft_set_is_by_tuple(enum nft_set_id id)
{
	const enum part *key = specs[id].key;

	return key[0] == PART_DADDR && key[1] == PART_L4PROTO && key[2] == PART_DPORT;
}

bool nft_set_is_by_addr(enum nft_set_id id)
{
	const enum part *key = specs[id].key;

	return (key[0] == PART_DADDR || key[0] == PART_SADDR) && key[1] == PART_END;
}

bool nft_set_counts(enum nft_set_id id, unsigned int counting)
{
	return specs[id].counts_at != NFT_COUNT_NONE && counting >= specs[id].counts_at;
}

const struct nft_set_desc *nft_set_desc_l4protos(void)
{
	static const struct spec spec = { "__set%d",    NFT_SET_ANONYMOUS | NFT_SET_CONSTANT,
					  true,         { PART_L4PROTO },
					  { PART_END }, 3 };
	static struct nft_set_desc desc;

	if (desc.name == NULL)
		desc_fill(&desc, &spec, IPFAM_V4);
	return &desc;
}

enum nft_set_id nft_set_by_name_in(const char *name, enum ipfam fam, enum nft_set_id begin,
				   enum nft_set_id end)
{
	for (enum nft_set_id id = begin; id < end; id++)
		if (strcmp(nft_set_desc(id, fam)->name, name) == 0)
			return id;
	return end;
}

enum nft_set_id nft_set_by_name(const char *name)
{
	return nft_set_by_name_in(name, IPFAM_V4, 0, NFTSET_N);
}

const char *nft_family_text(uint8_t family)
{
	static const char *const texts[] = {
		[NFPROTO_IPV4] = "ip",       [NFPROTO_IPV6] = "ip6",      [NFPROTO_INET] = "inet",
		[NFPROTO_BRIDGE] = "bridge", [NFPROTO_NETDEV] = "netdev", [NFPROTO_ARP] = "arp",
	};
	const char *text = family < ARRAY_SIZE(texts) ? texts[family] : NULL;

	return text != NULL ? text : "?";
}
