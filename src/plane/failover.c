/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/failover.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */
#include <netinet/tcp.h>

#include <assert.h>
#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "base/log.h"
#include "model/eject.h"
#include "nft/decode.h"
#include "nft/rule.h"
#include "nft/write.h"

/* Directly before the nat chains of services. */
#define PRI_MOVE (NF_IP_PRI_NAT_DST - 1)
#define PRI_NOTE (NF_IP_PRI_NAT_SRC - 1)

#define ELEMENT_MIN_MS UINT64_C(10000)
#define RETRY_FIRST_NS NSEC_PER_SEC
#define RETRY_NS (60 * NSEC_PER_SEC)
/* Elements deleted after one read of a set that is half full, and at once. */
#define OLD_MAX 1024
#define OLD_STEP ((size_t)128)
/* An element that expires sooner may be gone before it is deleted. */
#define EXPIRY_MS 50
/* A client repeats a SYN after this time: its flow is listed again. */
#define NEEDED_MS UINT64_C(1000)

struct plane_failover {
	struct nl_sock *nl;
	struct nft_schema schema;
	struct plane_failover_config config;
	bool is_done[IPFAM_N];
	unsigned int failures[IPFAM_N]; /* in a row */
	uint64_t retry_ns[IPFAM_N];
	struct err fault[IPFAM_N]; /* of the second failure in a row and further ones */
};

/* TCP handshakes and flows of UDP without an answer for this time are moved. */
static uint64_t limit_ms(const struct plane_failover *f, enum nft_set_id flows)
{
	return flows == FAILSET_UDP_FLOWS ? f->config.udp_ms : f->config.limit_ms;
}

static bool is_of_flows(enum nft_set_id set)
{
	return set == FAILSET_HANDSHAKES || set == FAILSET_UDP_FLOWS;
}

/*
 * Life of an element. That of a flow must exist for at least two reads after the limit. Longer,
 * because the endpoint of a handshake without an alternative may still be replaced.
 */
static uint64_t element_ms(const struct plane_failover *f, enum nft_set_id set)
{
	if (is_of_flows(set))
		return MAX(2 * limit_ms(f, set) + 1000, ELEMENT_MIN_MS);
	if (set == FAILSET_MOVES || set == FAILSET_UDP_MOVES)
		return PLANE_MOVE_MAX_S * 1000;
	return nft_set_desc(set, IPFAM_V4)->timeout_ms;
}

static bool can_move(const struct plane_failover *f)
{
	return f->config.mark_mask == 0;
}

static bool has_set(const struct plane_failover *f, enum nft_set_id id)
{
	if (!can_move(f))
		return id == FAILSET_HANDSHAKES || id == FAILSET_ANSWERED || id == FAILSET_REFUSED;
	return id < FAILSET_UDP_FLOWS || f->config.udp_ms != 0;
}

static void move(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	RULE(rs, fam, L4PROTO(IPPROTO_TCP), FLOW, MAP(FAILSET_MOVES), DNAT);
	if (f->config.udp_ms != 0)
		RULE(rs, fam, L4PROTO(IPPROTO_UDP), FLOW, MAP(FAILSET_UDP_MOVES), DNAT);
}

#define TRANSLATED(f)                                                       \
	WHEN(can_move(f), CT_HAS(STATUS, IPS_DST_NAT)),                     \
		WHEN(!can_move(f), META(MARK), MASK((f)->config.mark_mask), \
		     IS(EQ, (f)->config.mark))
#define SYN TCP_FLAGS(TH_SYN | TH_ACK | TH_RST | TH_FIN, EQ, TH_SYN)
/* List the flow. UPDATE renews its element, ADD keeps the time of its end. */
#define FLOW_UPDATE(f, set) ORIGINAL_FLOW, UPDATE(set, element_ms(f, set))
#define FLOW_ADD(f, set) ORIGINAL_FLOW, ADD(set, element_ms(f, set))

static void note(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	RULE(rs, fam, SYN, TRANSLATED(f), FLOW_UPDATE(f, FAILSET_HANDSHAKES));
	if (f->config.udp_ms != 0)
		RULE(rs, fam, L4PROTO(IPPROTO_UDP), TRANSLATED(f),
		     FLOW_UPDATE(f, FAILSET_UDP_FLOWS));
}

/* Match the protocol although it is known: nft decodes ports only after such a match. */
#define REPLY_OF(proto) L4PROTO(proto), REPLY
/* The backend, which sends the packet, becomes an element. */
#define BACKEND_UPDATE(f, set) SADDR, SPORT, UPDATE(set, element_ms(f, set))
/* In the words after a flow, which stays. */
#define BEHIND_FLOW AT(4, 10)

