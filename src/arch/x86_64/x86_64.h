/* x86_64.h: x86-64 of processor.h. */
#ifndef PITOT_ARCH_X86_64_X86_64_H
#define PITOT_ARCH_X86_64_X86_64_H

#include <elf.h>

#include "arch/elf_machine.h"

/* --- files --- */

#define ARCH_NAME "x86-64"
#define ARCH_ELF_MACHINE elf_machine_x86_64
#define ARCH_MACHINE_NUMBER EM_X86_64
#define ARCH_AUDIT AUDIT_ARCH_X86_64 /* of seccomp filters */
#define ARCH_LOADER "ld-linux-x86-64" /* the dynamic loader of glibc */
#define ARCH_LIBRARIES "/usr/lib/x86_64-linux-gnu/" /* Debian's */
#define ARCH_CUDA_TARGET "x86_64-linux"

/* --- registers --- */

#define RA_COLUMN 16u /* of a CIE */

/* Captures the registers of the function that uses the macro, at that place. */
#define CAPTURE_REGISTERS(at)                                                                      \
	__asm__ volatile("lea 0(%%rip), %%rax\n\t"                                                 \
			 "mov %%rax, 128(%0)\n\t"                                                  \
			 "mov %%rbx, 24(%0)\n\t"                                                   \
			 "mov %%rbp, 48(%0)\n\t"                                                   \
			 "mov %%rsp, 56(%0)\n\t"                                                   \
			 "mov %%r12, 96(%0)\n\t"                                                   \
			 "mov %%r13, 104(%0)\n\t"                                                  \
			 "mov %%r14, 112(%0)\n\t"                                                  \
			 "mov %%r15, 120(%0)"                                                      \
			 :                                                                         \
			 : "D"(at)                                                                 \
			 : "rax", "memory")
#define CAPTURED_REGISTERS UINT64_C(0x1f0c8) /* rip, r12-r15, rsp, rbp, rbx */

/* --- frames --- */

/* Returns the address in a word that is a return address, as a call stored it. */
static inline uint64_t arch_code_address(uint64_t word)
{
	return word;
}

/* Bits of a word that arch_code_address() preserves. */
static inline uint64_t arch_code_bits(void)
{
	return UINT64_MAX;
}

/*
 * Frames whose caller follows from stack pointer and frame pointer. Returns whether one is, by the
 * distances of the saved frame pointer and of the return address from the CFA, and the distance of
 * the slot that a step stores.
 */
static inline bool arch_step_slot(bool fp_is_saved, int32_t fp_offset, int32_t ra_offset,
				  int32_t *slot)
{
	(void)fp_is_saved;
	*slot = fp_offset;
	return ra_offset == -8;
}

/* Returns where the return address of such a frame is. */
static inline uint64_t arch_return_slot(uint64_t cfa, uint64_t slot, bool fp_is_saved)
{
	(void)slot;
	(void)fp_is_saved;
	return cfa - 8;
}

/* rsp and rip in the ucontext: rules of a signal frame that have these need no other */
#define SIGNAL_RULE_SP 160
#define SIGNAL_RULE_PC 168
/* An opcode of call frame information that is without operands and changes no rule. */
#define CFA_NO_RULE(op) false

/* ax bx cx dx si di bp sp ip, r8 to r15, by perf's numbers */
#define PERF_REGISTERS UINT64_C(0xff01ff)

/* --- memory --- */

/* In assembly, because sanitizers intercept loads from other functions' frames. */
static inline uint64_t arch_load(uint64_t address)
{
	uint64_t value;

	__asm__("mov %1, %0" : "=r"(value) : "m"(*(const uint64_t *)address));
	return value;
}

/* Returns the address of the thread control block, which is above the stack of a thread. */
static inline uint64_t arch_thread_pointer(void)
{
	uint64_t thread;

	__asm__("mov %%fs:0, %0" : "=r"(thread));
	return thread;
}

/* Whether the thread pointer is the address of glibc's struct pthread. */
#define ARCH_THREAD_IS_BASE true

/* A system call that leaves errno alone. */
static inline long arch_system_call(long number, long a, uint64_t b, long c, long d)
{
	register long fourth __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "+a"(number)
			 : "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return number;
}

/*
 * For values that one thread changes, and signal handlers that interrupt it: one instruction
 * without a lock, which costs a quarter of a locked one.
 */
#define ARCH_CHANGE(instruction, value, by)                                                        \
	__asm__ volatile(instruction " %1, %0" : "+m"(*(value)) : "er"(by) : "memory", "cc")
#define ARCH_ADD_HERE(value, by) ARCH_CHANGE("addq", value, by)
#define ARCH_OR_HERE(value, by) ARCH_CHANGE("orq", value, by)
#define ARCH_AND_HERE(value, by) ARCH_CHANGE("andq", value, by)

/* --- calls in stopped threads --- */

#define ARCH_VECTOR_REGISTERS NT_X86_XSTATE /* of ptrace, with floating point */
#define ARCH_CAN_CALL true
#define ARCH_CALL_CODE                                                                             \
	{                                                                                          \
		0xff, 0xd0, 0xcc                                                                   \
	} /* call *%rax; int3 */
#define ARCH_CALL_END 3u
#define ARCH_SYSTEM_CALL                                                                           \
	{                                                                                          \
		0x0f, 0x05                                                                         \
	}

/* --- clock --- */

/* Returns the time stamp counter. */
static inline uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#define ARCH_CLOCK_SOURCE "tsc\n" /* the kernel's, where its clock is made from the counter */

/* --- code --- */

#define WIDE_VECTORS __attribute__((target("avx2")))

/*
 * Functions that pass calls with arguments for the loader itself to others. A jump preserves the
 * return address, by which the loader identifies its caller. RTLD_DEFAULT is 0 and RTLD_NEXT is -1.
 */
#define ARCH_FUNCTION(name, body)                                                                  \
	".globl " #name "\n.hidden " #name "\n.type " #name ", @function\n"                        \
	#name ":\n endbr64\n" body ".size " #name ", . - " #name "\n"
#define ARCH_PASS_HANDLE(name, target, real)                                                       \
	ARCH_FUNCTION(name,                                                                        \
		      "leaq 1(%rdi), %rax\n cmpq $1, %rax\n ja " #target "\n"                      \
		      "jmp *" #real "(%rip)\n")
#define ARCH_PASS_IF(name, condition, target, real)                                                \
	ARCH_FUNCTION(name,                                                                        \
		      "pushq %rdi\n pushq %rsi\n subq $8, %rsp\n call " #condition "\n"            \
		      "addq $8, %rsp\n popq %rsi\n popq %rdi\n testl %eax, %eax\n"                 \
		      "jne " #target "\n jmp *" #real "(%rip)\n")

/* What Pitot on this processor lacks of proof, for `pitot doctor`; "": nothing. */
#define ARCH_UNPROVEN ""

#endif
