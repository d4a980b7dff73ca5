/*
 * aarch64.h: 64-bit Arm of processor.h.
 *
 * A call pushes nothing: the return address is in x30, the link register, until the function stores
 * it, nearly always above the caller's x29, the frame pointer, in a pair at the low end of its
 * frame. The processor may sign return addresses where they are stored (pointer authentication):
 * they are compared as they are, and used without the signature.
 */
#ifndef PITOT_ARCH_AARCH64_AARCH64_H
#define PITOT_ARCH_AARCH64_AARCH64_H

#include <elf.h>

#include "arch/elf_machine.h"

/* --- files --- */

#define ARCH_NAME "aarch64"
#define ARCH_ELF_MACHINE elf_machine_aarch64
#define ARCH_MACHINE_NUMBER EM_AARCH64
#define ARCH_AUDIT AUDIT_ARCH_AARCH64 /* of seccomp filters */
#define ARCH_LOADER "ld-linux-aarch64" /* the dynamic loader of glibc */
#define ARCH_LIBRARIES "/usr/lib/aarch64-linux-gnu/" /* Debian's */
#define ARCH_CUDA_TARGET "sbsa-linux"

/* --- registers --- */

#define RA_COLUMN REG_LINK_ /* of a CIE */

/* Captures the registers of the function that uses the macro, at that place. */
#define CAPTURE_REGISTERS(at)                                                                      \
	__asm__ volatile("stp x19, x20, [%0, #152]\n\t"                                            \
			 "stp x21, x22, [%0, #168]\n\t"                                            \
			 "stp x23, x24, [%0, #184]\n\t"                                            \
			 "stp x25, x26, [%0, #200]\n\t"                                            \
			 "stp x27, x28, [%0, #216]\n\t"                                            \
			 "stp x29, x30, [%0, #232]\n\t"                                            \
			 "mov x9, sp\n\t"                                                          \
			 "adr x10, .\n\t"                                                          \
			 "stp x9, x10, [%0, #248]"                                                 \
			 :                                                                         \
			 : "r"(at)                                                                 \
			 : "x9", "x10", "memory")
#define CAPTURED_REGISTERS UINT64_C(0x1fff80000) /* x19 to x30, sp, pc */

/* --- frames --- */

/* Returns the address in a word that is a return address, as a call stored it. */
static inline uint64_t arch_code_address(uint64_t word)
{
	register uint64_t link __asm__("x30") = word;

	if (__builtin_expect(word >> 48 == 0, 1))
		return word;
	/* xpaclri, which older processors ignore: the assembler need not know it */
	__asm__("hint #7" : "+r"(link));
	return link;
}

/*
 * Bits of a word that arch_code_address() preserves. Bit 55 is that of the operating system's
 * kernel: of its addresses, the signature's bits become 1 instead.
 */
static inline uint64_t arch_code_bits(void)
{
	return arch_code_address(~(UINT64_C(1) << 55));
}

/*
 * Frames whose caller follows from stack pointer and frame pointer. Returns whether one is, by the
 * distances of the saved frame pointer and of the return address from the CFA, and the distance of
 * the slot that a step stores: of the pair, or of the return address alone.
 */
static inline bool arch_step_slot(bool fp_is_saved, int32_t fp_offset, int32_t ra_offset,
				  int32_t *slot)
{
	*slot = fp_is_saved ? fp_offset : ra_offset;
	return !fp_is_saved || (int64_t)fp_offset + 8 == ra_offset;
}

/* Returns where the return address of such a frame is. */
static inline uint64_t arch_return_slot(uint64_t cfa, uint64_t slot, bool fp_is_saved)
{
	(void)cfa;
	return fp_is_saved ? slot + 8 : slot;
}

/* The kernel's code for the return from a signal has no rules. */
#define SIGNAL_RULE_SP (-1)
#define SIGNAL_RULE_PC (-1)
/*
 * An opcode of call frame information that is without operands and changes no rule:
 * DW_CFA_AARCH64_negate_ra_state and its variant with the pc. What it says, whether a return
 * address is signed, need not be known.
 */
