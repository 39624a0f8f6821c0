/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model - the tables of objects, and the rules that mark services dirty.
 *
 * Marking too much only costs an empty diff; marking too little leaves stale state in the kernel.
 * So every change of a service that is or was proxied marks it, unless the change is clearly
 * irrelevant. Names are interned: keys are pairs of pointers.
 */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/drain.h"
#include "model/eject.h"
#include "model/private.h"
#include "model/select.h"
#include "model/track.h"

/* --- entries -------------------------------------------------------------------- */

struct svc *model_find(const struct model *m, const struct name *ns, const struct name *name)
{
	return htable_find(&m->services, name_pair_hash(ns, name), struct svc, svc,
			   svc->ns == ns && svc->name == name);
}

struct svc *model_find_text(const struct model *m, const char *ns, const char *name)
{
	const struct name *a = name_find(ns, strlen(ns));
	const struct name *b = name_find(name, strlen(name));

	return a != NULL && b != NULL ? model_find(m, a, b) : NULL;
}

struct slice_entry *model_find_slice(const struct model *m, const struct name *ns,
				     const struct name *name)
{
	return htable_find(&m->slices, name_pair_hash(ns, name), struct slice_entry, e,
			   e->slice->ns == ns && e->slice->name == name);
}

/* Find or create the entry of a name. */
static struct svc *svc_get(struct model *m, const struct name *ns, const struct name *name)
{
	struct svc *svc = model_find(m, ns, name);

	if (svc != NULL)
		return svc;
	svc = xcalloc(1, sizeof(*svc));
	svc->ns = name_ref(ns);
	svc->name = name_ref(name);
	list_init(&svc->slices);
	htable_insert(&m->services, &svc->node, name_pair_hash(ns, name));
	list_add_tail(&m->all, &svc->all);
	return svc;
}

static void svc_free(struct model *m, struct svc *svc)
{
	htable_remove(&m->services, &svc->node);
	list_del(&svc->all);
	svc_track_close(svc);
	vec_fini(&svc->marks);
	name_pair_unref(svc->ns, svc->name);
	free(svc);
}

void model_reap(struct model *m, struct svc *svc)
{
	if (svc->service != NULL || svc->n_slices > 0 || svc->rows != NULL ||
	    list_is_linked(&svc->dirty))
		return;
	svc_free(m, svc);
}

static int svc_cmp(const void *va, const void *vb)
{
	const struct svc *a = *(struct svc *const *)va;
	const struct svc *b = *(struct svc *const *)vb;

	return name_pair_cmp(a->ns, a->name, b->ns, b->name);
}

struct svc **model_sorted(const struct model *m, size_t *n)
{
	struct svc **v = xreallocarray(NULL, m->services.count, sizeof(*v));
	size_t i = 0;

	/* An API server lists objects by name: in this order they are nearly sorted. */
	list_for_each_entry (svc, &m->all, struct svc, all)
		v[i++] = svc;
	qsort(v, i, sizeof(*v), svc_cmp);
	*n = i;
	return v;
}

/* --- dirty services --------------------------------------------------------------- */

/* Endpoints of `svc` changed: its frontends did not. */
static void mark_endpoints(struct model *m, struct svc *svc, uint64_t at_ns)
{
	bool was_dirty = list_is_linked(&svc->dirty);

	m->n_changed += svc->is_unchanged || !was_dirty;
	svc->is_unchanged = false;
	if (m->has_changes_first) {
		list_del(&svc->dirty);
		list_add_after(&m->dirty, &svc->dirty);
	} else if (!was_dirty) {
		list_add_tail(&m->dirty, &svc->dirty);
	}
	if (!was_dirty || svc->dirty_since_ns == 0) /* a load queues services without a change */
		svc->dirty_since_ns = MAX(at_ns, UINT64_C(1));
}

void model_mark_displaced(struct model *m, struct svc *svc)
{
	svc_track_end(svc);
	mark_endpoints(m, svc, 0);
}

void model_mark_dirty(struct model *m, struct svc *svc, uint64_t at_ns)
{
	svc->is_claimed = false;
	svc_track_end(svc);
	mark_endpoints(m, svc, at_ns);
}

