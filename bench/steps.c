/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/steps - duration of one step of the sync.
 *
 * Very large services, over the kernel: first sync, one endpoint replaced, three seconds
 * without changes (on the ipvs plane two endpoints drain meanwhile), an audit, all endpoints
 * replaced, drained, back, all weights or source ranges changed, repair of emptied maps, adoption,
 * removal; of each the total time and the longest step, wall time and CPU time, and resident
 * memory. VIPD_PLANE=ipvs: the ipvs plane. STEPS_SERVICE: affinity, mh, weights, ranges: services
 * with ClientIP affinity, hashing, weights, or an external address with 1,000 source ranges. Then
 * 10,000 services x 5 endpoints without and with a minimum sync period of 1 s: first sync, the same
 * after `nft delete table ip vipd`, an update of all slices, adoption.
 *
 * Services of 10,000 and 50,000 endpoints in slices of 100 are replaced completely, one endpoint
 * a change: CPU time and page faults of a change. 1,000 services of 500 ports x 2 endpoints.
 * With "beside": changes of a small service while endpoints of all ports of a large one change.
 * With "moves": a service takes the frontends of as many others, and they take them back.
 * With "wide": a service takes one frontend of each of as many with 32,768; those are deleted.
 * STEPS_OVER=MS prints each step that takes longer.
 *
 * Needs root: everything happens in a private network namespace that goes with the process.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tests/sync_steps.h"
#include "base/log.h"
#include "cluster.h"

#define SLICE_MAX 1000 /* endpoints, as the API */
#define ROLLING_SLICE 100
#define ROLLING_CHANGES 500
#define BESIDE_CHANGES 100
#define WIDE_PORTS 1024
#define WIDE_ADDRS 32 /* with the cluster IP */
#define WEIGHTS "10.0.0.7=3,*=1"
#define RANGES 1000
#define OTHER_WEIGHTS "10.0.0.7=1,*=3"

struct cluster {
	int services;
	int ports;
	int endpoints;
	uint64_t min_period_ns;
	const char *kind; /* NULL, "affinity", "mh", "weights" or "ranges" */
};

static struct slice *slice_of(const struct cluster *c, int i, int from, int n, int shift)
{
	return make_slice(i, c->ports, i * c->endpoints, from, n, shift);
}

static void put_slices(struct life *l, const struct cluster *c, int i, int shift)
{
	for (int from = 0; from < c->endpoints; from += SLICE_MAX)
		model_put_slice(&l->m,
				slice_of(c, i, from, MIN(c->endpoints - from, SLICE_MAX), shift),
				now_ns());
}

static bool is_kind(const struct cluster *c, const char *kind)
{
	return c->kind != NULL && strcmp(c->kind, kind) == 0;
}

/* Does a service have another version? */
static bool has_other(const struct cluster *c)
{
	return is_kind(c, "weights") || is_kind(c, "ranges");
}

static struct ip_addr address(uint8_t a, int low)
{
	uint8_t bytes[4] = { a, (uint8_t)(low >> 8), (uint8_t)low };

	return ip_addr_from_bytes(AF_INET, bytes);
}

/* A LoadBalancer with source ranges, none of them beside another. */
static void ranges_put(struct service *s, int i, bool is_other)
{
	s->type = SERVICE_TYPE_LOADBALANCER;
	*vec_push(&s->ingress) = (struct service_ingress){ .addr = address(198, i) };
	for (int k = 0; k < RANGES; k++)
		*vec_push(&s->source_ranges) =
			(struct ip_prefix){ .addr = address(is_other ? 21 : 20, 2 * k), .len = 24 };
}

/* `is_other`: with other weights or source ranges. */
static void put_service(struct life *l, const struct cluster *c, int i, bool is_other)
{
	struct service *s = make_service(i, c->ports);

	if (is_kind(c, "ranges"))
		ranges_put(s, i, is_other);
	if (is_kind(c, "affinity"))
		s->affinity_s = 300;
	if (is_kind(c, "mh") || is_kind(c, "weights"))
		s->tuning = xcalloc(1, sizeof(*s->tuning));
	if (is_kind(c, "mh"))
		s->tuning->scheduler = name_get_str("mh");
	if (is_kind(c, "weights"))
		s->tuning->weights = name_get_str(is_other ? OTHER_WEIGHTS : WEIGHTS);
	model_put_service(&l->m, s, now_ns());
}