/* A SYN that is accepted, or refused while its handshake is listed. */
static void evidence(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	RULE(rs, fam, REPLY_OF(IPPROTO_TCP), TCP_FLAGS(TH_SYN | TH_ACK, EQ, TH_SYN | TH_ACK),
	     WHEN(can_move(f), CT_HAS(STATUS, IPS_DST_NAT)),
	     /* the mark was that of the SYN */
	     WHEN(!can_move(f), ORIGINAL_FLOW, IN(FAILSET_HANDSHAKES), BEHIND_FLOW),
	     BACKEND_UPDATE(f, FAILSET_ANSWERED));
	/* An update keeps the data of an element. */
	RULE(rs, fam, REPLY_OF(IPPROTO_TCP), TCP_FLAGS(TH_RST, NEQ, 0), ORIGINAL_FLOW,
	     IN(FAILSET_HANDSHAKES), BEHIND_FLOW, SADDR, SPORT, DELETE(FAILSET_REFUSED),
	     ADD(FAILSET_REFUSED, element_ms(f, FAILSET_REFUSED)));
}

/* The SYNs of a client, too: a repeated one is not a first packet, so note() does not see it. */
static void answer(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	if (can_move(f)) {
		RULE(rs, fam, CT_LACKS(STATUS, IPS_SEEN_REPLY), SYN, TRANSLATED(f),
		     FLOW_ADD(f, FAILSET_HANDSHAKES));
		RULE(rs, fam, REPLY_OF(IPPROTO_TCP), ORIGINAL_FLOW, IN(FAILSET_CLAIMED), DROP);
	}
	if (f->config.ejects)
		evidence(rs, fam, f);
	RULE(rs, fam, REPLY_OF(IPPROTO_TCP), ORIGINAL_FLOW, DELETE(FAILSET_HANDSHAKES));
}

/* As answer(): every datagram of a client may be the first one that vipd can move. */
static void datagram(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	RULE(rs, fam, L4PROTO(IPPROTO_UDP), CT_LACKS(STATUS, IPS_SEEN_REPLY), TRANSLATED(f),
	     FLOW_ADD(f, FAILSET_UDP_FLOWS));
	RULE(rs, fam, REPLY_OF(IPPROTO_UDP), ORIGINAL_FLOW, IN(FAILSET_UDP_CLAIMED), DROP);
	RULE(rs, fam, REPLY_OF(IPPROTO_UDP), CT_HAS(STATUS, IPS_DST_NAT),
	     BACKEND_UPDATE(f, FAILSET_UDP_REPLIED));
	RULE(rs, fam, REPLY_OF(IPPROTO_UDP), ORIGINAL_FLOW, DELETE(FAILSET_UDP_FLOWS));
}

static void answers(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f)
{
	RULE(rs, fam, TCP_FLAGS(TH_SYN | TH_RST, NEQ, 0), GOTO("answer"));
	if (f->config.udp_ms != 0)
		RULE(rs, fam, L4PROTO(IPPROTO_UDP), CT_LACKS(STATUS, IPS_ASSURED),
		     GOTO("datagram"));
}

static const struct {
	struct nft_chain chain;
	void (*build)(struct nft_rules *rs, enum ipfam fam, const struct plane_failover *f);
} chains[] = {
	{ { "answer", NULL, 0, 0 }, answer },
	{ { "datagram", NULL, 0, 0 }, datagram },
	{ { "answers_pre", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE }, answers },
	{ { "answers_out", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_MANGLE }, answers },
	{ { "prerouting", "nat", NF_INET_PRE_ROUTING, PRI_MOVE }, move },
	{ { "output", "nat", NF_INET_LOCAL_OUT, PRI_MOVE }, move },
	{ { "postrouting", "nat", NF_INET_POST_ROUTING, PRI_NOTE }, note },
	{ { "input", "nat", NF_INET_LOCAL_IN, PRI_NOTE }, note },
};

static bool failover_build(const void *ctx, struct nft_rules *rs, enum ipfam fam, size_t i)
{
	const struct plane_failover *f = ctx;
	bool has_chain = chains[i].build == datagram ? f->config.udp_ms != 0
			 : chains[i].build == move   ? can_move(f)
						     : true;

	if (has_chain && rs != NULL)
		chains[i].build(rs, fam, f);
	return has_chain;
}

static const struct nft_chain *failover_chain(size_t i)
{
	return i < ARRAY_SIZE(chains) ? &chains[i].chain : NULL;
}