void model_clean(struct model *m, struct svc *svc)
{
	list_del(&svc->dirty);
	svc->dirty_since_ns = 0;
	svc->trigger_ns = 0;
	model_reap(m, svc);
}

/* Mark every service that `does_depend` names, in order of name. Returns whether there is one. */
static int mark_if(struct model *m,
		   bool (*does_depend)(const struct model *m, const struct svc *svc,
				       const void *what),
		   const void *what, uint64_t at_ns)
{
	AUTO(vec_fini) VEC(struct svc *) found = { 0 };

	list_for_each_entry (svc, &m->all, struct svc, all)
		if (does_depend(m, svc, what))
			*vec_push(&found) = svc;
	vec_sort(&found, svc_cmp);
	vec_for_each (svc, &found)
		model_mark_dirty(m, *svc, at_ns);
	return found.n > 0;
}

/* An object is in the list, or goes. `no`: the last list with it. */
static void list_note(struct model *m, enum object_kind kind, uint32_t *no)
{
	m->n_unlisted[kind] -= *no != m->list_no[kind];
	*no = m->list_no[kind];
}

/* --- services ---------------------------------------------------------------------- */

/* The model has an object equal to `o`: refer to that one. */
static int object_replace(struct object *o, struct object by)
{
	by = object_ref(&by);
	object_fini(o);
	*o = by;
	return 0;
}

static void nodeports_note(struct model *m, const struct service *s)
{
	if (!service_is_proxied(s) || !vec_has(&s->ports, p, p->node_port != 0))
		return;
	for (int fam = 0; fam < IPFAM_N; fam++)
		m->has_nodeports[fam] |= service_has_family(s, fam);
}

static int service_put(struct model *m, struct object *o, uint64_t at_ns)
{
	struct service *s = o->service;
	struct svc *svc = svc_get(m, s->ns, s->name);
	struct service *old = svc->service;
	bool does_matter = service_is_proxied(old) || service_is_proxied(s) || svc->rows != NULL;

	m->stats.service_events++;
	if (old != NULL)
		list_note(m, OBJECT_KIND_SERVICE, &svc->list_no);
	else
		m->stats.services++;
	svc->list_no = m->list_no[OBJECT_KIND_SERVICE];
	service_normalise(s);
	if (old != NULL && service_is_equal(old, s))
		return object_replace(o, (struct object){ o->kind, .service = old });
	svc->service = object_ref(o).service;
	nodeports_note(m, svc->service);
	svc->service_no++;
	service_close(old);
	if (does_matter)
		model_mark_dirty(m, svc, at_ns);
	return does_matter;
}

static int service_del(struct model *m, const struct name *ns, const struct name *name,
		       uint64_t at_ns)
{
	struct svc *svc = model_find(m, ns, name);
	bool does_matter;

	m->stats.service_events++;
	if (svc == NULL || svc->service == NULL)
		return 0;
	does_matter = service_is_proxied(svc->service) || svc->rows != NULL;
	service_close(TAKE(svc->service));
	svc->service_no++;
	list_note(m, OBJECT_KIND_SERVICE, &svc->list_no);
	m->stats.services--;
	if (does_matter)
		model_mark_dirty(m, svc, at_ns);
	model_reap(m, svc); /* stays while dirty: the plan has to release rows and claims */
	return does_matter;
}

/* --- slices ------------------------------------------------------------------------- */

/* Can a change of a slice of family `fam` change the desired state of `svc`? */
static bool slice_does_matter(const struct svc *svc, enum ipfam fam)
{
	return service_is_proxied(svc->service) && service_has_family(svc->service, fam);
}

/*
 * One slice of so many is in svc->marks. The keyed hash of its name decides: no order of arrival
 * and no choice of names makes the way from any slice to the next mark long.
 */
#define SLICES_PER_MARK 16

static bool is_mark(const struct slice_entry *e)
{
	return e->slice->name->node.hash % SLICES_PER_MARK == 0;
}

