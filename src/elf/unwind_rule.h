/*
 * unwind_rule.h: a rule that finds the caller of a frame at one instruction of x86-64 code.
 *
 * The CFA ("canonical frame address") is the value of rsp in the caller after the call has
 * returned. All other addresses are relative to it; the return address is nearly always at CFA-8.
 * Registers have their DWARF numbers.
 */
#ifndef PITOT_ELF_UNWIND_RULE_H
#define PITOT_ELF_UNWIND_RULE_H

#include "base/compiler.h"

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
	REG_RA_ = 16, /* the return address; as an operand, the rip of the frame */
	REG_COUNT_ = 17,
	REG_NONE_ = 0xff,
};

enum cfa_kind {
	CFA_NONE, /* no FDE covers the address */
	CFA_UNKNOWN, /* the FDE is not supported */
	CFA_END, /* there is no caller: the return address is undefined */
	CFA_REGISTER, /* base + offset */
	CFA_DEREF, /* *(base + 8 * index + offset) + extra */
	CFA_PLT, /* base + offset + ((rip & 15) >= extra ? 8 : 0) */
	CFA_SIGNAL, /* signal frame: all registers are in the ucontext at rsp */
};

enum save_kind {
	SAVE_SAME, /* the register still has the caller's value */
	SAVE_CFA, /* saved at CFA + offset */
	SAVE_MEMORY, /* saved at base + offset */
	SAVE_VALUE, /* value is CFA + offset */
	SAVE_COPY, /* value is base + offset */
	SAVE_UNDEFINED, /* not recoverable; for the return address: there is no caller */
	SAVE_LOST, /* the FDE is not supported */
};

struct save_rule {
	uint8_t kind; /* enum save_kind */
	uint8_t base;
	uint16_t unused;
	int32_t offset;
};

/* Callee-saved registers, in the order of unwind_rule.saved. */
#define SAVED_REGISTERS 6
extern const uint8_t saved_registers[SAVED_REGISTERS]; /* rbp, rbx, r12, r13, r14, r15 */

/* Canonical: equivalent rules have equal bytes. */
struct unwind_rule {
	uint8_t cfa; /* enum cfa_kind */
	uint8_t base;
	uint8_t index; /* CFA_DEREF: a register, or REG_NONE_ */
	uint8_t interrupts; /* 1: the caller was interrupted, so its pc is exact */
	int32_t offset;
	int32_t extra;
	struct save_rule ra;
	struct save_rule saved[SAVED_REGISTERS];
};
_Static_assert(sizeof(struct save_rule) == 8, "no padding, so that rules can be compared");
_Static_assert(sizeof(struct unwind_rule) == 12 + 8 * (1 + SAVED_REGISTERS), "no padding");

#endif
