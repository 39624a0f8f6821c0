/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model/tuning.h"

#include <errno.h>
#include <linux/ip_vs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/vec.h"

#define BLANKS " \t\r\n"
#define NAME_TEXT_MAX 253 /* of an object in Kubernetes */

static int length_check(const char *text, struct err *err)
{
	if (strnlen(text, TUNING_TEXT_MAX + 1) <= TUNING_TEXT_MAX)
		return 0;
	return err_set(err, -EINVAL, "'%.40s...' has more than %d characters", text,
		       TUNING_TEXT_MAX);
}

/* All schedulers of Linux; the index is the number. */
static const char *const names[] = {
	"",      "rr", "wrr", "lc", "wlc", "fo", "ovf",  "lblc",
	"lblcr", "dh", "sh",  "mh", "sed", "nq", "twos",
};

/* mh's flags are the same bits as sh's: net/netfilter/ipvs/ip_vs_mh.c. */
static const struct sched_flag {
	const char *text;
	const char *sched;
	uint8_t flag;
} flags[] = {
	{ "sh-fallback", "sh", IP_VS_SVC_F_SCHED_SH_FALLBACK },
	{ "sh-port", "sh", IP_VS_SVC_F_SCHED_SH_PORT },
	{ "mh-fallback", "mh", IP_VS_SVC_F_SCHED1 },
	{ "mh-port", "mh", IP_VS_SVC_F_SCHED2 },
};

const char *scheduler_name(uint8_t no)
{
	return no < ARRAY_SIZE(names) ? names[no] : "";
}

uint8_t scheduler_no(const char *name)
{
	for (uint8_t i = 1; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return 0;
}

void scheduler_flags_text(char *buf, size_t size, uint8_t no, uint32_t svc_flags)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		size_t len = strlen(buf);

		if (strcmp(flags[i].sched, scheduler_name(no)) == 0 && svc_flags & flags[i].flag)
			(void)snprintf(buf + len, size - len, ",%s", flags[i].text);
	}
}

static int flag_add(struct scheduler *s, const char *word, struct err *err)
{
	const struct sched_flag *found =
		array_find(flags, ARRAY_SIZE(flags), f, strcmp(word, f->text) == 0);

	if (found == NULL)
		return err_set(err, -EINVAL,
			       "'%.40s' is not one of sh-fallback, sh-port, mh-fallback, mh-port",
			       word);
	if (strcmp(found->sched, names[s->no]) != 0)
		return err_set(err, -EINVAL, "flag '%s' is not for scheduler '%s'", found->text,
			       names[s->no]);
	s->flags |= found->flag;
	return 0;
}

int scheduler_parse(struct scheduler *ret, const char *text, struct err *err)
{
	struct scheduler s = { 0 };
	AUTO(free) char *copy = xstrndup(text, TUNING_TEXT_MAX);
	char *rest = copy;
	char *word = strsep(&rest, ",");
	int r = length_check(text, err);

	if (r < 0)
		return r;
	s.no = scheduler_no(word);
	if (s.no == 0)
		return err_set(err, -EINVAL, "unknown scheduler '%.40s'", word);
	/* Without it, clients of an endpoint of weight 0 are rejected until it is deleted. */
	if (strcmp(word, "mh") == 0 || strcmp(word, "sh") == 0)
		s.flags = IP_VS_SVC_F_SCHED1;
	while (r == 0 && (word = strsep(&rest, ",")) != NULL)
		r = flag_add(&s, word, err);
	if (r == 0)
		*ret = s;
	return r;
}

/* --- weights --- */

struct weights_entry {
	struct ip_addr addr; /* unset: by name */
	const char *name;    /* in `text` of the list */
	uint16_t len;        /* of the name, without '*' */
	bool is_prefix;
	uint8_t weight;
	uint16_t up; /* of names: 1 + index of the longest other text that this text begins with */
	uint32_t no; /* in the annotation */
};

struct weights {
	char *text;
	VEC(struct weights_entry) addrs; /* sorted by address, then number */
	VEC(struct weights_entry) names; /* sorted by text, then number */
	uint8_t unit;
};

static int entry_cmp(const void *a, const void *b)
{
	const struct weights_entry *x = a;
	const struct weights_entry *y = b;

	return ip_addr_cmp(&x->addr, &y->addr) ?: CMP(x->no, y->no);
}

static int text_cmp(const struct weights_entry *e, const char *text, size_t len)
{
	return memcmp(e->name, text, MIN(e->len, len)) ?: CMP(e->len, len);
}

