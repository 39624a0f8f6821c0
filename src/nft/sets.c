/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/sets.h"

#include <assert.h>
#include <libnftnl/udata.h>
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

struct spec {
	const char *name;
	uint32_t flags;
	/* Declared by `typeof` (nft prints the expression) or by `type`. */
	bool is_typeof;
	const enum part *key;  /* parts, then PART_END */
	const enum part *data; /* NULL: a set */
	uint32_t size;
	uint64_t timeout_ms;
	uint32_t gc_ms;
	unsigned int exists_at;
	unsigned int counts_at; /* 0 = never */
};

static const enum part addr[] = { PART_DADDR, PART_END };
static const enum part addr_pair[] = { PART_DADDR, PART_DADDR, PART_END };
static const enum part addr_port[] = { PART_DADDR, PART_DPORT, PART_END };
static const enum part tuple[] = { PART_DADDR, PART_L4PROTO, PART_DPORT, PART_END };
static const enum part backend[] = { PART_SADDR, PART_SPORT, PART_END };
static const enum part hairpin[] = { PART_SADDR, PART_DADDR, PART_END };
static const enum part hairpin_port[] = { PART_SADDR, PART_DPORT, PART_DADDR, PART_END };
static const enum part flow[] = { PART_SADDR, PART_SPORT, PART_DADDR, PART_DPORT, PART_END };
static const enum part word[] = { PART_WORD, PART_END };
static const enum part word_slot[] = { PART_WORD, PART_SLOT, PART_END };
static const enum part word_addr[] = { PART_WORD, PART_SADDR, PART_END };
static const enum part mark[] = { PART_MARK, PART_END };
static const enum part mark_addr[] = { PART_MARK, PART_SADDR, PART_END };
static const enum part mark_backend[] = { PART_MARK, PART_DADDR, PART_DPORT, PART_END };
static const enum part verdict[] = { PART_VERDICT, PART_END };
static const enum part l4proto[] = { PART_L4PROTO, PART_END };
static const enum part pair[] = { PART_IF, PART_IF, PART_END };

/* Spoofed sources may fill the affinity map: affinity is then off, balancing continues. */
#define AFFINITY_SIZE 1048576
#define AFFINITY_TIMEOUT_MS (UINT64_C(10800) * 1000)
/* Handshakes without an answer: when the set is full, further ones are not moved. */
#define HANDSHAKES_SIZE 8192
/*
 * An element that a rule deleted counts towards the size until it is collected: with this interval
 * the set takes 82,000 flows a second.
 */
#define HANDSHAKES_GC_MS 100
/*
 * When `pairs` is full, packets of further interfaces may loop; when `hops` is, packets to further
 * neighbours are dropped.
 */
#define PAIRS_SIZE 65536
/* Evidence for ejections: when a set is full, further packets are none. */
#define ANSWERED_SIZE 65536
#define REFUSED_SIZE 1024

/* Filled by rules: elements have an end. */
#define DYNAMIC (NFT_SET_TIMEOUT | NFT_SET_EVAL)
/* For counters: the set exists, and its elements count, from this level on. */
#define COUNTS(level) .exists_at = (level), .counts_at = (level)

