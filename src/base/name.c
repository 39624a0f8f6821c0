/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/name - see name.h. One table per process. */
#include "base/name.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static struct htable names;

static struct name *find(const char *text, size_t len, uint32_t hash)
{
	return htable_find(&names, hash, struct name, name,
			   name->len == len && memcmp(name->text, text, len) == 0);
}

const struct name *name_get(const char *text, size_t len)
{
	uint32_t hash = hash_bytes(text, len);
	struct name *name = find(text, len, hash);

	assert(len < UINT32_MAX);
	if (name == NULL) {
		name = xmalloc(sizeof(*name) + len + 1);
		name->refs = 0;
		name->len = (uint32_t)len;
		memcpy(name->text, text, len);
		name->text[len] = '\0';
		htable_insert(&names, &name->node, hash);
	}
	name->refs++;
	return name;
}

const struct name *name_get_str(const char *text)
{
	return name_get(text, strlen(text));
}

const struct name *name_ref(const struct name *n)
{
	if (n != NULL)
		((struct name *)(uintptr_t)n)->refs++;
	return n;
}

void name_unref(const struct name *n)
{
	struct name *name = (struct name *)(uintptr_t)n;

	if (name == NULL)
		return;
	assert(name->refs > 0);
	if (--name->refs > 0)
		return;
	htable_remove(&names, &name->node);
	free(name);
	if (names.count == 0)
		htable_fini(&names);
}

const struct name *name_find(const char *text, size_t len)
{
	return find(text, len, hash_bytes(text, len));
}

size_t name_count(void)
{
	return names.count;
}
