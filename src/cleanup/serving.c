/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/serving - read the status of vipd and the processes in /proc. */
#include "cleanup/serving.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/value.h"
#include "doctor/proxies.h"

#define ASK_TIMEOUT_MS 5000
/* vipd retries a service whose address is occupied after at most 10 s. */
#define WAIT_S 20

int serving_check(const char *control_socket, size_t *n_occupied, struct err *err)
{
	struct client client = { .path = control_socket, .timeout_ms = ASK_TIMEOUT_MS };
	json_t *status;
	json_int_t pending;
	int r;

	if (*control_socket == '\0')
		return err_set(err, -EAGAIN, "no control socket: the state of vipd is unknown");
	r = client_json(&status, &client, "GET", "/v1/status", err);
	if (r < 0)
		return r;
	value_clean(status);
	*n_occupied = (size_t)value_int(value_get(status, "rejected"), "occupied");
	pending = value_int(value_get(status, "pending"), "services") - (json_int_t)*n_occupied;
	if (strcmp(value_text(status, "state"), "running") != 0)
		r = err_set(err, -EAGAIN, "it is still %s: %s", value_text(status, "state"),
			    value_text(status, "state_text"));
	else if (pending > 0)
		r = err_set(err, -EAGAIN, "%lld services are pending (vipctl status)",
			    (long long)pending);
	json_decref(status);
	return r;
}

int serving_wait(const char *control_socket, struct err *err)
{
	size_t n_occupied = 1;
	int r = 0;

	for (int i = 0; i < WAIT_S && r == 0 && n_occupied > 0; i++) {
		(void)sleep(1);
		r = serving_check(control_socket, &n_occupied, err);
	}
	if (r == 0 && n_occupied > 0)
		r = err_set(err, -EAGAIN,
			    "%zu services are still pending after %d s (vipctl status)", n_occupied,
			    WAIT_S);
	return r;
}

int serving_no_other(enum proxy proxy, struct err *err)
{
	struct proxies proxies = { 0 };
	const struct proxy_process *p;
	int r = 0;

	proxies_read(&proxies, "");
	p = proxies_find(&proxies, proxy_name(proxy));
	if (p != NULL)
		r = err_set(err, -EBUSY,
			    "%s runs (process %" PRId64 ", %s) and would restore its state",
			    p->proxy, p->pid, p->name);
	vec_fini(&proxies.v);
	return r;
}
