/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/source.h"

#include "source/files/files.h"
#include "source/kube/kube.h"
#include "source/kube/kubeconfig.h"
#include "source/kube/ledger.h"

/* Errors and notes that an answer lists; further ones are only counted. */
#define REMARKS_MAX 100

struct source {
	struct source_callbacks cb;
	struct files *files; /* one of these is NULL */
	struct kube *kube;
	const char *dir; /* of the manifests; borrowed */
	bool is_ready;
	uint64_t last_event_ns; /* 0 = none yet */
};

static void on_ready(void *arg)
{
	struct source *s = arg;

	s->is_ready = true;
	s->last_event_ns = now_ns();
	s->cb.ready(s->cb.arg);
}

static void on_changed(void *arg)
{
	struct source *s = arg;

	s->last_event_ns = now_ns();
	s->cb.changed(s->cb.arg);
}

struct serve_source_error *source_remark(struct serve_source_info *info, bool is_error,
					 const char *text, const char *where, ...)
{
	struct serve_source_errors *list = is_error ? &info->errors : &info->notes;
	va_list ap;

	list->n_all++;
	if (list->n == REMARKS_MAX)
		return NULL;
	va_start(ap, where);
	*vec_push(list) = (struct serve_source_error){ .where = xvasprintf(where, ap),
						       .text = xstrdup(text) };
	va_end(ap);
	return &list->v[list->n - 1];
}

/* --- manifests --- */

static void problem_add(void *arg, const struct files_problem *p)
{
	if (p->line != 0)
		(void)source_remark(arg, p->is_error, p->text, "%s:%u", p->file, p->line);
	else
		(void)source_remark(arg, p->is_error, p->text, "%s", p->file);
}

static void manifests_describe(const struct source *s, struct serve_source_info *info)
{
	info->text =
		xasprintf("manifests in %s%s", s->dir, files_are_none(s->files) ? " (none)" : "");
	info->waiting_for = s->is_ready ? NULL : xstrdup("the folder's first reading");
	files_problems(s->files, problem_add, info);
}

static void manifests_stats(const struct source *s, struct serve_source_stats *ret)
{
	struct files_stats st;

	files_stats(s->files, &st);
	*ret = (struct serve_source_stats){
		.name = "manifests",
		.is_synced = s->is_ready,
		.is_failing = st.is_failing,
		.last_event_ns = s->last_event_ns,
		.objects = st.objects,
		.invalid = st.errors - st.is_failing,
		.events = st.parsed,
		.lists = st.reads,
	};
}

/* --- the Kubernetes API --- */

static void on_problems(void *arg, struct events *e)
{
	struct source *s = arg;

	s->cb.problems(s->cb.arg, e);
}

/* One error for a resource whose watch fails, one remark for each object that has one. */
static void reflector_describe(struct serve_source_info *info,
			       const struct kube_reflector_status *st, struct str *waiting)
{
	struct serve_source_error *e = NULL;

	if (!st->is_complete)
		str_printf(waiting, "%s%s", waiting->len > 0 ? ", " : "", st->resource);
	if (*st->error != '\0')
		e = source_remark(info, true, st->error, "API server");
	if (e != NULL)
		e->since_ns = st->error_ns;
	vec_for_each (rm, &st->ledger->remarks)
		(void)source_remark(info, (*rm)->is_rejected, (*rm)->text, "%s %s%s%s",
				    st->resource, name_text((*rm)->ns), (*rm)->ns ? "/" : "",
				    (*rm)->name->text);
}

static void api_describe(const struct source *s, struct serve_source_info *info)
{
	struct kube_status st = kube_status(s->kube);
	const char *warning = kube_server_warning(s->kube);
	struct kube_reflector_status reflector;
	struct str waiting = { 0 };

	info->text = xasprintf("API server %s%s", st.server ? st.server : "(none yet)",
			       st.is_http2 ? ", HTTP/2" : "");
	for (size_t i = 0; kube_reflector_status(s->kube, i, &reflector); i++)
		reflector_describe(info, &reflector, &waiting);
	if (warning != NULL)
		(void)source_remark(info, false, warning, "API server");
	if (s->is_ready)
		str_fini(&waiting);
	info->waiting_for = waiting.text;
}

static bool api_stats(const struct source *s, size_t i, struct serve_source_stats *ret)
{
	struct kube_reflector_status st;

	if (!kube_reflector_status(s->kube, i, &st))
		return false;
	*ret = (struct serve_source_stats){
		.name = st.resource,
		.is_synced = st.is_complete,
		.is_failing = *st.error != '\0',
		.last_event_ns = st.last_event_ns,
		.objects = st.objects,
		.invalid = st.ledger->n_rejected,
		.lists = st.lists,
		.watches = st.watches,
		.events = st.events,
		.bytes = st.bytes,
	};
	return true;
}

int source_check(const struct options *o, struct err *err)
{
	AUTO(kubeconfig_close) struct kubeconfig *k = NULL;

	return o->manifests != NULL ? 0
				    : kubeconfig_open(&k, o->api.kubeconfig, o->api.master,
						      o->api.account_dir, err);
}

/* --- for the daemon --- */

int source_open(struct source **ret, struct event_base *base, struct model *m,
		const struct options *options, const struct source_callbacks *cb, struct err *err)
{
	AUTO(source_close) struct source *s = xcalloc(1, sizeof(*s));
	struct files_ops files = { on_ready, on_changed, s, options->is_strict };
	struct kube_callbacks kube = { on_ready, on_changed, on_problems, s };
	int r;

	s->cb = *cb;
	s->dir = options->manifests;
	r = s->dir != NULL ? files_open(&s->files, base, m, s->dir, &files, err)
			   : kube_open(&s->kube, base, m, &options->api, &kube, err);
	if (r == 0)
		*ret = TAKE(s);
	return r;
}

void source_close(struct source *s)
{
	if (s == NULL)
		return;
	files_close(s->files);
	kube_close(s->kube);
	free(s);
}

void source_reload(struct source *s)
{
	if (s->files != NULL)
		files_read_again(s->files);
	else
		kube_read_again(s->kube);
}

bool source_is_ready(const struct source *s)
{
	return s != NULL && s->is_ready;
}

bool source_is_complete(const struct source *s, struct str *why)
{
	return s->files != NULL ? files_are_complete(s->files, why)
				: kube_is_complete(s->kube, why);
}

const char *source_rejected(const struct source *s)
{
	return s != NULL && s->kube != NULL ? kube_status(s->kube).rejected : NULL;
}

void source_describe(const struct source *s, struct serve_source_info *info)
{
	FINI(str_fini) struct str unknown = { 0 };

	if (s == NULL)
		return;
	info->is_complete = s->is_ready;
	info->last_event_ns = s->last_event_ns;
	if (s->is_ready && !source_is_complete(s, &unknown))
		info->unknown = TAKE(unknown.text);
	if (s->files != NULL)
		manifests_describe(s, info);
	else
		api_describe(s, info);
}

bool source_stats(const struct source *s, size_t i, struct serve_source_stats *ret)
{
	if (s != NULL && s->kube != NULL)
		return api_stats(s, i, ret);
	if (s == NULL || i > 0)
		return false;
	manifests_stats(s, ret);
	return true;
}
