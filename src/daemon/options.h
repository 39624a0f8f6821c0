/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options - vipd's command line and configuration file.
 *
 *     options_parse -> log options.notes -> act -> options_fini
 *
 * Flags that kube-proxy has keep kube-proxy's names and meaning (section 14 of
 * doc/behaviour.md), and so do the fields of its configuration file. One table in
 * options.c is the source of parsing, of --help and of doc/flags.md. What is
 * accepted but has no effect here is named in a note.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "conntrack/sysctl.h"
#include "http/listen.h"
#include "model/model.h"
#include "plane/plane.h"

enum options_action {
	OPTIONS_RUN = 0,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_CLEANUP,
	OPTIONS_CLEANUP_KUBE_PROXY,
	OPTIONS_INIT_ONLY,
	OPTIONS_WRITE_CONFIG,
	OPTIONS_TABLE, /* --help=table */
	OPTIONS_MAN,   /* --help=man */
};

#define OOM_SCORE_UNSET INT32_MIN

/* Which plane serves: nftables unless it is IPVS that is asked for (CFG-07). */
enum proxy_mode {
	PROXY_MODE_UNSET = 0, /* "" */
	PROXY_MODE_NFTABLES,
	PROXY_MODE_IPTABLES,
	PROXY_MODE_IPVS,
};

/* --ipvs-*; 0 and NULL: the plane's own default. */
struct options_ipvs {
	const char *scheduler;
	uint32_t drain_s;
	bool has_drain;
	uint32_t tcp_s; /* 0 = as the kernel has it */
	uint32_t tcpfin_s;
	uint32_t udp_s;
	uint32_t mark_tag;
	uint32_t route_table;
	uint32_t rule_priority;
	bool is_estimating;
	VEC(struct ip_prefix) exclude;
};

/* The status page on the metrics server. */
enum status_page {
	STATUS_PAGE_AUTO = 0, /* when only this host can ask */
	STATUS_PAGE_ON,
	STATUS_PAGE_OFF,
};

struct options {
	enum options_action action;
	/* Texts are borrowed from argv, or from `texts`. */
	const char *config;          /* --config FILE; NULL: flags only */
	const char *write_config_to; /* NULL, or where to */
	const char *manifests;       /* folder; NULL: the API */
	const char *kubeconfig; /* NULL with no manifests: master, or the pod's service account */
	const char *master;     /* one URL or several, comma separated; NULL = the kubeconfig's */
	const char *api_content_type; /* NULL = protobuf */
	double api_qps;               /* lists and watches a second; 0 = default, < 0 = no limit */
	int api_burst;
	const char *control_socket; /* "" = none */
	char hostname[256];         /* LIFE-11: trimmed, lower case */
	uint64_t min_sync_period_ns;
	uint64_t sync_period_ns;     /* HC-04: twice of it behind is unhealthy */
	struct listen_place healthz; /* port 0: no server */
	struct listen_place metrics; /* the same */
	enum status_page status_page;
	int32_t healthz_port; /* --healthz-port; -1: not given (CFG-22) */
	int32_t metrics_port;
	bool is_bind_hard_fail;
	bool is_bind_ipv6; /* --bind-address is of that family: so are defaults (CFG-09) */
	uint64_t audit_period_ns;
	enum plane_counting counting; /* --metrics-per-service */
	enum log_format log_format;   /* known after a failure, too */
	int verbosity;
	int area_verbosity[LOG_AREA_N];        /* --vmodule; -1: as `verbosity` */
	enum log_level area_level[LOG_AREA_N]; /* --log-level; 0: as these say */
	int32_t oom_score_adj;                 /* OOM_SCORE_UNSET: as it is */
	struct sysctl_config sysctls;
	bool resets_dead_flows; /* --dead-flows=reset */
	bool is_cleanup_forced; /* --cleanup=kube-proxy,force */
	bool is_strict;         /* --strict */
	bool is_table_owner;    /* --nft-table-owner */
	bool is_guard_off;      /* --nft-guard=off */
	enum proxy_mode mode;
	struct options_ipvs ipvs;
	char pod_bridge[IFNAME_MAX]; /* --pod-bridge-interface; used in its detection mode only */
	char pod_prefix[IFNAME_MAX];
	json_t *effective; /* fields of the configuration file as they are in force */
	json_t *given;     /* flags of the command line, by name */
	VEC(char *) texts;
	VEC(char *) notes; /* to be logged as warnings, in this order */
};

/*
 * Fill `o` and the model's configuration from the file --config names, if any,
 * and from the flags. -EINVAL and others: `err` names the flag, or file, line and
 * field. Lists in `config` are owned by the caller's model from then on. options_fini()
 * in any case.
 */
MUST_USE int options_parse(struct options *o, struct model_config *config, int argc, char **argv,
			   struct err *err);
void options_fini(struct options *o);
/* All that is in force, as a configuration file (CFG-05). */
void options_effective(const struct options *o, struct str *ret);
/*
 * Fields whose value in `new` is another than in `old`, with commas; those of the log, which
 * options_take_log() puts in force, are left out.
 */
void options_differences(const struct options *old, const struct options *new, struct str *ret);
/* Take over what `new` says of the log. False when that is what `o` says. */
bool options_take_log(struct options *o, const struct options *new);
/* The same in JSON, under its group's name, as kube-proxy's /configz tells it. */
void options_configz(const struct options *o, struct str *ret);
/* The same, one by one. */
void options_list(const struct options *o,
		  void (*add)(void *arg, const char *name, const char *value), void *arg);
/* Every flag that does something and its value, a line each, no passwords in them. */
void options_flagz(const struct options *o, struct str *ret);
bool options_has_page(const struct options *o);
/* For people, and the table of doc/flags.md. */
void options_help(struct str *ret);
void options_table(struct str *ret);
/* The manual page, vipd(8). */
void options_man(struct str *ret);
