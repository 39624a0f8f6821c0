/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/drain - a list, searched for each endpoint of a service that is in it. */
#include "model/drain.h"

#include <errno.h>
#include <string.h>

/* An unknown pod, of the drain or of the endpoint, is the same one. */
static struct model_drain *drain_find(const struct model *m, const struct name *ns,
				      const struct name *name, const struct ip_addr *addr,
				      const char *pod)
{
	return vec_find(&m->drains, d,
			d->ns == ns && d->name == name && ip_addr_is_equal(&d->addr, addr) &&
				(d->pod == NULL || pod == NULL || strcmp(d->pod, pod) == 0));
}

static void drain_fini(struct model_drain *d)
{
	name_pair_unref(d->ns, d->name);
	free(d->pod);
}

void model_mark_named(struct model *m, const struct name *ns, const struct name *name,
		      uint64_t at_ns)
{
	struct svc *svc = model_find(m, ns, name);

	if (svc != NULL && service_is_proxied(svc->service))
		model_mark_dirty(m, svc, at_ns);
}

int model_drain(struct model *m, const struct name *ns, const struct name *name,
		const struct ip_addr *addr, const char *pod, uint64_t at_ns)
{
	if (drain_find(m, ns, name, addr, pod) != NULL)
		return 0;
	if (m->drains.n == MODEL_DRAINS_MAX)
		return -ENOSPC;
	*vec_push(&m->drains) = (struct model_drain){
		.ns = name_ref(ns),
		.name = name_ref(name),
		.addr = *addr,
		.pod = pod != NULL ? xstrdup(pod) : NULL,
	};
	model_mark_named(m, ns, name, at_ns);
	return 1;
}

int model_undrain(struct model *m, const struct name *ns, const struct name *name,
		  const struct ip_addr *addr, const char *pod, uint64_t at_ns)
{
	struct model_drain *d = drain_find(m, ns, name, addr, pod);

	if (d == NULL)
		return 0;
	model_mark_named(m, ns, name, at_ns);
	drain_fini(d);
	vec_keep(&m->drains, other, other != d);
	return 1;
}

bool model_has_drains(const struct model *m, const struct svc *svc)
{
	return vec_has(&m->drains, d, d->ns == svc->ns && d->name == svc->name);
}

bool model_is_drained(const struct model *m, const struct svc *svc, const struct slice_endpoint *e)
{
	return drain_find(m, svc->ns, svc->name, &e->addr, e->pod) != NULL;
}

void model_drains_fini(struct model *m)
{
	vec_for_each (d, &m->drains)
		drain_fini(d);
	vec_fini(&m->drains);
}
