/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options - vipd's command line and configuration file.
 *
 *     options_parse -> log options.record.notes -> act -> options_fini
 *
 * Flags that kube-proxy has keep kube-proxy's names and meaning (section 14 of
 * doc/behaviour.md), and so do the fields of its configuration file. One table in
 * flags.c is the source of parsing, --help and completion. A note
 * names settings that are accepted without effect.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "conntrack/conntrack.h"
#include "http/http_port.h"
#include "model/model.h"
#include "plane/ipvs/plane_ipvs.h"
#include "source/kube/kube.h"

enum options_action {
	OPTIONS_RUN = 0,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_CLEANUP,
	OPTIONS_CLEANUP_KUBE_PROXY,
	OPTIONS_CLEANUP_KUBE_ROUTER,
	OPTIONS_INIT_ONLY,
	OPTIONS_WRITE_CONFIG,
	OPTIONS_COMPLETION,
};

#define OOM_SCORE_UNSET INT32_MIN

/* CFG-07. In the order of the words of --proxy-mode; iptables is served by the nftables plane. */
enum proxy_mode {
	PROXY_MODE_NFTABLES = 0,
	PROXY_MODE_IPVS,
	PROXY_MODE_IPTABLES,
};

struct cli_option;

/* A flag that was given, or a field of the file that is not empty. */
struct options_setting {
	const struct cli_option *option;
	char *name; /* "--ipvs-scheduler" or "ipvs.scheduler" */
	char *value;
};

/* A setting compared with kube-proxy's setting of the same name. */
enum options_use {
	OPTIONS_SAME = 0,
	OPTIONS_DIFFERS,    /* option->differs says in what */
	OPTIONS_UNUSED,     /* without effect; option->help says why */
	OPTIONS_OTHER_MODE, /* CFG-45: of a mode that is not in use */
};

/* The status page on the metrics server. */
enum status_page {
	STATUS_PAGE_AUTO = 0, /* with a loopback address of the metrics server */
	STATUS_PAGE_ON,
	STATUS_PAGE_OFF,
};

struct options_sync {
	uint64_t min_period_ns;
	uint64_t period_ns; /* HC-04: pending for twice this period is unhealthy */
	uint64_t audit_ns;
};

struct options_servers {
	struct ip_endpoint healthz; /* port 0: no server */
	struct ip_endpoint metrics; /* port 0: no server */
	enum status_page page;
	int32_t healthz_port; /* -1: not given (CFG-22) */
	int32_t metrics_port;
	bool is_hard_fail; /* --bind-address-hard-fail */
	bool is_ipv6;      /* --bind-address is IPv6: default addresses as well (CFG-09) */
};

struct options_log {
	enum log_format format; /* valid after a failure as well */
	int verbosity;
	int area_verbosity[LOG_AREA_N];        /* --vmodule; -1: `verbosity` */
	enum log_level area_level[LOG_AREA_N]; /* --log-level; 0: by verbosity */
};

enum failover_mode {
	FAILOVER_OFF = 0,
	FAILOVER_HANDSHAKE,
	FAILOVER_EJECT, /* and handshakes move */
};

struct options_plane {
	enum proxy_mode mode;
	enum plane_counting counting; /* --metrics-per-service */
	enum failover_mode failover;  /* --failover */
	uint64_t failover_ns;         /* --failover-timeout */
	uint64_t failover_udp_ns;     /* --failover-udp-timeout; 0: flows of UDP stay */
	bool is_table_owner;          /* --nft-table-owner */
	bool is_guard_off;            /* --nft-guard=off */
};

/* For their detection modes only. */
struct options_pods {
	char bridge[IFNAME_MAX];
	char prefix[IFNAME_MAX];
};

/* Settings that were given, and the effective values. */
struct options_record {
	json_t *effective;  /* effective values of the file's fields, by name: "ipvs.scheduler" */
	struct str ignored; /* settings without effect, separated by commas */
	VEC(struct options_setting) settings; /* effective or not, in their order */
	VEC(char *) notes;                    /* to be logged as warnings, in this order */
};

struct options {
	enum options_action action;
	/* Texts are borrowed from argv, or from `record.settings`. */
	const char *config;          /* --config FILE; NULL: flags only */
	const char *write_config_to; /* file, or NULL */
	const char *shell;           /* --completion */
	bool is_cleanup_forced;      /* --cleanup=...,force */
	const char *manifests;       /* folder; NULL: API server */
	bool is_strict;              /* --strict */
	struct kube_config api;
	const char *control_socket; /* "": none */
	char hostname[256];         /* LIFE-11: trimmed, lower case */
	struct options_sync sync;
	struct options_servers servers;
	struct options_log log;
	int32_t oom_score_adj;             /* OOM_SCORE_UNSET: unchanged */
	struct conntrack_config conntrack; /* but for `is_ipvs`, `scanned` */
	struct options_plane plane;
	struct ipvs_config ipvs; /* what --ipvs-* sets */
	VEC(struct ip_prefix) ipvs_exclude;
	struct options_pods pods;
	struct model_config model; /* owned, unless the caller moves it to a model */
	struct options_record record;
};

/*
 * Fill `o` from the file of --config, if any, and from the flags. -EINVAL and others: `err` names
 * the flag, or file, line and field. Call options_fini() in any case.
 */
MUST_USE int options_parse(struct options *o, int argc, char **argv, struct err *err);
void options_fini(struct options *o);
/* The effective configuration as a configuration file (CFG-05). */
void options_effective(const struct options *o, struct str *ret);
/* Names of the flags that it lacks, separated by commas: without a field in this mode. */
void options_unwritten(const struct options *o, struct str *ret);
/*
 * Names of fields with different values in `old` and `new`, separated by commas, without fields
 * of the log, which options_take_log() applies.
 */
void options_differences(const struct options *old, const struct options *new, struct str *ret);
/* Take over the log settings of `new`. False: they are equal. */
bool options_take_log(struct options *o, const struct options *new);
/* Does a setting of this flag, or of its field, have a value? */
bool options_has(const struct options *o, const char *flag);
enum options_use options_use(const struct options *o, const struct options_setting *s);
/* The setting's field, borrowed, and its effective value, a new reference. NULL: it has none. */
json_t *options_field(const struct options *o, const struct options_setting *s, const char **name);
/* The effective configuration as JSON, as on kube-proxy's /configz. The caller frees it. */
char *options_configz(const struct options *o);
/* Every effective flag with its value as text; a new reference. */
json_t *options_list(const struct options *o);
bool options_has_page(const struct options *o);
/* The word of --proxy-mode, and the name of the plane that serves it. */
const char *options_mode(const struct options *o);
const char *options_plane(const struct options *o);
