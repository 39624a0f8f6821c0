/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../sync_steps.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/kind.h"
#include "nft/watch.h"
#include "objects.h"
#include "plane/nft/state.h"
#include "test.h"

#define STEPS_MAX 20000

static const char *const families[IPFAM_N] = { "ip", "ip6" };

static void life_begin(struct world *w)
{
	struct sync_config config = { 0 };

	nft_plane_open(&w->plane, w->kernel->connect(w->kernel->ctx),
		       w->kernel->connect(w->kernel->ctx));
	nft_plane_walk_with(w->plane, w->kernel->connect(w->kernel->ctx));
	if (w->is_table_owner)
		nft_plane_own_tables(w->plane);
	if (w->guard != WORLD_GUARD_UNSET)
		nft_plane_guard(w->plane, w->guard == WORLD_GUARD_ON);
	nft_plane_count(w->plane, w->counting);
	plan_init(&w->p, &w->m, &w->plane->ops->traits);
	sync_open(&w->s, &w->m, &w->p, w->plane, &config);
	sync_sources_ready(w->s);
}

static void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->plane->ops->close(w->plane);
}

void world_open(struct world *w, const struct world_kernel *kernel)
{
	struct ip_addr addrs[] = { test_addr("192.168.0.1"), test_addr("fd01::1") };

	*w = (struct world){ .kernel = kernel, .now = NSEC_PER_SEC };
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.detect_local = DETECT_LOCAL_NODE_CIDR;
	w->m.config.has_nodeport_cidrs = true;
	*vec_push(&w->m.config.nodeport_cidrs) = test_prefix("192.168.0.0/24");
	*vec_push(&w->m.config.nodeport_cidrs) = test_prefix("fd01::/64");
	*vec_push(&w->m.config.service_cidrs) = test_prefix("10.96.0.0/12");
	model_configured(&w->m);
	model_put_node(&w->m, test_node("n1", "addr=192.168.0.1 pods=10.0.0.0/16"), 1);
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	nft_kind_reset();
	life_begin(w);
}

void world_close(struct world *w)
{
	life_end(w);
	model_fini(&w->m);
}

void world_restart(struct world *w)
{
	life_end(w);
	/* A new process has no state of earlier loads. */
	htable_for_each (n, &w->m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	nft_kind_reset();
	life_begin(w);
}

void world_count(struct world *w, enum plane_counting counting)
{
	w->counting = counting;
	world_restart(w);
}

void world_service(struct world *w, const char *name, const char *text)
{
	model_put_service(&w->m, test_service(name, text), 1);
}

void world_slice(struct world *w, const char *name, const char *service, const char *text)
{
	model_put_slice(&w->m, test_slice(name, service, text), 1);
}

typedef int drop_fn(struct model *m, const struct name *ns, const struct name *name,
		    uint64_t at_ns);

static void drop(struct world *w, const char *key, drop_fn *fn)
{
	const char *slash = strchr(key, '/');
	const struct name *ns = name_get(key, (size_t)(slash - key));
	const struct name *name = name_get_str(slash + 1);

	fn(&w->m, ns, name, 1);
	name_unref(ns);
	name_unref(name);
}

void world_no_service(struct world *w, const char *name)
{
	drop(w, name, model_del_service);
}

void world_no_slice(struct world *w, const char *name)
{
	drop(w, name, model_del_slice);
}

struct svc *world_svc(struct world *w, const char *name)
{
	char ns[64];
	const char *slash = strchr(name, '/');

	snprintf(ns, sizeof(ns), "%.*s", (int)(slash - name), name);
	return model_find_text(&w->m, ns, slash + 1);
}

static bool is_at_rest(const struct world *w, bool may_refuse)
{
	return sync_state_get(w->s) == SYNC_RUNNING && list_is_empty(&w->m.dirty) &&
	       (may_refuse ||
		(sync_failure_count(w->s) == 0 && plane_families_failed(w->plane) == 0));
}

static bool is_complete(const struct world *w, const char *expected)
{
	char *programmed = world_elements(w);
	const char *h = programmed;
	bool ret = true;

	for (const char *e = expected; ret && *e != '\0';) {
		size_t n = strcspn(e, "\n") + 1;

		while (*h != '\0' && strncmp(e, h, n) != 0)
			h += strcspn(h, "\n") + 1;
		ret = *h != '\0';
		e += n;
	}
	free(programmed);
	return ret;
}

static void pause_ms(long ms)
{
	(void)nanosleep(&(const struct timespec){ 0, ms * (long)NSEC_PER_MSEC }, NULL);
}

void world_await(const struct world *w)
{
	char *expected;
	int n = 0;

	if (!w->kernel->resizes)
		return;
	expected = world_expected(w);
	for (int i = 0; i < 500 && n < 2; i++) {
		n = is_complete(w, expected) ? n + 1 : 0;
		pause_ms(10);
	}
	free(expected);
}

static size_t settle(struct world *w, bool may_refuse)
{
	uint64_t before = sync_stats_get(w->s)->writes;

	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t next = sync_step(w->s, w->now);

		if (next == SYNC_NOW)
			continue;
		if (is_at_rest(w, may_refuse)) {
			if (!may_refuse && sync_stats_get(w->s)->writes > before)
				world_await(w);
			return sync_stats_get(w->s)->writes - before;
		}
		assert_true(next != SYNC_NEVER);
		w->now = MAX(w->now, next);
	}
	print_error("last error: %s\n", sync_stats_get(w->s)->last_error);
	fail_msg("%s", "did not come to rest");
	return 0;
}

