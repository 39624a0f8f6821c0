/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/owned - names of chains, and reasons to keep a chain. */
#include "cleanup/owned.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HASH_LEN 16 /* length of the hash in names of chains of one service or endpoint */

const char *const xt_table_names[XT_TABLES] = { "filter", "nat", "mangle" };

/* By the index in xt_table_names. */
enum {
	IN_FILTER = 1,
	IN_NAT = 2,
	IN_MANGLE = 4,
};

enum {
	IS_HUNG = 1,      /* kube-proxy jumps to it from base chains */
	IS_ACCEPTING = 2, /* in filter: accepts packets */
};

/* IPT-02, IPVS-29 to IPVS-32, and chains of earlier versions of the ipvs mode. */
static const struct fixed {
	const char *name;
	int tables;
	int traits; /* of the chain in filter, if several tables have it */
	enum proxy proxy;
} fixed[] = {
	{ "KUBE-SERVICES", IN_FILTER | IN_NAT, IS_HUNG },
	{ "KUBE-EXTERNAL-SERVICES", IN_FILTER, IS_HUNG },
	{ "KUBE-NODEPORTS", IN_FILTER | IN_NAT, IS_HUNG | IS_ACCEPTING },
	{ "KUBE-POSTROUTING", IN_NAT, IS_HUNG },
	{ "KUBE-MARK-MASQ", IN_NAT, 0 },
	{ "KUBE-FORWARD", IN_FILTER, IS_HUNG | IS_ACCEPTING },
	{ "KUBE-PROXY-FIREWALL", IN_FILTER, IS_HUNG },
	{ "KUBE-PROXY-CANARY", IN_FILTER | IN_NAT | IN_MANGLE, 0 },
	{ "KUBE-NODE-PORT", IN_FILTER | IN_NAT, IS_HUNG | IS_ACCEPTING },
	{ "KUBE-LOAD-BALANCER", IN_NAT, 0 },
	{ "KUBE-SOURCE-RANGES-FIREWALL", IN_FILTER, 0 },
	{ "KUBE-IPVS-FILTER", IN_FILTER, IS_HUNG },
	{ "KUBE-IPVS-OUT-FILTER", IN_FILTER, IS_HUNG },
	{ "KUBE-FIREWALL", IN_NAT, 0 }, /* the kubelet's is in filter */
	/* kube-router: its input rules matter to IPVS only, which is empty by then. */
	{ "KUBE-ROUTER-SERVICES", IN_FILTER, IS_HUNG, PROXY_KUBE_ROUTER },
	{ "KUBE-ROUTER-HAIRPIN", IN_NAT, IS_HUNG, PROXY_KUBE_ROUTER },
};

const char *proxy_name(enum proxy p)
{
	return p == PROXY_KUBE_ROUTER ? "kube-router" : "kube-proxy";
}

/* IPT-03; all in nat. Earlier versions used KUBE-XLB- for KUBE-SVL- and KUBE-EXT-. */
static const char *const hashed[] = {
	"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-",
};

static int table_bit(const char *table)
{
	for (int i = 0; i < XT_TABLES; i++)
		if (strcmp(table, xt_table_names[i]) == 0)
			return 1 << i;
	return 0;
}

