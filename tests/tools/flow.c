/* SPDX-License-Identifier: GPL-2.0-or-later */
/* flow - options, the network namespace, and the loop of the three modes. */
#include "flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TAG_STDIN UINT64_MAX
#define TAG_SIGNAL (UINT64_MAX - 1)

static const char usage[] =
	"usage: flow serve  [--netns PATH] [--tcp PORT,...] [--udp PORT,...] [--seconds N]\n"
	"                   [--drain-ms N]\n"
	"       flow new    [--netns PATH] --to PROTO:ADDRESS:PORT ... [--concurrency N] [--rate N]\n"
	"                   [--count N] [--timeout-ms N] [--from ADDRESS] [--first-port N]\n"
	"                   [--seconds N]\n"
	"                   [--requests N] [--interval-ms N]\n"
	"       flow steady [--netns PATH] --to PROTO:ADDRESS:PORT ... [--concurrency N]\n"
	"                   [--interval-ms N] [--gap-ms N] [--from ADDRESS] [--seconds N]\n"
	"PROTO is tcp or udp; IPv6 addresses are in brackets. Standard input: \"stat\" prints the\n"
	"state as JSON, end of file ends the run.\n";

void flow_die(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("flow: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(2);
}

/* ---- addresses ---- */

socklen_t flow_sa_fill(union flow_sa *sa, const struct ip_addr *addr, uint16_t port)
{
	memset(sa, 0, sizeof(*sa));
	if (addr->family == AF_INET6) {
		sa->v6.sin6_family = AF_INET6;
		sa->v6.sin6_port = htons(port);
		memcpy(&sa->v6.sin6_addr, addr->bytes, 16);
		return sizeof(sa->v6);
	}
	sa->v4.sin_family = AF_INET;
	sa->v4.sin_port = htons(port);
	memcpy(&sa->v4.sin_addr, addr->bytes, 4);
	return sizeof(sa->v4);
}

void flow_sa_read(const union flow_sa *sa, struct ip_addr *addr, uint16_t *port)
{
	if (sa->sa.sa_family == AF_INET) {
		*addr = ip_addr_from_bytes(AF_INET, &sa->v4.sin_addr);
		*port = ntohs(sa->v4.sin_port);
		return;
	}
	*port = ntohs(sa->v6.sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&sa->v6.sin6_addr))
		*addr = ip_addr_from_bytes(AF_INET, sa->v6.sin6_addr.s6_addr + 12);
	else
		*addr = ip_addr_from_bytes(AF_INET6, &sa->v6.sin6_addr);
}

/* IPVS and conntrack keep a UDP flow for minutes: reusing its port continues the flow. */
static void bind_once(int fd, const struct flow_target *t, const struct flow_options *o)
{
	static unsigned next;
	union flow_sa sa;

	for (next = MAX(next, o->first_port); next <= UINT16_MAX;) {
		const struct ip_addr any = { .family = t->addr.family };
		socklen_t len = flow_sa_fill(&sa, &any, (uint16_t)next++);

		if (bind(fd, &sa.sa, len) == 0)
			return;
	}
	flow_die("no port is left");
}

int flow_socket(const struct flow_target *t, const struct flow_options *o)
{
	const struct ip_addr *from = &o->from[ip_fam(&t->addr)];
	union flow_sa sa;
	socklen_t len;
	int on = 1;
	int fd;

	fd = socket(t->addr.family, t->type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd == -1)
		flow_die("socket: %s", strerror(errno));
	if (ip_is_set(from)) {
		len = flow_sa_fill(&sa, from, 0);
		(void)setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
		/* An address may be local by a route only. */
		if (t->addr.family == AF_INET6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
		if (bind(fd, &sa.sa, len) == -1)
			flow_die("bind to the source address: %s", strerror(errno));
	}
	if (o->first_port != 0)
		bind_once(fd, t, o);
	return fd;
}

uint32_t flow_resent(const struct flow_target *t, int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (t->type == SOCK_STREAM)
		(void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_total_retrans;
}

bool flow_answer_parse(struct flow_answer *ret, const char *line)
{
	char backend[IP_TEXT_MAX];
	char peer[IP_TEXT_MAX];
	unsigned backend_port;
	unsigned peer_port;
	char last[6] = "";

	if (sscanf(line, "%47s %u %47s %u %5s", backend, &backend_port, peer, &peer_port, last) < 4)
		return false;
	ret->is_last = strcmp(last, "close") == 0;
	if (ip_addr_parse(&ret->backend, backend, NULL) < 0 ||
	    ip_addr_parse(&ret->peer, peer, NULL) < 0)
		return false;
	ret->backend_port = (uint16_t)backend_port;
	ret->peer_port = (uint16_t)peer_port;
	return true;
}

/* ---- the loop ---- */

void flow_loop_add(struct flow_loop *l, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) == -1)
		flow_die("epoll: %s", strerror(errno));
}

