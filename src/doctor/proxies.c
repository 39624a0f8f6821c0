/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/proxies.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/proc.h"

#define PID_NS_INITIAL "pid:[4026531836]" /* include/linux/proc_ns.h PROC_PID_INIT_INO */

#define K3S_REMEDY \
	"set disable-kube-proxy: true in the configuration of every k3s server, restart k3s"

static const struct {
	const char *name;
	const char *proxy;
	const char *remedy;
	bool needs_port;  /* only if it listens on a port of kube-proxy's */
	const char *flag; /* without this one; NULL: with any flags */
} programs[] = {
	{ "kube-proxy", "kube-proxy", "delete its DaemonSet or static pod, or stop its unit" },
	{ "k3s-server", "kube-proxy", K3S_REMEDY, true },
	{ "k3s-agent", "kube-proxy", K3S_REMEDY, true },
	{ "kubelite", "kube-proxy",
	  "add --init-only to /var/snap/microk8s/current/args/kube-proxy, restart MicroK8s", true },
	{ "kube-router", "kube-router", "run it with --run-service-proxy=false, or delete it",
	  .flag = "--run-service-proxy=false" },
	{ "cilium-agent", "cilium", PROXY_REMEDY_CILIUM },
	{ "vipd", "vipd", NULL },
};

/* --- sockets --- */

/* Inodes of the sockets that listen on kube-proxy's ports. */
struct ports {
	VEC(uint64_t) inodes;
};

static void ports_read(struct ports *ports, const char *root, const char *path)
{
	FINI(str_fini) struct str text = { 0 };

	(void)!proc_read(&text, root, path);
	str_for_each_line (line, text.text) {
		struct ip_tuple t;
		unsigned long long inode;

		if (proc_listener(&t, line, IPPROTO_TCP) && (t.port == 10249 || t.port == 10256) &&
		    sscanf(line, " %*u: %*s %*s %*x %*s %*s %*s %*u %*u %llu", &inode) == 1)
			*vec_push(&ports->inodes) = inode;
	}
}

static bool is_listening(const struct ports *ports, const char *link)
{
	unsigned long long inode;

	return sscanf(link, "socket:[%llu]", &inode) == 1 &&
	       vec_has(&ports->inodes, i, *i == inode);
}

static bool has_port(const char *root, const char *pid)
{
	AUTO(vec_fini) struct ports ports = { 0 };
	char link[64];
	struct dirent *e;
	bool ret = false;
	DIR *d = NULL;

	ports_read(&ports, root, "/proc/self/net/tcp");
	ports_read(&ports, root, "/proc/self/net/tcp6");
	if (ports.inodes.n > 0)
		d = opendir(str_local(PROC_PATH_MAX, "%s/proc/%s/fd", root, pid));
	while (!ret && d != NULL && (e = readdir(d)) != NULL) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[MAX(n, 0)] = '\0';
		ret = is_listening(&ports, link);
	}
	if (d != NULL)
		(void)closedir(d);
	return ret;
}

/* --- processes --- */

/* Arguments end with 0 bytes. */
static bool has_flag(const char *root, const char *pid, const char *flag)
{
	FINI(str_fini) struct str text = { 0 };

	return proc_read(&text, root, str_local(64, "/proc/%.20s/cmdline", pid)) == 0 &&
	       text.len > 0 && memmem(text.text, text.len, flag, strlen(flag) + 1) != NULL;
}

/* Is the process in this network namespace? True if that cannot be read. */
static bool is_neighbour(const char *root, const char *pid)
{
	char mine[64] = "";
	char its[64] = "";

	if (readlink(str_local(PROC_PATH_MAX, "%s/proc/self/ns/net", root), mine,
		     sizeof(mine) - 1) < 0)
		return true;
	if (readlink(str_local(PROC_PATH_MAX, "%s/proc/%s/ns/net", root, pid), its,
		     sizeof(its) - 1) < 0)
		return errno == EACCES || errno == EPERM;
	return strcmp(mine, its) == 0;
}

static bool is_proxy(size_t i, const char *root, const char *pid)
{
	const char *flag = programs[i].flag;

	return (!programs[i].needs_port || has_port(root, pid)) &&
	       (flag == NULL || !has_flag(root, pid, flag));
}

static void process_read(struct proxies *ret, const char *root, const char *pid)
{
	FINI(str_fini) struct str text = { 0 };

	if (proc_read(&text, root, str_local(64, "/proc/%.20s/comm", pid)) == 0 && text.len > 0) {
		text.text[strcspn(text.text, "\n")] = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
			if (strcmp(text.text, programs[i].name) == 0 && is_neighbour(root, pid) &&
			    is_proxy(i, root, pid))
				*vec_push(&ret->v) =
					(struct proxy_process){ programs[i].name, programs[i].proxy,
								programs[i].remedy,
								strtoll(pid, NULL, 10) };
	}
}

/* Is this the initial PID namespace? */
static bool is_in_root(const char *root)
{
	const char *path = str_local(PROC_PATH_MAX, "%s/proc/self/ns/pid", root);
	char link[64] = "";

	return readlink(path, link, sizeof(link) - 1) > 0 && strcmp(link, PID_NS_INITIAL) == 0;
}

void proxies_read(struct proxies *ret, const char *root)
{
	DIR *d = opendir(str_local(PROC_PATH_MAX, "%s/proc", root));
	struct dirent *e;

	ret->is_partial = !is_in_root(root);
	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]) &&
		    strtoll(e->d_name, NULL, 10) != getpid())
			process_read(ret, root, e->d_name);
	closedir(d);
}
