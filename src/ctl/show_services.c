/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/show_services - one line a service port, in the manner of ipvsadm and kubectl.
 *
 * POOL reads "in the kernel / known": 3/5 are three of five endpoints; 1L/5 is a
 * pool of this node's endpoints only (a Local policy), 5+1L/5 a port that has both.
 */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

/* "80/TCP", "80:30080/TCP" */
static void say_port(struct str *out, const json_t *port)
{
	str_printf(out, "%" JSON_INTEGER_FORMAT, value_int(port, "port"));
	if (value_int(port, "node_port") != 0)
		str_printf(out, ":%" JSON_INTEGER_FORMAT, value_int(port, "node_port"));
	str_printf(out, "/%s", value_text(port, "protocol"));
}

static void say_backends(struct str *out, const json_t *family)
{
	const json_t *pools = value_get(family, "pools");
	bool has_pool = false;

	for (size_t i = 0; i < json_array_size(pools); i++) {
		const json_t *pool = json_array_get(pools, i);

		str_printf(out, "%s%" JSON_INTEGER_FORMAT "%s", has_pool ? "+" : "",
			   value_int(pool, "backends"),
			   strcmp(value_text(pool, "scope"), "local") == 0 ? "L" : "");
		has_pool = true;
	}
	str_printf(out, "%s/%" JSON_INTEGER_FORMAT, has_pool ? "" : "-",
		   value_int(family, "endpoints"));
}

/* Both families of a dual-stack port, once if they read the same. */
static void say_port_backends(struct str *out, const json_t *port)
{
	const json_t *families = value_get(port, "families");
	struct str one = { 0 };

	for (size_t i = 0; i < json_array_size(families); i++) {
		str_clear(&one);
		say_backends(&one, json_array_get(families, i));
		if (out->len > 0 && strcmp(str_text(out), one.text) == 0)
			continue;
		str_printf(out, "%s%s", out->len ? "," : "", one.text);
	}
	str_fini(&one);
}

static size_t vips_add(struct str *out, const json_t *list, size_t n, size_t max)
{
	for (size_t i = 0; i < json_array_size(list); i++, n++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (n < max)
			str_printf(out, "%s%s", n ? "," : "", text ? text : "");
	}
	return n;
}

/* What people reach it by first: the balancer's address, then the others. */
static void say_vips(struct str *out, const json_t *item, enum show_width width)
{
	size_t max = width == SHOW_WIDE ? SIZE_MAX : 1;
	size_t n = vips_add(out, value_get(item, "load_balancer_ips"), 0, max);

	n = vips_add(out, value_get(item, "cluster_ips"), n, max);
	n = vips_add(out, value_get(item, "external_ips"), n, max);
	if (n > max)
		str_printf(out, "+%zu", n - max);
	if (n == 0)
		str_puts(out, "-");
}

static const char *dash(const char *text)
{
	return *text != '\0' ? text : "-";
}

static void row(struct table *t, const json_t *item, const json_t *port, enum show_width width)
{
	const char *state = value_text(port ? port : item, "state");
	struct str vips = { 0 };
	struct str number = { 0 };
	struct str backends = { 0 };

	say_vips(&vips, item, width);
	if (port != NULL) {
		say_port(&number, port);
		say_port_backends(&backends, port);
	}
	table_cell(t, MARK_NONE, "%s/%s", value_text(item, "namespace"), value_text(item, "name"));
	table_cell(t, MARK_NONE, "%s", dash(str_text(&number)));
	if (width == SHOW_WIDE)
		table_cell(t, MARK_NONE, "%s", port ? dash(value_text(port, "name")) : "-");
	table_cell(t, MARK_NONE, "%s", dash(value_text(item, "type")));
	table_cell(t, MARK_NONE, "%s", vips.text);
	table_cell(t, MARK_NONE, "%s", dash(str_text(&backends)));
	table_cell(t, state_mark(state), "%s", state);
	table_cell(t, MARK_NONE, "%s",
		   port != NULL && value_has(port, "note") ? value_text(port, "note")
							   : value_text(item, "note"));
	str_fini(&vips);
	str_fini(&number);
	str_fini(&backends);
}

void show_services(struct str *out, const json_t *items, const struct style *style,
		   enum show_width width)
{
	struct table t = { 0 };

	table_column(&t, "SERVICE", TABLE_ELASTIC);
	table_column(&t, "PORT", 0);
	if (width == SHOW_WIDE)
		table_column(&t, "NAME", 0);
	table_column(&t, "TYPE", 0);
	table_column(&t, "VIP", TABLE_ELASTIC);
	table_column(&t, "POOL", 0);
	table_column(&t, "STATE", 0);
	table_column(&t, "NOTE", TABLE_COMMENT);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);
		const json_t *ports = value_get(item, "ports");
		size_t n = json_array_size(ports);

		/* What is not proxied has no state of its own port by port. */
		if (n == 0 || strcmp(value_text(item, "state"), "not-proxied") == 0)
			row(&t, item, NULL, width);
		else
			for (size_t k = 0; k < n; k++)
				row(&t, item, json_array_get(ports, k), width);
	}
	table_print(out, &t, style, 0);
	table_fini(&t);
}
