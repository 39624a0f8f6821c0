/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/view_trace - the steps of a trace, one sentence each.
 *
 * Steps without influence on the result are omitted.
 */
#include "api/view.h"

#define OTHERS_NAMED 3 /* in a sentence */
#define RANGES_SHOWN 4

static void step(struct jsonw *w, const char *name, const struct str *text)
{
	jsonw_object(w, NULL);
	jsonw_text(w, "step", name);
	jsonw_text(w, "text", str_text(text));
	jsonw_end(w);
}

/* "a/b, c/d and 7 more" of one relation. */
static void put_others(struct str *out, const struct plan_trace *t,
		       enum plan_trace_relation relation)
{
	size_t n = 0;

	vec_for_each (o, &t->others)
		if (o->relation == relation && n++ < OTHERS_NAMED)
			str_printf(out, "%s%s/%s", n > 1 ? ", " : "", o->ns->text, o->name->text);
	n = t->n_others[relation];
	if (n > OTHERS_NAMED)
		str_printf(out, " and %zu more", n - OTHERS_NAMED);
}

/* --- source --- */

static void put_pod(struct str *out, const struct plan_trace *t)
{
	if (t->pod == NULL)
		return;
	str_printf(out, ", %s", t->pod);
	if (t->pod_node != NULL)
		str_printf(out, " on %s", t->pod_node->text);
}

static void put_how(struct str *out, const struct serve_context *ctx, const struct plan_trace *t)
{
	const struct model *m = ctx->model;

	if (t->is_host) {
		if (t->is_assumed)
			str_puts(out, ": the Node's address is assumed; the kernel's route to the "
				      "destination selects the source");
		return;
	}
	if (!m->env.has_detector[ip_fam(&t->query.dst)]) {
		str_puts(out, ": detect-local is not configured: pods count as outside clients");
	} else if (t->is_assumed) {
		str_printf(out, ": detect-local uses interface %s%s; %s", m->config.detect_ifname,
			   m->config.detect_local == DETECT_LOCAL_PREFIX ? "..." : "",
			   t->is_pod_of_this_node ? "an endpoint of this node has the address"
			   : t->is_pod            ? "the address is in this node's pod CIDRs"
						  : "no pod of this node has the address");
	} else {
		str_printf(out, ": %s the pods' CIDRs", t->is_pod ? "in" : "not in");
	}
}

static void step_source(struct jsonw *w, const struct serve_context *ctx,
			const struct plan_trace *t)
{
	FINI(str_fini) struct str out = { 0 };

	if (ip_is_set(&t->query.src))
		str_printf(&out, "%s is ", ip_addr_str(&t->query.src));
	str_puts(&out, t->is_host ? "this host" : t->is_pod ? "a pod" : "an outside client");
	put_pod(&out, t);
	put_how(&out, ctx, t);
	step(w, "source", &out);
}

/* A node port of this node is translated here, whatever the client. */
static void step_node(struct jsonw *w, const struct serve_context *ctx, const struct plan_trace *t)
{
	const struct name *self = ctx->model->config.node_name;
	FINI(str_fini) struct str out = { 0 };

	if (self == NULL || self->len == 0 || t->pod_node == NULL || t->is_pod_of_this_node ||
	    t->is_host || t->verdict == PLAN_VERDICT_UNSET ||
	    t->frontend.kind == PLAN_FRONTEND_NODEPORT)
		return;
	str_printf(&out,
		   "the pod is on %s: its connections to this address are handled there; run "
		   "vipctl on %s",
		   t->pod_node->text, t->pod_node->text);
	step(w, "node", &out);
}

/* --- frontend --- */

static void put_node_addrs(struct str *out, const struct serve_context *ctx, enum ipfam fam)
{
	size_t n = 0;

	vec_for_each (a, &ctx->model->env.nodeport_addrs)
		if (ip_fam(a) == fam)
			str_printf(out, "%s%s", n++ ? ", " : "", ip_addr_str(a));
	if (n == 0)
		str_puts(out, "no address of this family");
}

