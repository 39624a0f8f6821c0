/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/objects - parser of one-line objects. */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bad(const char *what, const char *text)
{
	(void)fprintf(stderr, "test object: bad %s: '%s'\n", what, text);
	abort();
}

struct ip_addr test_addr(const char *text)
{
	struct ip_addr a = { 0 };

	if (ip_addr_parse(&a, text, NULL) < 0)
		bad("address", text);
	return a;
}

struct ip_prefix test_prefix(const char *text)
{
	struct ip_prefix p = { 0 };

	if (ip_prefix_parse(&p, text, NULL) < 0)
		bad("prefix", text);
	return p;
}

/* "NAMESPACE/NAME", or NAME in namespace "default". */
static void set_key(const struct name **ns, const struct name **name, const char *text)
{
	const char *slash = strchr(text, '/');

	*ns = slash ? name_get(text, (size_t)(slash - text)) : name_get_str("default");
	*name = name_get_str(slash ? slash + 1 : text);
}

/* The value of "key=value" when `word` has this key. */
static const char *value_of(const char *word, const char *key)
{
	size_t len = strlen(key);

	return strncmp(word, key, len) == 0 && word[len] == '=' ? word + len + 1 : NULL;
}

struct port_text {
	const struct name *name;
	uint8_t proto;
	uint16_t port;
	uint16_t node_port;
};

/* NAME[/PROTO]:PORT[:NODEPORT] */
static struct port_text port_of(const char *text)
{
	struct port_text p = { .proto = L4PROTO_TCP };
	const char *colon = strchr(text, ':');
	char proto[8] = "";
	const char *slash;

	if (colon == NULL)
		bad("port", text);
	slash = memchr(text, '/', (size_t)(colon - text));
	if (slash != NULL) {
		(void)snprintf(proto, sizeof(proto), "%.*s", (int)(colon - slash - 1), slash + 1);
		p.proto = (uint8_t)l4proto_parse(proto);
	}
	p.name = name_get(text, (size_t)((slash ? slash : colon) - text));
	p.port = (uint16_t)strtoul(colon + 1, NULL, 10);
	colon = strchr(colon + 1, ':');
	p.node_port = colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
	return p;
}

static enum service_type type_of(const char *text)
{
	for (int t = SERVICE_TYPE_CLUSTERIP; t <= SERVICE_TYPE_EXTERNALNAME; t++)
		if (strcmp(service_type_text((enum service_type)t), text) == 0)
			return (enum service_type)t;
	bad("service type", text);
	return SERVICE_TYPE_UNSET;
}

static struct service_tuning *tuning_of(struct service *s)
{
	if (s->tuning == NULL)
		s->tuning = xcalloc(1, sizeof(*s->tuning));
	return s->tuning;
}

static bool service_value(struct service *s, const char *word)
{
	const char *v;

	if ((v = value_of(word, "type")) != NULL) {
		s->type = (uint8_t)type_of(v);
	} else if ((v = value_of(word, "ip")) != NULL) {
		struct ip_addr a = test_addr(v);

		s->cluster_ip[ip_fam(&a)] = a;
	} else if ((v = value_of(word, "port")) != NULL) {
		struct port_text p = port_of(v);

		*vec_push(&s->ports) = (struct service_port){
			.name = p.name, .proto = p.proto, .port = p.port, .node_port = p.node_port
		};
	} else if ((v = value_of(word, "ext")) != NULL) {
		*vec_push(&s->external_ips) = test_addr(v);
	} else if ((v = value_of(word, "vip")) != NULL) {
		*vec_push(&s->ingress) = (struct service_ingress){ test_addr(v), false };
	} else if ((v = value_of(word, "proxy")) != NULL) {
		*vec_push(&s->ingress) = (struct service_ingress){ test_addr(v), true };
	} else if ((v = value_of(word, "range")) != NULL) {
		*vec_push(&s->source_ranges) = test_prefix(v);
	} else if ((v = value_of(word, "affinity")) != NULL) {
		s->affinity_s = (uint32_t)strtoul(v, NULL, 10);
	} else if ((v = value_of(word, "hc")) != NULL) {
		s->health_check_node_port = (uint16_t)strtoul(v, NULL, 10);
	} else if ((v = value_of(word, "sched")) != NULL) {
		tuning_of(s)->scheduler = name_get_str(v);
	} else if ((v = value_of(word, "weights")) != NULL) {
		tuning_of(s)->weights = name_get_str(v);
	} else if ((v = value_of(word, "drain")) != NULL) {
		tuning_of(s)->drain_timeout = name_get_str(v);
	} else if ((v = value_of(word, "fwd")) != NULL) {
		tuning_of(s)->forwarding = name_get_str(v);
	} else if ((v = value_of(word, "created")) != NULL) {
		s->created_s = strtoll(v, NULL, 10);
	} else {
		return false;
	}
	return true;
}

struct service *test_service(const char *name, const char *text)
{
	struct service *s = object_open(OBJECT_KIND_SERVICE).service;
	char *copy = xstrdup(text);
	char *save = NULL;

