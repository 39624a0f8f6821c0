/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vipd - the daemon: wiring, event loop, exit.
 *
 *     source --> model --> sync (plan --> plane) --> kernel
 *                  ^         \--> conntrack (helper process) --^
 *                  \----------- api, health, metrics
 *
 * One thread, one event loop. A change of the model starts the sync, which commits one
 * transaction a turn of the loop until no change is pending. Kernel state stays at exit:
 * connections continue (LIFE-21).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/control.h"
#include "api/drain.h"
#include "api/monitor.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "conntrack/conntrack.h"
#include "daemon/action.h"
#include "daemon/doctor.h"
#include "daemon/failover.h"
#include "daemon/lock.h"
#include "daemon/planes.h"
#include "daemon/problems.h"
#include "daemon/servers.h"
#include "daemon/source.h"
#include "settings/config.h"
#include "settings/flags.h"
#include "settings/options.h"
#include "source/host/host.h"
#include "source/kube/kubeconfig.h"
#include "state/state.h"
#include "sync/sync.h"

#define CHECK_PERIOD_NS (80 * NSEC_PER_MSEC)
#define CONFIG_AGAIN_NS (5 * NSEC_PER_SEC)

struct vipd {
	struct options options;
	struct event_base *base;
	struct model model;
	struct plan plan;
	struct plane *plane;
	struct sync *sync;
	struct conntrack *conntrack;
	struct failover_loop *failover; /* NULL: --failover=off */
	struct doctor *doctor;
	uint64_t repairs; /* of the sync, already passed to conntrack */
	struct host *host;
	struct source *source;
	struct problems problems;
	struct serve_context context;
	struct serve_control *control;
	struct servers *servers;
	struct monitor *monitor;
	struct drains *drains;
	struct lock *lock;
	struct event *sync_event;
	struct event *ruleset_event; /* notifications of foreign changes; NULL: only polling */
	uint64_t checks;             /* checks of the sync when ruleset_event was armed */
	struct event *signals[3];
	char **argv; /* of main(): a changed file is read with the same flags */
	int argc;
	struct config_watch *config_watch;
	struct event *config_again;     /* its kubeconfig could not be read */
	char *rejected;                 /* the file, as read last; NULL: it is valid */
	bool is_outdated;               /* the configuration changed; exit code 1 for a restart */
	bool is_signalled;              /* a second signal ends vipd at once */
	bool is_cidr_missing[IPFAM_N];  /* detector_check() */
	bool is_cidr_wrong;             /* pod_cidr_check() */
	bool is_localhost_limited;      /* localhost_check() */
	const char *nodeports[IPFAM_N]; /* logged last: model_nodeports_failure() */
	bool is_source_complete;        /* no object is unknown; sync_sweep_hold() is over */
	bool is_sweep_logged;           /* as pending */
	struct other_plane other;
	struct event *retire_event;
};

/* --- sync --- */

static void wake_at(struct event *ev, uint64_t when, uint64_t now)
{
	event_after(ev, when > now ? when - now : 0);
}

/*
 * Connections made before a repair may be stale as well. Any load may restore rules that were
 * missing, e.g. of an address family that had failed.
 */
static void conntrack_follow(struct vipd *v)
{
	const struct sync_stats *st = sync_stats_get(v->sync);
	uint64_t repairs = st->repairs + st->reloaded;

	if (sync_state_get(v->sync) != SYNC_RUNNING)
		return;
	conntrack_start(v->conntrack);
	doctor_settled(v->doctor);
	if (repairs != v->repairs)
		conntrack_recheck(v->conntrack);
	v->repairs = repairs;
}

static void on_scanned(void *arg, uint64_t took_ns, const struct pass_result *total)
{
	struct vipd *v = arg;

	metrics_conntrack(servers_metrics(v->servers), took_ns, total);
}

/* MASQ-03: log once for each family that has frontends, but no prefix in --cluster-cidr. */
static void detector_check(struct vipd *v, const struct plan_rows *rows)
{
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
			 ipfam_text(fam), ipfam_text(fam));
	}
}