static bool is_before(const struct slice_entry *a, const struct slice_entry *b)
{
	return strcmp(a->slice->name->text, b->slice->name->text) < 0;
}

static size_t marks_before(const struct svc *svc, const struct slice_entry *e)
{
	return bisect(svc->marks.n, i, is_before(svc->marks.v[i], e));
}

/*
 * Sort by name: results must not depend on the order of arrival. The API does not limit the number
 * of slices, so the search starts at the next mark.
 */
static void slice_link(struct svc *svc, struct slice_entry *e)
{
	size_t at = marks_before(svc, e);
	struct list *after = at < svc->marks.n ? svc->marks.v[at]->link.prev : svc->slices.prev;

	while (after != &svc->slices && !is_before(list_entry(after, struct slice_entry, link), e))
		after = after->prev;
	svc_track_end(svc);
	list_add_after(after, &e->link);
	if (is_mark(e))
		*vec_insert(&svc->marks, at) = e;
	e->svc = svc;
	svc->n_slices++;
}

/*
 * `svc` loses a slice. Pending latency samples cannot be attributed to the remaining
 * slices: drop them (IN-40). Returns 1 when the desired state may change.
 */
static int slice_unlink(struct model *m, struct slice_entry *e, uint64_t at_ns)
{
	struct svc *svc = TAKE(e->svc);
	bool does_matter = slice_does_matter(svc, e->slice->fam);

	svc_track_end(svc);
	list_del(&e->link);
	if (is_mark(e))
		vec_remove(&svc->marks, marks_before(svc, e));
	svc->n_slices--;
	svc->trigger_ns = 0;
	if (does_matter)
		mark_endpoints(m, svc, at_ns);
	model_reap(m, svc);
	return does_matter;
}

/*
 * Keep the oldest trigger whose change is still pending. A trigger from before the start is
 * not measured and must not hide one that is.
 */
static bool trigger_counts(const struct model *m, const struct svc *svc, int64_t trigger_ns)
{
	bool is_early = trigger_ns < m->config.triggers_since_ns;
	bool was_early = svc->trigger_ns < m->config.triggers_since_ns;

	if (svc->trigger_ns == 0 || is_early != was_early)
		return svc->trigger_ns == 0 || was_early;
	return trigger_ns < svc->trigger_ns;
}

/* The content of `e` is new to its service. */
static int slice_arrived(struct model *m, struct slice_entry *e, uint64_t at_ns)
{
	int64_t trigger_ns = e->slice->trigger_ns;
	struct svc *svc = e->svc;
	bool does_matter = slice_does_matter(svc, e->slice->fam);

	/* A slice may wait for its Service: the latency includes that delay (IN-14). */
	if ((does_matter || svc->service == NULL) && trigger_ns > 0 &&
	    trigger_counts(m, svc, trigger_ns))
		svc->trigger_ns = trigger_ns;
	if (does_matter)
		mark_endpoints(m, svc, at_ns);
	return does_matter;
}

static void slice_free(struct model *m, struct slice_entry *e)
{
	htable_remove(&m->slices, &e->node);
	list_note(m, OBJECT_KIND_SLICE, &e->list_no);
	m->stats.slices--;
	m->stats.endpoints -= e->slice->endpoints.n;
	addrs_remove(m, e->slice);
	slice_close(e->slice);
	free(e);
}

static int slice_put_new(struct model *m, struct slice *s, uint64_t at_ns)
{
	struct slice_entry *e = xcalloc(1, sizeof(*e));

	e->slice = s;
	e->list_no = m->list_no[OBJECT_KIND_SLICE];
	htable_insert(&m->slices, &e->node, name_pair_hash(s->ns, s->name));
	slice_link(svc_get(m, s->ns, s->service), e);
	m->stats.slices++;
	m->stats.endpoints += s->endpoints.n;
	addrs_add(m, s);
	return slice_arrived(m, e, at_ns);
}

