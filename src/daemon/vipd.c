/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vipd - the daemon: options, wiring, exit. The only file that knows every module.
 *
 *     sources --> model --> sync (plan --> plane) --> kernel
 *                   ^         \--> conntrack (helper process) --^
 *                   \----------- serve, for vipctl
 *
 * One thread, one event loop. A source that changed the model wakes the sync,
 * which does one transaction a turn until nothing is owed. Ending leaves the
 * kernel's state alone: traffic goes on (LIFE-21).
 */
#include <errno.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <event2/event.h>

#include "api/control.h"
#include "api/drain.h"
#include "api/monitor.h"
#include "base/log.h"
#include "base/str.h"
#include "cleanup/kube_proxy.h"
#include "conntrack/conntrack.h"
#include "daemon/config.h"
#include "daemon/doctor.h"
#include "daemon/lock.h"
#include "daemon/options.h"
#include "daemon/outside.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/nft/plane_nft.h"
#include "source/files/files.h"
#include "source/host/host.h"
#include "source/kube/kube.h"
#include "sync/sync.h"

#define CHECK_PERIOD_NS (80 * NSEC_PER_MSEC)
#define RETIRE_RETRY_NS (60 * NSEC_PER_SEC)
#define SOURCE_ERRORS_SHOWN 100

/* run(): ended by a new configuration; the exit code is 1 as for other ends that want a restart. */
#define EXIT_OUTDATED 1

struct vipd {
	struct options options;
	struct event_base *base;
	struct model model;
	struct plan plan;
	struct plane *plane;
	struct sync *sync;
	struct conntrack *conntrack;
	struct doctor *doctor;
	uint64_t repairs; /* of the sync, as far as conntrack was told */
	struct host *host;
	struct files *files; /* one of these two is the source */
	struct kube *kube;
	struct serve_context context;
	VEC(struct serve_option) shown; /* options as vipctl status has them */
	struct serve_control *control;
	struct outside *outside;
	struct monitor *monitor;
	struct drains *drains;
	struct lock *lock;
	uint64_t flow_passes; /* of conntrack, as far as outside was told */
	struct event *sync_event;
	struct event *ruleset_event; /* somebody else committed; NULL: only looked for */
	uint64_t looks;              /* of the sync, as far as ruleset_event was told */
	struct event *signals[3];
	char **argv; /* as main() had it: the file is read again with the same flags */
	int argc;
	struct config_watch *config_watch;
	bool is_outdated;              /* the configuration file says something else by now */
	uint64_t last_event_ns;        /* when a source last changed the model; 0 = never */
	bool is_cidr_missing[IPFAM_N]; /* detector_check() */
	enum model_nodeports nodeports[IPFAM_N]; /* as logged last */
	bool is_source_ready;
	bool is_source_complete; /* no object is unknown; sync_sweep_hold() is over */
	bool is_sweep_told;      /* the log says that the sweep is pending */
	bool is_host_ready;
	struct plane *retiring; /* what another plane left; NULL: not yet known, or nothing */
	struct event *retire_event;
	uint64_t retire_at; /* the next step of that; 0: at once */
	bool is_alone;      /* nothing is left of another plane */
};

/* --- sync --- */

static void wake_at(struct event *ev, uint64_t when, uint64_t now)
{
	uint64_t wait = when > now ? when - now : 0;
	struct timeval tv = { (time_t)(wait / NSEC_PER_SEC),
			      (suseconds_t)(wait % NSEC_PER_SEC / NSEC_PER_USEC) };

	(void)event_add(ev, &tv);
}

static void sync_wake_at(struct vipd *v, uint64_t when, uint64_t now)
{
	if (when != SYNC_NEVER)
		wake_at(v->sync_event, when, now);
}

/* Flows made while the rules were not what they should be may be stale as well. */
static void tell_conntrack(struct vipd *v)
{
	uint64_t repairs = sync_stats_get(v->sync)->repairs;

	if (sync_state_get(v->sync) != SYNC_RUNNING)
		return;
	conntrack_start(v->conntrack);
	doctor_settled(v->doctor);
	if (repairs != v->repairs)
		conntrack_doubt(v->conntrack);
	v->repairs = repairs;
}

/* The flows that were removed meanwhile: passes end between steps of the sync, too. */
static void tell_flows(void *arg)
{
	struct vipd *v = arg;
	struct conntrack_stats st = conntrack_stats_get(v->conntrack);

	for (; v->flow_passes < st.passes; v->flow_passes++)
		outside_conntrack(v->outside, st.last_took_ns, st.n_deleted);
}

/* Who looks at us. */
static void tell_outside(struct vipd *v)
{
	tell_flows(v);
	outside_stepped(v->outside);
	monitor_stepped(v->monitor, v->sync);
}

