/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scripts of model changes: after every step the list of dirty services is compared in order. The
 * time of a step is its number, from 1.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/select.h"
#include "objects.h"

enum op {
	OP_END = 0,
	OP_SERVICE,    /* put `name` with `text` */
	OP_NO_SERVICE, /* delete it */
	OP_SLICE,      /* put slice `name` of service `of` with `text` */
	OP_NO_SLICE,   /* delete it */
	OP_NODE,       /* put node `name` */
	OP_CIDR,       /* put ServiceCIDR `name` */
	OP_NO_CIDR,    /* delete it */
	OP_HOST,       /* addresses of the host: `text` */
	OP_SYNC,       /* clean all that is dirty */
	OP_STATS,      /* `text` is "services slices endpoints entries" */
	OP_TRIGGER,    /* `ret` is the trigger time of service `name` */
	OP_SINCE,      /* `ret` is when service `name` became dirty */
	OP_ENDPOINTS,  /* `ret` endpoints are selected for the first port of `name`, IPv4 */
	OP_GENERATION, /* `ret` is env_generation */
};

struct step {
	enum op op;
	const char *name;
	const char *of;
	const char *text;
	int ret;
	const char *dirty; /* after the step; NULL: not checked */
};

#define STEPS 16
#define WEB "ip=10.96.0.1 port=http:80 "
#define API "ip=10.96.0.2 port=http:80 "

#define SERVICE(n, t, r, d)                  \
	{                                    \
		OP_SERVICE, n, NULL, t, r, d \
	}
#define NO_SERVICE(n, r, d)                        \
	{                                          \
		OP_NO_SERVICE, n, NULL, NULL, r, d \
	}
#define SLICE(n, of, t, r, d)            \
	{                                \
		OP_SLICE, n, of, t, r, d \
	}
#define NO_SLICE(n, r, d)                        \
	{                                        \
		OP_NO_SLICE, n, NULL, NULL, r, d \
	}
#define SYNC                                     \
	{                                        \
		OP_SYNC, NULL, NULL, NULL, 0, "" \
	}
#define STATS(t)                                 \
	{                                        \
		OP_STATS, NULL, NULL, t, 0, NULL \
	}
#define ENDPOINTS(n, r)                              \
	{                                            \
		OP_ENDPOINTS, n, NULL, NULL, r, NULL \
	}

