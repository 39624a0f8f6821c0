/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/change - cost of a change, from the model to the kernel's acknowledgement.
 *
 * For each size: a cluster of N services x E endpoints is put into a model, first
 * sync into an empty network namespace, then single changes of five kinds, each
 * timed from the object's arrival in the model until the kernel has
 * acknowledged it; then a second process over this kernel state (adoption), and a third without
 * services (sweep). Prints the longest kernel transaction of each: other processes wait for the
 * kernel's nft lock meanwhile. With -f, instead: first sync, changes, a change of all slices, a
 * repair and adoption beside a process that commits, and the durations of its commits.
 * Each size runs in a separate child, for separate memory figures.
 *
 * Needs root. Runs in a private network namespace.
 */
#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <getopt.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/sync_steps.h"
#include "base/log.h"
#include "cluster.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/watch.h"
#include "nl/batch.h"
#include "plane/common.h"

#define ROUNDS_DEFAULT 2000
#define MISSING_KEYS 50000
/* Limit of a first sync beside other processes. */
#define START_MAX_NS (60 * NSEC_PER_SEC)

enum change {
	CHANGE_REPLACE = 0,
	CHANGE_ADD,
	CHANGE_REMOVE,
	CHANGE_SERVICE_ADD,
	CHANGE_SERVICE_REMOVE,
	CHANGE_N,
};

static const char *const change_names[CHANGE_N] = { "endpoint replace", "endpoint add",
						    "endpoint remove", "service add",
						    "service remove" };

/* Listener to notifications of nf_tables. */
enum watch {
	WATCH_NONE = 0,
	WATCH_MUTED,  /* like vipd: not while its own batches are sent */
	WATCH_ALWAYS, /* like another process */
};

struct cluster {
	int services;
	int endpoints;
	int rounds;
	enum watch watch;
	enum plane_counting counting;
	bool is_emptied;   /* also an audit of an emptied table */
	int commits_per_s; /* of another process; 0: none */
	bool is_neighbour; /* only commit, until killed: for measurements of other programs */
};

static struct slice *slice_of(int i, int n, int shift)
{
	return make_slice(i, 1, i * 8, 0, n, shift);
}

static void life_begin(struct life *l, const struct cluster *c)
{
	static const struct sync_config config;
	struct nl_sock *watch = NULL;
	struct err err;

	life_open(l);
	nft_plane_count(l->plane, c->counting);
	if (c->watch != WATCH_NONE && (nl_sock_open(&watch, NETLINK_NETFILTER, &err) < 0 ||
				       plane_watch_with(l->plane, watch, &err) < 0))
		die("notifications", err.text);
	if (c->watch == WATCH_ALWAYS)
		nl_sock_mute(l->cmd, NULL, 0);
	sync_open(&l->s, &l->m, &l->p, l->plane, &config);
	for (int i = 0; i < c->services; i++) {
		model_put_service(&l->m, make_service(i, 1), 1);
		model_put_slice(&l->m, slice_of(i, c->endpoints, 0), 1);
	}
}

/* Durations of the other process's commits, in shared memory. */
#define WAITS_MAX 1000000
struct waits {
	size_t n;
	uint32_t ns[WAITS_MAX];
};

/* Create and delete a separate table repeatedly. `waits` may be NULL. */
static void neighbour_run(int commits_per_s, struct waits *waits)
{
	struct nl_batch *batch;
	struct nl_sock *nl;
	struct err err = { 0 };
	uint64_t begin = now_ns();

	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0)
		die("netlink", err.text);
	nl_batch_open(&batch, nl);
	for (uint64_t i = 0;; i++) {
		uint16_t msg = i % 2 == 0 ? NFT_MSG_NEWTABLE : NFT_MSG_DELTABLE;
		uint64_t due = begin + i * NSEC_PER_SEC / (uint64_t)commits_per_s;
		struct nlmsghdr *h =
			nl_batch_msg(batch, NFNL_SUBSYS_NFTABLES << 8 | msg,
				     i % 2 == 0 ? NLM_F_CREATE : 0, NFPROTO_IPV4, NULL);

		mnl_attr_put_strz(h, NFTA_TABLE_NAME, "neighbour");
		while (now_ns() < due)
			(void)usleep(100);
		due = now_ns();
		if (nl_batch_commit(batch, &err) < 0)
			die("neighbour", err.text);
		if (waits != NULL && waits->n < WAITS_MAX)
			waits->ns[waits->n++] = (uint32_t)MIN(now_ns() - due, UINT64_C(4000000000));
		nl_batch_reset(batch);
	}
}

