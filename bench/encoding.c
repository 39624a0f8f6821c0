/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/encoding - cost of an API object in JSON and in protobuf.
 *
 *     encoding [SECONDS]        default 1 per line
 *
 * Decodes recorded events of a real server (tests/data) repeatedly: bytes per object, time to split
 * and read it, time until it is an object of the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "recording.h"
#include "source/kube/stream.h"

struct run {
	enum object_kind kind;
	bool is_decoding;
	size_t objects;
};

static int on_object(void *arg, enum stream_event e, const json_t *obj, const char *why,
		     struct err *err)
{
	struct run *run = arg;
	struct decode d = { 0 };
	struct object o = { 0 };
	int r = 0;

	if (why != NULL)
		return err_set(err, -1, "%s", why);
	if (e == STREAM_BOOKMARK)
		return 0;
	run->objects++;
	if (run->is_decoding)
		r = decode_object(&o, run->kind, obj, &d, err);
	if (r == 0)
		object_fini(&o);
	return r < 0 ? r : 0;
}

static void feed(struct run *run, const struct recording *rec, enum stream_mode mode)
{
	struct err err = { .text = "" };
	struct stream *s;

	stream_open(&s, &(struct stream_config){ .mode = mode,
						 .encoding = stream_encoding_of(rec->content_type),
						 .kind = run->kind,
						 .object = on_object,
						 .arg = run });
	if (stream_feed(s, rec->body.text, rec->body.len, &err) < 0) {
		(void)fprintf(stderr, "encoding: %s\n", err.text);
		exit(1);
	}
	stream_close(s);
}

/* CPU time of this process, independent of others. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Microseconds per object. */
static double measure(const struct recording *rec, enum stream_mode mode, enum object_kind kind,
		      bool is_decoding, double seconds)
{
	struct run run = { .kind = kind, .is_decoding = is_decoding };
	uint64_t end = cpu_ns() + (uint64_t)(seconds * 1e9);
	uint64_t start = cpu_ns();

	do
		feed(&run, rec, mode);
	while (cpu_ns() < end);
	return (double)(cpu_ns() - start) / 1e3 / (double)run.objects;
}

static void report(const char *file, enum stream_mode mode, enum object_kind kind, double seconds)
{
	struct recording rec;
	struct run once = { .kind = kind };
	double read_us;
	double all_us;

	recording_open(&rec, file);
	feed(&once, &rec, mode);
	read_us = measure(&rec, mode, kind, false, seconds);
	all_us = measure(&rec, mode, kind, true, seconds);
	printf("%-26s %6zu %9.2f %9.2f %9.0f\n", file, rec.body.len / once.objects, read_us, all_us,
	       (double)rec.body.len / (double)once.objects / all_us);
	recording_close(&rec);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;

	printf("%-26s %6s %9s %9s %9s\n", "", "bytes", "read us", "all us", "MB/s");
	report("services-list.http", STREAM_LIST, OBJECT_KIND_SERVICE, seconds);
	report("services-list.pb", STREAM_LIST, OBJECT_KIND_SERVICE, seconds);
	report("endpointslices-watch.http", STREAM_WATCH, OBJECT_KIND_SLICE, seconds);
	report("endpointslices-watch.pb", STREAM_WATCH, OBJECT_KIND_SLICE, seconds);
	return 0;
}
