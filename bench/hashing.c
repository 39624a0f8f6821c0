/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/hashing - vipd.io/scheduler: mh on the nftables plane, beside IPVS's mh.
 *
 * Tables, computed, means of 20 sets of endpoints: how much shares differ, which slots change
 * hands when an endpoint leaves or joins, and whether the order of endpoints has an effect. IPVS's
 * table is that of its scheduler with the default of 4,093 slots, equal weights.
 *
 * Over the kernel: CPU time and writes of changes of a service with mh and of one without, and the
 * time of a datagram from a new port to each of them.
 *
 * The argument is the largest number of endpoints (default 1,000). Needs root for the second part:
 * it happens in a private network namespace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/rendezvous.h"
#include "cluster.h"

#define SETS 20
#define MAX_ENDPOINTS 1000
#define IPVS_SLOTS 4093
#define DATAGRAMS 20000

static const int sizes[] = { 2, 3, 10, 30, 100, 300, 1000 };

/* --- tables --- */

/* Owners of slots: numbers of endpoints of a set. */
struct table {
	uint16_t owner[RENDEZVOUS_SLOTS];
	int slots;
};

typedef void table_make(struct table *t, int set, const int *endpoints, int n);

static void vipd_make(struct table *t, int set, const int *endpoints, int n)
{
	static struct rendezvous_member v[MAX_ENDPOINTS + 1];
	static uint16_t index[RENDEZVOUS_SLOTS];

	for (int i = 0; i < n; i++) {
		const int key[] = { set, endpoints[i] };

		v[i] = (struct rendezvous_member){ hash_bytes_fixed(key, sizeof(key), 1, 2), 1 };
	}
	rendezvous_assign(index, v, (size_t)n);
	t->slots = RENDEZVOUS_SLOTS;
	for (int i = 0; i < t->slots; i++)
		t->owner[i] = (uint16_t)endpoints[index[i]];
}

/* Its hsiphash() on 64 bits is SipHash-1-3. */
static uint32_t ipvs_hash(uint32_t address, uint32_t port, uint64_t key)
{
	uint32_t v = port + address;

	return (uint32_t)hash_bytes_fixed(&v, sizeof(v), key, key);
}

/* In turns each endpoint takes its next free slot; a new destination is first in the list. */
static void ipvs_make(struct table *t, int set, const int *endpoints, int n)
{
	static uint32_t at[MAX_ENDPOINTS + 1], skip[MAX_ENDPOINTS + 1];
	int left = IPVS_SLOTS;

	t->slots = IPVS_SLOTS;
	memset(t->owner, 0xff, sizeof(t->owner));
	for (int i = 0; i < n; i++) {
		uint32_t address = 0x0a000000U + (uint32_t)set * 0x10000U + (uint32_t)endpoints[i];

		at[i] = ipvs_hash(address, 8080, 2654435761U) % IPVS_SLOTS;
		skip[i] = ipvs_hash(address, 8080, 2654446892U) % (IPVS_SLOTS - 1) + 1;
	}
	for (int i = 0; left > 0; i = (i + 1) % n, left--) {
		while (t->owner[at[i]] != UINT16_MAX)
			at[i] = (at[i] + skip[i]) % IPVS_SLOTS;
		t->owner[at[i]] = (uint16_t)endpoints[i];
	}
}

struct result {
	double variance; /* of the share, times the mean's square */
	double largest;  /* share, times the mean */
	double joined;   /* slots that an endpoint that joins gets */
	double moved;    /* slots between endpoints that stay, when one joins */
	double moved_left;
	double reordered; /* slots that differ with another order */
};

static double differing(const struct table *a, const struct table *b, int except)
{
	int n = 0;

	for (int i = 0; i < a->slots; i++)
		n += a->owner[i] != b->owner[i] && a->owner[i] != except && b->owner[i] != except;
	return (double)n / a->slots;
}

