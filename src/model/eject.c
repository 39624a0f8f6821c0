/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/eject - a short list, searched for each endpoint only while it is not empty. */
#include "model/eject.h"

#include <errno.h>
#include <inttypes.h>

#include "model/drain.h"

static struct model_ejection *find(const struct model *m, const struct name *ns,
				   const struct name *name, const struct ip_addr *addr,
				   uint16_t port)
{
	return vec_find(&m->ejections, e,
			e->ns == ns && e->name == name && e->port == port &&
				ip_addr_is_equal(&e->addr, addr));
}

struct model_ejection *model_ejection(const struct model *m, const struct name *ns,
				      const struct name *name, const struct ip_addr *addr,
				      uint16_t port)
{
	struct model_ejection *e = find(m, ns, name, addr, 0);

	return e != NULL ? e : find(m, ns, name, addr, port);
}

static void remove_at(struct model *m, struct model_ejection *e)
{
	name_pair_unref(e->ns, e->name);
	vec_keep(&m->ejections, other, other != e);
}

static bool has_port(const struct service *s, const struct name *name)
{
	return s != NULL && vec_has(&s->ports, p, p->proto == L4PROTO_TCP && p->name == name);
}

#define NAMES_MAX 64 /* ports of a slice that are searched among those of the service */

size_t model_ejection_ports(const struct name *ret[static MODEL_EJECTION_PORTS_MAX],
			    const struct svc *svc, const struct ip_addr *addr, uint16_t port)
{
	uint64_t work = 0;
	size_t n = 0;

	list_for_each_entry (of, &svc->slices, struct slice_entry, link) {
		const struct slice *s = of->slice;
		const struct slice_port *p;

		if (vec_search(&s->endpoints, addr, ip_addr_cmp) == NULL)
			continue;
		for (size_t i = 0; i < NAMES_MAX && n < MODEL_EJECTION_PORTS_MAX &&
				   (p = slice_port_at(s, L4PROTO_TCP, port, i, &work)) != NULL;
		     i++)
			if (!array_has(ret, n, name, *name == p->name) &&
			    has_port(svc->service, p->name))
				ret[n++] = p->name;
		if (n == MODEL_EJECTION_PORTS_MAX)
			break;
	}
	return n;
}

/* Is the endpoint left out of this set, and no ejected one kept in it by the limit? An operator's
 * ejection may keep one in that this process ejected. */
static int set_effect(const struct selection *s, bool is_local_set, const struct model_ejection *of)
{
	bool is_full = false;
	bool has = false;

	vec_for_each (e, &s->endpoints) {
		uint8_t why = is_local_set ? e->local : e->cluster;

		if (e->ejection == EJECTION_NONE ||
		    (why != EXCLUSION_NONE && why != EXCLUSION_EJECTED))
			continue;
		is_full |=
			why == EXCLUSION_NONE && (e->ejection == EJECTION_MANUAL || !of->is_manual);
		has |= ip_addr_is_equal(&e->addr, &of->addr) &&
		       (of->port == 0 || of->port == e->port);
	}
	return !has ? -ENOENT : is_full ? -EDOM : 0;
}

/* set_effect() over both sets of a port, in addition to the result `r` of the ports before it. */
static int port_effect(const struct selection *s, const struct model_ejection *of, int r)
{
	for (unsigned int set = 0; set < 2; set++) {
		int q = set_effect(s, set == 1, of);

		if (q != -ENOENT && (r == -ENOENT || (q == -EDOM) == of->is_manual))
			r = q;
	}
	return r;
}

/*
 * set_effect() over the sets of the service that have the endpoint: all of them for an operator,
 * any of them for this process, for which few are examined: thousands of ports may share endpoints.
 */
static int check(const struct model *m, const struct svc *svc, const struct model_ejection *of)
{
	const struct name *names[MODEL_EJECTION_PORTS_MAX];
	size_t n_names = of->port != 0 ? model_ejection_ports(names, svc, &of->addr, of->port) : 0;
	int decided = of->is_manual ? -EDOM : 0;
	size_t work = 0;
	int r = -ENOENT;

	for (size_t i = 0; i < svc->service->ports.n && r != decided; i++) {
		const struct service_port *port = &svc->service->ports.v[i];
		struct selection s;

		if (of->port != 0 && (port->proto != L4PROTO_TCP ||
				      !array_has(names, n_names, name, *name == port->name)))
			continue;
		if (!of->is_manual && work >= SELECT_STEP_WORK)
			break;
		select_endpoints(&s, m, svc, i, ip_fam(&of->addr));
		work += select_work(svc, s.endpoints.n);
		r = port_effect(&s, of, r);
		selection_fini(&s);
	}
	return r;
}

int model_eject(struct model *m, const struct model_ejection *e, uint64_t at_ns)
{
	struct svc *svc = model_find(m, e->ns, e->name);
	struct model_ejection *added;
	int r;

	if (svc == NULL || !service_is_proxied(svc->service))
		return -ENOENT;
	if (find(m, e->ns, e->name, &e->addr, e->port) != NULL)
		return -EEXIST;
	if (m->ejections.n == MODEL_EJECTIONS_MAX)
		return -ENOSPC;
	added = vec_push(&m->ejections);
	*added = *e;
	added->ns = name_ref(e->ns);
	added->name = name_ref(e->name);
	r = check(m, svc, added);
	if (r < 0)
		remove_at(m, added);
	else
		model_mark_dirty(m, svc, at_ns);
	return r;
}

int model_admit(struct model *m, const struct name *ns, const struct name *name,
		const struct ip_addr *addr, uint16_t port, uint64_t at_ns)
{
	struct model_ejection *e = find(m, ns, name, addr, port);

	if (e == NULL)
		return 0;
	model_mark_named(m, ns, name, at_ns);
	remove_at(m, e);
	return 1;
}

const char *model_ejection_failure(const struct model_ejection *e)
{
	return e->refused == 0 ? "unanswered" : e->refused == e->failed ? "refused" : "failed";
}

void model_ejection_text(struct str *out, const struct model_ejection *e, uint64_t now)
{
	if (e->is_manual || now == 0) {
		str_puts(out, e->is_manual ? "ejected by an operator" : "ejected");
		return;
	}
	str_printf(out, "ejected: %" PRIu32 " handshakes in a row %s, ", e->failed,
		   model_ejection_failure(e));
	if (e->probe_ns > now)
		str_printf(out, "next probe in %" PRIu64 " s",
			   (e->probe_ns - now + NSEC_PER_SEC - 1) / NSEC_PER_SEC);
	else
		str_puts(out, "probed now");
}

void model_ejections_fini(struct model *m)
{
	vec_for_each (e, &m->ejections)
		name_pair_unref(e->ns, e->name);
	vec_fini(&m->ejections);
}
