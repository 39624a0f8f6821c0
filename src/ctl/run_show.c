/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_show - the commands that ask once and show the answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "ctl/doctor.h"
#include "ctl/run.h"
#include "ctl/value.h"

static enum show_width show_width(const struct run *run)
{
	return run->output == OUTPUT_WIDE ? SHOW_WIDE : SHOW_NORMAL;
}

/* --- status --- */

int run_status(const struct run *run)
{
	struct str out = { 0 };
	struct err err;
	json_t *status;
	int code;
	int r;

	if (run->n_args > 0)
		return usage("'%s': status takes no argument", run->args[0]);
	r = client_get_json(&status, &run->client, "/v1/status", &err);
	if (r < 0)
		return failed(r, &err);
	code = status_is_well(status) ? EXIT_FINE : EXIT_PROBLEM;
	if (run->output == OUTPUT_JSON) {
		code = out_json(status, code);
	} else {
		value_clean(status);
		show_status(&out, status, &run->style, show_width(run));
		(void)out_write(str_text(&out), out.len);
	}
	str_fini(&out);
	json_decref(status);
	return code;
}

/* --- svc --- */

void query_add(struct str *target, const char *name, const char *value)
{
	if (value == NULL)
		return;
	str_printf(target, "%s%s=", strchr(target->text, '?') ? "&" : "?", name);
	client_encode(target, value);
}

/* A list in one array; 0 or a negative errno. */
static int list_get(const struct run *run, json_t **ret, const char *name, const char *text,
		    struct err *err)
{
	struct str target = { 0 };
	json_t *page;
	int r;

	str_puts(&target, "/v1/services?limit=all");
	query_add(&target, "namespace", run->ns);
	query_add(&target, "name", name);
	query_add(&target, "q", text);
	query_add(&target, "state", run->states);
	r = client_get_json(&page, &run->client, target.text, err);
	str_fini(&target);
	if (r < 0)
		return r;
	*ret = json_incref(json_object_get(page, "items"));
	if (*ret == NULL)
		*ret = json_array();
	json_decref(page);
	return 0;
}

/* For scripts and shells: one service a line. */
static void names_show(const json_t *items)
{
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);

		(void)printf("%s/%s\n", value_text(item, "namespace"), value_text(item, "name"));
	}
}

static int list_show(const struct run *run, json_t *items)
{
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON) {
		json_t *json = json_pack("{s:i, s:O}", "api", CONTROL_API_VERSION, "items", items);
		int code = out_json(json, EXIT_FINE);

		json_decref(json);
		return code;
	}
	if (json_array_size(items) == 0) {
		(void)fputs("no services\n", stderr);
		return EXIT_FINE;
	}
	if (run->output == OUTPUT_NAME) {
		names_show(items);
		return EXIT_FINE;
	}
	value_clean(items);
	show_services(&out, items, &run->style, show_width(run));
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return EXIT_FINE;
}

/*
 * What the kernel counted of a service, as the page's member "counts". A vipd that
 * counts nothing, or is too old to be asked, is no reason not to show the page.
 */
static void page_add_counts(const struct run *run, json_t *page, const char *ns, const char *name)
{
	struct str target = { 0 };
	struct str service = { 0 };
	struct err err;
	json_t *counts;

	str_printf(&service, "%s/%s", ns, name);
	str_puts(&target, "/v1/counts");
	query_add(&target, "service", service.text);
	if (client_get_json(&counts, &run->client, target.text, &err) == 0) {
		json_t *item = json_array_get(json_object_get(counts, "items"), 0);

		if (item != NULL)
			(void)json_object_set(page, "counts", item);
		json_decref(counts);
	}
	str_fini(&service);
	str_fini(&target);
}

static int page_show(const struct run *run, const char *ns, const char *name)
{
	struct str target = { 0 };
	struct str out = { 0 };
	struct err err;
	json_t *page;
	int code = EXIT_FINE;
	int r;

	str_puts(&target, "/v1/services/");
	client_encode(&target, ns);
	str_puts(&target, "/");
	client_encode(&target, name);
	r = client_get_json(&page, &run->client, target.text, &err);
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	if (run->output == OUTPUT_JSON) {
		code = out_json(page, code);
	} else if (run->output == OUTPUT_NAME) {
		(void)printf("%s/%s\n", ns, name);
	} else {
		page_add_counts(run, page, ns, name);
		value_clean(page);
		show_service(&out, page, &run->style);
		(void)out_write(str_text(&out), out.len);
	}
	str_fini(&out);
	json_decref(page);
	return code;
}

/* The one that is meant, if it is one: alone, or the only one of exactly this name. */
static const json_t *meant(const json_t *items, const char *text)
{
	const json_t *found = NULL;
	size_t n = 0;

	if (json_array_size(items) == 1)
		return json_array_get(items, 0);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);

		if (strcmp(value_text(item, "name"), text) == 0) {
			found = item;
			n++;
		}
	}
	return n == 1 ? found : NULL;
}

