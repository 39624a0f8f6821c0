/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_live - `vipctl trace --live`: real packets of a traced flow. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ctl/run.h"
#include "ctl/value.h"
#include "plane/nft/live.h"

#define PACKETS_MAX 10

static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
	is_over = 1;
}

static int query_make(struct nft_live_query *ret, const json_t *trace, struct err *err)
{
	const json_t *source = value_get(trace, "source");
	const json_t *to = value_get(trace, "destination");

	*ret = (struct nft_live_query){
		.port = (uint16_t)value_int(to, "port"),
		.proto = (uint8_t)l4proto_parse(value_text(to, "protocol")),
	};
	/* The host may use any of its addresses. */
	if (strcmp(value_text(source, "is"), "host") != 0 && value_has(source, "address")) {
		int r = ip_addr_parse(&ret->src, value_text(source, "address"), err);

		if (r < 0)
			return r;
	}
	return ip_addr_parse(&ret->dst, value_text(to, "address"), err);
}

/* Print a packet when it is first seen and when its addresses change; the rule that marks it is not
 * an event. */
static void event_print(struct str *out, const struct nft_live_event *e, uint32_t *last_id,
			struct str *last_addrs)
{
	FINI(str_fini) struct str addrs = { 0 };

	if (e->has_addrs) {
		str_printf(&addrs, "%s -> %s", ip_endpoint_str(&e->src, e->sport),
			   ip_endpoint_str(&e->dst, e->dport));
		if (e->id != *last_id || strcmp(addrs.text, str_text(last_addrs)) != 0)
			str_printf(out, "packet %08x  %s\n", e->id, addrs.text);
		str_clear(last_addrs);
		str_puts(last_addrs, addrs.text);
	} else if (e->id != *last_id) {
		str_printf(out, "packet %08x\n", e->id);
	}
	*last_id = e->id;
	if (strcmp(e->table, "vipd-trace") != 0)
		str_printf(out, "    %-12s %-14s %s\n", e->table, e->chain, e->verdict);
}

static int events_show(struct nft_live *l, uint64_t deadline_ns, struct err *err)
{
	FINI(str_fini) struct str last = { 0 };
	uint32_t last_id = 0;
	size_t n_packets = 0;
	int r = 0;

	while (!is_over) {
		struct nft_live_event e;
		FINI(str_fini) struct str out = { 0 };
		uint64_t now = now_ns();

		/* A signal may arrive after the check of is_over and before poll(). */
		r = nft_live_next(l, &e, MIN(deadline_ns, now + NSEC_PER_SEC), err);
		if (r == 0 && now < deadline_ns)
			continue;
		if (r <= 0)
			break;
		n_packets += e.id != last_id;
		if (n_packets > PACKETS_MAX)
			break;
		event_print(&out, &e, &last_id, &last);
		r = out_write(str_text(&out), out.len);
		if (r == 0)
			r = out_flush();
		if (r < 0)
			break;
	}
	if (r >= 0 && n_packets == 0)
		(void)fputs("no new connection of that flow\n", stderr);
	return r < 0 ? r : n_packets == 0;
}

int run_live(const struct run *run, const json_t *trace)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct nft_live *l;
	struct nft_live_query q;
	struct err err;
	int r = query_make(&q, trace, &err);

	if (r == 0)
		r = nft_live_open(&l, &q, &err);
	if (r < 0)
		return failed(not_vipd(r), &err);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)out_printf("\nnew connections of this flow, for %u s, at most %d:\n", run->live_s,
			 PACKETS_MAX);
	(void)out_flush();
	r = events_show(l, now_ns() + run->live_s * NSEC_PER_SEC, &err);
	nft_live_close(l);
	return r < 0 ? failed(not_vipd(r), &err) : r == 0 ? EXIT_FINE : EXIT_PROBLEM;
}
