/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/show - print answers of vipd as text for people.
 *
 * Pure: equal answers and styles give equal text; tests/golden/ctl has examples.
 */
#pragma once

#include <jansson.h>

#include "ctl/table.h"

/* /v1/status */
void show_status(struct str *out, const json_t *status, const struct style *style);
/* Is vipd healthy, without pending changes and problems? The exit code of `vipctl status`. */
bool status_is_well(const json_t *status);
/* /v1/services: one line per service port. */
void show_services(struct str *out, const json_t *answer, const struct style *style);
/* /v1/services/NAMESPACE/NAME: a page; "counts", its item of /v1/counts, may be added. */
void show_service(struct str *out, const json_t *page, const struct style *style);
/*
 * /v1/trace. `about`: a pod, an address, or an address and port: show only that
 * endpoint; NULL: all.
 */
void show_trace(struct str *out, const json_t *trace, const struct style *style, const char *about);
/* Does the trace end at an endpoint? The exit code of `vipctl trace`. */
bool trace_is_balanced(const json_t *trace);
/* /v1/drains */
void show_taken_out(struct str *out, const json_t *answer, const struct style *style);
void show_doctor(struct str *out, const json_t *answer, const struct style *style);
void show_log(struct str *out, const json_t *answer, const struct style *style);
/* A line of /v1/monitor. */
void show_event(struct str *out, const json_t *event, const struct style *style);
