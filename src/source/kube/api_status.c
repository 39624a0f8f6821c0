/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/api_status - see api_status.h. */
#include "source/kube/api_status.h"

#include <string.h>

int api_status_text(struct err *ret, const json_t *status)
{
	const char *message = json_string_value(json_object_get(status, "message"));
	const char *reason = json_string_value(json_object_get(status, "reason"));
	int code = (int)json_integer_value(json_object_get(status, "code"));

	(void)err_set(ret, 0, "%d %.64s: %.300s", code, reason ? reason : "",
		      message ? message : "no message");
	for (char *p = ret->text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	return code;
}

bool api_status_is_too_large(const json_t *status)
{
	const json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
	const char *message = json_string_value(json_object_get(status, "message"));
	const json_t *cause;
	size_t i;

	json_array_foreach (causes, i, cause) {
		const char *reason = json_string_value(json_object_get(cause, "reason"));

		if (reason != NULL && strcmp(reason, "ResourceVersionTooLarge") == 0)
			return true;
	}
	return message != NULL && strstr(message, "Too large resource version") != NULL;
}
