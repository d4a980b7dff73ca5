/*
 * bytes.c: CRC-32C, with the processor's instruction where it has one, else with eight tables
 * of 256 entries ("slicing by eight").
 *
 * Both variants work on the inverted remainder. The tables are computed when the library is loaded,
 * so crc32c() needs no check for initialization.
 */
#include "base/bytes.h"

#include "arch/processor.h"

#define POLYNOMIAL UINT32_C(0x82f63b78) /* 0x1edc6f41, lowest bit first */

static uint32_t tables[8][256];

static uint32_t update_tables(uint32_t crc, const uint8_t *p, size_t length)
{
	for (; length >= 8; p += 8, length -= 8) {
		uint64_t v = load_u64(p) ^ crc;

		crc = 0;
		for (unsigned i = 0; i < 8; i++)
			crc ^= tables[7 - i][(v >> (8 * i)) & 0xff];
	}
	while (length--)
		crc = (crc >> 8) ^ tables[0][(crc ^ *p++) & 0xff];
	return crc;
}

static crc32c_update *update = update_tables;

/* Priority 200: runs before the constructors of libpitot.so, which may start recording. */
__attribute__((constructor(200))) static void choose(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
		tables[0][i] = crc;
	}
	for (unsigned t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
	if (arch_crc32c())
		update = arch_crc32c();
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t length)
{
	return ~update(~crc, bytes, length);
}

uint32_t crc32c_tables(uint32_t crc, const void *bytes, size_t length)
{
	return ~update_tables(~crc, bytes, length);
}