static pid_t neighbour_begin(int commits_per_s, struct waits *waits)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	neighbour_run(commits_per_s, waits);
	_exit(0);
}

static void neighbour_end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/*
 * CPU time of the longest step since print_longest(). A step sends one transaction, so the kernel's
 * lock was not held longer, except while other processes had the processor.
 */
static uint64_t longest_step_ns;

static void settle(struct sync *s, uint64_t now)
{
	bool is_more = true;

	while (is_more) {
		uint64_t begin = cpu_ns();

		is_more = sync_step(s, now) == SYNC_NOW;
		longest_step_ns = MAX(longest_step_ns, cpu_ns() - begin);
	}
}

/* From the start of the sync to the last acknowledgement. A load that fails is retried. */
static double life_start(struct life *l)
{
	uint64_t begin = now_ns();
	struct err err = { 0 };

	sync_sources_ready(l->s);
	settle(l->s, begin);
	while (sync_state_get(l->s) != SYNC_RUNNING && now_ns() - begin < START_MAX_NS) {
		(void)usleep(1000);
		settle(l->s, now_ns());
	}
	if (sync_state_get(l->s) != SYNC_RUNNING) {
		memcpy(err.text, sync_stats_get(l->s)->last_error, sizeof(err.text));
		die("first sync", err.text);
	}
	return (double)(now_ns() - begin) / 1e6;
}

/* Memory is printed this number of times, of a run with many rounds. */
#define RESIDENT_POINTS 20
#define RESIDENT_ROUNDS 10000

static uint64_t timed_settle(struct life *l, uint64_t begin)
{
	/* Not settle(): to read the CPU time twice a step takes 3 us of a change. */
	while (sync_step(l->s, begin) == SYNC_NOW)
		;
	if (!list_is_empty(&l->m.dirty) || sync_failure_count(l->s) > 0) {
		struct err err = { 0 };

		memcpy(err.text, sync_stats_get(l->s)->last_error, sizeof(err.text));
		die("a change was not programmed", err.text);
	}
	return now_ns() - begin;
}

static uint64_t timed_slice(struct life *l, struct slice *sl)
{
	uint64_t begin = now_ns();

	model_put_slice(&l->m, sl, begin);
	return timed_settle(l, begin);
}

static uint64_t timed_service_add(struct life *l, int i, int endpoints)
{
	struct service *s = make_service(i, 1);
	struct slice *sl = slice_of(i, endpoints, 0);
	uint64_t begin = now_ns();

	model_put_service(&l->m, s, begin);
	model_put_slice(&l->m, sl, begin);
	return timed_settle(l, begin);
}

static uint64_t timed_service_remove(struct life *l, int i)
{
	const struct name *ns = name_get_str("bench");
	const struct name *name = numbered("service-", i);
	uint64_t begin = now_ns();
	uint64_t took;

	model_del_service(&l->m, ns, name, begin);
	model_del_slice(&l->m, ns, name, begin);
	took = timed_settle(l, begin);
	name_unref(ns);
	name_unref(name);
	return took;
}

/* All kinds of change in turn, so that drift of the machine affects them equally. */
static void measure_changes(struct life *l, const struct cluster *c, uint64_t *took[CHANGE_N])
{
	for (int r = 0; r < c->rounds; r++) {
		int i = (int)((uint32_t)r * 2654435761U % (uint32_t)c->services);
		int n = c->endpoints;

		if (c->rounds >= RESIDENT_ROUNDS && r % (c->rounds / RESIDENT_POINTS) == 0)
			printf("  resident after %8d changes %6.1f MB\n", 6 * r, resident_mb());
		took[CHANGE_REPLACE][r] = timed_slice(l, slice_of(i, n, 1));
		took[CHANGE_ADD][r] = timed_slice(l, slice_of(i, n + 1, 1));
		took[CHANGE_REMOVE][r] = timed_slice(l, slice_of(i, n, 1));
		timed_slice(l, slice_of(i, n, 0));
		took[CHANGE_SERVICE_ADD][r] = timed_service_add(l, c->services, n);
		took[CHANGE_SERVICE_REMOVE][r] = timed_service_remove(l, c->services);
	}
	for (int k = 0; k < CHANGE_N; k++)
		qsort(took[k], (size_t)c->rounds, sizeof(uint64_t), u64_cmp);
}

