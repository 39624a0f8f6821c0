/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of one file to pieces: documents, lists, JSON, errors with their line. Each case is read
 * as a whole and byte by byte with equal results.
 */
#include "source/files/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "source/decode/jsonsplit.h"
#include "source/decode/yamlread.h"
#include "test.h"

struct feed {
	const char *text;
	size_t len;
	size_t at;
	size_t step;
	const uint64_t *known; /* hashes that are known */
	size_t n_known;
	int error; /* returned at the end of the text */
};

static ssize_t on_read(void *arg, void *buf, size_t size)
{
	struct feed *f = arg;
	size_t n = MIN(size, f->len - f->at);

	n = MIN(n, f->step);
	if (n == 0 && f->error != 0)
		return f->error;
	memcpy(buf, f->text + f->at, n);
	f->at += n;
	return (ssize_t)n;
}

static uint32_t on_known(void *arg, uint64_t hash)
{
	const struct feed *f = arg;

	for (size_t i = 0; i < f->n_known; i++)
		if (f->known[i] == hash)
			return (uint32_t)i + 1;
	return 0;
}

static struct manifest *read_text(struct feed *f, bool is_json, struct err *err)
{
	struct manifest_ops ops = { on_read, on_known, f, { 1, 2 }, is_json };
	struct manifest *m;
	int r;

	manifest_open(&m, &ops);
	while ((r = manifest_step(m, err)) > 0)
		;
	if (r == 0)
		return m;
	manifest_close(m);
	return NULL;
}

/* One line per piece: "LINE: Service a/b: why". */
static void manifest_text(struct str *ret, const struct manifest *m)
{
	static const char *const states[] = { "good", "ignored", "bad", "unreadable" };
	size_t at = 0;

	for (size_t i = 0; i < m->units.n; i++) {
		const struct unit *u = &m->units.v[i];

		if (u->known != 0)
			str_printf(ret, "%u: known %u\n", u->line, u->known);
		for (uint32_t k = 0; k < u->n_pieces; k++) {
			const struct piece *p = &m->pieces.v[at++];

			str_printf(ret, "%u: ", u->line + (p->why ? p->why_line : p->line));
			object_title(ret, p->kind, p->ns, p->name);
			str_printf(ret, " %s%s%s\n", states[p->state], p->why ? ": " : "",
				   p->why ? p->why : "");
		}
		if (u->n_others != 0)
			str_printf(ret, "%u: %u other\n", u->line, u->n_others);
	}
	assert_int_equal(at, m->pieces.n);
	for (size_t i = 0; i < m->notes.n; i++)
		str_printf(ret, "%u: note: %s\n",
			   m->units.v[m->notes.v[i].unit].line + m->notes.v[i].line,
			   m->notes.v[i].text);
}

#define BOM "\xef\xbb\xbf"
#define SERVICE(name) \
	"apiVersion: v1\nkind: Service\nmetadata: {name: " name "}\nspec: {clusterIP: 10.96.0.1}\n"
#define FLOW(name) \
	"{apiVersion: v1, kind: Service, metadata: {name: " name "}, spec: {clusterIP: 10.96.0.1}}"
#define JSON(name)                                                                   \
	"{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"" name \
	"\"},\n\"spec\":{\"clusterIP\":\"10.96.0.1\"}}"
#define BARE(name) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"clusterIP\":\"10.96.0.1\"}}"

