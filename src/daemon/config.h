/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config - KubeProxyConfiguration files, kubeproxy.config.k8s.io/v1alpha1 (CFG-01).
 *
 *     config_read -> one config_value a field that is set -> config_fini
 *     config_watch_open -> changed, changed, ... -> config_watch_close
 *
 * Here a file is only text with a known shape: which fields there are, of what
 * kind, and in which line. What a field means is decided in options.c, whose flags
 * are the other way to say the same; so every value is handed out as the text that
 * its flag would take.
 *
 * Strict first (CFG-03): a field nobody knows and a key given twice are complaints;
 * the file is then read without the one and with the last of the other. All else
 * that is wrong refuses the file.
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
	CONFIG_ANY,     /* an object that is not looked into */
};

/* The kind of the field with this name, "iptables.syncPeriod"; top-level names have no dot. */
typedef enum config_kind (*config_kind_fn)(const char *name);

struct config_value {
	char *name;
	char *text; /* what its flag would take */
	json_t *json;
	uint32_t line;
};

struct config {
	char *path;
	VEC(struct config_value) values; /* in the file's order; null counts as absent */
	struct str complaints; /* "line 4: 'modes' is no field, line 9: ..."; empty: none */
};

#define CONFIG_SIZE_MAX (1U << 20)

/*
 * -EINVAL and others: `err` reads "FILE:LINE: field: why". `c` must be zeroed, and
 * finished in any case.
 */
MUST_USE int config_read(struct config *c, const char *path, config_kind_fn kind_of,
			 struct err *err);
/* The same from memory; `path` is only named. */
MUST_USE int config_read_text(struct config *c, const char *path, const char *text, size_t len,
			      config_kind_fn kind_of, struct err *err);
void config_fini(struct config *c);
/* NULL when the file does not set it. */
const struct config_value *config_find(const struct config *c, const char *name);

/* What `text`, good for a flag of this kind, is in a file; a new reference. */
json_t *config_from_text(enum config_kind kind, const char *text);
/* Set "iptables.syncPeriod" below `root`; takes `value`. */
void config_tree_put(json_t *root, const char *name, json_t *value);
/* Borrowed; NULL when absent. */
const json_t *config_tree_get(const json_t *root, const char *name);
/* As YAML that config_read() takes, apiVersion and kind first, fields sorted. */
void config_print(struct str *ret, const json_t *root);

/*
 * Tell when the file may have changed: written, replaced, or its folder's contents
 * exchanged behind links as kubelet does it (CFG-04). May be called for nothing.
 */
struct config_watch;
MUST_USE int config_watch_open(struct config_watch **ret, struct event_base *base, const char *path,
			       void (*changed)(void *arg), void *arg, struct err *err);
void config_watch_close(struct config_watch *w);
DEFINE_AUTO(struct config_watch *, config_watch_close);