/* Log once if pods of this node have addresses that --cluster-cidr does not contain. */
static void pod_cidr_check(struct vipd *v)
{
	const struct model_config *c = &v->model.config;

	if (v->model.self == NULL || v->is_cidr_wrong || c->cluster_cidrs.n == 0 ||
	    c->detect_local != DETECT_LOCAL_CLUSTER_CIDR)
		return;
	vec_for_each (p, &v->model.self->pod_cidrs) {
		if (!v->model.env.has_detector[ip_fam(&p->addr)] ||
		    vec_has(&c->cluster_cidrs, of, ip_prefix_covers(of, p)))
			continue;
		v->is_cidr_wrong = true;
		log_warn(LOG_AREA_MAIN,
			 "--cluster-cidr does not contain %s of the Node's podCIDRs: pods with "
			 "these addresses count as clients outside of the cluster and are "
			 "masqueraded",
			 ip_prefix_str(p));
	}
}

/* Log once if a node port is not served on localhost. */
static void localhost_check(struct vipd *v, const struct svc *svc)
{
	if (svc->service == NULL || v->is_localhost_limited ||
	    !(model_serves_localhost(&v->model, IPFAM_V4) ||
	      model_serves_localhost(&v->model, IPFAM_V6)))
		return;
	vec_for_each (p, &svc->service->ports) {
		if (p->node_port == 0 || !model_is_client_port(&v->model, p->node_port))
			continue;
		v->is_localhost_limited = true;
		log_warn(
			LOG_AREA_MAIN,
			"service %s/%s: node port %u: not served on localhost: the kernel gives this "
			"port to clients (net.ipv4.ip_local_port_range); list it in "
			"net.ipv4.ip_local_reserved_ports and restart vipd",
			name_text(svc->ns), name_text(svc->name), p->node_port);
		return;
	}
}

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	struct vipd *v = arg;

	detector_check(v, new);
	pod_cidr_check(v);
	localhost_check(v, svc);
	conntrack_accepted(v->conntrack, svc, old, new, is_whole, v->plan.left_out);
	failover_loop_accepted(v->failover);
	servers_accepted(v->servers, svc, old, new, is_whole);
	monitor_accepted(v->monitor, svc, old, new);
}

static void on_rejected(void *arg, const struct svc *svc, const char *text)
{
	struct vipd *v = arg;

	monitor_rejected(v->monitor, svc, text);
}

/*
 * A notification of a foreign change. The check of the sync reads it, and ruleset_wait() arms
 * the event after that check: a storm causes no more wakeups than checks.
 */
static void on_ruleset(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;

	sync_check(v->sync, now_ns());
	event_active(v->sync_event, EV_TIMEOUT, 0);
}

static void ruleset_wait(struct vipd *v)
{
	uint64_t checks = sync_stats_get(v->sync)->checks;

	if (v->ruleset_event != NULL && checks != v->checks)
		(void)event_add(v->ruleset_event, NULL);
	v->checks = checks;
}

/*
 * True also while the source is incomplete: this plane may have no orphaned frontends when the
 * other plane's state has some.
 */
static bool is_sweep_pending(const struct vipd *v)
{
	return sync_is_sweep_pending(v->sync) || !v->is_source_complete;
}

/* After the first sync: remove the other plane's state once its connections have ended. */
static void other_plane_end(struct vipd *v)
{
	uint64_t now = now_ns();
	uint64_t again;

	if (sync_state_get(v->sync) != SYNC_RUNNING || is_sweep_pending(v))
		return;
	again = other_plane_retire(&v->other, &v->options, &v->model, now);
	if (again != 0)
		wake_at(v->retire_event, again, now);
}

static void on_retire(evutil_socket_t fd, short what, void *arg)
{
	other_plane_end(arg);
}

