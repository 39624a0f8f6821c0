/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_show - commands with one request. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "ctl/run.h"
#include "ctl/value.h"

/* --- requests and answers --- */

int answer_get(json_t **ret, const struct run *run, bool is_write, const char *path, ...)
{
	FINI(str_fini) struct str target = { 0 };
	const char *name;
	struct err err;
	va_list ap;
	int r;

	str_puts(&target, path);
	va_start(ap, path);
	while ((name = va_arg(ap, const char *)) != NULL)
		query_add(&target, name, va_arg(ap, const char *));
	va_end(ap);
	r = client_json(ret, &run->client, is_write ? "PUT" : "GET", target.text, &err);
	return r < 0 ? failed(r, &err) : 0;
}

int answer_show(const struct run *run, json_t *answer, int code,
		void (*show)(struct str *out, const json_t *answer, const struct style *style))
{
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON)
		return out_json(answer, code);
	value_clean(answer);
	show(&out, answer, &run->style);
	return out_text(&out, code);
}

int source_check(const struct run *run)
{
	json_auto_t *status = NULL;
	const json_t *source;
	int code = answer_get(&status, run, false, "/v1/status", NULL);

	if (code != 0 || strcmp(value_text(status, "state"), "waiting") != 0)
		return code;
	source = value_get(status, "source");
	return complain(EXIT_PROBLEM,
			"vipd is not synced: waiting for %s; vipctl status shows the errors, "
			"vipctl svc --kernel services in the kernel",
			value_has(source, "waiting_for") ? value_text(source, "waiting_for")
							 : "the first complete lists");
}

/* --- status --- */

int run_status(const struct run *run)
{
	json_auto_t *status = NULL;
	int code = answer_get(&status, run, false, "/v1/status", NULL);

	if (code != 0)
		return code;
	code = status_is_well(status) ? EXIT_FINE : EXIT_PROBLEM;
	return answer_show(run, status, code, show_status);
}

/* --- svc --- */

void query_add(struct str *target, const char *name, const char *value)
{
	if (value == NULL)
		return;
	str_printf(target, "%s%s=", strchr(target->text, '?') ? "&" : "?", name);
	str_encode(target, value);
}

/* The list of services that contain `text`; NULL: all. */
static int list_get(json_t **ret, const struct run *run, const char *text)
{
	return answer_get(ret, run, false, "/v1/services", "limit", "all", "namespace", run->ns,
			  "q", text, "state", run->states, NULL);
}

/* For scripts and completion: one service per line. */
static void show_names(struct str *out, const json_t *answer, const struct style *style)
{
	value_for_each (item, value_get(answer, "items"))
		say(out, item, "{namespace}/{name}\n");
}

static int list_show(const struct run *run, json_t *list)
{
	bool is_name = run->output == OUTPUT_NAME;

	if (run->output == OUTPUT_JSON) { /* the whole list, without the members of a page */
		(void)json_object_del(list, "matching");
		(void)json_object_del(list, "next");
	} else if (json_array_size(value_get(list, "items")) == 0) {
		(void)fputs("no services\n", stderr);
		return EXIT_FINE;
	}
	return answer_show(run, list, EXIT_FINE, is_name ? show_names : show_services);
}

/*
 * Add the kernel's counters of a service as the member "counts" of the page. Without counters, or
 * with a vipd that lacks the request, the page is shown without them.
 */
static void page_add_counts(const struct run *run, json_t *page, const char *service)
{
	FINI(str_fini) struct str target = { 0 };
	json_auto_t *counts = NULL;
	struct err err;

	str_puts(&target, "/v1/counts");
	query_add(&target, "service", service);
	if (client_json(&counts, &run->client, "GET", target.text, &err) == 0)
		(void)json_object_set(page, "counts",
				      json_array_get(json_object_get(counts, "items"), 0));
}

/* The page of the service NAMESPACE/NAME; results of client_json(). */
static int page_get(json_t **ret, const struct run *run, const char *service, struct err *err)
{
	FINI(str_fini) struct str target = { 0 };

	str_puts(&target, "/v1/services/");
	str_encode(&target, service);
	return client_json(ret, &run->client, "GET", target.text, err);
}

static int page_show(const struct run *run, json_t *page, const char *service)
{
	if (run->output == OUTPUT_NAME) {
		(void)out_printf("%s\n", service);
		return EXIT_FINE;
	}
	if (run->output != OUTPUT_JSON)
		page_add_counts(run, page, service);
	return answer_show(run, page, EXIT_FINE, show_service);
}

/* An address, with or without a port and a protocol: 10.96.0.10:80/TCP is no NAMESPACE/NAME. */
static bool is_address(const char *text)
{
	AUTO(free) char *copy = xstrdup(text);
	struct ip_addr addr;
	uint16_t port;

	(void)l4proto_cut(copy);
	return ip_given_parse(&addr, &port, copy) == 0;
}

