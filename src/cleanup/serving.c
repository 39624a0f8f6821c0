/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/serving - read the status of vipd and the processes in /proc. */
#include "cleanup/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/value.h"
#include "doctor/proxies.h"

#define ASK_TIMEOUT_MS 5000
#define POLL_US 100000
/* vipd retries a service whose address is occupied after at most 10 s. */
#define POLLS 200

/* A node can be unready, or lack an address family, although no service is pending. */
static int health_check(const json_t *health, size_t n_occupied, struct err *err)
{
	const char *family =
		json_string_value(json_array_get(value_get(health, "failed_families"), 0));
	/* Services that wait for this cleanup make vipd unhealthy after a time. */
	bool is_excused = n_occupied > 0 && !value_bool(health, "live");

	if (family != NULL)
		return err_set(err, -EAGAIN, "%s failed (vipctl status)", family);
	if (json_is_object(health) && !value_bool(health, "ready") && !is_excused)
		return err_set(err, -EAGAIN, "it is not ready: %s", value_text(health, "reason"));
	return 0;
}

/* Another process, as k3s with kube-proxy inside, may have the port; not seen from a pod. */
static int servers_check(const json_t *problems, bool *is_passing, struct err *err)
{
	value_for_each (p, problems) {
		if (strcmp(value_text(p, "kind"), "server") != 0)
			continue;
		*is_passing = true; /* vipd retries */
		return err_set(err, -EAGAIN, "%s", value_text(p, "text"));
	}
	return 0;
}

/* As serving_wait(), without waiting; `is_passing`: the answer may be another one soon. */
static int serving_check(struct cleanup *c, bool *is_passing, struct err *err)
{
	struct client client = { .path = c->control_socket, .timeout_ms = ASK_TIMEOUT_MS };
	json_int_t n_rejected;
	json_int_t n_pending;
	const char *state;
	json_auto_t *status = NULL;
	int r;

	*is_passing = false;
	if (*c->control_socket == '\0')
		return err_set(err, -EAGAIN, "no control socket: the state of vipd is unknown");
	r = client_json(&status, &client, "GET", "/v1/status", err);
	if (r < 0)
		return r;
	value_clean(status);
	state = value_text(status, "state");
	c->n_occupied = (size_t)value_int(value_get(status, "rejected"), "occupied");
	n_rejected = value_int(value_get(status, "rejected"), "count");
	n_pending = value_int(value_get(status, "pending"), "services");
	if (strcmp(state, "running") != 0) {
		*is_passing = strcmp(state, "waiting") != 0;
		r = err_set(err, -EAGAIN, "it is still %s: %s", state,
			    value_text(status, "state_text"));
	} else if (n_pending > (json_int_t)c->n_occupied) {
		*is_passing = n_pending > n_rejected;
		r = err_set(err, -EAGAIN, "%lld services are pending (vipctl status)",
			    (long long)n_pending - (long long)c->n_occupied);
	}
	if (r == 0)
		r = health_check(value_get(status, "health"), c->n_occupied, err);
	return r < 0 ? r : servers_check(value_get(status, "problems"), is_passing, err);
}

int serving_wait(struct cleanup *c, bool is_occupied_allowed, struct err *err)
{
	for (int i = 0;; i++) {
		bool is_passing;
		int r = serving_check(c, &is_passing, err);

		if (r == 0 && c->n_occupied > 0 && !is_occupied_allowed) {
			r = err_set(err, -EAGAIN,
				    "%zu services are still pending after %d s (vipctl status)",
				    c->n_occupied, POLLS * POLL_US / 1000000);
			is_passing = true;
		}
		if (r == 0 || !is_passing || i == POLLS)
			return r;
		(void)usleep(POLL_US);
	}
}

int serving_no_other(const char *proxy, struct err *err)
{
	AUTO(vec_fini) struct proxies proxies = { 0 };
	const struct proxy_process *p;

	proxies_read(&proxies, "");
	p = vec_find(&proxies.v, process, strcmp(process->proxy, proxy) == 0);
	if (p == NULL)
		return 0;
	return err_set(err, -EBUSY, "%s runs (process %" PRId64 ", %s) and would restore its state",
		       p->proxy, p->pid, p->name);
}
