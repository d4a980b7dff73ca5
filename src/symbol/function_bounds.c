/* function_bounds.c: the address ranges of the frame descriptions (FDE) of .eh_frame. */
#include "symbol/function_bounds.h"

#include <elf.h>
#include <string.h>

#include "base/leb128.h"

/*
 * DW_EH_PE_…: how a pointer is stored. The low 4 bits are its form, the next 3 what it is relative
 * to.
 */
enum {
	POINTER_OMIT = 0xff,
	POINTER_FORM = 0x0f,
	POINTER_BASE = 0x70,
	POINTER_PC = 0x10,
	POINTER_INDIRECT = 0x80,
};

/* .eh_frame, with the address that it is loaded at. */
struct frames {
	const struct elf_file *file;
	struct elf_bytes bytes;
	uint64_t address;
	size_t known_cie; /* offset of the CIE that `encoding` is of; SIZE_MAX: none */
	uint8_t encoding;
};

static uint64_t read_form(struct cursor *c, uint8_t encoding)
{
	switch (encoding & POINTER_FORM) {
	case 0x0: /* address */
	case 0x4: /* udata8 */
	case 0xc: /* sdata8 */
		return cursor_u64(c);
	case 0x1:
		return cursor_uleb(c);
	case 0x2:
		return cursor_u16(c);
	case 0x3:
		return cursor_u32(c);
	case 0x9:
		return (uint64_t)cursor_sleb(c);
	case 0xa:
		return (uint64_t)(int64_t)(int16_t)cursor_u16(c);
	case 0xb:
		return (uint64_t)(int64_t)(int32_t)cursor_u32(c);
	default:
		c->failed = true;
		return 0;
	}
}

/* A pointer at the cursor, which reads bytes that are loaded at `base` from `bytes` on. */
static uint64_t read_pointer(struct cursor *c, uint8_t encoding, const uint8_t *bytes,
			     uint64_t base)
{
	uint64_t here = base + (uint64_t)(c->p - bytes);
	uint64_t value = read_form(c, encoding);

	if ((encoding & POINTER_BASE) == POINTER_PC)
		value += here;
	else if (encoding & (POINTER_BASE | POINTER_INDIRECT))
		c->failed = true;
	return value;
}

/* The encoding of the pointers in the FDEs of a CIE; POINTER_OMIT: the CIE cannot be read. */
static uint8_t read_cie(const struct frames *f, size_t offset)
{
	struct cursor c = cursor_of(f->bytes.data + offset, f->bytes.size - offset);
	uint32_t length = cursor_u32(&c);
	uint8_t encoding = 0, version;
	const char *augmentation;

	if (length == UINT32_MAX)
		cursor_u64(&c);
	if (cursor_u32(&c) != 0)
		return POINTER_OMIT;
	version = cursor_u8(&c);
	augmentation = cursor_text(&c);
	if (c.failed || (version != 1 && version != 3))
		return POINTER_OMIT;
	cursor_uleb(&c); /* code alignment */
	cursor_sleb(&c); /* data alignment */
	if (version == 1)
		cursor_u8(&c); /* return address register */
	else
		cursor_uleb(&c);
	if (*augmentation != 'z')
		return *augmentation || c.failed ? POINTER_OMIT : 0;
	cursor_uleb(&c); /* length of what follows */
	while (*++augmentation && !c.failed) {
		if (*augmentation == 'R')
			encoding = cursor_u8(&c);
		else if (*augmentation == 'L')
			cursor_u8(&c);
		else if (*augmentation == 'P')
			read_form(&c, cursor_u8(&c));
		else if (*augmentation != 'S' && *augmentation != 'B')
			break; /* unknown, but what stands before it is right */
	}
	return c.failed ? POINTER_OMIT : encoding;
}