/* Reasons for a verdict. */
static const struct {
	const char *word;
	/* If no frontend matches, the sentence "ADDRESS is ...". */
	const char *text;
	enum plan_trace_relation named; /* services to name behind it; CLAIMS: none */
	const char *rest;
} whys[] = {
	[PLAN_TRACE_WHY_UNSET] = { "-" },
	[PLAN_TRACE_WHY_POOL] = { "pool" },
	[PLAN_TRACE_WHY_NO_ENDPOINT] = { "no-endpoint" },
	[PLAN_TRACE_WHY_INTERNAL_POLICY] = { "internal-policy" },
	[PLAN_TRACE_WHY_EXTERNAL_POLICY] = { "external-policy" },
	[PLAN_TRACE_WHY_RANGES] = { "source-ranges" },
	[PLAN_TRACE_WHY_OTHER_PORT] = { "unknown-port", "an unknown port of the cluster IP of ",
					PLAN_TRACE_HAS_CLUSTER_IP, "" },
	[PLAN_TRACE_WHY_UNALLOCATED] = { "unallocated-cluster-ip", "in service CIDR ", 0,
					 ", but no service has this cluster IP" },
	[PLAN_TRACE_WHY_NOT_CAPTURED] = { "ipmode-proxy", "ipMode Proxy, not captured: address of ",
					  PLAN_TRACE_NOT_CAPTURED, "" },
	[PLAN_TRACE_WHY_EXTERNAL_OFF] = { "external-ips-off",
					  "external IPs are not served here: address of ",
					  PLAN_TRACE_EXTERNAL_OFF, "" },
	[PLAN_TRACE_WHY_NOT_PROXIED] = { "not-proxied", "of a service that is not proxied here: ",
					 PLAN_TRACE_NOT_PROXIED, "" },
	[PLAN_TRACE_WHY_VIP_OTHER_PORT] = { "unknown-port-of-external-address", "an address of ",
					    PLAN_TRACE_HAS_ADDRESS,
					    ", but not this port and protocol: passed on, or "
					    "dropped where the route leads back to the sender's "
					    "interface" },
	[PLAN_TRACE_WHY_NODE_PORT_ELSEWHERE] = { "node-port-on-other-addresses",
						 "the node port of ", PLAN_TRACE_HAS_NODE_PORT,
						 ", but node ports are served at " },
	[PLAN_TRACE_WHY_NO_NODE_PORT] = { "no-node-port",
					  "an address of this host, and no service's node port", 0,
					  "" },
	[PLAN_TRACE_WHY_ENDPOINT] = { "endpoint-address", "the address of an endpoint", 0,
				      "; vipd does not change the packet" },
	[PLAN_TRACE_WHY_UNKNOWN] = { "unknown-address", "no service's address", 0, "" },
};

/* The reason why no frontend matches. */
static void put_none(struct str *out, const struct serve_context *ctx, const struct plan_trace *t)
{
	str_puts(out, whys[t->why].text);
	if (whys[t->why].named != PLAN_TRACE_CLAIMS)
		put_others(out, t, whys[t->why].named);
	else if (t->why == PLAN_TRACE_WHY_UNALLOCATED)
		str_puts(out, ip_prefix_str(&t->service_cidr));
	else if (t->why == PLAN_TRACE_WHY_ENDPOINT && t->dst_pod != NULL)
		str_printf(out, ", %s", t->dst_pod);
	str_puts(out, whys[t->why].rest);
	if (t->why == PLAN_TRACE_WHY_NODE_PORT_ELSEWHERE)
		put_node_addrs(out, ctx, ip_fam(&t->query.dst));
	if (t->why == PLAN_TRACE_WHY_UNALLOCATED && t->n_others[PLAN_TRACE_NOT_PROXIED] > 0) {
		str_puts(out, "; not proxied: ");
		put_others(out, t, PLAN_TRACE_NOT_PROXIED);
	}
}

static void step_frontend(struct jsonw *w, const struct serve_context *ctx,
			  const struct plan_trace *t)
{
	FINI(str_fini) struct str out = { 0 };

	str_printf(&out, "%s/%s is ", ip_endpoint_str(&t->query.dst, t->query.port),
		   l4proto_text(t->query.proto));
	if (t->ns != NULL) {
		str_printf(&out, "%s of %s/%s", plan_frontend_kind_text(t->frontend.kind),
			   t->ns->text, t->name->text);
		if (t->port_name->len > 0)
			str_printf(&out, ", port %s", t->port_name->text);
	} else {
		put_none(&out, ctx, t);
	}
	step(w, "frontend", &out);
	str_clear(&out);
	if (t->n_others[PLAN_TRACE_CLAIMS] > 0) {
		str_puts(&out, "also claimed by ");
		put_others(&out, t, PLAN_TRACE_CLAIMS);
		str_puts(&out, ": precedence by kind of address, then by age of the service");
		step(w, "conflict", &out);
	}
}

/* --- ranges, policy, pool --- */