/* MASQ-03: once for each family that has frontends, but no prefix in --cluster-cidr. */
static void detector_check(struct vipd *v, const struct plan_rows *rows)
{
	static const char *const families[] = { [IPFAM_V4] = "IPv4", [IPFAM_V6] = "IPv6" };

	if (rows == NULL || v->model.config.detect_local != DETECT_LOCAL_CLUSTER_CIDR ||
	    v->model.config.cluster_cidrs.n == 0)
		return;
	vec_for_each (f, &rows->frontends) {
		enum ipfam fam = ip_fam(&f->addr);

		if (v->is_cidr_missing[fam] || v->model.env.has_detector[fam])
			continue;
		v->is_cidr_missing[fam] = true;
		log_warn(LOG_AREA_MAIN,
			 "--cluster-cidr: no %s prefix, but there are %s services: their "
			 "clients outside of the cluster are not masqueraded",
			 families[fam], families[fam]);
	}
}

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	struct vipd *v = arg;

	detector_check(v, new);
	if (is_whole)
		conntrack_accepted(v->conntrack, svc, old, new);
	outside_accepted(v->outside, svc, old, new, is_whole);
	monitor_accepted(v->monitor, svc, old, new);
}

static void on_refused(void *arg, const struct svc *svc, const char *text)
{
	struct vipd *v = arg;

	monitor_refused(v->monitor, svc, text);
}

/*
 * Somebody else changed the ruleset. What came is read by the look, and the event waits
 * for that: a storm wakes us no more often than we look.
 */
static void on_ruleset(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;

	sync_look(v->sync, now_ns());
	event_active(v->sync_event, EV_TIMEOUT, 0);
}

static void ruleset_wait(struct vipd *v)
{
	uint64_t looks = sync_stats_get(v->sync)->looks;

	if (v->ruleset_event != NULL && looks != v->looks)
		(void)event_add(v->ruleset_event, NULL);
	v->looks = looks;
}

static void on_retire(evutil_socket_t fd, short what, void *arg);
static void other_plane_end(struct vipd *v);

static bool source_is_complete(const struct vipd *v, struct str *why);

/* Once when the sweep is held back, with the reason, and once when it is no longer. */
static void sweep_tell(struct vipd *v)
{
	struct str why = { 0 };
	size_t kept;

	if (sync_state_get(v->sync) != SYNC_RUNNING ||
	    sync_is_sweep_pending(v->sync, &kept) == v->is_sweep_told)
		return;
	v->is_sweep_told = !v->is_sweep_told;
	if (!v->is_sweep_told) {
		log_notice(LOG_AREA_SYNC, "sweep done: every object of the source is known");
		return;
	}
	(void)source_is_complete(v, &why);
	log_warn(LOG_AREA_SYNC, "sweep pending: %s; frontends kept: %zu", str_text(&why), kept);
	str_fini(&why);
}

static void on_sync(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;
	uint64_t next = sync_step(v->sync, now_ns());

	sweep_tell(v);
	ruleset_wait(v);
	other_plane_end(v);
	tell_conntrack(v);
	tell_outside(v);
	sync_wake_at(v, next, now_ns());
}

/* Is some version of every object known? `why`, which may be NULL, gets the first reason, if not.
 */
static bool source_is_complete(const struct vipd *v, struct str *why)
{
	return v->files != NULL ? files_are_complete(v->files, why)
				: kube_is_complete(v->kube, why);
}

/* Kernel state may belong to objects that could not be read yet: it is not swept before. */
static void sweep_follow(struct vipd *v)
{
	if (v->is_source_complete || !v->is_source_ready)
		return;
	v->is_source_complete = source_is_complete(v, NULL);
	if (v->is_source_complete)
		sync_sweep_release(v->sync);
	else
		sync_sweep_hold(v->sync);
}

/* SVC-07: once for each cause, and again after the node's addresses or its options changed. */
static void nodeports_follow(struct vipd *v)
{
	for (int fam = 0; fam < IPFAM_N && v->is_host_ready; fam++) {
		enum model_nodeports why = model_nodeports(&v->model, fam);

		if (why != v->nodeports[fam] && why != MODEL_NODEPORTS_OK)
			log_warn(LOG_AREA_MAIN, "%s", model_nodeports_text(why, fam));
		v->nodeports[fam] = why;
	}
}

/* In this very turn of the loop: an isolated change waits for nothing. */
static void on_changed(void *arg)
{
	struct vipd *v = arg;

	v->last_event_ns = now_ns();
	sweep_follow(v);
	nodeports_follow(v);
	outside_changed(v->outside);
	event_active(v->sync_event, EV_TIMEOUT, 0);
}