	set_key(&s->ns, &s->name, name);
	s->type = SERVICE_TYPE_CLUSTERIP;
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if (service_value(s, w))
			continue;
		if (strcmp(w, "itp") == 0)
			s->is_itp_local = true;
		else if (strcmp(w, "etp") == 0)
			s->is_etp_local = true;
		else if (strcmp(w, "headless") == 0)
			s->is_headless = true;
		else if (strcmp(w, "label") == 0)
			s->has_proxy_name_label = true;
		else if (strcmp(w, "bad") == 0)
			s->n_bad_source_ranges++;
		else if (strcmp(w, "left-out") == 0)
			s->n_left_out_addrs++;
		else
			bad("service word", w);
	}
	free(copy);
	return s;
}

static struct ip_addr endpoint_addr(const char *word, enum ipfam fam)
{
	char text[IP_TEXT_MAX];

	if (strpbrk(word, ".:") != NULL)
		return test_addr(word);
	(void)snprintf(text, sizeof(text), fam == IPFAM_V4 ? "10.0.1.%s" : "fd00::%s", word);
	return test_addr(text);
}

static uint8_t flags_of(const char *word)
{
	uint8_t flags = 0;

	for (const char *c = word; *c != '\0'; c++) {
		if (*c == 'r')
			flags |= ENDPOINT_READY;
		else if (*c == 's')
			flags |= ENDPOINT_SERVING;
		else if (*c == 't')
			flags |= ENDPOINT_TERMINATING;
		else
			bad("endpoint word", word);
	}
	return flags;
}

static void add_endpoint(struct slice *s, char *text)
{
	struct slice_endpoint e = { 0 };
	const struct name *node = NULL;
	const struct name *zone = NULL;
	const struct name *zones[HINTS_MAX];
	const struct name *nodes[HINTS_MAX];
	uint32_t n_zones = 0;
	uint32_t n_nodes = 0;
	char *save = NULL;
	char *w = strtok_r(text, " ", &save);

	if (w == NULL)
		return;
	e.addr = endpoint_addr(w, s->fam);
	while ((w = strtok_r(NULL, " ", &save)) != NULL) {
		if (w[0] == '@')
			node = name_get_str(w + 1);
		else if (w[0] == '%')
			nodes[n_nodes++] = name_get_str(w + 1);
		else if (w[0] == '+')
			zones[n_zones++] = name_get_str(w + 1);
		else if (w[0] == '/')
			zone = name_get_str(w + 1);
		else if (w[0] == '~')
			e.pod = xstrdup(w + 1);
		else
			e.flags |= flags_of(w);
	}
	e.place = slice_place_make(node, zone, (struct hints){ zones, n_zones },
				   (struct hints){ nodes, n_nodes });
	*vec_push(&s->endpoints) = e;
}

static void slice_head(struct slice *s, char *text)
{
	const char *v;
	char *save = NULL;

	for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if (strcmp(w, "v6") == 0)
			s->fam = IPFAM_V6;
		else if ((v = value_of(w, "version")) != NULL)
			s->version = strtoull(v, NULL, 10);
		else if ((v = value_of(w, "trigger")) != NULL)
			s->trigger_ns = strtoll(v, NULL, 10);
		else
			bad("slice word", w);
	}
}

struct slice *test_slice(const char *name, const char *service, const char *text)
{
	struct slice *s = object_open(OBJECT_KIND_SLICE).slice;
	char *copy = xstrdup(text);
	char *ports = strchr(copy, '|');
	char *endpoints = ports ? strchr(ports + 1, '|') : NULL;
	char *save = NULL;

	if (endpoints == NULL)
		bad("slice (two '|' wanted)", text);
	*ports++ = '\0';
	*endpoints++ = '\0';
	set_key(&s->ns, &s->name, name);
	s->service = service ? name_get_str(service) : NULL;
	slice_head(s, copy);
	for (char *w = strtok_r(ports, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		struct port_text p = port_of(w);

		*vec_push(&s->ports) =
			(struct slice_port){ .name = p.name, .proto = p.proto, .port = p.port };
	}
	for (char *e = strtok_r(endpoints, ";", &save); e != NULL; e = strtok_r(NULL, ";", &save))
		add_endpoint(s, e);
	free(copy);
	return s;
}

struct node *test_node(const char *name, const char *text)
{
	struct node *n = object_open(OBJECT_KIND_NODE).node;
	char *copy = xstrdup(text);
	char *save = NULL;
	const char *v;

	n->name = name_get_str(name);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if ((v = value_of(w, "zone")) != NULL)
			n->zone = name_get_str(v);
		else if ((v = value_of(w, "addr")) != NULL)
			*vec_push(&n->addrs) = test_addr(v);
		else if ((v = value_of(w, "pods")) != NULL)
			*vec_push(&n->pod_cidrs) = test_prefix(v);
		else if (strcmp(w, "deleting") == 0)
			n->is_deleting = true;
		else if (strcmp(w, "taint") == 0)
			n->has_autoscaler_taint = true;
		else
			bad("node word", w);
	}
	free(copy);
	return n;
}

struct service_cidr *test_service_cidr(const char *name, const char *text)
{
	struct service_cidr *c = object_open(OBJECT_KIND_SERVICE_CIDR).cidr;
	char *copy = xstrdup(text);
	char *save = NULL;

	c->name = name_get_str(name);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		*vec_push(&c->cidrs) = test_prefix(w);
	free(copy);
	return c;
}
