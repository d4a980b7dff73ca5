/* walk_bytes.h: machine code that the walker's tests make, and how they step through code. */
#ifndef PITOT_TEST_WALK_BYTES_H
#define PITOT_TEST_WALK_BYTES_H

#include <signal.h>
#include <sys/time.h>

#include "stack/unwind/unwind_self.h"

void by_signature(void (*call)(void));

/* void (void (*call)(void)): stp x29, x30; mov x29, sp; blr x0; ldp x29, x30; ret */
static const uint32_t made_code[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0 };
#define MADE_CODE_RETURN 12 /* offset of the instruction after the call */

/* Entries without and with "bti c": adrp x16; ldr x17, [x16, #8]; add x16, x16, #8; br x17 */
static const uint32_t plt_code[] = { 0x90000010, 0xf9400611, 0x91002210, 0xd61f0220, 0xd503245f,
				     0x90000010, 0xf9400611, 0x91002210, 0xd61f0220 };
static const struct plt_place {
	uint8_t at, pushed;
} plt_places[] = { { 0, 0 }, { 4, 0 }, { 8, 0 }, { 12, 0 }, { 16, 0 }, { 20, 0 }, { 32, 0 } };

/* The register that has the return address in a PLT. */
static inline void set_link(struct stack_registers *r, uint64_t caller)
{
	r->at[REG_LINK_] = caller;
	r->known |= REGISTER_BIT(REG_LINK_);
}

/* No user program can have a trap after each instruction: a timer interrupts the code instead. */
#define TRAPS_EACH_INSTRUCTION 0
#define TRAP SIGALRM
static inline void trap_on(void)
{
	static const struct itimerval often = { { 0, 500 }, { 0, 500 } };

	setitimer(ITIMER_REAL, &often, NULL);
}
static inline void trap_off(void)
{
	static const struct itimerval never;

	setitimer(ITIMER_REAL, &never, NULL);
}

#endif
