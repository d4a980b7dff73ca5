/* sha256.h: SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104). */
#ifndef PITOT_BASE_SHA256_H
#define PITOT_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u
#define SHA256_BLOCK 64u

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes so far */
	uint8_t block[SHA256_BLOCK];
};

void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t length);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

struct hmac {
	struct sha256 inner, outer;
};

void hmac_begin(struct hmac *h, const void *key, size_t length);
void hmac_add(struct hmac *h, const void *bytes, size_t length);
void hmac_end(struct hmac *h, uint8_t out[SHA256_BYTES]);

/* Whether bytes are equal, in a time that does not depend on where they differ. */
bool equal_secret(const void *a, const void *b, size_t length);

#endif