static int entry_name_cmp(const void *a, const void *b)
{
	const struct weights_entry *x = a;
	const struct weights_entry *y = b;

	return text_cmp(x, y->name, y->len) ?: CMP(x->no, y->no);
}

/* All texts that a text begins with are among the entry before it and those above that entry. */
static void names_link(struct weights *w)
{
	vec_sort(&w->names, entry_name_cmp);
	for (size_t i = 1; i < w->names.n; i++) {
		struct weights_entry *e = &w->names.v[i];
		size_t up = i;

		while (up > 0 &&
		       (w->names.v[up - 1].len > e->len ||
			memcmp(w->names.v[up - 1].name, e->name, w->names.v[up - 1].len) != 0))
			up = w->names.v[up - 1].up;
		e->up = (uint16_t)up;
	}
}

/* A name, perhaps a prefix before '*'. Digits and dots alone are a mistyped address. */
static bool name_read(struct weights_entry *e, const char *text, size_t len)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	if (len > 0 && text[len - 1] == '*') {
		e->is_prefix = true;
		len--;
	}
	e->name = text;
	e->len = (uint16_t)len;
	return len <= NAME_TEXT_MAX && strspn(text, chars) >= len &&
	       (len == 0 ? e->is_prefix : strspn(text, "0123456789.") < len);
}

static bool entry_read(struct weights_entry *e, const char *text, size_t len)
{
	const char *eq = memchr(text, '=', len);
	size_t digits = eq != NULL ? len - (size_t)(eq + 1 - text) : 0;
	char ip[IP_TEXT_MAX] = "";
	unsigned int weight = 0;

	if (digits == 0 || digits > 3 || strspn(eq + 1, "0123456789") < digits)
		return false;
	for (size_t i = 0; i < digits; i++)
		weight = weight * 10 + (unsigned int)(eq[1 + i] - '0');
	e->weight = (uint8_t)MIN(weight, 255U);
	if ((size_t)(eq - text) < sizeof(ip))
		memcpy(ip, text, (size_t)(eq - text));
	return weight <= WEIGHT_MAX &&
	       (ip_addr_parse(&e->addr, ip, NULL) == 0 || name_read(e, text, (size_t)(eq - text)));
}

static uint8_t divisor(uint8_t a, uint8_t b)
{
	return b == 0 ? a : divisor(b, a % b);
}

/* A catch-all entry leaves no endpoint with the default, 1. */
static void unit_set(struct weights *w)
{
	bool is_all = false;

	w->unit = 0;
	vec_for_each (e, &w->addrs)
		w->unit = divisor(w->unit, e->weight);
	vec_for_each (e, &w->names) {
		w->unit = divisor(w->unit, e->weight);
		is_all |= e->is_prefix && e->len == 0;
	}
	if (!is_all || w->unit == 0)
		w->unit = 1;
}

int weights_parse(struct weights **ret, const char *text, struct err *err)
{
	AUTO(weights_close) struct weights *w = xcalloc(1, sizeof(*w));
	const char *at = w->text = xstrdup(text);
	uint32_t no = 0;

	for (;; at++) {
		struct weights_entry e = { .no = no++ };
		size_t len;

		at += strspn(at, BLANKS);
		len = strcspn(at, ",");
		while (len > 0 && strchr(BLANKS, at[len - 1]) != NULL)
			len--;
		if (!entry_read(&e, at, len))
			return err_set(err, -EINVAL,
				       "'%.*s': allowed are an address, a name or a prefix and *, "
				       "with a weight from 0 to %d, such as web-canary-*=5",
				       (int)MIN(len, (size_t)60), at, WEIGHT_MAX);
		if (w->names.n == WEIGHT_NAMES_MAX && !ip_is_set(&e.addr))
			return err_set(err, -EINVAL, "more than %d entries by name",
				       WEIGHT_NAMES_MAX);
		*(ip_is_set(&e.addr) ? vec_push(&w->addrs) : vec_push(&w->names)) = e;
		at += strcspn(at, ",");
		if (*at == '\0')
			break;
	}
	vec_sort(&w->addrs, entry_cmp);
	names_link(w);
	unit_set(w);
	*ret = TAKE(w);
	return 0;
}

void weights_close(struct weights *w)
{
	if (w == NULL)
		return;
	vec_fini(&w->addrs);
	vec_fini(&w->names);
	free(w->text);
	free(w);
}