static void gate(struct vipd *v)
{
	if (!v->is_source_ready || !v->is_host_ready)
		return;
	sync_sources_ready(v->sync);
	on_changed(v);
}

static void on_source_ready(void *arg)
{
	struct vipd *v = arg;

	v->is_source_ready = true;
	sweep_follow(v);
	gate(v);
}

static void on_host_ready(void *arg)
{
	struct vipd *v = arg;

	v->is_host_ready = true;
	gate(v);
}

static void reload(struct vipd *v);

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;

	if (fd == SIGHUP) {
		reload(v);
		return;
	}
	log_notice(LOG_AREA_MAIN, "%s: exiting; rules stay in the kernel",
		   fd == SIGINT ? "SIGINT" : "SIGTERM");
	event_base_loopbreak(v->base);
}

/* --- life --- */

static int open_events(struct vipd *v, struct err *err)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	struct event_config *config = event_config_new();

	if (config != NULL)
		(void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	v->base = config ? event_base_new_with_config(config) : NULL;
	if (config != NULL)
		event_config_free(config);
	if (v->base == NULL)
		return err_set(err, -ENOMEM, "event loop");
	v->sync_event = event_new(v->base, -1, 0, on_sync, v);
	v->retire_event = event_new(v->base, -1, 0, on_retire, v);
	if (v->sync_event == NULL || v->retire_event == NULL)
		return err_set(err, -ENOMEM, "event loop");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		v->signals[i] = evsignal_new(v->base, numbers[i], on_signal, v);
		if (v->signals[i] == NULL || event_add(v->signals[i], NULL) < 0)
			return err_set(err, -ENOMEM, "signal handler");
	}
	(void)signal(SIGPIPE, SIG_IGN);
	return 0;
}

static int open_nft(struct plane **ret, struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *cmd = NULL;
	AUTO(nl_sock_close) struct nl_sock *query = NULL;
	AUTO(nl_sock_close) struct nl_sock *walk = NULL;
	int r = nl_sock_open(&cmd, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&query, NETLINK_NETFILTER, err);
	if (r == 0)
		r = nl_sock_open(&walk, NETLINK_NETFILTER, err);
	if (r < 0)
		return r;
	nft_plane_open(ret, TAKE(cmd), TAKE(query));
	nft_plane_walk_with(*ret, TAKE(walk));
	return 0;
}

static struct ipvs_config ipvs_config_from(const struct options_ipvs *o)
{
	return (struct ipvs_config){
		.sched = o->scheduler,
		.drain_s = o->has_drain ? o->drain_s : IPVS_DRAIN_TIMEOUT_DEFAULT_S,
		.mark_tag = (uint8_t)o->mark_tag,
		.route_table = o->route_table,
		.rule_priority = o->rule_priority,
		.timeouts = { o->tcp_s, o->tcpfin_s, o->udp_s },
		.is_estimating = o->is_estimating,
		.exclude = o->exclude.v,
		.n_exclude = o->exclude.n,
		.sysctl_root = "",
	};
}

static int open_ipvs(struct plane **ret, const struct options *options, struct err *err)
{
	struct ipvs_config config = ipvs_config_from(&options->ipvs);
	AUTO(nl_sock_close) struct nl_sock *nft = NULL;
	AUTO(nl_sock_close) struct nl_sock *query = NULL;
	AUTO(nl_sock_close) struct nl_sock *genl = NULL;
	AUTO(nl_sock_close) struct nl_sock *route = NULL;
	int r = nl_sock_open(&nft, NETLINK_NETFILTER, err);

	config.counting = options->counting;
	if (r == 0)
		r = nl_sock_open(&query, NETLINK_NETFILTER, err);
	if (r == 0)
		r = nl_sock_open(&genl, NETLINK_GENERIC, err);
	if (r == 0)
		r = nl_sock_open(&route, NETLINK_ROUTE, err);
	if (r == 0)
		r = ipvs_plane_open(ret, &(struct ipvs_socks){ nft, query, genl, route }, &config,
				    err);
	if (r < 0)
		return r;
	(void)TAKE(nft);
	(void)TAKE(query);
	(void)TAKE(genl);
	(void)TAKE(route);
	return 0;
}

static bool is_ipvs(const struct vipd *v)
{
	return v->options.mode == PROXY_MODE_IPVS;
}

static int open_plane(struct vipd *v, struct err *err)
{
	int r = is_ipvs(v) ? open_ipvs(&v->plane, &v->options, err) : open_nft(&v->plane, err);

	if (r == 0 && !is_ipvs(v))
		nft_plane_count(v->plane, v->options.counting);
	return r;
}

static int open_other(struct plane **ret, const struct vipd *v, struct err *err)
{
	return is_ipvs(v) ? open_nft(ret, err) : open_ipvs(ret, &v->options, err);
}

