/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/time - RFC 3339 section 5.6, without the C library's locale and zone. */
#include <ctype.h>
#include <errno.h>
#include <time.h>

#include "source/decode/decode.h"

#define SECONDS "0000-00-00T00:00:00"

/* Does `text` begin like `shape`, in which 0 is any digit? */
static bool has_shape(const char *text, const char *shape)
{
	for (; *shape != '\0'; shape++, text++)
		if (*shape == '0' ? !isdigit((unsigned char)*text)
				  : toupper((unsigned char)*text) != *shape)
			return false;
	return true;
}

/* The value of `n` digits. sscanf() would make decoding a Service a fifth slower. */
static int number(const char *text, int n)
{
	int value = 0;

	while (n-- > 0)
		value = value * 10 + (*text++ - '0');
	return value;
}

/* "YYYY-MM-DDTHH:MM:SS" to Unix seconds; a leap second equals the second after it. */
static bool seconds(int64_t *ret, const char *text)
{
	struct tm tm = { 0 };
	int year, month, day, hour, min, sec;

	if (!has_shape(text, SECONDS))
		return false;
	year = number(text, 4);
	month = number(text + 5, 2);
	day = number(text + 8, 2);
	hour = number(text + 11, 2);
	min = number(text + 14, 2);
	sec = number(text + 17, 2);
	if (year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 || hour > 23 ||
	    min > 59 || sec > 60)
		return false;
	tm = (struct tm){ .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day };
	*ret = timegm(&tm) + hour * 3600 + min * 60 + sec;
	return tm.tm_mday == day; /* timegm() carries days that the month does not have */
}

/* "Z" or "+HH:MM", then the end. */
static bool offset(int64_t *ret_s, const char *text)
{
	int hour;
	int min;

	*ret_s = 0;
	if (*text == 'Z' || *text == 'z')
		return text[1] == '\0';
	if ((*text != '+' && *text != '-') || !has_shape(text + 1, "00:00") || text[6] != '\0')
		return false;
	hour = number(text + 1, 2);
	min = number(text + 4, 2);
	if (hour > 23 || min > 59)
		return false;
	*ret_s = (*text == '-' ? -1 : 1) * (hour * 3600 + min * 60);
	return true;
}

int decode_time(int64_t *ret_ns, const char *text)
{
	int64_t offset_s;
	int64_t ns = 0;
	int64_t s;

	if (!seconds(&s, text))
		return -EINVAL;
	text += sizeof(SECONDS) - 1;
	if (has_shape(text, ".0")) /* digits beyond the ninth are dropped */
		for (int64_t scale = NSEC_PER_SEC / 10; isdigit((unsigned char)*++text);
		     scale /= 10)
			ns += (*text - '0') * scale;
	if (!offset(&offset_s, text))
		return -EINVAL;
	*ret_ns = (s - offset_s) * (int64_t)NSEC_PER_SEC + ns;
	return 0;
}
