/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/programmed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/value.h"
#include "plane/nft/programmed.h"

static int ipvs_read(struct programmed *ret, struct err *err)
{
	int r = ipvs_programmed_read(&ret->lines, err);

	ret->is_ipvs = r == 0;
	return r;
}

int programmed_read(struct programmed *ret, const char *plane, struct err *err)
{
	bool is_ipvs = plane != NULL && strcmp(plane, "ipvs") == 0;
	int r;

	*ret = (struct programmed){ 0 };
	if (is_ipvs)
		return ipvs_read(ret, err);
	r = nft_programmed_text(&ret->lines.frontends, err);
	if (r < 0 || plane != NULL)
		return r;
	r = ipvs_programmed_exists(err);
	if (r <= 0)
		return r;
	if (ret->lines.frontends.len == 0)
		return ipvs_read(ret, err);
	(void)fputs("vipctl: tables of both planes exist during a change of planes; showing "
		    "nftables (ipvs: --plane=ipvs)\n",
		    stderr);
	return 0;
}

int programmed_plane(const char **ret, const struct client *c, const char *plane, struct err *err)
{
	json_auto_t *status = NULL;
	const char *found;
	int r = client_json(&status, c, "GET", "/v1/status", err);

	if (r < 0)
		return r;
	found = strcmp(value_text(status, "plane"), "ipvs") == 0 ? "ipvs" : "nftables";
	if (strcmp(value_text(status, "plane"), found) != 0)
		return err_set(err, -ENODATA, "the plane is '%s', neither nftables nor ipvs",
			       value_text(status, "plane"));
	if (plane != NULL && strcmp(plane, found) != 0)
		return err_set(err, -EINVAL, "vipd runs the %s plane, not the %s plane", found,
			       plane);
	*ret = found;
	return 0;
}

void programmed_fini(struct programmed *h)
{
	ipvs_programmed_fini(&h->lines);
}

json_t *programmed_lines(struct str *text, const char *part)
{
	json_t *lines = json_array();

	str_for_each_line (line, text->text)
		if (part == NULL || strstr(line, part) != NULL)
			(void)json_array_append_new(lines, json_string(line));
	return lines;
}
