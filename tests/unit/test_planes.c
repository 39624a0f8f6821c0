/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/planes: what each plane is opened with. Only the sockets are the kernel's. */
#include "test.h"

#include "daemon/planes.h"
#include "plane/ipvs/plane_ipvs.h"

int __wrap_ipvs_plane_open(struct plane **ret, const struct ipvs_socks *socks,
			   const struct ipvs_config *config, struct err *err);
void __wrap_ipvs_plane_failover(struct plane *p, uint64_t limit_ms);

static struct {
	struct ipvs_socks socks;
	uint64_t limit_ms;
	unsigned int n_failover; /* calls */
	unsigned int n_retire;
} w;

static int plane_retire(struct plane *p, const struct model *m, uint64_t now, uint64_t *again,
			struct err *err)
{
	(void)p;
	(void)m;
	(void)err;
	w.n_retire++;
	*again = now + 1;
	return 0;
}

static void plane_close(struct plane *p)
{
	(void)p;
	nl_sock_close(w.socks.nft);
	nl_sock_close(w.socks.query);
	nl_sock_close(w.socks.genl);
	nl_sock_close(w.socks.route);
	nl_sock_close(w.socks.large);
	nl_sock_close(w.socks.rules);
}

static const struct plane_ops ops = { .retire = plane_retire, .close = plane_close };
static struct plane plane = { .ops = &ops };

int __wrap_ipvs_plane_open(struct plane **ret, const struct ipvs_socks *socks,
			   const struct ipvs_config *config, struct err *err)
{
	(void)config;
	(void)err;
	w.socks = *socks;
	*ret = &plane;
	return 0;
}

void __wrap_ipvs_plane_failover(struct plane *p, uint64_t limit_ms)
{
	assert_ptr_equal(p, &plane);
	w.limit_ms = limit_ms;
	w.n_failover++;
}

/* CT-26: the ipvs plane has tables for failover if it serves, and loses them if it retires. */
static void test_failover(void **state)
{
	struct options o = { .plane = { .mode = PROXY_MODE_IPVS,
					.failover = FAILOVER_EJECT,
					.failover_ns = 500 * NSEC_PER_MSEC } };
	struct other_plane other = { 0 };
	struct plane *p = NULL;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(planes_open(&p, &o, &err), 0);
	assert_int_equal(w.n_failover, 1);
	assert_int_equal(w.limit_ms, 500);
	p->ops->close(p);
	o.plane.failover = FAILOVER_OFF;
	assert_int_equal(planes_open(&p, &o, &err), 0);
	assert_int_equal(w.n_failover, 2);
	assert_int_equal(w.limit_ms, 0);
	p->ops->close(p);
	o.plane.mode = PROXY_MODE_NFTABLES;
	o.plane.failover = FAILOVER_EJECT;
	w.limit_ms = 1;
	assert_int_equal(other_plane_retire(&other, &o, NULL, 1), 2);
	assert_int_equal(w.n_retire, 1);
	assert_int_equal(w.n_failover, 3);
	assert_int_equal(w.limit_ms, 0);
	other_plane_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failover),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
