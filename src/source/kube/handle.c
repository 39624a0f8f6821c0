/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/util.h"

#if defined(__x86_64__)
#define MACHINE "amd64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#else
#define MACHINE "other"
#endif
#define USER_AGENT "vipd/" VIPD_VERSION " (linux/" MACHINE ")"

DEFINE_AUTO(char *, curl_free);
DEFINE_AUTO(CURLU *, curl_url_cleanup);

static void header_add(struct handle *h, const char *name, const char *value)
{
	AUTO(free) char *text = xasprintf("%s: %s", name, value);

	h->headers = curl_slist_append(h->headers, text);
}

static void blob_set(CURL *easy, CURLoption option, const char *pem)
{
	struct curl_blob blob = { (void *)(uintptr_t)pem, pem ? strlen(pem) : 0, CURL_BLOB_COPY };

	if (pem != NULL)
		(void)curl_easy_setopt(easy, option, &blob);
}

/*
 * kubeconfig field tls-server-name: libcurl verifies the certificate for the name in the URL.
 * CONNECT_TO has the address of the server; the Host header keeps the server's name.
 */
static int tls_name_set(struct handle *h, CURLU *url, const char *name)
{
	AUTO(curl_free) char *host = NULL;
	AUTO(curl_free) char *port = NULL;
	FINI(str_fini) struct str text = { 0 };

	if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
	    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
	    curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
		return -EINVAL;
	str_printf(&text, "%s:%s", host, port);
	header_add(h, "Host", text.text);
	str_clear(&text);
	str_printf(&text, "%s:%s:%s:%s", name, port, host, port);
	h->connect_to = curl_slist_append(NULL, text.text);
	(void)curl_easy_setopt(h->easy, CURLOPT_CONNECT_TO, h->connect_to);
	return 0;
}

/* --- proxies -------------------------------------------------------------- */

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
	struct ip_addr addr;
	const struct ip_addr *ip = ip_addr_parse(&addr, host, NULL) == 0 ? &addr : NULL;

	if (strcasecmp(host, "localhost") == 0 || (ip != NULL && ip_addr_is_loopback(ip)))
		return true;
	str_for_each_word (word, copy)
		if (entry_matches(word, host, ip, port))
			return true;
	return false;
}

/* Of the environment: the first one that is not empty; NULL: none. */
static const char *variable(const char *upper, const char *lower)
{
	const char *value = getenv(upper);

	return value != NULL && value[0] != '\0' ? value : getenv(lower);
}

/* Host of the URL, an IPv6 address without brackets; "": none. */
static void host_get(struct str *ret, CURLU *url)
{
	AUTO(curl_free) char *host = NULL;

	if (curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK)
		str_add(ret, host + (host[0] == '['), strcspn(host + (host[0] == '['), "]"));
}

/* Without a proxy of the environment? */
static bool is_direct(CURLU *url)
{
	AUTO(curl_free) char *port = NULL;
	FINI(str_fini) struct str host = { 0 };

	host_get(&host, url);
	return curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
	       noproxy_matches(variable("NO_PROXY", "no_proxy"), str_text(&host), port);
}

/*
 * As in Go, and not libcurl's own choice: no ALL_PROXY, no proxy of the environment for a server on
 * this host, NO_PROXY, and a proxy of the scheme socks5 resolves the server's name.
 */
