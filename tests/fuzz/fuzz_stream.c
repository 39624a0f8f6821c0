/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as an API server's answer: the first says what was asked for, the rest
 * is the body. In one piece or byte by byte the same objects come out of it, with
 * the same end; the ledger takes them all and loses none.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "source/kube/ledger.h"
#include "source/kube/stream.h"
#include "tree_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	struct str objects; /* as text */
	struct ledger *ledger;
	int r;
};

static void note(struct outcome *o, enum stream_event e, const json_t *obj)
{
	char *text = obj ? tree_dump(obj) : NULL;

	str_printf(&o->objects, "%d %s\n", (int)e, text ? text : "-");
	free(text);
}

static int on_object(void *arg, enum stream_event e, const json_t *obj, const char *why,
		     struct err *err)
{
	struct outcome *o = arg;

	assert(why != NULL ? why[0] != '\0' : tree_type(obj) == JSON_OBJECT);
	note(o, e, obj);
	if (why != NULL)
		ledger_unreadable(o->ledger, obj, why);
	else if (e == STREAM_DELETED)
		(void)ledger_del(o->ledger, obj, 1);
	else if (e != STREAM_BOOKMARK && e != STREAM_ERROR)
		(void)ledger_put(o->ledger, obj, 1);
	return 0;
}

static void take(struct outcome *o, uint8_t what, const uint8_t *data, size_t size, size_t step)
{
	static const enum object_kind kinds[] = { OBJECT_KIND_SERVICE, OBJECT_KIND_SLICE,
						  OBJECT_KIND_NODE, OBJECT_KIND_SERVICE_CIDR };
	struct stream_config c = {
		.mode = what & 1 ? STREAM_WATCH : STREAM_LIST,
		.encoding = what & 2 ? STREAM_PROTOBUF : STREAM_JSON,
		.kind = kinds[what >> 2 & 3],
		.object = on_object,
		.arg = o,
	};
	struct stream_list list = { .next = NULL };
	struct err err = { .text = "" };
	struct ledger ledger;
	struct model model;
	struct stream *s;

	model_init(&model);
	model_configured(&model);
	ledger_init(&ledger, &model, c.kind);
	ledger_list_begin(&ledger);
	o->ledger = &ledger;
	stream_open(&s, &c);
	for (size_t at = 0; o->r == 0 && at < size; at += step)
		o->r = stream_feed(s, data + at, MIN(step, size - at), &err);
	if (o->r == 0)
		o->r = stream_end(s, &list, &err);
	assert(o->r == 0 || (o->r == -EBADMSG && err.text[0] != '\0'));
	if (o->r == 0 && c.mode == STREAM_LIST) {
		assert(list.version[0] != '\0');
		(void)ledger_list_end(&ledger, 1);
	}
	free(list.next);
	stream_close(s);
	while (!list_is_empty(&model.dirty))
		model_clean(&model, list_entry(model.dirty.next, struct svc, dirty));
	ledger_fini(&ledger);
	model_fini(&model);
	assert(name_count() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = { 0 };
	struct outcome parts = { 0 };

	if (size == 0)
		return 0;
	log_level_set_all(LOG_LEVEL_ERR);
	take(&whole, data[0], data + 1, size - 1, SIZE_MAX);
	take(&parts, data[0], data + 1, size - 1, 1);
	assert(whole.r == parts.r);
	assert(strcmp(str_text(&whole.objects), str_text(&parts.objects)) == 0);
	str_fini(&whole.objects);
	str_fini(&parts.objects);
	return 0;
}
