/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/ipvs - select virtual services, count their connections, delete them; their device. */
#include "cleanup/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/file.h"
#include "doctor/links.h"
#include "nl/dump.h"
#include "plane/ipvs/plane_ipvs.h"

/* --- the device --- */

int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl, struct err *err)
{
	FINI(links_fini) struct links all = { 0 };
	const struct fact_link *found;
	int r = links_read(&all, nl, err);

	if (r < 0)
		return r;
	ret->name = p == PROXY_KUBE_ROUTER ? "kube-dummy-if" : "kube-ipvs0";
	found = vec_find(&all.links, l, strcmp(l->name, ret->name) == 0);
	if (found == NULL)
		return 0;
	ret->index = (int)found->index;
	ret->is_dummy = strcmp(found->kind, "dummy") == 0;
	vec_for_each (a, &all.addrs)
		if (a->link == found->index)
			*vec_push(&ret->addrs) = a->addr;
	vec_sort(&ret->addrs, ip_addr_cmp);
	return 0;
}

int cleanup_link(const struct ipvs_link *l, struct nl_sock *nl, struct cleanup *c, struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = nl_request(buf, sizeof(buf), RTM_DELLINK);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	struct err why = { 0 };

	if (l->index == 0)
		return 0;
	if (!l->is_dummy) {
		report_left(c, "link: left: %s is no dummy device", l->name);
		return 0;
	}
	ifi->ifi_index = l->index;
	if (nl_query(nl, h, &(struct nl_reader){ 0 }, NULL, &why) < 0)
		report_left(c, "link: left: %s: %s", l->name, why.text);
	else
		report_removed(c, 1, "link: removed %s and its %u addresses", l->name, l->addrs.n);
	return 0;
}

/* --- selection --- */

/* For ClientIP affinity. */
static bool is_of_vipd(const struct ipvs_service *s)
{
	return s->flags & IPVS_FLAG_OURS;
}

static bool is_owned(const struct ipvs_service *s, const struct ipvs_link *link,
		     const struct node_ports *ports, const struct cleanup *c)
{
	const struct ipvs_key *k = &s->key;

	if (is_of_vipd(s) || ipvs_is_excluded(k, c->exclude, c->n_exclude))
		return false;
	if (k->mark != 0)
		return dsr_marks_has(&c->marks, ip_family(k->fam), k->mark);
	return vec_search(&link->addrs, &k->addr, ip_addr_cmp) != NULL ||
	       node_ports_has(ports, &(struct ip_tuple){ k->addr, k->port, k->proto, 0 });
}

/* --- deletion --- */

struct tally {
	size_t n_removed;
	size_t n_handed_over;
	size_t n_busy;
	size_t n_failed;
	uint64_t n_conns;
	struct err why; /* of the last failure */
};

/* A service that no longer exists (-ESRCH) counts as deleted. */
static int service_act(struct ipvs_wire *wire, const struct ipvs_op *what, struct err *err)
{
	struct ipvs_op op = *what;
	size_t n = 0;
	int r = ipvs_wire_send(wire, &op, 1, &n, err);

	if (r == -ECANCELED && op.result == -ESRCH)
		return 0;
	return r == -ECANCELED ? err_set(err, op.result, "%s: %s", ipvs_key_str(&op.service.key),
					 strerror(-op.result))
			       : r;
}

static void service_hand_over(const struct ipvs_service *s, struct ipvs_wire *wire, struct tally *t)
{
	struct ipvs_op op = { .cmd = IPVS_CMD_SET_SERVICE, .service = *s };

	op.service.flags = (s->flags & ~IP_VS_SVC_F_HASHED) | IPVS_FLAG_OURS;
	if (service_act(wire, &op, &t->why) == 0)
		t->n_handed_over++;
	else
		t->n_failed++;
}

static void service_end(const struct ipvs_key *key, struct ipvs_wire *wire, bool is_forced,
			struct tally *t)
{
	AUTO(vec_fini) struct ipvs_dests dests = { 0 };
	uint64_t n = 0;
	int r = ipvs_wire_dests(wire, key, &dests, &t->why);

