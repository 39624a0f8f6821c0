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

/* The label, and `text` with members of `object` (value.h). */
static void line(struct str *out, const char *name, const json_t *object, const char *text)
{
	label(out, name);
	say(out, object, text);
	str_puts(out, "\n");
}

/* --- head --- */

static void kernel_state(struct str *out, const json_t *page, const struct style *style)
{
	if (value_has(page, "rejected")) {
		label(out, "kernel");
		mark_puts(out, style, MARK_BAD, "rejected");
		say(out, value_get(page, "rejected"),
		    ": {text} ({attempts:attempt}, next in {retry_ms:ms})");
		str_puts(out, value_bool(page, "programmed") ? "; previous rules stay\n"
							     : "; not programmed\n");
	} else if (value_bool(page, "pending")) {
		label(out, "kernel");
		mark_puts(out, style, MARK_ATTENTION, "pending");
		say(out, page,
		    value_has(page, "pending_ms") ? " for {pending_ms:ms}: {note}\n"
						  : ": {note}\n");
	} else if (value_has(page, "note")) {
		line(out, "note", page, "{note}");
	}
}

static void policies(struct str *out, const json_t *page)
{
	bool is_itp_local = strcmp(value_text(page, "internal_policy"), "Local") == 0;
	bool is_etp_local = strcmp(value_text(page, "external_policy"), "Local") == 0;

	line(out, "internal policy", NULL,
	     is_itp_local ? "Local: the cluster IP uses endpoints of this node only" : "Cluster");
	line(out, "external policy", NULL,
	     is_etp_local ? "Local: outside clients use endpoints of this node only" : "Cluster");
}

static void addresses(struct str *out, const json_t *page)
{
	FINI(str_fini) struct str proxied = { 0 };

	if (value_int(page, "invalid_source_ranges") > 0)
		line(out, "source ranges", page,
		     "{source_ranges} (and {invalid_source_ranges:d} invalid): allowed on the "
		     "LoadBalancer addresses");
	else if (json_array_size(value_get(page, "source_ranges")) > 0)
		line(out, "source ranges", page,
		     "{source_ranges}: allowed on the LoadBalancer addresses");
	value_for_each (in, value_get(page, "ingress"))
		if (!value_bool(in, "captured"))
			say(&proxied, in, " {address}");
	if (proxied.len > 0) {
		label(out, "not captured");
		str_printf(out, "%s (ipMode Proxy: handled by the load balancer)\n",
			   proxied.text + 1);
	}
	if (value_int(page, "left_out_addresses") > 0)
		line(out, "left out", page,
		     "{left_out_addresses:d} of the load balancer addresses and external IPs: too many");
}

