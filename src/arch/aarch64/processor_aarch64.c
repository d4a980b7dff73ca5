#include "arch/processor.h"

#include <asm/hwcap.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/user.h>

const uint8_t saved_registers[SAVED_REGISTERS] = { SAVED_REGISTERS_ORDER };
const uint8_t signal_registers[REG_COUNT_] = { SIGNAL_REGISTERS_ORDER };
const uint8_t perf_registers[REG_COUNT_] = { REGISTERS_IN_ORDER };

void arch_context_registers(const ucontext_t *context, uint64_t *registers)
{
	for (unsigned i = 0; i <= REG_LINK_; i++)
		registers[i] = context->uc_mcontext.regs[i];
	registers[REG_SP_] = context->uc_mcontext.sp;
	registers[REG_RA_] = context->uc_mcontext.pc;
}

void arch_stopped_registers(const struct user_regs_struct *s, uint64_t *registers,
			    uint64_t *thread_base)
{
	for (unsigned i = 0; i <= REG_LINK_; i++)
		registers[i] = s->regs[i];
	registers[REG_SP_] = s->sp;
	registers[REG_RA_] = s->pc;
	*thread_base = 0;
}

long arch_stopped_call(const struct user_regs_struct *s, long *result)
{
	(void)s;
	*result = 0;
	return -1;
}

void arch_set_result(struct user_regs_struct *s, long result)
{
	(void)s, (void)result;
}

void arch_begin_call(struct user_regs_struct *s, uint64_t code, uint64_t stack, uint64_t function,
		     uint64_t first, uint64_t second)
{
	(void)s, (void)code, (void)stack, (void)function, (void)first, (void)second;
}

void arch_begin_system_call(struct user_regs_struct *s, long number, const uint64_t *arguments)
{
	(void)s, (void)number, (void)arguments;
}

uint64_t arch_call_result(const struct user_regs_struct *s)
{
	(void)s;
	return 0;
}

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* bl, blr, and blr with authentication */
bool arch_ends_call(const uint8_t *code, unsigned count)
{
	uint32_t word = count >= 4 ? word_at(code + count - 4) : 0;

	return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000 ||
	       (word & 0xfefff800) == 0xd63f0800;
}

bool arch_is_go_exit(const uint8_t *code)
{
	(void)code;
	return false;
}

static bool is_bti(uint32_t word)
{
	return word == 0xd503245f;
}

static bool is_adrp_x16(uint32_t word)
{
	return (word & 0x9f00001f) == 0x90000010;
}

static bool is_add_x16(uint32_t word)
{
	return (word & 0xffc003ff) == 0x91000210;
}

/* An entry is adrp x16; ldr x17, [x16]; add x16, x16; br x17. None of them changes sp or x30. */
int arch_plt_depth(const uint8_t *code)
{
	uint32_t before = word_at(code + 2), word = word_at(code + 6), next = word_at(code + 10);
	bool loads_next = (next & 0xffc003ff) == 0xf9400211;
	bool is_entry = (is_bti(word) && is_adrp_x16(next)) || (is_adrp_x16(word) && loads_next) ||
			((word & 0xffc003ff) == 0xf9400211 && is_add_x16(next)) ||
			(is_add_x16(word) && next == 0xd61f0220) ||
			(is_add_x16(before) && word == 0xd61f0220);

	return is_entry ? PLT_LINK : -1;
}

bool arch_plt_expression(const uint8_t *code, size_t size, int32_t *offset, int32_t *limit)
{
	(void)code;
	(void)size;
	(void)offset;
	(void)limit;
	return false;
}

/* Returns the signed field of `width` bits from bit `first` on, in bytes. */
static intptr_t distance(uint32_t word, unsigned first, unsigned width)
{
	return (intptr_t)((int32_t)(word << (32 - first - width)) >> (32 - width)) * 4;
}

/* b, b.cond, cbz and cbnz, tbz and tbnz */
unsigned arch_jump(const uint8_t *code, uintptr_t *to)
{
	uint32_t word;

	if ((uintptr_t)code % 4)
		return 0;
	word = word_at(code);
	if ((word & 0xfc000000) == 0x14000000)
		*to = (uintptr_t)code + (uintptr_t)distance(word, 0, 26);
	else if ((word & 0xff000010) == 0x54000000 || (word & 0x7e000000) == 0x34000000)
		*to = (uintptr_t)code + (uintptr_t)distance(word, 5, 19);
	else if ((word & 0x7e000000) == 0x36000000)
		*to = (uintptr_t)code + (uintptr_t)distance(word, 5, 14);
	else
		return 0;
	return 4;
}

__attribute__((target("+crc"))) static uint32_t update_crc(uint32_t crc, const uint8_t *p,
							   size_t length)
{
	uint64_t v;

	for (; length >= 8; p += 8, length -= 8) {
		memcpy(&v, p, sizeof(v));
		crc = __builtin_aarch64_crc32cx(crc, v);
	}
	while (length--)
		crc = __builtin_aarch64_crc32cb(crc, *p++);
	return crc;
}

crc32c_update *arch_crc32c(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32 ? update_crc : NULL;
}

bool arch_has_wide_vectors(void)
{
	return false;
}
