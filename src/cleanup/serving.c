/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/serving - one question to vipd, one look at /proc. */
#include "cleanup/serving.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/value.h"

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

static bool is_kube_proxy(const char *pid)
{
	char path[64];
	char comm[32] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	if (fgets(comm, sizeof(comm), f) == NULL)
		comm[0] = '\0';
	(void)fclose(f);
	return strcmp(comm, "kube-proxy\n") == 0;
}

/* What may not be looked at counts as here. */
static bool is_same_netns(const char *pid)
{
	char path[64];
	struct stat own;
	struct stat other;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/ns/net", pid);
	return stat("/proc/self/ns/net", &own) < 0 || stat(path, &other) < 0 ||
	       (own.st_dev == other.st_dev && own.st_ino == other.st_ino);
}

int kube_proxy_check(struct err *err)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int r = 0;

	while (r == 0 && proc != NULL && (e = readdir(proc)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]) && is_kube_proxy(e->d_name) &&
		    is_same_netns(e->d_name))
			r = err_set(err, -EBUSY,
				    "kube-proxy runs (process %s) and would put it all back",
				    e->d_name);
	if (proc != NULL)
		(void)closedir(proc);
	return r;
}
