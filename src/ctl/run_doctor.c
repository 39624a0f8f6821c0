/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_doctor - check the node: by vipd, or by vipctl itself when vipd does not answer. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/control.h"
#include "ctl/programmed.h"
#include "ctl/run.h"
#include "ctl/value.h"
#include "doctor/check.h"

#define PATH "/v1/doctor"
#define POLL_US 20000 /* between requests for the result */

/* Start a run in vipd and wait for its result. */
static int ask_vipd(json_t **ret, const struct client *c, struct err *err)
{
	uint64_t end = now_ns() + c->timeout_ms * NSEC_PER_MSEC;
	json_t *answer;
	json_int_t runs;
	int r = client_json(&answer, c, "PUT", PATH, err);

	if (r < 0)
		return r;
	runs = value_int(answer, "runs");
	while (value_int(answer, "runs") <= runs) {
		json_decref(answer);
		if (now_ns() >= end)
			return err_set(err, -ETIMEDOUT, "vipd's checks take longer than %u s",
				       c->timeout_ms / 1000);
		(void)usleep(POLL_US);
		r = client_json(&answer, c, "GET", PATH, err);
		if (r < 0)
			return r;
	}
	*ret = answer;
	return 0;
}

/* An answer of /v1/doctor; "by" names the program that checked, "vipd" is the reason. */
static json_t *run_here(const struct err *why, const char *plane)
{
	/* May quote a path that is not UTF-8. */
	AUTO(free) char *text = str_clean(xstrdup(why->text));
	json_t *report = check_run(plane);

	return json_pack("{s:i, s:s, s:s, s:s, s:o}", "api", CONTROL_API_VERSION, "by", "vipctl",
			 "vipd", text, "worst", check_level_text(check_report_worst(report)),
			 "results", report);
}

enum doctor_exit doctor_exit(const json_t *answer)
{
	const char *worst = value_text(answer, "worst");

	if (strcmp(worst, "ok") == 0 || strcmp(worst, "note") == 0)
		return DOCTOR_WELL;
	return strcmp(worst, "warning") == 0 ? DOCTOR_WARNINGS : DOCTOR_ERRORS;
}

/* --plane: vipctl checks for a plane that vipd does not use. */
int run_doctor(const struct run *run)
{
	const char *found;
	struct err err = { 0 };
	json_auto_t *answer = NULL;
	int r = 0;

	if (run->plane != NULL)
		r = programmed_plane(&found, &run->client, run->plane, &err);
	if (r == 0)
		r = ask_vipd(&answer, &run->client, &err);
	if (r < 0)
		answer = run_here(&err, run->plane);
	return answer_show(run, answer, (int)doctor_exit(answer), show_doctor);
}