static const struct {
	const char *name;
	struct step steps[STEPS];
} scripts[] = {
	{ "IN-14, T-045: a slice waits for its service",
	  { SLICE("web-1", "web", "| http:80 | 1 rs", 0, ""), STATS("0 1 1 1"),
	    SERVICE("web", WEB, 1, "web"), ENDPOINTS("web", 1), SYNC } },
	{ "T-045: the service first",
	  { SERVICE("web", WEB, 1, "web"), SYNC,
	    SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"), ENDPOINTS("web", 1) } },
	{ "IN-13, T-010: redelivery changes nothing",
	  { SERVICE("web", WEB "ext=192.0.2.1 ext=192.0.2.2", 1, "web"),
	    SLICE("web-1", "web", "version=1 | http:80 | 1 rs +a; 2 rs +b", 1, "web"), SYNC,
	    SERVICE("web", WEB "ext=192.0.2.1 ext=192.0.2.2", 0, ""),
	    SLICE("web-1", "web", "version=1 | http:80 | 1 rs +a; 2 rs +b", 0, ""),
	    STATS("1 1 2 1") } },
	{ "IN-32, T-042: order and versions are no change",
	  { SERVICE("web", WEB "ext=192.0.2.1 ext=192.0.2.2", 1, "web"),
	    SLICE("web-1", "web", "version=1 trigger=1 | http:80 x:1 | 1 rs +a +b; 2 rs", 1, "web"),
	    SYNC, SERVICE("web", WEB "ext=192.0.2.2 ext=192.0.2.1", 0, ""),
	    SLICE("web-1", "web", "version=2 trigger=2 | x:1 http:80 | 2 rs; 1 rs +b +a", 0,
		  "") } },
	{ "EPS-15: a touch makes a slice the newer one, as a restart would",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("a", "web", "version=1 | http:80 | 1 s; 2 rs", 1, "web"), SYNC,
	    SLICE("a", "web", "version=3 | http:80 | 1 s; 2 rs", 0, ""), /* no duplicate yet */
	    SLICE("b", "web", "version=2 | http:80 | 1 rs; 3 rs", 1, "web"), ENDPOINTS("web", 2),
	    SYNC, SLICE("b", "web", "version=4 | http:80 | 1 rs; 3 rs", 1, "web"),
	    ENDPOINTS("web", 3), SYNC,
	    SLICE("b", "web", "version=4 | http:80 | 1 rs; 3 rs", 0, "") } },
	{ "T-011, T-022: ports come and go",
	  { SERVICE("web", "ip=10.96.0.1 port=a:80", 1, "web"), SYNC,
	    SERVICE("web", "ip=10.96.0.1 port=a:80 port=b:81", 1, "web"), SYNC,
	    SERVICE("web", "ip=10.96.0.1 port=b:81", 1, "web"), SYNC,
	    SERVICE("web", "ip=10.96.0.1 port=b:81:30081", 1, "web"), SYNC } },
	{ "T-003, T-004, T-006: what is not proxied marks nothing",
	  { SERVICE("a", "port=http:80 headless", 0, ""),
	    SERVICE("b", WEB "type=ExternalName", 0, ""), SERVICE("c", WEB "label", 0, ""),
	    SERVICE("d", "ip=10.96.0.1", 0, ""), SLICE("a-1", "a", "| http:80 | 1 rs", 0, ""),
	    SERVICE("a", "port=http:81 headless", 0, ""), STATS("4 1 1 4"), NO_SERVICE("b", 0, ""),
	    STATS("3 1 1 3") } },
	{ "T-005, SEL-11: type flips",
	  { SERVICE("web", WEB "type=ExternalName", 0, ""), SERVICE("web", WEB, 1, "web"), SYNC,
	    SERVICE("web", "type=NodePort ip=10.96.0.1 port=http:80:30080", 1, "web"), SYNC,
	    SERVICE("web", WEB "type=ExternalName", 1, "web"), SYNC, STATS("1 0 0 1") } },
	{ "T-007: label comes and goes",
	  { SERVICE("web", WEB, 1, "web"), SYNC, SERVICE("web", WEB "label", 1, "web"), SYNC,
	    SERVICE("web", WEB, 1, "web") } },
	{ "T-008: a slice goes out of sight",
	  { SERVICE("web", WEB, 1, "web"), SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"),
	    SYNC, NO_SLICE("web-1", 1, "web"), ENDPOINTS("web", 0), STATS("1 0 0 1") } },
	{ "T-012: many added and deleted before a sync",
	  { SERVICE("a", WEB, 1, "a"), SERVICE("b", API, 1, "a b"), NO_SERVICE("a", 1, "a b"),
	    NO_SERVICE("b", 1, "a b"), STATS("0 0 0 2"), SYNC, STATS("0 0 0 0") } },
	{ "T-013: a slice of a family that the service has not",
	  { SERVICE("web", WEB, 1, "web"), SYNC,
	    SLICE("web-6", "web", "v6 | http:80 | 1 rs", 0, ""),
	    SERVICE("web", WEB "ip=fd00::1", 1, "web") } },
	{ "T-025: health check node port",
	  { SERVICE("web", WEB "type=LoadBalancer etp hc=345", 1, "web"), SYNC,
	    SERVICE("web", WEB "type=LoadBalancer etp hc=346", 1, "web"), SYNC,
	    SERVICE("web", WEB "hc=346", 1, "web") } },
	{ "IN-34, T-026: a slice without a label is ignored",
	  { SLICE("web-1", NULL, "| http:80 | 1 rs", 0, ""),
	    SLICE("web-1", "", "| http:80 | 1 rs", 0, ""), STATS("0 0 0 0") } },
	{ "IN-34: the label is taken away",
	  { SERVICE("web", WEB, 1, "web"), SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"),
	    SYNC, SLICE("web-1", NULL, "| http:80 | 1 rs", 1, "web"), ENDPOINTS("web", 0),
	    STATS("1 0 0 1") } },
	{ "IN-36, T-046: the label moves to another service",
	  { SERVICE("web", WEB, 1, "web"), SERVICE("api", API, 1, "web api"),
	    SLICE("x-1", "web", "| http:80 | 1 rs; 2 rs", 1, "web api"), SYNC,
	    SLICE("x-1", "api", "| http:80 | 1 rs; 2 rs", 1, "web api"), ENDPOINTS("web", 0),
	    ENDPOINTS("api", 2), STATS("2 1 2 2") } },
	{ "IN-36: to a service that is not there, and from it",
	  { SERVICE("web", WEB, 1, "web"), SLICE("x-1", "web", "| http:80 | 1 rs", 1, "web"), SYNC,
	    SLICE("x-1", "nobody", "| http:80 | 1 rs", 1, "web"), STATS("1 1 1 2"), SYNC,
	    SLICE("x-1", "web", "| http:80 | 1 rs", 1, "web"), STATS("1 1 1 1") } },
	{ "IN-37, T-043: unknown objects are deleted",
	  { NO_SLICE("web-1", 0, ""), NO_SERVICE("web", 0, ""), STATS("0 0 0 0"),
	    SLICE("web-1", "web", "| http:80 | 1 rs", 0, ""), NO_SERVICE("web", 0, ""),
	    NO_SLICE("web-2", 0, ""), STATS("0 1 1 1") } },
	{ "IN-37, EPS-20, T-040: slices go one after the other",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "| http:80 | 1 rs; 2 rs", 1, "web"),
	    SLICE("web-2", "web", "| http:80 | 3 rs; 4 rs", 1, "web"), SYNC, ENDPOINTS("web", 4),
	    NO_SLICE("web-1", 1, "web"), ENDPOINTS("web", 2), NO_SLICE("web-2", 1, "web"),
	    ENDPOINTS("web", 0), NO_SERVICE("web", 1, "web"), STATS("0 0 0 1"), SYNC,
	    STATS("0 0 0 0") } },
	{ "T-040: the service is removed first, slices stay",
	  { SERVICE("web", WEB, 1, "web"), SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"),
	    SYNC, NO_SERVICE("web", 1, "web"), SYNC, STATS("0 1 1 1"), NO_SLICE("web-1", 0, ""),
	    STATS("0 0 0 0") } },
	{ "T-041: update semantics",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "| http:80 | 1 rs; 2 rs", 1, "web"), SYNC,
	    SLICE("web-1", "web", "| http:81 | 1 rs; 2 rs", 1, "web"), ENDPOINTS("web", 2), SYNC,
	    SLICE("web-1", "web", "| other:81 | 1 rs; 2 rs", 1, "web"), ENDPOINTS("web", 0), SYNC,
	    SLICE("web-1", "web", "| http:81 | 1 rs; 2 rs; 3 rs", 1, "web"), ENDPOINTS("web", 3),
	    STATS("1 1 3 1") } },
	{ "EPS-16, T-044: a move between slices before one sync",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "| http:80 | 1 rs; 2 rs", 1, "web"),
	    SLICE("web-2", "web", "| http:80 |", 1, "web"), SYNC,
	    SLICE("web-2", "web", "| http:80 | 2 rs", 1, "web"), ENDPOINTS("web", 2),
	    SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"), ENDPOINTS("web", 2),
	    STATS("1 2 2 1") } },
	{ "a slice changes its family",
	  { SERVICE("web", WEB, 1, "web"), SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"),
	    SYNC, SLICE("web-1", "web", "v6 | http:80 | 1 rs", 1, "web"), ENDPOINTS("web", 0), SYNC,
	    SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"), ENDPOINTS("web", 1) } },
	{ "namespaces are apart",
	  { SERVICE("x/web", WEB, 1, "web"), SERVICE("y/web", API, 1, "web web"), SYNC,
	    SLICE("x/s", "web", "| http:80 | 1 rs", 1, "web"), ENDPOINTS("x/web", 1),
	    ENDPOINTS("y/web", 0), SLICE("y/s", "web", "| http:80 | 1 rs; 2 rs", 1, "web web"),
	    ENDPOINTS("x/web", 1), ENDPOINTS("y/web", 2), STATS("2 2 3 2") } },
	{ "dirty services keep the order of first change",
	  { SERVICE("b", WEB, 1, "b"), SERVICE("a", API, 1, "b a"),
	    SLICE("b-1", "b", "| http:80 | 1 rs", 1, "b a"), SYNC,
	    SLICE("b-1", "b", "| http:80 | 2 rs", 1, "b"), SERVICE("a", API "itp", 1, "b a"),
	    SERVICE("b", WEB "itp", 1, "b a") } },

	/* arrival and trigger times */
	{ "dirty since the oldest event",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "| http:80 | 1 rs", 1, "web"),
	    { OP_SINCE, "web", NULL, NULL, 1, NULL },
	    SYNC,
	    { OP_SINCE, "web", NULL, NULL, 0, NULL },
	    SLICE("web-1", "web", "| http:80 | 2 rs", 1, "web"),
	    { OP_SINCE, "web", NULL, NULL, 6, NULL } } },
	{ "IN-40, T-048: add t1, update t2, delete, add t3: t3 only",
	  { SERVICE("web", WEB, 1, "web"),
	    SYNC,
	    SLICE("web-1", "web", "trigger=101 | http:80 | 1 rs", 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 101, NULL },
	    SLICE("web-1", "web", "trigger=102 | http:80 | 2 rs", 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 101, NULL },
	    NO_SLICE("web-1", 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 0, NULL },
	    SLICE("web-1", "web", "trigger=103 | http:80 | 1 rs", 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 103, NULL },
	    SYNC,
	    { OP_TRIGGER, "web", NULL, NULL, 0, NULL } } },
	{ "MET-06: the oldest of several, absent ones aside",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "trigger=105 | http:80 | 1 rs", 1, "web"),
	    SLICE("web-2", "web", "trigger=103 | http:80 | 2 rs", 1, "web"),
	    SLICE("web-3", "web", "| http:80 | 3 rs", 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 103, NULL } } },
	{ "IN-40: a touch without a change has nothing to measure",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("web-1", "web", "trigger=101 | http:80 | 1 rs", 1, "web"),
	    SYNC,
	    SLICE("web-1", "web", "trigger=102 | http:80 | 1 rs", 0, ""),
	    { OP_TRIGGER, "web", NULL, NULL, 0, NULL } } },
	{ "IN-40: a slice before its service is measured from its own time",
	  { SLICE("web-1", "web", "trigger=101 | http:80 | 1 rs", 0, ""),
	    SERVICE("web", WEB, 1, "web"),
	    { OP_TRIGGER, "web", NULL, NULL, 101, NULL } } },
	{ "IN-40: a slice that moves away takes its sample along",
	  { SERVICE("web", WEB, 1, "web"),
	    SERVICE("api", API, 1, "web api"),
	    SYNC,
	    SLICE("x-1", "web", "trigger=101 | http:80 | 1 rs", 1, "web"),
	    SLICE("x-1", "api", "trigger=102 | http:80 | 1 rs", 1, "web api"),
	    { OP_TRIGGER, "web", NULL, NULL, 0, NULL },
	    { OP_TRIGGER, "api", NULL, NULL, 102, NULL } } },

	/* the node and the environment */
	{ "IN-23, T-028, T-072: a zone change marks what has zone hints, once",
	  { SERVICE("plain", WEB, 1, "plain"),
	    SLICE("p-1", "plain", "| http:80 | 1 rs %n1", 1, "plain"),
	    SERVICE("zoned", API, 1, "plain zoned"),
	    SLICE("z-1", "zoned", "| http:80 | 1 rs; 2 rs +a", 1, "plain zoned"),
	    SYNC,
	    { OP_NODE, "n1", NULL, "zone=a", 1, "zoned" },
	    { OP_GENERATION, NULL, NULL, NULL, 2, NULL },
	    SYNC,
	    { OP_NODE, "n1", NULL, "zone=a", 0, "" },
	    { OP_NODE, "n1", NULL, "zone=b", 1, "zoned" },
	    { OP_GENERATION, NULL, NULL, NULL, 3, NULL } } },
	{ "IN-22: an empty zone is no zone",
	  { SERVICE("zoned", API, 1, "zoned"),
	    SLICE("z-1", "zoned", "| http:80 | 2 rs +a", 1, "zoned"),
	    SYNC,
	    { OP_NODE, "n1", NULL, "", 1, "" },
	    { OP_NODE, "n1", NULL, "zone=", 1, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 1, NULL } } },
	{ "other nodes are ignored",
	  { SERVICE("web", WEB, 1, "web"),
	    SLICE("z-1", "web", "| http:80 | 2 rs +a", 1, "web"),
	    SYNC,
	    { OP_NODE, "n2", NULL, "zone=a", 0, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 1, NULL } } },
	{ "HC-08: eligibility matters, but to no service",
	  { SERVICE("web", "type=NodePort ip=10.96.0.1 port=http:80:30080", 1, "web"),
	    SYNC,
	    { OP_NODE, "n1", NULL, "", 1, "" },
	    { OP_NODE, "n1", NULL, "taint", 1, "" },
	    { OP_NODE, "n1", NULL, "deleting", 1, "" },
	    { OP_NODE, "n1", NULL, "deleting", 0, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 1, NULL } } },
	{ "IN-25, LIFE-16: a new node address marks node ports and source ranges",
	  { SERVICE("np", "type=NodePort ip=10.96.0.1 port=http:80:30080", 1, "np"),
	    SERVICE("lb", API "vip=192.0.2.1 range=10.0.0.0/8", 1, "np lb"),
	    SERVICE("ci", "ip=10.96.0.3 port=http:80", 1, "np lb ci"),
	    SYNC,
	    { OP_NODE, "n1", NULL, "addr=10.0.0.5", 1, "lb np" },
	    SYNC,
	    { OP_NODE, "n1", NULL, "addr=10.0.0.5 addr=10.0.0.6", 1, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 2, NULL } } },
	{ "IN-28, IN-29, T-029: ServiceCIDRs change the environment, no service",
	  { SERVICE("np", "type=NodePort ip=10.96.0.1 port=http:80:30080", 1, "np"),
	    SYNC,
	    { OP_CIDR, "k", NULL, "10.96.0.0/16 fd00::/112", 1, "" },
	    { OP_CIDR, "k", NULL, "fd00::/112 10.96.0.0/16", 0, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 2, NULL },
	    { OP_CIDR, "l", NULL, "10.96.0.0/16", 0, "" }, /* IN-27: in two objects now */
	    { OP_NO_CIDR, "l", NULL, NULL, 0, "" },
	    { OP_NO_CIDR, "m", NULL, NULL, 0, "" },
	    { OP_NO_CIDR, "k", NULL, NULL, 1, "" },
	    { OP_GENERATION, NULL, NULL, NULL, 3, NULL } } },
	{ "SVC-12: host addresses, seen by the primary rule without a Node",
	  { SERVICE("np", "type=NodePort ip=10.96.0.1 port=http:80:30080", 1, "np"),
	    SYNC,
	    { OP_HOST, NULL, NULL, "127.0.0.1 10.0.0.7", 1, "np" },
	    SYNC,
	    { OP_HOST, NULL, NULL, "127.0.0.1 10.0.0.7", 0, "" },
	    { OP_HOST, NULL, NULL, "127.0.0.1 10.0.0.7 10.0.0.8", 0, "" },
	    { OP_HOST, NULL, NULL, "10.0.0.8 10.0.0.7", 1, "np" } } },
};

