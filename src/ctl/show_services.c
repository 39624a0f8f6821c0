/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/show_services - `vipctl svc`: one line per service port.
 *
 * POOL is "programmed/known endpoints". 3/5: three of five endpoints; 1L/5: a pool of this node's
 * endpoints only (a Local policy); 5+1L/5: a port with both pools.
 */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

static void say_backends(struct str *out, const json_t *family)
{
	const json_t *pools = value_get(family, "pools");
	bool has_pool = false;

	value_for_each (pool, pools) {
		str_puts(out, has_pool ? "+" : "");
		say(out, pool, "{backends:d}");
		str_puts(out, strcmp(value_text(pool, "scope"), "local") == 0 ? "L" : "");
		has_pool = true;
	}
	say(out, family, has_pool ? "/{endpoints:d}" : "-/{endpoints:d}");
}

/* Both families of a dual-stack port; one text if they are equal. */
static void say_port_backends(struct str *out, const json_t *port)
{
	const json_t *families = value_get(port, "families");
	FINI(str_fini) struct str one = { 0 };

	value_for_each (family, families) {
		str_clear(&one);
		say_backends(&one, family);
		if (out->len > 0 && strcmp(str_text(out), one.text) == 0)
			continue;
		str_printf(out, "%s%s", out->len ? "," : "", one.text);
	}
}

static size_t vips_add(struct str *out, const json_t *list, size_t n, size_t max)
{
	value_for_each (vip, list) {
		if (n < max)
			str_printf(out, "%s%s", n ? "," : "", value_string(vip));
		n++;
	}
	return n;
}

/* Load balancer addresses first, then the others. */
static void say_vips(struct str *out, const json_t *item, bool is_wide)
{
	size_t max = is_wide ? SIZE_MAX : 1;
	size_t n = vips_add(out, value_get(item, "load_balancer_ips"), 0, max);

	n = vips_add(out, value_get(item, "cluster_ips"), n, max);
	n = vips_add(out, value_get(item, "external_ips"), n, max);
	if (n > max)
		str_printf(out, "+%zu", n - max);
	if (n == 0)
		str_puts(out, "-");
}

static void row(struct table *t, const json_t *item, const json_t *port, bool is_wide)
{
	const char *state = value_text(port ? port : item, "state");
	FINI(str_fini) struct str vips = { 0 };
	FINI(str_fini) struct str number = { 0 };
	FINI(str_fini) struct str backends = { 0 };

	say_vips(&vips, item, is_wide);
	if (port != NULL) {
		say(&number, port,
		    value_int(port, "node_port") != 0 ? "{port:d}:{node_port:d}/{protocol}"
						      : "{port:d}/{protocol}");
		say_port_backends(&backends, port);
	}
	cell_say(t, "SERVICE", TABLE_ELASTIC, item, "{namespace}/{name}");
	table_cell(t, "PORT", MARK_NONE, "%s", dash(str_text(&number)));
	if (is_wide)
		cell_say(t, "NAME", MARK_NONE, port, "{name}");
	cell_say(t, "TYPE", MARK_NONE, item, "{type}");
	table_cell(t, "VIP", TABLE_ELASTIC, "%s", vips.text);
	table_cell(t, "POOL", MARK_NONE, "%s", dash(str_text(&backends)));
	table_cell(t, "STATE", state_mark(state), "%s", state);
	table_cell(t, "NOTE", TABLE_COMMENT, "%s",
		   port != NULL && value_has(port, "note") ? value_text(port, "note")
							   : value_text(item, "note"));
}

void show_services(struct str *out, const json_t *answer, const struct style *style)
{
	FINI(table_fini) struct table t = { 0 };

	value_for_each (item, value_get(answer, "items")) {
		const json_t *ports = value_get(item, "ports");

		/* Ports of a service that is not proxied have no state. */
		if (json_array_size(ports) == 0 ||
		    strcmp(value_text(item, "state"), "not-proxied") == 0)
			row(&t, item, NULL, style->is_wide);
		else
			value_for_each (port, ports)
				row(&t, item, port, style->is_wide);
	}
	table_print(out, &t, style, 0);
}