static void print_changes(const struct cluster *c, uint64_t *took[CHANGE_N])
{
	for (int k = 0; k < CHANGE_N; k++)
		printf("  %-18s median %7.1f us   p99 %7.1f us   max %8.1f us\n", change_names[k],
		       (double)took[k][c->rounds / 2] / 1e3,
		       (double)took[k][c->rounds * 99 / 100] / 1e3,
		       (double)took[k][c->rounds - 1] / 1e3);
}

static double system_ms(void)
{
	struct rusage ru = { 0 };

	(void)getrusage(RUSAGE_SELF, &ru);
	return (double)ru.ru_stime.tv_sec * 1e3 + (double)ru.ru_stime.tv_usec / 1e3;
}

/* The longest transaction and step since the last call. */
static void print_longest(const struct life *l, const char *what)
{
	struct hist *t = &l->plane->batches.times;

	uint64_t n_long = 0;

	for (int i = 16; i < HIST_BUCKETS; i++) /* 2^15 us */
		n_long += t->bucket[i];
	printf("  longest batch      %9.1f ms   of %llu, %s; %llu took more than 33 ms",
	       (double)t->max_ns / 1e6, (unsigned long long)t->count, what,
	       (unsigned long long)n_long);
	if (longest_step_ns > 0) /* not of single changes */
		printf("; longest step %.1f ms of CPU", (double)longest_step_ns / 1e6);
	printf("\n");
	*t = (struct hist){ 0 };
	longest_step_ns = 0;
}

/* Adoption of kernel state that no service needs any more. */
static void measure_sweep(const struct cluster *c)
{
	struct cluster none = *c;
	struct life l;
	double ms;

	none.services = 0;
	life_begin(&l, &none);
	ms = life_start(&l);
	printf("  sweep              %9.1f ms   %llu kernel operations\n", ms,
	       (unsigned long long)sync_stats_get(l.s)->writes);
	print_longest(&l, "the sweep");
	life_end(&l);
}

static uint32_t genid(void)
{
	struct nl_sock *nl;
	struct err err = { 0 };
	uint32_t id = 0;

	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0 || nft_genid_read(nl, &id, &err) < 0)
		die("generation", err.text);
	nl_sock_close(nl);
	return id;
}

/* Another process empties the sets of the table of IPv4. */
static void sets_flush(void)
{
	struct nl_batch *batch;
	struct nl_sock *nl;
	struct err err = { 0 };

	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0)
		die("netlink", err.text);
	nl_batch_open(&batch, nl);
	for (enum nft_set_id set = 0; set <= NFTSET_FW_RANGES; set++) {
		struct nlmsghdr *h =
			nl_batch_msg(batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELSETELEM, 0,
				     NFPROTO_IPV4, NULL);

		mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, "vipd");
		mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, nft_set_desc(set, IPFAM_V4)->name);
	}
	if (nl_batch_commit(batch, &err) < 0)
		die("flush of sets", err.text);
	nl_batch_close(batch);
	nl_sock_close(nl);
}

/* Cost of a verification with as many missing keys as one very large service has endpoints. */
static void measure_missing(void)
{
	const struct nft_table_ref table = { .name = "vipd", .fam = IPFAM_V4 };
	struct nft_lookup *keys = xcalloc(MISSING_KEYS, sizeof(*keys));
	struct err err = { 0 };
	struct nl_sock *nl;
	double cpu_ms;

	for (uint32_t i = 0; i < MISSING_KEYS; i++)
		nft_key_slot(keys[i].key, PLAN_POOL_ID_MAX, i);
	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0)
		die("netlink", err.text);
	cpu_ms = system_ms();
	if (nft_elems_get(nl, &table, NFTSET_ENDPOINTS, keys, MISSING_KEYS, &err) < 0)
		die("missing keys", err.text);
	printf("  50,000 missing keys %8.1f ms   kernel CPU, %llu requests, %llu answers\n",
	       system_ms() - cpu_ms, (unsigned long long)nl_sock_stats(nl)->n_sends,
	       (unsigned long long)nl_sock_stats(nl)->n_recvs);
	nl_sock_close(nl);
	free(keys);
}