size_t world_settle(struct world *w)
{
	return settle(w, false);
}

size_t world_settle_refused(struct world *w)
{
	return settle(w, true);
}

void world_walk(struct world *w)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t next = w->plane->ops->tick(w->plane, w->now);

		if (next == 0 || next > w->now + NSEC_PER_SEC)
			return;
		w->now = next;
	}
	fail_msg("%s", "the walk did not end");
}

void world_wait(struct world *w, uint64_t ns)
{
	w->now += ns;
	(void)w->plane->ops->tick(w->plane, w->now);
}

uint32_t world_genid(const struct world *w)
{
	AUTO(nl_sock_close) struct nl_sock *nl = w->kernel->connect(w->kernel->ctx);
	uint32_t genid;

	assert_int_equal(nft_genid_read(nl, &genid, NULL), 0);
	return genid;
}

size_t world_audit(struct world *w)
{
	uint64_t before = sync_stats_get(w->s)->writes;
	uint64_t audits = sync_stats_get(w->s)->audits;

	sync_audit(w->s);
	for (int i = 0; i < STEPS_MAX && sync_stats_get(w->s)->audits == audits; i++) {
		uint64_t next = sync_step(w->s, w->now);

		if (next != SYNC_NOW && next != SYNC_NEVER)
			w->now = MAX(w->now, next);
	}
	if (sync_stats_get(w->s)->audits == audits)
		fail_msg("no audit: state %d, %s", (int)sync_state_get(w->s),
			 sync_stats_get(w->s)->last_error);
	return sync_stats_get(w->s)->writes - before;
}

size_t world_reload(struct world *w)
{
	uint64_t loads = sync_stats_get(w->s)->loads;
	size_t n;

	sync_reload(w->s);
	n = settle(w, false);
	assert_true(sync_stats_get(w->s)->loads > loads);
	return n;
}

/* --- lines --- */

struct lines {
	enum ipfam fam;
	enum nft_set_id set;
	VEC(char *) v;
};

PRINTF_LIKE(2, 3)
static void line(struct lines *ls, const char *fmt, ...)
{
	struct str s = { 0 };
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	str_puts(&s, text);
	*vec_push(&ls->v) = s.text;
}

static int line_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sort, remove duplicates; frees the lines. */
static char *lines_join(struct lines *ls)
{
	struct str out = { 0 };

	str_puts(&out, "");
	if (ls->v.n > 0)
		qsort(ls->v.v, ls->v.n, sizeof(ls->v.v[0]), line_cmp);
	for (size_t i = 0; i < ls->v.n; i++)
		if (i == 0 || strcmp(ls->v.v[i], ls->v.v[i - 1]) != 0)
			str_printf(&out, "%s\n", ls->v.v[i]);
	vec_for_each (l, &ls->v)
		free(*l);
	vec_fini(&ls->v);
	return out.text ? out.text : xstrdup("");
}

/* --- what the kernel holds --- */

