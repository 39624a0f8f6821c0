/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/read_ipvs - foreign virtual services, and requirements of the ipvs plane.
 *
 * Reads IPVS only if it is loaded: a request would load it.
 */
#include <linux/netlink.h>

#include "base/str.h"
#include "doctor/proc.h"
#include "plane/ipvs/plane_ipvs.h"

/* --- virtual services --- */

/* Remove one of the plane's virtual services. */
static void server_ours(struct facts *f, const struct ipvs_service *s)
{
	const struct ip_tuple key = { s->key.addr, s->key.port, s->key.proto, 0 };
	struct ip_tuple *found;

	if (s->key.mark != 0 || !(s->flags & IPVS_FLAG_OURS)) /* other software has many */
		return;
	found = vec_find(&f->ipvs, t, ip_tuple_cmp(t, &key) == 0);
	if (found != NULL)
		*found = f->ipvs.v[--f->ipvs.n];
}

static void servers_read(struct facts *f, const char *root)
{
	AUTO(ipvs_wire_close) struct ipvs_wire *w = NULL;
	AUTO(vec_fini) struct ipvs_services services = { 0 };
	FINI(str_fini) struct str text = { 0 };
	struct fact_ipvs *p = &f->ipvs_plane;
	struct nl_sock *nl;

	f->has_ipvs = proc_read(&text, root, "/proc/self/net/ip_vs") == 0;
	if (f->has_ipvs)
		p->n_conns = 0;
	str_for_each_line (line, text.text) {
		struct ip_tuple t;

		if (proc_ipvs(&t, line))
			*vec_push(&f->ipvs) = t;
		p->n_conns += MAX(proc_ipvs_conns(line), INT64_C(0));
		p->table_size = MAX(p->table_size, proc_ipvs_size(line));
	}
	if (f->ipvs.n == 0 || nl_sock_open(&nl, NETLINK_GENERIC, NULL) < 0)
		return;
	ipvs_wire_open(&w, nl);
	if (ipvs_wire_resolve(w, NULL) == 0)
		(void)!ipvs_wire_services(w, &services, NULL);
	vec_for_each (s, &services.v)
		server_ours(f, s);
}

/* --- policy routing --- */

static void trouble(void *arg, bool is_hard, const char *text)
{
	struct fact_ipvs *p = arg;

	*(is_hard ? vec_push(&p->hard) : vec_push(&p->soft)) = xstrdup(text);
}

static int routing_read(struct fact_ipvs *p, struct nl_sock *nl, struct err *err)
{
	struct ipvs_route_config c = { .marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT),
				       .table = IPVS_ROUTE_TABLE_DEFAULT,
				       .priority = IPVS_RULE_PRIORITY_DEFAULT };
	FINI(str_fini) struct str desired = { 0 };
	FINI(str_fini) struct str programmed = { 0 };
	int r = ipvs_route_config_read(nl, &c, err);

	if (r >= 0)
		r = ipvs_route_text(nl, &c, &desired, &programmed, trouble, p, err);
	str_for_each_line (line, desired.text)
		if (!str_has_line(str_text(&programmed), line))
			*vec_push(&p->missing) = xstrdup(line);
	return r;
}

void read_ipvs(struct facts *f, const char *root)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	struct fact_ipvs *p = &f->ipvs_plane;

	servers_read(f, root);
	if (!p->is_selected)
		return;
	for (size_t i = 0; i < IPVS_SYSCTLS_FIXED; i++)
		p->sysctls[i] = proc_number(root, "/proc/sys/net/ipv4/vs/%s", ipvs_sysctls[i].name);
	p->has_routing = nl_sock_open(&nl, NETLINK_ROUTE, &p->routing_error) == 0 &&
			 routing_read(p, nl, &p->routing_error) == 0;
}