static void step_ranges(struct jsonw *w, const struct plan_trace *t)
{
	FINI(str_fini) struct str out = { 0 };

	if (!t->frontend.is_guarded)
		return;
	if (ip_is_set(&t->range.addr)) {
		str_printf(&out, "allowed by %s", ip_prefix_str(&t->range));
	} else if (t->ranges.n == 0) {
		str_puts(&out, "dropped: no valid source range of this family");
	} else {
		str_puts(&out, "dropped: in none of ");
		for (size_t i = 0; i < MIN(t->ranges.n, (size_t)RANGES_SHOWN); i++)
			str_printf(&out, "%s%s", i ? ", " : "", ip_prefix_str(&t->ranges.v[i]));
		if (t->ranges.n > RANGES_SHOWN)
			str_printf(&out, " and %u more", t->ranges.n - RANGES_SHOWN);
	}
	step(w, "source ranges", &out);
}

static void step_policy(struct jsonw *w, const struct plan_trace *t)
{
	bool is_internal = t->frontend.kind == PLAN_FRONTEND_CLUSTERIP;
	FINI(str_fini) struct str out = { 0 };

	str_puts(&out, is_internal ? "internal " : "external ");
	if (t->is_inside)
		str_puts(&out, "Local, but pods and this host count as inside: all endpoints");
	else if (t->scope == PLAN_SCOPE_LOCAL)
		str_puts(&out, "Local: endpoints of this node only");
	else
		str_puts(&out, "Cluster: all endpoints");
	step(w, "policy", &out);
}

static void put_balancing(struct str *out, const struct plan_trace *t)
{
	const char *scheduler = t->balancing.scheduler;

	if (*scheduler == '\0') {
		if (t->balancing.balance == PLAN_BALANCE_BY_WEIGHT)
			str_puts(out, ", at random by weight");
		else if (t->n_used > 1)
			str_printf(out, ", each with probability 1/%zu", t->n_used);
		return;
	}
	switch ((enum plan_balance)t->balancing.balance) {
	case PLAN_BALANCE_EVENLY:
		str_puts(out, t->balancing.is_by_client ? " by a hash of the client" : " in turns");
		break;
	case PLAN_BALANCE_BY_WEIGHT:
		str_puts(out, t->balancing.is_by_client ? " by weight and client address"
							: " in turns, by weight");
		break;
	case PLAN_BALANCE_UNKNOWN:
		str_puts(out, ", chosen by active connections");
		break;
	}
	str_printf(out, " (scheduler %s)", scheduler);
	if (t->is_predicted)
		str_printf(out, ", this client's is %s",
			   ip_endpoint_str(&t->predicted.addr, t->predicted.port));
}

static void put_pool(struct str *out, const struct plan_trace *t)
{
	if (t->pool_id != 0)
		str_printf(out, "pool %u: ", t->pool_id);
	str_printf(out, "%zu endpoint%s", t->n_used, t->n_used == 1 ? "" : "s");
	put_balancing(out, t);
	if (t->topology != TOPOLOGY_OFF)
		str_printf(out, "; those hinted for the %s only", topology_text(t->topology));
	if (t->is_fallback)
		str_puts(out, "; terminating endpoints, because none is ready");
	if (t->balancing.affinity_s != 0)
		str_printf(out, "; session affinity for %u s", t->balancing.affinity_s);
}

static void step_pool(struct jsonw *w, const struct plan_trace *t)
{
	FINI(str_fini) struct str out = { 0 };

	switch ((enum plan_verdict)(t->frontend.is_split && t->is_inside
					    ? t->frontend.inside.verdict
					    : t->frontend.target.verdict)) {
	case PLAN_VERDICT_UNSET:
		break;
	case PLAN_VERDICT_POOL:
		put_pool(&out, t);
		break;
	case PLAN_VERDICT_REJECT:
		str_puts(&out, "no usable endpoint in the cluster: rejected");
		break;
	case PLAN_VERDICT_DROP:
		str_puts(&out, "no usable endpoint on this node, only on others: dropped");
		break;
	}
	step(w, "pool", &out);
}

/* --- masquerading, kernel --- */

