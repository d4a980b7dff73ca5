/* registers_aarch64.h: 64-bit Arm of registers.h. */
#ifndef PITOT_ARCH_AARCH64_REGISTERS_AARCH64_H
#define PITOT_ARCH_AARCH64_REGISTERS_AARCH64_H

enum {
	REG_FP_ = 29,
	REG_LINK_ = 30,
	REG_SP_ = 31,
	REG_RA_ = 32,
	REG_COUNT_ = 33,
};

#define REG_ROOM_ 64 /* a power of two that is not smaller than REG_COUNT_ */
#define SAVED_REGISTERS 11
#define SAVED_REGISTERS_ORDER REG_FP_, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
/* After a jump through a PLT, which may change all others: x19 to x29. */
#define KEPT_REGISTERS 0x3ff80000ull
#define CALL_PUSHES 0u /* bytes between the CFA and the stack pointer of a function's start */

#define REGISTERS_IN_ORDER                                                                         \
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,  \
		25, 26, 27, 28, REG_FP_, REG_LINK_, REG_SP_, REG_RA_

/* --- signal frames --- */

/* siginfo has 128 bytes, and 184 bytes of ucontext come before the registers */
#define SIGNAL_REGISTERS 312
#define SIGNAL_REGISTERS_ORDER REGISTERS_IN_ORDER
#define SIGNAL_RETURN_CODE 0xd4000001d2801168ull /* mov x8, #__NR_rt_sigreturn; svc #0 */
/* Whether code with the signal's return is sought in known modules only. */
#define SIGNAL_RETURN_IN_MODULE 0

/* --- the operating system's kernel --- */

/* Words of struct pt_regs up to those that are read, those of struct user_pt_regs: an ABI. */
#define KERNEL_WORDS 34
#define KERNEL_REGISTER_WORDS REGISTERS_IN_ORDER
#define KERNEL_IS_64_BIT(words) (!((words)[33] & 0x10)) /* pstate */
/*
 * The member of struct thread_struct with the thread pointer, as it was when the thread last left
 * its processor; C libraries change it at the start of a program only.
 */
#define KERNEL_THREAD_MEMBER                                                                       \
	struct {                                                                                   \
		unsigned long tp_value;                                                            \
	} uw
#define KERNEL_THREAD_BASE uw.tp_value

#endif
