/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/hash - SipHash-1-3. */
#include "base/hash.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

static struct {
	bool is_set;
	uint64_t k0;
	uint64_t k1;
} seed;

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, unsigned int b)
{
	return (x << b) | (x >> (64 - b));
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v0 = rotl(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v2 = rotl(s->v2, 32);
}

uint64_t hash_bytes_fixed(const void *data, size_t len, uint64_t k0, uint64_t k1)
{
	const unsigned char *p = data;
	struct sip s = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
			 k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
	uint64_t last = 0;
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8) {
		uint64_t m;

		memcpy(&m, p, 8);
		m = le64toh(m);
		s.v3 ^= m;
		sip_round(&s);
		s.v0 ^= m;
	}
	memcpy(&last, p, left);
	last = le64toh(last) | (uint64_t)len << 56;
	s.v3 ^= last;
	sip_round(&s);
	s.v0 ^= last;
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void hash_seed(uint64_t k0, uint64_t k1)
{
	seed.is_set = true;
	seed.k0 = k0;
	seed.k1 = k1;
}

uint32_t hash_bytes(const void *data, size_t len)
{
	if (!seed.is_set) {
		uint64_t k[2] = { 0x76697064, 0x76697064 };

		(void)!getrandom(k, sizeof(k), GRND_NONBLOCK); /* early boot: keep the weak key */
		hash_seed(k[0], k[1]);
	}
	return (uint32_t)hash_bytes_fixed(data, len, seed.k0, seed.k1);
}
