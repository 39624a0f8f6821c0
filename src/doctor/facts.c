/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/facts.h"

#include <stdlib.h>

void facts_init(struct facts *f)
{
	*f = (struct facts){
		.n_default_routes = FACT_UNKNOWN,
		.nofile_hard = FACT_UNKNOWN,
		.memory_max = FACT_UNKNOWN,
		.memory_used = FACT_UNKNOWN,
		.ipvs_plane = { .table_size = FACT_UNKNOWN, .n_conns = FACT_UNKNOWN },
	};
	for (size_t i = 0; i < IPVS_SYSCTLS_FIXED; i++)
		f->ipvs_plane.sysctls[i] = FACT_UNKNOWN;
}

void fact_table_clear(struct fact_table *t)
{
	free(t->hook.chain);
	t->hook = (struct fact_hook){ 0 };
	vec_for_each (i, &t->filters)
		free(i->chain);
	vec_fini(&t->filters);
}

void facts_fini(struct facts *f)
{
	vec_for_each (t, &f->tables) {
		fact_table_clear(t);
		free(t->name);
		free(t->mention_chain);
	}
	vec_fini(&f->tables);
	vec_fini(&f->proxies.v);
	links_fini(&f->net);
	vec_fini(&f->listeners);
	vec_fini(&f->ipvs);
	vec_free_all(&f->ipvs_plane.missing);
	vec_free_all(&f->ipvs_plane.hard);
	vec_free_all(&f->ipvs_plane.soft);
	vec_fini(&f->ours.frontends);
	vec_fini(&f->ours.cluster_ips);
	vec_fini(&f->ours.endpoints);
}

void ours_sort(struct fact_ours *o)
{
	vec_sort(&o->frontends, ip_tuple_cmp);
	vec_sort(&o->cluster_ips, ip_addr_cmp);
	vec_sort(&o->endpoints, ip_addr_cmp);
}
