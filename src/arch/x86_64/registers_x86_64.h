/* registers_x86_64.h: x86-64 of registers.h. */
#ifndef PITOT_ARCH_X86_64_REGISTERS_X86_64_H
#define PITOT_ARCH_X86_64_REGISTERS_X86_64_H

enum {
	REG_RAX_,
	REG_RDX_,
	REG_RCX_,
	REG_RBX_,
	REG_RSI_,
	REG_RDI_,
	REG_RBP_,
	REG_RSP_,
	REG_R8_,
	REG_R12_ = 12,
	REG_R15_ = 15,
	REG_RA_ = 16,
	REG_COUNT_ = 17,
	REG_SP_ = REG_RSP_,
	REG_FP_ = REG_RBP_,
	REG_LINK_ = 0xff, /* calls push the return address */
};

#define REG_ROOM_ 32 /* a power of two that is not smaller than REG_COUNT_ */
#define SAVED_REGISTERS 6
#define SAVED_REGISTERS_ORDER REG_RBP_, REG_RBX_, REG_R12_, 13, 14, REG_R15_
/* After a jump through a PLT, which may change all others. */
#define KEPT_REGISTERS (REGISTER_BIT(REG_RBX_) | REGISTER_BIT(REG_RBP_) | 0xf000u)
#define CALL_PUSHES 8u /* bytes between the CFA and the stack pointer of a function's start */

/* --- signal frames --- */

#define SIGNAL_REGISTERS 40 /* of the ucontext to which rsp points in a signal frame */
#define SIGNAL_REGISTERS_ORDER                                                                     \
	8, 9, 10, 11, 12, 13, 14, 15, REG_RDI_, REG_RSI_, REG_RBP_, REG_RBX_, REG_RDX_, REG_RAX_,  \
		REG_RCX_, REG_RSP_, REG_RA_
/* The first 8 bytes of: mov $__NR_rt_sigreturn, %rax; syscall */
#define SIGNAL_RETURN_CODE 0x0f0000000fc0c748ull
/* Whether code with the signal's return is sought in known modules only. */
#define SIGNAL_RETURN_IN_MODULE 1

/* --- the operating system's kernel --- */

/* Words of struct pt_regs up to those that are read; the layout is an ABI. */
#define KERNEL_WORDS 21
/* The word of each register: r15, r14, r13, r12, rbp, rbx, r11, ..., rip, cs, flags, rsp, ss */
#define KERNEL_REGISTER_WORDS 10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16
#define KERNEL_IS_64_BIT(words) ((words)[17] == 0x33) /* cs */
/* The member of struct thread_struct where a thread's C library has its data. */
#define KERNEL_THREAD_MEMBER unsigned long fsbase
#define KERNEL_THREAD_BASE fsbase

#endif
