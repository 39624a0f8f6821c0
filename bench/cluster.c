/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cluster.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench/%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

const struct name *numbered(const char *prefix, int i)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s%d", prefix, i);
	return name_get_str(text);
}

static struct ip_addr v4(uint8_t a, uint32_t low)
{
	uint8_t bytes[4] = { a, (uint8_t)(low >> 16), (uint8_t)(low >> 8), (uint8_t)low };

	return ip_addr_from_bytes(AF_INET, bytes);
}

struct service *make_service(int i, int n_ports)
{
	struct service *s = object_open(OBJECT_KIND_SERVICE).service;

	s->ns = name_get_str("bench");
	s->name = numbered("service-", i);
	s->type = SERVICE_TYPE_CLUSTERIP;
	s->created_s = 1000 + i;
	s->cluster_ip[IPFAM_V4] = v4(96, (uint32_t)i + 1);
	for (int k = 0; k < n_ports; k++)
		*vec_push(&s->ports) = (struct service_port){ .name = numbered("port-", k),
							      .proto = L4PROTO_TCP,
							      .port = (uint16_t)(80 + k) };
	return s;
}

struct slice *make_slice(int i, int n_ports, int base, int from, int n, int shift)
{
	struct slice *sl = object_open(OBJECT_KIND_SLICE).slice;

	sl->version = 1 + (uint64_t)i;
	char text[64];

	(void)snprintf(text, sizeof(text), "service-%d-%06d", i, from);
	sl->ns = name_get_str("bench");
	sl->service = numbered("service-", i);
	sl->name = from == 0 ? name_ref(sl->service) : name_get_str(text);
	sl->fam = IPFAM_V4;
	for (int k = 0; k < n_ports; k++)
		*vec_push(&sl->ports) = (struct slice_port){ .name = numbered("port-", k),
							     .proto = L4PROTO_TCP,
							     .port = (uint16_t)(8000 + k) };
	for (int k = from; k < from + n; k++)
		*vec_push(&sl->endpoints) = (struct slice_endpoint){
			.addr = v4((uint8_t)(k == from ? 10 + shift : 10), (uint32_t)(base + k)),
			.flags = ENDPOINT_READY | ENDPOINT_SERVING,
			.place = slice_place_make(numbered("node-", (i + k) % 100), NULL,
						  (struct hints){ 0 }, (struct hints){ 0 }),
		};
	return sl;
}

bool is_ipvs(void)
{
	const char *name = getenv("VIPD_PLANE");

	return name != NULL && strcmp(name, "ipvs") == 0;
}

static void ipvs_open(struct life *l)
{
	struct ipvs_config config = { .drain_s = 60, .sysctl_root = "" };
	struct ipvs_socks socks = { .nft = l->cmd, .query = l->query };
	struct err err;

	if (nl_sock_open(&socks.genl, NETLINK_GENERIC, &err) < 0 ||
	    nl_sock_open(&socks.route, NETLINK_ROUTE, &err) < 0 ||
	    nl_sock_open(&socks.large, NETLINK_GENERIC, &err) < 0 ||
	    ipvs_plane_open(&l->plane, &socks, &config, &err) < 0)
		die("ipvs", err.text);
}

void life_open(struct life *l)
{
	struct ip_addr addr = v4(192, 1);
	struct err err;

	*l = (struct life){ 0 };
	model_init(&l->m);
	l->m.config.node_name = name_get_str("node-1");
	model_configured(&l->m);
	model_put_host_addrs(&l->m, &addr, 1, 0, 1);
	if (nl_sock_open(&l->cmd, NETLINK_NETFILTER, &err) < 0 ||
	    nl_sock_open(&l->query, NETLINK_NETFILTER, &err) < 0)
		die("netlink", err.text);
	if (is_ipvs())
		ipvs_open(l);
	else
		nft_plane_open(&l->plane, l->cmd, l->query);
	plan_init(&l->p, &l->m, &l->plane->ops->traits);
}

void life_end(struct life *l)
{
	sync_close(l->s);
	plan_fini(&l->p);
	l->plane->ops->close(l->plane);
	model_fini(&l->m);
}

double resident_mb(void)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld kB", &kb) == 1)
			break;
	if (f != NULL)
		(void)fclose(f);
	return (double)kb / 1024;
}

uint64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

int u64_cmp(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return *x < *y ? -1 : *x > *y;
}
