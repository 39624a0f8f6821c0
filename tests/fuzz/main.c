/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz - replay a corpus without a fuzzer, as a unit test.
 *
 *     fuzz_x CORPUS-FOLDER...
 *
 * Every file is given to LLVMFuzzerTestOneInput() as it is, cut short at up to 64
 * places, and with single bytes changed. With clang's -fsanitize=fuzzer the same
 * function is driven by libFuzzer instead of by this main().
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CUTS 64

/*
 * Pass the first `size` bytes on, with byte `at` changed by `bits`, in memory that ends with
 * them: AddressSanitizer reports a read of the byte behind.
 */
static void give(const struct str *text, size_t size, size_t at, unsigned int bits)
{
	uint8_t *memory = xmalloc(size > 0 ? size : 1);
	uint8_t *copy = size > 0 ? memory : memory + 1;

	memcpy(copy, str_text(text), size);
	if (at < size)
		copy[at] = (uint8_t)(copy[at] ^ bits);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(memory);
}

static void replay(const struct str *text)
{
	give(text, text->len, 0, 0);
	for (size_t i = 0; i < CUTS; i++) {
		size_t at = text->len * i / CUTS;

		give(text, at, 0, 0);
		if (at < text->len)
			give(text, text->len, at, 1U << (i % 8));
	}
}

static int replay_folder(const char *folder)
{
	struct dirent **names;
	int n = scandir(folder, &names, NULL, alphasort);
	int files = 0;

	if (n < 0) {
		(void)fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return -1;
	}
	for (int i = 0; i < n; i++) {
		struct str path = { 0 };
		struct str text = { 0 };
		struct stat st;

		str_printf(&path, "%s/%s", folder, names[i]->d_name);
		if (stat(path.text, &st) == 0 && S_ISREG(st.st_mode) &&
		    file_read(&text, path.text, SIZE_MAX, NULL) == 0) {
			replay(&text);
			files++;
		}
		str_fini(&path);
		str_fini(&text);
		free(names[i]);
	}
	free(names);
	return files;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int files = replay_folder(argv[i]);

		if (files <= 0) {
			(void)fprintf(stderr, "%s: nothing to replay\n", argv[i]);
			return 1;
		}
		printf("%s: %d files\n", argv[i], files);
	}
	return argc < 2;
}
