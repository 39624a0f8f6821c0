/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/time - RFC 3339 section 5.6, without the C library's locale and zone. */
#include <errno.h>
#include <time.h>

#include "source/decode/decode.h"

/* Parse `digits` decimal digits at *p and advance *p past them; -1 if there are fewer. */
static int number(const char **p, int digits)
{
	int n = 0;

	for (int i = 0; i < digits; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		n = n * 10 + (**p - '0');
	}
	return n;
}

static bool is_next(const char **p, char a, char b)
{
	if (**p != a && **p != b)
		return false;
	(*p)++;
	return true;
}

/* "YYYY-MM-DDTHH:MM:SS" to Unix seconds; a leap second equals the second after it. */
static bool seconds(int64_t *ret, const char **p)
{
	int year = number(p, 4);
	int month = is_next(p, '-', '-') ? number(p, 2) : -1;
	int day = is_next(p, '-', '-') ? number(p, 2) : -1;
	int hour = is_next(p, 'T', 't') ? number(p, 2) : -1;
	int min = is_next(p, ':', ':') ? number(p, 2) : -1;
	int sec = is_next(p, ':', ':') ? number(p, 2) : -1;

	struct tm tm = { .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day };

	if (year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 || hour < 0 ||
	    hour > 23 || min < 0 || min > 59 || sec < 0 || sec > 60)
		return false;
	*ret = timegm(&tm) + hour * 3600 + min * 60 + sec;
	return tm.tm_mday == day; /* timegm() carries days that the month does not have */
}

/* ".123456789": digits beyond the ninth are read and dropped. */
static bool fraction(int64_t *ret_ns, const char **p)
{
	int64_t scale = 100000000;
	int digit;

	*ret_ns = 0;
	if (!is_next(p, '.', '.'))
		return true;
	digit = number(p, 1);
	if (digit < 0)
		return false;
	for (; digit >= 0; digit = **p >= '0' && **p <= '9' ? number(p, 1) : -1) {
		*ret_ns += digit * scale;
		scale /= 10;
	}
	return true;
}

/* "Z" or "+HH:MM". */
static bool offset(int64_t *ret_s, const char **p)
{
	int sign = **p == '-' ? -1 : 1;
	int hour;
	int min;

	*ret_s = 0;
	if (is_next(p, 'Z', 'z'))
		return true;
	if (!is_next(p, '+', '-'))
		return false;
	hour = number(p, 2);
	min = is_next(p, ':', ':') ? number(p, 2) : -1;
	if (hour < 0 || hour > 23 || min < 0 || min > 59)
		return false;
	*ret_s = sign * (hour * 3600 + min * 60);
	return true;
}

int decode_time(int64_t *ret_ns, const char *text)
{
	const char *p = text;
	int64_t offset_s;
	int64_t ns;
	int64_t s;

	if (!seconds(&s, &p) || !fraction(&ns, &p) || !offset(&offset_s, &p) || *p != '\0')
		return -EINVAL;
	*ret_ns = (s - offset_s) * (int64_t)NSEC_PER_SEC + ns;
	return 0;
}