/* --- running scripts ---------------------------------------------------------------------- */

/* "ns/name" or "name"; the namespace is then that of objects.h. */
static struct svc *find(const struct model *m, const char *key)
{
	const char *slash = strchr(key, '/');
	char ns[32] = "default";

	if (slash != NULL)
		(void)snprintf(ns, sizeof(ns), "%.*s", (int)(slash - key), key);
	return model_find_text(m, ns, slash ? slash + 1 : key);
}

static void key_split(const struct name **ns, const struct name **name, const char *key)
{
	const char *slash = strchr(key, '/');

	*ns = slash ? name_get(key, (size_t)(slash - key)) : name_get_str("default");
	*name = name_get_str(slash ? slash + 1 : key);
}

static int run_delete(struct model *m, const struct step *s, uint64_t at)
{
	const struct name *ns;
	const struct name *name;
	int r;

	key_split(&ns, &name, s->name);
	if (s->op == OP_NO_SERVICE)
		r = model_del_service(m, ns, name, at);
	else if (s->op == OP_NO_SLICE)
		r = model_del_slice(m, ns, name, at);
	else
		r = model_del_service_cidr(m, name, at);
	name_unref(ns);
	name_unref(name);
	return r;
}

static int run_host(struct model *m, const struct step *s, uint64_t at)
{
	struct ip_addr addrs[8];
	size_t n = 0;
	char *copy = xstrdup(s->text);
	char *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		addrs[n++] = test_addr(w);
	free(copy);
	return model_put_host_addrs(m, addrs, n, 0, at);
}