/* Is `text` the name of this service, with or without its namespace? */
static bool is_named(const json_t *item, const char *text)
{
	const char *ns = value_text(item, "namespace");
	size_t len = strlen(ns);

	if (strncmp(text, ns, len) == 0 && text[len] == '/')
		text += len + 1;
	return strcmp(value_text(item, "name"), text) == 0;
}

/* The service that `text` selects: alone in the list, or the only one of exactly this name. */
static const json_t *find_selected(const json_t *items, const char *text)
{
	const json_t *found = NULL;
	size_t n = 0;

	if (json_array_size(items) == 1)
		return json_array_get(items, 0);
	value_for_each (item, items)
		if (is_named(item, text)) {
			found = item;
			n++;
		}
	return n == 1 ? found : NULL;
}

/*
 * 0, or an error: `text` is NAMESPACE/NAME, and `one` is the only service that contains it, but
 * another one. A script must not take its state for that of a service that was deleted.
 */
static int name_check(const struct run *run, const json_t *one, const char *text)
{
	const char *slash = strchr(text, '/');

	if (slash == NULL || slash == text || slash[1] == '\0' || is_address(text) ||
	    is_named(one, text))
		return 0;
	return complain(EXIT_PROBLEM, "%s not found%s%s; the only match is %s/%s", text,
			run->states ? " in state " : "", run->states ? run->states : "",
			value_text(one, "namespace"), value_text(one, "name"));
}

static int not_found(const struct run *run, const char *text)
{
	return complain(EXIT_PROBLEM,
			"no service%s%s%s%s has '%s' in its name, as an address or as a pod",
			run->ns ? " of namespace " : "", run->ns ? run->ns : "",
			run->states ? " in state " : "", run->states ? run->states : "", text);
}

/* Show the page of the service that `text` selects, or the list of services that contain it. */
static int svc_search(const struct run *run, const char *text)
{
	FINI(str_fini) struct str service = { 0 };
	const json_t *one;
	json_auto_t *page = NULL;
	json_auto_t *list = NULL;
	struct err err;
	int code = list_get(&list, run, text);
	int r;

	if (code != 0)
		return code;
	one = find_selected(value_get(list, "items"), text);
	if (one == NULL)
		return json_array_size(value_get(list, "items")) > 0 ? list_show(run, list)
								     : not_found(run, text);
	if (run->output != OUTPUT_NAME)
		code = name_check(run, one, text);
	if (code != 0 && run->output == OUTPUT_JSON)
		return code;
	say(&service, one, "{namespace}/{name}");
	r = page_get(&page, run, service.text, &err);
	r = r < 0 ? failed(r, &err) : page_show(run, page, service.text);
	return code != 0 ? code : r;
}

/* NAMESPACE/NAME of a service, else search. */
static int svc_show(const struct run *run, const char *text)
{
	json_auto_t *page = NULL;
	struct err err;
	int r = page_get(&page, run, text, &err);

	if (r == -ENODATA)
		return svc_search(run, text);
	return r < 0 ? failed(r, &err) : page_show(run, page, text);
}

int run_svc(const struct run *run)
{
	const char *slash;
	json_auto_t *list = NULL;
	int code;

	if (run->n_args > 1)
		return usage("'%s': svc takes one argument", run->args[1]);
	if (run->is_kernel)
		return run_svc_kernel(run);
	code = source_check(run);
	if (code != 0)
		return code;
	if (run->n_args == 0) {
		code = list_get(&list, run, NULL);
		return code != 0 ? code : list_show(run, list);
	}
	slash = strchr(run->args[0], '/');
	if (slash == NULL || run->states != NULL || is_address(run->args[0]))
		return svc_search(run, run->args[0]);
	if (run->ns != NULL &&
	    (!str_begins(run->args[0], run->ns) || slash != run->args[0] + strlen(run->ns)))
		return usage("'%s' names another namespace than -n", run->args[0]);
	return svc_show(run, run->args[0]);
}

/* --- trace --- */

static int trace_show(const struct run *run, json_t *trace)
{
	int code = trace_is_balanced(trace) ? EXIT_FINE : EXIT_PROBLEM;
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON)
		return out_json(trace, code);
	value_clean(trace);
	if (value_has(trace, "problem"))
		(void)fprintf(stderr, "vipctl: %s\n", value_text(trace, "problem"));
	else
		show_trace(&out, trace, &run->style, run->n_args > 2 ? run->args[2] : NULL);
	return out_text(&out, code);
}