static const char *const masq_words[] = {
	[PLAN_TRACE_MASQ_NONE_POD] = "no: the source of a pod to a cluster IP is preserved",
	[PLAN_TRACE_MASQ_NONE_DETECTOR] = "no: to a cluster IP, and detect-local is not configured",
	[PLAN_TRACE_MASQ_NONE_LOCAL] = "no: external policy Local preserves the source",
	[PLAN_TRACE_MASQ_NONE_DIRECT] = "no: the endpoint answers the client directly",
	[PLAN_TRACE_MASQ_ALL] = "yes: --masquerade-all, to a cluster IP",
	[PLAN_TRACE_MASQ_NOT_POD] = "yes: to a cluster IP, and not a pod by detect-local",
	[PLAN_TRACE_MASQ_EXTERNAL] =
		"yes: external policy Cluster, so that replies return through this node",
	[PLAN_TRACE_MASQ_REMOTE] =
		"only to endpoints on other nodes: --preserve-local-source, external policy Cluster",
	[PLAN_TRACE_MASQ_HOST] = "yes: this host to an external address with policy Local",
};

static void step_masq(struct jsonw *w, const struct plan_trace *t)
{
	FINI(str_fini) struct str out = { 0 };

	str_puts(&out, masq_words[t->masq]);
	if (t->masq < PLAN_TRACE_MASQ_ALL) {
		if (vec_has(&t->endpoints, ep,
			    ep->why == NULL && ip_addr_is_equal(&ep->from->addr, &t->query.src)))
			str_puts(&out, "; yes if the pod reaches itself");
	} else if (!plan_trace_masquerades(t)) {
		str_clear(&out);
		str_puts(&out, "no: delivered to this host, without postrouting");
	} else if (vec_has(&t->endpoints, ep, ep->why == NULL && !ep->is_masqueraded)) {
		str_puts(&out, "; no to endpoints with an address of this host");
	}
	step(w, "masqueraded", &out);
}

static const char *const programmed_words[] = {
	[PLAN_TRACE_PROGRAMMED_SAME] = "same",
	[PLAN_TRACE_PROGRAMMED_NOT] = "absent",
	[PLAN_TRACE_PROGRAMMED_OTHER] = "different",
};

/* An orphaned frontend is in force until the sweep, whatever the objects say. */
static bool has_orphaned_frontend(const struct serve_context *ctx, const struct plan_trace *t)
{
	const struct plan_frontend key = { .addr = t->query.dst,
					   .port = t->query.port,
					   .proto = t->query.proto };

	return (t->ns == NULL || t->programmed == PLAN_TRACE_PROGRAMMED_NOT) &&
	       sync_is_sweep_pending(ctx->sync) && ctx->plane->ops->is_orphaned(ctx->plane, &key);
}

static void step_kernel(struct jsonw *w, const struct serve_context *ctx,
			const struct plan_trace *t, bool has_orphan)
{
	static const char *const texts[] = { "programmed as above", "frontend not programmed",
					     "another verdict or other endpoints programmed" };
	const struct svc *svc = t->ns != NULL ? model_find(ctx->model, t->ns, t->name) : NULL;
	const struct sync_failure *failure = svc != NULL ? sync_failure_find(ctx->sync, svc) : NULL;
	FINI(str_fini) struct str out = { 0 };

	str_puts(&out, has_orphan
			       ? "orphaned frontend of an earlier process in force; sweep pending"
			       : texts[t->programmed]);
	if (failure != NULL)
		str_printf(&out, "; service rejected by the kernel: %s", failure->text);
	else if (!has_orphan && t->programmed != PLAN_TRACE_PROGRAMMED_SAME)
		str_puts(&out, "; change pending");
	step(w, "kernel", &out);
}

/* --- members --- */

static void view_source(struct jsonw *w, const struct plan_trace *t)
{
	jsonw_object(w, "source");
	jsonw_addr(w, "address", &t->query.src);
	jsonw_text(w, "is", t->is_host ? "host" : t->is_pod ? "pod" : "outside");
	jsonw_bool(w, "assumed", t->is_assumed);
	jsonw_text(w, "pod", t->pod);
	jsonw_name(w, "node", t->pod_node);
	jsonw_end(w);
	jsonw_object(w, "destination");
	jsonw_frontend(w, &t->query.dst, t->query.port, t->query.proto);
	jsonw_end(w);
}

