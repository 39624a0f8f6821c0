/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the byte behind its input: check_fuzz.py proves that the replay makes that visible. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return ((const volatile uint8_t *)data)[size] & 0;
}
