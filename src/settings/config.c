/* SPDX-License-Identifier: GPL-2.0-or-later */
/* config - a file's tree, flattened to fields with names, lines and text. */
#include "settings/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "settings/yaml.h"
#include "source/decode/trail.h"
#include "source/decode/yamlread.h"
#include "source/files/watch.h"

#define COMPLAINTS_MAX 400 /* bytes; then "and more" */

/* A walk through one document. */
struct walk {
	struct config *c;
	struct yaml *yaml;
	config_kind_fn kind_of;
	struct decode at; /* the current value */
	struct str name;
};

/* --- complaints and errors --- */

static void complain(struct config *c, uint32_t line, const char *what, const char *name,
		     const char *consequence)
{
	if (c->complaints.len > COMPLAINTS_MAX)
		return;
	str_printf(&c->complaints, "%sline %u: %s '%.64s'%s", c->complaints.len > 0 ? ", " : "",
		   line, what, name, consequence);
	if (c->complaints.len > COMPLAINTS_MAX)
		str_puts(&c->complaints, ", and more");
}

static void on_twice(void *arg, const char *key, uint32_t line)
{
	complain(arg, line, "duplicate key", key, ": the last one counts");
}

/* Prefix `err` with "FILE:LINE: field: ". */
static int reject(struct walk *w, int code, struct err *err)
{
	if (w->name.len > 0)
		(void)err_wrap(err, code, "%s", w->name.text);
	return err_wrap(err, code, "%s:%u", w->c->path, yaml_line_of(w->yaml, &w->at));
}

/* --- values as text --- */

static const char *const kind_words[] = {
	[CONFIG_SECTION] = "an object",
	[CONFIG_TEXT] = "text",
	[CONFIG_BOOL] = "true or false",
	[CONFIG_INT] = "a whole number",
	[CONFIG_NUMBER] = "a number",
	[CONFIG_DURATION] = "a duration, as text such as 30s",
	[CONFIG_DURATION_OR_NS] = "a duration, as text such as 30s",
	[CONFIG_LIST] = "a list of text",
	[CONFIG_GATES] = "an object of names with true or false",
	[CONFIG_VMODULE] = "a list of filePattern and verbosity",
	[CONFIG_ANY] = "an object",
};

/* One entry of a list, or the member `key` of an object, and a comma. */
static bool text_entry(struct str *ret, enum config_kind kind, const char *key, const json_t *e)
{
	const json_t *pattern = json_object_get(e, "filePattern");
	const json_t *verbosity = json_object_get(e, "verbosity");

	if (kind == CONFIG_LIST && json_is_string(e))
		str_printf(ret, "%s,", json_string_value(e));
	else if (kind == CONFIG_GATES && json_is_boolean(e))
		str_printf(ret, "%s=%s,", key, json_is_true(e) ? "true" : "false");
	else if (kind == CONFIG_VMODULE && json_is_string(pattern) && json_is_integer(verbosity))
		str_printf(ret, "%s=%" JSON_INTEGER_FORMAT ",", json_string_value(pattern),
			   json_integer_value(verbosity));
	else
		return false;
	return true;
}

static bool text_entries(struct str *ret, enum config_kind kind, const json_t *v)
{
	const char *key;
	json_t *e;
	size_t i;

	json_array_foreach (v, i, e)
		if (!text_entry(ret, kind, NULL, e))
			return false;
	json_object_foreach ((json_t *)(uintptr_t)v, key, e)
		if (!text_entry(ret, kind, key, e))
			return false;
	if (ret->len > 0)
		ret->text[--ret->len] = '\0'; /* the last comma */
	return kind == CONFIG_GATES ? json_is_object(v) : json_is_array(v);
}

