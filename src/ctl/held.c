/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/held.h"

#include <stdio.h>
#include <string.h>

#include "plane/ipvs/held.h"
#include "plane/nft/held.h"

static bool is_asked(const char *plane, const char *name)
{
	return plane == NULL || strcmp(plane, name) == 0;
}

/* Nobody said which of the two. */
static void both_tell(void)
{
	(void)fputs("vipctl: tables of both planes are there, as while one takes over from the "
		    "other; this is ipvs (--plane=nftables: the other)\n",
		    stderr);
}

int held_read(struct held *ret, const char *plane, struct err *err)
{
	struct ipvs_held ipvs = { 0 };
	int r = is_asked(plane, "ipvs") ? ipvs_held_read(&ipvs, err) : 0;

	*ret = (struct held){ 0 };
	if (r < 0) {
		ipvs_held_fini(&ipvs);
		return r;
	}
	ret->is_ipvs = ipvs.is_there || (plane != NULL && is_asked(plane, "ipvs"));
	if (ret->is_ipvs) {
		ret->text = ipvs.frontends;
		ret->routing = ipvs.routing;
		ret->routing_want = ipvs.routing_want;
	} else {
		ipvs_held_fini(&ipvs);
		return nft_held_text(&ret->text, err);
	}
	if (plane == NULL) {
		struct str other = { 0 };

		if (nft_held_text(&other, err) == 0 && other.len > 0)
			both_tell();
		str_fini(&other);
	}
	return 0;
}

void held_fini(struct held *h)
{
	str_fini(&h->text);
	str_fini(&h->routing);
	str_fini(&h->routing_want);
}

static void lines(char *text, bool is_frontend,
		  void (*fn)(void *arg, const char *line, bool is_frontend), void *arg)
{
	char *line;

	while ((line = strsep(&text, "\n")) != NULL)
		if (*line != '\0')
			fn(arg, line, is_frontend);
}

void held_lines(struct held *h, void (*fn)(void *arg, const char *line, bool is_frontend),
		void *arg)
{
	lines(h->text.text, true, fn, arg);
	lines(h->routing.text, false, fn, arg);
}
