/* cfi_writer.h: writes call frame information, to read it again: for tests. */
#ifndef PITOT_TEST_CFI_WRITER_H
#define PITOT_TEST_CFI_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct cfi {
	uint8_t bytes[1 << 16];
	size_t size;
	size_t entry; /* offset of the entry being written */
	uint64_t address; /* of bytes[0] */
};

static inline void cfi_u8(struct cfi *c, unsigned v)
{
	c->bytes[c->size++] = (uint8_t)v;
}

static inline void cfi_u16(struct cfi *c, uint16_t v)
{
	store_u16(c->bytes + c->size, v);
	c->size += 2;
}

static inline void cfi_u32(struct cfi *c, uint32_t v)
{
	store_u32(c->bytes + c->size, v);
	c->size += 4;
}

static inline void cfi_uleb(struct cfi *c, uint64_t v)
{
	c->size += varint_put(c->bytes + c->size, v);
}

static inline void cfi_sleb(struct cfi *c, int64_t v)
{
	bool more = true;

	while (more) {
		uint8_t b = v & 0x7f;

		v >>= 7;
		more = !((v == 0 && !(b & 0x40)) || (v == -1 && (b & 0x40)));
		cfi_u8(c, more ? b | 0x80u : b);
	}
}

static inline void cfi_open(struct cfi *c)
{
	c->entry = c->size;
	cfi_u32(c, 0);
}

static inline void cfi_close(struct cfi *c)
{
	while ((c->size - c->entry) % 8)
		cfi_u8(c, 0);
	store_u32(c->bytes + c->entry, (uint32_t)(c->size - c->entry - 4));
}

/* A CIE as compilers make it: CFA = rsp + 8, return address at CFA - 8. Returns its offset. */
static inline size_t cfi_cie(struct cfi *c, const char *augmentation)
{
	cfi_open(c);
	cfi_u32(c, 0);
	cfi_u8(c, 1);
	memcpy(c->bytes + c->size, augmentation, strlen(augmentation) + 1);
	c->size += strlen(augmentation) + 1;
	cfi_uleb(c, 1);
	cfi_sleb(c, -8);
	cfi_u8(c, 16);
	if (*augmentation == 'z') {
		cfi_uleb(c, strchr(augmentation, 'R') != NULL);
		if (strchr(augmentation, 'R'))
			cfi_u8(c, 0x1b); /* pcrel | sdata4 */
	}
	cfi_u8(c, 0x0c);
	cfi_uleb(c, 7);
	cfi_uleb(c, 8);
	cfi_u8(c, 0x80 | 16);
	cfi_uleb(c, 1);
	cfi_close(c);
	return c->entry;
}

/* The head of an FDE of a CIE "zR"; instructions follow, then cfi_close(). */
static inline void cfi_fde(struct cfi *c, size_t cie, uint64_t start, uint32_t length)
{
	cfi_open(c);
	cfi_u32(c, (uint32_t)(c->size - cie));
	cfi_u32(c, (uint32_t)(start - (c->address + c->size)));
	cfi_u32(c, length);
	cfi_uleb(c, 0);
}

#endif