static const struct {
	const char *name;
	bool is_json;
	const char *text;
	const char *want;
} cases[] = {
	{ "nothing", false, "", "" },
	{ "blank JSON", true, " \n", "" },
	{ "comments, separators and directives", false,
	  "# a\n---\n\n---   # b\n...\n%YAML 1.1\n---\n# c\n---", "" },
	{ "null documents", false, "---\n~\n---\n# x\nnull\n", "" },
	{ "one", false, SERVICE("a"), "1: Service default/a good\n" },
	{ "byte order mark", false, BOM SERVICE("a"), "1: Service default/a good\n" },
	{ "byte order mark before a separator", false,
	  BOM "---\n" SERVICE("a") "---\n" SERVICE("b"),
	  "2: Service default/a good\n7: Service default/b good\n" },
	{ "byte order mark before JSON", true, BOM "\n" JSON("a"), "2: Service default/a good\n" },
	{ "nothing but a byte order mark", false, BOM, "" },
	{ "two", false, "---\n" SERVICE("a") "---\n" SERVICE("b"),
	  "2: Service default/a good\n7: Service default/b good\n" },
	{ "DOS line ends", false,
	  "---\r\nkind: Service\r\napiVersion: v1\r\n---\r\n" FLOW("b") "\r\n",
	  "2: Service unreadable: metadata.name: missing\n5: Service default/b good\n" },
	{ "content on the separator's line", false, "--- " FLOW("a") "\n--- # x\n" FLOW("b"),
	  "1: Service default/a good\n3: Service default/b good\n" },
	{ "four dashes are no separator", false, "a: x\n----: 1\n",
	  "1: document unreadable: kind: missing\n" },
	{ "dashes inside a block are one, as YAML says", false, "kind: |\n  a\n---\n" FLOW("b"),
	  "1: document unreadable: apiVersion: missing\n4: Service default/b good\n" },

	{ "bad syntax spoils its document only", false,
	  SERVICE("a") "---\nkind: [\n---\n" SERVICE("b"),
	  "1: Service default/a good\n"
	  "7: document unreadable: while parsing a flow node: did not find expected node content\n"
	  "8: Service default/b good\n" },
	{ "bad syntax after the name", false,
	  "kind: Node\nmetadata: {name: n1}\nspec: [\n---\n" FLOW("b"),
	  "4: Node n1 unreadable: while parsing a flow node: did not find expected node content\n"
	  "5: Service default/b good\n" },
	{ "tabs", false, "kind: Service\nmetadata:\n\tname: a\n",
	  "3: Service unreadable: indented with a tab, YAML allows only spaces\n" },
	{ "bad UTF-8", false, SERVICE("a") "---\n# \xff\n", "1: Service default/a good\n" },
	{ "bad UTF-8 in text", false, SERVICE("a") "---\nx: 1\ny: \xff\n",
	  "1: Service default/a good\n7: document unreadable: invalid leading UTF-8 octet\n" },
	{ "a key twice", false, "kind: Service\nkind: Node\n",
	  "2: Service unreadable: duplicate key 'kind'\n" },

	{ "field at fault, and its line", false,
	  "apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\n  namespace: shop\nspec:\n"
	  "  clusterIP: 10.96.0.1\n  ports:\n  - {name: a, port: 80}\n  - name: b\n"
	  "    protocol: TCP\n    port: 70000\n",
	  "12: Service shop/cart bad: spec.ports[1].port: 70000 is not a number from 1 to 65535\n" },
	{ "YAML 1.1 numbers", false,
	  "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  clusterIP: 10.96.0.1\n"
	  "  ports: [{port: 080}]\n",
	  "1: Service default/a good\n" },
	{ "a name that YAML takes for a boolean", false,
	  "apiVersion: v1\nkind: Service\nmetadata:\n  name: no\n",
	  "4: Service unreadable: metadata.name: false is not text (write it in quotes)\n" },
	{ "wrong version, name known", false,
	  "kind: Service\nmetadata: {name: a}\napiVersion: v2\n",
	  "3: Service default/a bad: apiVersion: 'v2' is not supported, use 'v1'\n" },
	{ "no version", false, "kind: Service\nmetadata: {name: a}\n",
	  "1: Service default/a bad: apiVersion: missing\n" },
	{ "no kind", false, "apiVersion: v1\n", "1: document unreadable: kind: missing\n" },
	{ "text", false, "hello\n", "1: document unreadable: not an object\n" },
	{ "list of documents", false, "- a\n- b\n", "1: document unreadable: not an object\n" },
	{ "other kinds", false,
	  "{apiVersion: apps/v1, kind: Deployment}\n---\n" FLOW(
		  "a") "\n---\n"
		       "{apiVersion: v1, kind: ConfigMap}\n",
	  "1: 1 other\n3: Service default/a good\n4: 1 other\n" },
	{ "ignored, and why", false,
	  "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s, labels:\n"
	  "  {kubernetes.io/service-name: a}}\naddressType: FQDN\n",
	  "1: EndpointSlice default/s ignored\n"
	  "5: note: EndpointSlice default/s: addressType: FQDN is not supported, "
	  "the slice is ignored\n" },
	{ "note", false,
	  SERVICE("a") "---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec:\n"
		       "  clusterIP: 10.96.0.1\n  externalIPs:\n  - 192.0.2.1\n  - x\n",
	  "1: Service default/a good\n6: Service default/b good\n"
	  "13: note: Service default/b: spec.externalIPs[1]: 'x' is not an IP address, skipped\n" },

	{ "List", false, "apiVersion: v1\nitems:\n- " FLOW("a") "\n- " FLOW("b") "\nkind: List\n",
	  "3: Service default/a good\n4: Service default/b good\n" },
	{ "empty List", false, "apiVersion: v1\nitems: []\nkind: List\n", "" },
	{ "List without items", false, "apiVersion: v1\nkind: List\n", "" },
	{ "a bad entry, and an other", false,
	  "kind: List\napiVersion: v1\nitems:\n- " FLOW("a") "\n- x\n-\n  kind: Pod\n"
							     "  apiVersion: v1\n- " FLOW("b") "\n",
	  "4: Service default/a good\n5: document unreadable: not an object\n"
	  "9: Service default/b good\n1: 1 other\n" },
	{ "typed list, kind first", false,
	  "kind: ServiceList\napiVersion: v1\nitems:\n- " BARE("a") "\n- " BARE("b") "\n",
	  "4: Service default/a good\n5: Service default/b good\n" },
	{ "typed list, kind last", false,
	  "apiVersion: v1\nitems:\n- " BARE("a") "\n- metadata: {name: b}\n  spec:\n"
						 "    clusterIP: x\nkind: ServiceList\n",
	  "3: Service default/a good\n"
	  "4: Service default/b bad: spec.clusterIP: 'x' is not an IP address\n" },
	{ "list of other kinds", false,
	  "apiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\nkind: PodList\n",
	  "1: 2 other\n" },
	{ "entry without a kind", false,
	  "kind: List\napiVersion: v1\nitems:\n- {metadata: {name: a}}\n",
	  "4: document unreadable: kind: missing\n" },
	{ "list in a list", false,
	  "kind: List\napiVersion: v1\nitems:\n- {kind: List, apiVersion: v1, items: []}\n",
	  "4: document unreadable: a list inside a list\n" },
	{ "items by alias", false,
	  "x: &x\n- " FLOW("a") "\napiVersion: v1\nkind: List\nitems: *x\n",
	  "1: Service default/a good\n" },
	{ "list cut off", false, "apiVersion: v1\nkind: List\nitems:\n- " FLOW("a") "\n- 'x\n",
	  "4: Service default/a good\n"
	  "6: document unreadable: while scanning a quoted scalar: found unexpected end of "
	  "stream\n" },

	{ "JSON", true, JSON("a"), "1: Service default/a good\n" },
	{ "JSON after blank lines", true, "\n\n\n\n\n\n" JSON("a"), "7: Service default/a good\n" },
	{ "JSON, several", true, JSON("a") JSON("b") "\n" JSON("c"),
	  "1: Service default/a good\n2: Service default/b good\n4: Service default/c good\n" },
	{ "JSON list", true,
	  "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[\n" JSON("a") ",\n" JSON("b") "\n]}",
	  "2: Service default/a good\n4: Service default/b good\n" },
	{ "JSON typed list", true,
	  "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"items\":[\n" BARE("a") ",\n" BARE(
		  "b") "\n]}",
	  "2: Service default/a good\n3: Service default/b good\n" },
	{ "JSON typed list, kind last", true,
	  "{\"items\":[\n" BARE("a") ",\n" BARE("b") "\n],\"kind\":\"ServiceList\","
						     "\"apiVersion\":\"v1\"}",
	  "2: Service default/a good\n3: Service default/b good\n" },
	{ "JSON, bad entry", true,
	  "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[\n" JSON("a") ",\n{\"x\":\nnope},"
									     "\n" JSON("b") "]}",
	  "2: Service default/a good\n5: document unreadable: invalid token\n"
	  "6: Service default/b good\n" },
	{ "JSON, field at fault", true,
	  "\n{\"apiVersion\":\"v1\",\"kind\":\"Service\",\n\"metadata\":{\"name\":\"a\"},\n"
	  "\"spec\":{\"clusterIP\":\"10.96.0.1\",\n\"ports\":[{\"port\":80,\n"
	  "\"nodePort\":-1}]}}",
	  "6: Service default/a bad: spec.ports[0].nodePort: -1 is not a number from 0 to 65535\n" },
	{ "JSON, a key twice", true, "{\"a\":1,\n\"a\":2}",
	  "2: document unreadable: duplicate object key\n" },
	{ "JSON, wrong bracket: the rest is lost", true, JSON("a") "\n{]\n" JSON("b"),
	  "1: Service default/a good\n3: document unreadable: ']' instead of '}'\n" },
	{ "JSON, cut", true, JSON("a") "\n{\"kind\":",
	  "1: Service default/a good\n"
	  "3: document unreadable: ends inside the object of line 3\n" },
	{ "JSON, a NUL in an annotation, and in a field", true,
	  "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"x\":\"\\u0000\"},\"items\":[\n"
	  "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\","
	  "\"annotations\":{\"x\":\"a\\u0000b\"}},\"spec\":{\"clusterIP\":\"10.96.0.1\"}},\n"
	  "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"b\"},"
	  "\"spec\":{\"clusterIP\":\"10.96.0.1\\u0000\"}}]}",
	  "2: Service default/a good\n"
	  "3: Service default/b bad: spec.clusterIP: contains a NUL character\n" },
	{ "JSON, UTF-16 escapes", true,
	  "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\","
	  "\"annotations\":{\"x\":\"\\ud83d\\ude00\"}},\"spec\":{\"clusterIP\":\"10.96.0.1\"}}",
	  "1: Service default/a good\n" },
	{ "YAML in a .json file", true, SERVICE("a"), "1: Service default/a good\n" },

	{ "JSON in a YAML file", false, JSON("a") "\n---\n" JSON("b"),
	  "1: Service default/a good\n4: Service default/b good\n" },
	{ "JSON without separators in a YAML file", false, "# x\n---\n" JSON("a") "\n" JSON("b"),
	  "3: Service default/a good\n5: Service default/b good\n" },
	{ "JSON with tabs and UTF-16 in a YAML file", false,
	  "{\n\t\"apiVersion\":\t\"v1\",\n\t\"kind\": \"Service\",\n\t\"metadata\":{\"name\":\"a\","
	  "\n\"labels\":{\"x\":\"\\ud83d\\ude00\"}},\n\t\"spec\":{\n\t\"clusterIP\":1}}",
	  "7: Service default/a bad: spec.clusterIP: 1 is not text (write it in quotes)\n" },
	{ "neither", false, "{\"a\":1}\n{\"b\":\n",
	  "2: document unreadable: did not find expected <document start>\n" },
};