static int run_stats(const struct model *m, const struct step *s)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%zu %zu %zu %zu", m->stats.services, m->stats.slices,
		       m->stats.endpoints, m->services.count);
	assert_string_equal(text, s->text);
	assert_int_equal(m->slices.count, m->stats.slices);
	return 0;
}

static int run_endpoints(const struct model *m, const struct step *s)
{
	struct selection sel;
	size_t n;

	select_endpoints(&sel, m, find(m, s->name), 0, IPFAM_V4);
	n = sel.n_cluster;
	selection_fini(&sel);
	return (int)n;
}

static int run_step(struct model *m, const struct step *s, uint64_t at)
{
	switch (s->op) {
	case OP_SERVICE:
		return model_put_service(m, test_service(s->name, s->text), at);
	case OP_SLICE:
		return model_put_slice(m, test_slice(s->name, s->of, s->text), at);
	case OP_NODE:
		return model_put_node(m, test_node(s->name, s->text), at);
	case OP_CIDR:
		return model_put_service_cidr(m, test_service_cidr(s->name, s->text), at);
	case OP_NO_SERVICE:
	case OP_NO_SLICE:
	case OP_NO_CIDR:
		return run_delete(m, s, at);
	case OP_HOST:
		return run_host(m, s, at);
	case OP_SYNC:
		while (!list_is_empty(&m->dirty))
			model_clean(m, list_entry(m->dirty.next, struct svc, dirty));
		return 0;
	case OP_STATS:
		return run_stats(m, s);
	case OP_TRIGGER:
		return (int)find(m, s->name)->trigger_ns;
	case OP_SINCE:
		return (int)find(m, s->name)->dirty_since_ns;
	case OP_ENDPOINTS:
		return run_endpoints(m, s);
	case OP_GENERATION:
		return (int)m->env_generation;
	case OP_END:
		break;
	}
	fail();
	return 0;
}

