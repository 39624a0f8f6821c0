/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/env - derivation of the node's environment, and its answers about node ports.
 *
 * Fails closed where kube-proxy fails open: a family without a usable node port
 * address serves no node ports (SVC-07, SVC-09).
 */
#include "model/private.h"

#include <string.h>

#include "base/bits.h"

/* --- addresses of the node ------------------------------------------------- */

/*
 * LIFE-12, LIFE-14. The host's own addresses count only while there is no Node object with
 * addresses: a Node that lists IPv4 alone means that this node has no IPv6.
 */
static struct ip_addr node_ip(const struct model *m, enum ipfam fam)
{
	const struct ip_addr *bind = &m->config.bind_addr[fam];

	if (!ip_addr_is_any(bind))
		return *bind;
	if (m->self != NULL && m->self->addrs.n > 0) {
		vec_for_each (a, &m->self->addrs)
			if (ip_is_set(a) && ip_fam(a) == fam)
				return *a;
		return (struct ip_addr){ 0 };
	}
	vec_for_each (a, &m->host_addrs)
		if (ip_fam(a) == fam && !ip_addr_is_loopback(a) && !ip_addr_is_link_local(a))
			return *a;
	return (struct ip_addr){ 0 };
}

/* May node ports of the family be served on env.node_ip? Not if that is a guess (LIFE-04). */
static bool is_primary_known(const struct model_env *e, const struct model *m, enum ipfam fam)
{
	bool is_guess = m->self == NULL || m->self->addrs.n == 0;

	if (m->is_node_awaited && is_guess && ip_addr_is_any(&m->config.bind_addr[fam]))
		return false;
	return ip_is_set(&e->node_ip[fam]) && !ip_addr_is_loopback(&e->node_ip[fam]);
}

static bool nodeport_cidrs_match(const struct model_config *c, const struct ip_addr *a)
{
	/* Length 0 contains all of its family: SVC-08. */
	return vec_has(&c->nodeport_cidrs, p, ip_prefix_contains(p, a));
}

/* SVC-06 to SVC-12. */
static void derive_nodeport_addrs(struct model_env *e, const struct model *m)
{
	if (m->config.has_nodeport_cidrs) {
		vec_for_each (a, &m->host_addrs)
			if (!ip_addr_is_loopback(a) && nodeport_cidrs_match(&m->config, a))
				*vec_push(&e->nodeport_addrs) = *a;
		for (int fam = 0; fam < IPFAM_N && m->config.serves_localhost; fam++) {
			struct ip_addr a = ip_addr_loopback(fam);

			/* The source of its connections is the node's address. */
			if (ip_is_set(&e->node_ip[fam]) && nodeport_cidrs_match(&m->config, &a))
				*vec_push(&e->nodeport_addrs) = a;
		}
	} else {
		for (int fam = 0; fam < IPFAM_N; fam++)
			if (is_primary_known(e, m, fam))
				*vec_push(&e->nodeport_addrs) = e->node_ip[fam];
	}
	vec_sort(&e->nodeport_addrs, ip_addr_cmp);
	vec_keep(&e->nodeport_addrs, a, a == e->nodeport_addrs.v || !ip_addr_is_equal(a - 1, a));
}

/* --- prefixes --------------------------------------------------------------- */

/*
 * IN-26, IN-27: a range stays while any object or the configuration carries it. Reduced: interval
 * sets reject overlaps.
 */
static void derive_service_cidrs(struct model_env *e, const struct model *m)
{
	vec_append(&e->service_cidrs, &m->config.service_cidrs);
	vec_for_each (c, &m->service_cidrs)
		vec_append(&e->service_cidrs, &(*c)->cidrs);
	vec_cut(&e->service_cidrs, ip_prefixes_reduce(e->service_cidrs.v, e->service_cidrs.n));
	e->keeps_service_cidrs = m->are_cidrs_awaited;
}

static void add_pod_cidrs(struct model_env *e, const struct ip_prefix *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*vec_push(&e->pod_cidrs) = v[i];
		e->has_detector[ip_fam(&v[i].addr)] = true;
	}
	vec_cut(&e->pod_cidrs, ip_prefixes_reduce(e->pod_cidrs.v, e->pod_cidrs.n));
}

/* Section 6.1; every CIDR of a family counts (MASQ-03). */
static void derive_detector(struct model_env *e, const struct model *m)
{
	/* Objects are awaited, the Node may be among them. */
	bool is_unknown = m->are_cidrs_awaited && m->self == NULL;

	switch (m->config.detect_local) {
	case DETECT_LOCAL_UNSET:
		break;
	case DETECT_LOCAL_CLUSTER_CIDR:
		add_pod_cidrs(e, m->config.cluster_cidrs.v, m->config.cluster_cidrs.n);
		e->keeps_pod_cidrs = is_unknown && e->pod_cidrs.n == 0;
		break;
	case DETECT_LOCAL_NODE_CIDR:
		if (m->self != NULL)
			add_pod_cidrs(e, m->self->pod_cidrs.v, m->self->pod_cidrs.n);
		e->keeps_pod_cidrs = (is_unknown || m->is_node_awaited) && e->pod_cidrs.n == 0;
		break;
	case DETECT_LOCAL_BRIDGE:
	case DETECT_LOCAL_PREFIX:
		e->has_detector[IPFAM_V4] = true;
		e->has_detector[IPFAM_V6] = true;
		break;
	}
}

