/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/tryout over the fake kernel: rejected features are named, and nothing is applied. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "fake/fake.h"
#include "fake/ipvs.h"
#include "plane/tryout.h"

static void test_all_there(void **state)
{
	AUTO(fake_close) struct fake *f = NULL;
	struct nft_try tries[NFT_TRIES_MAX];
	struct nl_sock *nl;

	(void)state;
	fake_open(&f);
	nl = fake_connect(f);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		size_t n = nft_try_features(tries, nl, (enum ipfam)fam);

		assert_in_range(n, 10, NFT_TRIES_MAX);
		for (size_t i = 0; i < n; i++) {
			if (tries[i].result != 0)
				print_message("    %s: %s\n", tries[i].what, tries[i].detail);
			assert_int_equal(tries[i].result, 0);
			assert_string_equal(tries[i].detail, "");
			assert_non_null(strstr(tries[i].needs, "CONFIG_"));
		}
	}
	assert_int_equal(fake_count(f).n_batches, 0); /* each was rejected at its end */
	assert_int_equal(fake_genid(f), 1);
	nl_sock_close(nl);
}

/* A kernel that rejects message `k` of its first datagram and of datagram `nth`. */
struct picky {
	struct nl_io io;
	struct fake *f;
	size_t n;
	size_t nth;
	size_t k;
};

static ssize_t picky_send(void *ctx, const void *data, size_t len)
{
	struct picky *p = ctx;

	p->n++;
	if (p->n == 1 || p->n == p->nth)
		fake_refuse(p->f, p->n == 1 ? 1 : p->k, EOPNOTSUPP);
	return p->io.send(p->io.ctx, data, len);
}

static ssize_t picky_recv(void *ctx, void *data, size_t size)
{
	struct picky *p = ctx;

	return p->io.recv(p->io.ctx, data, size);
}

static void picky_close(void *ctx)
{
	struct picky *p = ctx;

	p->io.close(p->io.ctx);
}

/*
 * For each rejected message: its feature is reported as missing with its requirement; the others
 * are not.
 */
static void test_each_refusal(void **state)
{
	(void)state;
	for (size_t i = 0; i < 18 * 2; i++) {
		AUTO(fake_close) struct fake *f = NULL;
		struct picky p = { .nth = 2 + i / 2, .k = 1 + i % 2 };
		struct nft_try tries[NFT_TRIES_MAX];
		struct nl_sock *nl;
		size_t n;

		fake_open(&f);
		p.f = f;
		p.io = fake_io(f);
		nl_sock_open_io(&nl, &(struct nl_io){ .send = picky_send,
						      .recv = picky_recv,
						      .close = picky_close,
						      .ctx = &p });
		n = nft_try_features(tries, nl, IPFAM_V4);
		assert_int_equal(p.n, 1 + n);
		for (size_t j = 0; j < n; j++) {
			bool is_bad =
				j == i / 2 && (j > 0 || p.k == 1); /* `tables` is one message */

			assert_int_equal(tries[j].result, is_bad ? -EOPNOTSUPP : 0);
			assert_int_equal(tries[j].detail[0] != '\0', is_bad);
		}
		nl_sock_close(nl);
	}
}

static void test_denied(void **state)
{
	AUTO(fake_close) struct fake *f = NULL;
	struct nft_try tries[NFT_TRIES_MAX];
	struct nl_sock *nl;

	(void)state;
	fake_open(&f);
	nl = fake_connect(f);
	fake_fail_send(f, 1, EPERM);
	(void)nft_try_features(tries, nl, IPFAM_V6);
	assert_int_equal(tries[0].result, 0); /* it passed */
	nl_sock_close(nl);
}

static void test_layout(void **state)
{
	AUTO(fake_close) struct fake *f = NULL;
	struct nl_sock *nl;
	struct err err;

	(void)state;
	fake_open(&f);
	nl = fake_connect(f);
	assert_int_equal(nft_try_layout(nl, &err), 0);
	fake_count_reset(f);
	fake_refuse(f, 100, EOPNOTSUPP);
	assert_int_equal(nft_try_layout(nl, &err), -EOPNOTSUPP);
	assert_string_not_equal(err.text, "");
	nl_sock_close(nl);
}

/* The ipvs plane's list, of both families in one table; its layout; its schedulers. */
static void test_ipvs(void **state)
{
	AUTO(fake_close) struct fake *f = NULL;
	AUTO(ipvs_wire_close) struct ipvs_wire *w = NULL;
	struct nft_try tries[NFT_TRIES_MAX];
	struct ipvs_try scheds[IPVS_TRIES_MAX];
	struct fake_ipvs *ipvs;
	struct nl_sock *nl;
	struct err err = { 0 };
	size_t n;

	(void)state;
	fake_open(&f);
	nl = fake_connect(f);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		n = ipvs_try_features(tries, nl, (enum ipfam)fam);
		assert_in_range(n, 10, NFT_TRIES_MAX);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(tries[i].result, 0);
	}
	assert_int_equal(fake_count(f).n_batches, 0);
	fake_refuse(f, 1, EOPNOTSUPP); /* of all at once, then nothing */
	n = ipvs_try_features(tries, nl, IPFAM_V6);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(tries[i].result, 0);
	assert_int_equal(ipvs_try_layout(nl, &err), 0);
	assert_int_equal(fake_chain_count(f, IPFAM_V4), 0);
	fake_ipvs_open(&ipvs);
	ipvs_wire_open(&w, fake_ipvs_connect(ipvs));
	assert_int_equal(ipvs_wire_resolve(w, NULL), 0);
	fake_ipvs_lack(ipvs, "mh");
	n = ipvs_try_scheds(scheds, w);
	assert_in_range(n, 5, IPVS_TRIES_MAX);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(scheds[i].result,
				 strcmp(scheds[i].sched, "mh") == 0 ? -ENOENT : 0);
	ipvs_wire_close(TAKE(w));
	fake_ipvs_close(ipvs);
	nl_sock_close(nl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_there), cmocka_unit_test(test_each_refusal),
		cmocka_unit_test(test_denied),    cmocka_unit_test(test_layout),
		cmocka_unit_test(test_ipvs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
