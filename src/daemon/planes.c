/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/planes.h"

#include <linux/rtnetlink.h>

#include "base/log.h"
#include "nl/sock.h"
#include "plane/common.h"
#include "plane/failover.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/nft/plane_nft.h"

#define RETIRE_RETRY_NS (60 * NSEC_PER_SEC)

static void socks_close(struct nl_sock **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		nl_sock_close(v[i]);
}

static int socks_open(struct nl_sock **ret, const int *protocols, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = nl_sock_open(&ret[i], protocols[i], err);

		if (r < 0) {
			socks_close(ret, i);
			return r;
		}
	}
	return 0;
}

static int open_nft(struct plane **ret, struct err *err)
{
	static const int protocols[] = { NETLINK_NETFILTER, NETLINK_NETFILTER, NETLINK_NETFILTER };
	struct nl_sock *v[ARRAY_SIZE(protocols)];
	int r = socks_open(v, protocols, ARRAY_SIZE(protocols), err);

	if (r < 0)
		return r;
	nft_plane_open(ret, v[0], v[1]);
	nft_plane_walk_with(*ret, v[2]);
	return 0;
}

/* `limit_ms`: of failover; 0: off. */
static int open_ipvs(struct plane **ret, const struct options *o, uint64_t limit_ms,
		     struct err *err)
{
	static const int protocols[] = { NETLINK_NETFILTER, NETLINK_NETFILTER, NETLINK_GENERIC,
					 NETLINK_ROUTE,     NETLINK_GENERIC,   NETLINK_ROUTE };
	struct ipvs_config config = o->ipvs;
	struct nl_sock *v[ARRAY_SIZE(protocols)];
	int r = socks_open(v, protocols, ARRAY_SIZE(protocols), err);

	if (r < 0)
		return r;
	config.counting = o->plane.counting;
	config.exclude = o->ipvs_exclude.v;
	config.n_exclude = o->ipvs_exclude.n;
	config.sysctl_root = "";
	r = nl_sock_join(v[5], RTNLGRP_IPV4_RULE, err);
	if (r == 0)
		r = nl_sock_join(v[5], RTNLGRP_IPV6_RULE, err);
	if (r == 0)
		r = ipvs_plane_open(
			ret, &(struct ipvs_socks){ v[0], v[1], v[2], v[3], v[4], NULL, v[5] },
			&config, err);
	if (r < 0)
		socks_close(v, ARRAY_SIZE(protocols));
	else
		ipvs_plane_failover(*ret, limit_ms);
	return r;
}

static bool is_ipvs(const struct options *o)
{
	return o->plane.mode == PROXY_MODE_IPVS;
}

int planes_open(struct plane **ret, const struct options *o, struct err *err)
{
	struct plane_failover_config failover = { .table = NFT_FAILOVER_TABLE };
	int r;

	if (o->plane.failover != FAILOVER_OFF) {
		failover.limit_ms = o->plane.failover_ns / NSEC_PER_MSEC;
		failover.udp_ms = o->plane.failover_udp_ns / NSEC_PER_MSEC;
		failover.ejects = o->plane.failover == FAILOVER_EJECT;
	}
	if (is_ipvs(o))
		return open_ipvs(ret, o, failover.limit_ms, err);
	r = open_nft(ret, err);
	if (r < 0)
		return r;
	nft_plane_count(*ret, o->plane.counting);
	if (o->plane.is_table_owner)
		nft_plane_own_tables(*ret);
	plane_failover_open(*ret, &failover);
	nft_plane_guard(*ret, !o->plane.is_guard_off && !o->plane.is_table_owner);
	return 0;
}

int planes_watch(struct plane *p, struct err *err)
{
	struct nl_sock *watch;
	int r = nl_sock_open(&watch, NETLINK_NETFILTER, err);

	if (r == 0)
		r = plane_watch_with(p, watch, err);
	return r == 0 ? nl_sock_fd(watch) : r;
}

/* Without tables for failover: those of an earlier process are removed. */
static int open_other(struct plane **ret, const struct options *o, struct err *err)
{
	return is_ipvs(o) ? open_nft(ret, err) : open_ipvs(ret, o, 0, err);
}

static int cleanup_and_close(struct plane *p, struct err *err)
{
	int r = p->ops->cleanup(p, err);

	p->ops->close(p);
	return r;
}

int planes_cleanup(const struct options *o, struct err *err)
{
	struct plane *p;
	int r = planes_open(&p, o, err);

	if (r == 0)
		r = cleanup_and_close(p, err);
	if (r == 0)
		r = open_other(&p, o, err);
	return r == 0 ? cleanup_and_close(p, err) : r;
}

void other_plane_close(struct other_plane *other)
{
	if (other->plane != NULL)
		other->plane->ops->close(other->plane);
	other->plane = NULL;
}

uint64_t other_plane_retire(struct other_plane *other, const struct options *o,
			    const struct model *m, uint64_t now)
{
	uint64_t again = 0;
	struct err err = { 0 };
	int r = 0;

	if (other->is_gone || now < other->next_ns)
		return other->next_ns;
	if (other->plane == NULL)
		r = open_other(&other->plane, o, &err);
	if (r == 0)
		r = other->plane->ops->retire(other->plane, m, now, &again, &err);
	if (r < 0) {
		log_warn(LOG_AREA_MAIN,
			 "kernel state of plane %s: not removed: %s; next attempt in %llu s",
			 is_ipvs(o) ? "nftables" : "ipvs", err.text,
			 (unsigned long long)(RETIRE_RETRY_NS / NSEC_PER_SEC));
		again = now + RETIRE_RETRY_NS;
	}
	other->is_gone = again == 0;
	other->next_ns = again;
	if (r < 0 || again == 0)
		other_plane_close(other);
	return again;
}