/* False when `v` is not of this kind. */
static bool text_of(struct str *ret, enum config_kind kind, const json_t *v)
{
	switch (kind) {
	case CONFIG_TEXT:
	case CONFIG_DURATION:
		str_puts(ret, json_is_string(v) ? json_string_value(v) : "");
		return json_is_string(v);
	case CONFIG_DURATION_OR_NS:
		if (!json_is_integer(v))
			return text_of(ret, CONFIG_DURATION, v);
		str_printf(ret, "%" JSON_INTEGER_FORMAT "ns", json_integer_value(v));
		return true;
	case CONFIG_BOOL:
		str_puts(ret, json_is_true(v) ? "true" : "false");
		return json_is_boolean(v);
	case CONFIG_INT:
		str_printf(ret, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		return json_is_integer(v);
	case CONFIG_NUMBER:
		if (json_is_integer(v))
			return text_of(ret, CONFIG_INT, v);
		str_printf(ret, "%.9g", json_number_value(v));
		return json_is_number(v);
	case CONFIG_LIST:
	case CONFIG_GATES:
	case CONFIG_VMODULE:
		return text_entries(ret, kind, v);
	case CONFIG_ANY:
		return json_is_object(v);
	case CONFIG_SECTION:
	case CONFIG_SHARED:
	case CONFIG_NONE:
		break;
	}
	return false;
}

/* NULL: a name alone */
static bool is_true(const char *text)
{
	bool ret;

	return cli_bool(&ret, text, NULL) == 0 && ret;
}

/* One entry of a comma-separated list. */
static void word_add(json_t *ret, enum config_kind kind, char *word)
{
	char *value = kind != CONFIG_LIST ? strchr(word, '=') : NULL;

	if (value != NULL)
		*value++ = '\0';
	if (kind == CONFIG_LIST)
		(void)json_array_append_new(ret, json_string(word));
	else if (kind == CONFIG_GATES)
		(void)json_object_set_new(ret, word, json_boolean(is_true(value)));
	else
		(void)json_array_append_new(
			ret, json_pack("{s:s,s:I}", "filePattern", word, "verbosity",
				       (json_int_t)strtoll(value ? value : "0", NULL, 10)));
}

static json_t *from_words(enum config_kind kind, const char *text)
{
	json_t *ret = kind == CONFIG_GATES ? json_object() : json_array();
	AUTO(free) char *copy = xstrdup(text);

	str_for_each_word (word, copy)
		if (*word != '\0')
			word_add(ret, kind, word);
	return ret;
}

json_t *config_from_text(enum config_kind kind, const char *text)
{
	switch (kind) {
	case CONFIG_BOOL:
		return json_boolean(is_true(text));
	case CONFIG_INT:
		return json_integer(strtoll(text, NULL, 10));
	case CONFIG_NUMBER:
		return strpbrk(text, ".eE") ? json_real(strtod(text, NULL))
					    : json_integer(strtoll(text, NULL, 10));
	case CONFIG_ANY:
		return json_object();
	case CONFIG_LIST:
	case CONFIG_GATES:
	case CONFIG_VMODULE:
		return from_words(kind, text);
	case CONFIG_TEXT:
	case CONFIG_DURATION:
	case CONFIG_DURATION_OR_NS:
	case CONFIG_SECTION:
	case CONFIG_SHARED:
	case CONFIG_NONE:
		break;
	}
	return json_string(text);
}

/* --- reading --- */

static int value_take(struct walk *w, enum config_kind kind, const json_t *v, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };

	if (!text_of(&text, kind, v))
		return reject(w, err_set(err, -EINVAL, "is not %s", kind_words[kind]), err);
	*vec_push(&w->c->values) = (struct config_value){
		.name = xstrdup(w->name.text),
		.text = xstrdup(str_text(&text)),
		.line = yaml_line_of(w->yaml, &w->at),
	};
	return 0;
}

/* One object and its sections; unknown fields are not entered. */
static int section_walk(struct walk *w, const json_t *obj, struct err *err)
{
	size_t len = w->name.len;
	const char *key;
	json_t *v;
	int r = 0;

	if (len > 0)
		trail_into(&w->at);
	json_object_foreach ((json_t *)(uintptr_t)obj, key, v) {
		enum config_kind kind;

		if (len == 0 && (strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0))
			continue;
		(void)trail_field(&w->at, obj, key);
		str_printf(&w->name, "%s%s", len > 0 ? "." : "", key);
		kind = w->kind_of(w->name.text);
		if (kind == CONFIG_NONE)
			complain(w->c, yaml_line_of(w->yaml, &w->at), "unknown field", w->name.text,
				 "");
		else if (kind == CONFIG_SECTION && json_is_object(v))
			r = section_walk(w, v, err);
		else if (!json_is_null(v))
			r = value_take(w, kind, v, err);
		if (r < 0)
			return r;
		w->name.len = len;
		w->name.text[len] = '\0';
	}
	if (len > 0)
		trail_out(&w->at);
	return 0;
}

static int head_check(struct walk *w, const json_t *root, const char *key, const char *required,
		      struct err *err)
{
	const json_t *v = trail_field(&w->at, root, key);
	const char *text = json_is_string(v) ? json_string_value(v) : "(no text)";

	if (v == NULL)
		(void)err_set(err, -EINVAL, "%s is missing; required is %s", key, required);
	else if (strcmp(text, required) != 0)
		(void)err_set(err, -EINVAL, "%s: '%s' is not %s", key, text, required);
	else
		return 0;
	return reject(w, -EINVAL, err);
}

static int document_read(struct walk *w, const json_t *root, struct err *err)
{
	int r;

	if (!json_is_object(root))
		return reject(w, err_set(err, -EINVAL, "is not an object"), err);
	r = head_check(w, root, "apiVersion", CONFIG_FILE_VERSION, err);
	if (r == 0)
		r = head_check(w, root, "kind", CONFIG_FILE_KIND, err);
	return r < 0 ? r : section_walk(w, root, err);
}