static void life_begin(struct life *l, const struct cluster *c)
{
	const struct sync_config config = { .min_period_ns = c->min_period_ns,
					    .check_period_ns = 80 * NSEC_PER_MSEC };

	life_open(l);
	sync_open(&l->s, &l->m, &l->p, l->plane, &config);
	for (int i = 0; i < c->services; i++) {
		put_service(l, c, i, false);
		put_slices(l, c, i, 0);
	}
}

/* All services are programmed, after this many loads and audits, not before `until_ns`. */
struct end {
	uint64_t loads;
	uint64_t audits;
	uint64_t until_ns;
};

static bool is_end(const struct life *l, const struct end *end)
{
	return sync_state_get(l->s) == SYNC_RUNNING && list_is_empty(&l->m.dirty) &&
	       sync_stats_get(l->s)->loads >= end->loads &&
	       sync_stats_get(l->s)->audits >= end->audits && now_ns() >= end->until_ns;
}

/* Like the daemon's loop. */
static void run_until(struct life *l, const char *what, const struct end *end)
{
	uint64_t begin = now_ns();
	uint64_t cpu_max = 0;
	uint64_t load_cpu = 0;
	uint64_t wall_max = 0;
	size_t steps = 0;

	for (;;) {
		bool is_load = sync_state_get(l->s) == SYNC_LOADING;
		uint64_t writes = sync_stats_get(l->s)->writes;
		uint64_t wall = now_ns();
		uint64_t cpu = cpu_ns();
		uint64_t next = sync_step(l->s, wall);
		uint64_t now = now_ns();

		cpu = cpu_ns() - cpu;
		steps++;
		if (getenv("STEPS_OVER") != NULL &&
		    cpu > strtoull(getenv("STEPS_OVER"), NULL, 10) * NSEC_PER_MSEC)
			printf("    step %4zu: %6.1f ms CPU, %zu writes\n", steps,
			       (double)cpu / 1e6, (size_t)(sync_stats_get(l->s)->writes - writes));
		if (is_load) {
			load_cpu = MAX(load_cpu, cpu);
		} else {
			cpu_max = MAX(cpu_max, cpu);
			wall_max = MAX(wall_max, now - wall);
		}
		if (is_end(l, end))
			break;
		if (next != SYNC_NOW && next > now) {
			struct timespec ts = { 0, (long)MIN(next - now, 10 * NSEC_PER_MSEC) };

			(void)nanosleep(&ts, NULL);
		}
	}
	if (sync_failure_count(l->s) > 0)
		die(what, sync_stats_get(l->s)->last_error);
	printf("  %-22s %9.1f ms  %6zu steps  longest %7.1f ms CPU, %7.1f ms wall; load %6.1f ms CPU; resident %.1f MB\n",
	       what, (double)(now_ns() - begin) / 1e6, steps, (double)cpu_max / 1e6,
	       (double)wall_max / 1e6, (double)load_cpu / 1e6, resident_mb());
	(void)fflush(stdout);
}

static void run(struct life *l, const char *what, uint64_t loads)
{
	run_until(l, what, &(struct end){ .loads = loads });
}

/* All endpoints at other addresses, or not ready. */
static void put_all(struct life *l, const struct cluster *c, bool is_ready)
{
	for (int i = 0; i < c->services; i++)
		for (int from = 0; from < c->endpoints; from += SLICE_MAX) {
			int n = MIN(c->endpoints - from, SLICE_MAX);
			struct slice *sl = slice_of(c, i, from, n, 0);

			vec_for_each (e, &sl->endpoints) {
				e->addr.bytes[0] = 11;
				e->flags = is_ready ? e->flags : 0;
			}
			model_put_slice(&l->m, sl, now_ns());
		}
}

/* All elements of vipd's tables are removed, or all of vipd's virtual services. */
static void tables_empty(struct life *l, const char *what)
{
	struct end end = { .audits = sync_stats_get(l->s)->audits + 1 };
	const char *command =
		is_ipvs() ? "ipvsadm -C"
			  : "for map in frontends endpoints aff_slots aff_endpoints; do "
			    "nft flush map ip vipd $map; done; nft flush set ip vipd vips";

	if (system(command) != 0) /* NOLINT: a fixed command */
		die(command, "failed");
	sync_check(l->s, now_ns());
	sync_audit(l->s);
	run_until(l, what, &end);
}