static const struct nft_schema failover_schema = {
	.comment = "vipd failover ",
	.version = 2,
	.begin = FAILSET_BEGIN,
	.end = FAILSET_END,
	.ranges = FAILSET_END, /* none */
	.chain = failover_chain,
	.build = failover_build,
};

/*
 * The caller gives the name of the tables: one plane removes its tables, and those of the other
 * plane stay.
 */
static struct plane_failover *failover_new(struct plane_common *c,
					   const struct plane_failover_config *config)
{
	struct plane_failover *f = xcalloc(1, sizeof(*f));

	f->nl = c->cmd;
	f->config = *config;
	f->schema = failover_schema;
	f->schema.table = config->table;
	return f;
}

void plane_failover_open(struct plane *plane, const struct plane_failover_config *config)
{
	struct plane_common *c = plane_common_of(plane);

	assert(c->failover == NULL);
	c->failover = failover_new(c, config);
}

/* --- the tables --- */

static bool is_right(const struct plane_failover *f, struct nft_fixed *programmed, enum ipfam fam)
{
	FINI(nft_writer_fini) struct nft_writer differences = { 0 };

	if (!programmed->exists || programmed->misfit[0] != '\0')
		return false;
	for (enum nft_set_id id = FAILSET_BEGIN; id < FAILSET_END; id++)
		if (has_set(f, id) && !programmed->has_set[id])
			return false;
	nft_writer_init(&differences, f->nl, &f->schema, fam, f->schema.table);
	nft_ensure_chains(&differences, programmed, f);
	return differences.n_writes == 0;
}

static void table_write(struct nft_writer *w, const struct plane_failover *f)
{
	FINI(nft_fixed_fini) struct nft_fixed made = { 0 };

	nft_write_table(w, 0);
	for (enum nft_set_id id = FAILSET_BEGIN; id < FAILSET_END; id++)
		if (has_set(f, id))
			nft_write_set(w, id);
	nft_ensure_chains(w, &made, f);
}

/* Replace table `old` (0: none) by the desired one, if one is desired. */
static int family_write(struct plane_failover *f, enum ipfam fam, uint64_t old, struct err *err)
{
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, f->nl, &f->schema, fam, f->schema.table);
	if (old != 0)
		nft_write_table_del(&w, old);
	if (f->config.limit_ms != 0)
		table_write(&w, f);
	r = nft_writer_commit(&w, NULL, err);
	if (r == 0 && (old != 0 || f->config.limit_ms != 0))
		log_info(LOG_AREA_PLANE, "table %s %s: %s", nft_fam_text(fam), f->schema.table,
			 f->config.limit_ms != 0 ? "created" : "removed");
	return r;
}

static int family_follow(struct plane_failover *f, enum ipfam fam, struct err *err)
{
	FINI(nft_fixed_fini) struct nft_fixed programmed = { 0 };
	struct nft_fixed_table t;
	uint64_t old = 0;
	int r = nft_fixed_table_find(&t, f->nl, fam, &f->schema, err);

	if (r == -EEXIST && f->config.limit_ms == 0)
		r = 0;
	if (r > 0) {
		old = t.handle;
		r = f->config.limit_ms == 0 ? 0
					    : nft_fixed_read(&programmed, f->nl, fam, &t,
							     &f->schema, NFT_COUNT_NONE, err);
	}
	if (r == 0 && !is_right(f, &programmed, fam))
		r = family_write(f, fam, old, err);
	f->is_done[fam] = r == 0;
	return r;
}

static const char *consequence(const struct plane_failover *f)
{
	if (f->config.limit_ms == 0)
		return "tables of an earlier process stay";
	return can_move(f) ? "TCP handshakes stay with their endpoints" : "no endpoint is ejected";
}

/* The first attempt may have met a change by another process: the second one is soon. */
static void family_failed(struct plane_failover *f, enum ipfam fam, uint64_t now,
			  const struct err *err)
{
	f->failures[fam]++;
	f->retry_ns[fam] = now + (f->failures[fam] == 1 ? RETRY_FIRST_NS : RETRY_NS);
	if (f->failures[fam] < 2)
		return;
	f->fault[fam] = *err;
	if (f->failures[fam] == 2)
		log_warn(LOG_AREA_PLANE, "failover: %s: %s; %s; next attempt in %d s",
			 nft_fam_text(fam), err->text, consequence(f),
			 (int)(RETRY_NS / NSEC_PER_SEC));
}

