/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/action.h"

#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "cleanup/kube_proxy.h"
#include "conntrack/conntrack.h"
#include "daemon/lock.h"
#include "daemon/planes.h"
#include "settings/flags.h"

static int cleanup(const struct options *o, struct err *err)
{
	AUTO(lock_release) struct lock *lock = NULL;
	int r = lock_take(&lock, LOCK_DIR, err); /* a running vipd would repair its tables */

	if (r == 0) /* it may run without the lock */
		r = serving_no_other("vipd", err);
	return r == 0 ? planes_cleanup(o, err) : r;
}

/* A running vipd holds the lock. */
static int kube_proxy_cleanup(const struct options *o, struct err *err)
{
	struct cleanup c = {
		.control_socket = o->control_socket,
		.is_forced = o->is_cleanup_forced,
		.proxy = o->action == OPTIONS_CLEANUP_KUBE_ROUTER ? PROXY_KUBE_ROUTER
								  : PROXY_KUBE_PROXY,
		.exclude = o->ipvs_exclude.v,
		.n_exclude = o->ipvs_exclude.n,
		.out = stdout,
	};
	AUTO(lock_release) struct lock *lock = NULL;
	int r = lock_take(&lock, LOCK_DIR, err);

	c.is_running = r == -EBUSY;
	return r == 0 || c.is_running ? cleanup_kube_proxy(&c, err) : r;
}

/* LIFE-08: set everything that needs a writable /proc/sys; CAP_NET_ADMIN is enough afterwards. */
static int init_only(const struct options *o, struct err *err)
{
	struct plane *plane = NULL;
	int r = planes_open(&plane, o, err);

	if (r < 0)
		return r;
	r = conntrack_prepare(&o->conntrack.sysctls, err);
	if (r == 0 && plane->ops->prepare != NULL)
		r = plane->ops->prepare(plane, err);
	plane->ops->close(plane);
	return r;
}

static int write_config(const struct options *o, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	FINI(str_fini) struct str flags = { 0 };

	options_effective(o, &text);
	options_unwritten(o, &flags);
	if (flags.len > 0)
		log_warn(
			LOG_AREA_MAIN,
			"%s: written without flags that have no field for their value in mode %s: %s",
			o->write_config_to, options_mode(o), flags.text);
	return file_write(o->write_config_to, text.text, err);
}

/* --help and --completion */
static int help(const struct options *o)
{
	FINI(str_fini) struct str text = { 0 };
	int r = 0;

	if (o->action == OPTIONS_COMPLETION)
		r = cli_completion(&text, &vipd_cli, o->shell);
	else
		cli_help(&text, &vipd_cli, NULL);
	(void)fputs(str_text(&text), stdout);
	return r;
}

int action_run(const struct options *o, struct err *err)
{
	switch (o->action) {
	case OPTIONS_HELP:
	case OPTIONS_COMPLETION:
		return help(o);
	case OPTIONS_VERSION:
		printf("vipd %s\n", cli_version());
		return 0;
	case OPTIONS_WRITE_CONFIG:
		return write_config(o, err);
	case OPTIONS_CLEANUP:
		return cleanup(o, err);
	case OPTIONS_CLEANUP_KUBE_PROXY:
	case OPTIONS_CLEANUP_KUBE_ROUTER:
		return kube_proxy_cleanup(o, err);
	case OPTIONS_INIT_ONLY:
		return init_only(o, err);
	case OPTIONS_RUN:
		break;
	}
	return 0;
}