/* Anything but NAMESPACE/NAME: look for it, show the page of what is meant, or the list. */
static int svc_search(const struct run *run, const char *text)
{
	const json_t *one;
	struct err err;
	json_t *items;
	int code;
	int r = list_get(run, &items, NULL, text, &err);

	if (r < 0)
		return failed(r, &err);
	one = meant(items, text);
	if (json_array_size(items) == 0) {
		code = complain(EXIT_PROBLEM,
				"no service has '%s' in its name, as an address or as a pod", text);
	} else if (one != NULL) {
		code = page_show(run, value_text(one, "namespace"), value_text(one, "name"));
	} else {
		code = list_show(run, items);
	}
	json_decref(items);
	return code;
}

int run_svc(const struct run *run)
{
	struct err err;
	json_t *items;
	const char *slash;
	char *ns;
	int code;
	int r;

	if (run->n_args > 1)
		return usage("'%s': svc takes one argument", run->args[1]);
	if (run->is_kernel)
		return run_svc_kernel(run);
	if (run->n_args == 0) {
		r = list_get(run, &items, NULL, NULL, &err);
		if (r < 0)
			return failed(r, &err);
		code = list_show(run, items);
		json_decref(items);
		return code;
	}
	slash = strchr(run->args[0], '/');
	if (slash == NULL || run->states != NULL)
		return svc_search(run, run->args[0]);
	ns = xstrndup(run->args[0], (size_t)(slash - run->args[0]));
	if (run->ns != NULL && strcmp(run->ns, ns) != 0)
		code = usage("'%s' names another namespace than -n", run->args[0]);
	else
		code = page_show(run, ns, slash + 1);
	free(ns);
	return code;
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
		show_trace(&out, trace, &run->style, show_width(run),
			   run->n_args > 2 ? run->args[2] : NULL);
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return code;
}

int run_trace(const struct run *run)
{
	struct str target = { 0 };
	struct err err;
	json_t *trace;
	int code;
	int r;

	if (run->n_args < 2 || run->n_args > 3)
		return usage(
			"trace takes two arguments, SRC and DST:PORT[/PROTO], and perhaps POD");
	if (run->live_s > 0 && run->output == OUTPUT_JSON)
		return usage("--live writes text: it excludes -o json and -o yaml");
	str_puts(&target, "/v1/trace");
	query_add(&target, "from", run->args[0]);
	query_add(&target, "to", run->args[1]);
	r = client_get_json(&trace, &run->client, target.text, &err);
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	code = trace_show(run, trace);
	if (run->live_s > 0 && !value_has(trace, "problem"))
		code = run_live(run, trace);
	json_decref(trace);
	return code;
}

/* --- dump --- */

static int sink_stdout(void *arg, const char *data, size_t len)
{
	return out_write(data, len);
}

int run_dump(const struct run *run)
{
	struct str target = { 0 };
	struct err err = { 0 };
	int r;

	if (run->is_bundle)
		return run_bundle(run);
	if (run->n_args > 1)
		return usage("'%s': dump takes one argument", run->args[1]);
	str_puts(&target, "/v1/dump");
	query_add(&target, "namespace", run->ns);
	if (run->n_args == 1)
		query_add(&target, "q", run->args[0]);
	r = client_get(&run->client, target.text, sink_stdout, NULL, &err);
	str_fini(&target);
	return r == 0 || r == -EPIPE ? EXIT_FINE : failed(r, &err);
}

/* --- doctor, log --- */

/* The answer as it is wanted. Ends with `code`, unless it cannot be written. */
static int answer_show(const struct run *run, json_t *answer, int code,
		       void (*show)(struct str *out, const json_t *answer,
				    const struct style *style))
{
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON)
		return out_json(answer, code);
	value_clean(answer);
	show(&out, answer, &run->style);
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return code;
}

int run_doctor(const struct run *run)
{
	json_t *answer;
	int code;

	if (run->n_args > 0)
		return usage("'%s': doctor takes no argument", run->args[0]);
	doctor_ask(&answer, &run->client, run->plane);
	code = answer_show(run, answer, (int)doctor_exit(answer), show_doctor);
	json_decref(answer);
	return code;
}

int run_log(const struct run *run)
{
	struct str target = { 0 };
	struct err err;
	json_t *answer;
	int code;
	int r;

	if (run->n_args != 0 && run->n_args != 2)
		return usage("log takes no argument, or AREA and LEVEL");
	str_puts(&target, "/v1/log");
	if (run->n_args == 2) {
		query_add(&target, "area", run->args[0]);
		query_add(&target, "level", run->args[1]);
		r = client_put_json(&answer, &run->client, target.text, &err);
	} else {
		r = client_get_json(&answer, &run->client, target.text, &err);
	}
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	code = answer_show(run, answer, EXIT_FINE, show_log);
	json_decref(answer);
	return code;
}