static void shares_add(struct result *r, const struct table *t, int n)
{
	int count[MAX_ENDPOINTS + 1] = { 0 };
	double mean = (double)t->slots / n;
	double largest = 0;

	for (int i = 0; i < t->slots; i++)
		count[t->owner[i]]++;
	for (int i = 0; i < n; i++) {
		r->variance += (count[i] / mean - 1) * (count[i] / mean - 1) / n / SETS;
		largest = MAX(largest, count[i] / mean);
	}
	r->largest = MAX(r->largest, largest);
}

static struct result tables_measure(table_make *make, int n)
{
	static struct table base, other;
	struct result r = { 0 };
	int order[MAX_ENDPOINTS + 1];

	for (int set = 0; set < SETS; set++) {
		int got = 0;

		for (int i = 0; i <= n; i++)
			order[i] = i;
		make(&base, set, order, n);
		shares_add(&r, &base, n);
		make(&other, set, order, n + 1);
		r.moved += differing(&base, &other, n) / SETS;
		for (int i = 0; i < other.slots; i++)
			got += other.owner[i] == n;
		r.joined += (double)got / other.slots / SETS;
		make(&other, set, order + 1, n - 1); /* the first leaves */
		r.moved_left += differing(&base, &other, 0) / SETS;
		for (int i = 0; i < n; i++)
			order[i] = n - 1 - i;
		make(&other, set, order, n);
		r.reordered += differing(&base, &other, -1) / SETS;
	}
	return r;
}

static double root(double x)
{
	double r = 1;

	for (int i = 0; i < 60; i++)
		r = (r + x / r) / 2;
	return r;
}

static void tables_run(int largest)
{
	static const struct {
		const char *name;
		table_make *make;
	} kinds[] = { { "vipd", vipd_make }, { "ipvs", ipvs_make } };

	printf("%9s %5s %10s %8s %9s %9s %12s %12s %10s\n", "endpoints", "", "std. dev.", "largest",
	       "joins", "1/(n+1)", "others moved", "one leaves:", "reordered");
	for (size_t i = 0; i < ARRAY_SIZE(sizes) && sizes[i] <= largest; i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			struct result r = tables_measure(kinds[k].make, sizes[i]);

			printf("%9d %5s %8.2f %% %8.2f %7.2f %% %7.2f %% %10.2f %% %10.2f %% %8.1f %%\n",
			       sizes[i], kinds[k].name, 100 * root(r.variance), r.largest,
			       100 * r.joined, 100.0 / (sizes[i] + 1), 100 * r.moved,
			       100 * r.moved_left, 100 * r.reordered);
		}
}

/* --- over the kernel --- */

/* Until all is programmed; returns CPU time in us, the kernel's included. */
static double settle(struct life *l, size_t *writes)
{
	uint64_t was = sync_stats_get(l->s)->writes;
	uint64_t begin = cpu_ns();

	do
		(void)sync_step(l->s, now_ns());
	while (!list_is_empty(&l->m.dirty) || sync_state_get(l->s) != SYNC_RUNNING);
	if (sync_failure_count(l->s) > 0)
		die("sync", sync_stats_get(l->s)->last_error);
	*writes = (size_t)(sync_stats_get(l->s)->writes - was);
	return (double)(cpu_ns() - begin) / 1e3;
}

static void service_put(struct life *l, int i, bool is_hashed)
{
	struct service *s = make_service(i, 1);

	s->ports.v[0].proto = L4PROTO_UDP;
	if (is_hashed) {
		s->tuning = xcalloc(1, sizeof(*s->tuning));
		s->tuning->scheduler = name_get_str("mh");
	}
	(void)model_put_service(&l->m, s, now_ns());
}

static void slice_put(struct life *l, int i, int n, int shift)
{
	struct slice *sl = make_slice(i, 1, i * MAX_ENDPOINTS * 2, 0, n, shift);

	sl->ports.v[0].proto = L4PROTO_UDP;
	(void)model_put_slice(&l->m, sl, now_ns());
}

static void life_begin(struct life *l)
{
	const struct sync_config config = { .check_period_ns = 80 * NSEC_PER_MSEC };

	life_open(l);
	sync_open(&l->s, &l->m, &l->p, l->plane, &config);
}

