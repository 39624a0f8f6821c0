/* SPDX-License-Identifier: GPL-2.0-or-later */
/* settings/yaml - a JSON value as YAML, in blocks: the same members in the same order. */
#pragma once

#include <jansson.h>

#include "base/str.h"

void yaml_print(struct str *out, const json_t *json);