void flow_loop_change(struct flow_loop *l, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, fd, &ev) == -1)
		flow_die("epoll: %s", strerror(errno));
}

void flow_loop_open(struct flow_loop *l, const struct flow_options *o, void (*stat)(void *arg),
		    void *arg)
{
	sigset_t set;
	int fd;

	*l = (struct flow_loop){ .stat = stat, .arg = arg, .start_ns = now_ns() };
	l->woken_ns = l->start_ns;
	l->end_ns = l->start_ns + o->seconds * NSEC_PER_SEC;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->epoll == -1 || fd == -1)
		flow_die("event loop: %s", strerror(errno));
	flow_loop_add(l, fd, EPOLLIN | EPOLLET, TAG_SIGNAL); /* never read */
	flow_loop_add(l, STDIN_FILENO, EPOLLIN, TAG_STDIN);
}

void flow_loop_ready(void)
{
	(void)puts("ready");
	(void)fflush(stdout);
}

static void stdin_ready(struct flow_loop *l)
{
	char buf[256];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n <= 0) {
		(void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
		l->is_ending = true;
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n') {
			l->stat(l->arg);
			(void)fflush(stdout);
		}
	}
}

int flow_loop_wait(struct flow_loop *l, struct epoll_event *ev, int max, uint64_t until_ns)
{
	uint64_t before = now_ns();
	uint64_t after;
	int timeout_ms;
	int kept = 0;
	int n;

	until_ns = MIN(until_ns, MAX(l->end_ns, before + NSEC_PER_MSEC));
	timeout_ms = until_ns <= before ? 0 : (int)((until_ns - before) / NSEC_PER_MSEC) + 1;
	n = epoll_wait(l->epoll, ev, max, timeout_ms);
	after = now_ns();
	if (after > before + ((uint64_t)timeout_ms + 5) * NSEC_PER_MSEC)
		l->stall_ns += after - before - (uint64_t)timeout_ms * NSEC_PER_MSEC;
	if (before > l->woken_ns + 5 * NSEC_PER_MSEC)
		l->stall_ns += before - l->woken_ns;
	l->woken_ns = after;
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u64 == TAG_STDIN)
			stdin_ready(l);
		else if (ev[i].data.u64 == TAG_SIGNAL)
			l->is_ending = true;
		else
			ev[kept++] = ev[i];
	}
	if (after >= l->end_ns)
		l->is_ending = true;
	return kept;
}

/* ---- options ---- */

static unsigned number(const char *text, unsigned min, unsigned max, const char *what)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || v < min || v > max)
		flow_die("%s: '%s' is not in %u..%u", what, text, min, max);
	return (unsigned)v;
}

static size_t ports_parse(uint16_t *ports, char *text, const char *what)
{
	size_t n = 0;

	for (char *p = strtok(text, ","); p != NULL; p = strtok(NULL, ",")) {
		if (n == FLOW_PORTS_MAX)
			flow_die("%s: more than %d ports", what, FLOW_PORTS_MAX);
		ports[n++] = (uint16_t)number(p, 1, 65535, what);
	}
	return n;
}

static void target_parse(struct flow_options *o, const char *text)
{
	struct flow_target *t = &o->targets[o->n_targets];
	char addr[IP_TEXT_MAX];
	const char *colon;
	size_t len;

	if (o->n_targets == FLOW_TARGETS_MAX)
		flow_die("--to: more than %d targets", FLOW_TARGETS_MAX);
	(void)snprintf(t->text, sizeof(t->text), "%s", text);
	if (strncmp(text, "tcp:", 4) == 0)
		t->type = SOCK_STREAM;
	else if (strncmp(text, "udp:", 4) == 0)
		t->type = SOCK_DGRAM;
	else
		flow_die("--to: '%s' does not begin with tcp: or udp:", text);
	text += 4;
	colon = strrchr(text, ':');
	if (colon == NULL)
		flow_die("--to: '%s' has no port", t->text);
	t->port = (uint16_t)number(colon + 1, 1, 65535, "--to: port");
	len = (size_t)(colon - text);
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	(void)snprintf(addr, sizeof(addr), "%.*s", (int)MIN(len, sizeof(addr) - 1), text);
	if (ip_addr_parse(&t->addr, addr, NULL) < 0)
		flow_die("--to: '%s' is not an address", addr);
	o->n_targets++;
}

