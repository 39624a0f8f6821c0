/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/run - read facts, test features, check. */
#include "doctor/check.h"

#include <string.h>

#include "doctor/checks.h"
#include "doctor/facts.h"
#include "doctor/try.h"

void check_run(struct check_report *ret, const struct check_env *env)
{
	AUTO(free) struct facts *f = xmalloc(sizeof(*f)); /* too large for the stack */

	facts_init(f);
	*ret = (struct check_report){ 0 };
	f->ipvs_plane.is_selected = env->plane != NULL && strcmp(env->plane, "ipvs") == 0;
	read_links(f);
	read_tables(f);
	if (env->plane == NULL)
		f->ipvs_plane.is_selected = f->ipvs_plane.is_in_force && !f->ipvs_plane.has_other;
	read_files(f, env->root);
	read_ipvs(f, env->root);
	read_self(f, env->root, env->clock_offset_ns);
	try_kernel(&f->trial, f->ipvs_plane.is_selected);
	check_all(ret, f);
	facts_fini(f);
}
