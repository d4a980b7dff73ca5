/*
 * bytes.h: little-endian integers and LEB128 varints in unaligned memory.
 *
 * Decoders use `struct cursor`. It never reads past `end`; after its first failure every further
 * read returns 0.
 */
#ifndef PITOT_BASE_BYTES_H
#define PITOT_BASE_BYTES_H

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Pitot is written for little-endian machines"
#endif

#define VARINT_MAX 10	/* bytes of the longest 64-bit varint */

static inline uint16_t load_u16(const void *p) { uint16_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline uint32_t load_u32(const void *p) { uint32_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline uint64_t load_u64(const void *p) { uint64_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline void store_u16(void *p, uint16_t v) { memcpy(p, &v, sizeof(v)); }
static inline void store_u32(void *p, uint32_t v) { memcpy(p, &v, sizeof(v)); }
static inline void store_u64(void *p, uint64_t v) { memcpy(p, &v, sizeof(v)); }

/* Writes v at p, which must have room for VARINT_MAX bytes. Returns the number of bytes written. */
static inline size_t varint_put(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		p[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	p[n++] = (uint8_t)v;
	return n;
}

static inline uint64_t zigzag(int64_t v)
{
	/* v >> 63 would prevent vectorizing: SSE2 and AVX2 have no 64-bit arithmetic shift. */
	return ((uint64_t)v << 1) ^ (0 - ((uint64_t)v >> 63));
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

struct cursor {
	const uint8_t *p, *end;
	bool failed;
};

static inline struct cursor cursor_of(const void *bytes, size_t length)
{
	return (struct cursor){ bytes, (const uint8_t *)bytes + length, false };
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* Consumes the next `length` bytes and returns a pointer to them, or NULL. */
static inline const uint8_t *cursor_bytes(struct cursor *c, size_t length)
{
	const uint8_t *p = c->p;

	if (c->failed || cursor_left(c) < length) {
		c->failed = true;
		return NULL;
	}
	c->p += length;
	return p;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? *p : 0;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 2);

	return p ? load_u16(p) : 0;
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 4);

	return p ? load_u32(p) : 0;
}

static inline uint64_t cursor_u64(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 8);

	return p ? load_u64(p) : 0;
}

/* Fails on encodings longer than ten bytes and on values wider than 64 bits. */
static inline uint64_t cursor_varint(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = cursor_u8(c);

		if (c->failed || (shift == 63 && b > 1))
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	c->failed = true;
	return 0;
}

/*
 * Returns the CRC-32C (Castagnoli, RFC 3720 appendix B.4). `crc` is 0 for the first piece, else the
 * previous result.
 */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t length);
/* Same as crc32c(), without the processor's CRC instruction. */
uint32_t crc32c_tables(uint32_t crc, const void *bytes, size_t length);

#endif
