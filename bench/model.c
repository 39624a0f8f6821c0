/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/model - cost of the model: memory, loading, redelivery, selection.
 *
 *     model [SERVICES [ENDPOINTS]]        default 50000 5
 *
 * Names are as long as those of real clusters; every endpoint has a pod name, a
 * node and a zone hint. No root, no kernel.
 */
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/model_put.h"
#include "model/select.h"

#define NODES 1000
#define ZONES 3
#define BIG_SLICES 50
#define BIG_SLICE 100

static const char *text(const char *fmt, ...) PRINTF_LIKE(1, 2);
static const char *text(const char *fmt, ...)
{
	static char buf[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return buf;
}

static const struct name *ns_of(unsigned int i)
{
	return name_get_str(text("namespace-%u", i % 500));
}

static struct service *make_service(unsigned int i)
{
	const uint8_t addr[4] = { 10, (uint8_t)(96 + (i >> 16)), (uint8_t)(i >> 8), (uint8_t)i };
	struct service *s = object_open(OBJECT_KIND_SERVICE).service;

	s->ns = ns_of(i);
	s->name = name_get_str(text("service-%05u", i));
	s->type = SERVICE_TYPE_CLUSTERIP;
	s->created_s = 1700000000 + i;
	s->cluster_ip[IPFAM_V4] = ip_addr_from_bytes(AF_INET, addr);
	*vec_push(&s->ports) = (struct service_port){ .name = name_get_str("http"),
						      .proto = L4PROTO_TCP,
						      .port = 80 };
	return s;
}

static void add_endpoint(struct slice *s, unsigned int service, unsigned int j)
{
	unsigned int x = j * 2654435761U + service * 40503U; /* addresses are spread */
	const uint8_t addr[4] = { 10, (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x };
	const struct name *zone = name_get_str(text("zone-%u", j % ZONES));

	*vec_push(&s->endpoints) = (struct slice_endpoint){
		.addr = ip_addr_from_bytes(AF_INET, addr),
		.flags = ENDPOINT_READY | ENDPOINT_SERVING,
		.pod = xstrdup(text("service-%05u-5d4f8c9b7d-%05x", service, x & 0xfffff)),
		.place = slice_place_make(name_get_str(text("node-%u", x % NODES)), NULL,
					  (struct hints){ &zone, 1 }, (struct hints){ 0 }),
	};
}

/* Slice `k` of service `i`. */
static struct slice *make_slice(unsigned int i, unsigned int k, unsigned int endpoints)
{
	struct slice *s = object_open(OBJECT_KIND_SLICE).slice;

	s->ns = ns_of(i);
	s->name = name_get_str(text("service-%05u-%05x", i, (i * 31 + k * 7919) & 0xfffff));
	s->service = name_get_str(text("service-%05u", i));
	s->version = 1;
	*vec_push(&s->ports) = (struct slice_port){ .name = name_get_str("http"),
						    .proto = L4PROTO_TCP,
						    .port = 8080 };
	for (unsigned int j = 0; j < endpoints; j++)
		add_endpoint(s, i, k * endpoints + j);
	return s;
}

static double mega(size_t bytes)
{
	return (double)bytes / 1e6;
}

static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void bench_load(struct model *m, unsigned int services, unsigned int endpoints)
{
	size_t before = in_use();
	uint64_t start = now_ns();

	for (unsigned int i = 0; i < services; i++)
		model_put_service(m, make_service(i), 1);
	for (unsigned int i = 0; i < services; i++)
		model_put_slice(m, make_slice(i, 0, endpoints), 1);
	printf("%u services x %u endpoints: %.1f MB, built and put in %.0f ms\n", services,
	       endpoints, mega(in_use() - before), (double)(now_ns() - start) / 1e6);
}

static void bench_redeliver(struct model *m, unsigned int services, unsigned int endpoints)
{
	uint64_t start = now_ns();
	unsigned int changed = 0;

	for (unsigned int i = 0; i < services; i++)
		changed += (unsigned int)model_put_slice(m, make_slice(i, 0, endpoints), 1);
	printf("redelivery of all slices: %.0f ns each, with building them; %u changed\n",
	       (double)(now_ns() - start) / services, changed);
}

static void bench_select(const struct model *m, unsigned int services)
{
	uint64_t start = now_ns();
	size_t n = 0;

	list_for_each (l, &m->dirty) {
		struct selection s;

		select_endpoints(&s, m, list_entry(l, struct svc, dirty), 0, IPFAM_V4);
		n += s.n_cluster;
		selection_fini(&s);
	}
	printf("selection: %.0f ns a service, %.1f endpoints\n",
	       (double)(now_ns() - start) / services, (double)n / services);
}

static void bench_big(struct model *m, unsigned int i)
{
	const int rounds = 100;
	struct selection s = { 0 };
	struct svc *svc;
	uint64_t start;

	model_put_service(m, make_service(i), 1);
	for (unsigned int k = 0; k < BIG_SLICES; k++)
		model_put_slice(m, make_slice(i, k, BIG_SLICE), 1);
	svc = list_entry(m->dirty.prev, struct svc, dirty);
	start = now_ns();
	for (int round = 0; round < rounds; round++) {
		selection_fini(&s);
		select_endpoints(&s, m, svc, 0, IPFAM_V4);
	}
	printf("selection: %u endpoints in %d slices: %.0f us\n", s.endpoints.n, BIG_SLICES,
	       (double)(now_ns() - start) / rounds / 1e3);
	selection_fini(&s);
}

static void bench_zone(struct model *m)
{
	struct node *n = object_open(OBJECT_KIND_NODE).node;
	uint64_t start = now_ns();

	n->name = name_get_str("node-1");
	n->zone = name_get_str("zone-1");
	model_put_node(m, n, 1);
	printf("zone change, everything hinted: %.0f ms\n", (double)(now_ns() - start) / 1e6);
}

int main(int argc, char **argv)
{
	unsigned int services = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 50000;
	unsigned int endpoints = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) : 5;
	struct model m;

	if (argc > 3 || services == 0 || services > 1000000 || endpoints > 1000) {
		(void)fprintf(stderr, "usage: model [SERVICES [ENDPOINTS]]\n");
		return 2;
	}
	model_init(&m);
	m.config.node_name = name_get_str("node-1");
	model_configured(&m);
	bench_load(&m, services, endpoints);
	bench_select(&m, services);
	bench_redeliver(&m, services, endpoints);
	bench_big(&m, services);
	bench_zone(&m);
	model_fini(&m);
	return name_count() == 0 ? 0 : 1;
}