/* --- the whole ---------------------------------------------------------------- */

void env_derive(struct model_env *ret, const struct model *m)
{
	if (m->self != NULL && m->self->zone != NULL && m->self->zone->len > 0)
		ret->zone = name_ref(m->self->zone);
	for (int fam = 0; fam < IPFAM_N; fam++)
		ret->node_ip[fam] = node_ip(m, (enum ipfam)fam);
	derive_nodeport_addrs(ret, m);
	derive_detector(ret, m);
	derive_service_cidrs(ret, m);
}

void env_fini(struct model_env *e)
{
	name_unref(e->zone);
	vec_fini(&e->nodeport_addrs);
	vec_fini(&e->pod_cidrs);
	vec_fini(&e->service_cidrs);
	*e = (struct model_env){ 0 };
}

unsigned int env_diff(const struct model_env *a, const struct model_env *b)
{
	unsigned int diff = 0;

	if (a->zone != b->zone)
		diff |= ENV_CHANGE_ZONE;
	if (memcmp(a->node_ip, b->node_ip, sizeof(a->node_ip)) != 0)
		diff |= ENV_CHANGE_NODE_IP;
	if (!vec_is_equal(&a->nodeport_addrs, &b->nodeport_addrs))
		diff |= ENV_CHANGE_NODEPORT_ADDRS;
	if (memcmp(a->has_detector, b->has_detector, sizeof(a->has_detector)) != 0 ||
	    !vec_is_equal(&a->pod_cidrs, &b->pod_cidrs) ||
	    !vec_is_equal(&a->service_cidrs, &b->service_cidrs) ||
	    a->keeps_pod_cidrs != b->keeps_pod_cidrs ||
	    a->keeps_service_cidrs != b->keeps_service_cidrs)
		diff |= ENV_CHANGE_PLANE;
	return diff;
}

/* --- node ports ----------------------------------------------------------- */

#define NOT_SERVED(fam, before, after)                                              \
	((fam) == IPFAM_V6 ? "IPv6 node ports are not served: " before "IPv6" after \
			   : "IPv4 node ports are not served: " before "IPv4" after)

/* Without --nodeport-addresses. A node of one family needs no node ports of the other one. */
static const char *primary_failure(const struct model *m, enum ipfam fam)
{
	const struct ip_addr *ip = &m->env.node_ip[fam];
	bool is_bound = !ip_addr_is_any(&m->config.bind_addr[fam]);
	bool is_guess = !is_bound && (m->self == NULL || m->self->addrs.n == 0);

	if (!m->has_nodeports[fam] || is_guess)
		return NULL;
	if (!ip_is_set(ip))
		return NOT_SERVED(fam, "the Node has no ",
				  " address; --nodeport-addresses selects others");
	if (ip_addr_is_loopback(ip))
		return NOT_SERVED(fam, "the node's ", " address is a loopback address");
	if (!model_is_host_addr(m, ip) && is_bound)
		return NOT_SERVED(fam, "--bind-address is no ", " address of this host");
	if (!model_is_host_addr(m, ip))
		return NOT_SERVED(
			fam, "the Node's ",
			" address is none of this host; --nodeport-addresses selects others");
	return NULL;
}

const char *model_nodeports_failure(const struct model *m, enum ipfam fam)
{
	if (!vec_has(&m->host_addrs, a, ip_fam(a) == fam))
		return NULL;
	if (!m->config.has_nodeport_cidrs)
		return primary_failure(m, fam);
	if (vec_has(&m->env.nodeport_addrs, a, ip_fam(a) == fam))
		return NULL;
	if (!vec_has(&m->config.nodeport_cidrs, p, ip_fam(&p->addr) == fam))
		return NOT_SERVED(fam, "--nodeport-addresses has no ", " prefix");
	return NOT_SERVED(fam, "no ", " address of this node is in --nodeport-addresses");
}

bool model_serves_localhost(const struct model *m, enum ipfam fam)
{
	return vec_has(&m->env.nodeport_addrs, a, ip_fam(a) == fam && ip_addr_is_loopback(a));
}

bool model_is_client_port(const struct model *m, uint16_t port)
{
	return m->client_ports != NULL && bit_is_set(m->client_ports, port);
}

void model_client_port_put(struct model *m, uint16_t port, bool is_client)
{
	if (m->client_ports == NULL)
		m->client_ports = xcalloc(BITS_WORDS(UINT16_MAX + 1), sizeof(*m->client_ports));
	if (is_client)
		bit_set(m->client_ports, port);
	else
		bit_clear(m->client_ports, port);
}