static int add_fde(struct function_bounds *b, struct frames *f, struct cursor *fde, size_t cie)
{
	uint64_t start, size;

	if (cie >= f->bytes.size)
		return 0;
	if (cie != f->known_cie) {
		f->known_cie = cie;
		f->encoding = read_cie(f, cie);
	}
	if (f->encoding == POINTER_OMIT)
		return 0;
	start = read_pointer(fde, f->encoding, f->bytes.data, f->address);
	size = read_form(fde, f->encoding);
	/* What the linker threw away is at 0. */
	if (fde->failed || start == 0 || size == 0 || size > UINT64_MAX - start ||
	    !elf_is_code(f->file, start))
		return 0;
	return vec_push(&b->items, ((struct bounds){ start, start + size }));
}

static int read_all(struct function_bounds *b, struct frames *f)
{
	struct cursor c = cursor_of(f->bytes.data, f->bytes.size);

	while (cursor_left(&c) >= 4) {
		uint64_t length = cursor_u32(&c);
		struct cursor entry;
		size_t at;
		uint32_t id;

		if (length == 0)
			break;
		if (length == UINT32_MAX)
			length = cursor_u64(&c);
		if (c.failed || length > cursor_left(&c))
			break;
		at = (size_t)(c.p - f->bytes.data);
		entry = cursor_of(c.p, (size_t)length);
		id = cursor_u32(&entry); /* 0: a CIE; else how far before it its CIE is */
		if (id != 0 && id <= at && add_fde(b, f, &entry, at - id) < 0)
			return -ENOMEM;
		cursor_bytes(&c, (size_t)length);
	}
	return 0;
}

/* By its section, or by the segment that points at it in files without sections. */
static void find_frames(struct frames *f)
{
	struct elf_section *s = elf_section(f->file, ".eh_frame");

	f->bytes = elf_contents(f->file, s);
	if (f->bytes.data) {
		f->address = s->address;
		return;
	}
	for (size_t i = 0; i < f->file->segment_count; i++) {
		uint64_t address = f->file->segments[i].address;
		struct elf_bytes header;
		struct cursor c;

		if (f->file->segments[i].type != PT_GNU_EH_FRAME)
			continue;
		header = elf_at_address(f->file, address);
		if (header.size < 8 || header.data[0] != 1)
			return;
		c = cursor_of(header.data + 4, header.size - 4);
		f->address = read_pointer(&c, header.data[1], header.data, address);
		if (!c.failed)
			f->bytes = elf_at_address(f->file, f->address);
		return;
	}
}

static int by_start(const void *pa, const void *pb)
{
	const struct bounds *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->end > b->end) - (a->end < b->end);
}

int function_bounds_init(struct function_bounds *b, const struct elf_file *f)
{
	struct frames frames = { .file = f, .known_cie = SIZE_MAX };
	int r;

	*b = (struct function_bounds){ .table = RANGE_TABLE_INIT };
	find_frames(&frames);
	r = frames.bytes.data ? read_all(b, &frames) : 0;
	if (r == 0 && b->items.count)
		qsort(b->items.data, b->items.count, sizeof(*b->items.data), by_start);
	for (size_t i = 0; r == 0 && i < b->items.count; i++)
		r = range_table_add(&b->table,
				    (struct range){ b->items.data[i].start, b->items.data[i].end, 0,
						    (uint32_t)i });
	if (r == 0)
		r = range_table_finish(&b->table);
	if (r < 0)
		function_bounds_release(b);
	return r;
}

void function_bounds_release(struct function_bounds *b)
{
	vec_release(&b->items);
	range_table_release(&b->table);
}

const struct bounds *function_bounds_find(const struct function_bounds *b, uint64_t address)
{
	uint32_t i = range_table_find(&b->table, address);

	return i == RANGE_NONE ? NULL : &b->items.data[i];
}

uint64_t function_bounds_next(const struct function_bounds *b, uint64_t address)
{
	size_t low = 0, high = b->items.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (b->items.data[middle].start > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low < b->items.count ? b->items.data[low].start : UINT64_MAX;
}