/* Remove what a vipd with the other plane left, if anything. */
static int other_plane_cleanup(const struct vipd *v, struct err *err)
{
	struct plane *other = NULL;
	int r = open_other(&other, v, err);

	if (r == 0)
		r = other->ops->cleanup(other, err);
	if (other != NULL)
		other->ops->close(other);
	return r;
}

static void retiring_close(struct vipd *v)
{
	if (v->retiring != NULL)
		v->retiring->ops->close(v->retiring);
	v->retiring = NULL;
}

/* This plane serves now: new connections are its own. */
static void other_plane_end(struct vipd *v)
{
	uint64_t now = now_ns();
	uint64_t again = 0;
	struct err err = { 0 };
	int r = 0;

	if (v->is_alone || sync_state_get(v->sync) != SYNC_RUNNING || !v->is_source_complete ||
	    now < v->retire_at)
		return;
	if (v->retiring == NULL)
		r = open_other(&v->retiring, v, &err);
	if (r == 0)
		r = v->retiring->ops->retire(v->retiring, &v->model, now, &again, &err);
	if (r < 0) {
		log_warn(LOG_AREA_MAIN, "what another plane of vipd left stays: %s", err.text);
		again = now + RETIRE_RETRY_NS;
	}
	v->is_alone = again == 0;
	v->retire_at = again;
	if (r < 0 || again == 0)
		retiring_close(v);
	if (again != 0)
		wake_at(v->retire_event, again, now);
}

static void on_retire(evutil_socket_t fd, short what, void *arg)
{
	other_plane_end(arg);
}

/* Without it changes by others are found by looking, and nobody knows who made them. */
static void open_watch(struct vipd *v)
{
	struct nl_sock *watch;
	struct err err;
	int r = nl_sock_open(&watch, NETLINK_NETFILTER, &err);

	if (r == 0)
		r = is_ipvs(v) ? ipvs_plane_watch_with(v->plane, watch, &err)
			       : nft_plane_watch_with(v->plane, watch, &err);
	if (r == 0)
		v->ruleset_event = event_new(v->base, nl_sock_fd(watch), EV_READ, on_ruleset, v);
	if (r < 0)
		log_info(LOG_AREA_PLANE,
			 "changes of the ruleset are not heard, only looked for: %s", err.text);
	else if (v->ruleset_event != NULL)
		(void)event_add(v->ruleset_event, NULL);
}

static int open_conntrack(struct vipd *v, struct err *err)
{
	struct conntrack_config config = {
		.is_reset = v->options.resets_dead_flows,
		.sysctls = v->options.sysctls,
	};

	return conntrack_open(&v->conntrack, v->base, &v->model, &config, err);
}

static int open_kernel(struct vipd *v, struct err *err)
{
	struct sync_config config = {
		.min_period_ns = v->options.min_sync_period_ns,
		.audit_period_ns = v->options.audit_period_ns,
		.check_period_ns = CHECK_PERIOD_NS,
		.accepted = on_accepted,
		.refused = on_refused,
		.accepted_arg = v,
	};
	int r = open_plane(v, err);

	if (r < 0)
		return r;
	if (v->options.is_table_owner && !is_ipvs(v))
		nft_plane_own_tables(v->plane);
	if (!is_ipvs(v))
		nft_plane_guard(v->plane, !v->options.is_guard_off && !v->options.is_table_owner);
	open_watch(v);
	v->plane->gone = conntrack_gone;
	v->plane->gone_arg = v->conntrack;
	plan_init(&v->plan, &v->model, &v->plane->ops->traits);
	sync_open(&v->sync, &v->model, &v->plan, v->plane, &config);
	return 0;
}

static int open_files(struct vipd *v, struct err *err)
{
	struct files_ops ops = { .ready = on_source_ready,
				 .changed = on_changed,
				 .arg = v,
				 .is_strict = v->options.is_strict };

	return files_open(&v->files, v->base, &v->model, v->options.manifests, &ops, err);
}

static int open_kube(struct vipd *v, struct err *err)
{
	struct kube_callbacks cb = { .synced = on_source_ready, .changed = on_changed, .arg = v };
	struct kube_config config;

	kube_config_init(&config);
	config.kubeconfig = v->options.kubeconfig;
	config.master = v->options.master;
	config.content_type = v->options.api_content_type;
	if (v->options.api_qps != 0)
		config.qps = v->options.api_qps;
	if (v->options.api_burst != 0)
		config.burst = v->options.api_burst;
	return kube_open(&v->kube, v->base, &v->model, &config, &cb, err);
}