static void run(size_t i, size_t step)
{
	struct feed f = { .text = cases[i].text, .len = strlen(cases[i].text), .step = step };
	AUTO(manifest_close) struct manifest *m = NULL;
	struct str got = { 0 };
	struct err err;

	m = read_text(&f, cases[i].is_json, &err);
	assert_non_null(m);
	manifest_text(&got, m);
	assert_string_equal(str_text(&got), cases[i].want);
	str_fini(&got);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("    %s\n", cases[i].name);
		run(i, SIZE_MAX);
		run(i, 1);
		run(i, 5);
	}
	assert_int_equal(name_count(), 0);
}

/* --- units that are known --------------------------------------------------------- */

static void known_case(const char *old, const char *new, bool is_json, const char *want)
{
	struct feed f = { .text = old, .len = strlen(old), .step = SIZE_MAX };
	struct manifest *m;
	struct str got = { 0 };
	uint64_t hashes[8];
	struct err err;

	m = read_text(&f, is_json, &err);
	assert_non_null(m);
	assert_true(m->units.n <= ARRAY_SIZE(hashes));
	for (size_t i = 0; i < m->units.n; i++)
		hashes[i] = m->units.v[i].hash;
	f = (struct feed){ new, strlen(new), 0, SIZE_MAX, hashes, m->units.n, 0 };
	manifest_close(m);
	m = read_text(&f, is_json, &err);
	manifest_text(&got, m);
	assert_string_equal(str_text(&got), want);
	manifest_close(m);
	str_fini(&got);
}