static uint64_t families_follow(struct plane_failover *f, uint8_t left_out, uint64_t now)
{
	uint64_t next = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		struct err err = { 0 };

		if (f->is_done[fam] || (f->config.limit_ms != 0 && left_out >> fam & 1))
			continue;
		if (now >= f->retry_ns[fam]) {
			if (family_follow(f, fam, &err) == 0) {
				f->failures[fam] = 0;
				f->fault[fam].text[0] = '\0';
				continue;
			}
			family_failed(f, fam, now, &err);
		}
		next = next == 0 ? f->retry_ns[fam] : MIN(next, f->retry_ns[fam]);
	}
	return next;
}

static void fault_set(struct plane *plane, const struct plane_failover *f)
{
	enum ipfam fam = f->fault[IPFAM_V4].text[0] != '\0' ? IPFAM_V4 : IPFAM_V6;
	const char *why = f->fault[fam].text;

	(void)plane_fault_set(plane, PLANE_FAULT_FAILOVER, false,
			      why[0] != '\0' ? str_local(sizeof(f->fault[fam].text) + 64,
							 "failover: %s: %s; %s", nft_fam_text(fam),
							 why, consequence(f))
					     : "");
}

uint64_t plane_failover_follow(struct plane_common *c, uint64_t now)
{
	uint64_t next;

	if (c->failover == NULL)
		return 0;
	next = families_follow(c->failover, plane_families_failed(&c->plane), now);
	fault_set(&c->plane, c->failover);
	return next;
}

void plane_failover_recheck(struct plane_common *c)
{
	struct plane_failover *f = c->failover;

	for (int fam = 0; f != NULL && fam < IPFAM_N && f->config.limit_ms != 0; fam++) {
		f->is_done[fam] = false;
		f->retry_ns[fam] = 0;
	}
}

int plane_failover_cleanup(struct plane_common *c, const char *table, struct err *err)
{
	const struct plane_failover_config none = { .table = table };
	struct plane_failover *f = failover_new(c, &none);
	int r = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		int q = family_follow(f, fam, r < 0 ? NULL : err);

		r = r < 0 ? r : q;
	}
	free(f);
	return r;
}

/* --- handshakes --- */

struct nft_table_ref plane_failover_table(const struct plane_common *c, enum ipfam fam)
{
	return (struct nft_table_ref){ .name = c->failover->schema.table, .fam = fam };
}

struct flow {
	uint8_t key[NFT_KEY_MAX];
};

struct reading {
	enum nft_set_id set;
	uint64_t life_ms;   /* of an element */
	uint64_t needed_ms; /* of a flow: older ones are deleted while the set is half full */
	VEC(struct flow) old;
	struct nft_walk walk;
	enum ipfam fam;
	plane_handshake_fn *fn;
	void *arg;
};

/*
 * A caller of plane_handshakes() needs younger elements only: of refusals none that it has read, of
 * moves all.
 */
static uint64_t needed_ms(const struct plane_failover *f, enum nft_set_id set)
{
	if (is_of_flows(set))
		return MAX(2 * limit_ms(f, set), NEEDED_MS);
	return set == FAILSET_REFUSED ? 0 : UINT64_MAX;
}

static void elem_found(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct reading *rd = arg;
	uint64_t age_ms = rd->life_ms - MIN(rd->life_ms, rd->walk.expires_ms);
	struct plane_handshake h = { .age_ns = age_ms * NSEC_PER_MSEC };

	if (rd->set == FAILSET_UDP_REPLIED) {
		nft_get_endpoint(&h.by, rd->fam, key);
		rd->fn(rd->arg, &h);
		return;
	}
	if (age_ms >= rd->needed_ms && rd->walk.expires_ms > EXPIRY_MS && rd->old.n < OLD_MAX)
		memcpy(vec_push(&rd->old)->key, key, nft_key_len(rd->set, rd->fam));
	nft_get_endpoint(&h.flow.from, rd->fam, key);
	nft_get_endpoint(&h.flow.to, rd->fam, key + nft_data_len(FAILSET_MOVES, rd->fam));
	h.flow.proto = rd->set >= FAILSET_UDP_FLOWS ? L4PROTO_UDP : L4PROTO_TCP;
	if (data != NULL)
		nft_get_endpoint(&h.by, rd->fam, data);
	rd->fn(rd->arg, &h);
}

/* The table was deleted by another process: the next call creates it. */
static int table_lost(struct plane_common *c, enum ipfam fam, int r)
{
	if (r != -ENOENT && r != -ENOTRECOVERABLE)
		return r;
	c->failover->is_done[fam] = false;
	return -EAGAIN;
}

void plane_failover_begin(struct plane_common *c, struct nft_elem_writer *w)
{
	*w = (struct nft_elem_writer){ .batch = c->batch };
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		w->tables[fam] = plane_failover_table(c, fam);
	nl_batch_reset(c->batch);
}

