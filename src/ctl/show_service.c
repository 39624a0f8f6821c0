/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/show_service - `vipctl svc NAME`: frontends, pools, ports and endpoints of a service.
 *
 * Frontends and pools are programmed state; ports and endpoints come from the objects, each
 * endpoint with its slot in the kernel or the reason why it has none.
 */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

#define LABEL_WIDTH 18

static void label(struct str *out, const char *text)
{
	str_printf(out, "  %-*s", LABEL_WIDTH, text);
}

/* --- head --- */

static void kernel_state(struct str *out, const json_t *page, const struct style *style)
{
	const json_t *rejected = value_get(page, "rejected");

	if (value_has(page, "rejected")) {
		label(out, "kernel");
		mark_puts(out, style, MARK_BAD, "rejected");
		str_printf(out, ": %s (", value_text(rejected, "text"));
		say_count(out, value_int(rejected, "attempts"), "attempt, next in ",
			  "attempts, next in ");
		say_ms(out, value_int(rejected, "retry_ms"));
		str_puts(out, value_bool(page, "programmed") ? "); previous rules stay\n"
							     : "); not programmed\n");
	} else if (value_bool(page, "pending")) {
		label(out, "kernel");
		mark_puts(out, style, MARK_ATTENTION, "pending");
		if (value_has(page, "pending_ms")) {
			str_puts(out, " for ");
			say_ms(out, value_int(page, "pending_ms"));
		}
		str_printf(out, ": %s\n", value_text(page, "note"));
	} else if (value_has(page, "note")) {
		label(out, "note");
		str_printf(out, "%s\n", value_text(page, "note"));
	}
}

static void policies(struct str *out, const json_t *page)
{
	bool is_itp_local = strcmp(value_text(page, "internal_policy"), "Local") == 0;
	bool is_etp_local = strcmp(value_text(page, "external_policy"), "Local") == 0;

	label(out, "internal policy");
	str_puts(out, is_itp_local ? "Local: the cluster IP uses endpoints of this node only\n"
				   : "Cluster\n");
	label(out, "external policy");
	str_puts(out, is_etp_local ? "Local: outside clients use endpoints of this node only\n"
				   : "Cluster\n");
}

static void addresses(struct str *out, const json_t *page)
{
	const json_t *ingress = value_get(page, "ingress");
	bool has_any = false;

	if (json_array_size(value_get(page, "source_ranges")) > 0 ||
	    value_int(page, "invalid_source_ranges") > 0) {
		label(out, "source ranges");
		value_join(out, value_get(page, "source_ranges"), " ");
		if (value_int(page, "invalid_source_ranges") > 0)
			str_printf(out, " (and %" JSON_INTEGER_FORMAT " invalid)",
				   value_int(page, "invalid_source_ranges"));
		str_puts(out, ": allowed on the LoadBalancer addresses\n");
	}
	value_for_each (in, ingress) {
		if (value_bool(in, "captured"))
			continue;
		if (!has_any)
			label(out, "not captured");
		str_printf(out, "%s%s", has_any ? " " : "", value_text(in, "address"));
		has_any = true;
	}
	if (has_any)
		str_puts(out, " (ipMode Proxy: handled by the load balancer)\n");
}

static void head(struct str *out, const json_t *page, const struct style *style)
{
	const char *state = value_text(page, "state");

	str_printf(out, "%s/%s  ", value_text(page, "namespace"), value_text(page, "name"));
	if (value_bool(page, "has_object"))
		str_printf(out, "%s  ", value_text(page, "type"));
	mark_puts(out, style, state_mark(state), state);
	str_puts(out, "\n");
	kernel_state(out, page, style);
	if (value_has(page, "remark")) {
		str_puts(out, "  ");
		mark_puts(out, style, MARK_ATTENTION, value_text(page, "remark"));
		str_puts(out, "\n");
	}
	if (!value_bool(page, "has_object"))
		return;
	policies(out, page);
	if (value_int(page, "affinity_s") != 0) {
		label(out, "affinity");
		str_puts(out, "ClientIP, ");
		say_ms(out, value_int(page, "affinity_s") * 1000);
		str_puts(out, "\n");
	}
	addresses(out, page);
	if (value_has(page, "counts")) {
		const json_t *counts = value_get(page, "counts");

		label(out, "connections");
		str_printf(out,
			   "%" JSON_INTEGER_FORMAT ", of these %" JSON_INTEGER_FORMAT " rejected\n",
			   value_int(counts, "connections"), value_int(counts, "refused"));
	}
	if (value_int(page, "health_check_node_port") != 0) {
		label(out, "health check port");
		str_printf(out, "%" JSON_INTEGER_FORMAT "\n",
			   value_int(page, "health_check_node_port"));
	}
}

