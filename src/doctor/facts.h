/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/facts - facts about the node, collected by read_*.c and run.c.
 *
 * Numbers are FACT_UNKNOWN if their file does not exist. Lists own their texts.
 * Private to doctor/.
 */
#pragma once

#include <stdbool.h>

#include "base/ip.h"
#include "base/vec.h"
#include "doctor/links.h"
#include "doctor/proxies.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/tryout.h"

/* Results of try_kernel() in run.c. */
struct fact_try {
	bool is_done;
	bool is_private;   /* tried in a network namespace of its own, with the layout */
	int layout_result; /* 0 or -errno; only with is_private */
	struct err error;  /* why nothing was tried, or the error of the layout */
	size_t n[IPFAM_N];
	struct nft_try tries[IPFAM_N][NFT_TRIES_MAX];
	/* Of the ipvs plane: */
	int ipvs_result; /* 0: IPVS is available, or -errno */
	size_t n_scheds; /* tried only with is_private */
	struct ipvs_try scheds[IPVS_TRIES_MAX];
};

/* A base chain of type nat that can translate destinations. */
struct fact_hook {
	char *chain;
	bool is_output; /* false: prerouting */
	int32_t priority;
};

/* A base chain of the input or forward hook. */
struct fact_filter {
	char *chain;
	uint32_t hook;  /* NF_INET_LOCAL_IN or NF_INET_FORWARD */
	bool is_closed; /* it drops or rejects packets that no rule accepts */
};

/* A foreign table of nf_tables. */
struct fact_table {
	uint8_t family; /* NFPROTO_* */
	char *name;
	bool has_kube_services;   /* a chain KUBE-SERVICES */
	bool has_router_services; /* a chain KUBE-ROUTER-SERVICES */
	bool has_dnat;            /* a rule translates destinations */
	bool accepts_mark;        /* a rule accepts the mark of captured packets */
	unsigned int accepts;     /* NFT_ACCEPTS_*: forwarded packets that a rule accepts */
	size_t n_mentions;        /* rules that compare with a service address */
	struct ip_addr mention;   /* one of them */
	char *mention_chain;
	struct fact_hook hook; /* the first one by priority; chain NULL: none */
	VEC(struct fact_filter) filters;
};

/* vipd's kernel state; sorted. */
struct fact_ours {
	size_t n_tables[IPFAM_N];
	VEC(struct ip_tuple) frontends;
	VEC(struct ip_addr) cluster_ips;
	VEC(struct ip_addr) endpoints;
};

/* Facts for the ipvs plane. */
struct fact_ipvs {
	bool is_selected; /* false: nothing below is read */
	bool is_in_force; /* its table exists */
	bool has_other;   /* a table of the nftables plane exists too; its hooks run first */
	uint32_t mark;    /* of captured packets, in the bits of IPVS_MARK_MASK */
	bool has_routing; /* the two lists below are known */
	struct err routing_error;
	VEC(char *) missing; /* policy routing rules and routes */
	VEC(char *) hard;    /* foreign rules that prevent vipd from serving */
	VEC(char *) soft;    /* foreign rules that precede vipd's */
	int64_t sysctls[IPVS_SYSCTLS_FIXED];
	int64_t table_size; /* buckets for connections */
	int64_t n_conns;
};

struct facts {
	char release[FACT_NAME_MAX];
	struct fact_try trial;
	/* sysctls */
	int64_t ip_forward, ip6_forward;
	int64_t rp_filter_all, route_localnet_all;
	int64_t bridge_call_iptables, bridge_call_ip6tables;
	int64_t n_default_routes; /* IPv4, by interface */
	/* connection tracking */
	int64_t ct_max, ct_count, ct_buckets, ct_liberal;
	bool has_ct_drops;
	uint64_t ct_drops; /* new flows dropped because the table was full, since boot */
	/* links */
	bool has_links;
	struct err links_error;
	struct links net;
	/* other programs */
	struct proxies proxies;
	VEC(struct ip_tuple) listeners; /* sockets */
	bool has_ipvs;
	VEC(struct ip_tuple) ipvs; /* virtual services, foreign ones */
	struct fact_ipvs ipvs_plane;
	bool has_tables;
	struct err tables_error;
	VEC(struct fact_table) tables;
	struct fact_ours ours;
	bool has_legacy_kube; /* KUBE-SERVICES in iptables-legacy */
	/* clock */
	bool is_clock_known, is_clock_synced;
	int64_t clock_jump_ns; /* since the daemon started */
	int64_t wall_s;
	/* resources */
	int64_t nofile_hard;
	int rcvbuf_result;
	bool has_memory;                 /* the two below were read */
	int64_t memory_max, memory_used; /* of the control group; FACT_UNKNOWN: no limit */
	uint64_t capabilities;
	bool has_capabilities;
};

/* Values that are kept if their source is missing; read_files() sets all other numbers. */
void facts_init(struct facts *f);
void facts_fini(struct facts *f);
/* Free the chains. */
void fact_table_clear(struct fact_table *t);

/* Files below `root`: sysctls, counters, sockets, processes. Links must have been read. */
void read_files(struct facts *f, const char *root);
/* Of this process: limits, capabilities, sockets, and the clock. */
void read_self(struct facts *f, const char *root, int64_t clock_offset_ns);
/* rtnetlink */
void read_links(struct facts *f);
/* nf_tables: vipd's tables, then foreign ones */
void read_tables(struct facts *f);
/* IPVS and policy routing, after the tables and the files */
void read_ipvs(struct facts *f, const char *root);

/* Does one of its vectors have `addr`, which its elements begin with? */
#define ours_has(vec, addr) (vec_search((vec), (addr), ip_addr_cmp) != NULL)
void ours_sort(struct fact_ours *o);