/* The new content of a known slice; a moved label is a delete and an add (IN-36). */
static int slice_put_known(struct model *m, struct slice_entry *e, struct slice *s, uint64_t at_ns)
{
	struct slice *old = e->slice;
	bool was_family = old->fam != s->fam && slice_does_matter(e->svc, old->fam);
	bool has_moved = old->service != s->service;
	int moved = has_moved ? slice_unlink(m, e, at_ns) : 0;

	e->slice = s;
	m->stats.endpoints += s->endpoints.n;
	m->stats.endpoints -= old->endpoints.n;
	addrs_add(m, s);
	addrs_remove(m, old);
	if (has_moved)
		slice_link(svc_get(m, s->ns, s->service), e);
	else if (was_family)
		mark_endpoints(m, e->svc, at_ns);
	svc_track_slice(e, old);
	return slice_arrived(m, e, at_ns) || moved || was_family;
}

/* Of one event, 50 us. Beyond, endpoints are selected again: once for many events, in steps. */
#define SLICES_COMPARED_MAX 100
#define ADDRS_COMPARED_MAX 5000

/* Can the version of `e` decide between two endpoints? Also true if much must be compared. */
static bool does_version_matter(struct model *m, const struct slice_entry *e)
{
	const uint64_t max = m->stats.addrs_compared + ADDRS_COMPARED_MAX;

	if (!slice_does_matter(e->svc, e->slice->fam) || e->slice->endpoints.n == 0 ||
	    svc_track_has_none_twice(e->svc))
		return false;
	if (e->svc->n_slices > SLICES_COMPARED_MAX)
		return true;
	list_for_each_entry (other, &e->svc->slices, struct slice_entry, link)
		if (other != e &&
		    (m->stats.addrs_compared > max ||
		     slices_overlap(other->slice, e->slice, &m->stats.addrs_compared)))
			return true;
	return false;
}

/* Known content, with the version that a start would read: it ranks duplicates (EPS-15). */
static int slice_put_equal(struct model *m, struct slice_entry *e, struct object *o, uint64_t at_ns)
{
	if (o->slice->version == e->slice->version)
		return object_replace(o, (struct object){ o->kind, .slice = e->slice });
	slice_close(e->slice);
	e->slice = object_ref(o).slice;
	if (!does_version_matter(m, e))
		return 0;
	mark_endpoints(m, e->svc, at_ns);
	return 1;
}

static int slice_del(struct model *m, const struct name *ns, const struct name *name,
		     uint64_t at_ns)
{
	struct slice_entry *e = model_find_slice(m, ns, name);
	int r;

	m->stats.slice_events++;
	if (e == NULL)
		return 0;
	r = slice_unlink(m, e, at_ns);
	slice_free(m, e);
	return r;
}

static int slice_put(struct model *m, struct object *o, uint64_t at_ns)
{
	struct slice *s = o->slice;
	struct slice_entry *e = model_find_slice(m, s->ns, s->name);

	if (s->service == NULL || s->service->len == 0) /* IN-34; a label taken away: IN-36 */
		return e != NULL ? slice_del(m, s->ns, s->name, at_ns) : 0;
	m->stats.slice_events++;
	slice_normalise(s);
	if (e == NULL)
		return slice_put_new(m, object_ref(o).slice, at_ns);
	list_note(m, OBJECT_KIND_SLICE, &e->list_no);
	if (slice_is_equal(e->slice, s))
		return slice_put_equal(m, e, o, at_ns);
	return slice_put_known(m, e, object_ref(o).slice, at_ns);
}

/* --- environment ------------------------------------------------------------------------ */

/* Also a version that a tracked change replaced may have hints: they are in the sums. */
static bool has_zone_hints(const struct svc *svc)
{
	if (svc->track != NULL && svc->track->slices.n > 0)
		return true;
	list_for_each_entry (in, &svc->slices, struct slice_entry, link)
		if (vec_has(&in->slice->endpoints, e, e->place->zones.n > 0))
			return true;
	return false;
}