static int open_sources(struct vipd *v, struct err *err)
{
	struct host_callbacks host = { .ready = on_host_ready, .changed = on_changed, .arg = v };
	int r = host_open(&v->host, v->base, &v->model, &host, err);

	if (r < 0)
		return r;
	return v->options.manifests != NULL ? open_files(v, err) : open_kube(v, err);
}

static void problem_add(void *arg, const struct files_problem *p)
{
	struct serve_source_info *info = arg;
	struct serve_source_errors *list = p->is_error ? &info->errors : &info->notes;
	struct str where = { 0 };

	*(p->is_error ? &info->n_errors : &info->n_notes) += 1;
	if (list->n == SOURCE_ERRORS_SHOWN)
		return;
	str_puts(&where, p->file);
	if (p->line != 0)
		str_printf(&where, ":%u", p->line);
	*vec_push(list) =
		(struct serve_source_error){ .where = where.text, .text = xstrdup(p->text) };
}

static void describe_files(struct vipd *v, struct serve_source_info *info)
{
	struct str text = { 0 };

	str_printf(&text, "manifests in %s", v->options.manifests);
	info->text = text.text;
	info->waiting_for = v->is_source_ready ? NULL : xstrdup("the folder's first reading");
	if (v->files != NULL)
		(void)files_problems(v->files, problem_add, info);
}

/* `is_error`: not served as asked; else a part was left out. NULL when there are enough. */
static struct serve_source_error *remark_add(struct serve_source_info *info, bool is_error,
					     const char *what, const char *ns, const char *name,
					     const char *text)
{
	struct serve_source_errors *list = is_error ? &info->errors : &info->notes;
	struct str where = { 0 };

	*(is_error ? &info->n_errors : &info->n_notes) += 1;
	if (list->n == SOURCE_ERRORS_SHOWN)
		return NULL;
	str_printf(&where, "%s%s%s%s%s", what, *name ? " " : "", ns, *ns ? "/" : "", name);
	*vec_push(list) = (struct serve_source_error){ .where = where.text, .text = xstrdup(text) };
	return &list->v[list->n - 1];
}

/* One line for a resource that is in trouble, one for each object that is not as it should be. */
static void describe_reflector(struct vipd *v, size_t i, struct serve_source_info *info,
			       struct str *waiting)
{
	struct kube_reflector_status st;
	struct serve_source_error *e = NULL;

	kube_reflector_status(v->kube, i, &st);
	if (!st.is_complete)
		str_printf(waiting, "%s%s%s%s", waiting->len > 0 ? ", " : "", st.resource,
			   *st.error ? ": " : "", st.error);
	if (*st.error != '\0')
		e = remark_add(info, true, "watch", "", st.resource, st.error);
	if (e != NULL)
		e->since_ns = st.error_ns;
	for (size_t k = 0; k < kube_n_remarks(v->kube, i); k++) {
		struct kube_remark remark = kube_remark(v->kube, i, k);

		(void)remark_add(info, remark.is_refused, st.resource, remark.ns, remark.name,
				 remark.text);
	}
}

static void describe_kube(struct vipd *v, struct serve_source_info *info)
{
	struct kube_status st = kube_status(v->kube);
	struct str text = { 0 };
	struct str waiting = { 0 };

	str_printf(&text, "API server %s%s", st.server ? st.server : "(none yet)",
		   st.is_http2 ? ", HTTP/2" : "");
	info->text = text.text;
	for (size_t i = 0; i < kube_n_reflectors(v->kube); i++)
		describe_reflector(v, i, info, &waiting);
	if (v->is_source_ready)
		str_fini(&waiting);
	info->waiting_for = waiting.text;
}

/* What vipctl status says about the source. */
static void describe_source(void *arg, struct serve_source_info *info)
{
	struct vipd *v = arg;

	struct str unknown = { 0 };

	info->is_complete = v->is_source_ready;
	if (v->is_source_ready && !v->is_source_complete && !source_is_complete(v, &unknown))
		info->unknown = TAKE(unknown.text);
	str_fini(&unknown);
	info->last_event_ns = v->last_event_ns;
	if (v->kube != NULL)
		describe_kube(v, info);
	else if (v->options.manifests != NULL)
		describe_files(v, info);
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (v->is_cidr_missing[fam])
			(void)remark_add(info, false, "--cluster-cidr", "", "",
					 fam == IPFAM_V6
						 ? "no IPv6 prefix, but there are IPv6 services"
						 : "no IPv4 prefix, but there are IPv4 services");
}

static void sources_files(struct vipd *v,
			  void (*add)(void *add_arg, const struct metrics_source *s), void *add_arg)
{
	struct files_stats st;
	struct metrics_source s;

	files_stats(v->files, &st);
	s = (struct metrics_source){
		.name = "manifests",
		.is_synced = v->is_source_ready,
		.is_failing = st.errors > 0,
		.last_event_ns = v->last_event_ns,
		.objects = st.objects,
		.invalid = st.errors,
		.events = st.parsed,
		.lists = st.reads,
	};

	add(add_arg, &s);
}

