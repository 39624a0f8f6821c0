/* SPDX-License-Identifier: GPL-2.0-or-later */
/* settings/effective - what is in force: as fields, as flags, and compared with kube-proxy. */
#include <stdlib.h>
#include <string.h>

#include "settings/config.h"
#include "settings/flags.h"

const char *options_mode(const struct options *o)
{
	static const char *const words[] = { [PROXY_MODE_NFTABLES] = "nftables",
					     [PROXY_MODE_IPVS] = "ipvs",
					     [PROXY_MODE_IPTABLES] = "iptables" };

	return words[o->plane.mode];
}

const char *options_plane(const struct options *o)
{
	return o->plane.mode == PROXY_MODE_IPVS ? "ipvs" : "nftables";
}

bool options_has_page(const struct options *o)
{
	return o->servers.page == STATUS_PAGE_ON || (o->servers.page == STATUS_PAGE_AUTO &&
						     ip_addr_is_loopback(&o->servers.metrics.addr));
}

bool options_is_foreign(const struct options *o, const char *field)
{
	bool is_nft = o->plane.mode == PROXY_MODE_NFTABLES;
	bool is_ipvs = o->plane.mode == PROXY_MODE_IPVS;

	if (is_ipvs && strcmp(field, "iptables.masqueradeAll") == 0) /* CFG-28 */
		return false;
	return (!is_ipvs && str_begins(field, "ipvs.")) || str_begins(field, "winkernel.") ||
	       (!is_nft && str_begins(field, "nftables.")) ||
	       ((is_nft || is_ipvs) && str_begins(field, "iptables."));
}

const struct cli_option *options_row(const struct cli_option *f)
{
	const struct cli_option *alias =
		array_find(vipd_cli.options, vipd_cli.n_options, a,
			   a->field != NULL && f->value.size != 0 && a->value.at == f->value.at);

	return f->field == NULL && alias != NULL ? alias : f;
}

/* The field of a setting; of a flag with two, the one of the mode in use. NULL: none. */
static const char *setting_field(const struct options *o, const struct options_setting *s)
{
	const struct cli_option *f = options_row(s->option);

	if (s->name[0] != '-')
		return s->name;
	if (f->field == NULL || !options_is_foreign(o, f->field))
		return f->field;
	return f->nft_field != NULL && !options_is_foreign(o, f->nft_field) ? f->nft_field : NULL;
}

/* A flag of the iptables section is effective in all modes. */
static bool is_of_other_mode(const struct options *o, const struct options_setting *s)
{
	bool is_field = s->name[0] != '-';
	const char *field = is_field ? s->name : s->option->field;

	return field != NULL && options_is_foreign(o, field) &&
	       (is_field || str_begins(field, "ipvs."));
}

/* What is switched off does not differ. */
static bool is_off(const char *value)
{
	return strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
}

enum options_use options_use(const struct options *o, const struct options_setting *s)
{
	if (s->option->effect != CLI_EFFECTIVE)
		return OPTIONS_UNUSED;
	if (is_of_other_mode(o, s))
		return OPTIONS_OTHER_MODE;
	return s->option->differs != NULL && !is_off(s->value) ? OPTIONS_DIFFERS : OPTIONS_SAME;
}

json_t *options_field(const struct options *o, const struct options_setting *s, const char **name)
{
	bool is_port = s->option->kind == CONFIG_SHARED;

	*name = setting_field(o, s);
	if (*name == NULL || (is_port && strtol(s->value, NULL, 10) == 0))
		return NULL;
	return json_incref(json_object_get(o->record.effective, *name));
}

static bool is_preset(const struct options_setting *s)
{
	const char *preset = s->option->preset;

	return s->value[0] == '\0' || (preset != NULL && strcmp(s->value, preset) == 0);
}

void options_unwritten(const struct options *o, struct str *ret)
{
	bool is_command = true; /* the first group */

	for (size_t i = 0; i < vipd_cli.n_options; i++) {
		const struct cli_option *f = &vipd_cli.options[i];
		const struct options_setting *last = NULL;
		json_auto_t *value = NULL;
		const char *name;

		is_command = is_command && (i == 0 || f->group == NULL);
		vec_for_each (s, &o->record.settings)
			if (s->option == f && s->name[0] == '-')
				last = s;
		if (is_command || last == NULL || is_preset(last) ||
		    options_use(o, last) == OPTIONS_UNUSED ||
		    options_use(o, last) == OPTIONS_OTHER_MODE)
			continue;
		value = options_field(o, last, &name);
		if (value == NULL)
			str_printf(ret, "%s%s", ret->len > 0 ? ", " : "", last->name);
	}
}

void options_effective(const struct options *o, struct str *ret)
{
	config_print(ret, o->record.effective);
}

/* `prefix`: of the names in `old` and `new`. */
static void differences_add(struct str *ret, const char *prefix, json_t *old, json_t *new)
{
	json_auto_t *all = json_copy(old);
	const char *name;
	json_t *v;

	(void)json_object_update_missing(all, new);
	json_object_foreach (all, name, v) {
		json_t *was = json_object_get(old, name);
		json_t *is = json_object_get(new, name);

		if (str_begins(name, "logging.") || json_equal(was, is))
			continue;
		if (json_is_object(was) && json_is_object(is))
			differences_add(ret, "featureGates.", was, is);
		else
			str_printf(ret, "%s%s%s", ret->len > 0 ? ", " : "", prefix, name);
	}
}

void options_differences(const struct options *old, const struct options *new, struct str *ret)
{
	differences_add(ret, "", old->record.effective, new->record.effective);
}

bool options_take_log(struct options *o, const struct options *new)
{
	bool is_changed = false;
	const char *name;
	json_t *v;

	json_object_foreach (new->record.effective, name, v) {
		if (!str_begins(name, "logging.") ||
		    json_equal(json_object_get(o->record.effective, name), v))
			continue;
		(void)json_object_set(o->record.effective, name, v);
		is_changed = true;
	}
	if (!is_changed)
		return false;
	o->log = new->log;
	return true;
}

char *options_configz(const struct options *o)
{
	json_t *config = config_tree(o->record.effective);
	json_auto_t *all = json_pack("{s:o}", "kubeproxy.config.k8s.io", config);

	(void)json_object_set_new(config, "apiVersion", json_string(CONFIG_FILE_VERSION));
	(void)json_object_set_new(config, "kind", json_string(CONFIG_FILE_KIND));
	return json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
}

/* The effective value: from the command line, the file or the default. */
static json_t *flag_value(const struct options *o, const struct cli_option *f)
{
	AUTO(free) char *value = NULL;
	const char *field = options_row(f)->field;
	const char *text = f->preset;
	AUTO(free) char *dump = NULL;
	const json_t *v;

	if (field != NULL && f->kind != CONFIG_SHARED) {
		v = json_object_get(o->record.effective, field);
		dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
		text = json_is_string(v) ? json_string_value(v) : dump;
	} else {
		vec_for_each (s, &o->record.settings)
			if (s->option == f)
				text = s->value;
	}
	value = xstrdup(text != NULL ? text : "");
	return json_string(str_clean(value)); /* a path may be no UTF-8 */
}

json_t *options_list(const struct options *o)
{
	json_t *ret = json_object();

	for (size_t i = 0; i < vipd_cli.n_options; i++) {
		const struct cli_option *f = &vipd_cli.options[i];

		if (f->name != NULL && f->effect == CLI_EFFECTIVE)
			(void)json_object_set_new(ret, f->name, flag_value(o, f));
	}
	return ret;
}