static void from_parse(struct flow_options *o, const char *text)
{
	struct ip_addr a;

	if (ip_addr_parse(&a, text, NULL) < 0)
		flow_die("--from: '%s' is not an address", text);
	o->from[ip_fam(&a)] = a;
}

static void netns_enter(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1 || setns(fd, CLONE_NEWNET) == -1)
		flow_die("enter '%s': %s", path, strerror(errno));
	(void)close(fd);
}

static void option(struct flow_options *o, int c)
{
	switch (c) {
	case 'n':
		netns_enter(optarg);
		break;
	case 't':
		o->n_tcp_ports = ports_parse(o->tcp_ports, optarg, "--tcp");
		break;
	case 'u':
		o->n_udp_ports = ports_parse(o->udp_ports, optarg, "--udp");
		break;
	case 'o':
		target_parse(o, optarg);
		break;
	case 'f':
		from_parse(o, optarg);
		break;
	case 'c':
		o->concurrency = number(optarg, 1, FLOW_SLOTS_MAX, "--concurrency");
		break;
	case 'r':
		o->rate = number(optarg, 0, 1000000, "--rate");
		break;
	case 'k':
		o->count = number(optarg, 1, 100000000, "--count");
		break;
	case 'i':
		o->interval_ms = number(optarg, 1, 60000, "--interval-ms");
		break;
	case 'm':
		o->timeout_ms = number(optarg, 1, 60000, "--timeout-ms");
		break;
	case 'g':
		o->gap_ms = number(optarg, 1, 60000, "--gap-ms");
		break;
	case 'q':
		o->requests = number(optarg, 1, 1000000, "--requests");
		break;
	case 'd':
		o->drain_ms = number(optarg, 0, 600000, "--drain-ms");
		break;
	case 'p':
		o->first_port = number(optarg, 1, UINT16_MAX, "--first-port");
		break;
	case 's':
		o->seconds = number(optarg, 1, FLOW_SECONDS_MAX, "--seconds");
		break;
	default:
		(void)fputs(usage, stderr);
		exit(2);
	}
}

static void descriptors_raise(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = MIN(lim.rlim_max, (rlim_t)65536);
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "netns", required_argument, NULL, 'n' },
		{ "tcp", required_argument, NULL, 't' },
		{ "udp", required_argument, NULL, 'u' },
		{ "to", required_argument, NULL, 'o' },
		{ "from", required_argument, NULL, 'f' },
		{ "concurrency", required_argument, NULL, 'c' },
		{ "rate", required_argument, NULL, 'r' },
		{ "count", required_argument, NULL, 'k' },
		{ "interval-ms", required_argument, NULL, 'i' },
		{ "timeout-ms", required_argument, NULL, 'm' },
		{ "gap-ms", required_argument, NULL, 'g' },
		{ "first-port", required_argument, NULL, 'p' },
		{ "seconds", required_argument, NULL, 's' },
		{ "requests", required_argument, NULL, 'q' },
		{ "drain-ms", required_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	static struct flow_options o = {
		.concurrency = 1,
		.interval_ms = 20,
		.timeout_ms = 900,
		.gap_ms = 500,
		.seconds = 600,
		.requests = 1,
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		option(&o, c);
	descriptors_raise();
	(void)signal(SIGPIPE, SIG_IGN);
	if (optind + 1 != argc)
		option(&o, '?');
	if (strcmp(argv[optind], "serve") == 0)
		return flow_serve(&o);
	if (o.n_targets == 0)
		flow_die("--to is missing");
	if (strcmp(argv[optind], "new") == 0)
		return flow_new(&o);
	if (strcmp(argv[optind], "steady") == 0)
		return flow_steady(&o);
	option(&o, '?');
	return 2;
}