static bool is_hashed(const char *chain)
{
	for (size_t i = 0; i < ARRAY_SIZE(hashed); i++) {
		size_t len = strlen(hashed[i]);

		if (strncmp(chain, hashed[i], len) == 0)
			return strlen(chain + len) == HASH_LEN &&
			       strspn(chain + len, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == HASH_LEN;
	}
	return false;
}

static const struct fixed *fixed_find(const struct xt_table *t, const char *chain)
{
	return array_find(fixed, ARRAY_SIZE(fixed), f,
			  f->proxy == t->proxy && (f->tables & table_bit(t->name)) != 0 &&
				  strcmp(f->name, chain) == 0);
}

static int traits(const struct xt_table *t, const char *chain)
{
	const struct fixed *f = fixed_find(t, chain);

	return f != NULL ? f->traits : 0;
}

struct xt_chain *xt_chain(struct xt_table *t, const char *name, size_t len)
{
	for (size_t i = 0; i < t->chains.n; i++) {
		size_t k = (t->last + i) % t->chains.n;
		struct xt_chain *c = &t->chains.v[k];

		if (strncmp(c->name, name, len) == 0 && c->name[len] == '\0') {
			t->last = k;
			return c;
		}
	}
	return NULL;
}

bool xt_is_owned(const struct xt_table *t, const char *chain)
{
	return fixed_find(t, chain) != NULL ||
	       (t->proxy == PROXY_KUBE_PROXY && table_bit(t->name) == IN_NAT && is_hashed(chain));
}

bool dsr_marks_has(const struct dsr_marks *marks, uint8_t family, uint32_t mark)
{
	return marks != NULL && vec_has(&marks->v, m, m->family == family && m->mark == mark);
}

bool xt_has_owned(const struct xt_table *t)
{
	if (t->proxy == PROXY_KUBE_ROUTER && table_bit(t->name) == IN_NAT)
		return true;
	if (table_bit(t->name) == IN_MANGLE && t->marks != NULL && t->marks->v.n > 0)
		return true;
	return vec_has(&t->chains, c, !c->is_base && xt_is_owned(t, c->name));
}

/* --- chains that stay --- */

static struct xt_kept *kept_find(const struct xt_table *t, const char *name)
{
	return vec_find(&t->kept, k, strcmp(k->chain, name) == 0);
}

/* Keep a chain. False: it is kept already, for another reason. */
PRINTF_LIKE(4, 5)
static bool keep(struct xt_table *t, const char *name, bool keeps_jumps, const char *fmt, ...)
{
	va_list ap;

	if (kept_find(t, name) != NULL)
		return false;
	va_start(ap, fmt);
	*vec_push(&t->kept) = (struct xt_kept){ .chain = name,
						.why = xvasprintf(fmt, ap),
						.keeps_jumps = keeps_jumps };
	va_end(ap);
	return true;
}

static bool is_jump(const struct xt_table *t, const struct xt_rule *r)
{
	return r->is_in_base && (traits(t, r->target) & IS_HUNG) != 0;
}

static void keep_accepting(struct xt_table *t, const struct xt_rule *r)
{
	const struct xt_chain *c = xt_chain(t, r->chain, strlen(r->chain));

	if (table_bit(t->name) == IN_FILTER && (traits(t, r->target) & IS_ACCEPTING) != 0 &&
	    c != NULL && c->is_closed)
		(void)keep(t, r->target, true,
			   "%s drops what it does not accept (--cleanup=%s,force removes it)",
			   r->chain, proxy_name(t->proxy));
}

static void keep_pair(struct xt_table *t)
{
	if (kept_find(t, "KUBE-MARK-MASQ") != NULL &&
	    vec_has(&t->chains, c, strcmp(c->name, "KUBE-POSTROUTING") == 0))
		(void)keep(t, "KUBE-POSTROUTING", true, "it acts on the mark of KUBE-MARK-MASQ");
}

static bool is_marked(const struct xt_table *t, const struct ip_addr *addr)
{
	return vec_has(&t->rules, r,
		       r->mark != 0 && r->is_stray && ip_addr_is_equal(&r->addr, addr));
}

/* kube-router has its rules of both targets in PREROUTING, and each target in one other chain. */
static bool is_dsr_chain(const struct xt_rule *r, const char *other)
{
	return strcmp(r->chain, "PREROUTING") == 0 || strcmp(r->chain, other) == 0;
}

static void find_dsr(struct xt_table *t)
{
	if (table_bit(t->name) != IN_MANGLE)
		return;
	vec_for_each (r, &t->rules)
		if (r->mark != 0 && ip_is_set(&r->addr) && is_dsr_chain(r, "OUTPUT") &&
		    dsr_marks_has(t->marks, r->addr.family, r->mark))
			r->is_stray = true;
	vec_for_each (r, &t->rules)
		if (r->is_mss && is_marked(t, &r->addr) && is_dsr_chain(r, "POSTROUTING"))
			r->is_stray = true;
}

void xt_decide(struct xt_table *t, bool is_forced)
{
	bool is_more = true;

	find_dsr(t);
	vec_for_each (r, &t->rules) {
		if (!xt_is_owned(t, r->target) || xt_is_owned(t, r->chain))
			continue;
		if (!is_jump(t, r))
			(void)keep(t, r->target, false, "chain %s, which is not %s's, uses it",
				   r->chain, proxy_name(t->proxy));
		else if (!is_forced)
			keep_accepting(t, r);
	}
	while (t->kept.n > 0 && is_more) {
		is_more = false;
		vec_for_each (r, &t->rules)
			if (xt_is_owned(t, r->target) && kept_find(t, r->chain) != NULL)
				is_more |= keep(t, r->target, false, "%s uses it", r->chain);
	}
	keep_pair(t);
	vec_for_each (r, &t->rules) {
		const struct xt_kept *k;

		r->is_doomed = r->is_stray;
		if (!xt_is_owned(t, r->target) || xt_is_owned(t, r->chain) || !is_jump(t, r))
			continue;
		k = kept_find(t, r->target);
		r->is_doomed = k == NULL || !k->keeps_jumps;
	}
	vec_for_each (c, &t->chains)
		c->is_doomed =
			!c->is_base && xt_is_owned(t, c->name) && kept_find(t, c->name) == NULL;
}

void xt_count(const struct xt_table *t, struct xt_counts *counts)
{
	vec_for_each (c, &t->chains)
		if (c->is_doomed) {
			counts->n_chains++;
			counts->n_rules += c->n_rules;
		}
	vec_for_each (r, &t->rules) {
		counts->n_strays += r->is_stray;
		counts->n_jumps += r->is_doomed && !r->is_stray;
	}
}

void xt_rules_clear(struct xt_table *t)
{
	vec_for_each (r, &t->rules) {
		free(r->target);
		free(r->text);
	}
	vec_fini(&t->rules);
}

void xt_fini(struct xt_table *t)
{
	xt_rules_clear(t);
	vec_for_each (c, &t->chains)
		free(c->name);
	vec_for_each (k, &t->kept)
		free(k->why);
	vec_fini(&t->chains);
	vec_fini(&t->kept);
}
