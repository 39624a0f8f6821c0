/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow - both ends of test traffic: servers that send their address, and clients that count
 * results of connections.
 *
 *     flow serve  answer on TCP and UDP ports
 *     flow new    new connections, continuously, at a rate
 *     flow steady long-lived connections that must never fail
 *
 * Wire: a client sends a line (TCP) or a datagram (UDP); the server answers with
 * "LOCAL-ADDRESS LOCAL-PORT PEER-ADDRESS PEER-PORT\n", the addresses of its socket. A server
 * that is about to end appends " close", and the client then closes the connection.
 *
 * Control: standard input. "stat\n" prints a line of JSON with the results so far; end of file
 * or SIGTERM ends the run and prints the final line. So the program ends with the test that
 * started it. A time limit also ends it.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/ip.h"
#include "base/str.h"
#include "base/vec.h"

#define FLOW_LINE_MAX 160
#define FLOW_PORTS_MAX 256
#define FLOW_TARGETS_MAX 64
#define FLOW_SLOTS_MAX 4096
#define FLOW_SECONDS_MAX 14400

union flow_sa {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct flow_target {
	int type; /* SOCK_STREAM or SOCK_DGRAM */
	struct ip_addr addr;
	uint16_t port;
	char text[80]; /* as given */
};

struct flow_options {
	uint16_t tcp_ports[FLOW_PORTS_MAX];
	size_t n_tcp_ports;
	uint16_t udp_ports[FLOW_PORTS_MAX];
	size_t n_udp_ports;
	struct flow_target targets[FLOW_TARGETS_MAX];
	size_t n_targets;
	struct ip_addr from[IPFAM_N]; /* source address, unset = any */
	unsigned concurrency;         /* new: connections in flight; steady: flows a target */
	unsigned rate;                /* new: connections a second, 0 = unlimited */
	unsigned interval_ms;         /* steady: from answer to the next ping */
	unsigned timeout_ms;          /* new: a longer connection that lost packets failed */
	unsigned gap_ms;              /* steady: an answer later than this may be a gap */
	unsigned requests;            /* new: requests on each TCP connection */
	unsigned drain_ms;            /* serve: see flow_serve.c; 0 = end at once */
	unsigned first_port;          /* new: UDP source ports from here on, each once; 0 = any */
	unsigned seconds;
	uint64_t count; /* new: end after this many connections, 0 = unlimited */
};

/* Answer of a server: its address, and the client's address as the server sees it. */
struct flow_answer {
	struct ip_addr backend;
	uint16_t backend_port;
	struct ip_addr peer;
	uint16_t peer_port;
	bool is_last; /* on this connection */
};

/* The loop of all modes: epoll, standard input, signals, time limit. */
struct flow_loop {
	int epoll;
	uint64_t start_ns;
	uint64_t end_ns;
	bool is_ending; /* no new work; end when the work in flight is done */
	/* Time during which this process did not run, which is not a delay of the network. */
	uint64_t stall_ns;
	uint64_t woken_ns;       /* end of the last wait */
	void (*stat)(void *arg); /* print the line of "stat" */
	void *arg;
};

void flow_loop_open(struct flow_loop *l, const struct flow_options *o, void (*stat)(void *arg),
		    void *arg);
/* Print "ready" for the parent. */
void flow_loop_ready(void);
/*
 * Wait for events, at most until `until_ns`. Handles standard input. Returns the number of other
 * events.
 */
int flow_loop_wait(struct flow_loop *l, struct epoll_event *ev, int max, uint64_t until_ns);
void flow_loop_add(struct flow_loop *l, int fd, uint32_t events, uint64_t tag);
void flow_loop_change(struct flow_loop *l, int fd, uint32_t events, uint64_t tag);

socklen_t flow_sa_fill(union flow_sa *sa, const struct ip_addr *addr, uint16_t port);
/* IPv4-mapped addresses become IPv4. */
void flow_sa_read(const union flow_sa *sa, struct ip_addr *addr, uint16_t *port);
/* A socket of the target's type and family, non-blocking, bound to the source if one is set. */
int flow_socket(const struct flow_target *t, const struct flow_options *o);
/* TCP retransmissions on a socket of this target; 0 for UDP. */
uint32_t flow_resent(const struct flow_target *t, int fd);
bool flow_answer_parse(struct flow_answer *ret, const char *line);
/* Print the reason of a failed start and exit. */
void flow_die(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

int flow_serve(const struct flow_options *o);
int flow_new(const struct flow_options *o);
int flow_steady(const struct flow_options *o);
