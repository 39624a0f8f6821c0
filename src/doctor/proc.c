/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor/proc.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define TCP_LISTEN 0x0a    /* include/net/tcp_states.h */
#define UDP_UNCONNECTED 07 /* a socket without a peer has the state TCP_CLOSE */

int proc_read(struct str *out, const char *root, const char *path)
{
	int r = file_read(out, str_local(PROC_PATH_MAX, "%s%s", root, path), PROC_FILE_MAX, NULL);

	return r == -EFBIG ? 0 : r;
}

int64_t proc_number(const char *root, const char *fmt, ...)
{
	AUTO(free) char *path = NULL;
	uint64_t n;
	va_list ap;

	va_start(ap, fmt);
	path = xvasprintf(fmt, ap);
	va_end(ap);
	return file_read_number(&n, str_local(PROC_PATH_MAX, "%s%s", root, path), NULL) == 0
		       ? (int64_t)n
		       : FACT_UNKNOWN;
}

/* --- sockets ----------------------------------------------------------------------- */

/*
 * The kernel prints each 32-bit word of an address, and each port, as a number in host byte order.
 */
static bool hex_addr(struct ip_addr *ret, const char *text)
{
	unsigned int w[4];
	int n = sscanf(text, "%8x%8x%8x%8x", &w[0], &w[1], &w[2], &w[3]);

	if ((n != 1 && n != 4) || strlen(text) != 8 * (size_t)n)
		return false;
	*ret = ip_addr_from_bytes(n == 1 ? AF_INET : AF_INET6, w);
	return true;
}

int proc_listener(struct ip_tuple *ret, const char *line, uint8_t proto)
{
	char addr[33];
	unsigned int port;
	unsigned int state;

	/* "  0: 0100007F:1F90 00000000:0000 0A ..." */
	if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", addr, &port, &state) != 3)
		return 0;
	if (state != (proto == IPPROTO_TCP ? TCP_LISTEN : UDP_UNCONNECTED) || port == 0 ||
	    port > UINT16_MAX)
		return 0;
	*ret = (struct ip_tuple){ .proto = proto, .port = (uint16_t)port };
	return hex_addr(&ret->addr, addr);
}

/* "TCP  0A600001:0050 rr" or "UDP  [2001:0db8:...:0001]:0035 rr"; in network byte order. */
int proc_ipvs(struct ip_tuple *ret, const char *line)
{
	char proto[8];
	char addr[64];
	unsigned int port;
	unsigned int v4;

	*ret = (struct ip_tuple){ 0 };
	if (sscanf(line, "%7s [%63[^]]]:%x", proto, addr, &port) == 3) {
		if (ip_addr_parse(&ret->addr, addr, NULL) < 0)
			return 0;
	} else if (sscanf(line, "%7s %8x:%x", proto, &v4, &port) == 3) {
		uint32_t raw = htonl(v4);

		ret->addr = ip_addr_from_bytes(AF_INET, &raw);
	} else {
		return 0;
	}
	ret->proto = (uint8_t)l4proto_parse(proto);
	ret->port = (uint16_t)port;
	return ret->proto != 0 && port <= UINT16_MAX;
}

/* "  -> 0A000102:1F90      Masq    1      3          12" */
int64_t proc_ipvs_conns(const char *line)
{
	long long active;
	long long inactive;

	return sscanf(line, " -> %*s %*s %*d %lld %lld", &active, &inactive) == 2
		       ? active + inactive
		       : FACT_UNKNOWN;
}

/* "IP Virtual Server version 1.2.1 (size=4096)" */
int64_t proc_ipvs_size(const char *line)
{
	long long size;

	return sscanf(line, "IP Virtual Server version %*s (size=%lld)", &size) == 1 ? size
										     : FACT_UNKNOWN;
}

/* --- routes and counters --------------------------------------------------------------- */

size_t proc_default_routes(char *text)
{
	char names[16][32];
	size_t n = 0;
	char *line;

	while (n < ARRAY_SIZE(names) && (line = str_line(&text)) != NULL) {
		unsigned int dest;
		unsigned int mask;
		size_t i = 0;

		/* Iface Destination Gateway Flags RefCnt Use Metric Mask ... */
		if (sscanf(line, "%31s %8x %*8x %*x %*d %*d %*d %8x", names[n], &dest, &mask) !=
			    3 ||
		    dest != 0 || mask != 0)
			continue;
		while (strcmp(names[i], names[n]) != 0)
			i++;
		n += i == n; /* not one of those before */
	}
	return n;
}

uint64_t proc_stat_sum(char *text, const char *column)
{
	int index = -1; /* the header has no such column */
	uint64_t sum = 0;
	char *line;

	for (bool is_head = true; (line = str_line(&text)) != NULL; is_head = false) {
		char *save = NULL;
		int i = 0;

		for (char *word = strtok_r(line, " \t", &save); word != NULL;
		     word = strtok_r(NULL, " \t", &save), i++) {
			if (is_head && strcmp(word, column) == 0)
				index = i;
			else if (!is_head && i == index)
				sum += strtoull(word, NULL, 16);
		}
	}
	return sum;
}