static void test_known(void **state)
{
	(void)state;
	known_case("---\n" SERVICE("a") "---\n" SERVICE("b"),
		   "---\n" SERVICE("c") "---\n" SERVICE("b") "---\n" SERVICE("a"), false,
		   "2: Service default/c good\n6: known 2\n11: known 1\n");
	known_case(JSON("a") JSON("b"), JSON("b") "\n" JSON("x") JSON("a"), true,
		   "1: known 2\n3: Service default/x good\n4: known 1\n");
	/* An equal entry in a list of another kind is another object. */
	known_case("{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"items\":[" BARE("a") "]}",
		   "{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[" BARE("a") "]}", true,
		   "1: Node a good\n");
	known_case("{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"items\":[" BARE("a") "]}",
		   "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"items\":[" BARE(
			   "b") ",\n" BARE("a") "]}",
		   true, "1: Service default/b good\n2: known 1\n1: known 2\n");
}

/* Counts its calls: each parses the whole root. Linked with --wrap=jsonsplit_root. */
static size_t n_roots;

json_t *__real_jsonsplit_root(const struct jsonsplit *s, json_error_t *why);
json_t *__wrap_jsonsplit_root(const struct jsonsplit *s, json_error_t *why);

json_t *__wrap_jsonsplit_root(const struct jsonsplit *s, json_error_t *why)
{
	n_roots++;
	return __real_jsonsplit_root(s, why);
}

