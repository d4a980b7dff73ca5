/*
 * processor.h: everything that differs by processor. It is in the headers of the processor's
 * folder, which define the same names; nothing outside of src/arch asks for which processor it is
 * compiled.
 *
 * An unwind rule (elf/unwind_rule.h) numbers registers as DWARF does, except that REG_RA_ is the
 * return address; as an operand, the program counter of the frame.
 */
#ifndef PITOT_ARCH_PROCESSOR_H
#define PITOT_ARCH_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "arch/registers.h"

#if defined(__x86_64__)
#include "arch/x86_64/x86_64.h"
#elif defined(__aarch64__)
#include "arch/aarch64/aarch64.h"
#else
#error "Pitot records on x86-64 and 64-bit Arm"
#endif

/* Callee-saved registers, in the order of unwind_rule.saved: first the frame pointer. */
extern const uint8_t saved_registers[SAVED_REGISTERS];

/* The registers of the kernel's signal frame, in the order in which it has them. */
extern const uint8_t signal_registers[REG_COUNT_];

/* Numbers of registers in the order of a perf sample's, whose mask is PERF_REGISTERS. */
extern const uint8_t perf_registers[REG_COUNT_];

/* Reads the registers of the code that a signal handler interrupted. */
void arch_context_registers(const ucontext_t *context, uint64_t *registers);

/*
 * Reads the registers of a thread that is stopped by ptrace (NT_PRSTATUS). *thread_base: where its
 * C library has the thread's data; 0: unknown.
 */
struct user_regs_struct;
void arch_stopped_registers(const struct user_regs_struct *stopped, uint64_t *registers,
			    uint64_t *thread_base);

/*
 * Calls in a thread that ptrace has stopped while it slept in a system call. x86-64 only: where
 * ARCH_CAN_CALL is false, none of these functions may be called.
 *
 * arch_stopped_call: the number of the system call, -1 for none, and its *result so far, one of the
 * kernel's restart codes. arch_set_result: replaces that.
 * arch_begin_call: the thread shall call a function, with two arguments, from ARCH_CALL_CODE at
 * `code`, at whose end (ARCH_CALL_END bytes later) it gets a SIGTRAP. arch_begin_system_call: the
 * thread shall execute one, with the instruction that it has stopped behind.
 */
#define ARCH_SYSTEM_CALL_ARGUMENTS 6
long arch_stopped_call(const struct user_regs_struct *stopped, long *result);
void arch_set_result(struct user_regs_struct *stopped, long result);
void arch_begin_call(struct user_regs_struct *stopped, uint64_t code, uint64_t stack,
		     uint64_t function, uint64_t first, uint64_t second);
void arch_begin_system_call(struct user_regs_struct *stopped, long number,
			    const uint64_t *arguments);
uint64_t arch_call_result(const struct user_regs_struct *stopped);

#define CALL_BYTES_MAX 7u /* of x86-64's indirect call with index and displacement */

/* Whether a call instruction may be the last of `count` bytes of code. */
bool arch_ends_call(const uint8_t *code, unsigned count);

/*
 * Whether a goroutine's first function returns to an address: 7 bytes of code, the first of which
 * is before the address.
 */
bool arch_is_go_exit(const uint8_t *code);

/*
 * Returns where the caller's address is while an instruction of a PLT runs: the words between the
 * stack pointer and it, or PLT_LINK; or -1 if the code, 6 bytes before an address and 8 from it on,
 * is none.
 */
#define PLT_LINK 1000 /* in register REG_LINK_ */
int arch_plt_depth(const uint8_t *code);

/*
 * Whether the code is the expression by which x86-64's linkers give the CFA of a PLT: rsp + *offset
 * + (rip % 16 >= *limit ? 8 : 0).
 */
bool arch_plt_expression(const uint8_t *code, size_t size, int32_t *offset, int32_t *limit);

/*
 * Returns the length of a direct jump at a place in code, of which at least 6 bytes are readable,
 * and its destination; 0 if it is none.
 */
unsigned arch_jump(const uint8_t *code, uintptr_t *to);

/*
 * Returns the function that adds bytes to an inverted CRC-32C, or NULL if the processor has none.
 */
typedef uint32_t crc32c_update(uint32_t crc, const uint8_t *p, size_t length);
crc32c_update *arch_crc32c(void);

/* Whether functions that are marked WIDE_VECTORS may be called. */
bool arch_has_wide_vectors(void);

#endif