/* `what`: bits of enum env_change. The node's IP matters to source ranges (SVC-25), LIFE-16. */
static bool does_depend_on_env(const struct model *m, const struct svc *svc, const void *what)
{
	unsigned int changes = *(const unsigned int *)what;
	const struct service *s = svc->service;

	if (!service_is_proxied(s))
		return false;
	return ((changes & ENV_CHANGE_NODE_IP) != 0 && s->source_ranges.n > 0) ||
	       ((changes & ENV_CHANGE_NODEPORT_ADDRS) != 0 &&
		vec_has(&s->ports, p, p->node_port != 0)) ||
	       ((changes & ENV_CHANGE_ZONE) != 0 && has_zone_hints(svc));
}

/* Derive env again. Returns 1 when it changed; services that depend on it are then marked. */
static int env_update(struct model *m, uint64_t at_ns)
{
	struct model_env env = { 0 };
	unsigned int changes;

	env_derive(&env, m);
	changes = env_diff(&m->env, &env);
	if (changes == 0) {
		env_fini(&env);
		return 0;
	}
	env_fini(&m->env);
	m->env = env;
	m->env_generation++;
	if ((changes & ~(unsigned int)ENV_CHANGE_PLANE) != 0)
		(void)mark_if(m, does_depend_on_env, &changes, at_ns);
	return 1;
}

/* IN-24. A kubelet creates its Node without what controllers assign; they do later. */
static void node_fill(struct node *n, const struct node *last)
{
	if (n->addrs.n == 0)
		vec_append(&n->addrs, &last->addrs);
	if (n->pod_cidrs.n == 0)
		vec_append(&n->pod_cidrs, &last->pod_cidrs);
}

static int node_put(struct model *m, struct object *o, uint64_t at_ns)
{
	struct node *n = o->node;

	node_normalise(n);
	if (m->config.node_name == NULL || n->name != m->config.node_name)
		return 0;
	if (m->has_node_list && m->self != NULL)
		node_fill(n, m->self);
	if (m->self != NULL && node_is_equal(m->self, n))
		return 0;
	node_close(m->self);
	m->self = object_ref(o).node;
	env_update(m, at_ns);
	return 1; /* eligibility may have changed, even if env did not (HC-08) */
}

static int node_del(struct model *m, const struct name *name)
{
	if (m->self == NULL || m->self->name != name || m->self->is_deleting)
		return 0;
	m->self->is_deleting = true;
	return 1;
}

static struct service_cidr **service_cidr_find(struct model *m, const struct name *name)
{
	return vec_find(&m->service_cidrs, c, (*c)->name == name);
}

static int service_cidr_put(struct model *m, struct object *o, uint64_t at_ns)
{
	struct service_cidr **known = service_cidr_find(m, o->cidr->name);

	if (known != NULL)
		service_cidr_close(*known);
	else
		known = vec_push(&m->service_cidrs);
	*known = object_ref(o).cidr;
	return env_update(m, at_ns);
}

static int service_cidr_del(struct model *m, const struct name *name, uint64_t at_ns)
{
	struct service_cidr **known = service_cidr_find(m, name);

	if (known == NULL)
		return 0;
	service_cidr_close(*known);
	*known = m->service_cidrs.v[--m->service_cidrs.n];
	return env_update(m, at_ns);
}

bool model_is_host_addr(const struct model *m, const struct ip_addr *a)
{
	return vec_search(&m->host_sorted, a, ip_addr_cmp) != NULL;
}

const struct ip_addr *model_host_cluster_ip(const struct model *m, const struct service *s)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (service_has_family(s, fam) && model_is_host_addr(m, &s->cluster_ip[fam]) &&
		    !vec_has(&m->host_expected, a, ip_addr_is_equal(a, &s->cluster_ip[fam])))
			return &s->cluster_ip[fam];
	return NULL;
}

struct addrs {
	VEC(struct ip_addr) list; /* sorted */
};

/* Rows of a service depend on whether its cluster IP is a host address. `host`: earlier ones. */
static bool has_moved_cluster_ip(const struct model *m, const struct svc *svc, const void *host)
{
	const struct addrs *was = host;
	const struct service *s = svc->service;

	for (int fam = 0; s != NULL && fam < IPFAM_N; fam++) {
		const struct ip_addr *ip = &s->cluster_ip[fam];

		if (ip_is_set(ip) &&
		    model_is_host_addr(m, ip) != (vec_search(&was->list, ip, ip_addr_cmp) != NULL))
			return true;
	}
	return false;
}

