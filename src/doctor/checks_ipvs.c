/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks_ipvs - checks for the ipvs plane: IPVS, policy routing, sysctls, INPUT,
 * connections.
 */
#include <inttypes.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "doctor/checks.h"
#include "plane/ipvs/plane_ipvs.h"

#define LISTED_MAX 3
#define PER_BUCKET_MAX 8

/* --- IPVS itself --- */

static void check_scheds(json_t *r, const struct fact_try *t)
{
	size_t n_bad = 0;

	for (size_t i = 0; i < t->n_scheds; i++) {
		const struct ipvs_try *s = &t->scheds[i];
		char advice[128];

		if (s->result == 0)
			continue;
		n_bad++;
		(void)snprintf(advice, sizeof(advice),
			       "modprobe ip_vs_%s; services with that scheduler get the default",
			       s->sched);
		check_add(r, "ipvs-kernel",
			  i == 0                        ? CHECK_ERROR
			  : strcmp(s->sched, "mh") == 0 ? CHECK_WARNING
							: CHECK_NOTE,
			  advice, "the kernel has no scheduler %s: %s", s->sched,
			  strerror(-s->result));
	}
	if (n_bad == 0)
		check_add(r, "ipvs-kernel", CHECK_OK, NULL, "IPVS and %zu schedulers are available",
			  t->n_scheds);
}

void check_ipvs_kernel(json_t *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (!t->is_done)
		check_add(r, "ipvs-kernel", CHECK_ERROR, "see the error",
			  "features cannot be tested: %s", t->error.text);
	else if (t->ipvs_result < 0)
		check_add(
			r, "ipvs-kernel", CHECK_ERROR,
			"modprobe ip_vs; or use a kernel with CONFIG_IP_VS; or use --proxy-mode=nftables",
			"the kernel has no IPVS: %s", strerror(-t->ipvs_result));
	else if (!t->is_private)
		check_add(r, "ipvs-kernel", CHECK_NOTE,
			  "optional: run with CAP_SYS_ADMIN to test the schedulers",
			  "IPVS is available; schedulers not tested");
	else
		check_scheds(r, t);
}

/* --- policy routing --- */

void check_ipvs_routing(json_t *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	FINI(str_fini) struct str list = { 0 };
	size_t before = json_array_size(r);
	size_t n = 0;

	if (!p->has_routing) {
		check_add(r, "policy-routing", CHECK_WARNING, "see the error",
			  "policy routing cannot be read: %s", p->routing_error.text);
		return;
	}
	vec_for_each (text, &p->hard)
		check_add(r, "policy-routing", CHECK_ERROR,
			  "remove the rule; vipd does not serve while it exists", "%s", *text);
	vec_for_each (text, &p->soft)
		check_add(
			r, "policy-routing", CHECK_WARNING,
			"see `ip rule`; if the rule can route packets of services, give it a lower priority than vipd's rules, or change --ipvs-rule-priority",
			"%s", *text);
	vec_for_each (text, &p->missing)
		check_list_add(&list, &n, LISTED_MAX, *text);
	check_list_end(&list, n, LISTED_MAX);
	if (n > 0 && p->is_in_force)
		check_add(
			r, "policy-routing", CHECK_ERROR,
			"vipd restores them within 10 s; find the process that removes them (ip monitor rule); until then connections from other hosts and pods fail",
			"missing: %s", list.text);
	if (json_array_size(r) == before)
		check_add(r, "policy-routing", CHECK_OK, NULL,
			  p->is_in_force
				  ? "rules and routes exist, and no foreign rule precedes them"
				  : "the priorities and the table of vipd's rules are free");
}

/* --- sysctls --- */

void check_ipvs_sysctls(json_t *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	FINI(str_fini) struct str list = { 0 };
	const char *name;
	uint32_t value;
	bool is_required = false;
	size_t n_known = 0;

	for (size_t i = 0; i < FACT_IPVS_SYSCTLS && ipvs_sysctl_required(i, &name, &value); i++) {
		n_known += p->sysctls[i] >= 0;
		if (p->sysctls[i] < 0 || p->sysctls[i] == value)
			continue;
		/* Required for masquerading. */
		is_required |= strcmp(name, "conntrack") == 0;
		str_printf(&list, "%snet.ipv4.vs.%s=%" PRIu32, list.len > 0 ? " " : "", name,
			   value);
	}
	if (n_known == 0)
		check_add(r, "ipvs-sysctls", p->is_in_force ? CHECK_WARNING : CHECK_NOTE,
			  p->is_in_force ? "allow vipd to read /proc/sys/net/ipv4/vs" : NULL,
			  p->is_in_force ? "sysctls of IPVS cannot be read"
					 : "IPVS is not loaded yet");
	else if (list.len > 0 && p->is_in_force)
		check_add(
			r, "ipvs-sysctls", is_required ? CHECK_ERROR : CHECK_WARNING,
			"set them with sysctl -w; vipd sets them every 10 s if /proc/sys is writable",
			"wrong values; required: %s", list.text);
	else
		check_add(r, "ipvs-sysctls", CHECK_OK, NULL,
			  list.len > 0 ? "vipd sets them at its start" : "correct");
}

/* --- INPUT --- */

void check_ipvs_input(json_t *r, const struct facts *f)
{
	size_t before = json_array_size(r);

	vec_for_each (t, &f->tables)
		vec_for_each (input, &t->inputs) {
			char advice[192];

			if (!input->is_closed || input->accepts_mark)
				continue;
			(void)snprintf(
				advice, sizeof(advice),
				"accept vipd's mark in that chain: iptables -I INPUT -m mark "
				"--mark 0x%x/0xff000f00 -j ACCEPT, or `meta mark & 0xff000f00 == "
				"0x%x accept`",
				f->ipvs_plane.mark, f->ipvs_plane.mark);
			check_add(
				r, "input-policy", CHECK_WARNING, advice,
				"chain %s of table %s drops or rejects what no rule accepts, and none accepts vipd's mark: connections from other hosts and pods to services can be dropped",
				input->chain, t->name);
		}
	if (!f->has_tables)
		check_add(r, "input-policy", CHECK_WARNING, "run with CAP_NET_ADMIN",
			  "tables of nf_tables cannot be read");
	else if (json_array_size(r) == before)
		check_add(r, "input-policy", CHECK_OK, NULL,
			  "no nf_tables chain drops packets to services");
}

/* --- connections --- */

void check_ipvs_conns(json_t *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;

	if (p->table_size <= 0 || p->n_conns < 0)
		check_add(r, "ipvs-connections", CHECK_NOTE, NULL, "IPVS is not loaded yet");
	else if (p->n_conns / p->table_size > PER_BUCKET_MAX)
		check_add(
			r, "ipvs-connections", CHECK_WARNING,
			"set `options ip_vs conn_tab_bits=18` in /etc/modprobe.d and restart the node",
			"%" PRId64 " connections share %" PRId64 " hash buckets: lookups are slow",
			p->n_conns, p->table_size);
	else
		check_add(r, "ipvs-connections", CHECK_OK, NULL,
			  "%" PRId64 " connections; the table has %" PRId64 " buckets", p->n_conns,
			  p->table_size);
}
