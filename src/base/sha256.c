#include "base/sha256.h"

#include <string.h>

#include "base/compiler.h"

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotated(uint32_t x, unsigned bits)
{
	return x >> bits | x << (32 - bits);
}

static void add_block(struct sha256 *s, const uint8_t *bytes)
{
	uint32_t w[64], v[8];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
		       (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
	for (size_t i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->state, sizeof(v));
	for (size_t i = 0; i < 64; i++) {
		uint32_t a = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) +
			     ((v[4] & v[5]) ^ (~v[4] & v[6])) + constants[i] + w[i];
		uint32_t b = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) +
			     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += a;
		v[0] = a + b;
	}
	for (size_t i = 0; i < 8; i++)
		s->state[i] += v[i];
}

void sha256_begin(struct sha256 *s)
{
	*s = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
					 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *s, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	while (length) {
		size_t used = s->length % SHA256_BLOCK, n = MIN(length, SHA256_BLOCK - used);

		memcpy(s->block + used, from, n);
		s->length += n;
		from += n;
		length -= n;
		if (used + n == SHA256_BLOCK)
			add_block(s, s->block);
	}
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
	uint64_t bits = s->length * 8;
	uint8_t end[8];

	sha256_add(s, "\x80", 1);
	while (s->length % SHA256_BLOCK != SHA256_BLOCK - sizeof(end))
		sha256_add(s, "", 1);
	for (size_t i = 0; i < sizeof(end); i++)
		end[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, end, sizeof(end));
	for (size_t i = 0; i < SHA256_BYTES; i++)
		out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_begin(struct hmac *h, const void *key, size_t length)
{
	uint8_t block[SHA256_BLOCK] = { 0 };

	sha256_begin(&h->inner);
	sha256_begin(&h->outer);
	if (length > sizeof(block)) {
		sha256_add(&h->inner, key, length);
		sha256_end(&h->inner, block);
		sha256_begin(&h->inner);
	} else {
		memcpy(block, key, length);
	}
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36;
	sha256_add(&h->inner, block, sizeof(block));
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36 ^ 0x5c;
	sha256_add(&h->outer, block, sizeof(block));
	explicit_bzero(block, sizeof(block));
}

void hmac_add(struct hmac *h, const void *bytes, size_t length)
{
	sha256_add(&h->inner, bytes, length);
}

void hmac_end(struct hmac *h, uint8_t out[SHA256_BYTES])
{
	sha256_end(&h->inner, out);
	sha256_add(&h->outer, out, SHA256_BYTES);
	sha256_end(&h->outer, out);
	explicit_bzero(h, sizeof(*h));
}

bool equal_secret(const void *a, const void *b, size_t length)
{
	const uint8_t *left = a, *right = b;
	uint8_t differs = 0;

	for (size_t i = 0; i < length; i++)
		differs |= left[i] ^ right[i];
	return !differs;
}