/* --- frontends --- */

static const json_t *pool_find(const json_t *page, json_int_t id, const char *address)
{
	const json_t *pools = value_get(page, "pools");
	const char *family = strchr(address, ':') ? "IPv6" : "IPv4";

	value_for_each (pool, pools)
		if (value_int(pool, "id") == id && strcmp(value_text(pool, "family"), family) == 0)
			return pool;
	return NULL;
}

static void target_cell(struct table *t, const json_t *page, const json_t *frontend,
			const char *key)
{
	const json_t *target = value_get(frontend, key);
	const char *verdict = value_text(target, "verdict");
	json_int_t id = value_int(target, "pool");
	const json_t *pool = pool_find(page, id, value_text(frontend, "address"));

	if (strcmp(verdict, "balance") == 0)
		table_cell(t, MARK_NONE, "pool %" JSON_INTEGER_FORMAT " (%zu)", id,
			   json_array_size(value_get(pool, "backends")));
	else
		table_cell(t, strcmp(verdict, "drop") == 0 ? MARK_ATTENTION : MARK_BAD, "%s",
			   verdict);
}

static const char *masquerade_text(const char *word)
{
	static const struct {
		const char *word;
		const char *text;
	} texts[] = {
		{ "all", "all" },
		{ "not-pods", "all but pods" },
		{ "this-host", "this host" },
		{ "to-other-nodes", "to other nodes" },
		{ "none", "none" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].word, word) == 0)
			return texts[i].text;
	return word;
}

/* Properties of the frontends that decide which columns are shown. */
struct frontend_traits {
	bool is_split; /* of some, outside clients use another pool */
	bool has_guards;
	bool are_pods_inside;  /* of some */
	bool are_pods_outside; /* of some */
};

static struct frontend_traits frontend_traits(const json_t *list)
{
	struct frontend_traits t = { 0 };

	value_for_each (f, list) {
		t.is_split |= value_bool(f, "split");
		t.has_guards |= value_bool(f, "has_source_ranges");
		t.are_pods_inside |= value_bool(f, "pods_are_inside");
		t.are_pods_outside |= value_bool(f, "split") && !value_bool(f, "pods_are_inside");
	}
	return t;
}

static void frontend_row(struct table *t, const json_t *page, const json_t *f,
			 const struct frontend_traits *traits)
{
	cell_endpoint(t, MARK_NONE, f);
	cell_text(t, f, "kind");
	target_cell(t, page, f, "outside");
	if (traits->is_split)
		target_cell(t, page, f, "inside");
	if (traits->has_guards)
		table_cell(t, MARK_NONE, "%s",
			   value_bool(f, "has_source_ranges") ? "ranges" : "any");
	table_cell(t, MARK_NONE, "%s%s%s", masquerade_text(value_text(f, "masquerade")),
		   value_get(f, "forwarding") != NULL ? "; " : "", value_text(f, "forwarding"));
}