static void check_dirty(const struct model *m, const char *want)
{
	struct str text = { 0 };

	list_for_each (l, &m->dirty) {
		const struct svc *svc = list_entry(l, struct svc, dirty);

		str_printf(&text, "%s%s", text.len > 0 ? " " : "", svc->name->text);
		assert_true(svc->dirty_since_ns > 0);
	}
	assert_string_equal(str_text(&text), want);
	str_fini(&text);
}

static void model_open(struct model *m)
{
	model_init(m);
	m->config.node_name = name_get_str("n1");
	model_configured(m);
}

static void test_scripts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct model m;

		print_message("    %s\n", scripts[i].name);
		model_open(&m);
		for (size_t k = 0; k < STEPS && scripts[i].steps[k].op != OP_END; k++) {
			const struct step *s = &scripts[i].steps[k];

			assert_int_equal(run_step(&m, s, k + 1), s->ret);
			if (s->dirty != NULL)
				check_dirty(&m, s->dirty);
		}
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

/* --- what scripts cannot say ------------------------------------------------------------------ */

/* IN-37: an entry lives as long as the plan has rows of it. */
static void test_rows_keep_the_entry(void **state)
{
	struct model m;
	struct svc *svc;
	int rows;

	(void)state;
	model_open(&m);
	model_put_service(&m, test_service("web", WEB), 1);
	svc = find(&m, "web");
	svc->rows = &rows;
	model_clean(&m, svc);
	assert_int_equal(run_delete(&m, &(struct step)NO_SERVICE("web", 1, NULL), 2), 1);
	check_dirty(&m, "web");
	model_clean(&m, svc);
	assert_ptr_equal(find(&m, "web"), svc); /* its rows are still programmed */
	model_mark_dirty(&m, svc, 3);
	svc->rows = NULL;
	model_reap(&m, svc);
	assert_ptr_equal(find(&m, "web"), svc); /* dirty */
	model_clean(&m, svc);
	assert_null(find(&m, "web"));
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* A service that is no longer proxied is dirty while its rows are programmed. */
static void test_rows_make_a_change_matter(void **state)
{
	struct model m;
	struct svc *svc;
	int rows;

	(void)state;
	model_open(&m);
	model_put_service(&m, test_service("web", WEB "headless"), 1);
	svc = find(&m, "web");
	check_dirty(&m, "");
	svc->rows = &rows;
	assert_int_equal(model_put_service(&m, test_service("web", WEB "headless itp"), 2), 1);
	check_dirty(&m, "web");
	svc->rows = NULL;
	model_fini(&m);
}

/* Services whose cluster IP becomes an address of this host, or ceases to be one, are marked in
 * order of name. */
static void test_host_cluster_ips(void **state)
{
	struct ip_addr addrs[9];
	struct model m;

	(void)state;
	model_open(&m);
	for (int i = 0; i < 8; i++) {
		char name[2] = { (char)("hcafgbed"[i]), '\0' };
		char text[64];

		(void)snprintf(text, sizeof(text), "ip=10.96.1.%d port=http:80", i + 1);
		model_put_service(&m, test_service(name, text), 1);
		(void)snprintf(text, sizeof(text), "10.96.1.%d", i + 1);
		addrs[i] = test_addr(text);
		model_clean(&m, find(&m, name));
	}
	assert_int_equal(model_put_host_addrs(&m, addrs, 8, 8, 2), 1);
	check_dirty(&m, "a b c d e f g h");
	while (!list_is_empty(&m.dirty))
		model_clean(&m, list_entry(m.dirty.next, struct svc, dirty));
	/* The same addresses in another order, and one that is no cluster IP */
	addrs[8] = addrs[0];
	addrs[0] = addrs[1];
	addrs[1] = addrs[8];
	assert_int_equal(model_put_host_addrs(&m, addrs, 8, 8, 3), 0);
	addrs[8] = test_addr("10.96.1.9");
	assert_int_equal(model_put_host_addrs(&m, addrs, 9, 9, 4), 0);
	assert_int_equal(m.host_sorted.n, 9);
	addrs[8] = addrs[7]; /* of two interfaces: no other address, so no service is looked at */
	assert_int_equal(model_put_host_addrs(&m, addrs, 9, 9, 4), 0);
	assert_int_equal(m.host_sorted.n, 8);
	addrs[8] = test_addr("10.96.1.9");
	assert_int_equal(model_put_host_addrs(&m, addrs, 9, 9, 4), 0);
	check_dirty(&m, "");
	/* 10.96.1.8 and 10.96.1.9 are gone: the first one is of service d. */
	assert_int_equal(model_put_host_addrs(&m, addrs, 7, 7, 5), 1);
	check_dirty(&m, "d");
	/* The cluster IP of service h is expected. */
	assert_non_null(model_host_cluster_ip(&m, find(&m, "h")->service));
	model_expect_host_addrs(&m, &addrs[1], 1);
	assert_null(model_host_cluster_ip(&m, find(&m, "h")->service));
	assert_true(model_is_host_addr(&m, &addrs[1]));
	model_fini(&m);
}

static void test_mark_is_idempotent(void **state)
{
	struct model m;
	struct svc *svc;

	(void)state;
	model_open(&m);
	model_put_service(&m, test_service("web", WEB), 5);
	svc = find(&m, "web");
	model_mark_dirty(&m, svc, 9);
	check_dirty(&m, "web");
	assert_int_equal(svc->dirty_since_ns, 5); /* the oldest counts */
	model_clean(&m, svc);
	model_mark_dirty(&m, svc, 0); /* "unknown" is not "clean" */
	assert_int_not_equal(svc->dirty_since_ns, 0);
	model_fini(&m);
}

static void test_find(void **state)
{
	struct model m;
	struct svc *svc;
	struct slice_entry *entry;
	size_t names;

	(void)state;
	model_open(&m);
	model_put_service(&m, test_service("shop/web", WEB), 1);
	model_put_slice(&m, test_slice("shop/web-1", "web", "| http:80 | 1 rs"), 1);
	names = name_count();
	svc = model_find_text(&m, "shop", "web");
	assert_non_null(svc);
	assert_ptr_equal(model_find(&m, svc->ns, svc->name), svc);
	assert_null(model_find(&m, svc->name, svc->ns));
	assert_null(model_find_text(&m, "shop", "api"));
	assert_null(model_find_text(&m, "nowhere", "web"));
	assert_null(model_find_text(&m, "", ""));
	assert_int_equal(name_count(), names); /* a lookup creates no name */
	entry = list_entry(svc->slices.next, struct slice_entry, link);
	assert_ptr_equal(model_find_slice(&m, entry->slice->ns, entry->slice->name), entry);
	assert_ptr_equal(entry->svc, svc);
	assert_null(model_find_slice(&m, svc->ns, svc->name));
	model_fini(&m);
}

/* By namespace, then name; slices of a service by name, for any order of arrival. */
static void test_sorted(void **state)
{
	static const char *const keys[] = { "b/a", "a/z", "b", "a/a", "ab/a", "b/b" };
	static const char *const sorted[] = { "a/a", "a/z", "ab/a", "b/a", "b/b", "default/b" };
	static const char *const slices[] = { "b/s5", "b/s1", "b/s9", "b/s3", "b/s10" };
	static const char *const slices_sorted[] = { "s1", "s10", "s3", "s5", "s9" };
	struct model m;
	struct svc **v;
	size_t n;

	(void)state;
	model_open(&m);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		model_put_service(&m, test_service(keys[i], WEB), 1);
	v = model_sorted(&m, &n);
	assert_int_equal(n, ARRAY_SIZE(sorted));
	for (size_t i = 0; i < n; i++) {
		char key[64];

		(void)snprintf(key, sizeof(key), "%s/%s", v[i]->ns->text, v[i]->name->text);
		assert_string_equal(key, sorted[i]);
	}
	free(v);
	for (size_t i = 0; i < ARRAY_SIZE(slices); i++)
		model_put_slice(&m, test_slice(slices[i], "a", "| http:80 | 1 rs"), 1);
	n = 0;
	list_for_each (l, &model_find_text(&m, "b", "a")->slices)
		assert_string_equal(list_entry(l, struct slice_entry, link)->slice->name->text,
				    slices_sorted[n++]);
	assert_int_equal(n, ARRAY_SIZE(slices));
	model_fini(&m);
}

static void test_empty(void **state)
{
	struct model m;
	size_t n = 1;

	(void)state;
	model_init(&m);
	free(model_sorted(&m, &n));
	assert_int_equal(n, 0);
	assert_null(model_find_text(&m, "a", "b"));
	assert_true(list_is_empty(&m.dirty));
	assert_int_equal(m.env_generation, 0);
	model_configured(&m);
	assert_int_equal(m.env_generation, 1);
	assert_int_equal(model_put_node(&m, test_node("n1", "zone=a"), 1),
			 0); /* no node name is this node */
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* Addresses of all slices, of any service, in any condition. */
static void test_addrs(void **state)
{
	struct ip_addr one = test_addr("10.0.1.1");
	struct ip_addr two = test_addr("10.0.1.2");
	const struct name *ns = name_get_str("default");
	const struct name *name = name_get_str("a1");
	struct model m;

	model_init(&m);
	m.config.tracks_addrs = true;
	model_configured(&m);
	assert_false(model_has_addr(&m, &one));
	model_put_slice(&m, test_slice("a1", "a", "| x:1 | 1 t; 1 rs"), 1);
	model_put_slice(&m, test_slice("b1", "b", "| x:1 | 1 rs; 2 rs"), 1);
	assert_true(model_has_addr(&m, &one));
	assert_true(model_has_addr(&m, &two));
	model_put_slice(&m, test_slice("b1", "c", "| x:1 | 1 rs"), 1); /* moved, and smaller */
	assert_true(model_has_addr(&m, &one));
	assert_false(model_has_addr(&m, &two));
	model_put_slice(&m, test_slice("b1", "c", "| x:1 | 2 rs"), 1);
	assert_true(model_has_addr(&m, &one));
	model_del_slice(&m, ns, name, 1);
	assert_false(model_has_addr(&m, &one));
	assert_true(model_has_addr(&m, &two));
	name_unref(ns);
	name_unref(name);
	model_fini(&m);
}

/* A slice of `n` endpoints from address `from` on, every second address. */
static struct slice *wide_slice(const char *name, int from, int n, int version)
{
	struct str text = { 0 };
	struct slice *s;

	str_printf(&text, "version=%d | x:1 |", version);
	for (int i = 0; i < n; i++)
		str_printf(&text, "%s %d rs", i > 0 ? ";" : "", from + 2 * i);
	s = test_slice(name, "web", str_text(&text));
	str_fini(&text);
	return s;
}

/*
 * EPS-15: a new version of a slice matters if it has an address of another one. A slice with one
 * address is searched in those with many; of two with many, each address is visited once.
 */
static void test_versions(void **state)
{
	enum {
		SLICES = 10,
		MANY = 120
	};
	struct model m;
	uint64_t was;

	model_init(&m);
	model_configured(&m);
	model_put_service(&m, test_service("web", WEB), 1);
	for (int i = 0; i < SLICES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "m%d", i);
		model_put_slice(&m, wide_slice(name, 1, MANY, 1), 1);
	}
	model_put_slice(&m, wide_slice("few", 100, 1, 1), 1);
	for (int version = 2; version < 4; version++) {
		was = m.stats.addrs_compared;
		assert_int_equal(model_put_slice(&m, wide_slice("few", 100, 1, version), 1), 0);
		assert_in_range(m.stats.addrs_compared - was, SLICES, SLICES * 10);
	}
	assert_int_equal(model_put_slice(&m, wide_slice("m0", 1, MANY, 2), 1), 1);
	model_put_slice(&m, wide_slice("few", 2, MANY, 1), 1);
	was = m.stats.addrs_compared;
	assert_int_equal(model_put_slice(&m, wide_slice("few", 2, MANY, 2), 1), 0);
	assert_in_range(m.stats.addrs_compared - was, SLICES * MANY, SLICES * 2 * MANY);
	for (int at = 1; at < 2 * MANY; at += 2) { /* found everywhere */
		model_put_slice(&m, wide_slice("few", at, 1, 1), 1);
		assert_int_equal(model_put_slice(&m, wide_slice("few", at, 1, 2), 1), 1);
	}
	model_fini(&m);
}

#define LISTED 12

/* The objects of one kind by number: in the model, and in the list so far. */
struct listed {
	enum object_kind kind;
	bool exists[LISTED];
	bool is_listed[LISTED];
};

static void listed_change(struct model *m, struct listed *l, struct rng *r)
{
	size_t i = rng_below(r, LISTED);
	const struct name *ns = name_get_str("default");
	const struct name *of;
	char name[16];

	(void)snprintf(name, sizeof(name), "o%zu", i);
	of = name_get_str(name);
	switch (rng_below(r, 4)) {
	case 0:
		assert_int_equal(model_list_keep(m, l->kind, ns, of), l->exists[i]);
		l->is_listed[i] = l->exists[i];
		break;
	case 1:
		(void)model_del(m, l->kind, ns, of, 1);
		l->exists[i] = l->is_listed[i] = false;
		break;
	default:
		if (l->kind == OBJECT_KIND_SERVICE)
			(void)model_put_service(m, test_service(name, "ip=10.96.0.1 port=http:80"),
						1);
		else
			(void)model_put_slice(m, test_slice(name, "web", "| http:80 | 1 rs"), 1);
		l->exists[i] = l->is_listed[i] = true;
	}
	name_unref(of);
	name_unref(ns);
}

static void listed_end(struct model *m, struct listed *l)
{
	size_t n = 0;

	(void)model_list_end(m, l->kind, 1);
	memcpy(l->exists, l->is_listed, sizeof(l->exists));
	for (size_t i = 0; i < LISTED; i++)
		n += l->exists[i];
	assert_int_equal(l->kind == OBJECT_KIND_SERVICE ? m->stats.services : m->stats.slices, n);
	assert_int_equal(m->n_unlisted[l->kind], 0);
}

/* IN-12, with events before, in and after lists, and lists that do not end. */
static void test_lists(void **state)
{
	struct rng r = { 17 };

	(void)state;
	for (int round = 0; round < 400; round++) {
		struct listed l = { round % 2 ? OBJECT_KIND_SERVICE : OBJECT_KIND_SLICE };
		struct model m;

		model_open(&m);
		/* Entries of services, some of them without a Service */
		for (size_t i = 0; i < LISTED / 2 && round % 4 == 3; i++) {
			char names[2][16];

			(void)snprintf(names[0], sizeof(names[0]), "s%zu", i);
			(void)snprintf(names[1], sizeof(names[1]), "o%zu", i);
			model_put_slice(&m, test_slice(names[0], names[1], "| http:80 | 1 rs"), 1);
		}
		for (int list = 0; list < 6; list++) {
			for (size_t n = rng_below(&r, 20); n > 0; n--)
				listed_change(&m, &l, &r);
			if (list > 0 && rng_below(&r, 3) > 0)
				listed_end(&m, &l);
			for (size_t n = rng_below(&r, 5); n > 0; n--)
				listed_change(&m, &l, &r);
			model_list_begin(&m, l.kind);
			memset(l.is_listed, 0, sizeof(l.is_listed));
		}
		model_fini(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_rows_keep_the_entry),
		cmocka_unit_test(test_rows_make_a_change_matter),
		cmocka_unit_test(test_host_cluster_ips),
		cmocka_unit_test(test_mark_is_idempotent),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_addrs),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