/* The first entry with this address, or NULL. */
static const struct weights_entry *addr_find(const struct weights *w, const struct ip_addr *addr)
{
	const struct weights_entry key = { .addr = *addr };
	size_t lo = bisect(w->addrs.n, i, entry_cmp(&w->addrs.v[i], &key) < 0);

	return lo < w->addrs.n && ip_addr_is_equal(&w->addrs.v[lo].addr, addr) ? &w->addrs.v[lo]
									       : NULL;
}

/*
 * Of `first` and the entries that match the name, the first one. Few texts are compared: the
 * weights of a Service are computed for each endpoint of each port.
 */
static const struct weights_entry *entry_find(const struct weights *w, const char *name,
					      const struct weights_entry *first)
{
	size_t len = strlen(name);
	size_t i = bisect(w->names.n, k, text_cmp(&w->names.v[k], name, len) <= 0);
	size_t same = 0;

	while (i > 0 && same < MIN(w->names.v[i - 1].len, len) &&
	       w->names.v[i - 1].name[same] == name[same])
		same++;
	for (const struct weights_entry *e; i > 0; i = e->up) {
		e = &w->names.v[i - 1];
		if (e->len <= same && (e->is_prefix || e->len == len) &&
		    (first == NULL || e->no < first->no))
			first = e;
	}
	return first;
}

uint8_t weights_of(const struct weights *w, const struct ip_addr *addr, const char *pod,
		   const struct name *slice)
{
	const struct weights_entry *first = w != NULL ? addr_find(w, addr) : NULL;

	if (w != NULL && w->names.n > 0) {
		first = entry_find(w, pod != NULL ? pod : "", first);
		first = entry_find(w, name_text(slice), first);
	}
	return first != NULL ? first->weight : 1;
}

uint8_t weights_unit(const struct weights *w)
{
	return w != NULL ? w->unit : 1;
}

/* --- drain timeout --- */

int drain_timeout_parse(uint32_t *ret, const char *text, struct err *err)
{
	const char *p = text;
	uint64_t total = 0;
	int r = length_check(text, err);

	if (r < 0)
		return r;
	do {
		char *end;
		unsigned long n = strtoul(p, &end, 10);

		if (end == p || *p == '-' || *p == '+' || n > UINT32_MAX)
			break;
		total += n * (*end == 'h' ? 3600U : *end == 'm' ? 60U : 1U);
		p = *end == 'h' || *end == 'm' || *end == 's' ? end + 1 : end;
	} while (*p >= '0' && *p <= '9');
	if (p == text || *p != '\0' || total > INT32_MAX)
		return err_set(err, -EINVAL, "'%.40s' is not a duration such as 90s or 15m", text);
	*ret = (uint32_t)total;
	return 0;
}

/* --- forwarding --- */

#define GUE "tunnel,gue"

const char *forwarding_text(uint32_t f, char buf[static FORWARDING_TEXT_MAX])
{
	const char *method = f == FORWARDING_MASQUERADE ? "masquerade"
			     : f == FORWARDING_TUNNEL   ? "tunnel"
			     : f == FORWARDING_ROUTE    ? "route"
							: "other"; /* found in the kernel */

	if (f > UINT16_MAX)
		(void)snprintf(buf, FORWARDING_TEXT_MAX, GUE ":%u", f >> 16);
	else
		(void)snprintf(buf, FORWARDING_TEXT_MAX, "%s", method);
	return buf;
}

int forwarding_parse(uint32_t *ret, const char *text, struct err *err)
{
	const char *full = strcmp(text, GUE) == 0 ? GUE ":6080" : text; /* IANA's port */
	unsigned long port = strncmp(full, GUE ":", sizeof(GUE)) == 0
				     ? strtoul(full + sizeof(GUE), NULL, 10)
				     : 0;
	const uint32_t all[] = { FORWARDING_MASQUERADE, FORWARDING_ROUTE, FORWARDING_TUNNEL,
				 FORWARDING_GUE((uint16_t)port) };
	const uint32_t *found =
		array_find(all, ARRAY_SIZE(all), f, strcmp(full, forwarding_str(*f)) == 0);
	int r = length_check(text, err);

	if (r < 0)
		return r;
	if (found == NULL)
		return err_set(err, -EINVAL,
			       "'%.40s' is not one of masquerade, route, tunnel, " GUE ", " GUE
			       ":PORT",
			       text);
	*ret = *found;
	return 0;
}