/* The only document of the file. */
static int documents_read(struct walk *w, struct err *err)
{
	json_auto_t *root = NULL;
	json_auto_t *more = NULL;
	int r = yaml_next(w->yaml, &root, err);

	if (r == YAML_END)
		return err_set(err, -EINVAL, "%s: is empty", w->c->path);
	if (r == YAML_ITEM)
		return reject(w, err_set(err, -EINVAL, "is a list, not a " CONFIG_FILE_KIND), err);
	if (r == YAML_DOCUMENT) {
		r = document_read(w, root, err);
		if (r < 0)
			return r;
		r = yaml_next(w->yaml, &more, err);
		if (r > 0)
			r = err_set(err, -EINVAL, "a second document; allowed is one");
	}
	return r < 0 ? err_wrap(err, r, "%s:%u", w->c->path, yaml_line(w->yaml)) : 0;
}

int config_read(struct config *c, const char *path, config_kind_fn kind_of, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	struct walk w = { .c = c, .kind_of = kind_of };
	int r = file_read(&text, path, CONFIG_SIZE_MAX, err);

	if (r < 0)
		return r;
	c->path = path;
	yaml_open_text(&w.yaml, str_text(&text), text.len, 1);
	yaml_allow_twice(w.yaml, on_twice, c);
	r = documents_read(&w, err);
	yaml_close(w.yaml);
	str_fini(&w.name);
	return r;
}

void config_fini(struct config *c)
{
	vec_for_each (v, &c->values) {
		free(v->name);
		free(v->text);
	}
	vec_fini(&c->values);
	str_fini(&c->complaints);
}

const struct config_value *config_find(const struct config *c, const char *name)
{
	return vec_find(&c->values, v, strcmp(v->name, name) == 0);
}

/* --- trees --- */

static void tree_put(json_t *root, const char *name, json_t *value)
{
	const char *dot;

	while ((dot = strchr(name, '.')) != NULL) {
		AUTO(free) char *key = xstrndup(name, (size_t)(dot - name));
		json_t *next = json_object_get(root, key);

		if (next == NULL) {
			next = json_object();
			(void)json_object_set_new(root, key, next);
		}
		root = next;
		name = dot + 1;
	}
	(void)json_object_set(root, name, value);
}

json_t *config_tree(const json_t *fields)
{
	json_t *root = json_object();
	const char *name;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)fields, name, v)
		tree_put(root, name, v);
	return root;
}

void config_print(struct str *ret, const json_t *fields)
{
	json_auto_t *root = config_tree(fields);
	AUTO(free) char *text = json_dumps(root, JSON_SORT_KEYS);
	json_auto_t *sorted = json_loads(text, 0, NULL);

	str_puts(ret, "apiVersion: " CONFIG_FILE_VERSION "\nkind: " CONFIG_FILE_KIND "\n");
	yaml_print(ret, sorted);
}

/* --- watching --- */

struct config_watch {
	struct watch *watch;
	struct event *opened;
	char *folder;
	char *file;
	bool is_due;
	bool is_regular; /* a pipe can be read once */
	void (*changed)(void *arg);
	void *arg;
};

static void links_watch(struct config_watch *w)
{
	watch_links_begin(w->watch);
	watch_link(w->watch, w->file);
	watch_links_end(w->watch);
}

/* A created file counts when its writer closes it. */
static void on_name(void *arg, const char *name, enum watch_what what)
{
	struct config_watch *w = arg;

	if (what == WATCH_WRITTEN && strcmp(name, w->file) == 0)
		w->is_due = true;
}

/* A symbolic link changed: the path may lead to another file. `is_lost`: the file may have changed.
 */
static void on_all(void *arg, bool is_lost)
{
	struct config_watch *w = arg;

	w->is_due = !is_lost || w->is_regular;
}

static void on_done(void *arg)
{
	struct config_watch *w = arg;
	bool is_due = w->is_due;

	links_watch(w);
	w->is_due = false;
	if (is_due)
		w->changed(w->arg);
}

static void on_opened(evutil_socket_t fd, short what, void *arg)
{
	struct config_watch *w = arg;

	w->changed(w->arg);
}

int config_watch_open(struct config_watch **ret, struct event_base *base, const char *path,
		      void (*changed)(void *arg), void *arg, struct err *err)
{
	AUTO(config_watch_close) struct config_watch *w = xcalloc(1, sizeof(*w));
	struct watch_ops ops = { .name = on_name, .all = on_all, .done = on_done, .arg = w };
	const char *slash = strrchr(path, '/');
	struct stat st;
	int r;

	w->changed = changed;
	w->arg = arg;
	w->folder = slash == NULL   ? xstrdup(".")
		    : slash == path ? xstrdup("/")
				    : xstrndup(path, (size_t)(slash - path));
	w->file = xstrdup(slash == NULL ? path : slash + 1);
	r = watch_open(&w->watch, base, w->folder, &ops, err);
	if (r < 0)
		return err_wrap(err, r, "%s", path);
	links_watch(w);
	w->opened = xtimer_new(base, on_opened, w);
	w->is_regular = stat(path, &st) == 0 && S_ISREG(st.st_mode);
	if (w->is_regular)
		event_after(w->opened, 0);
	*ret = TAKE(w);
	return 0;
}

void config_watch_close(struct config_watch *w)
{
	if (w == NULL)
		return;
	watch_close(w->watch);
	event_drop(w->opened);
	free(w->folder);
	free(w->file);
	free(w);
}
