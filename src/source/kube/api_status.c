/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/api_status.h"

#include <string.h>

/* Servers give the reason as a cause; old ones in the message. */
static bool is_too_large(const json_t *status, const char *message)
{
	const json_t *causes = tree_get(tree_get(status, "details"), "causes");

	for (size_t i = 0; i < tree_count(causes); i++) {
		const char *reason = tree_text(tree_get(tree_at(causes, i), "reason"));

		if (reason != NULL && strcmp(reason, "ResourceVersionTooLarge") == 0)
			return true;
	}
	return message != NULL && strstr(message, "Too large resource version") != NULL;
}

void api_status_read(struct api_status *ret, const json_t *status)
{
	const char *message = tree_text(tree_get(status, "message"));
	const char *reason = tree_text(tree_get(status, "reason"));

	ret->code = (int)tree_number(tree_get(status, "code"));
	ret->is_too_large = is_too_large(status, message);
	(void)err_set(&ret->text, 0, "%d %.64s: %.300s", ret->code, reason ? reason : "",
		      message ? message : "no message");
	for (char *p = ret->text.text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
}
