/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/noproxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ip.h"
#include "base/str.h"
#include "base/util.h"

static bool is_below(const char *host, const char *domain)
{
	size_t h = strlen(host);
	size_t n = strlen(domain);

	return n > 0 && n <= h && strcasecmp(host + h - n, domain) == 0 &&
	       (n == h || domain[0] == '.' || host[h - n - 1] == '.');
}

/* Of "host:port" or "[host]:port", which becomes the host; NULL: none. */
static const char *port_cut(char **entry)
{
	char *end = strrchr(*entry, ':');
	char *port = end != NULL ? end + 1 : NULL;

	if (**entry == '[') {
		(*entry)++;
		end = strchr(*entry, ']');
		port = end != NULL && end[1] == ':' ? end + 2 : NULL;
	}
	if (end != NULL)
		*end = '\0';
	return port;
}

/* `ip`: the host; NULL: it is a name. */
static bool entry_matches(char *entry, const char *host, const struct ip_addr *ip, const char *port)
{
	struct ip_prefix prefix;
	struct ip_addr addr;
	const char *own;

	if (strcmp(entry, "*") == 0)
		return true;
	if (strchr(entry, '/') != NULL)
		return ip != NULL && ip_prefix_parse(&prefix, entry, NULL) == 0 &&
		       ip_prefix_contains(&prefix, ip);
	own = ip_addr_parse(&addr, entry, NULL) == 0 ? NULL : port_cut(&entry);
	if (own != NULL && own[0] != '\0' && strcmp(own, port) != 0)
		return false;
	if (ip != NULL)
		return ip_addr_parse(&addr, entry, NULL) == 0 && ip_addr_is_equal(&addr, ip);
	return is_below(host, entry[0] == '*' ? entry + 1 : entry);
}

bool noproxy_matches(const char *list, const char *host, const char *port)
{
	AUTO(free) char *copy = xstrdup(list != NULL ? list : "");
	char *rest = copy;
	struct ip_addr addr;
	const struct ip_addr *ip = ip_addr_parse(&addr, host, NULL) == 0 ? &addr : NULL;
	bool is_found = strcasecmp(host, "localhost") == 0 || (ip && ip_addr_is_loopback(ip));
	char *word;

	while (!is_found && (word = str_word(&rest)) != NULL)
		is_found = entry_matches(word, host, ip, port);
	return is_found;
}
