/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/guard.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/netfilter_ipv4.h>

#include "base/log.h"
#include "nft/rule.h"
#include "nft/write.h"

#define RETRY_NS (60 * NSEC_PER_SEC)
/* Index of NFTSET_SERVICE_CIDRS in the ranges of a schema. */
#define RANGE_CIDRS 1

/* The table of one family. */
struct guard_family {
	struct nft_fixed programmed;
	bool is_programmed; /* as desired, and owned by this process */
};

struct nft_guard {
	struct nl_sock *nl;
	bool is_desired;
	struct guard_family fams[IPFAM_N];
	VEC(struct ip_prefix) cidrs; /* desired, of both families */
	uint64_t at;                 /* when to write; 0 = the first tick sets it */
	bool is_done;                /* as desired; no write until the desired state changes */
	bool is_unsupported;         /* the kernel does not support such tables */
	bool is_trouble_logged;
};

#define PRI_GUARD (NFT_PRI_NAT_LAST + 1) /* the main table drops, and counts, before */

static const struct nft_chain chains[] = {
	{ "prerouting", "nat", NF_INET_PRE_ROUTING, PRI_GUARD },
	{ "output", "nat", NF_INET_LOCAL_OUT, PRI_GUARD },
};

static const struct nft_chain *guard_chain(size_t i)
{
	return i < ARRAY_SIZE(chains) ? &chains[i] : NULL;
}

static bool guard_build(const void *ctx, struct nft_rules *rs, enum ipfam fam, size_t i)
{
	/* CT_STATE is true for every packet in a nat chain: it exists for connection tracking. */
	if (rs != NULL)
		RULE(rs, fam,
		     WHEN(chains[i].hook == NF_INET_LOCAL_OUT, META(L4PROTO),
			  IS_BYTE(NEQ, IPPROTO_UDP)),
		     DADDR, IN(NFTSET_SERVICE_CIDRS), CT_STATE(NEW), FIB_TYPE(DADDR, NEQ, LOCAL),
		     COUNTER, DROP);
	return true;
}

static const struct nft_schema guard_schema = {
	.table = NFT_GUARD_TABLE,
	.comment = NFT_GUARD_COMMENT,
	.version = 2,
	.begin = NFTSET_SERVICE_CIDRS,
	.end = NFTSET_SERVICE_CIDRS + 1,
	.ranges = NFTSET_SERVICE_CIDRS - RANGE_CIDRS,
	.chain = guard_chain,
	.build = guard_build,
};

void nft_guard_open(struct nft_guard **ret, struct nl_sock *nl, bool is_desired)
{
	struct nft_guard *g = xcalloc(1, sizeof(*g));

	g->nl = nl;
	g->is_desired = is_desired;
	*ret = g;
}

void nft_guard_close(struct nft_guard *g)
{
	if (g == NULL)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_fixed_fini(&g->fams[fam].programmed);
	vec_fini(&g->cidrs);
	free(g);
}

bool nft_guard_is_programmed(const struct nft_guard *g)
{
	return g->fams[IPFAM_V4].is_programmed && g->fams[IPFAM_V6].is_programmed;
}

/* --- writing --- */

/* `old`: handle of a table to replace; 0: none. */
static int family_write(struct nft_guard *g, enum ipfam fam, uint64_t old, struct err *err)
{
	struct guard_family *gf = &g->fams[fam];
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, g->nl, &guard_schema, fam, NFT_GUARD_TABLE);
	if (old != 0)
		nft_write_table_del(&w, old);
	if (!gf->is_programmed)
		nft_write_table(&w, NFT_TABLE_F_OWNER);
	nft_ensure_sets(&w, &gf->programmed);
	nft_ensure_chains(&w, &gf->programmed, NULL);
	nft_ensure_ranges(&w, &gf->programmed, RANGE_CIDRS, g->cidrs.v, g->cidrs.n);
	r = nft_writer_commit(&w, NULL, err);
	g->is_unsupported = r < 0 && nft_writer_is_table_rejected(&w);
	if (r == 0 && !gf->is_programmed)
		log_info(LOG_AREA_PLANE, "table %s %s: created", nft_fam_text(fam),
			 NFT_GUARD_TABLE);
	return r;
}

static int family_apply(struct nft_guard *g, enum ipfam fam, struct err *err)
{
	struct guard_family *gf = &g->fams[fam];
	struct nft_fixed_table old = { 0 };
	int r = 0;

	/* An older table is replaced: none can be made one that ends with its owner. */
	if (!gf->is_programmed)
		r = nft_fixed_table_find(&old, g->nl, fam, &guard_schema, err);
	if (r > 0)
		r = nft_fixed_owner_check(&old, g->nl, err);
	if (r == 0)
		r = family_write(g, fam, old.handle, err);
	if (r < 0)
		nft_fixed_fini(&gf->programmed);
	gf->is_programmed = r == 0;
	return r;
}

int nft_guard_cleanup(struct nl_sock *nl, struct err *err)
{
	int r = 0;

	for (int fam = 0; fam < IPFAM_N && r == 0; fam++)
		r = nft_tables_delete(nl, &guard_schema, fam, NULL, err);
	return r;
}

/* --- timing --- */

static int apply(struct nft_guard *g, struct err *err)
{
	int r = 0;

	if (!g->is_desired)
		return nft_guard_cleanup(g->nl, err);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++)
		r = family_apply(g, fam, err);
	return r;
}

/* vipd serves without a guard: log once. */
static void trouble_log(struct nft_guard *g, const struct err *err)
{
	if (g->is_unsupported)
		log_info(LOG_AREA_PLANE,
			 "table " NFT_GUARD_TABLE
			 ": not created: no tables with an owner in this kernel (before Linux "
			 "5.12); a flush of the ruleset interrupts established connections");
	else if (!g->is_trouble_logged)
		log_info(
			LOG_AREA_PLANE,
			"table " NFT_GUARD_TABLE
			": not written: %s; a flush of the ruleset interrupts established connections; next "
			"attempt within %d s",
			err->text, (int)(RETRY_NS / NSEC_PER_SEC));
	g->is_trouble_logged = true;
}

static int try(struct nft_guard *g)
{
	struct err err = { 0 };
	int r = apply(g, &err);

	if (r < 0)
		trouble_log(g, &err);
	else
		g->is_trouble_logged = false;
	g->is_done = r == 0 || g->is_unsupported;
	return r;
}

void nft_guard_desire(struct nft_guard *g, const struct ip_prefix *cidrs, size_t n)
{
	if (!g->is_desired || g->is_unsupported)
		return;
	g->is_done = false;
	vec_clear(&g->cidrs);
	for (size_t i = 0; i < n; i++)
		*vec_push(&g->cidrs) = cidrs[i];
	if (nft_guard_is_programmed(g))
		(void)try(g);
}

uint64_t nft_guard_tick(struct nft_guard *g, uint64_t now)
{
	if (g->is_done)
		return 0;
	if (g->at == 0)
		g->at = now + NFT_GUARD_AFTER_NS;
	if (now < g->at)
		return g->at;
	if (try(g) == 0 || g->is_done)
		return 0;
	g->at = now + RETRY_NS;
	return g->at;
}

void nft_guard_follow(struct nft_guard *g)
{
	if (!g->is_done && !g->is_trouble_logged)
		(void)try(g);
}
