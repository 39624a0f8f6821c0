/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/zpages - pages in the format of kube-proxy. */
#include "metrics/zpages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "metrics/expo.h"

#define TIME_MAX 64
#define WARNING                                                                           \
	"Warning: This endpoint is not meant to be machine parseable, has no formatting " \
	"compatibility guarantees and is for debugging purposes only.\n\n"

static void configz(const struct metrics_config *c, struct http_reply *reply)
{
	reply->type = "application/json";
	c->config(c->arg, &reply->body);
}

static void flagz(const struct metrics_config *c, struct http_reply *reply)
{
	str_puts(&reply->body, "\nvipd flagz\n" WARNING);
	c->flags(c->arg, &reply->body);
}

static void statusz(const struct metrics_config *c, struct http_reply *reply)
{
	time_t started = (time_t)(c->started_wall_ns / (int64_t)NSEC_PER_SEC);
	uint64_t up = (now_ns() - c->ctx->started_ns) / NSEC_PER_SEC;
	char text[TIME_MAX];
	struct tm tm;

	(void)gmtime_r(&started, &tm);
	(void)strftime(text, sizeof(text), "%a %b %e %H:%M:%S UTC %Y", &tm);
	str_printf(&reply->body,
		   "\nvipd statusz\n" WARNING "Started: %s\nUp: %" PRIu64 " hr %02" PRIu64
		   " min %02" PRIu64 " sec\nBinary version: %s\nPaths: /configz /flagz /healthz "
		   "/metrics /metrics/slis /proxyMode /statusz\n",
		   text, up / 3600, up / 60 % 60, up % 60, VIPD_VERSION);
}

static void slis(const struct metrics_config *c, struct http_reply *reply)
{
	static const char *const types[HEALTH_PROBES] = { "healthz", "livez" };
	static const char *const statuses[] = { "error", "success" };
	struct str *out = &reply->body;
	struct health_facts facts;
	char labels[96];

	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	if (c->health == NULL)
		return;
	health_facts_get(&facts, c->health, now_ns(), 0);
	expo_head(out, "kubernetes_healthcheck", "gauge",
		  "[STABLE] This metric records the result of a single healthcheck.");
	for (int q = 0; q < HEALTH_PROBES; q++) {
		FINI(str_fini) struct str body = { 0 };

		(void)snprintf(labels, sizeof(labels), "name=\"proxy\",type=\"%s\"", types[q]);
		expo_uint(out, "kubernetes_healthcheck", labels,
			  health_answer(&body, &facts, (enum health_probe)q) == 200);
	}
	expo_head(out, "kubernetes_healthchecks_total", "counter",
		  "[STABLE] This metric records the results of all healthcheck.");
	for (int q = 0; q < HEALTH_PROBES; q++)
		for (int good = 0; good < 2; good++) {
			(void)snprintf(labels, sizeof(labels),
				       "name=\"proxy\",status=\"%s\",type=\"%s\"", statuses[good],
				       types[q]);
			expo_uint(out, "kubernetes_healthchecks_total", labels,
				  health_answers(c->health, (enum health_probe)q, good));
		}
}

bool zpages_answer(const struct metrics_config *config, const struct http_request *q,
		   struct http_reply *reply)
{
	static const struct {
		const char *path;
		void (*answer)(const struct metrics_config *c, struct http_reply *reply);
	} pages[] = {
		{ "/configz", configz },
		{ "/flagz", flagz },
		{ "/statusz", statusz },
		{ "/metrics/slis", slis },
	};

	for (size_t i = 0; config->config != NULL && i < ARRAY_SIZE(pages); i++) {
		if (strcmp(q->path, pages[i].path) != 0)
			continue;
		reply->status = 200;
		pages[i].answer(config, reply);
		return true;
	}
	return false;
}