/* What the metrics say about the source; as many as there are kinds of objects. */
static void sources(void *arg, void (*add)(void *add_arg, const struct metrics_source *s),
		    void *add_arg)
{
	struct vipd *v = arg;

	if (v->files != NULL)
		sources_files(v, add, add_arg);
	for (size_t i = 0; v->kube != NULL && i < kube_n_reflectors(v->kube); i++) {
		struct kube_reflector_status st;
		struct metrics_source s;

		kube_reflector_status(v->kube, i, &st);
		s = (struct metrics_source){
			.name = st.resource,
			.is_synced = st.is_complete,
			.is_failing = *st.error != '\0',
			.last_event_ns = st.last_event_ns,
			.objects = st.objects,
			.invalid = st.refused,
			.lists = st.lists,
			.watches = st.watches,
			.events = st.events,
			.bytes = st.bytes,
		};
		add(add_arg, &s);
	}
}

/* Each service with a health check node port is a socket or two, and the soft limit 1024. */
static void raise_fd_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &rl);
}

static void tell_config(void *arg, struct str *out)
{
	const struct vipd *v = arg;

	options_configz(&v->options, out);
}

static void tell_flags(void *arg, struct str *out)
{
	const struct vipd *v = arg;

	options_flagz(&v->options, out);
}

static int open_outside(struct vipd *v, struct err *err)
{
	struct outside_config config = {
		.ctx = &v->context,
		.healthz = v->options.healthz,
		.metrics = v->options.metrics,
		.has_page = options_has_page(&v->options),
		.is_hard_fail = v->options.is_bind_hard_fail,
		.is_node_optional = v->options.manifests != NULL,
		.sync_period_ns = v->options.sync_period_ns,
		.mode = v->plane->ops->name,
		.counting = v->options.counting,
		.sources = sources,
		.refresh = tell_flows,
		.config = tell_config,
		.flags = tell_flags,
		.arg = v,
	};

	raise_fd_limit();
	return outside_open(&v->outside, v->base, &config, err);
}

/* What operators drained is kept beside the control socket, over which they say so. */
static void open_drains(struct vipd *v)
{
	const char *socket = v->options.control_socket;
	const char *slash = strrchr(socket, '/');
	struct str path = { 0 };

	if (slash != NULL)
		str_printf(&path, "%.*s/drained", (int)(slash - socket), socket);
	drains_open(&v->drains, &v->model, path.text, on_changed, v);
	str_fini(&path);
}

static void shown_clear(struct vipd *v)
{
	vec_for_each (o, &v->shown)
		free((char *)(uintptr_t)o->value);
	vec_clear(&v->shown);
}

static void shown_add(void *arg, const char *name, const char *value)
{
	struct vipd *v = arg;

	if (*value != '\0')
		*vec_push(&v->shown) = (struct serve_option){ name, xstrdup(value) };
}

/* What is in force, also of what nobody asked for. */
static void shown_set(struct vipd *v)
{
	shown_clear(v);
	options_list(&v->options, shown_add, v);
	v->context.options = v->shown.v;
	v->context.n_options = v->shown.n;
}

static int open_serve(struct vipd *v, struct err *err)
{
	int r;

	monitor_open(&v->monitor, &v->model);
	open_drains(v);
	v->context = (struct serve_context){
		.model = &v->model,
		.plan = &v->plan,
		.sync = v->sync,
		.plane = v->plane,
		.checks = doctor_checks(v->doctor),
		.drains = v->drains,
		.monitor = v->monitor,
		.source = { describe_source, v },
		.started_ns = now_ns(),
	};
	shown_set(v);
	r = open_outside(v, err);
	if (r == 0) {
		v->context.health = outside_health(v->outside);
		v->context.history = outside_history(v->outside);
	}
	if (r < 0 || v->options.control_socket[0] == '\0')
		return r;
	return serve_control_open(&v->control, v->base, &v->context, v->options.control_socket,
				  err);
}

static enum log_level level_of(int verbosity)
{
	return verbosity >= 4   ? LOG_LEVEL_DEBUG
	       : verbosity >= 2 ? LOG_LEVEL_INFO
				: LOG_LEVEL_NOTICE;
}

static void log_setup(const struct options *o)
{
	log_format_set(o->log_format);
	log_level_set_all(level_of(o->verbosity));
	for (int i = 0; i < LOG_AREA_N; i++)
		if (o->area_verbosity[i] >= 0)
			log_level_set((enum log_area)i, level_of(o->area_verbosity[i]));
	for (int i = 0; i < LOG_AREA_N; i++)
		if (o->area_level[i] != 0)
			log_level_set((enum log_area)i, o->area_level[i]);
}