static void measure_all(struct life *l, const struct cluster *c)
{
	put_all(l, c, true);
	run(l, "all replaced", 1);
	put_all(l, c, false);
	run(l, "all drained", 1);
	for (int i = 0; i < c->services; i++)
		put_slices(l, c, i, 0);
	run(l, "all back", 1);
	for (int is_other = 1; is_other >= 0; is_other--) {
		for (int i = 0; i < c->services && has_other(c); i++)
			put_service(l, c, i, is_other != 0);
		run(l, is_other != 0 ? "other weights, ranges" : "and back", 1);
	}
	tables_empty(l, "maps emptied");
}

static void measure_large(const struct cluster *c)
{
	const struct name *ns = name_get_str("bench");
	const struct name *name = numbered("service-", 0);
	struct life l;

	printf("%d services, %d ports x %d endpoints%s%s\n", c->services, c->ports, c->endpoints,
	       c->kind != NULL ? ", " : "", c->kind != NULL ? c->kind : "");
	life_begin(&l, c);
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	model_put_slice(&l.m, slice_of(c, 0, 0, MIN(c->endpoints, SLICE_MAX), 1), now_ns());
	run(&l, "endpoint replaced", 1);
	model_put_slice(&l.m, slice_of(c, 0, 0, MIN(c->endpoints, SLICE_MAX), 0), now_ns());
	run(&l, "and back", 1);
	run_until(&l, "3 s", &(struct end){ .until_ns = now_ns() + 3 * NSEC_PER_SEC });
	sync_audit(l.s);
	run_until(&l, "audit", &(struct end){ .audits = sync_stats_get(l.s)->audits + 1 });
	measure_all(&l, c);
	life_end(&l);
	life_begin(&l, c);
	sync_sources_ready(l.s);
	run(&l, "adoption", 1);
	model_del_service(&l.m, ns, name, now_ns());
	run(&l, "service removed", 1);
	life_end(&l);
	name_unref(ns);
	name_unref(name);
}

/* Replace one endpoint of each slice in turn, as a rolling update does. */
static void measure_rolling(const struct cluster *c)
{
	uint64_t took[ROLLING_CHANGES];
	uint64_t longest = 0;
	struct rusage begin_use;
	struct rusage end_use;
	struct life l;

	printf("1 service, %d endpoints in slices of %d\n", c->endpoints, ROLLING_SLICE);
	life_begin(&l, c);
	for (int from = 0; from < c->endpoints; from += SLICE_MAX) {
		const struct name *ns = name_get_str("bench");
		struct slice *sl = slice_of(c, 0, from, SLICE_MAX, 0);

		(void)model_del_slice(&l.m, ns, sl->name, now_ns());
		name_unref(ns);
		slice_close(sl);
	}
	for (int from = 0; from < c->endpoints; from += ROLLING_SLICE)
		model_put_slice(&l.m, slice_of(c, 0, from, ROLLING_SLICE, 0), now_ns());
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	(void)getrusage(RUSAGE_SELF, &begin_use);
	for (int i = 0; i < ROLLING_CHANGES; i++) {
		int slice = i % (c->endpoints / ROLLING_SLICE);
		uint64_t begin = cpu_ns();

		model_put_slice(&l.m,
				slice_of(c, 0, slice * ROLLING_SLICE, ROLLING_SLICE,
					 1 + i * ROLLING_SLICE / c->endpoints),
				now_ns());
		while (!list_is_empty(&l.m.dirty)) {
			uint64_t cpu = cpu_ns();

			(void)sync_step(l.s, now_ns());
			longest = MAX(longest, cpu_ns() - cpu);
		}
		took[i] = cpu_ns() - begin;
	}
	(void)getrusage(RUSAGE_SELF, &end_use);
	qsort(took, ROLLING_CHANGES, sizeof(took[0]), u64_cmp);
	printf("  change                 %9.3f ms CPU median, %.3f ms 99 %%  longest step %7.1f ms CPU; resident %.1f MB; %ld page faults a change\n",
	       (double)took[ROLLING_CHANGES / 2] / 1e6,
	       (double)took[ROLLING_CHANGES * 99 / 100] / 1e6, (double)longest / 1e6, resident_mb(),
	       (end_use.ru_minflt - begin_use.ru_minflt) / ROLLING_CHANGES);
	(void)fflush(stdout);
	life_end(&l);
}

