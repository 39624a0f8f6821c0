/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/parts - what the files of this folder do for kube_proxy.c, one subsystem each. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "cleanup/owned.h"
#include "nl/ipvs.h"

/* The caller fills the first members; the others are 0. */
struct cleanup {
	const char *control_socket;
	bool is_running; /* a vipd holds the lock of this network namespace */
	bool is_forced;
	enum proxy proxy;
	/* Virtual services at these addresses stay: --ipvs-exclude-cidrs. Borrowed. */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	FILE *out; /* one line per subsystem */

	size_t n_occupied; /* services of vipd that wait only for virtual services of the proxy */
	size_t n_handed_over;   /* virtual services that vipd took over */
	bool is_busy;           /* IPVS: connections are left, or vipd does not serve them yet */
	struct dsr_marks marks; /* of kube-router; owned */
	size_t n_removed;
	size_t n_left;
};

/* --- report.c: what was removed, one line per subsystem, and what is left --- */

/* "iptables: removed 3 chains"; `n` is added to the total. */
#define report_removed(c, n, ...) report_line((c), &(c)->n_removed, (n), __VA_ARGS__)
/* "iptables: left: ip nat KUBE-MARK-MASQ: chain X uses it". */
#define report_left(c, ...) report_line((c), &(c)->n_left, 1, __VA_ARGS__)
void report_line(struct cleanup *c, size_t *counter, size_t n, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Print the chains that stay in a table, and the number of deleted ones; `how`: "legacy",
 * "nf_tables". */
void report_kept(struct cleanup *c, const char *how, const struct xt_table *t);
void report_counts(struct cleanup *c, const char *how, const struct xt_counts *counts);
/* 0: nothing is left of the proxy. */
MUST_USE int report_end(const struct cleanup *c, struct err *err);

/* --- serving.c: may the rules of another proxy be removed? --- */

/*
 * Wait until vipd, read over its control socket, has programmed all services, but at most 20 s, and
 * only while it reads kernel state, programs services or waits for a port of its servers; else
 * `err` says why it does not serve, also if it is not ready or an address family failed.
 * Sets c->n_occupied.
 */
MUST_USE int serving_wait(struct cleanup *c, bool is_occupied_allowed, struct err *err);
/*
 * -EBUSY: another process of this network namespace is `proxy` ("kube-proxy", "kube-router",
 * "vipd"), or k3s or MicroK8s with kube-proxy inside, and would restore the rules.
 */
MUST_USE int serving_no_other(const char *proxy, struct err *err);

/* --- nftables.c: kube-proxy's tables (mode nftables), and chains in tables of iptables-nft --- */

/* Does this network namespace have tables of vipd, of either plane? 1, 0 or -errno. */
MUST_USE int cleanup_has_vipd(struct nl_sock *nl, struct err *err);
/* Delete the tables ip and ip6 kube-proxy. A table that cannot be deleted is reported, not an
 * error. */
MUST_USE int cleanup_nftables(struct nl_sock *nl, struct cleanup *c, struct err *err);
/*
 * Rules are deleted by handle and chains by name, without decoding their expressions, in one
 * transaction for both families.
 */
MUST_USE int cleanup_iptables_nft(struct nl_sock *nl, struct cleanup *c, struct err *err);

/* --- legacy.c: chains and rules in iptables-legacy tables --- */

/*
 * /proc/net/ip_tables_names lists the existing tables. The kernel replaces a table as a whole, so
 * iptables-legacy-save and iptables-legacy-restore are used, one restore per family; each table is
 * all or nothing.
 */
void cleanup_iptables_legacy(struct cleanup *c);
/*
 * For tests: run a program with a text as input; appends its output to `out`. Returns 0; -ENOENT:
 * no such program in PATH; -EIO: it failed, its error output is in `err`; another -errno.
 */
MUST_USE int child_run(struct str *out, const char *const argv[], const char *in, struct err *err);
/* For tests: fill the table whose name is set from the output of iptables-save. */
void legacy_parse(struct xt_table *t, const char *saved);
/* For tests: append the input of iptables-restore --noflush; nothing without marked objects. */
void legacy_print(struct str *out, const struct xt_table *t);

/* --- ipset.c: sets of kube-proxy's ipvs mode and of kube-router --- */

/* Node ports in the sets of node ports. Address 0.0.0.0, or ::, is any: kube-proxy's. */
struct node_ports {
	VEC(struct ip_tuple) at; /* sorted */
};

/* Is it a set of the proxy, of either family: "KUBE-...", "KUBE-6-...", or kube-router's? */
bool ipset_is_owned(enum proxy p, const char *name);
/*
 * `ret` must be zeroed. A protocol without a set stays empty. kube-router has no set of node ports
 * alone: they are the entries with an address of kube-router-local-ips. Version 1 lists all virtual
 * services of the kernel: only ports of Kubernetes' default range of node ports count.
 */
MUST_USE int ipset_node_ports(struct node_ports *ret, enum proxy p, struct nl_sock *nl,
			      struct err *err);
bool node_ports_has(const struct node_ports *p, const struct ip_tuple *at);
/* Call after the rules that use the sets are deleted; waits until the kernel has released them. */
MUST_USE int cleanup_ipsets(struct nl_sock *nl, struct cleanup *c, struct err *err);

/* --- ipvs.c: virtual services, and their device --- */

/* The dummy device with the service addresses: kube-ipvs0, kube-dummy-if. */
struct ipvs_link {
	VEC(struct ip_addr) addrs; /* sorted */
	const char *name;
	int index; /* 0: no such device */
	bool is_dummy;
};

/* `nl` is of NETLINK_ROUTE. The addresses in `ret` are freed by the caller. */
MUST_USE int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl,
			    struct err *err);
/* Delete the device and its addresses. */
MUST_USE int cleanup_link(const struct ipvs_link *l, struct nl_sock *nl, struct cleanup *c,
			  struct err *err);
/*
 * Delete virtual services with an address of the device or a port in a set of node ports, and those
 * of kube-router by mark, for direct server return; never vipd's own, and none at an address in
 * c->exclude. A virtual service forwards its established connections; vipd takes new ones before
 * they reach it. So a virtual service with connections stays, unless force is requested. If
 * c->n_occupied is not 0, services of vipd with ClientIP affinity are pending while another proxy's
 * virtual services have their addresses: vipd takes over persistent ones with their connections.
 */
MUST_USE int cleanup_ipvs(struct ipvs_wire *wire, const struct ipvs_link *link,
			  const struct node_ports *ports, struct cleanup *c, struct err *err);

/* --- routing.c: kube-router's policy routing for direct server return (DSR) --- */

/*
 * `nl` is of NETLINK_ROUTE. The marks are those of the rules of table 78, which has one route,
 * local default.
 */
MUST_USE int dsr_marks_read(struct dsr_marks *ret, struct nl_sock *nl, struct err *err);
/*
 * Call last: the rules identify kube-router's virtual services by mark and its rules in mangle. The
 * rule of table 79 has priority 32765. Up to version 2.5, table 79 has a route out of kube-bridge
 * for each external address of a DSR service. Other rules and routes stay.
 */
MUST_USE int cleanup_routing(struct nl_sock *nl, struct cleanup *c, struct err *err);