	/* Inactive connections count too: half-closed TCP, and UDP, which has no other state. */
	vec_for_each (d, &dests.v)
		n += (uint64_t)d->active + d->inactive;
	if (r == 0 && n > 0 && !is_forced) {
		t->n_busy++;
		t->n_conns += n;
		return;
	}
	if (r == 0)
		r = service_act(
			wire, &(struct ipvs_op){ .cmd = IPVS_CMD_DEL_SERVICE, .service.key = *key },
			&t->why);
	if (r == 0)
		t->n_removed++;
	else
		t->n_failed++;
}

/*
 * IPVS keeps the connections of deleted services, for UDP 300 s after the last packet, and drops
 * packets from their client ports. With this sysctl at 1 the kernel ends these connections, with
 * their conntrack entries, at the deletion (Linux 5.9): their clients reach vipd.
 */
#define EXPIRE "net.ipv4.vs.expire_nodest_conn"
#define EXPIRE_PATH "/proc/sys/net/ipv4/vs/expire_nodest_conn"

/* Returns the previous value, or -errno. */
static int expire_set(uint64_t value)
{
	uint64_t previous;
	int r = file_read_number(&previous, EXPIRE_PATH, NULL);

	if (r == 0 && previous != value) /* in a container /proc/sys is read-only */
		r = file_write_number(EXPIRE_PATH, value, NULL);
	return r < 0 ? r : (int)previous;
}

static void tally_report(const struct tally *t, struct cleanup *c)
{
	if (t->n_handed_over > 0)
		report_removed(c, t->n_handed_over,
			       "ipvs: handed over to vipd: %zu virtual services with ClientIP "
			       "affinity",
			       t->n_handed_over);
	if (t->n_removed > 0)
		report_removed(c, t->n_removed, "ipvs: removed %zu virtual service%s", t->n_removed,
			       t->n_removed == 1 ? "" : "s");
	if (t->n_busy > 0)
		report_left(c,
			    "ipvs: left: %zu virtual services that carry %" PRIu64
			    " connections: run the cleanup again when the connections have ended "
			    "(--cleanup=%s,force ends them)",
			    t->n_busy, t->n_conns, proxy_name(c->proxy));
	if (t->n_failed > 0)
		report_left(c, "ipvs: left: %zu virtual services: %s", t->n_failed, t->why.text);
}

int cleanup_ipvs(struct ipvs_wire *wire, const struct ipvs_link *link,
		 const struct node_ports *ports, struct cleanup *c, struct err *err)
{
	AUTO(vec_fini) struct ipvs_services services = { 0 };
	struct tally tally = { 0 };
	int expire = 1;
	int r = ipvs_wire_resolve(wire, err);

	if (r == -EOPNOTSUPP) /* the kernel has no IPVS */
		r = 0;
	else if (r == 0)
		r = ipvs_wire_services(wire, &services, err);
	if (r == 0 && c->is_forced && vec_has(&services.v, s, !is_of_vipd(s)))
		expire = expire_set(1);
	if (expire < 0)
		(void)fprintf(c->out, "ipvs: " EXPIRE
				      ": cannot be set to 1; clients that use the port of an "
				      "ended connection again may get no answer for 5 minutes\n");
	vec_for_each (s, &services.v) {
		if (r < 0 || !is_owned(s, link, ports, c))
			continue;
		if (c->n_occupied > 0 && s->key.mark == 0 && s->flags & IP_VS_SVC_F_PERSISTENT)
			service_hand_over(s, wire, &tally);
		else
			service_end(&s->key, wire, c->is_forced, &tally);
	}
	if (expire == 0)
		(void)expire_set(0);
	if (r < 0)
		return r;
	tally_report(&tally, c);
	c->n_handed_over = tally.n_handed_over;
	c->is_busy = tally.n_busy + tally.n_failed > 0;
	return 0;
}
