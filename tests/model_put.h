/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/model_put - model_put() and model_del() of one kind, for tests and benchmarks. */
#pragma once

#include "model/select.h"

static inline int model_put_and_close(struct model *m, struct object o, uint64_t at_ns)
{
	int r = model_put(m, &o, at_ns);

	object_fini(&o);
	return r;
}

static inline int model_put_service(struct model *m, struct service *s, uint64_t at_ns)
{
	return model_put_and_close(m, (struct object){ OBJECT_KIND_SERVICE, .service = s }, at_ns);
}

static inline int model_put_slice(struct model *m, struct slice *s, uint64_t at_ns)
{
	return model_put_and_close(m, (struct object){ OBJECT_KIND_SLICE, .slice = s }, at_ns);
}

static inline int model_put_node(struct model *m, struct node *n, uint64_t at_ns)
{
	return model_put_and_close(m, (struct object){ OBJECT_KIND_NODE, .node = n }, at_ns);
}

static inline int model_put_service_cidr(struct model *m, struct service_cidr *c, uint64_t at_ns)
{
	return model_put_and_close(m, (struct object){ OBJECT_KIND_SERVICE_CIDR, .cidr = c },
				   at_ns);
}

static inline int model_del_service(struct model *m, const struct name *ns, const struct name *name,
				    uint64_t at_ns)
{
	return model_del(m, OBJECT_KIND_SERVICE, ns, name, at_ns);
}

static inline int model_del_slice(struct model *m, const struct name *ns, const struct name *name,
				  uint64_t at_ns)
{
	return model_del(m, OBJECT_KIND_SLICE, ns, name, at_ns);
}

static inline int model_del_service_cidr(struct model *m, const struct name *name, uint64_t at_ns)
{
	return model_del(m, OBJECT_KIND_SERVICE_CIDR, NULL, name, at_ns);
}

/* The result of local_ready_step() in one step. */
static inline size_t service_local_ready(const struct model *m, const struct svc *svc,
					 enum ipfam fam)
{
	AUTO(vec_fini) struct local_ready l = { 0 };

	(void)local_ready_step(&l, m, svc, fam, SIZE_MAX);
	return l.v.n;
}