static void kernel_elem(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct lines *ls = arg;
	struct str s = { 0 };

	nft_elem_text(&s, ls->fam, ls->set, key, data);
	line(ls, "%s %s %s", families[ls->fam], nft_set_desc(ls->set, ls->fam)->name, str_text(&s));
	str_fini(&s);
}

char *world_elements(const struct world *w)
{
	struct nl_sock *nl = w->kernel->connect(w->kernel->ctx);
	struct lines ls = { 0 };
	struct err err = { 0 };

	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_layout *l;

		nft_layout_open(&l, nl, fam);
		nft_layout_own(l, nft_plane_stats(w->plane).is_table_owner);
		l->counting = w->counting;
		assert_int_equal(nft_layout_load(l, &err), 0);
		for (int set = 0; set < NFTSET_POD_CIDRS; set++) {
			struct nft_table_ref table = { l->table, fam };

			ls.fam = fam;
			ls.set = set;
			if (set == NFTSET_AFFINITY || !l->programmed.has_set[set])
				continue;
			assert_int_equal(nft_elems_dump(nl, &table, set, kernel_elem, &ls, &err),
					 0);
		}
		nft_layout_close(l);
	}
	nl_sock_close(nl);
	return lines_join(&ls);
}

/* --- what it should hold --- */

static const char *target_text(const struct plan_target *t, char buf[static 64])
{
	char chain[NFT_CHAIN_NAME_MAX];
	uint16_t kind = t->verdict == PLAN_VERDICT_POOL   ? t->class
			: t->verdict == PLAN_VERDICT_DROP ? NFT_KIND_DROP
							  : NFT_KIND_REJECT;

	snprintf(buf, 64, "pool %u %s", t->pool_id, nft_kind_chain(kind, chain));
	return buf;
}

static void frontend_lines(struct lines *ls, const struct plan_frontend *f,
			   enum plane_counting counting)
{
	const char *fam = families[ip_fam(&f->addr)];
	char tuple[80];
	char addr[IP_TEXT_MAX];
	char ep[IP_ENDPOINT_TEXT_MAX];
	char to[64];
	const char *set = "frontends";

	snprintf(tuple, sizeof(tuple), "%s/%s", ip_endpoint_text(&f->addr, f->port, ep),
		 l4proto_text(f->proto));
	ip_addr_text(&f->addr, addr);
	line(ls, "%s vips %s", fam, addr);
	if (f->kind == PLAN_FRONTEND_CLUSTERIP)
		line(ls, "%s cluster_ips %s", fam, addr);
	if (f->masq == PLAN_MASQ_ALWAYS)
		line(ls, "%s masq_frontends %s", fam, tuple);
	if (f->masq == PLAN_MASQ_HOST)
		line(ls, "%s masq_hosts %s", fam, tuple);
	if (counting != PLANE_COUNT_NONE) {
		line(ls, "%s counted %s", fam, tuple);
		line(ls, "%s refused %s", fam, tuple);
	}
	if (f->is_guarded) {
		line(ls, "%s %s %s -> pool %u fw", fam, set, tuple, f->target.pool_id);
		set = "fw_frontends";
	}
	if (!f->is_split) {
		line(ls, "%s %s %s -> %s", fam, set, tuple, target_text(&f->target, to));
		return;
	}
	line(ls, "%s %s %s -> pool %u xl", fam, set, tuple, f->target.pool_id);
	line(ls, "%s xl_local %s -> %s", fam, tuple, target_text(&f->target, to));
	line(ls, "%s xl_cluster %s -> %s", fam, tuple, target_text(&f->inside, to));
}