static void audit(struct life *l)
{
	uint64_t audits = sync_stats_get(l->s)->audits;

	sync_audit(l->s);
	while (sync_stats_get(l->s)->audits == audits)
		settle(l->s, now_ns());
}

static void measure_emptied(const struct cluster *c)
{
	uint64_t begin;
	struct nl_stats before;
	const struct nl_stats *after;
	double cpu_ms;
	struct life l;

	life_begin(&l, c);
	(void)life_start(&l);
	sets_flush();
	before = *nl_sock_stats(l.query);
	cpu_ms = system_ms();
	begin = now_ns();
	audit(&l);
	after = nl_sock_stats(l.query);
	printf("  emptied table      %9.1f ms   until an audit has repaired all, kernel CPU %.0f ms, "
	       "%llu requests, %llu answers\n",
	       (double)(now_ns() - begin) / 1e6, system_ms() - cpu_ms,
	       (unsigned long long)(after->n_sends - before.n_sends),
	       (unsigned long long)(after->n_recvs - before.n_recvs));
	life_end(&l);
}

static int wait_cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Commits of the other process since the last call. */
static void print_waits(struct waits *waits, const char *what)
{
	size_t n = waits->n;
	uint32_t *ns = xcalloc(MAX(n, 1U), sizeof(*ns));

	memcpy(ns, waits->ns, n * sizeof(*ns));
	waits->n = 0;
	qsort(ns, n, sizeof(*ns), wait_cmp);
	if (n > 0)
		printf("    its commits      %9.3f ms   half are below; 99 %% %.3f, 99.9 %% %.3f, "
		       "longest %.3f ms; %zu, %s\n",
		       ns[n / 2] / 1e6, ns[n * 99 / 100] / 1e6, ns[n * 999 / 1000] / 1e6,
		       ns[n - 1] / 1e6, n, what);
	free(ns);
}

static void life_beside(struct life *l, const struct cluster *c, struct waits *waits,
			const char *what)
{
	uint32_t before;
	double ms;

	life_begin(l, c);
	before = genid();
	waits->n = 0;
	ms = life_start(l);
	printf("  %-18s %9.1f ms   %llu kernel operations, %llu loads failed, %.0f "
	       "commits a second\n",
	       what, ms, (unsigned long long)sync_stats_get(l->s)->writes,
	       (unsigned long long)sync_stats_get(l->s)->failures,
	       (double)(genid() - before) * 1e3 / ms);
	print_waits(waits, what);
	print_longest(l, what);
}

/* An endpoint of every service is replaced at once, and again by the one before. */
static void storm(struct life *l, const struct cluster *c)
{
	for (int shift = 1; shift >= 0; shift--) {
		for (int i = 0; i < c->services; i++)
			model_put_slice(&l->m, slice_of(i, c->endpoints, shift), now_ns());
		(void)timed_settle(l, now_ns());
	}
}