static void step_print(struct life *l, const char *what)
{
	size_t writes;
	double us = settle(l, &writes);

	printf("  %-18s %10.0f us CPU %7zu writes\n", what, us, writes);
}

/* Median time of sendto() from a new port to service i, in us; `took` has room for all. */
static double datagram_us(int i, uint64_t *took, int n)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(80),
				  .sin_addr.s_addr = htonl(0x60000001U + (uint32_t)i) };

	for (int k = 0; k < n; k++) {
		int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		uint64_t begin = now_ns();

		if (sendto(fd, "", 1, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
			die("sendto", strerror(errno));
		took[k] = now_ns() - begin;
		(void)close(fd);
	}
	qsort(took, (size_t)n, sizeof(*took), u64_cmp);
	return (double)took[n / 2] / 1e3;
}

/* In turns of 1,000 datagrams, so that both services meet the same load. */
static void datagrams_run(int n)
{
	static uint64_t took[DATAGRAMS];
	static uint64_t medians[2][DATAGRAMS / 1000];
	size_t rounds = ARRAY_SIZE(medians[0]);

	for (size_t round = 0; round < rounds; round++)
		for (int i = 0; i < 2; i++)
			medians[i][round] = (uint64_t)(datagram_us(i, took, 1000) * 1e3);
	for (int i = 0; i < 2; i++)
		qsort(medians[i], rounds, sizeof(medians[i][0]), u64_cmp);
	printf("  %-18s %10.2f us at random, %.2f us with mh (%d endpoints)\n", "datagram",
	       (double)medians[0][rounds / 2] / 1e3, (double)medians[1][rounds / 2] / 1e3, n);
}

static void kernel_run(int n)
{
	struct life l;

	printf("%d endpoints\n", n);
	for (int is_hashed = 0; is_hashed < 2; is_hashed++) {
		life_begin(&l);
		service_put(&l, 0, false);
		slice_put(&l, 0, n, 0);
		if (is_hashed) {
			service_put(&l, 1, true);
			slice_put(&l, 1, n, 0);
		}
		sync_sources_ready(l.s);
		step_print(&l, is_hashed ? "adoption; mh made" : "first sync");
		slice_put(&l, is_hashed, n, 1);
		step_print(&l, "one replaced");
		slice_put(&l, is_hashed, n + 1, 1);
		step_print(&l, "one joins");
		slice_put(&l, is_hashed, n, 1);
		step_print(&l, "one leaves");
		slice_put(&l, is_hashed, n, 0);
		step_print(&l, "one replaced");
		life_end(&l);
	}
	life_begin(&l);
	for (int i = 0; i < 2; i++) {
		service_put(&l, i, i == 1);
		slice_put(&l, i, n, 0);
	}
	sync_sources_ready(l.s);
	step_print(&l, "adoption of both");
	datagrams_run(n);
	for (int i = 0; i < 2; i++) {
		const struct name *ns = name_get_str("bench");
		const struct name *name = numbered("service-", i);

		model_del_service(&l.m, ns, name, now_ns());
		name_unref(ns);
		name_unref(name);
	}
	step_print(&l, "both removed");
	life_end(&l);
}

int main(int argc, char **argv)
{
	int largest = argc > 1 ? atoi(argv[1]) : MAX_ENDPOINTS;

	log_level_set_all(LOG_LEVEL_ERR);
	tables_run(largest);
	(void)fflush(stdout);
	if (unshare(CLONE_NEWNET) < 0) {
		printf("skipped without root: changes over the kernel\n");
		return 77;
	}
	if (system("ip link set lo up && ip address add 10.0.0.0/8 dev lo && "
		   "ip route add 96.0.0.0/8 dev lo && "
		   "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1") != 0)
		die("ip", "routes");
	for (size_t i = 0; i < ARRAY_SIZE(sizes) && sizes[i] <= largest; i += 2)
		kernel_run(sizes[i]);
	return 0;
}
