/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/identity - name of an object from the beginning of its JSON text.
 *
 * An object that is too large is reported by its name and must not count as deleted.
 */
#pragma once

#include <jansson.h>

/*
 * Return {"metadata": {name, namespace, resourceVersion}} with the fields found in `text`, the
 * beginning of a JSON object, cut anywhere. `in` is the member that contains the object, or NULL.
 * A new reference; NULL: no name found.
 */
json_t *json_identity(const char *text, size_t len, const char *in);
/* Raw text of the object's string member `name`, borrowed; NULL: none. */
const char *json_head_text(const char *text, size_t len, const char *name, size_t *ret_len);
