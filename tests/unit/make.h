/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/make - objects for tests, said in few words.
 *
 *     make_service(&m, "shop/web", "10.96.0.1", "http:TCP:80")
 *     make_slice(&m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2@n1 10.1.0.3!ts")
 *
 * Ports are NAME:PROTO:PORT[:NODEPORT], separated by blanks. Endpoints are
 * ADDRESS[@NODE][!FLAGS], flags of r(eady) s(erving) t(erminating); none given
 * means ready and serving.
 */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "../model_put.h"

static inline const struct name *make_part(const char *key, int want_name)
{
	const char *slash = strchr(key, '/');

	assert(slash != NULL);
	return want_name ? name_get_str(slash + 1) : name_get(key, (size_t)(slash - key));
}

static inline struct ip_addr make_ip(const char *text)
{
	struct ip_addr a = { 0 };
	int r = ip_addr_parse(&a, text, NULL);

	assert(r == 0);
	return a;
}

/* An object, not yet in a model. `ip` and `ip6` may be NULL. */
static inline struct service *make_service_object(const char *key, const char *ip, const char *ip6,
						  const char *ports)
{
	struct service *s = object_open(OBJECT_KIND_SERVICE).service;
	char *copy = xstrdup(ports);
	char *rest = copy;
	char *word;

	s->ns = make_part(key, 0);
	s->name = make_part(key, 1);
	s->type = SERVICE_TYPE_CLUSTERIP;
	s->created_s = 1000;
	if (ip != NULL)
		s->cluster_ip[IPFAM_V4] = make_ip(ip);
	if (ip6 != NULL)
		s->cluster_ip[IPFAM_V6] = make_ip(ip6);
	while ((word = strsep(&rest, " ")) != NULL) {
		char name[64] = "";
		char proto[8] = "";
		unsigned int port = 0;
		unsigned int node_port = 0;
		int n = word[0] == ':' ? sscanf(word, ":%7[^:]:%u:%u", proto, &port, &node_port) + 1
				       : sscanf(word, "%63[^:]:%7[^:]:%u:%u", name, proto, &port,
						&node_port);

		assert(n >= 3);
		*vec_push(&s->ports) = (struct service_port){
			.name = name_get_str(name),
			.proto = (uint8_t)l4proto_parse(proto),
			.port = (uint16_t)port,
			.node_port = (uint16_t)node_port,
		};
	}
	free(copy);
	return s;
}

static inline int make_service(struct model *m, const char *key, const char *ip, const char *ports)
{
	return model_put_service(m, make_service_object(key, ip, NULL, ports), 1);
}

static inline void make_endpoint(struct slice *sl, char *word)
{
	struct slice_endpoint ep = { .flags = ENDPOINT_READY | ENDPOINT_SERVING };
	char *flags = strchr(word, '!');
	const struct name *name = NULL;
	char *node;

	if (flags != NULL) {
		*flags++ = '\0';
		ep.flags = 0;
		ep.flags |= strchr(flags, 'r') ? ENDPOINT_READY : 0;
		ep.flags |= strchr(flags, 's') ? ENDPOINT_SERVING : 0;
		ep.flags |= strchr(flags, 't') ? ENDPOINT_TERMINATING : 0;
	}
	node = strchr(word, '@');
	if (node != NULL) {
		*node++ = '\0';
		name = name_get_str(node);
	}
	ep.place = slice_place_make(name, NULL, (struct hints){ 0 }, (struct hints){ 0 });
	ep.addr = make_ip(word);
	sl->fam = ip_fam(&ep.addr);
	*vec_push(&sl->endpoints) = ep;
}

static inline struct slice *make_slice_object(const char *key, const char *service,
					      const char *ports, const char *endpoints)
{
	struct slice *sl = object_open(OBJECT_KIND_SLICE).slice;
	char *copy = xstrdup(ports);
	char *rest = copy;
	char *word;

	sl->ns = make_part(key, 0);
	sl->name = make_part(key, 1);
	sl->service = name_get_str(service);
	while ((word = strsep(&rest, " ")) != NULL) {
		char name[64] = "";
		char proto[8] = "";
		unsigned int port = 0;
		int n = word[0] == ':' ? sscanf(word, ":%7[^:]:%u", proto, &port) + 1
				       : sscanf(word, "%63[^:]:%7[^:]:%u", name, proto, &port);

		assert(n >= 3);
		*vec_push(&sl->ports) = (struct slice_port){ .name = name_get_str(name),
							     .proto = (uint8_t)l4proto_parse(proto),
							     .port = (uint16_t)port };
	}
	free(copy);
	copy = xstrdup(endpoints);
	rest = copy;
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			make_endpoint(sl, word);
	free(copy);
	return sl;
}

static inline int make_slice(struct model *m, const char *key, const char *service,
			     const char *ports, const char *endpoints)
{
	return model_put_slice(m, make_slice_object(key, service, ports, endpoints), 1);
}

static inline int drop_service(struct model *m, const char *key)
{
	const struct name *ns = make_part(key, 0);
	const struct name *name = make_part(key, 1);
	int r = model_del_service(m, ns, name, 1);

	name_unref(ns);
	name_unref(name);
	return r;
}

static inline int drop_slice(struct model *m, const char *key)
{
	const struct name *ns = make_part(key, 0);
	const struct name *name = make_part(key, 1);
	int r = model_del_slice(m, ns, name, 1);

	name_unref(ns);
	name_unref(name);
	return r;
}

/* A model of node "n1", address 192.0.2.1, that is ready for objects. */
static inline void make_model(struct model *m)
{
	struct ip_addr addrs[2];

	model_init(m);
	m->config.node_name = name_get_str("n1");
	model_configured(m);
	addrs[0] = make_ip("192.0.2.1");
	addrs[1] = make_ip("2001:db8::1");
	model_put_host_addrs(m, addrs, 2, 0, 1);
}
