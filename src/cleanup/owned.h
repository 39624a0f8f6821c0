/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/owned - kube-proxy's chains and rules in an iptables table, and which may be deleted.
 * Pure.
 *
 *     fill an xt_table (nftables.c, legacy.c) -> xt_decide() -> delete what is marked -> xt_fini()
 *
 * A chain of kube-proxy is identified by its table and its full name. KUBE-FIREWALL of filter,
 * KUBE-MARK-DROP, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT belong to the kubelet. A rule of
 * kube-proxy is in such a chain, or jumps to one from a base chain, as kube-proxy's do.
 *
 * A chain stays for one of two reasons. A foreign chain uses it: a CNI plugin may set the mark with
 * KUBE-MARK-MASQ; KUBE-POSTROUTING, which acts on the mark, then stays too. Or it accepts packets,
 * and the base chain that jumps to it drops packets that no rule accepts: without it established
 * connections would end. `force` removes chains of the second kind.
 *
 * kube-router has rules in base chains, too. In nat: SNAT of what IPVS translates. In mangle: rules
 * for one address that set the mark of a DSR service, and TCPMSS rules for an address of these.
 */
#pragma once

#include <stdbool.h>

#include "base/ip.h"
#include "base/str.h"
#include "base/vec.h"

/* The service proxy whose state is removed. */
enum proxy {
	PROXY_KUBE_PROXY = 0,
	PROXY_KUBE_ROUTER,
};

const char *proxy_name(enum proxy p); /* "kube-proxy" */

struct xt_chain {
	char *name;
	bool is_base;   /* on one of the kernel's hooks */
	bool is_closed; /* base chain that drops packets that no rule accepts */
	size_t n_rules;
	bool is_doomed; /* xt_decide(): empty it, then delete it */
};

/* A rule that jumps to another chain, or may be a stray one; other rules are not kept. */
struct xt_rule {
	const char *chain; /* of the table */
	bool is_in_base;   /* the chain is a base chain */
	char *target;
	uint64_t handle;     /* nf_tables */
	char *text;          /* legacy: text after "-A CHAIN" in iptables-save */
	uint32_t mark;       /* the whole mark that it gives packets; 0: none */
	bool is_mss;         /* target TCPMSS with --set-mss */
	struct ip_addr addr; /* its single source or destination, with a mark or TCPMSS */
	bool is_stray;       /* of the proxy, although it jumps to no chain of the proxy */
	bool is_doomed;      /* xt_decide(): delete the rule; its chain stays */
};

/*
 * Packet marks of kube-router's services with direct server return (DSR), one a service address,
 * protocol and port. Rules in mangle set them, routing rules and virtual services match them.
 */
struct dsr_mark {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint32_t mark;
};

struct dsr_marks {
	VEC(struct dsr_mark) v;
};

/* A chain of kube-proxy that stays, with the reason. */
struct xt_kept {
	const char *chain; /* of the table */
	char *why;
	bool keeps_jumps;
};

struct xt_table {
	enum proxy proxy;
	const struct dsr_marks *marks; /* NULL: none */
	enum ipfam fam;
	const char *name; /* "filter", "nat", "mangle" */
	VEC(struct xt_chain) chains;
	size_t last; /* the chain that xt_chain() found last */
	VEC(struct xt_rule) rules;
	VEC(struct xt_kept) kept; /* xt_decide() */
};

/* Tables that may have chains or rules of a proxy. */
#define XT_TABLES 3
extern const char *const xt_table_names[XT_TABLES];

struct xt_counts {
	size_t n_chains;
	size_t n_rules; /* in these chains */
	size_t n_jumps; /* in other chains, to these */
	size_t n_strays;
};

bool dsr_marks_has(const struct dsr_marks *marks, uint8_t family, uint32_t mark);
/*
 * The chain whose name are the `len` characters at `name`, or NULL. Fast for rules in the order of
 * their chains.
 */
struct xt_chain *xt_chain(struct xt_table *t, const char *name, size_t len);
/* Does the chain of the table belong to the table's proxy? */
bool xt_is_owned(const struct xt_table *t, const char *chain);
/* Can the table have chains or rules of the proxy? Otherwise its rules need not be read. */
bool xt_has_owned(const struct xt_table *t);
/* Mark chains and rules for deletion; list chains of kube-proxy that stay. Call once per table. */
void xt_decide(struct xt_table *t, bool is_forced);
/* Count marked chains and rules. */
void xt_count(const struct xt_table *t, struct xt_counts *counts);
void xt_rules_clear(struct xt_table *t);
/* What identifies the table stays. */
void xt_fini(struct xt_table *t);
