/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/remark - annotations of a Service (model/tuning.h) that are not in force, for people. */
#pragma once

#include "plane/plane.h"

/* Append "ANNOTATION: WHY: INSTEAD" to `out`, which may be NULL. */
void plane_remark_add(struct str *out, const char *annotation, const char *why,
		      const char *instead);
/* The scheduler's annotation: WHY and INSTEAD as above. */
void plane_remark_scheduler(struct str *out, const struct service_tuning *t, const char *why,
			    const char *instead);
/* Append what is wrong with vipd.io/weights. */
void plane_remark_weights(struct str *out, const struct service_tuning *t);
/* Append why vipd.io/forwarding is not in force at some external address. */
void plane_remark_forwarding(struct str *out, const struct svc *svc, bool has_forwarding);
/* Log the remark on a service with new acknowledged rows, unless it was logged before. */
void plane_remark_log(const struct plane *p, struct svc *svc);