/* Beside a process that commits. */
static void measure_neighbour(const struct cluster *c, uint64_t *took[CHANGE_N])
{
	struct waits *waits = mmap(NULL, sizeof(*waits), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct life l;
	pid_t pid;

	if (waits == MAP_FAILED)
		die("shared memory", strerror(errno));
	printf("%d services x %d endpoints, beside a process that commits\n", c->services,
	       c->endpoints);
	pid = neighbour_begin(c->commits_per_s, waits);
	(void)sleep(2);
	print_waits(waits, "alone");
	life_beside(&l, c, waits, "first sync");
	waits->n = 0;
	measure_changes(&l, c, took);
	print_changes(c, took);
	print_waits(waits, "single changes");
	print_longest(&l, "single changes");
	storm(&l, c);
	print_waits(waits, "all slices changed");
	print_longest(&l, "all slices changed");
	sets_flush();
	(void)sleep(1); /* a commit that waited for the flush ends */
	waits->n = 0;
	audit(&l);
	print_waits(waits, "repair of emptied sets");
	print_longest(&l, "repair of emptied sets");
	life_end(&l);
	malloc_trim(0);
	life_beside(&l, c, waits, "adoption");
	life_end(&l);
	neighbour_end(pid);
	(void)munmap(waits, sizeof(*waits));
}

static void took_free(uint64_t *took[CHANGE_N])
{
	for (int k = 0; k < CHANGE_N; k++)
		free(took[k]);
}

static int run(const struct cluster *c)
{
	uint64_t *took[CHANGE_N];
	struct life l;
	double first_ms;
	double cpu_ms;
	double adopt_ms;

	if (unshare(CLONE_NEWNET) < 0) {
		(void)fprintf(stderr,
			      "bench/change: a private network namespace: %s (run as root)\n",
			      strerror(errno));
		return 1;
	}
	log_level_set_all(LOG_LEVEL_WARN);
	for (int k = 0; k < CHANGE_N; k++)
		took[k] = xcalloc((size_t)c->rounds, sizeof(uint64_t));
	if (c->commits_per_s > 0) {
		measure_neighbour(c, took);
		took_free(took);
		return fflush(stdout);
	}
	life_begin(&l, c);
	cpu_ms = system_ms();
	first_ms = life_start(&l);
	cpu_ms = system_ms() - cpu_ms;
	printf("%d services x %d endpoints\n", c->services, c->endpoints);
	printf("  first sync         %9.1f ms   %llu kernel operations, %llu batches, resident %.1f MB\n",
	       first_ms, (unsigned long long)sync_stats_get(l.s)->writes,
	       (unsigned long long)sync_stats_get(l.s)->batches, resident_mb());
	/* Figures that depend little on the load of the machine. */
	printf("  kernel CPU         %9.1f ms   in the first sync, %.1f a batch\n", cpu_ms,
	       cpu_ms / (double)sync_stats_get(l.s)->batches);
	print_longest(&l, "first sync");
	measure_changes(&l, c, took);
	print_changes(c, took);
	print_longest(&l, "single changes");
	life_end(&l);
	malloc_trim(0);

	life_begin(&l, c);
	adopt_ms = life_start(&l);
	printf("  adoption           %9.1f ms   %llu kernel operations, resident %.1f MB\n",
	       adopt_ms, (unsigned long long)sync_stats_get(l.s)->writes, resident_mb());
	life_end(&l);
	if (c->is_emptied) {
		measure_missing();
		measure_emptied(c);
	}
	measure_sweep(c);
	took_free(took);
	return fflush(stdout);
}

static int run_child(const struct cluster *c)
{
	pid_t pid;
	int status;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(run(c));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	struct cluster c = { .endpoints = 5, .rounds = ROUNDS_DEFAULT };
	int sizes[16] = { 100, 1000, 10000, 50000 };
	int n = 4;
	int opt;

	while ((opt = getopt(argc, argv, "c:e:f:mnr:w:h")) != -1) {
		if (opt == 'e') {
			c.endpoints = atoi(optarg);
		} else if (opt == 'r') {
			c.rounds = atoi(optarg);
		} else if (opt == 'c') {
			c.counting = (enum plane_counting)atoi(optarg);
		} else if (opt == 'f') {
			c.commits_per_s = atoi(optarg);
		} else if (opt == 'm') {
			c.is_emptied = true;
		} else if (opt == 'n') {
			c.is_neighbour = true;
		} else if (opt == 'w') {
			c.watch = (enum watch)atoi(optarg);
		} else {
			printf("usage: change [-c COUNTING] [-e ENDPOINTS] [-f COMMITS] [-m] [-n] [-r ROUNDS] [-w WATCH] [SERVICES "
			       "...]\n"
			       "COUNTING: connections of 0 nothing (default), 1 services, 2 "
			       "endpoints too\n"
			       "COMMITS: measure only beside a process that commits so often a "
			       "second (default 0: none)\n"
			       "-m: audit a table that another process has emptied\n"
			       "-n: nothing but the COMMITS, in this namespace, until killed\n"
			       "WATCH: listener to notifications: 0 none (default), 1 as vipd "
			       "listens, 2 all the time\n");
			return opt == 'h' ? 0 : 2;
		}
	}
	if (c.is_neighbour && c.commits_per_s > 0)
		neighbour_run(c.commits_per_s, NULL);
	if (optind < argc)
		n = 0;
	for (; optind < argc && n < (int)ARRAY_SIZE(sizes); optind++)
		sizes[n++] = atoi(argv[optind]);
	for (int i = 0; i < n; i++) {
		c.services = sizes[i];
		if (c.services < 1 || c.endpoints < 1 || c.endpoints > 7 || c.rounds < 1)
			return 2;
		if (run_child(&c) != 0)
			return 1;
	}
	return 0;
}
