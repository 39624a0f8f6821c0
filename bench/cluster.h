/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bench/cluster - services, slices, and model, plan and plane, for bench/change and bench/steps. */
#ifndef BENCH_CLUSTER_H
#define BENCH_CLUSTER_H

#include "../tests/model_put.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/nft/plane_nft.h"
#include "sync/sync.h"

/* Model, plan and plane of one process. The caller opens `s`. */
struct life {
	struct model m;
	struct plan p;
	struct plane *plane;
	struct sync *s;
	struct nl_sock *cmd; /* cmd and query: the plane's */
	struct nl_sock *query;
};

/* Print and exit. */
void die(const char *what, const char *why) __attribute__((noreturn));

const struct name *numbered(const char *prefix, int i);

/* Service i: ports from 80 on. */
struct service *make_service(int i, int n_ports);

/*
 * Endpoints [from, from + n) of service i; the address of endpoint k is 10.0.0.0 + base + k. The
 * first one is at another address if `shift`. The first slice has the service's name.
 */
struct slice *make_slice(int i, int n_ports, int base, int from, int n, int shift);

/* Whether VIPD_PLANE selects the ipvs plane. */
bool is_ipvs(void);
/* A model of this node without services, a plan and a plane. */
void life_open(struct life *l);
void life_end(struct life *l);

/* Resident memory of this process. */
double resident_mb(void);
/* CPU time of this process. */
uint64_t cpu_ns(void);
int u64_cmp(const void *a, const void *b);

#endif
