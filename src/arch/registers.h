/*
 * registers.h: numbers and layouts of a processor's registers, without any other header: for C and
 * for BPF programs. Whoever compiles those defines the macro by which C knows the processor.
 */
#ifndef PITOT_ARCH_REGISTERS_H
#define PITOT_ARCH_REGISTERS_H

#if defined(__x86_64__)
#include "arch/x86_64/registers_x86_64.h"
#elif defined(__aarch64__)
#include "arch/aarch64/registers_aarch64.h"
#else
#error "Pitot records on x86-64 and 64-bit Arm"
#endif

#define REG_NONE_ 0xff
#define REGISTER_BIT(reg) (1ull << (reg))
#define REGISTERS_ALL (REGISTER_BIT(REG_COUNT_) - 1)

#endif