/* Changes of a small service, at any time while endpoints of all ports of a large one change. */
static void measure_beside(const struct cluster *c)
{
	const struct cluster small = { 2, 1, 5, 0 };
	uint64_t took[BESIDE_CHANGES];
	struct svc *other;
	struct svc *large;
	struct life l;

	printf("1 service, %d ports x %d endpoints; changes of another one\n", c->ports,
	       c->endpoints);
	life_begin(&l, c);
	put_service(&l, &small, 1, false);
	put_slices(&l, &small, 1, 0);
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	large = model_find_text(&l.m, "bench", "service-0");
	other = model_find_text(&l.m, "bench", "service-1");
	for (int i = 0; i < BESIDE_CHANGES; i++) {
		uint64_t begin;

		if (!list_is_linked(&large->dirty) || i % 4 == 0)
			put_slices(&l, c, 0, i % 2);
		put_slices(&l, &small, 1, 1 + i % 2);
		begin = cpu_ns();
		while (list_is_linked(&other->dirty))
			(void)sync_step(l.s, now_ns());
		took[i] = cpu_ns() - begin;
		for (int k = i % 5; k > 0; k--)
			(void)sync_step(l.s, now_ns());
	}
	qsort(took, BESIDE_CHANGES, sizeof(took[0]), u64_cmp);
	printf("  change                 %9.3f ms CPU median, %.3f ms 90 %%, longest %.3f ms; of it its own %.3f ms\n",
	       (double)took[BESIDE_CHANGES / 2] / 1e6, (double)took[BESIDE_CHANGES * 9 / 10] / 1e6,
	       (double)took[BESIDE_CHANGES - 1] / 1e6, (double)took[0] / 1e6);
	(void)fflush(stdout);
	life_end(&l);
}

static struct service *make_mover(int i, int port, int n_ports)
{
	struct service *s = make_service(i, n_ports);

	vec_for_each (p, &s->ports)
		p->port = (uint16_t)(p->port + port);
	*vec_push(&s->external_ips) =
		(struct ip_addr){ .family = AF_INET, .bytes = { 192, 0, 2, 1 } };
	return s;
}

/* Services with one frontend each on one external IP, and an older one that claims all of them. */
static void put_movers(struct life *l, const struct cluster *c, bool has_taker)
{
	const struct cluster taker = { 1, c->services, 1, 0 };

	for (int i = 1; i <= c->services; i++) {
		model_put_service(&l->m, make_mover(i, i - 1, 1), now_ns());
		put_slices(l, c, i, 0);
	}
	if (!has_taker)
		return;
	model_put_service(&l->m, make_mover(0, 0, c->services), now_ns());
	put_slices(l, &taker, 0, 0);
}

static void measure_moves(const struct cluster *c)
{
	const struct cluster none = { 0 };
	struct life l;

	printf("1 service takes the frontends of %d others\n", c->services);
	life_begin(&l, &none);
	put_movers(&l, c, false);
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	put_movers(&l, c, true);
	run(&l, "one takes all", 1);
	model_put_service(&l.m, make_service(0, c->services), now_ns());
	run(&l, "all take them back", 1);
	life_end(&l);
	life_begin(&l, &none);
	put_movers(&l, c, true);
	sync_sources_ready(l.s);
	run(&l, "taken at a restart", 1);
	life_end(&l);
	life_begin(&l, &none);
	put_movers(&l, c, false);
	sync_sources_ready(l.s);
	run(&l, "and back", 1);
	life_end(&l);
}

static struct service *make_wide(int i)
{
	struct service *s = make_service(i, WIDE_PORTS);

	for (int k = 1; k < WIDE_ADDRS; k++)
		*vec_push(&s->external_ips) = address(198, i * WIDE_ADDRS + k);
	return s;
}