/*
 * Read the file again and put in force what it says of the log. False when it is refused,
 * which is logged; else `differences` gets the other fields that changed.
 */
static bool config_read_again(struct vipd *v, struct str *differences)
{
	struct options options;
	struct model_config config = { 0 };
	struct err err;
	int r = options_parse(&options, &config, v->argc, v->argv, &err);

	if (r < 0) {
		log_warn(LOG_AREA_MAIN, "configuration: rejected: %s; the previous one stays",
			 err.text);
	} else {
		options_differences(&v->options, &options, differences);
		if (options_take_log(&v->options, &options)) {
			log_setup(&v->options);
			shown_set(v);
			log_notice(LOG_AREA_MAIN, "configuration: logging: changed, in force now");
		}
	}
	options_fini(&options);
	vec_fini(&config.cluster_cidrs);
	vec_fini(&config.service_cidrs);
	vec_fini(&config.nodeport_cidrs);
	return r == 0;
}

/*
 * CFG-04: a good new file that asks for something else ends the process, and its
 * supervisor starts it with that; what the kernel holds is adopted, and nothing is
 * written but differences. A bad one is named, and nothing happens.
 */
static void on_config_changed(void *arg)
{
	struct vipd *v = arg;
	struct str fields = { 0 };

	if (config_read_again(v, &fields) && fields.len > 0) {
		log_notice(LOG_AREA_MAIN,
			   "configuration: %s: changed: %s; exiting for the supervisor to "
			   "restart vipd",
			   v->options.config, fields.text);
		v->is_outdated = true;
		event_base_loopbreak(v->base);
	}
	str_fini(&fields);
}

/* SIGHUP: nothing ends, and what cannot change while vipd runs is named. */
static void reload(struct vipd *v)
{
	struct str fields = { 0 };

	log_notice(LOG_AREA_MAIN, "SIGHUP: reading configuration and sources again");
	if (config_read_again(v, &fields) && fields.len > 0)
		log_warn(LOG_AREA_MAIN, "configuration: %s: changed: %s; restart needed",
			 v->options.config, fields.text);
	str_fini(&fields);
	if (v->files != NULL)
		files_read_again(v->files);
	if (v->kube != NULL)
		kube_read_again(v->kube);
}

static int open_config(struct vipd *v, struct err *err)
{
	if (v->options.config == NULL)
		return 0;
	return config_watch_open(&v->config_watch, v->base, v->options.config, on_config_changed, v,
				 err);
}

static void vipd_close(struct vipd *v)
{
	config_watch_close(v->config_watch);
	serve_control_close(v->control);
	drains_close(v->drains);
	monitor_close(v->monitor);
	v->monitor = NULL;
	files_close(v->files);
	kube_close(v->kube);
	host_close(v->host);
	if (v->sync != NULL) {
		sync_close(v->sync);
		plan_fini(&v->plan);
	}
	outside_close(v->outside);
	if (v->ruleset_event != NULL)
		event_free(v->ruleset_event);
	if (v->plane != NULL)
		v->plane->ops->close(v->plane);
	doctor_close(v->doctor);
	conntrack_close(v->conntrack);
	for (size_t i = 0; i < ARRAY_SIZE(v->signals); i++)
		if (v->signals[i] != NULL)
			event_free(v->signals[i]);
	if (v->sync_event != NULL)
		event_free(v->sync_event);
	if (v->retire_event != NULL)
		event_free(v->retire_event);
	retiring_close(v);
	lock_release(v->lock);
	shown_clear(v);
	vec_fini(&v->shown);
	if (v->base != NULL)
		event_base_free(v->base);
	model_fini(&v->model);
	options_fini(&v->options);
}

/* CFG-18: not fatal. */
static void set_oom_score(int32_t score)
{
	FILE *f;

	if (score == OOM_SCORE_UNSET)
		return;
	f = fopen("/proc/self/oom_score_adj", "we");
	if (f == NULL || fprintf(f, "%d", score) < 0 || fclose(f) != 0)
		log_warn(LOG_AREA_MAIN, "oom score %d: %s", score, strerror(errno));
}

