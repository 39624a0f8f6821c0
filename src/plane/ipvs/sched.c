/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/sched.h"

#include <errno.h>
#include <linux/ip_vs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All schedulers of Linux; the index is the number. */
static const char *const names[] = {
	"",      "rr", "wrr", "lc", "wlc", "fo", "ovf",  "lblc",
	"lblcr", "dh", "sh",  "mh", "sed", "nq", "twos",
};

/* mh's flags are the same bits as sh's: net/netfilter/ipvs/ip_vs_mh.c. */
static const struct {
	const char *text;
	const char *sched;
	uint8_t flag;
} flags[] = {
	{ "sh-fallback", "sh", IP_VS_SVC_F_SCHED_SH_FALLBACK },
	{ "sh-port", "sh", IP_VS_SVC_F_SCHED_SH_PORT },
	{ "mh-fallback", "mh", IP_VS_SVC_F_SCHED1 },
	{ "mh-port", "mh", IP_VS_SVC_F_SCHED2 },
};

const char *ipvs_sched_name(uint8_t no)
{
	return no < ARRAY_SIZE(names) ? names[no] : "";
}

uint8_t ipvs_sched_no(const char *name)
{
	for (uint8_t i = 1; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return 0;
}

struct ipvs_sched ipvs_sched_by_mark(struct ipvs_sched sched, uint32_t affinity_s, uint32_t missing)
{
	uint8_t mh = ipvs_sched_no("mh");

	if (affinity_s == 0 || missing & UINT32_C(1) << mh)
		return sched;
	return (struct ipvs_sched){ .no = mh, .flags = IP_VS_SVC_F_SCHED1 };
}

static enum plan_balance deal_of(const char *name)
{
	if (strcmp(name, "rr") == 0)
		return PLAN_BALANCE_EVENLY;
	return strcmp(name, "wrr") == 0 || strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0
		       ? PLAN_BALANCE_BY_WEIGHT
		       : PLAN_BALANCE_UNKNOWN;
}

void ipvs_sched_balancing(struct plan_balancing *ret, uint8_t no, uint32_t svc_flags)
{
	const char *name = ipvs_sched_name(no);
	size_t len = strlen(name);

	ret->deal = (uint8_t)deal_of(name);
	ret->is_by_client = strcmp(name, "sh") == 0 || strcmp(name, "mh") == 0;
	if (len == 0) {
		memcpy(ret->scheduler, "?", 2);
		return;
	}
	memcpy(ret->scheduler, name, len + 1);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (strcmp(flags[i].sched, name) != 0 || !(svc_flags & flags[i].flag))
			continue;
		(void)snprintf(ret->scheduler + len, sizeof(ret->scheduler) - len, ",%s",
			       flags[i].text);
		len = strlen(ret->scheduler);
	}
}

static bool is_word(const char *word, size_t len, const char *text)
{
	return strlen(text) == len && memcmp(word, text, len) == 0;
}

static int flag_add(struct ipvs_sched *s, const char *word, size_t len, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!is_word(word, len, flags[i].text))
			continue;
		if (strcmp(flags[i].sched, names[s->no]) != 0)
			return err_set(err, -EINVAL, "flag '%s' is not for scheduler '%s'",
				       flags[i].text, names[s->no]);
		s->flags |= flags[i].flag;
		return 0;
	}
	return err_set(err, -EINVAL,
		       "'%.*s' is not one of sh-fallback, sh-port, mh-fallback, mh-port",
		       (int)MIN(len, (size_t)40), word);
}

int ipvs_sched_parse(struct ipvs_sched *ret, const char *text, struct err *err)
{
	struct ipvs_sched s = { 0 };
	size_t len = strcspn(text, ",");

	for (uint8_t i = 1; i < ARRAY_SIZE(names); i++)
		if (is_word(text, len, names[i]))
			s.no = i;
	if (s.no == 0)
		return err_set(err, -EINVAL, "unknown scheduler '%.*s'", (int)MIN(len, (size_t)40),
			       text);
	while (text[len] == ',') {
		int r;

		text += len + 1;
		len = strcspn(text, ",");
		r = flag_add(&s, text, len, err);
		if (r < 0)
			return r;
	}
	*ret = s;
	return 0;
}

/* Parse "address=weight" at `text`. Returns the next entry, or NULL at the end. */
static const char *entry_read(const char *text, struct ip_addr *addr, uint16_t *weight,
			      bool *is_good)
{
	const char *end = text + strcspn(text, ",");
	const char *eq = memchr(text, '=', (size_t)(end - text));
	char ip[IP_TEXT_MAX];
	unsigned long n;
	char *stop;

	*is_good = false;
	if (eq != NULL && (size_t)(eq - text) < sizeof(ip)) {
		memcpy(ip, text, (size_t)(eq - text));
		ip[eq - text] = '\0';
		n = strtoul(eq + 1, &stop, 10);
		*is_good = ip_addr_parse(addr, ip, NULL) == 0 && stop == end && stop != eq + 1 &&
			   eq[1] != '-' && n <= IPVS_WEIGHT_MAX;
		*weight = *is_good ? (uint16_t)n : 1;
	}
	return *end == ',' ? end + 1 : NULL;
}

uint16_t ipvs_weight(const char *text, const struct ip_addr *addr)
{
	while (text != NULL) {
		struct ip_addr a = { 0 };
		uint16_t weight = 1;
		bool is_good;

		text = entry_read(text, &a, &weight, &is_good);
		if (is_good && ip_addr_is_equal(&a, addr))
			return weight;
	}
	return 1;
}

int ipvs_weights_check(const char *text, struct err *err)
{
	while (text != NULL) {
		const char *entry = text;
		struct ip_addr a = { 0 };
		uint16_t weight;
		bool is_good;

		text = entry_read(text, &a, &weight, &is_good);
		if (!is_good)
			return err_set(err, -EINVAL, "'%.*s' is not address=weight, 0 to %d",
				       (int)MIN(strcspn(entry, ","), (size_t)60), entry,
				       IPVS_WEIGHT_MAX);
	}
	return 0;
}

int ipvs_drain_timeout_parse(uint32_t *ret, const char *text, struct err *err)
{
	const char *p = text;
	uint64_t total = 0;

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
