/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/filter - parser of filter parameters, and matching. */
#include "api/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int states_parse(uint32_t *ret, const char *text, struct err *err)
{
	while (*text != '\0') {
		size_t len = strcspn(text, ",");
		enum serve_state s = serve_state_parse(text, len);

		if (s == SERVE_STATE_UNSET)
			return err_set(err, -EINVAL, "state: there is no state '%.*s'",
				       (int)MIN(len, (size_t)64), text);
		*ret |= UINT32_C(1) << s;
		text += len;
		if (*text == ',')
			text++;
	}
	return 0;
}

static char *param_copy(const struct http_request *q, const char *name)
{
	const char *value = http_request_param(q, name);

	return value != NULL && value[0] != '\0' ? xstrdup(value) : NULL;
}

int filter_init(struct filter *ret, const struct serve_context *ctx, const struct http_request *q,
		struct err *err)
{
	const char *states = http_request_param(q, "state");

	*ret = (struct filter){ .ctx = ctx };
	ret->ns = param_copy(q, "namespace");
	ret->name = param_copy(q, "name");
	ret->text = param_copy(q, "q");
	if (ret->text != NULL)
		ret->text_state = serve_state_parse(ret->text, strlen(ret->text));
	if (ret->text != NULL && ip_addr_parse(&ret->addr, ret->text, NULL) < 0 &&
	    ip_endpoint_parse(&ret->addr, &ret->port, ret->text) < 0)
		ret->port = 0; /* neither: a part of a name, or the name of a pod */
	return states ? states_parse(&ret->states, states, err) : 0;
}

void filter_fini(struct filter *f)
{
	free(f->ns);
	free(f->name);
	free(f->text);
	serve_facts_fini(&f->scratch);
	str_fini(&f->key);
}

/* --- addresses --- */

static bool has_port(const struct filter *f, const struct service *s)
{
	if (f->port == 0)
		return true;
	vec_for_each (p, &s->ports)
		if (p->port == f->port)
			return true;
	return false;
}

static bool has_node_port(const struct filter *f, const struct service *s)
{
	vec_for_each (p, &s->ports)
		if (p->node_port != 0 && (f->port == 0 || p->node_port == f->port))
			return true;
	return false;
}

/* Addresses of the object, programmed or not. */
static bool object_has_addr(const struct filter *f, const struct service *s)
{
	bool is_vip = ip_addr_is_equal(&s->cluster_ip[ip_fam(&f->addr)], &f->addr);

	vec_for_each (in, &s->ingress)
		is_vip |= ip_addr_is_equal(&in->addr, &f->addr);
	vec_for_each (a, &s->external_ips)
		is_vip |= ip_addr_is_equal(a, &f->addr);
	if (is_vip && has_port(f, s))
		return true;
	vec_for_each (a, &f->ctx->model->env.nodeport_addrs)
		if (ip_addr_is_equal(a, &f->addr))
			return has_node_port(f, s);
	return false;
}

static bool rows_have_addr(const struct filter *f, const struct plan_rows *rows)
{
	vec_for_each (fe, &rows->frontends)
		if (ip_addr_is_equal(&fe->addr, &f->addr) && (f->port == 0 || fe->port == f->port))
			return true;
	return false;
}

static bool slice_has_port(const struct filter *f, const struct slice *sl)
{
	if (f->port == 0)
		return true;
	vec_for_each (p, &sl->ports)
		if (p->port == f->port)
			return true;
	return false;
}

static bool slice_has_addr(const struct filter *f, const struct slice *sl)
{
	if (sl->fam != ip_fam(&f->addr) || !slice_has_port(f, sl))
		return false;
	vec_for_each (ep, &sl->endpoints)
		if (ip_addr_is_equal(&ep->addr, &f->addr))
			return true;
	return false;
}

static bool slice_has_pod(const struct filter *f, const struct slice *sl)
{
	vec_for_each (ep, &sl->endpoints)
		if (ep->pod != NULL && strcmp(ep->pod, f->text) == 0)
			return true;
	return false;
}

static bool slices_match(const struct filter *f, const struct svc *svc)
{
	list_for_each (l, &svc->slices) {
		const struct slice *sl = list_entry(l, struct slice_entry, link)->slice;

		if (ip_is_set(&f->addr) ? slice_has_addr(f, sl) : slice_has_pod(f, sl))
			return true;
	}
	return false;
}

static bool text_matches(struct filter *f, const struct svc *svc)
{
	if (ip_is_set(&f->addr)) {
		if ((svc->service != NULL && object_has_addr(f, svc->service)) ||
		    (svc->rows != NULL && rows_have_addr(f, svc->rows)))
			return true;
	} else {
		str_clear(&f->key);
		str_add(&f->key, svc->ns->text, svc->ns->len);
		str_add(&f->key, "/", 1);
		str_add(&f->key, svc->name->text, svc->name->len);
		if (strstr(f->key.text, f->text) != NULL)
			return true;
	}
	if (f->text_state != SERVE_STATE_UNSET) {
		serve_facts_get(&f->scratch, f->ctx, svc);
		if (f->scratch.state == f->text_state)
			return true;
	}
	return slices_match(f, svc);
}

bool filter_matches(struct filter *f, const struct svc *svc)
{
	if (f->ns != NULL && strcmp(f->ns, svc->ns->text) != 0)
		return false;
	if (f->name != NULL && strcmp(f->name, svc->name->text) != 0)
		return false;
	if (f->text != NULL && !text_matches(f, svc))
		return false;
	if (f->states == 0)
		return true;
	serve_facts_get(&f->scratch, f->ctx, svc);
	return (f->states >> f->scratch.state) & 1;
}
