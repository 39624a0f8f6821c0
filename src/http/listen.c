/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/listen - create, bind and listen. */
#include "http/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

int listen_tcp(int *ret, const struct listen_place *at, bool is_dual, struct err *err)
{
	struct sockaddr_storage addr;
	socklen_t len = ip_sockaddr(&addr, &at->addr, at->port);
	char text[IP_ENDPOINT_TEXT_MAX];
	int on = 1;
	int v6only = !is_dual;
	int fd = socket(at->addr.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return err_errno(err, "socket");
	/* Connections in TIME_WAIT of an earlier process do not block the port. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (at->addr.family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) == 0) &&
	    bind(fd, (const struct sockaddr *)&addr, len) == 0 && listen(fd, BACKLOG) == 0) {
		*ret = fd;
		return 0;
	}
	r = err_errno(err, "listen on %s", ip_endpoint_text(&at->addr, at->port, text));
	close(fd);
	return r;
}
