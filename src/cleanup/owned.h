/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/owned - what in an iptables table is kube-proxy's, and may go. Pure.
 *
 *     fill an xt_table (nftables.c, legacy.c) -> xt_decide() -> delete what is marked -> xt_fini()
 *
 * A chain is kube-proxy's by its table and its whole name; KUBE-FIREWALL of filter,
 * KUBE-MARK-DROP, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT are the kubelet's. A rule is
 * its, when it is in such a chain, or hangs one where kube-proxy hangs it: in a base chain.
 *
 * Two things keep a chain. A foreign chain uses it: CNI plugins may mark with
 * KUBE-MARK-MASQ, and then KUBE-POSTROUTING, which acts on the mark, stays as well. And in a
 * table whose base chain drops what no rule accepts, the chains of kube-proxy that accept
 * stay with their jumps, or established connections would end; force takes them away.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "base/vec.h"

struct xt_chain {
	char *name;
	bool is_base;   /* on one of the kernel's hooks */
	bool is_closed; /* of base chains: what no rule accepted does not get through */
	size_t n_rules;
	bool is_doomed; /* xt_decide(): empty it, then delete it */
};

/* Only rules that go to another chain. */
struct xt_rule {
	char *chain;
	char *target;
	uint64_t handle; /* nf_tables */
	char *text;      /* legacy: what follows "-A CHAIN", as iptables-save prints it */
	bool is_doomed;  /* xt_decide(): delete it, its chain stays */
};

/* A chain of kube-proxy's that stays, and why. */
struct xt_kept {
	const char *chain; /* of the table */
	struct str why;
	bool keeps_jumps;
};

struct xt_table {
	const char *family; /* "ip" or "ip6" */
	const char *name;   /* "filter", "nat", "mangle" */
	VEC(struct xt_chain) chains;
	VEC(struct xt_rule) rules;
	VEC(struct xt_kept) kept; /* xt_decide() */
};

struct xt_counts {
	size_t n_chains;
	size_t n_rules; /* in them */
	size_t n_jumps; /* elsewhere, to them */
};

/* Is the chain of this name in this table kube-proxy's? */
bool xt_is_owned(const char *table, const char *chain);
/* Has the table a chain of kube-proxy's at all? If not its rules need not be read. */
bool xt_has_owned(const struct xt_table *t);
/* Mark what goes, list what stays though it is kube-proxy's. Once a table. */
void xt_decide(struct xt_table *t, bool is_forced);
/* Add up what is marked. */
void xt_count(const struct xt_table *t, struct xt_counts *counts);
void xt_fini(struct xt_table *t);
