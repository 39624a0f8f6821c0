/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/judge.h"

void judge_list_add(struct str *list, size_t *n, size_t max, const char *name)
{
	if ((*n)++ < max)
		str_printf(list, "%s%s", list->len > 0 ? ", " : "", name);
}

void judge_list_end(struct str *list, size_t n, size_t max)
{
	if (n > max)
		str_printf(list, " and %zu more", n - max);
}

void judge_all(struct check_report *r, const struct facts *f)
{
	judge_kernel(r, f);
	judge_nftables(r, f);
	if (f->ipvs_plane.is_asked) {
		judge_ipvs_kernel(r, f);
		judge_ipvs_routing(r, f);
		judge_ipvs_sysctls(r, f);
		judge_ipvs_input(r, f);
		judge_ipvs_conns(r, f);
	}
	judge_capabilities(r, f);
	judge_forwarding(r, f);
	judge_rp_filter(r, f);
	judge_localnet(r, f);
	judge_bridge(r, f);
	judge_conntrack(r, f);
	judge_proxies(r, f);
	judge_tables(r, f);
	judge_ipvs(r, f);
	judge_addresses(r, f);
	judge_listeners(r, f);
	judge_clock(r, f);
	judge_files(r, f);
	judge_netlink(r, f);
	judge_memory(r, f);
}