/*
 * -ENOENT: the packet path has deleted an element, or another process the table. The next read
 * tries the others again: each aborted transaction waits for a grace period of RCU.
 */
static int old_delete(struct plane_common *c, const struct reading *rd, struct err *err)
{
	struct nft_elem_writer w;
	size_t n = 0;
	int r = 0;

	while (r == 0 && n < rd->old.n) {
		size_t end = MIN(n + OLD_STEP, rd->old.n);

		plane_failover_begin(c, &w);
		for (size_t k = n; k < end; k++)
			nft_elem_put(&w, NFT_WRITE_DEL, rd->fam, rd->set, rd->old.v[k].key, NULL,
				     NULL);
		r = plane_batch_commit(c, err);
		n = r == 0 ? end : n;
	}
	if (n > 0)
		log_info(LOG_AREA_PLANE,
			 "table %s %s: more than half of set %s is used: %zu older flows deleted",
			 nft_fam_text(rd->fam), c->failover->schema.table,
			 nft_set_desc(rd->set, rd->fam)->name, n);
	return r == -ENOENT ? 0 : r;
}

static int set_read(struct plane_common *c, struct reading rd, struct err *err)
{
	struct nft_table_ref table = plane_failover_table(c, rd.fam);
	int r;

	rd.life_ms = element_ms(c->failover, rd.set);
	rd.needed_ms = needed_ms(c->failover, rd.set);
	do
		r = nft_elems_dump_step(&rd.walk, c->query, &table, rd.set, elem_found, &rd, err);
	while (r > 0);
	if (r == 0 && rd.walk.n > nft_set_desc(rd.set, rd.fam)->size / 2)
		r = old_delete(c, &rd, err);
	vec_fini(&rd.old);
	return table_lost(c, rd.fam, r);
}

static bool is_readable(const struct plane_common *c, enum ipfam fam, enum nft_set_id set)
{
	return set != FAILSET_END && has_set(c->failover, set) && c->failover->is_done[fam] &&
	       !c->plane.family[fam].is_failed;
}

int plane_handshakes(struct plane *plane, enum plane_handshakes which, plane_handshake_fn *fn,
		     void *arg, struct err *err)
{
	static const enum nft_set_id sets[][2] = {
		[PLANE_HANDSHAKES_SILENT] = { FAILSET_HANDSHAKES, FAILSET_UDP_FLOWS },
		[PLANE_HANDSHAKES_MOVED] = { FAILSET_MOVES, FAILSET_UDP_MOVES },
		[PLANE_HANDSHAKES_REFUSED] = { FAILSET_REFUSED, FAILSET_END },
		[PLANE_UDP_REPLIES] = { FAILSET_UDP_REPLIED, FAILSET_END },
	};
	struct plane_common *c = plane_common_of(plane);
	int r = 0;

	if (c->failover == NULL || plane_is_adopting(c))
		return err_set(err, -EAGAIN, "the tables are being read");
	(void)plane_failover_follow(c, now_ns());
	for (size_t i = 0; i < 2 * IPFAM_N; i++) {
		struct reading rd = {
			.fam = i % IPFAM_N, .set = sets[which][i / IPFAM_N], .fn = fn, .arg = arg
		};
		struct err own = { 0 };
		int q;

		if (!is_readable(c, rd.fam, rd.set))
			continue;
		q = set_read(c, rd, &own);
		if (q < 0 && (r == 0 || r == -EAGAIN)) {
			r = q;
			if (err != NULL)
				*err = own;
		}
	}
	return r;
}

int plane_answers(struct plane *plane, struct endpoint_answer *v, size_t n, struct err *err)
{
	struct plane_common *c = plane_common_of(plane);
	enum ipfam fam = ip_fam(&v->by.addr);
	struct nft_table_ref table = plane_failover_table(c, fam);
	AUTO(free) struct nft_lookup *keys = xcalloc(n, sizeof(*keys));
	const uint64_t life = element_ms(c->failover, FAILSET_ANSWERED);
	int r;

	for (size_t i = 0; i < n; i++)
		nft_data_endpoint(keys[i].key, &v[i].by.addr, v[i].by.port);
	r = nft_elems_get(c->query, &table, FAILSET_ANSWERED, keys, n, err);
	for (size_t i = 0; i < n; i++)
		v[i].age_ns = keys[i].is_found
				      ? (life - MIN(life, keys[i].expires_ms)) * NSEC_PER_MSEC
				      : UINT64_MAX;
	return table_lost(c, fam, r);
}