/* Log once that the sweep is pending, with the reason, and once that it is done. */
static void sweep_log(struct vipd *v)
{
	FINI(str_fini) struct str why = { 0 };

	if (sync_state_get(v->sync) != SYNC_RUNNING || is_sweep_pending(v) == v->is_sweep_logged)
		return;
	v->is_sweep_logged = !v->is_sweep_logged;
	if (!v->is_sweep_logged) {
		log_notice(LOG_AREA_SYNC, "sweep done: no orphaned frontends are left");
		conntrack_recheck(v->conntrack); /* of services that were not compared before */
		return;
	}
	if (source_is_complete(v->source, &why))
		str_puts(&why, SYNC_UNSTEADY);
	log_at(LOG_AREA_SYNC, sync_is_sweep_pending(v->sync) ? LOG_LEVEL_WARN : LOG_LEVEL_NOTICE,
	       "sweep pending: %s; orphaned frontends: %zu", str_text(&why),
	       sync_orphaned_count(v->sync));
}

static void on_sync(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;
	uint64_t next = sync_step(v->sync, now_ns());

	sweep_log(v);
	ruleset_wait(v);
	other_plane_end(v);
	conntrack_follow(v);
	servers_stepped(v->servers);
	monitor_stepped(v->monitor, v->sync);
	if (next != SYNC_NEVER)
		wake_at(v->sync_event, next, now_ns());
}

/* Kernel state may belong to objects that could not be read yet: no sweep until they are. */
static void sweep_follow(struct vipd *v)
{
	if (v->is_source_complete || !source_is_ready(v->source))
		return;
	v->is_source_complete = source_is_complete(v->source, NULL);
	if (v->is_source_complete)
		sync_sweep_release(v->sync);
	else
		sync_sweep_hold(v->sync);
}

/* SVC-07: log each cause once, and again after another one. */
static void nodeports_follow(struct vipd *v)
{
	for (int fam = 0; fam < IPFAM_N && v->host != NULL; fam++) {
		const char *why = model_nodeports_failure(&v->model, fam);

		if (why != v->nodeports[fam] && why != NULL)
			log_warn(LOG_AREA_MAIN, "%s%s", why,
				 is_sweep_pending(v) ? SERVE_ORPHANED_NODEPORTS : "");
		v->nodeports[fam] = why;
	}
}

/* The sync runs in the same turn of the loop: a single change is not delayed. */
static void on_changed(void *arg)
{
	struct vipd *v = arg;

	sweep_follow(v);
	nodeports_follow(v);
	servers_changed(v->servers);
	event_active(v->sync_event, EV_TIMEOUT, 0);
}

static void on_source_ready(void *arg)
{
	struct vipd *v = arg;

	sweep_follow(v);
	sync_sources_ready(v->sync);
	on_changed(v);
}

static void reload(struct vipd *v);

static void exit_begin(struct vipd *v)
{
	conntrack_end(v->conntrack);
	lock_end(v->lock);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct vipd *v = arg;

	if (fd == SIGHUP) {
		reload(v);
		return;
	}
	log_notice(LOG_AREA_MAIN, "%s: exiting; rules stay in the kernel",
		   fd == SIGINT ? "SIGINT" : "SIGTERM");
	if (!v->is_outdated || v->is_signalled)
		exit_begin(v);
	v->is_signalled = true;
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
	v->sync_event = xtimer_new(v->base, on_sync, v);
	v->retire_event = xtimer_new(v->base, on_retire, v);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		v->signals[i] =
			xevent_new(v->base, numbers[i], EV_SIGNAL | EV_PERSIST, on_signal, v);
		if (event_add(v->signals[i], NULL) < 0)
			return err_set(err, -ENOMEM, "signal handler");
	}
	(void)signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Without it, foreign changes are found by polling, and the process that made them is unknown. */
static void open_watch(struct vipd *v)
{
	struct err err;
	int fd = planes_watch(v->plane, &err);

	if (fd < 0) {
		log_info(LOG_AREA_PLANE,
			 "nf_tables notifications: %s; foreign changes are found by polling",
			 err.text);
		return;
	}
	v->ruleset_event = xevent_new(v->base, fd, EV_READ, on_ruleset, v);
	(void)event_add(v->ruleset_event, NULL);
}

static int open_conntrack(struct vipd *v, struct err *err)
{
	struct conntrack_config config = v->options.conntrack;
	int r;

	config.is_ipvs = v->options.plane.mode == PROXY_MODE_IPVS;
	config.scanned = on_scanned;
	config.arg = v;
	r = conntrack_open(&v->conntrack, v->base, &v->model, &config, err);
	v->model.addr_event = conntrack_addr_event;
	v->model.addr_event_arg = v->conntrack;
	return r;
}