static void pool_lines(struct lines *ls, const struct plan_pool *pool)
{
	const char *fam = families[pool->fam];
	char ep[IP_ENDPOINT_TEXT_MAX];
	char addr[IP_TEXT_MAX];

	for (size_t i = 0; i < plan_pool_slots(pool); i++) {
		const struct plan_backend *b = plan_pool_at(pool, i);

		ip_endpoint_text(&b->addr, b->port, ep);
		line(ls, "%s endpoints pool %u slot %zu -> %s", fam, pool->id, i, ep);
		if (pool->affinity_s == 0)
			continue;
		assert_int_not_equal(b->aff_id, 0);
		line(ls, "%s aff_slots pool %u slot %zu -> id %u", fam, pool->id, i, b->aff_id);
	}
	vec_for_each (b, &pool->backends) {
		ip_endpoint_text(&b->addr, b->port, ep);
		line(ls, "%s endpoint_addrs %s", fam, ep);
		if (pool->affinity_s != 0)
			line(ls, "%s aff_endpoints pool %u id %u -> %s", fam, pool->id, b->aff_id,
			     ep);
		if (b->is_local)
			line(ls, "%s local_backends %s", fam, ip_addr_text(&b->addr, addr));
	}
	vec_for_each (r, &pool->ranges)
		line(ls, "%s fw_ranges pool %u from %s", fam, pool->id, ip_prefix_text(r, ep));
}

char *world_expected(const struct world *w)
{
	struct lines ls = { 0 };

	htable_for_each (n, &w->m.services) {
		const struct plan_rows *rows = container_of(n, struct svc, node)->rows;

		if (rows == NULL)
			continue;
		vec_for_each (f, &rows->frontends)
			frontend_lines(&ls, f, w->counting);
		vec_for_each (pool, &rows->pools)
			pool_lines(&ls, pool);
	}
	return lines_join(&ls);
}

static bool is_address_line(const char *l)
{
	return strncmp(l, "ip endpoint_addrs ", 18) == 0 ||
	       strncmp(l, "ip6 endpoint_addrs ", 19) == 0;
}

/* Print the differences of two sorted texts. */
static void mismatch(const char *expected, const char *programmed)
{
	while (*expected != '\0' || *programmed != '\0') {
		size_t e = strcspn(expected, "\n") + 1;
		size_t h = strcspn(programmed, "\n") + 1;
		int c = *expected == '\0'     ? 1
			: *programmed == '\0' ? -1
					      : strncmp(expected, programmed, MIN(e, h));

		if (c < 0)
			print_error("missing: %.*s", (int)e, expected);
		else if (c > 0 && !is_address_line(programmed))
			print_error("too much: %.*s", (int)h, programmed);
		expected += c <= 0 ? e : 0;
		programmed += c >= 0 ? h : 0;
	}
	fail_msg("%s", "the kernel holds something else");
}

/* Number of retained addresses in `programmed`; SIZE_MAX if it differs in other elements. */
static size_t retained_count(const char *expected, const char *programmed)
{
	size_t n_retained = 0;

	while (*programmed != '\0') {
		size_t n = strcspn(programmed, "\n") + 1;

		if (strncmp(expected, programmed, n) == 0)
			expected += n;
		else if (is_address_line(programmed))
			n_retained++;
		else
			return SIZE_MAX;
		programmed += n;
	}
	return *expected == '\0' ? n_retained : SIZE_MAX;
}

void world_check(const struct world *w)
{
	size_t n_in_grace = nft_plane_stats(w->plane).n_in_grace;
	char *expected = world_expected(w);
	char *programmed = world_elements(w);
	size_t n = retained_count(expected, programmed);

	/* As world_await(): on a busy machine the kernel may begin to resize a table only now. */
	for (int i = 0; w->kernel->resizes && n != n_in_grace && i < 500; i++) {
		free(programmed);
		pause_ms(10);
		programmed = world_elements(w);
		n = retained_count(expected, programmed);
	}
	if (n == SIZE_MAX)
		mismatch(expected, programmed);
	if (n != n_in_grace)
		fail_msg("%zu retained addresses, %zu in the plane:\n%s", n, n_in_grace,
			 programmed);
	assert_false(nft_plane_stats(w->plane).is_loaded);
	free(expected);
	free(programmed);
}

struct nft_plane_stats nft_plane_stats(struct plane *plane)
{
	struct nft_plane *p = nft_plane_of(plane);
	struct nft_plane_stats s = {
		.n_shorten = nft_shorten_count(p),
		.is_loaded = p->common.loaded != NULL,
		.is_table_owner = nft_plane_is_owner(p),
		.has_guard = p->guard != NULL && nft_guard_is_programmed(p->guard),
	};

	for (int fam = 0; fam < IPFAM_N; fam++)
		s.n_in_grace += nft_endpoint_addrs(p, fam)->retained.count;
	return s;
}