static void proxy_set(CURL *easy, const struct kubeconfig *k, const char *server, CURLU *url)
{
	const char *proxy = k->proxy_url;
	AUTO(free) char *text = NULL;

	if (proxy == NULL && !is_direct(url))
		proxy = handle_is_tls(server) ? variable("HTTPS_PROXY", "https_proxy")
					      : variable("HTTP_PROXY", "http_proxy");
	if (proxy != NULL && strncasecmp(proxy, "socks5:", 7) == 0)
		proxy = text = xasprintf("socks5h%s", proxy + 6);
	(void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	(void)curl_easy_setopt(easy, CURLOPT_PROXY, proxy != NULL ? proxy : "");
}

static int url_set(struct handle *h, const struct kubeconfig *k, const char *server,
		   const char *path)
{
	AUTO(free) char *text = xasprintf("%s%s", server, path);
	AUTO(curl_url_cleanup) CURLU *url = curl_url();
	AUTO(curl_free) char *full = NULL;

	if (url == NULL || curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
		return -EINVAL;
	proxy_set(h->easy, k, server, url);
	if ((k->tls_server_name != NULL && tls_name_set(h, url, k->tls_server_name) < 0) ||
	    curl_url_get(url, CURLUPART_URL, &full, 0) != CURLUE_OK)
		return -EINVAL;
	(void)curl_easy_setopt(h->easy, CURLOPT_URL, full);
	return 0;
}

static void tls_set(CURL *easy, const struct access_grant *g)
{
	(void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (g->where->is_insecure) {
		(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (g->ca != NULL) {
		/* Trust this authority only, without the system's. */
		(void)curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
		(void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
		blob_set(easy, CURLOPT_CAINFO_BLOB, g->ca);
	}
	blob_set(easy, CURLOPT_SSLCERT_BLOB, g->cert);
	blob_set(easy, CURLOPT_SSLKEY_BLOB, g->key);
}

const char *handle_server(const struct kubeconfig *k, size_t server)
{
	return k->servers.v[server % k->servers.n];
}

int handle_server_ip(struct ip_addr *ret, const char *server)
{
	AUTO(curl_url_cleanup) CURLU *url = curl_url();
	FINI(str_fini) struct str host = { 0 };

	if (url != NULL && curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK)
		host_get(&host, url);
	return ip_addr_parse(ret, str_text(&host), NULL);
}

bool handle_is_tls(const char *server)
{
	return strncasecmp(server, "https://", 8) == 0;
}

int handle_open(struct handle *ret, const struct access_grant *g, size_t server,
		const struct http_request *request, uint64_t connect_ns)
{
	const char *where = handle_server(g->where, server);
	FINI(handle_close) struct handle h = { .easy = curl_easy_init() };

	if (h.easy == NULL || url_set(&h, g->where, where, request->path) < 0)
		return -EINVAL;
	(void)curl_easy_setopt(h.easy, CURLOPT_NOSIGNAL, 1L);
	/* Without it the end of a request waits for a name server that does not answer. */
	(void)curl_easy_setopt(h.easy, CURLOPT_QUICK_EXIT, 1L);
	/* As Go does: the server's name may have moved to another address. */
	(void)curl_easy_setopt(h.easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
	(void)curl_easy_setopt(h.easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(h.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	(void)curl_easy_setopt(h.easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	(void)curl_easy_setopt(h.easy, CURLOPT_USERAGENT, USER_AGENT);
	(void)curl_easy_setopt(h.easy, CURLOPT_CONNECTTIMEOUT_MS,
			       (long)(connect_ns / NSEC_PER_MSEC));
	header_add(&h, "Accept", request->accept);
	if (request->body != NULL) {
		header_add(&h, "Content-Type", "application/json");
		(void)curl_easy_setopt(h.easy, CURLOPT_COPYPOSTFIELDS, request->body);
	}
	if (g->authorization != NULL && handle_is_tls(where))
		header_add(&h, "Authorization", g->authorization);
	(void)curl_easy_setopt(h.easy, CURLOPT_HTTPHEADER, h.headers);
	tls_set(h.easy, g);
	*ret = h;
	h = (struct handle){ 0 };
	return 0;
}

void handle_close(struct handle *h)
{
	if (h->easy != NULL)
		curl_easy_cleanup(h->easy);
	curl_slist_free_all(h->headers);
	curl_slist_free_all(h->connect_to);
	*h = (struct handle){ 0 };
}