/* --- objects ------------------------------------------------------------------------- */

/* Report an object event with result `r` and release its names. Returns `r`. */
static int event_report(struct model *m, struct model_event *event, int r)
{
	event->does_matter = r > 0;
	if (m->event != NULL)
		m->event(m->event_arg, event);
	name_pair_unref(event->ns, event->name);
	name_unref(event->service);
	return r;
}

/* `o` is put, or NULL: the object of the event is deleted. */
static int object_change(struct model *m, struct object *o, const struct model_event *e)
{
	switch (e->kind) {
	case OBJECT_KIND_SERVICE:
		return o != NULL ? service_put(m, o, e->at_ns)
				 : service_del(m, e->ns, e->name, e->at_ns);
	case OBJECT_KIND_SLICE:
		return o != NULL ? slice_put(m, o, e->at_ns)
				 : slice_del(m, e->ns, e->name, e->at_ns);
	case OBJECT_KIND_NODE:
		return o != NULL ? node_put(m, o, e->at_ns) : node_del(m, e->name);
	case OBJECT_KIND_SERVICE_CIDR:
		return o != NULL ? service_cidr_put(m, o, e->at_ns)
				 : service_cidr_del(m, e->name, e->at_ns);
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	return 0;
}

/* `event`: its kind, names and time are set. The names may be those of an object that goes. */
static int event_apply(struct model *m, struct object *o, struct model_event event)
{
	bool is_slice = event.kind == OBJECT_KIND_SLICE;
	const struct slice_entry *e = is_slice ? model_find_slice(m, event.ns, event.name) : NULL;
	int r;

	event.ns = name_ref(event.ns);
	event.name = name_ref(event.name);
	event.is_delete = o == NULL;
	event.endpoints_before = e != NULL ? e->slice->endpoints.n : 0;
	if (is_slice && o != NULL)
		event.service = name_ref(o->slice->service);
	else if (e != NULL)
		event.service = name_ref(e->slice->service);
	r = object_change(m, o, &event);
	e = is_slice ? model_find_slice(m, event.ns, event.name) : NULL;
	event.endpoints_after = e != NULL ? e->slice->endpoints.n : 0;
	return event_report(m, &event, r);
}

int model_put(struct model *m, struct object *o, uint64_t at_ns)
{
	return event_apply(m, o,
			   (struct model_event){ .kind = o->kind,
						 .ns = o->head->ns,
						 .name = o->head->name,
						 .at_ns = at_ns });
}

int model_del(struct model *m, enum object_kind kind, const struct name *ns,
	      const struct name *name, uint64_t at_ns)
{
	return event_apply(
		m, NULL,
		(struct model_event){ .kind = kind, .ns = ns, .name = name, .at_ns = at_ns });
}

int model_put_host_addrs(struct model *m, const struct ip_addr *addrs, size_t n, size_t n_service,
			 uint64_t at_ns)
{
	struct model_event event = { .kind = OBJECT_KIND_OTHER, .at_ns = at_ns };
	AUTO(vec_fini) struct addrs was = { 0 };
	int r = 0;

	vec_move(&was.list, &m->host_sorted);
	vec_clear(&m->host_addrs);
	for (size_t i = 0; i < n; i++)
		*vec_push(&m->host_sorted) = addrs[i];
	for (size_t i = 0; i < n - n_service; i++)
		*vec_push(&m->host_addrs) = addrs[i];
	vec_sort(&m->host_sorted, ip_addr_cmp);
	vec_keep(&m->host_sorted, a, a == m->host_sorted.v || !ip_addr_is_equal(a - 1, a));
	if (!vec_is_equal(&was.list, &m->host_sorted))
		r = mark_if(m, has_moved_cluster_ip, &was, at_ns);
	return event_report(m, &event, env_update(m, at_ns) | r);
}

void model_expect_host_addrs(struct model *m, const struct ip_addr *addrs, size_t n)
{
	vec_clear(&m->host_expected);
	for (size_t i = 0; i < n; i++)
		*vec_push(&m->host_expected) = addrs[i];
}

bool model_await_node(struct model *m, bool is_awaited, uint64_t at_ns)
{
	bool is_new = m->is_node_awaited != is_awaited;

	m->has_node_list = true;
	m->is_node_awaited = is_awaited;
	(void)env_update(m, at_ns);
	return is_new;
}

bool model_await_service_cidrs(struct model *m, bool is_awaited, uint64_t at_ns)
{
	bool is_new = m->are_cidrs_awaited != is_awaited;

	m->are_cidrs_awaited = is_awaited;
	(void)env_update(m, at_ns);
	return is_new;
}

/* --- lists ------------------------------------------------------------------------------ */

void model_list_begin(struct model *m, enum object_kind kind)
{
	m->list_no[kind]++;
	m->n_unlisted[kind] = kind == OBJECT_KIND_SLICE ? m->stats.slices : m->stats.services;
}

bool model_list_keep(struct model *m, enum object_kind kind, const struct name *ns,
		     const struct name *name)
{
	struct slice_entry *e = kind == OBJECT_KIND_SLICE ? model_find_slice(m, ns, name) : NULL;
	struct svc *svc = kind == OBJECT_KIND_SERVICE ? model_find(m, ns, name) : NULL;
	bool has_service = svc != NULL && svc->service != NULL;

	if (e != NULL || has_service)
		list_note(m, kind, e != NULL ? &e->list_no : &svc->list_no);
	return e != NULL || has_service;
}

/* Most lists lack no object: then the loops end at once. */
size_t model_list_end(struct model *m, enum object_kind kind, uint64_t at_ns)
{
	int n = 0;

	if (kind == OBJECT_KIND_SLICE)
		htable_for_each_entry_safe (e, tmp, &m->slices, const struct slice_entry) {
			if (m->n_unlisted[kind] == 0)
				break;
			if (e->list_no != m->list_no[kind])
				n += model_del(m, kind, e->slice->ns, e->slice->name, at_ns);
		}
	if (kind == OBJECT_KIND_SERVICE)
		htable_for_each_entry_safe (svc, tmp, &m->services, const struct svc) {
			if (m->n_unlisted[kind] == 0)
				break;
			if (svc->service != NULL && svc->list_no != m->list_no[kind])
				n += model_del(m, kind, svc->ns, svc->name, at_ns);
		}
	return (size_t)n;
}

/* --- life --------------------------------------------------------------------------------- */

void model_init(struct model *m)
{
	*m = (struct model){ 0 };
	list_init(&m->dirty);
	list_init(&m->all);
}

/* Generation 1 is the first: 0 in a plane means that it has applied none. */
void model_configured(struct model *m)
{
	env_update(m, 0);
	m->env_generation = 1;
}

void model_fini(struct model *m)
{
	m->addr_event = NULL; /* the subscriber may be closed */
	htable_for_each_entry_safe (e, next, &m->slices, struct slice_entry) {
		list_del(&e->link);
		slice_free(m, e);
	}
	htable_for_each_entry_safe (svc, next, &m->services, struct svc) {
		assert(svc->rows == NULL);
		list_del(&svc->dirty);
		service_close(svc->service);
		svc_free(m, svc);
	}
	htable_fini(&m->services);
	htable_fini(&m->slices);
	addrs_fini(&m->addrs);
	model_drains_fini(m);
	model_ejections_fini(m);
	node_close(m->self);
	vec_for_each (c, &m->service_cidrs)
		service_cidr_close(*c);
	vec_fini(&m->service_cidrs);
	vec_fini(&m->host_addrs);
	vec_fini(&m->host_sorted);
	vec_fini(&m->host_expected);
	free(m->client_ports);
	env_fini(&m->env);
	name_unref(m->config.node_name);
	vec_fini(&m->config.cluster_cidrs);
	vec_fini(&m->config.service_cidrs);
	vec_fini(&m->config.nodeport_cidrs);
}
