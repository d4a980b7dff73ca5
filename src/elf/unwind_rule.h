/*
 * unwind_rule.h: a rule that finds the caller of a frame at one instruction.
 *
 * The CFA ("canonical frame address") is the value of the stack pointer in the caller after the
 * call has returned. All other addresses are relative to it. Registers have their DWARF numbers
 * (arch/processor.h).
 */
#ifndef PITOT_ELF_UNWIND_RULE_H
#define PITOT_ELF_UNWIND_RULE_H

#include "arch/processor.h"
#include "base/compiler.h"

enum cfa_kind {
	CFA_NONE, /* no FDE covers the address */
	CFA_UNKNOWN, /* the FDE is not supported */
	CFA_END, /* there is no caller: the return address is undefined */
	CFA_REGISTER, /* base + offset */
	CFA_DEREF, /* *(base + 8 * index + offset) + extra */
	CFA_PLT, /* base + offset + ((pc & 15) >= extra ? 8 : 0) */
	CFA_SIGNAL, /* signal frame: all registers are at the stack pointer + SIGNAL_REGISTERS */
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

/* Canonical: equivalent rules have equal bytes. */
struct unwind_rule {
	uint8_t cfa; /* enum cfa_kind */
	uint8_t base;
	uint8_t index; /* CFA_DEREF: a register, or REG_NONE_ */
	uint8_t interrupts; /* 1: the caller was interrupted, so its pc is exact */
	int32_t offset;
	int32_t extra;
	struct save_rule ra;
	struct save_rule saved[SAVED_REGISTERS]; /* saved_registers */
};
_Static_assert(sizeof(struct save_rule) == 8, "no padding, so that rules can be compared");
_Static_assert(sizeof(struct unwind_rule) == 12 + 8 * (1 + SAVED_REGISTERS), "no padding");

#endif