int run_trace(const struct run *run)
{
	json_auto_t *trace = NULL;
	int code;

	if (run->n_args < 2 || run->n_args > 3)
		return usage("trace takes SRC and DST:PORT[/PROTOCOL], and optionally POD");
	if (run->live_s > 0 && run->output == OUTPUT_JSON)
		return usage("--live writes text: it excludes -o json and -o yaml");
	code = source_check(run);
	if (code == 0)
		code = answer_get(&trace, run, false, "/v1/trace", "from", run->args[0], "to",
				  run->args[1], NULL);
	if (code != 0)
		return code;
	code = trace_show(run, trace);
	if (run->live_s > 0 && !value_has(trace, "problem"))
		code = run_live(run, trace);
	return code;
}

/* --- dump --- */

static int sink_stdout(void *arg, const char *data, size_t len)
{
	return out_write(data, len);
}

/* Add the parameters of the service that `text` selects, else of all services that contain it. */
static int dump_select(struct str *target, const struct run *run, const char *text)
{
	json_auto_t *list = NULL;
	const json_t *one;
	int code = list_get(&list, run, text);

	if (code != 0)
		return code;
	if (json_array_size(value_get(list, "items")) == 0)
		return not_found(run, text);
	one = find_selected(value_get(list, "items"), text);
	if (one == NULL) {
		query_add(target, "namespace", run->ns);
		query_add(target, "q", text);
	} else {
		query_add(target, "namespace", value_text(one, "namespace"));
		query_add(target, "name", value_text(one, "name"));
		code = name_check(run, one, text);
	}
	return code;
}

int run_dump(const struct run *run)
{
	FINI(str_fini) struct str target = { 0 };
	struct err err = { 0 };
	int code;
	int r;

	if (run->is_bundle)
		return run_bundle(run);
	if (run->n_args > 1)
		return usage("'%s': dump takes one argument", run->args[1]);
	code = source_check(run);
	if (code != 0)
		return code;
	str_puts(&target, "/v1/dump");
	if (run->n_args == 1)
		code = dump_select(&target, run, run->args[0]);
	else
		query_add(&target, "namespace", run->ns);
	if (code != 0)
		return code;
	r = client_request(&run->client, "GET", target.text, sink_stdout, NULL, &err);
	return r == 0 ? EXIT_FINE : failed(r, &err);
}

/* --- log --- */

int run_log(const struct run *run)
{
	bool is_change = run->n_args == 2;
	json_auto_t *answer = NULL;
	int code;

	if (run->n_args != 0 && !is_change)
		return usage("log takes no argument, or AREA and LEVEL");
	code = answer_get(&answer, run, is_change, "/v1/log", "area",
			  is_change ? run->args[0] : NULL, "level", is_change ? run->args[1] : NULL,
			  NULL);
	return code != 0 ? code : answer_show(run, answer, EXIT_FINE, show_log);
}

/* --- drain, undrain, eject, admit --- */

static int taken_out_show(const struct run *run, json_t *answer, const char *none)
{
	int code = *value_text(answer, "problem") != '\0' ? EXIT_PROBLEM : EXIT_FINE;

	if (run->output != OUTPUT_JSON && json_array_size(value_get(answer, "items")) == 0)
		(void)fprintf(stderr, "%s\n", none);
	(void)answer_show(run, answer, code, show_taken_out);
	if (code == EXIT_PROBLEM && run->output != OUTPUT_JSON)
		(void)fprintf(stderr, "vipctl: %s\n", value_text(answer, "problem"));
	return code;
}

/* Set an endpoint to the state of the command; or list without arguments, if the command may. */
int run_taken_out(const struct run *run)
{
	static const struct {
		const char *command;
		const char *path;
		const char *state;
		const char *none;
	} kinds[] = {
		{ "drain", "/v1/drains", "drained", "no endpoint is drained" },
		{ "undrain", "/v1/drains", "serving", "no endpoint is drained" },
		{ "eject", "/v1/ejections", "ejected", "no endpoint is ejected" },
		{ "admit", "/v1/ejections", "admitted", "no endpoint is ejected" },
	};
	bool lists = run->command->args[0] == '[';
	json_auto_t *answer = NULL;
	int code;
	size_t i = 0;

	while (strcmp(kinds[i].command, run->command->name) != 0)
		i++;
	code = run->n_args == 2 ? source_check(run) : 0;
	if (code != 0)
		return code;
	if (run->n_args == 2)
		code = answer_get(&answer, run, true, kinds[i].path, "service", run->args[0],
				  "endpoint", run->args[1], "state", kinds[i].state, NULL);
	else if (run->n_args == 0 && lists)
		code = answer_get(&answer, run, false, kinds[i].path, NULL);
	else
		return usage("%s takes NAMESPACE/NAME and ENDPOINT%s", run->command->name,
			     lists ? ", or nothing" : "");
	return code != 0 ? code : taken_out_show(run, answer, kinds[i].none);
}
