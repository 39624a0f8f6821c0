/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/vec.h"

#define CHILDREN_MAX 256 /* descendants killed with the program */
#define REAP_MS 1000

struct process {
	struct process_config config;
	struct event *output_ready;
	struct event *ended;
	struct event *timeout;
	struct str output;
	pid_t pid;
	int out;
	int pidfd;
	int r; /* -errno: killed for this reason; 0: not killed */
};

/*
 * Kill the program, its process group and its descendants, which may have left the group. Collect
 * the descendants first: children of a killed process get another parent.
 */
static void kill_all(const struct process *p)
{
	AUTO(vec_fini) VEC(pid_t) pids = { 0 };

	*vec_push(&pids) = p->pid;
	for (size_t i = 0; i < pids.n; i++) {
		glob_t tasks = { 0 };

		(void)glob(str_local(64, "/proc/%d/task/*/children", (int)pids.v[i]), GLOB_NOSORT,
			   NULL, &tasks);
		for (size_t k = 0; k < tasks.gl_pathc; k++) {
			AUTO(fclose) FILE *f = fopen(tasks.gl_pathv[k], "re");
			int child;

			while (f != NULL && pids.n < CHILDREN_MAX && fscanf(f, "%d", &child) == 1)
				*vec_push(&pids) = child;
		}
		globfree(&tasks);
	}
	(void)kill(-p->pid, SIGKILL);
	vec_for_each (pid, &pids)
		(void)kill(*pid, SIGKILL);
}

/* With a pidfd waits at most REAP_MS for the killed process: it may sleep in the kernel. */
void process_close(struct process *p)
{
	if (p == NULL)
		return;
	if (p->pid > 0) {
		struct pollfd ended = { .fd = p->pidfd, .events = POLLIN };

		kill_all(p);
		if (p->pidfd >= 0)
			(void)poll(&ended, 1, REAP_MS);
		(void)waitpid(p->pid, NULL, p->pidfd >= 0 ? WNOHANG : 0);
	}
	event_drop(p->output_ready);
	event_drop(p->ended);
	event_drop(p->timeout);
	if (p->out >= 0)
		close(p->out);
	if (p->pidfd >= 0)
		close(p->pidfd);
	str_fini(&p->output);
	free(p);
}

static void abort_with(struct process *p, int r)
{
	if (p->r == 0)
		p->r = r;
	kill_all(p);
}

static void output_read(struct process *p)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(p->out, buf, sizeof(buf))) > 0) {
		if (p->output.len + (size_t)n > p->config.output_max) {
			abort_with(p, -E2BIG);
			n = 0;
			break;
		}
		str_add(&p->output, buf, (size_t)n);
	}
	if (n == 0) /* the rest of too much output is not read */
		(void)event_del(p->output_ready);
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	output_read(arg);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	abort_with(arg, -ETIMEDOUT);
}

/* Result and text for `done`. */
static int exit_result(const struct process *p, int status, char *why, size_t size)
{
	if (p->r == -ETIMEDOUT)
		(void)snprintf(why, size, "no answer in %.3g s",
			       (double)p->config.timeout_ns / (double)NSEC_PER_SEC);
	else if (p->r == -E2BIG)
		(void)snprintf(why, size, "printed more than %zu bytes", p->config.output_max);
	else if (WIFSIGNALED(status))
		(void)snprintf(why, size, "killed by signal %d", WTERMSIG(status));
	else
		(void)snprintf(why, size, "exit status %d", WEXITSTATUS(status));
	if (p->r != 0)
		return p->r;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;
	struct process_config config = p->config;
	struct str output;
	char why[80];
	int status = 0;
	int r;

	output_read(p); /* before waitpid() frees the pid, because output_read() may kill */
	if (waitpid(p->pid, &status, WNOHANG) != p->pid)
		return;
	p->pid = 0;
	r = exit_result(p, status, why, sizeof(why));
	output = p->output;
	p->output = (struct str){ 0 };
	process_close(p);
	config.done(config.arg, r, &output, why);
	str_fini(&output);
}

/* Programs started later do not inherit descriptors from `first` on. */
static int cloexec_from(int first)
{
	int r = (int)syscall(SYS_close_range, (unsigned int)first, ~0U, CLOSE_RANGE_CLOEXEC);
	struct dirent *e;
	DIR *d;

	if (r == 0 || errno != EINVAL)
		return r;
	d = opendir("/proc/self/fd"); /* Linux 5.10 lacks the flag */
	while (d != NULL && (e = readdir(d)) != NULL)
		if (atoi(e->d_name) >= first)
			(void)fcntl(atoi(e->d_name), F_SETFD, FD_CLOEXEC);
	return d != NULL ? closedir(d) : -1;
}

static int spawn(struct process *p, int out, struct err *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t all;
	sigset_t none;
	int r;

	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETSIGMASK);
	(void)posix_spawnattr_setpgroup(&attr, 0);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, out, 1);
	(void)signal(SIGCHLD, SIG_DFL); /* while it is ignored, programs leave no exit status */
	if (r == 0 && cloexec_from(3) == -1) /* descriptors that vipd inherited */
		r = errno;
	if (r == 0)
		r = posix_spawnp(&p->pid, p->config.argv[0], &files, &attr, p->config.argv,
				 p->config.envp);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	if (r != 0) {
		p->pid = 0;
		return err_set(err, -r, "%s", strerror(r));
	}
	return 0;
}

static int open_events(struct process *p, struct event_base *base, struct err *err)
{
	p->pidfd = process_fd(p->pid);
	if (p->pidfd == -1)
		return err_errno(err, "pidfd");
	p->output_ready = xevent_new(base, p->out, EV_READ | EV_PERSIST, on_output, p);
	p->ended = xevent_new(base, p->pidfd, EV_READ | EV_PERSIST, on_ended, p);
	p->timeout = xtimer_new(base, on_timeout, p);
	if (event_add(p->output_ready, NULL) < 0 || event_add(p->ended, NULL) < 0)
		return err_set(err, -ENOMEM, "event loop");
	event_after(p->timeout, p->config.timeout_ns);
	return 0;
}

int process_open(struct process **ret, struct event_base *base, const struct process_config *config,
		 struct err *err)
{
	AUTO(process_close) struct process *p = xcalloc(1, sizeof(*p));
	int fds[2];
	int r;

	p->config = *config;
	p->out = -1;
	p->pidfd = -1;
	if (pipe2(fds, O_CLOEXEC) == -1)
		return err_errno(err, "pipe");
	p->out = fds[0];
	(void)fcntl(p->out, F_SETFL, O_NONBLOCK); /* not the program's end */
	r = spawn(p, fds[1], err);
	close(fds[1]);
	if (r == 0)
		r = open_events(p, base, err);
	if (r == 0)
		*ret = TAKE(p);
	return r;
}
