/* cfi_random.h: random call frame information that is known beforehand: for tests. */
#ifndef PITOT_TEST_CFI_RANDOM_H
#define PITOT_TEST_CFI_RANDOM_H

#include "cfi_writer.h"
#include "elf/unwind_rule.h"

#define ROWS_MAX 200u

static uint64_t seed = 42;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % below;
}

struct expectation {
	uint64_t address;
	struct unwind_rule rule;
};

static struct expectation expected[ROWS_MAX];
static unsigned expected_count;

static void write_advance(struct cfi *c, uint32_t delta)
{
	unsigned form = pick(3);

	if (delta < 64 && form == 0) {
		cfi_u8(c, 0x40 | delta);
	} else if (delta < 256 && form == 1) {
		cfi_u8(c, 2);
		cfi_u8(c, delta);
	} else if (delta < 65536) {
		cfi_u8(c, 3);
		cfi_u16(c, (uint16_t)delta);
	} else {
		cfi_u8(c, 4);
		cfi_u32(c, delta);
	}
}

static void write_cfa(struct cfi *c, struct unwind_rule *rule)
{
	uint8_t base = (uint8_t)pick(16);
	int32_t offset = (int32_t)(8 * pick(1u << (4 + pick(16))));

	switch (pick(5)) {
	case 0:
		cfi_u8(c, 0x0c);
		cfi_uleb(c, base);
		cfi_uleb(c, (uint32_t)offset);
		break;
	case 1:
		cfi_u8(c, 0x12);
		cfi_uleb(c, base);
		cfi_sleb(c, offset / 8);
		offset = -offset;
		break;
	case 2:
		if (rule->cfa == CFA_REGISTER) {
			cfi_u8(c, 0x0d);
			cfi_uleb(c, base);
			offset = rule->offset;
			break;
		}
		/* fall through */
	case 3:
		cfi_u8(c, 0x0f); /* *(base + offset) + 16 */
		{
			struct cfi e = { .size = 0 };

			cfi_u8(&e, 0x70 + base);
			cfi_sleb(&e, offset);
			cfi_u8(&e, 0x06);
			cfi_u8(&e, 0x23);
			cfi_uleb(&e, 16);
			cfi_uleb(c, e.size);
			memcpy(c->bytes + c->size, e.bytes, e.size);
			c->size += e.size;
		}
		rule->cfa = CFA_DEREF;
		rule->base = base;
		rule->index = REG_NONE_;
		rule->offset = offset;
		rule->extra = 16;
		return;
	default:
		if (rule->cfa != CFA_REGISTER) {
			cfi_u8(c, 0x0c);
			cfi_uleb(c, base);
		} else {
			cfi_u8(c, 0x0e);
			base = rule->base;
		}
		cfi_uleb(c, (uint32_t)offset);
	}
	rule->cfa = CFA_REGISTER;
	rule->base = base;
	rule->index = 0;
	rule->offset = offset;
	rule->extra = 0;
}

static void write_save(struct cfi *c, struct unwind_rule *rule)
{
	unsigned i = pick(SAVED_REGISTERS), slot = 2 + pick(1000);
	struct save_rule *save = &rule->saved[i];

	switch (pick(6)) {
	case 0:
		cfi_u8(c, 0x80 | saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_CFA, 0, 0, -8 * (int32_t)slot };
		break;
	case 1:
		cfi_u8(c, 0x05);
		cfi_uleb(c, saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_CFA, 0, 0, -8 * (int32_t)slot };
		break;
	case 2:
		cfi_u8(c, 0xc0 | saved_registers[i]);
		*save = (struct save_rule){ SAVE_SAME, 0, 0, 0 };
		break;
	case 3:
		cfi_u8(c, 0x14); /* val_offset */
		cfi_uleb(c, saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_VALUE, 0, 0, -8 * (int32_t)slot };
		break;
	case 4:
		cfi_u8(c, 0x10); /* expression: rbp - slot */
		cfi_uleb(c, saved_registers[i]);
		cfi_u8(c, 4);
		cfi_u8(c, 0x76);
		cfi_u8(c, 0x80 | (-(int)slot & 0x7f));
		cfi_u8(c, 0x80 | (-(int)slot >> 7 & 0x7f));
		cfi_u8(c, 0x7f);
		*save = (struct save_rule){ SAVE_MEMORY, REG_FP_, 0, -(int32_t)slot };
		break;
	default:
		cfi_u8(c, 0x07);
		cfi_uleb(c, saved_registers[i]);
		*save = (struct save_rule){ SAVE_UNDEFINED, 0, 0, 0 };
	}
}

static void write_function(struct cfi *c, size_t cie, uint64_t start)
{
	struct unwind_rule initial = {
		.cfa = CFA_REGISTER, .base = REG_SP_, .offset = 8, .ra = { SAVE_CFA, 0, 0, -8 }
	};
	struct unwind_rule rule = initial, kept = initial;
	uint32_t length = 100000, at = 0;
	bool remembered = false;

	cfi_fde(c, cie, start, length);
	for (unsigned n = 1 + pick(15); n--;) {
		expected[expected_count++] = (struct expectation){ start + at, rule };
		at += 1 + pick(1u << (1 + pick(12)));
		write_advance(c, at - (uint32_t)(expected[expected_count - 1].address - start));
		for (unsigned k = pick(4); k--;)
			write_save(c, &rule);
		if (pick(3))
			write_cfa(c, &rule);
		if (!remembered && pick(4) == 0) {
			cfi_u8(c, 0x0a);
			kept = rule;
			remembered = true;
		} else if (remembered && pick(3) == 0) {
			cfi_u8(c, 0x0b);
			rule = kept;
			remembered = false;
		}
		cfi_u8(c, 0x2e); /* GNU_args_size says nothing about registers */
		cfi_uleb(c, pick(1000));
	}
	expected[expected_count++] = (struct expectation){ start + at, rule };
	expected[expected_count++] = (struct expectation){ start + length, { .cfa = CFA_NONE } };
	cfi_close(c);
}

#endif
