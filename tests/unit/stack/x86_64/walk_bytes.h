/* walk_bytes.h: machine code that the walker's tests make, and how they step through code. */
#ifndef PITOT_TEST_WALK_BYTES_H
#define PITOT_TEST_WALK_BYTES_H

#include "stack/unwind/unwind_self.h"

static inline void by_signature(void (*call)(void))
{
	call();
}

/* void (void (*call)(void)): push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const uint8_t made_code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
#define MADE_CODE_RETURN 6 /* offset of the instruction after the call */

static const uint8_t
	plt_code[] = {
		0xff, 0x35, 2,    0,    0,    0,    0xff, 0x25, 4, 0, 0, 0,    0x0f, 0x1f,
		0x40, 0, /* the first */
		0xff, 0x25, 0,    1,    0,    0,    0x68, 7,    0, 0, 0, 0xe9, 0,    0,
		0,    0,    0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0, 1, 0, 0,    0x90, 0x90,
	};
static const struct plt_place {
	uint8_t at, pushed; /* words */
} plt_places[] = { { 0, 1 }, { 6, 2 }, { 16, 0 }, { 22, 0 }, { 27, 1 }, { 32, 0 }, { 36, 0 } };

/* The register that has the return address in a PLT. */
static inline void set_link(struct stack_registers *r, uint64_t caller)
{
	(void)r;
	(void)caller;
}

#define TRAPS_EACH_INSTRUCTION 1
#define TRAP SIGTRAP
void trap_on(void);
void trap_off(void);

#endif