static int open_kernel(struct vipd *v, struct err *err)
{
	struct sync_config config = {
		.min_period_ns = v->options.sync.min_period_ns,
		.audit_period_ns = v->options.sync.audit_ns,
		.check_period_ns = CHECK_PERIOD_NS,
		.accepted = on_accepted,
		.rejected = on_rejected,
		.accepted_arg = v,
	};
	int r;

	doctor_open(&v->doctor, v->base, options_plane(&v->options));
	r = planes_open(&v->plane, &v->options, err);
	if (r < 0)
		return r;
	open_watch(v);
	v->plane->gone = conntrack_gone;
	v->plane->gone_arg = v->conntrack;
	plan_init(&v->plan, &v->model, &v->plane->ops->traits);
	sync_open(&v->sync, &v->model, &v->plan, v->plane, &config);
	monitor_open(&v->monitor, &v->model);
	return 0;
}

static int open_failover(struct vipd *v, struct err *err)
{
	const struct failover_config config = {
		.plan = &v->plan,
		.sync = v->sync,
		.plane = v->plane,
		.limit_ns = v->options.plane.failover_ns,
		.udp_ns = v->options.plane.failover_udp_ns,
		.ejects = v->options.plane.failover == FAILOVER_EJECT,
		.counts = &v->context.failovers,
		.monitor = v->monitor,
		.changed = on_changed,
		.arg = v,
	};

	return v->options.plane.failover == FAILOVER_OFF
		       ? 0
		       : failover_loop_open(&v->failover, v->base, &config, err);
}

static void on_problems(void *arg, struct events *e)
{
	struct vipd *v = arg;

	problems_collect(&v->problems, &v->context, e);
}

static int open_sources(struct vipd *v, struct err *err)
{
	struct source_callbacks cb = { on_source_ready, on_changed, on_problems, v };
	int r = host_open(&v->host, v->base, &v->model, on_changed, v, err);

	if (r < 0)
		return r;
	return source_open(&v->source, v->base, &v->model, &v->options, &cb, err);
}

/* The source as `vipctl status` shows it. */
static void describe_source(void *arg, struct serve_source_info *info)
{
	struct vipd *v = arg;
	const char *bridge = serve_missing_bridge(&v->model);

	source_describe(v->source, info);
	if (bridge != NULL)
		(void)source_remark(info, false, str_local(128, SERVE_NO_BRIDGE, bridge),
				    "--pod-bridge-interface");
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (v->is_cidr_missing[fam])
			(void)source_remark(info, false,
					    str_local(64, "no %s prefix, but there are %s services",
						      ipfam_text(fam), ipfam_text(fam)),
					    "--cluster-cidr");
}

static bool stats_of_source(void *arg, size_t i, struct serve_source_stats *ret)
{
	const struct vipd *v = arg;

	return source_stats(v->source, i, ret);
}

static const char *rejected_file(void *arg)
{
	const struct vipd *v = arg;

	return v->rejected != NULL ? v->rejected : source_rejected(v->source);
}

/* Each health check node port takes up to two sockets; the soft limit is 1024. */
static void raise_fd_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &rl);
}

/* Backends drained by operators are kept in a file beside the control socket. */
static void open_drains(struct vipd *v)
{
	const char *socket = v->options.control_socket;
	const char *slash = strrchr(socket, '/');
	AUTO(free) char *path = NULL;

	if (*socket != '\0')
		path = xasprintf("%.*sdrained", slash != NULL ? (int)(slash + 1 - socket) : 0,
				 socket);
	drains_open(&v->drains, &v->model, path, on_changed, v);
}

static void shown_clear(struct vipd *v)
{
	json_decref(v->context.options);
	free(v->context.configz);
}

/* All options in force, defaults included. */
static void shown_set(struct vipd *v)
{
	shown_clear(v);
	v->context.options = options_list(&v->options);
	v->context.configz = options_configz(&v->options);
}