static const struct spec specs[NFTSET_END] = {
	[NFTSET_ENDPOINTS] = { "endpoints", 0, true, word_slot, addr_port,
			       .counts_at = NFT_COUNT_BACKENDS },
	[NFTSET_FRONTENDS] = { "frontends", 0, true, tuple, word },
	[NFTSET_VIPS] = { "vips", 0, false, addr },
	[NFTSET_CLUSTER_IPS] = { "cluster_ips", 0, false, addr },
	[NFTSET_ENDPOINT_ADDRS] = { "endpoint_addrs", 0, true, hairpin_port },
	[NFTSET_MASQ_FRONTENDS] = { "masq_frontends", 0, true, tuple },
	[NFTSET_MASQ_HOSTS] = { "masq_hosts", 0, true, tuple },
	[NFTSET_XL_CLUSTER] = { "xl_cluster", 0, true, tuple, word },
	[NFTSET_XL_LOCAL] = { "xl_local", 0, true, tuple, word },
	[NFTSET_FW_FRONTENDS] = { "fw_frontends", 0, true, tuple, word },
	[NFTSET_FW_RANGES] = { "fw_ranges", 0, true, word_addr },
	[NFTSET_AFFINITY] = { "affinity", DYNAMIC, true, word_addr, word, AFFINITY_SIZE,
			      AFFINITY_TIMEOUT_MS },
	[NFTSET_AFF_SLOTS] = { "aff_slots", 0, true, word_slot, word },
	[NFTSET_AFF_ENDPOINTS] = { "aff_endpoints", 0, true, word, addr_port,
				   .counts_at = NFT_COUNT_BACKENDS },
	[NFTSET_LOCAL_BACKENDS] = { "local_backends", 0, false, addr },
	[NFTSET_PAIRS] = { "pairs", DYNAMIC, false, pair, NULL, PAIRS_SIZE, NFT_PAIRS_MS },
	[NFTSET_HOPS] = { "hops", DYNAMIC, false, addr_pair, NULL, PAIRS_SIZE, NFT_PAIRS_MS },
	[NFTSET_COUNTED] = { "counted", 0, true, tuple, COUNTS(NFT_COUNT_FRONTENDS) },
	[NFTSET_REJECTED] = { "refused", 0, true, tuple, COUNTS(NFT_COUNT_FRONTENDS) },
	[NFTSET_POD_CIDRS] = { "pod_cidrs", NFT_SET_INTERVAL, false, addr },
	[NFTSET_SERVICE_CIDRS] = { "service_cidrs", NFT_SET_INTERVAL, false, addr },
	[NFTSET_LEAVES] = { "leaves", 0, true, word, verdict },
	[NFTSET_KINDS_X] = { "kinds_x", 0, true, word, verdict },
	[NFTSET_KINDS] = { "kinds", 0, true, word, verdict },
	[FAILSET_HANDSHAKES] = { "handshakes", DYNAMIC, true, flow, NULL, HANDSHAKES_SIZE, 60000,
				 HANDSHAKES_GC_MS },
	[FAILSET_MOVES] = { "moves", NFT_SET_TIMEOUT, true, flow, addr_port },
	[FAILSET_CLAIMED] = { "claimed", NFT_SET_TIMEOUT, true, flow, NULL, 0,
			      FAILSET_CLAIMED_S * 1000 },
	[FAILSET_ANSWERED] = { "answered", DYNAMIC, true, backend, NULL, ANSWERED_SIZE,
			       FAILSET_ANSWERED_S * 1000 },
	[FAILSET_REFUSED] = { "refused", DYNAMIC, true, flow, addr_port, REFUSED_SIZE,
			      FAILSET_REFUSED_S * 1000 },
	[FAILSET_UDP_FLOWS] = { "udp_flows", DYNAMIC, true, flow, NULL, HANDSHAKES_SIZE, 60000,
				HANDSHAKES_GC_MS },
	[FAILSET_UDP_MOVES] = { "udp_moves", NFT_SET_TIMEOUT, true, flow, addr_port },
	[FAILSET_UDP_CLAIMED] = { "udp_claimed", NFT_SET_TIMEOUT, true, flow, NULL, 0,
				  FAILSET_CLAIMED_S * 1000 },
	[FAILSET_UDP_REPLIED] = { "udp_replied", DYNAMIC, true, backend, NULL, ANSWERED_SIZE,
				  FAILSET_ANSWERED_S * 1000 },
	[IPVSSET_FE] = { "fe", 0, false, tuple, mark },
	[IPVSSET_FE_IN] = { "fe_in", 0, false, tuple, mark },
	[IPVSSET_FE_OUT] = { "fe_out", 0, false, tuple, mark },
	[IPVSSET_GUARDED] = { "guarded", 0, false, tuple, mark },
	[IPVSSET_RANGES] = { "ranges", 0, false, mark_addr },
	[IPVSSET_VIPS] = { "vips", 0, false, addr },
	[IPVSSET_CLUSTER_IPS] = { "cluster_ips", 0, false, addr },
	[IPVSSET_HAIRPINS] = { "hairpins", 0, false, hairpin },
	[IPVSSET_MASQ] = { "masq", 0, false, tuple },
	[IPVSSET_MASQ_HOSTS] = { "masq_hosts", 0, false, tuple },
	[IPVSSET_LOCAL_BACKENDS] = { "local_backends", 0, false, addr },
	[IPVSSET_PAIRS] = { "pairs", DYNAMIC, false, pair, NULL, PAIRS_SIZE, NFT_PAIRS_MS },
	[IPVSSET_HOPS] = { "hops", DYNAMIC, false, addr_pair, NULL, PAIRS_SIZE, NFT_PAIRS_MS },
	[IPVSSET_IDLE] = { "idle", 0, false, tuple, mark },
	[IPVSSET_COUNTED] = { "counted", 0, false, tuple, COUNTS(NFT_COUNT_FRONTENDS) },
	[IPVSSET_REJECTED] = { "refused", 0, false, tuple, COUNTS(NFT_COUNT_FRONTENDS) },
	[IPVSSET_REACHED] = { "reached", 0, false, mark_backend, COUNTS(NFT_COUNT_BACKENDS) },
	[IPVSSET_REMEMBERED] = { "remembered", 0, false, mark, mark },
	[IPVSSET_POD_CIDRS] = { "pod_cidrs", NFT_SET_INTERVAL, false, addr },
	[IPVSSET_SERVICE_CIDRS] = { "service_cidrs", NFT_SET_INTERVAL, false, addr },
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

static bool is_single(const enum part *parts)
{
	return parts[1] == PART_END;
}

static uint32_t parts_type(const enum part *parts, enum ipfam fam)
{
	uint32_t type = 0;

	for (; *parts != PART_END; parts++)
		type = type << TYPE_BITS | part_desc(*parts, fam)->type;
	return type;
}

static uint32_t parts_len(const enum part *parts, enum ipfam fam)
{
	uint32_t len = 0;

	if (is_single(parts))
		return part_desc(parts[0], fam)->len;
	for (; *parts != PART_END; parts++)
		len += (part_desc(*parts, fam)->len + 3U) & ~UINT32_C(3);
	return len;
}

static void part_put(struct nftnl_udata_buf *u, enum part p, enum ipfam fam)
{
	const struct part_desc *d = part_desc(p, fam);
	struct nftnl_udata *data;

	nftnl_udata_put_u32(u, UD_EXPR, d->expr);
	data = nftnl_udata_nest_start(u, UD_EXPR_DATA);
	for (uint8_t i = 0; i < d->n_data; i++)
		nftnl_udata_put_u32(u, i, d->data[i]);
	nftnl_udata_nest_end(u, data);
}

static void typeof_put(struct nftnl_udata_buf *u, uint8_t type, const enum part *parts,
		       enum ipfam fam)
{
	struct nftnl_udata *outer = nftnl_udata_nest_start(u, type);

	if (is_single(parts)) {
		part_put(u, parts[0], fam);
	} else {
		struct nftnl_udata *data;

		nftnl_udata_put_u32(u, UD_EXPR, EXPR_CONCAT);
		data = nftnl_udata_nest_start(u, UD_EXPR_DATA);
		for (uint8_t i = 0; parts[i] != PART_END; i++) {
			struct nftnl_udata *part = nftnl_udata_nest_start(u, i);

			part_put(u, parts[i], fam);
			nftnl_udata_nest_end(u, part);
		}
		nftnl_udata_nest_end(u, data);
	}
	nftnl_udata_nest_end(u, outer);
}

static uint32_t parts_byteorder(const enum part *parts)
{
	if (!is_single(parts) || parts[0] == PART_VERDICT)
		return BYTEORDER_NONE;
	return parts[0] == PART_WORD || parts[0] == PART_MARK || parts[0] == PART_L4PROTO
		       ? BYTEORDER_HOST
		       : BYTEORDER_NETWORK;
}

static void userdata_fill(struct nft_set_desc *d, const struct spec *s, enum ipfam fam)
{
	struct nftnl_udata_buf *u = nftnl_udata_buf_alloc(sizeof(d->userdata));

	assert(u != NULL);
	nftnl_udata_put_u32(u, UD_KEY_BYTEORDER, parts_byteorder(s->key));
	if (s->data != NULL)
		nftnl_udata_put_u32(u, UD_DATA_BYTEORDER, parts_byteorder(s->data));
	if (s->is_typeof)
		typeof_put(u, UD_KEY_TYPEOF, s->key, fam);
	if (s->is_typeof && s->data != NULL)
		typeof_put(u, UD_DATA_TYPEOF, s->data, fam);
	if (s->data != NULL)
		nftnl_udata_put_u32(u, UD_DATA_INTERVAL, 0);
	d->userdata_len = nftnl_udata_buf_len(u);
	memcpy(d->userdata, nftnl_udata_buf_data(u), d->userdata_len);
	nftnl_udata_buf_free(u);
}

/* `suffix`: after the name. */
static void desc_fill(struct nft_set_desc *d, const struct spec *s, enum ipfam fam,
		      const char *suffix)
{
	(void)snprintf(d->name, sizeof(d->name), "%s%s", s->name, suffix);
	d->flags = s->flags;
	d->key_type = parts_type(s->key, fam);
	d->key_len = parts_len(s->key, fam);
	d->size = s->size;
	d->timeout_ms = s->timeout_ms;
	d->gc_ms = s->gc_ms;
	if (s->data != NULL) {
		d->flags |= NFT_SET_MAP;
		d->data_type = parts_type(s->data, fam);
		d->data_len = parts_len(s->data, fam);
	}
	userdata_fill(d, s, fam);
}

const struct nft_set_desc *nft_set_desc(enum nft_set_id id, enum ipfam fam)
{
	static struct nft_set_desc descs[IPFAM_N][NFTSET_END]; /* constants, computed once */
	struct nft_set_desc *d;

	assert(id < NFTSET_END && id != NFTSET_N && fam < IPFAM_N);
	d = &descs[fam][id];
	if (d->name[0] == '\0') /* both families of the ipvs plane are in one table */
		desc_fill(d, &specs[id], fam,
			  id < IPVSSET_BEGIN ? ""
			  : fam == IPFAM_V6  ? "6"
					     : "4");
	return d;
}

bool nft_set_exists(enum nft_set_id id, unsigned int counting)
{
	return counting >= specs[id].exists_at;
}

bool nft_set_is_of_services(enum nft_set_id id)
{
	const struct spec *s = &specs[id];

	return s->flags == 0 && s->exists_at == NFT_COUNT_NONE && s->data != verdict &&
	       id != IPVSSET_REMEMBERED;
}

bool nft_set_begins_with_addr(enum nft_set_id id)
{
	return specs[id].key[0] == PART_DADDR || specs[id].key[0] == PART_SADDR;
}

bool nft_set_is_by_tuple(enum nft_set_id id)
{
	return specs[id].key == tuple;
}

bool nft_set_is_leading(enum nft_set_id id)
{
	return specs[id].key == tuple && specs[id].data == word;
}

bool nft_set_counts(enum nft_set_id id, unsigned int counting)
{
	return specs[id].counts_at != NFT_COUNT_NONE && counting >= specs[id].counts_at;
}

const struct nft_set_desc *nft_set_desc_l4protos(void)
{
	static const struct spec spec = { "__set%d", NFT_SET_ANONYMOUS | NFT_SET_CONSTANT,
					  true,      l4proto,
					  NULL,      3 };
	static struct nft_set_desc desc;

	if (desc.name[0] == '\0')
		desc_fill(&desc, &spec, IPFAM_V4, "");
	return &desc;
}

enum nft_set_id nft_set_by_name(const char *name, enum ipfam fam, enum nft_set_id begin,
				enum nft_set_id end)
{
	for (enum nft_set_id id = begin; id < end; id++)
		if (strcmp(nft_set_desc(id, fam)->name, name) == 0)
			return id;
	return end;
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
