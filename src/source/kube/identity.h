/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/identity - which object is it, of which only the beginning is there?
 *
 * An object that is too large to be read still has to be named, and must not be
 * taken for one that is gone. Its name stands at its beginning.
 */
#pragma once

#include <jansson.h>

/*
 * {"metadata": {name, namespace, resourceVersion}} as far as `text` has them: the
 * beginning of a JSON object, cut anywhere. `in` names the member that holds the
 * object, or is NULL. A new reference; NULL when there is no name.
 */
json_t *json_identity(const char *text, size_t len, const char *in);
/* The text of the object's member `name`, as written, borrowed; NULL when it has none. */
const char *json_head_text(const char *text, size_t len, const char *name, size_t *ret_len);