static int open_serve(struct vipd *v, struct err *err)
{
	int r;

	open_drains(v);
	v->context = (struct serve_context){
		.model = &v->model,
		.plan = &v->plan,
		.sync = v->sync,
		.plane = v->plane,
		.checks = doctor_checks(v->doctor),
		.drains = v->drains,
		.failover = failover_loop_state(v->failover),
		.monitor = v->monitor,
		.source = { describe_source, stats_of_source, rejected_file, v },
		.counting = v->options.plane.counting,
		.started_ns = now_ns(),
	};
	shown_set(v);
	raise_fd_limit();
	r = servers_open(&v->servers, v->base, &v->context, &v->options, err);
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
	log_format_set(o->log.format);
	log_level_set_all(level_of(o->log.verbosity));
	for (int i = 0; i < LOG_AREA_N; i++) {
		if (o->log.area_verbosity[i] >= 0)
			log_level_set((enum log_area)i, level_of(o->log.area_verbosity[i]));
		if (o->log.area_level[i] != 0)
			log_level_set((enum log_area)i, o->log.area_level[i]);
	}
}

static void rejected_set(struct vipd *v, const char *why)
{
	AUTO(free) char *before = TAKE(v->rejected);

	if (why == NULL)
		return;
	v->rejected = xasprintf("configuration: rejected: %s; the previous one stays", why);
	if (before == NULL || strcmp(before, v->rejected) != 0)
		log_warn(LOG_AREA_MAIN, "%s", v->rejected);
}

/*
 * Read the file again and apply its log settings. False if the file is invalid, or a restart with
 * it would fail, which is logged; else `differences` gets the other fields that changed.
 */
static bool config_read_again(struct vipd *v, struct str *differences)
{
	FINI(options_fini) struct options options;
	struct err err;
	int r = options_parse(&options, v->argc, v->argv, &err);

	if (r == 0)
		options_differences(&v->options, &options, differences);
	if (r == 0 && differences->len > 0) {
		r = source_check(&options, &err);
		if (r < 0)
			event_after(v->config_again, CONFIG_AGAIN_NS);
	}
	rejected_set(v, r < 0 ? err.text : NULL);
	if (r == 0 && options_take_log(&v->options, &options)) {
		log_setup(&v->options);
		shown_set(v);
		log_notice(LOG_AREA_MAIN, "configuration: logging: changed, in force now");
	}
	return r == 0;
}

/*
 * CFG-04: vipd exits after a valid change of the file, and its supervisor restarts it; the new
 * process adopts the kernel state and writes only differences. An invalid file is logged.
 */
static void config_take(struct vipd *v)
{
	FINI(str_fini) struct str fields = { 0 };

	if (!v->is_outdated && !v->is_signalled && config_read_again(v, &fields) &&
	    fields.len > 0) {
		log_notice(LOG_AREA_MAIN,
			   "configuration: %s: changed: %s; exiting for the supervisor to "
			   "restart vipd",
			   v->options.config, fields.text);
		v->is_outdated = true;
		exit_begin(v);
	}
}

static void on_config_changed(void *arg)
{
	struct vipd *v = arg;

	free(TAKE(v->rejected)); /* logged again */
	config_take(v);
}

static void on_config_again(evutil_socket_t fd, short what, void *arg)
{
	config_take(arg);
}

/* SIGHUP: vipd goes on; fields that need a restart are logged. */
static void reload(struct vipd *v)
{
	FINI(str_fini) struct str fields = { 0 };

	log_notice(LOG_AREA_MAIN, "SIGHUP: reading configuration and sources again");
	free(TAKE(v->rejected)); /* logged again */
	if (config_read_again(v, &fields) && fields.len > 0)
		log_warn(LOG_AREA_MAIN, "configuration: %s: changed: %s; restart needed",
			 v->options.config, fields.text);
	source_reload(v->source);
}

/* Not with the options, which vipctl reads, too, without libcurl. */
static int master_check(const char *master, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = NULL;

	return master != NULL ? kubeconfig_open(&k, NULL, master, NULL, err) : 0;
}

static int open_config(struct vipd *v, struct err *err)
{
	v->config_again = xtimer_new(v->base, on_config_again, v);
	if (v->options.config == NULL)
		return 0;
	return config_watch_open(&v->config_watch, v->base, v->options.config, on_config_changed, v,
				 err);
}