static void view_others(struct jsonw *w, const struct plan_trace *t)
{
	static const char *const relations[] = {
		[PLAN_TRACE_CLAIMS] = "claims",
		[PLAN_TRACE_NOT_CAPTURED] = "ipmode-proxy",
		[PLAN_TRACE_EXTERNAL_OFF] = "external-ips-off",
		[PLAN_TRACE_NOT_PROXIED] = "not-proxied",
		[PLAN_TRACE_HAS_ADDRESS] = "has-address",
		[PLAN_TRACE_HAS_NODE_PORT] = "has-node-port",
		[PLAN_TRACE_HAS_CLUSTER_IP] = "has-address",
	};

	jsonw_array(w, "others");
	for (size_t i = 0; i < MIN(t->others.n, (size_t)PLAN_TRACE_OTHERS_MAX); i++) {
		const struct plan_trace_other *o = &t->others.v[i];

		jsonw_object(w, NULL);
		jsonw_names(w, o->ns, o->name);
		jsonw_text(w, "relation", relations[o->relation]);
		jsonw_text(w, "kind", plan_frontend_kind_text(o->kind));
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void view_service(struct jsonw *w, const struct plan_trace *t, bool has_orphan)
{
	if (!jsonw_object_if(w, "service", t->ns != NULL))
		return;
	jsonw_names(w, t->ns, t->name);
	jsonw_name(w, "port_name", t->port_name);
	jsonw_uint(w, "port", t->service_port);
	jsonw_text(w, "kind", plan_frontend_kind_text(t->frontend.kind));
	jsonw_bool(w, "has_source_ranges", t->frontend.is_guarded);
	jsonw_bool(w, "split", t->frontend.is_split);
	jsonw_bool(w, "inside", t->is_inside);
	jsonw_text(w, "scope", plan_scope_text(t->scope));
	jsonw_uint_if(w, "pool", t->pool_id != 0, t->pool_id);
	jsonw_text(w, "topology", topology_text(t->topology));
	jsonw_uint(w, "affinity_s", t->balancing.affinity_s);
	if (t->balancing.scheduler[0] != '\0')
		jsonw_text(w, "scheduler", t->balancing.scheduler);
	jsonw_bool(w, "masqueraded", plan_trace_masquerades(t));
	jsonw_text(w, "kernel",
		   programmed_words[has_orphan ? PLAN_TRACE_PROGRAMMED_OTHER : t->programmed]);
	jsonw_uint(w, "used_endpoints", t->n_used);
	jsonw_end(w);
}

void view_trace(struct jsonw *w, const struct serve_context *ctx, const struct plan_trace *t)
{
	bool has_orphan = has_orphaned_frontend(ctx, t);

	jsonw_text(w, "verdict",
		   t->verdict == PLAN_VERDICT_UNSET ? "untouched" : plan_verdict_text(t->verdict));
	jsonw_text(w, "reason", whys[t->why].word);
	jsonw_bool(w, "orphaned", has_orphan);
	view_source(w, t);
	view_service(w, t, has_orphan);
	jsonw_array(w, "steps");
	step_node(w, ctx, t);
	step_source(w, ctx, t);
	step_frontend(w, ctx, t);
	if (t->ns != NULL) {
		step_ranges(w, t);
		if (t->why != PLAN_TRACE_WHY_RANGES) {
			step_policy(w, t);
			step_pool(w, t);
		}
		if (t->verdict == PLAN_VERDICT_POOL)
			step_masq(w, t);
	}
	if (t->ns != NULL || has_orphan)
		step_kernel(w, ctx, t, has_orphan);
	jsonw_end(w);
	view_others(w, t);
}

void view_trace_endpoint(struct jsonw *w, const struct serve_context *ctx,
			 const struct plan_trace *t, const struct plan_trace_endpoint *ep)
{
	bool is_used = ep->why == NULL && t->verdict == PLAN_VERDICT_POOL;

	jsonw_object(w, NULL);
	jsonw_addr(w, "address", &ep->from->addr);
	jsonw_uint_if(w, "port", ep->port != 0, ep->port);
	view_endpoint_state(w, ep->from, ep->is_local);
	jsonw_bool(w, "used", is_used);
	jsonw_share(w, "probability", is_used ? plan_trace_share(t, ep) : 0.0);
	if (is_used &&
	    (t->balancing.balance == PLAN_BALANCE_BY_WEIGHT || t->balancing.scheduler[0] != '\0'))
		jsonw_uint(w, "weight", ep->weight);
	jsonw_bool(w, "masqueraded", is_used && ep->is_masqueraded);
	if (ep->exclusion == EXCLUSION_EJECTED)
		view_reason(w, ctx->model, t->ns, t->name, &ep->from->addr, ep->port, ep->exclusion,
			    now_ns());
	else
		jsonw_text(w, "reason",
			   ep->why != NULL || is_used ? ep->why
						      : "client not in the source ranges");
	view_silence(w, ctx, &ep->from->addr, ep->port, t->query.proto);
	jsonw_end(w);
}