#define CFA_NO_RULE(op) ((op) == 0x2d || (op) == 0x2c)

/* x0 to x30, sp, pc, by perf's numbers */
#define PERF_REGISTERS UINT64_C(0x1ffffffff)

/* --- memory --- */

/* In assembly, because sanitizers intercept loads from other functions' frames. */
static inline uint64_t arch_load(uint64_t address)
{
	uint64_t value;

	__asm__("ldr %0, %1" : "=r"(value) : "m"(*(const uint64_t *)address));
	return value;
}

/* Returns the address of the thread control block, which is above the stack of a thread. */
static inline uint64_t arch_thread_pointer(void)
{
	uint64_t thread;

	__asm__("mrs %0, tpidr_el0" : "=r"(thread));
	return thread;
}

/* Whether the thread pointer is the address of glibc's struct pthread, which lies below it here. */
#define ARCH_THREAD_IS_BASE false

/* A system call that leaves errno alone. */
static inline long arch_system_call(long number, long a, uint64_t b, long c, long d)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register uint64_t x1 __asm__("x1") = b;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory", "cc");
	return x0;
}

/* For values that one thread changes, and signal handlers that interrupt it. */
#define ARCH_ADD_HERE(value, by) (void)__atomic_fetch_add(value, by, __ATOMIC_RELAXED)
#define ARCH_OR_HERE(value, by) (void)__atomic_fetch_or(value, by, __ATOMIC_RELAXED)
#define ARCH_AND_HERE(value, by) (void)__atomic_fetch_and(value, by, __ATOMIC_RELAXED)

/* --- calls in stopped threads --- */

#define ARCH_VECTOR_REGISTERS NT_PRFPREG /* of ptrace, with floating point */
#define ARCH_CAN_CALL false
#define ARCH_CALL_CODE                                                                             \
	{                                                                                          \
		0                                                                                  \
	}
#define ARCH_CALL_END 0u
#define ARCH_SYSTEM_CALL                                                                           \
	{                                                                                          \
		0                                                                                  \
	}

/* --- clock --- */

/* The clock is read directly: it is made from a counter that no other instruction reads faster. */
static inline uint64_t arch_ticks(void)
{
	return 0;
}

#define ARCH_CLOCK_SOURCE ""

/* --- code --- */

#define WIDE_VECTORS /* all vectors are equally wide */

/*
 * Functions that pass calls with arguments for the loader itself to others. A jump preserves the
 * return address, by which the loader identifies its caller. RTLD_DEFAULT is 0 and RTLD_NEXT is -1.
 */
#define ARCH_FUNCTION(name, body) /* hint #34 is bti c */                                          \
	".globl " #name "\n.hidden " #name "\n.type " #name ", %function\n.p2align 2\n"            \
	#name ":\n hint #34\n" body ".size " #name ", . - " #name "\n"
#define ARCH_TO(target, real)                                                                      \
	"b " #target "\n1: adrp x16, " #real "\n ldr x16, [x16, :lo12:" #real "]\n br x16\n"
#define ARCH_PASS_HANDLE(name, target, real)                                                       \
	ARCH_FUNCTION(name,                                                                        \
		      "add x16, x0, #1\n cmp x16, #1\n b.ls 1f\n" ARCH_TO(target, real))
#define ARCH_PASS_IF(name, condition, target, real)                                                \
	ARCH_FUNCTION(name,                                                                        \
		      "stp x29, x30, [sp, #-32]!\n stp x0, x1, [sp, #16]\n bl " #condition "\n"    \
		      "mov w16, w0\n ldp x0, x1, [sp, #16]\n ldp x29, x30, [sp], #32\n"            \
		      "cbz w16, 1f\n" ARCH_TO(target, real))

/* What Pitot on this processor lacks of proof, for `pitot doctor`; "": nothing. */
#define ARCH_UNPROVEN "not yet run on its hardware, only emulated"

#endif