static void frontends(struct str *out, const json_t *page, const struct style *style)
{
	const json_t *list = value_get(page, "frontends");
	struct frontend_traits traits = frontend_traits(list);
	struct table t = { 0 };

	if (json_array_size(list) == 0)
		return;
	table_column(&t, "FRONTEND", 0);
	table_column(&t, "KIND", 0);
	table_column(&t, traits.is_split ? "OUTSIDE" : "TARGET", 0);
	if (traits.is_split)
		table_column(&t, traits.are_pods_inside ? "PODS, HOST" : "THIS HOST", 0);
	if (traits.has_guards)
		table_column(&t, "SOURCES", 0);
	table_column(&t, "MASQUERADED", 0);
	value_for_each (f, list)
		frontend_row(&t, page, f, &traits);
	str_puts(out, "\n");
	table_print(out, &t, style, 0);
	table_fini(&t);
	if (traits.are_pods_outside)
		str_printf(out, "%sods count as outside clients\n",
			   traits.are_pods_inside ? "Where detect-local is not configured, p"
						  : "detect-local is not configured: p");
}

static void conflicts(struct str *out, const json_t *page, const struct style *style)
{
	const json_t *list = value_get(page, "conflicts");
	FINI(table_fini) struct table t = { 0 };

	if (json_array_size(list) == 0)
		return;
	table_column(&t, "CONFLICT", 0);
	table_column(&t, "KIND", 0);
	table_column(&t, "SERVED BY", 0);
	table_column(&t, "REASON", 0);
	value_for_each (c, list) {
		cell_endpoint(&t, MARK_NONE, c);
		cell_text(&t, c, "kind");
		table_cell(&t, MARK_ATTENTION, "%s/%s", value_text(c, "owner_namespace"),
			   value_text(c, "owner_name"));
		cell_text(&t, c, "reason");
	}
	str_puts(out, "\n");
	table_print(out, &t, style, 0);
}

/* --- pools --- */

/* Index of endpoints by "address:port": pods and nodes of backends. */
static json_t *endpoints_index(const json_t *page)
{
	json_t *index = json_object();

	value_for_each (port, value_get(page, "ports"))
		value_for_each (family, value_get(port, "families"))
			value_for_each (ep, value_get(family, "endpoints")) {
				FINI(str_fini) struct str key = { 0 };

				say_endpoint(&key, value_text(ep, "address"),
					     value_int(ep, "port"));
				(void)json_object_set(index, key.text, (json_t *)(uintptr_t)ep);
			}
	return index;
}

/* Counted connections of a backend; NULL: not counted. */
static const json_t *count_find(const json_t *counts, const json_t *backend)
{
	value_for_each (e, value_get(counts, "endpoints"))
		if (value_int(e, "port") == value_int(backend, "port") &&
		    strcmp(value_text(e, "address"), value_text(backend, "address")) == 0)
			return e;
	return NULL;
}

static void pool_print(struct str *out, const json_t *pool, const json_t *index,
		       const json_t *counts, const struct style *style)
{
	bool has_counts = json_array_size(value_get(counts, "endpoints")) > 0;
	const json_t *backends = value_get(pool, "backends");
	const char *name = value_text(pool, "port_name");
	bool has_scheduler = value_has(pool, "scheduler");
	bool has_weights = value_has(json_array_get(backends, 0), "weight");
	FINI(table_fini) struct table t = { 0 };

	str_printf(out, "\nPOOL %" JSON_INTEGER_FORMAT "  %s %s%s%s, %s, ", value_int(pool, "id"),
		   value_text(pool, "family"), value_text(pool, "protocol"), *name ? " " : "", name,
		   strcmp(value_text(pool, "scope"), "local") == 0 ? "endpoints of this node"
								   : "endpoints of the cluster");
	say_count(out, (json_int_t)json_array_size(backends), "backend", "backends");
	str_printf(out, "%s%s\n", has_scheduler ? ", scheduler " : "",
		   has_scheduler ? value_text(pool, "scheduler") : "");
	if (json_array_size(backends) == 0)
		return;
	table_column(&t, "SLOT", TABLE_RIGHT);
	table_column(&t, "BACKEND", 0);
	if (has_weights) {
		table_column(&t, "WEIGHT", TABLE_RIGHT);
		table_column(&t, "SHARE", TABLE_RIGHT);
	}
	table_column(&t, "POD", TABLE_NAMES);
	table_column(&t, "NODE", TABLE_ELASTIC);
	if (has_counts)
		table_column(&t, "CONNECTIONS", TABLE_RIGHT);
	value_for_each (b, backends) {
		FINI(str_fini) struct str where = { 0 };
		const json_t *ep;

		say_endpoint(&where, value_text(b, "address"), value_int(b, "port"));
		ep = json_object_get(index, where.text);
		cell_int(&t, b, "slot");
		table_cell(&t, MARK_NONE, "%s", where.text);
		if (has_weights) {
			cell_int(&t, b, "weight");
			cell_share(&t, MARK_NONE, b, "share");
		}
		table_cell(&t, ep ? MARK_NONE : MARK_ATTENTION, "%s",
			   ep ? dash(value_text(ep, "pod")) : "no longer an endpoint");
		cell_text(&t, ep, "node");
		if (has_counts)
			cell_int(&t, count_find(counts, b), "connections");
	}
	table_print(out, &t, style, 2);
}