/* The kind follows the entries, as in the output of kubectl: the root is parsed once. */
static void test_late_kind(void **state)
{
	FINI(str_fini) struct str text = { 0 };
	struct feed f = { .step = SIZE_MAX };
	struct manifest *m;
	struct err err;

	(void)state;
	str_puts(&text, "{\"apiVersion\":\"v1\",\"items\":[");
	for (int i = 0; i < 1000; i++)
		str_printf(&text, "%s" BARE("a"), i > 0 ? "," : "");
	str_puts(&text, "],\"kind\":\"ServiceList\"}");
	f.text = text.text;
	f.len = text.len;
	n_roots = 0;
	m = read_text(&f, true, &err);
	assert_non_null(m);
	assert_int_equal(m->pieces.n, 1000);
	assert_int_equal(m->pieces.v[999].state, PIECE_GOOD);
	assert_int_equal(n_roots, 1);
	manifest_close(m);
	assert_int_equal(name_count(), 0);
}

/* --- large and broken streams --------------------------------------------------------- */

struct tally {
	size_t states[PIECE_UNREADABLE + 1];
};

static struct tally tally_of(const struct str *text, size_t step)
{
	struct feed f = { .text = text->text, .len = text->len, .step = step };
	AUTO(manifest_close) struct manifest *m = NULL;
	struct tally t = { { 0 } };
	struct err err;

	m = read_text(&f, false, &err);
	assert_non_null(m);
	vec_for_each (p, &m->pieces)
		t.states[p->state]++;
	return t;
}

/* A document above the limit: a list is read entry by entry, a single object is rejected. */
static void test_large_documents(void **state)
{
	struct str text = { 0 };
	struct tally t;

	(void)state;
	str_puts(&text, "---\n" SERVICE("first") "---\napiVersion: v1\nkind: List\nitems:\n");
	for (int i = 0; text.len < CUT_DOCUMENT_MAX + 100000; i++)
		str_printf(&text,
			   "- apiVersion: v1\n  kind: Service\n  metadata:\n"
			   "    name: s%d\n    annotations: {x: '%01000d'}\n"
			   "  spec: {clusterIP: 10.96.0.1}\n",
			   i, i);
	str_puts(&text, "---\n" SERVICE("last"));
	t = tally_of(&text, 65536);
	assert_true(t.states[PIECE_GOOD] > 7000);
	assert_int_equal(t.states[PIECE_UNREADABLE], 0);

	str_clear(&text);
	str_puts(&text, SERVICE("first") "---\nx: [");
	while (text.len < CUT_DOCUMENT_MAX + 100000)
		str_puts(&text, "{},{},{},{},{},{},{},{},\n");
	str_puts(&text, "]\n---\n" SERVICE("last"));
	t = tally_of(&text, 65536);
	assert_int_equal(t.states[PIECE_GOOD], 2);
	assert_int_equal(t.states[PIECE_UNREADABLE], 1);
	str_fini(&text);
	assert_int_equal(name_count(), 0);
}

/* A large object is read in several steps. The API rejects one with more than 1,000 endpoints. */
static void test_large_slice(void **state)
{
	static const int sizes[] = { 1000, 1001, 20000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct str text = { 0 };
		struct feed f;
		struct manifest_ops ops = { on_read, on_known, &f, { 1, 2 }, false };
		struct manifest *m;
		size_t n_steps = 0;
		char want[80] = "";

		str_puts(&text, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
				"metadata: {name: a, labels: {kubernetes.io/service-name: a}}\n"
				"addressType: IPv4\nendpoints:\n");
		for (int k = 0; k < sizes[i]; k++)
			str_printf(&text, "- addresses: [10.1.%d.%d]\n", k / 250, k % 250);
		f = (struct feed){ .text = text.text, .len = text.len, .step = SIZE_MAX };
		manifest_open(&m, &ops);
		while (manifest_step(m, NULL) > 0)
			n_steps++;
		/* Six events for each endpoint. */
		assert_in_range(n_steps, (size_t)sizes[i] * 6 / YAML_PART_EVENTS,
				(size_t)sizes[i] * 6 / YAML_PART_EVENTS + 5);
		assert_int_equal(m->pieces.n, 1);
		if (sizes[i] > 1000)
			(void)snprintf(want, sizeof(want), "endpoints: %d entries, at most 1000",
				       sizes[i]);
		assert_int_equal(m->pieces.v[0].state, sizes[i] > 1000 ? PIECE_BAD : PIECE_GOOD);
		assert_string_equal(m->pieces.v[0].why != NULL ? m->pieces.v[0].why : "", want);
		manifest_close(m);
		str_fini(&text);
	}
	assert_int_equal(name_count(), 0);
}

