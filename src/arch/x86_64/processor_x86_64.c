#include "arch/processor.h"

#include <string.h>
#include <sys/user.h>

const uint8_t saved_registers[SAVED_REGISTERS] = { SAVED_REGISTERS_ORDER };
const uint8_t signal_registers[REG_COUNT_] = { SIGNAL_REGISTERS_ORDER };

const uint8_t perf_registers[REG_COUNT_] = { REG_RAX_, REG_RBX_, REG_RCX_, REG_RDX_, REG_RSI_,
					     REG_RDI_, REG_RBP_, REG_RSP_, REG_RA_,  REG_R8_,
					     9,        10,       11,       REG_R12_, 13,
					     14,       REG_R15_ };

void arch_context_registers(const ucontext_t *context, uint64_t *registers)
{
	static const uint8_t order[REG_COUNT_] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						   REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						   REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						   REG_R15, REG_RIP };

	for (unsigned i = 0; i < REG_COUNT_; i++)
		registers[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
}

void arch_stopped_registers(const struct user_regs_struct *s, uint64_t *registers,
			    uint64_t *thread_base)
{
	const uint64_t in_order[REG_COUNT_] = { s->rax, s->rdx, s->rcx, s->rbx, s->rsi, s->rdi,
						s->rbp, s->rsp, s->r8,  s->r9,  s->r10, s->r11,
						s->r12, s->r13, s->r14, s->r15, s->rip };

	memcpy(registers, in_order, sizeof(in_order));
	*thread_base = s->fs_base;
}

long arch_stopped_call(const struct user_regs_struct *s, long *result)
{
	*result = (long)s->rax;
	return (long)s->orig_rax;
}

void arch_set_result(struct user_regs_struct *s, long result)
{
	s->rax = (uint64_t)result;
}

/* orig_rax: the kernel shall not restart a system call when the thread continues. */
void arch_begin_call(struct user_regs_struct *s, uint64_t code, uint64_t stack, uint64_t function,
		     uint64_t first, uint64_t second)
{
	s->orig_rax = UINT64_MAX;
	s->rip = code;
	s->rsp = stack & ~UINT64_C(15);
	s->rbp = 0;
	s->rax = function;
	s->rdi = first;
	s->rsi = second;
	s->eflags &= ~UINT64_C(0x400); /* the direction flag */
}

void arch_begin_system_call(struct user_regs_struct *s, long number, const uint64_t *arguments)
{
	s->orig_rax = UINT64_MAX;
	s->rip -= 2; /* syscall */
	s->rax = (uint64_t)number;
	s->rdi = arguments[0];
	s->rsi = arguments[1];
	s->rdx = arguments[2];
	s->r10 = arguments[3];
	s->r8 = arguments[4];
	s->r9 = arguments[5];
}

uint64_t arch_call_result(const struct user_regs_struct *s)
{
	return s->rax;
}

bool arch_ends_call(const uint8_t *code, unsigned count)
{
	if (count >= 5 && code[count - 5] == 0xe8)
		return true;
	for (unsigned length = 2; length <= count && length <= CALL_BYTES_MAX; length++)
		if (code[count - length] == 0xff && (code[count - length + 1] & 0x38) == 0x10)
			return true;
	return false;
}

/* nop; call; nop */
bool arch_is_go_exit(const uint8_t *code)
{
	return code[0] == 0x90 && code[1] == 0xe8 && code[6] == 0x90;
}

/*
 * Entries are jmp *slot, then push number, jmp first, of which each may be missing or have a
 * prefix; the first entry is push link, jmp *resolver. mold's entries begin with mov number, %r11d,
 * which its first entry pushes.
 */
int arch_plt_depth(const uint8_t *before)
{
	const uint8_t *at = before + 6;

	if (at[0] == 0xff && at[1] == 0x35)
		return 1;
	if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
		at += 4;
	if (at[0] == 0xf2) /* bnd */
		at++;
	if (at[0] == 0xff && at[1] == 0x25)
		return before[0] == 0xff && before[1] == 0x35 ? 2 : 0;
	if (at[0] == 0x68 || (at[0] == 0x41 && (at[1] == 0xbb || at[1] == 0x53)))
		return 0;
	return before[6] == 0xe9 && before[1] == 0x68 ? 1 : -1;
}

/* breg7 offset, breg16 0, lit15, and, lit<limit>, ge, lit3, shl, plus */
bool arch_plt_expression(const uint8_t *code, size_t size, int32_t *offset, int32_t *limit)
{
	static const uint8_t middle[] = { 0x80, 0x00, 0x3f, 0x1a },
			     end[] = { 0x2a, 0x33, 0x24, 0x22 };

	if (size != 11 || code[0] != 0x77 || code[1] & 0x80 || memcmp(code + 2, middle, 4) != 0 ||
	    code[6] < 0x30 || code[6] > 0x3f || memcmp(code + 7, end, 4) != 0)
		return false;
	*offset = code[1] & 0x40 ? code[1] - 0x80 : code[1];
	*limit = code[6] - 0x30;
	return true;
}

/* E9, or 0F 80 to 8F, with 4 bytes of distance */
unsigned arch_jump(const uint8_t *code, uintptr_t *to)
{
	unsigned length = code[0] == 0xe9 ? 5 : code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 6 : 0;
	int32_t distance;

	if (!length)
		return 0;
	memcpy(&distance, code + length - 4, sizeof(distance));
	*to = (uintptr_t)code + length + (uintptr_t)(intptr_t)distance;
	return length;
}

/* SSE4.2 has an instruction for it. */
__attribute__((target("sse4.2"))) static uint32_t update_crc(uint32_t crc, const uint8_t *p,
							     size_t length)
{
	uint64_t wide = crc, v;

	for (; length >= 8; p += 8, length -= 8) {
		memcpy(&v, p, sizeof(v));
		wide = __builtin_ia32_crc32di(wide, v);
	}
	crc = (uint32_t)wide;
	while (length--)
		crc = __builtin_ia32_crc32qi(crc, *p++);
	return crc;
}

crc32c_update *arch_crc32c(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse4.2") ? update_crc : NULL;
}

bool arch_has_wide_vectors(void)
{
	return __builtin_cpu_supports("avx2");
}