static void pools(struct str *out, const json_t *page, const struct style *style)
{
	json_auto_t *index = endpoints_index(page);

	value_for_each (pool, value_get(page, "pools"))
		pool_print(out, pool, index, value_get(page, "counts"), style);
}

/* --- ports and endpoints --- */

static void set_cell(struct table *t, const json_t *ep, const char *key)
{
	const json_t *set = value_get(ep, key);

	if (value_has(set, "slot") && value_bool(set, "used"))
		table_cell(t, MARK_GOOD, "slot %" JSON_INTEGER_FORMAT, value_int(set, "slot"));
	else if (value_bool(set, "used"))
		table_cell(t, MARK_ATTENTION, "pending");
	else if (value_has(set, "slot"))
		table_cell(t, MARK_ATTENTION, "still slot %" JSON_INTEGER_FORMAT ": %s",
			   value_int(set, "slot"), value_text(set, "reason"));
	else
		table_cell(t, MARK_FAINT, "%s", value_text(set, "reason"));
}

/* ", 50% of connections stay on this node, 100% in this zone" */
static void say_locality(struct str *out, const json_t *family)
{
	static const char *const keys[] = { "on_this_node_share", "in_this_zone_share" };
	static const char *const where[] = { "on this node", "in this zone" };
	const char *what = " of connections stay";

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const json_t *share = value_get(family, keys[i]);

		if (!json_is_number(share))
			continue;
		str_printf(out, ", %.0f%%%s %s", 100 * json_number_value(share), what, where[i]);
		what = "";
	}
}

static void set_summary(struct str *out, const json_t *family)
{
	const char *topology = value_text(family, "topology");

	say_count(out, (json_int_t)json_array_size(value_get(family, "endpoints")), "endpoint",
		  "endpoints");
	if (value_bool(family, "uses_cluster_set")) {
		str_printf(out, "; %" JSON_INTEGER_FORMAT " for the cluster",
			   value_int(family, "in_cluster_set"));
		if (strcmp(topology, "off") != 0)
			str_printf(out, ", %s preferred", topology);
		if (value_bool(family, "cluster_fallback"))
			str_puts(out, ", terminating ones because none is ready");
		say_locality(out, family);
	}
	if (value_bool(family, "uses_local_set")) {
		str_printf(out, "; %" JSON_INTEGER_FORMAT " of this node",
			   value_int(family, "in_local_set"));
		if (value_bool(family, "local_fallback"))
			str_puts(out, ", terminating ones because none is ready");
	}
	str_puts(out, "\n");
}

