/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/judge_ipvs - what the ipvs plane needs besides: IPVS, policy routing, sysctls, a mark. */
#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "doctor/judge.h"
#include "plane/ipvs/plane_ipvs.h"

#define LISTED_MAX 3
#define PER_BUCKET_MAX 8

/* --- IPVS itself --- */

static void judge_scheds(struct check_report *r, const struct fact_try *t)
{
	size_t n_bad = 0;

	for (size_t i = 0; i < t->n_scheds; i++) {
		const struct ipvs_try *s = &t->scheds[i];
		char advice[128];

		if (s->result == 0)
			continue;
		n_bad++;
		(void)snprintf(advice, sizeof(advice),
			       "modprobe ip_vs_%s; services that ask for it get the default",
			       s->sched);
		check_add(r, "ipvs-kernel",
			  i == 0                        ? CHECK_ERROR
			  : strcmp(s->sched, "mh") == 0 ? CHECK_WARNING
							: CHECK_NOTE,
			  advice, "this kernel has no scheduler %s: %s", s->sched,
			  strerror(-s->result));
	}
	if (n_bad == 0)
		check_add(r, "ipvs-kernel", CHECK_OK, NULL, "IPVS is there, and %zu schedulers",
			  t->n_scheds);
}

void judge_ipvs_kernel(struct check_report *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (!t->is_done)
		check_add(r, "ipvs-kernel", CHECK_ERROR, "look at what it says",
			  "cannot be tried: %s", t->text);
	else if (t->ipvs_result < 0)
		check_add(r, "ipvs-kernel", CHECK_ERROR,
			  "modprobe ip_vs, or a kernel with CONFIG_IP_VS; or serve by nftables",
			  "the kernel has no IPVS: %s", strerror(-t->ipvs_result));
	else if (!t->is_private)
		check_add(r, "ipvs-kernel", CHECK_NOTE,
			  "nothing, unless in doubt: with CAP_SYS_ADMIN they are tried as well",
			  "IPVS is there; its schedulers were not tried");
	else
		judge_scheds(r, t);
}

/* --- policy routing --- */

void judge_ipvs_routing(struct check_report *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	struct str list = { 0 };
	size_t before = r->v.n;
	size_t n = 0;

	if (!p->has_routing) {
		check_add(r, "policy-routing", CHECK_WARNING, "look at what it says",
			  "cannot be read: %s", p->routing_error);
		return;
	}
	vec_for_each (text, &p->hard)
		check_add(r, "policy-routing", CHECK_ERROR,
			  "as it says; vipd does not begin to serve beside it", "%s", *text);
	vec_for_each (text, &p->soft)
		check_add(r, "policy-routing", CHECK_WARNING,
			  "ip rule; where it may lead packets to services elsewhere, give it a "
			  "priority behind vipd's, or vipd others with --ipvs-rule-priority",
			  "%s", *text);
	vec_for_each (text, &p->missing)
		judge_list_add(&list, &n, LISTED_MAX, *text);
	judge_list_end(&list, n, LISTED_MAX);
	if (n > 0 && p->is_in_force)
		check_add(r, "policy-routing", CHECK_ERROR,
			  "vipd puts them back within 10 s; look who takes them away (ip monitor "
			  "rule): until then others' connections to services end here",
			  "missing: %s", list.text);
	if (r->v.n == before)
		check_add(r, "policy-routing", CHECK_OK, NULL,
			  p->is_in_force ? "rules and routes are there, and nobody is before them"
					 : "nobody has the places of vipd's rules and routes");
	str_fini(&list);
}

/* --- sysctls --- */

void judge_ipvs_sysctls(struct check_report *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	struct str list = { 0 };
	const char *name;
	uint32_t value;
	bool is_required = false;
	size_t n_known = 0;

	for (size_t i = 0; i < FACT_IPVS_SYSCTLS && ipvs_sysctl_wanted(i, &name, &value); i++) {
		n_known += p->sysctls[i] >= 0;
		if (p->sysctls[i] < 0 || p->sysctls[i] == value)
			continue;
		/* Without it nothing is masqueraded. */
		is_required |= strcmp(name, "conntrack") == 0;
		str_printf(&list, "%snet.ipv4.vs.%s=%" PRIu32, list.len > 0 ? " " : "", name,
			   value);
	}
	if (n_known == 0)
		check_add(r, "ipvs-sysctls", p->is_in_force ? CHECK_WARNING : CHECK_NOTE,
			  p->is_in_force ? "let it read /proc/sys/net/ipv4/vs" : NULL,
			  p->is_in_force ? "cannot be read" : "they come with IPVS's module");
	else if (list.len > 0 && p->is_in_force)
		check_add(
			r, "ipvs-sysctls", is_required ? CHECK_ERROR : CHECK_WARNING,
			"sysctl -w what is named; vipd repairs them every 10 s where /proc/sys is "
			"writable",
			"not as the plane needs them: %s", list.text);
	else
		check_add(r, "ipvs-sysctls", CHECK_OK, NULL,
			  list.len > 0 ? "vipd will set them at its start"
				       : "as the plane needs them");
	str_fini(&list);
}

/* --- INPUT --- */

void judge_ipvs_input(struct check_report *r, const struct facts *f)
{
	size_t before = r->v.n;

	vec_for_each (t, &f->tables)
		vec_for_each (input, &t->inputs) {
			char advice[192];

			if (input->accepts_mark)
				continue;
			(void)snprintf(
				advice, sizeof(advice),
				"accept mark 0x%x/0xff000f00 there: iptables -I INPUT -m mark "
				"--mark 0x%x/0xff000f00 -j ACCEPT, or `meta mark & 0xff000f00 == "
				"0x%x accept`",
				f->ipvs_plane.mark, f->ipvs_plane.mark, f->ipvs_plane.mark);
			check_add(
				r, "input-policy", CHECK_WARNING, advice,
				"chain %s of table %s drops what it does not accept, and no rule is "
				"about captured packets: others' connections to services come by there",
				input->chain, t->name);
		}
	if (!f->has_tables)
		check_add(r, "input-policy", CHECK_WARNING, "CAP_NET_ADMIN",
			  "others' tables cannot be read");
	else if (r->v.n == before)
		check_add(r, "input-policy", CHECK_OK, NULL,
			  "nobody drops captured packets by a policy of nf_tables");
}

/* --- connections --- */

void judge_ipvs_conns(struct check_report *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;

	if (p->table_size <= 0 || p->n_conns < 0)
		check_add(r, "ipvs-connections", CHECK_NOTE, NULL,
			  "no table of connections yet: it comes with IPVS's module");
	else if (p->n_conns / p->table_size > PER_BUCKET_MAX)
		check_add(r, "ipvs-connections", CHECK_WARNING,
			  "options ip_vs conn_tab_bits=18 in /etc/modprobe.d, and load the module "
			  "anew (a restart of the node)",
			  "%" PRId64 " connections share %" PRId64
			  " buckets: each packet's look-up gets long",
			  p->n_conns, p->table_size);
	else
		check_add(r, "ipvs-connections", CHECK_OK, NULL,
			  "%" PRId64 " connections in a table of %" PRId64 " buckets", p->n_conns,
			  p->table_size);
}