static void measure_wide(const struct cluster *c)
{
	const struct cluster none = { 0 };
	const struct name *ns = name_get_str("bench");
	struct service *taker = make_service(0, 1);
	struct life l;

	printf("%d services of %d frontends\n", c->services, WIDE_PORTS * WIDE_ADDRS);
	life_begin(&l, &none);
	for (int i = 1; i <= c->services; i++)
		model_put_service(&l.m, make_wide(i), now_ns());
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	taker->created_s = 1;
	for (int i = 1; i <= c->services; i++)
		*vec_push(&taker->external_ips) = address(198, i * WIDE_ADDRS + 1);
	model_put_service(&l.m, taker, now_ns());
	run(&l, "one takes one of each", 1);
	for (int i = 1; i <= c->services; i++) {
		const struct name *name = numbered("service-", i);

		model_del_service(&l.m, ns, name, now_ns());
		name_unref(name);
	}
	run(&l, "all deleted", 1);
	name_unref(ns);
	life_end(&l);
}

static void measure_period(const struct cluster *c)
{
	struct life l;

	printf("%d services x %d endpoints, minimum period %.1f s\n", c->services, c->endpoints,
	       (double)c->min_period_ns / 1e9);
	life_begin(&l, c);
	sync_sources_ready(l.s);
	run(&l, "first sync", 1);
	if (system("nft delete table ip vipd") != 0) /* NOLINT: a fixed command */
		die("nft delete table ip vipd", "failed");
	sync_check(l.s, now_ns());
	run(&l, "table deleted", 2);
	for (int i = 0; i < c->services; i++)
		put_slices(&l, c, i, 1);
	run(&l, "all slices changed", 2);
	life_end(&l);
	life_begin(&l, c);
	for (int i = 0; i < c->services; i++)
		put_slices(&l, c, i, 1);
	sync_sources_ready(l.s);
	run(&l, "adoption", 1);
	life_end(&l);
}

static int run_child(void (*measure)(const struct cluster *c), const struct cluster *c)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			die("a private network namespace", strerror(errno));
		if (system("ip link set lo up") != 0) /* NOLINT: a fixed command */
			die("ip link set lo up", "failed");
		log_level_set_all(LOG_LEVEL_WARN);
		measure(c);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	static const struct cluster large[] = { { 1, 2000, 500, 0, NULL },
						{ 1, 1, 50000, 0, NULL } };
	static const struct cluster rolling[] = { { 1, 1, 10000, 0 }, { 1, 1, 50000, 0 } };
	static const struct cluster ports = { 1000, 500, 2, 0 };
	static const struct cluster many[] = { { 10000, 1, 5, 0 }, { 10000, 1, 5, NSEC_PER_SEC } };
	int r = 0;

	if (argc == 2) { /* ENDPOINTS */
		struct cluster c = { 1, 1, atoi(argv[1]), 0 };

		return run_child(measure_rolling, &c);
	}
	if (argc == 3 && strcmp(argv[1], "wide") == 0) { /* SERVICES */
		struct cluster c = { atoi(argv[2]), 1, 1, 0 };

		return run_child(measure_wide, &c);
	}
	if (argc == 3 && strcmp(argv[1], "moves") == 0) { /* SERVICES */
		struct cluster c = { atoi(argv[2]), 1, 1, 0 };

		return run_child(measure_moves, &c);
	}
	if (argc == 4 && strcmp(argv[1], "beside") == 0) { /* PORTS ENDPOINTS */
		struct cluster c = { 1, atoi(argv[2]), atoi(argv[3]), 0 };

		return run_child(measure_beside, &c);
	}
	if (argc >= 3) { /* PORTS ENDPOINTS [SERVICES] */
		struct cluster c = { argc > 3 ? atoi(argv[3]) : 1, atoi(argv[1]), atoi(argv[2]), 0,
				     getenv("STEPS_SERVICE") };

		return run_child(measure_large, &c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(large); i++)
		r |= run_child(measure_large, &large[i]);
	for (size_t i = 0; i < ARRAY_SIZE(rolling); i++)
		r |= run_child(measure_rolling, &rolling[i]);
	r |= run_child(measure_large, &ports);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		r |= run_child(measure_period, &many[i]);
	return r;
}
