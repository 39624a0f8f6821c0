/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/checks.h"

void check_list_add(struct str *list, size_t *n, size_t max, const char *name)
{
	if ((*n)++ < max)
		str_printf(list, "%s%s", list->len > 0 ? ", " : "", name);
}

void check_list_end(struct str *list, size_t n, size_t max)
{
	if (n > max)
		str_printf(list, " and %zu more", n - max);
}

void check_all(json_t *r, const struct facts *f)
{
	check_kernel(r, f);
	check_nftables(r, f);
	if (f->ipvs_plane.is_selected) {
		check_ipvs_kernel(r, f);
		check_ipvs_routing(r, f);
		check_ipvs_sysctls(r, f);
		check_ipvs_input(r, f);
		check_ipvs_conns(r, f);
	}
	check_capabilities(r, f);
	check_forwarding(r, f);
	check_rp_filter(r, f);
	check_localnet(r, f);
	check_bridge(r, f);
	check_conntrack(r, f);
	check_proxies(r, f);
	check_tables(r, f);
	check_ipvs(r, f);
	check_addresses(r, f);
	check_listeners(r, f);
	check_clock(r, f);
	check_files(r, f);
	check_netlink(r, f);
	check_memory(r, f);
}