static void endpoints(struct str *out, const json_t *family, const struct style *style)
{
	const json_t *list = value_get(family, "endpoints");
	bool uses_cluster = value_bool(family, "uses_cluster_set");
	bool uses_local = value_bool(family, "uses_local_set");
	bool has_silent = false;
	FINI(table_fini) struct table t = { 0 };

	if (json_array_size(list) == 0)
		return;
	table_column(&t, "ENDPOINT", 0);
	table_column(&t, "POD", TABLE_NAMES);
	table_column(&t, "NODE", TABLE_ELASTIC);
	table_column(&t, "READY", 0);
	if (uses_cluster)
		table_column(&t, "CLUSTER SET", 0);
	if (uses_local)
		table_column(&t, "LOCAL SET", 0);
	value_for_each (ep, list)
		has_silent = has_silent || value_has(ep, "silent");
	if (has_silent)
		table_column(&t, "SILENT", 0);
	value_for_each (ep, list) {
		cell_endpoint(&t, MARK_NONE, ep);
		cell_text(&t, ep, "pod");
		cell_node(&t, ep);
		table_cell(&t, MARK_NONE, "%s", condition_text(ep));
		if (uses_cluster)
			set_cell(&t, ep, "cluster_set");
		if (uses_local)
			set_cell(&t, ep, "local_set");
		if (has_silent)
			cell_silent(&t, "", ep);
	}
	table_print(out, &t, style, 2);
}

static void port_print(struct str *out, const json_t *port, const struct style *style)
{
	const char *name = value_text(port, "name");
	const char *state = value_text(port, "state");

	str_printf(out, "\nPORT %s%s%" JSON_INTEGER_FORMAT "/%s", name, *name ? " " : "",
		   value_int(port, "port"), value_text(port, "protocol"));
	if (value_int(port, "node_port") != 0)
		str_printf(out, ", node port %" JSON_INTEGER_FORMAT, value_int(port, "node_port"));
	str_puts(out, "  ");
	mark_puts(out, style, state_mark(state), state);
	str_puts(out, "\n");
	if (value_has(port, "note"))
		str_printf(out, "  %s\n", value_text(port, "note"));
	value_for_each (family, value_get(port, "families")) {
		str_printf(out, "  %s: ", value_text(family, "family"));
		set_summary(out, family);
		endpoints(out, family, style);
	}
}

/* Unknown until the first check, a second after the drain began. */
static void connections_cell(struct table *t, const json_t *l, const char *key)
{
	if (value_has(l, key))
		cell_int(t, l, key);
	else
		table_cell(t, MARK_FAINT, "-");
}

/* Backends that are draining. */
static void draining(struct str *out, const json_t *page, const struct style *style)
{
	const json_t *list = value_get(page, "draining");
	FINI(table_fini) struct table t = { 0 };

	if (json_array_size(list) == 0)
		return;
	table_column(&t, "DRAINING", 0);
	table_column(&t, "ACTIVE", TABLE_RIGHT);
	table_column(&t, "CLOSING", TABLE_RIGHT);
	table_column(&t, "FOR", 0);
	table_column(&t, "TIMEOUT IN", 0);
	value_for_each (l, list) {
		FINI(str_fini) struct str text = { 0 };

		cell_endpoint(&t, MARK_ATTENTION, l);
		connections_cell(&t, l, "active");
		connections_cell(&t, l, "inactive");
		if (value_has(l, "since_ms"))
			say_ms(&text, value_int(l, "since_ms"));
		table_cell(&t, MARK_NONE, "%s", value_has(l, "since_ms") ? text.text : "?");
		str_clear(&text);
		if (value_has(l, "timeout_ms"))
			say_ms(&text, value_int(l, "timeout_ms"));
		table_cell(&t, MARK_NONE, "%s", value_has(l, "timeout_ms") ? text.text : "never");
	}
	str_puts(out, "\n");
	table_print(out, &t, style, 0);
}

void show_service(struct str *out, const json_t *page, const struct style *style)
{
	bool is_proxied = strcmp(value_text(page, "state"), "not-proxied") != 0;

	head(out, page, style);
	frontends(out, page, style);
	conflicts(out, page, style);
	pools(out, page, style);
	draining(out, page, style);
	value_for_each (port, is_proxied ? value_get(page, "ports") : NULL)
		port_print(out, port, style);
	if (value_has(page, "complete") && !value_bool(page, "complete"))
		str_puts(out, "\nThe service changed while it was read: run the command again.\n");
}