static void vipd_close(struct vipd *v)
{
	config_watch_close(v->config_watch);
	event_drop(v->config_again);
	serve_control_close(v->control);
	drains_close(v->drains);
	source_close(v->source);
	host_close(v->host);
	failover_loop_close(v->failover);
	v->failover = NULL;
	monitor_close(v->monitor);
	v->monitor = NULL;
	if (v->sync != NULL) {
		sync_close(v->sync);
		plan_fini(&v->plan);
	}
	servers_close(v->servers);
	event_drop(v->ruleset_event);
	if (v->plane != NULL)
		v->plane->ops->close(v->plane);
	doctor_close(v->doctor);
	conntrack_close(v->conntrack);
	for (size_t i = 0; i < ARRAY_SIZE(v->signals); i++)
		event_drop(v->signals[i]);
	event_drop(v->sync_event);
	event_drop(v->retire_event);
	other_plane_close(&v->other);
	lock_release(v->lock);
	shown_clear(v);
	free(v->rejected);
	if (v->base != NULL)
		event_base_free(v->base);
	model_fini(&v->model);
	options_fini(&v->options);
}

/* CFG-18: not fatal. */
static void set_oom_score(int32_t score)
{
	int r = 0;

	if (score != OOM_SCORE_UNSET)
		r = file_write_number("/proc/self/oom_score_adj", score, NULL);
	if (r < 0)
		log_warn(LOG_AREA_MAIN, "--oom-score-adj %d: not set: %s; the previous score stays",
			 score, strerror(-r));
}

static int run(struct vipd *v, struct err *err)
{
	/* In this order; open_conntrack() forks: early, while the process is small. */
	static int (*const opens[])(struct vipd *, struct err *) = { open_events, open_conntrack,
								     open_kernel, open_failover,
								     open_serve,  open_sources,
								     open_config };
	int r = lock_take(&v->lock, LOCK_DIR, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(opens); i++)
		r = opens[i](v, err);
	if (r < 0)
		return r;
	conntrack_limits_set(v->conntrack); /* the first change of the node */
	v->model.config.is_tcp_liberal = sysctl_is_liberal(&v->options.conntrack.sysctls, "");
	set_oom_score(v->options.oom_score_adj);
	log_notice(LOG_AREA_MAIN, "vipd %s on node %s, %s plane", VIPD_VERSION, v->options.hostname,
		   v->plane->ops->name);
	if (event_base_dispatch(v->base) < 0)
		return err_set(err, -EIO, "event loop");
	return 0;
}

int main(int argc, char **argv)
{
	struct vipd v = { .argc = argc, .argv = argv };
	struct err err = { 0 };
	int r;

	if (cli_complete(&vipd_cli, argc, argv) || check_process(argc, argv))
		return 0;
	model_init(&v.model);
	r = options_parse(&v.options, argc, argv, &err);
	if (r == 0)
		r = master_check(v.options.api.master, &err);
	log_format_set(v.options.log.format);
	if (r < 0) {
		if (v.options.log.format == LOG_FORMAT_JSON)
			log_err(LOG_AREA_MAIN, "%s", err.text);
		else
			(void)fprintf(stderr, "vipd: %s\n", err.text);
		vipd_close(&v);
		log_end();
		return 2;
	}
	log_setup(&v.options);
	vec_for_each (note, &v.options.record.notes)
		log_warn(LOG_AREA_MAIN, "%s", *note);
	v.model.config = v.options.model;
	v.options.model = (struct model_config){ 0 };
	v.model.config.node_name = name_get_str(v.options.hostname);
	v.model.config.tracks_addrs = v.options.conntrack.is_reset;
	v.model.config.triggers_since_ns = wall_now_ns();
	model_configured(&v.model);
	r = v.options.action == OPTIONS_RUN ? run(&v, &err) : action_run(&v.options, &err);
	if (r < 0)
		log_err(LOG_AREA_MAIN, "%s", err.text);
	vipd_close(&v);
	log_end();
	return r == 0 && !v.is_outdated ? 0 : 1;
}
