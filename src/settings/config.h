/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config - KubeProxyConfiguration files, kubeproxy.config.k8s.io/v1alpha1 (CFG-01).
 *
 *     config_read -> one config_value a field that is set -> config_fini
 *     config_watch_open -> changed, changed, ... -> config_watch_close
 *
 * This module checks names, kinds and lines of fields. options.c decides what a field
 * means: each value is passed on as the text that the field's flag takes.
 *
 * Strict, then lenient (CFG-03): unknown fields are ignored and the last of duplicate keys
 * counts; `complaints` names both. Any other error rejects the file.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct event_base;

enum config_kind {
	CONFIG_NONE = 0, /* no such field */
	CONFIG_SECTION,  /* an object with fields of its own */
	CONFIG_TEXT,
	CONFIG_BOOL,
	CONFIG_INT,
	CONFIG_NUMBER,
	CONFIG_DURATION, /* text such as "1m30s" */
	CONFIG_DURATION_OR_NS,
	CONFIG_LIST,    /* of text; as text: with commas */
	CONFIG_GATES,   /* names to booleans; as text: A=true,B=false */
	CONFIG_VMODULE, /* of filePattern and verbosity; as text: a=1,b=2 */
	CONFIG_ANY,     /* an object that is not checked */
	CONFIG_SHARED,  /* not a field: a flag that sets a part of another flag's field */
};

/* The kind of the field with this name, "iptables.syncPeriod"; top-level names have no dot. */
typedef enum config_kind (*config_kind_fn)(const char *name);

struct config_value {
	char *name;
	char *text; /* as the flag takes it */
	uint32_t line;
};

struct config {
	const char *path;                /* borrowed */
	VEC(struct config_value) values; /* in the order of the file; null is absent */
	struct str complaints; /* "line 4: unknown field 'modes', line 9: ..."; empty: none */
};

#define CONFIG_FILE_VERSION "kubeproxy.config.k8s.io/v1alpha1"
#define CONFIG_FILE_KIND "KubeProxyConfiguration"
#define CONFIG_SIZE_MAX (1U << 20)

/*
 * -EINVAL and others: `err` reads "FILE:LINE: field: why". `c` must be zeroed, and
 * finished in any case.
 */
MUST_USE int config_read(struct config *c, const char *path, config_kind_fn kind_of,
			 struct err *err);
void config_fini(struct config *c);
/* NULL when the file does not set it. */
const struct config_value *config_find(const struct config *c, const char *name);

/* A valid value of a flag as a value of the file; a new reference. */
json_t *config_from_text(enum config_kind kind, const char *text);
/*
 * The content of a file: `fields` have names such as "iptables.syncPeriod", the result has an
 * object "iptables". A new reference.
 */
json_t *config_tree(const json_t *fields);
/* `fields` as YAML that config_read() takes, apiVersion and kind first, sorted. */
void config_print(struct str *ret, const json_t *fields);

/*
 * Call `changed` when the file may have changed: written, replaced, or its folder exchanged
 * behind symbolic links as kubelet does (CFG-04). Also called once after the start of the watch:
 * the file may have changed since the caller read it. May be called without a change.
 */
struct config_watch;
MUST_USE int config_watch_open(struct config_watch **ret, struct event_base *base, const char *path,
			       void (*changed)(void *arg), void *arg, struct err *err);
void config_watch_close(struct config_watch *w);
DEFINE_AUTO(struct config_watch *, config_watch_close);
