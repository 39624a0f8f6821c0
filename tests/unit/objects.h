/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/objects - Kubernetes objects from one line of text, for tables of cases.
 *
 * Words are separated by blanks. A malformed text aborts the test: it is a bug.
 *
 * service:  type=ClusterIP|NodePort|LoadBalancer|ExternalName   (default ClusterIP)
 *           ip=ADDR         cluster IP of the address's family
 *           port=NAME[/PROTO]:PORT[:NODEPORT]                   (NAME may be empty)
 *           ext=ADDR  vip=ADDR  proxy=ADDR (ipMode Proxy)  range=PREFIX  bad (a bad range)
 *           left-out (an address above the limit)
 *           sched=TEXT  weights=TEXT  drain=TEXT  fwd=TEXT (annotations)
 *           itp  etp  headless  label  affinity=SECONDS  hc=PORT  created=SECONDS
 * slice:    [v6] [version=N] [trigger=N] | NAME[/PROTO]:PORT ... | ENDPOINT; ENDPOINT; ...
 * endpoint: ADDR or N (10.0.1.N, fd00::N), then words:
 *           r s t   ready, serving, terminating (also joined: "rs")
 *           @NODE   %NODE (node hint)   +ZONE (zone hint)   ~POD
 * node:     zone=Z  addr=ADDR  pods=PREFIX  deleting  taint
 *
 * The namespace is part of a name: "shop/cart".
 */
#pragma once

#include "../model_put.h"

DEFINE_AUTO(struct service *, service_close);
DEFINE_AUTO(struct slice *, slice_close);
DEFINE_AUTO(struct node *, node_close);

struct service *test_service(const char *name, const char *text);
struct slice *test_slice(const char *name, const char *service, const char *text);
struct node *test_node(const char *name, const char *text);
struct service_cidr *test_service_cidr(const char *name, const char *text); /* prefixes */

struct ip_addr test_addr(const char *text);
struct ip_prefix test_prefix(const char *text);