static int run(struct vipd *v, struct err *err)
{
	int r = lock_take(&v->lock, LOCK_DIR, err);

	if (r == 0)
		r = open_events(v, err);
	if (r == 0) /* the first that take room: they fork */
		r = open_conntrack(v, err);
	if (r == 0)
		r = doctor_open(&v->doctor, v->base, is_ipvs(v) ? "ipvs" : "nftables", err);
	if (r == 0)
		r = open_kernel(v, err);
	if (r == 0)
		r = open_serve(v, err);
	if (r == 0)
		r = open_sources(v, err);
	if (r == 0)
		r = open_config(v, err);
	if (r < 0)
		return r;
	conntrack_limits_set(v->conntrack); /* from here on the node is changed */
	set_oom_score(v->options.oom_score_adj);
	log_notice(LOG_AREA_MAIN, "vipd %s on node %s, %s plane", VIPD_VERSION, v->options.hostname,
		   v->plane->ops->name);
	if (event_base_dispatch(v->base) < 0)
		return err_set(err, -EIO, "event loop");
	return v->is_outdated ? EXIT_OUTDATED : 0;
}

static int cleanup(struct vipd *v, struct err *err)
{
	int r = lock_take(&v->lock, LOCK_DIR, err); /* one that runs would put it all back */

	if (r == 0)
		r = open_plane(v, err);
	if (r == 0)
		r = v->plane->ops->cleanup(v->plane, err);
	return r < 0 ? r : other_plane_cleanup(v, err);
}

/* Beside a vipd that runs: it has the lock, and that is how it shows. */
static int cleanup_theirs(struct vipd *v, struct err *err)
{
	struct cleanup_config config = {
		.control_socket = v->options.control_socket,
		.is_forced = v->options.is_cleanup_forced,
		.out = stdout,
	};
	int r = lock_take(&v->lock, LOCK_DIR, err);

	if (r < 0 && r != -EBUSY)
		return r;
	config.is_running = r == -EBUSY;
	return cleanup_kube_proxy(&config, err);
}

/* LIFE-08: do what needs a writable /proc/sys, so that CAP_NET_ADMIN is enough from then on. */
static int init_only(struct vipd *v, struct err *err)
{
	int r = open_plane(v, err);

	if (r == 0)
		r = conntrack_prepare(&v->options.sysctls, err);
	if (r == 0 && v->plane->ops->prepare != NULL)
		r = v->plane->ops->prepare(v->plane, err);
	return r;
}

static int write_config(const struct vipd *v, struct err *err)
{
	const char *path = v->options.write_config_to;
	struct str text = { 0 };
	FILE *f = fopen(path, "we");
	int r = 0;

	options_effective(&v->options, &text);
	if (f == NULL || fputs(text.text, f) == EOF)
		r = err_errno(err, "%s", path);
	if (f != NULL && fclose(f) != 0 && r == 0)
		r = err_errno(err, "%s", path);
	str_fini(&text);
	return r;
}

static void print(void (*what)(struct str *ret))
{
	struct str text = { 0 };

	what(&text);
	(void)fputs(str_text(&text), stdout);
	str_fini(&text);
}

static int act(struct vipd *v, struct err *err)
{
	switch (v->options.action) {
	case OPTIONS_HELP:
		print(options_help);
		return 0;
	case OPTIONS_TABLE:
		print(options_table);
		return 0;
	case OPTIONS_MAN:
		print(options_man);
		return 0;
	case OPTIONS_VERSION:
		printf("vipd %s\n", VIPD_VERSION);
		return 0;
	case OPTIONS_WRITE_CONFIG:
		return write_config(v, err);
	case OPTIONS_CLEANUP:
		return cleanup(v, err);
	case OPTIONS_CLEANUP_KUBE_PROXY:
		return cleanup_theirs(v, err);
	case OPTIONS_INIT_ONLY:
		return init_only(v, err);
	case OPTIONS_RUN:
		break;
	}
	return run(v, err);
}

static int64_t wall_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NSEC_PER_SEC + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	struct vipd v = { .argc = argc, .argv = argv };
	struct err err = { 0 };
	int r;

	model_init(&v.model);
	r = options_parse(&v.options, &v.model.config, argc, argv, &err);
	log_format_set(v.options.log_format);
	if (r < 0) {
		if (v.options.log_format == LOG_FORMAT_JSON)
			log_err(LOG_AREA_MAIN, "%s", err.text);
		else
			(void)fprintf(stderr, "vipd: %s\n", err.text);
		log_end();
		options_fini(&v.options);
		model_fini(&v.model);
		return 2;
	}
	log_setup(&v.options);
	vec_for_each (note, &v.options.notes)
		log_warn(LOG_AREA_MAIN, "%s", *note);
	v.model.config.node_name = name_get_str(v.options.hostname);
	v.model.config.tracks_addrs = v.options.resets_dead_flows;
	v.model.config.triggers_since_ns = wall_now();
	model_configured(&v.model);
	r = act(&v, &err);
	if (r < 0)
		log_err(LOG_AREA_MAIN, "%s", err.text);
	vipd_close(&v);
	log_end();
	return r == 0 ? 0 : 1;
}