/* The parser would keep a scalar of any length in memory. */
static void test_large_scalar(void **state)
{
	struct str text = { 0 };
	struct tally t;

	(void)state;
	str_puts(&text, SERVICE("first") "---\nx: ");
	while (text.len < 2 * CUT_DOCUMENT_MAX)
		str_puts(&text, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	str_puts(&text, "\n---\n" SERVICE("last"));
	t = tally_of(&text, 65536);
	assert_int_equal(t.states[PIECE_GOOD], 2);
	assert_int_equal(t.states[PIECE_UNREADABLE], 1);
	str_fini(&text);
}

/* More objects than the limit of a file: the rest is reported once and not read. */
static void test_too_many(void **state)
{
	struct str text = { 0 };
	struct feed f;
	struct manifest *m;
	struct err err;

	(void)state;
	for (int i = 0; i < 2 * MANIFEST_PIECES_MAX; i++)
		str_puts(&text, "{}\n");
	f = (struct feed){ .text = text.text, .len = text.len, .step = SIZE_MAX };
	m = read_text(&f, true, &err);
	assert_non_null(m);
	assert_true(m->pieces.n < MANIFEST_PIECES_MAX + 100000);
	assert_string_equal(m->pieces.v[m->pieces.n - 1].why,
			    "more than 250000 objects in one file, the rest is not read");
	manifest_close(m);
	str_fini(&text);
}

/* Separators at every position relative to the blocks that are read. */
static void test_boundaries(void **state)
{
	struct str text = { 0 };

	(void)state;
	for (size_t pad = 65536 - 8; pad < 65536 + 8; pad++) {
		struct tally t;

		str_clear(&text);
		str_puts(&text, "# ");
		while (text.len < pad)
			str_puts(&text, "x");
		str_puts(&text,
			 "\n---\n" FLOW("a") "\n---\n" FLOW("b") "\n--- \n" FLOW("c") "\n---");
		t = tally_of(&text, 65536);
		assert_int_equal(t.states[PIECE_GOOD], 3);
		assert_int_equal(t.states[PIECE_UNREADABLE], 0);
	}
	str_fini(&text);
}

static void test_read_error(void **state)
{
	static const char text[] = SERVICE("a") "---\nkind: Ser";
	struct feed f = { .text = text, .len = sizeof(text) - 1, .step = 7, .error = -EIO };
	struct err err;

	(void)state;
	assert_null(read_text(&f, false, &err));
	assert_string_equal(err.text, "Input/output error");
	assert_int_equal(name_count(), 0);
}

/* Entries before the kind of their list are kept in memory, so their number is limited. */
static void test_pending_bound(void **state)
{
	struct str text = { 0 };
	struct tally t;

	(void)state;
	str_puts(&text, "apiVersion: v1\nitems:\n");
	for (int i = 0; i < 120000; i++)
		str_puts(&text, "- {metadata: {name: a}}\n");
	str_puts(&text, "kind: ServiceList\n");
	t = tally_of(&text, SIZE_MAX);
	assert_true(t.states[PIECE_UNREADABLE] > 0); /* those above the limit */
	assert_true(t.states[PIECE_BAD] > 1000);     /* "spec: missing" */
	str_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),        cmocka_unit_test(test_known),
		cmocka_unit_test(test_late_kind),    cmocka_unit_test(test_large_documents),
		cmocka_unit_test(test_large_scalar), cmocka_unit_test(test_large_slice),
		cmocka_unit_test(test_too_many),     cmocka_unit_test(test_boundaries),
		cmocka_unit_test(test_read_error),   cmocka_unit_test(test_pending_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