static void head(struct str *out, const json_t *page, const struct style *style)
{
	const char *state = value_text(page, "state");

	say(out, page, "{namespace}/{name}  ");
	say(out, page, value_bool(page, "has_object") ? "{type}  " : "");
	mark_puts(out, style, state_mark(state), state);
	str_puts(out, "\n");
	kernel_state(out, page, style);
	if (value_has(page, "remark")) {
		str_puts(out, "  ");
		mark_say(out, style, MARK_ATTENTION, page, "{remark}");
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
	if (value_has(value_get(page, "counts"), "connections"))
		line(out, "connections", value_get(page, "counts"),
		     "{connections:d}, of these {rejected:d} rejected");
	if (value_int(page, "health_check_node_port") != 0)
		line(out, "health check port", page, "{health_check_node_port:d}");
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

static void target_cell(struct table *t, const char *title, const json_t *page,
			const json_t *frontend, const char *key)
{
	const json_t *target = value_get(frontend, key);
	const char *verdict = value_text(target, "verdict");
	json_int_t id = value_int(target, "pool");
	const json_t *pool = pool_find(page, id, value_text(frontend, "address"));

	if (strcmp(verdict, "balance") == 0)
		table_cell(t, title, MARK_NONE, "pool %" JSON_INTEGER_FORMAT " (%zu)", id,
			   json_array_size(value_get(pool, "backends")));
	else
		table_cell(t, title, strcmp(verdict, "drop") == 0 ? MARK_ATTENTION : MARK_BAD, "%s",
			   verdict);
}

static const char *masquerade_text(const char *word)
{
	return strcmp(word, "not-pods") == 0         ? "all but pods"
	       : strcmp(word, "this-host") == 0      ? "this host"
	       : strcmp(word, "to-other-nodes") == 0 ? "to other nodes"
						     : word;
}

static void frontends(struct str *out, const json_t *page, const struct style *style)
{
	const json_t *list = value_get(page, "frontends");
	bool is_split = value_any(list, "split"); /* outside clients use another pool */
	bool has_guards = value_any(list, "has_source_ranges");
	bool are_pods_inside = value_any(list, "pods_are_inside"); /* of some */
	bool are_pods_outside = false;
	FINI(table_fini) struct table t = { 0 };

	value_for_each (f, list) {
		cell_endpoint(&t, "FRONTEND", MARK_NONE, f);
		cell_say(&t, "KIND", MARK_NONE, f, "{kind}");
		target_cell(&t, is_split ? "OUTSIDE" : "TARGET", page, f, "outside");
		if (is_split)
			target_cell(&t, are_pods_inside ? "PODS, HOST" : "THIS HOST", page, f,
				    "inside");
		if (has_guards)
			table_cell(&t, "SOURCES", MARK_NONE, "%s",
				   value_bool(f, "has_source_ranges") ? "ranges" : "any");
		table_cell(&t, "MASQUERADED", MARK_NONE, "%s%s%s",
			   masquerade_text(value_text(f, "masquerade")),
			   value_get(f, "forwarding") != NULL ? "; " : "",
			   value_text(f, "forwarding"));
		are_pods_outside |= value_bool(f, "split") && !value_bool(f, "pods_are_inside");
	}
	table_section(out, &t, style, 0);
	if (are_pods_outside)
		str_printf(out, "%sods count as outside clients\n",
			   are_pods_inside ? "Where detect-local is not configured, p"
					   : "detect-local is not configured: p");
}

static void conflicts(struct str *out, const json_t *page, const struct style *style)
{
	FINI(table_fini) struct table t = { 0 };

	value_for_each (c, value_get(page, "conflicts")) {
		cell_endpoint(&t, "CONFLICT", MARK_NONE, c);
		cell_say(&t, "KIND", MARK_NONE, c, "{kind}");
		cell_say(&t, "SERVED BY", MARK_ATTENTION, c, "{owner_namespace}/{owner_name}");
		cell_say(&t, "REASON", MARK_NONE, c, "{reason}");
	}
	table_section(out, &t, style, 0);
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

				say_endpoint(&key, ep);
				(void)json_object_set(index, key.text, (json_t *)(uintptr_t)ep);
			}
	return index;
}

static void pool_print(struct str *out, const json_t *pool, const json_t *index,
		       const json_t *counts, const struct style *style)
{
	bool has_counts = json_array_size(value_get(counts, "endpoints")) > 0;
	const json_t *backends = value_get(pool, "backends");
	bool has_weights = value_has(json_array_get(backends, 0), "weight");
	FINI(table_fini) struct table t = { 0 };

	say(out, pool, "\nPOOL {id:d}  {family} {protocol}");
	say(out, pool, *value_text(pool, "port_name") ? " {port_name}" : "");
	str_printf(out, ", endpoints of %s, %zu backend%s",
		   strcmp(value_text(pool, "scope"), "local") == 0 ? "this node" : "the cluster",
		   json_array_size(backends), json_array_size(backends) == 1 ? "" : "s");
	say(out, pool, value_has(pool, "scheduler") ? ", scheduler {scheduler}\n" : "\n");
	value_for_each (b, backends) {
		FINI(str_fini) struct str where = { 0 };
		const json_t *ep;

		say_endpoint(&where, b);
		ep = json_object_get(index, where.text);
		cell_say(&t, "SLOT", TABLE_RIGHT, b, "{slot:d}");
		table_cell(&t, "BACKEND", MARK_NONE, "%s", where.text);
		if (has_weights) {
			cell_say(&t, "WEIGHT", TABLE_RIGHT, b, "{weight:d}");
			cell_share(&t, "SHARE", TABLE_RIGHT, b, "share");
		}
		table_cell(&t, "POD", TABLE_NAMES | (ep ? MARK_NONE : MARK_ATTENTION), "%s",
			   ep ? dash(value_text(ep, "pod")) : "no longer an endpoint");
		cell_say(&t, "NODE", TABLE_ELASTIC, ep, "{node}");
		ep = value_endpoint(counts, b, value_text(pool, "protocol"));
		if (has_counts)
			cell_say(&t, "CONNECTIONS", TABLE_RIGHT, ep,
				 ep && !value_has(ep, "connections") ? "-" : "{connections:d}");
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

static void set_cell(struct table *t, const char *title, const json_t *set)
{
	if (value_has(set, "slot") && value_bool(set, "used"))
		cell_say(t, title, MARK_GOOD, set, "slot {slot:d}");
	else if (value_bool(set, "used"))
		table_cell(t, title, MARK_ATTENTION, "pending");
	else if (value_has(set, "slot"))
		cell_say(t, title, MARK_ATTENTION, set, "still slot {slot:d}: {reason}");
	else
		table_cell(t, title, MARK_FAINT, "%s", value_text(set, "reason"));
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
	size_t n = json_array_size(value_get(family, "endpoints"));

	str_printf(out, "%zu endpoint%s", n, n == 1 ? "" : "s");
	if (value_bool(family, "uses_cluster_set")) {
		say(out, family, "; {in_cluster_set:d} for the cluster");
		if (strcmp(value_text(family, "topology"), "off") != 0)
			say(out, family, ", {topology} preferred");
		if (value_bool(family, "cluster_fallback"))
			str_puts(out, ", terminating ones because none is ready");
		say_locality(out, family);
	}
	if (value_bool(family, "uses_local_set")) {
		say(out, family, "; {in_local_set:d} of this node");
		if (value_bool(family, "local_fallback"))
			str_puts(out, ", terminating ones because none is ready");
	}
	str_puts(out, "\n");
}

static void endpoints(struct str *out, const json_t *family, const struct style *style)
{
	const json_t *list = value_get(family, "endpoints");
	bool has_silent = value_any(list, "silent");
	FINI(table_fini) struct table t = { 0 };

	value_for_each (ep, list) {
		cells_of_endpoint(&t, ep);
		if (value_bool(family, "uses_cluster_set"))
			set_cell(&t, "CLUSTER SET", value_get(ep, "cluster_set"));
		if (value_bool(family, "uses_local_set"))
			set_cell(&t, "LOCAL SET", value_get(ep, "local_set"));
		if (has_silent)
			cell_silent(&t, "SILENT", "", ep);
	}
	table_print(out, &t, style, 2);
}

static void port_print(struct str *out, const json_t *port, const struct style *style)
{
	const char *state = value_text(port, "state");

	say(out, port, *value_text(port, "name") ? "\nPORT {name} " : "\nPORT ");
	say(out, port, "{port:d}/{protocol}");
	say(out, port, value_int(port, "node_port") != 0 ? ", node port {node_port:d}" : "");
	str_puts(out, "  ");
	mark_puts(out, style, state_mark(state), state);
	str_puts(out, "\n");
	if (value_has(port, "note"))
		say(out, port, "  {note}\n");
	value_for_each (family, value_get(port, "families")) {
		say(out, family, "  {family}: ");
		set_summary(out, family);
		endpoints(out, family, style);
	}
}

/* Unknown until the first check, a second after the drain began. */
static void connections_cell(struct table *t, const char *title, const json_t *l, const char *key,
			     const char *text)
{
	bool is_known = value_has(l, key);

	cell_say(t, title, TABLE_RIGHT | (is_known ? MARK_NONE : MARK_FAINT), l,
		 is_known ? text : "-");
}

/* Backends that are draining. */
static void draining(struct str *out, const json_t *page, const struct style *style)
{
	FINI(table_fini) struct table t = { 0 };

	value_for_each (l, value_get(page, "draining")) {
		cell_endpoint(&t, "DRAINING", MARK_ATTENTION, l);
		connections_cell(&t, "ACTIVE", l, "active", "{active:d}");
		connections_cell(&t, "INACTIVE", l, "inactive", "{inactive:d}");
		cell_say(&t, "FOR", MARK_NONE, l, value_has(l, "since_ms") ? "{since_ms:ms}" : "?");
		cell_say(&t, "TIMEOUT IN", MARK_NONE, l,
			 value_has(l, "timeout_ms") ? "{timeout_ms:ms}" : "never");
	}
	table_section(out, &t, style, 0);
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
