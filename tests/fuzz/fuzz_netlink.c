/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as the kernel's answers: a reader, then datagrams with their lengths, for all of its
 * sockets in the order in which it receives.
 *
 *     reader, length (2 bytes, the lower first), datagram, length, datagram, ...
 *
 * Length 0 is "none left". A message's sequence number counts from that of the request.
 */
#include <assert.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "conntrack/ctnl.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/watch.h"
#include "nl/answer.h"
#include "plane/ipvs/state.h"
#include "plane/nft/plane_nft.h"

#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answers {
	const uint8_t *at;
	size_t left;
	uint32_t seq; /* of the first message of the last request */
	uint32_t n;   /* messages in it */
};

static ssize_t request(void *ctx, const void *data, size_t len)
{
	struct answers *a = ctx;
	const struct nlmsghdr *h = data;
	int left = (int)len;

	a->seq = h->nlmsg_seq;
	for (a->n = 0; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
		a->n++;
	return (ssize_t)len;
}

/* The memory behind the datagram must not be read: the socket's buffer is larger. */
static ssize_t answer(void *ctx, void *data, size_t size)
{
	struct answers *a = ctx;
	size_t len;

	ASAN_UNPOISON_MEMORY_REGION(data, size);
	if (a->left < 2)
		return -EAGAIN;
	len = (size_t)a->at[0] | (size_t)a->at[1] << 8;
	a->at += 2;
	a->left -= 2;
	len = len < a->left ? len : a->left;
	len = len < size ? len : size;
	memcpy(data, a->at, len);
	a->at += len;
	a->left -= len;
	nl_for_each_message (h, data, a->n > 0 ? len : 0)
		((struct nlmsghdr *)(uintptr_t)h)->nlmsg_seq = a->seq + h->nlmsg_seq % a->n;
	if (len < size)
		ASAN_POISON_MEMORY_REGION((uint8_t *)data + len, size - len);
	return len > 0 ? (ssize_t)len : -EAGAIN;
}

static struct nl_sock *connect_to(const struct nl_io *io)
{
	struct nl_sock *nl;

	nl_sock_open_io(&nl, io);
	return nl;
}

/* --- readers --- */

/* A failure has a text. */
static void result(int r, struct err *err)
{
	assert(r >= 0 || err->text[0] != '\0');
	err->text[0] = '\0';
}

/* What an earlier vipd left: tables, chains, rules, sets, elements, virtual services, routes. */
static void load(struct plane *p)
{
	struct err err = { 0 };
	int r = plane_load_all(p, &err);

	result(r, &err);
	if (r == 0)
		result(p->ops->check(p, &err), &err);
	p->ops->close(p);
}

static void load_nft(const struct nl_io *io)
{
	struct plane *p;

	nft_plane_open(&p, connect_to(io), connect_to(io));
	load(p);
	nft_kind_reset();
}

static void load_ipvs(const struct nl_io *io)
{
	struct ipvs_socks socks = { .nft = connect_to(io),
				    .query = connect_to(io),
				    .genl = connect_to(io),
				    .route = connect_to(io),
				    .large = connect_to(io) };
	struct ipvs_config config = { 0 };
	struct plane *p;

	assert(ipvs_plane_open(&p, &socks, &config, NULL) == 0);
	load(p);
}

static void conflict(void *arg, bool is_fatal, const char *text)
{
	assert(text[0] != '\0');
}

static void read_routes(const struct nl_io *io)
{
	struct ipvs_route_config c = { .marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT),
				       .table = IPVS_ROUTE_TABLE_DEFAULT,
				       .priority = IPVS_RULE_PRIORITY_DEFAULT };
	struct nl_sock *nl = connect_to(io);
	struct str desired = { 0 };
	struct str programmed = { 0 };
	struct err err = { 0 };

	result(ipvs_route_text(nl, &c, &desired, &programmed, conflict, NULL, &err), &err);
	str_fini(&desired);
	str_fini(&programmed);
	nl_sock_close(nl);
}

static void flow_found(void *arg, const struct ctnl_entry *e)
{
	ctnl_delete(arg, e);
}

static void flow_looked_up(void *arg, size_t i, const struct ctnl_entry *e)
{
	assert(i < 2);
	ctnl_delete(arg, e);
}

static void read_flows(const struct nl_io *io)
{
	struct ip_flow tuples[2] = { { .proto = L4PROTO_TCP }, { .proto = L4PROTO_UDP } };
	struct ctnl *c;
	uint64_t n = 0;
	struct err err = { 0 };

	for (int i = 0; i < 2; i++) {
		tuples[i].from =
			(struct ip_endpoint){ .addr = ip_addr_from_bytes(AF_INET, "\x0a\0\0\x01"),
					      .port = 1000 };
		tuples[i].to = tuples[i].from;
	}
	ctnl_open(&c, connect_to(io), connect_to(io));
	result(ctnl_dump(c, 0, 0, flow_found, c, &err), &err);
	result(ctnl_dump(c, AF_INET, L4PROTO_UDP, flow_found, c, &err), &err);
	result(ctnl_lookup(c, tuples, 2, flow_looked_up, c, &err), &err);
	result(ctnl_delete_flush(c, &n, &err), &err);
	ctnl_close(c);
}

static void element_found(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct str text = { 0 };
	const enum nft_set_id *set = arg;

	nft_elem_text(&text, IPFAM_V4, *set, key, nft_data_len(*set, IPFAM_V4) > 0 ? data : NULL);
	assert(text.len > 0);
	str_fini(&text);
}

/* Look up keys, then dump: sets and maps, elements with counters and timeouts. */
static void read_elements(const struct nl_io *io)
{
	static const struct nft_table_ref table = { .name = "vipd", .fam = IPFAM_V4 };
	struct nft_lookup keys[2] = { 0 };
	struct nl_sock *nl = connect_to(io);
	struct err err = { 0 };

	for (enum nft_set_id set = 0; set < NFTSET_END; set++) {
		if (set == NFTSET_N || !nft_set_exists(set, PLANE_COUNT_ENDPOINTS))
			continue;
		result(nft_elems_get(nl, &table, set, keys, 2, &err), &err);
		result(nft_elems_dump(nl, &table, set, element_found, &set, &err), &err);
	}
	nl_sock_close(nl);
}

static void read_changes(const struct nl_io *io)
{
	struct nl_sock *nl = connect_to(io);
	char text[NFT_WATCH_TEXT_MAX];
	struct nft_watch w;

	nft_watch_init(&w);
	w.nl = nl;
	nft_watch_read(&w);
	nft_watch_text(&w, text);
	nft_watch_fini(&w);
	nl_sock_close(nl);
}

static void (*const readers[])(const struct nl_io *io) = {
	load_nft, load_ipvs, read_routes, read_flows, read_elements, read_changes,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct answers a = { .at = data + 1, .left = size - 1 };
	const struct nl_io io = { .send = request, .recv = answer, .ctx = &a };

	if (size == 0)
		return 0;
	log_level_set_all((enum log_level)0);
	readers[data[0] % ARRAY_SIZE(readers)](&io);
	return 0;
}
