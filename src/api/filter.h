/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/filter - selection of services by request parameters.
 *
 * Parameters: "namespace", "name" (exact), "state" (a list of states, separated by
 * commas) and "q", a search text: a part of NAMESPACE/NAME, the name of a pod, a state,
 * or an address with or without a port, of a frontend or of an endpoint.
 */
#pragma once

#include "http/http.h"
#include "state/state.h"

struct filter {
	const struct serve_context *ctx;
	char *ns;
	char *name;
	char *text;
	struct ip_addr addr;         /* set: `text` is an address, or an address and a port */
	uint16_t port;               /* 0 = any */
	uint32_t states;             /* bits of enum serve_state; 0 = all */
	enum serve_state text_state; /* state named by `text`; UNSET: none */
	struct serve_facts scratch;
	struct str key;
};

/* -EINVAL: `err` names the parameter. `ret` is initialised in any case. */
MUST_USE int filter_init(struct filter *ret, const struct serve_context *ctx,
			 const struct http_request *q, struct err *err);
void filter_fini(struct filter *f);
bool filter_matches(struct filter *f, const struct svc *svc);
