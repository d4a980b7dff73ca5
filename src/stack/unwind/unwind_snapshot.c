#include "stack/unwind/unwind_snapshot.h"

#include <string.h>

#include "stack/unwind/unwind_self_state.h"

#define SWITCHES_MAX 16u /* most switches of stacks in a walk */

struct walk {
	const struct frame_source *source;
	struct stack_registers r;
	uint64_t frame;
	bool guessed;
	unsigned switches;
};

enum { NEXT = -1 }; /* in addition to enum stack_end: continue */

static bool load(struct walk *k, uint64_t address, uint64_t *value)
{
	return k->source->load(k->source->context, address, value);
}

/* Loads a return address. */
static bool load_return(struct walk *k, uint64_t address, uint64_t *pc)
{
	if (!load(k, address, pc))
		return false;
	*pc = arch_code_address(*pc);
	return true;
}

static const struct unwind_rule *rule_of(struct walk *k, uint64_t frame, bool *known_module)
{
	return k->source->rule(k->source->context, frame, known_module);
}

static bool known(const struct walk *k, unsigned reg)
{
	return reg < REG_COUNT_ && (k->r.known >> reg & 1);
}

/* --- CFA --- */

static bool compute_cfa(struct walk *k, const struct unwind_rule *rule, uint64_t *cfa)
{
	uint64_t base = k->r.at[rule->base];

	if (!known(k, rule->base))
		return false;
	base += (uint64_t)(int64_t)rule->offset;
	switch (rule->cfa) {
	case CFA_REGISTER:
		*cfa = base;
		return true;
	case CFA_PLT:
		*cfa = base + ((k->r.at[REG_RA_] & 15) >= (uint64_t)rule->extra ? 8 : 0);
		return true;
	case CFA_DEREF:
		if (rule->index != REG_NONE_) {
			if (!known(k, rule->index))
				return false;
			base += 8 * k->r.at[rule->index];
		}
		if (!load(k, base, cfa))
			return false;
		*cfa += (uint64_t)(int64_t)rule->extra;
		return true;
	default:
		return false;
	}
}

/* --- registers of the caller --- */

static bool restore_register(struct walk *k, const struct save_rule *save, unsigned reg,
			     uint64_t cfa, uint64_t *value)
{
	uint64_t offset = (uint64_t)(int64_t)save->offset;

	switch (save->kind) {
	case SAVE_SAME:
		*value = k->r.at[reg];
		return known(k, reg);
	case SAVE_CFA:
		return load(k, cfa + offset, value);
	case SAVE_MEMORY:
		return known(k, save->base) && load(k, k->r.at[save->base] + offset, value);
	case SAVE_VALUE:
		*value = cfa + offset;
		return true;
	case SAVE_COPY:
		*value = k->r.at[save->base] + offset;
		return known(k, save->base);
	default:
		return false;
	}
}

static void enter_frame(struct walk *k, const struct stack_registers *r, bool exact)
{
	k->r = *r;
	k->frame = frame_address(r->at[REG_RA_]) | (exact ? FRAME_INTERRUPTED : 0);
}

static int leave_signal(struct walk *k)
{
	struct stack_registers next = { .known = REGISTERS_ALL };
	uint64_t at = k->r.at[REG_SP_] + SIGNAL_REGISTERS;

	if (!known(k, REG_SP_) || ++k->switches > SWITCHES_MAX)
		return stack_end_truncated;
	for (unsigned i = 0; i < REG_COUNT_; i++)
		if (!load(k, at + 8 * i, &next.at[signal_registers[i]]))
			return stack_end_truncated;
	enter_frame(k, &next, true);
	return NEXT;
}

static int leave_frame(struct walk *k, const struct unwind_rule *rule)
{
	struct stack_registers next = { .known = REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_RA_) };
	uint64_t cfa;

	if (!compute_cfa(k, rule, &cfa) || (cfa & 7) ||
	    !restore_register(k, &rule->ra, REG_RA_, cfa, &next.at[REG_RA_]))
		return stack_end_truncated;
	next.at[REG_RA_] = arch_code_address(next.at[REG_RA_]);
	/* Stacks grow down, so a caller at a lower address is on another stack. */
	if (cfa < k->r.at[REG_SP_] + CALL_PUSHES && ++k->switches > SWITCHES_MAX)
		return stack_end_truncated;
	if (walk_is_not_code(next.at[REG_RA_]))
		return next.at[REG_RA_] ? stack_end_truncated : stack_end_complete;
	next.at[REG_SP_] = cfa;
	for (unsigned i = 0; i < SAVED_REGISTERS; i++) {
		unsigned reg = saved_registers[i];

		if (restore_register(k, &rule->saved[i], reg, cfa, &next.at[reg]))
			next.known |= REGISTER_BIT(reg);
	}
	enter_frame(k, &next, rule->interrupts);
	return NEXT;
}

/* --- code without rules --- */

static unsigned code_before(struct walk *k, uint64_t end, uint8_t *bytes, unsigned size)
{
	return k->source->code(k->source->context, end, bytes, size);
}

/* Whether signal handlers return to pc, with or without rules. */
static bool is_signal_return(struct walk *k, uint64_t pc)
{
	uint64_t code;

	return code_before(k, pc + 8, (uint8_t *)&code, 8) == 8 && code == SIGNAL_RETURN_CODE;
}

/* Whether a call instruction may end at pc. */
static bool follows_call(struct walk *k, uint64_t pc)
{
	uint8_t bytes[CALL_BYTES_MAX + 1];

	return arch_ends_call(bytes, code_before(k, pc, bytes, sizeof(bytes)));
}

/* Whether pc is where a goroutine's first function returns to. */
static bool is_go_exit(struct walk *k, uint64_t pc)
{
	uint8_t bytes[7];

	return code_before(k, pc + 6, bytes, 7) == 7 && arch_is_go_exit(bytes);
}

/*
 * Whether pc is a return address: after a call, in a module with a rule for it, or, if `bare`, in
 * code without rules.
 */
static bool is_return_address(struct walk *k, uint64_t pc, bool bare)
{
	bool known_module;
	const struct unwind_rule *rule = rule_of(k, pc, &known_module);

	if (!rule || (rule->cfa <= CFA_UNKNOWN && !(bare && rule->cfa == CFA_NONE)))
		return false;
	return (known_module || bare) && follows_call(k, pc);
}

/* Leaves an instruction of a PLT. Some linkers (lld) write no rules for PLTs. */
static bool leave_plt(struct walk *k)
{
	struct stack_registers next = k->r;
	uint64_t pc = k->r.at[REG_RA_];
	uint8_t bytes[14];
	int depth;

	if (!(k->frame & FRAME_INTERRUPTED) || code_before(k, pc + 2, bytes, 8) != 8 ||
	    code_before(k, pc + 8, bytes + 6, 8) != 8)
		return false;
	depth = arch_plt_depth(bytes);
	/* The remainder is for compilers: without a link register none is known. */
	if (depth == PLT_LINK && known(k, REG_LINK_))
		next.at[REG_RA_] = arch_code_address(k->r.at[REG_LINK_ % REG_COUNT_]);
	else if (depth < 0 || depth == PLT_LINK ||
		 !load_return(k, k->r.at[REG_SP_] + 8 * (uint64_t)depth, &next.at[REG_RA_]))
		return false;
	else
		next.at[REG_SP_] += 8 * (uint64_t)(depth + 1);
	if (!is_return_address(k, next.at[REG_RA_], false))
		return false;
	next.known &= KEPT_REGISTERS | REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_RA_);
	enter_frame(k, &next, false);
	return true;
}

/*
 * Leaves code of a module without rules (the vdso of 64-bit Arm) that was interrupted: most of it
 * calls nothing, and has no frame. Then the link register has its return address, by the rules of
 * whose code the next return address is found. Accepted only if both are.
 */
static bool leave_leaf(struct walk *k, bool known_module)
{
	struct stack_registers next = k->r;
	struct walk caller = *k;
	const struct unwind_rule *rule;

	if (!known_module || !(k->frame & FRAME_INTERRUPTED) || !known(k, REG_LINK_))
		return false;
	next.at[REG_RA_] = arch_code_address(k->r.at[REG_LINK_ % REG_COUNT_]);
	next.known &= KEPT_REGISTERS | REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_RA_);
	if (!is_return_address(k, next.at[REG_RA_], false))
		return false;
	enter_frame(&caller, &next, false);
	rule = rule_of(&caller, caller.frame, &known_module);
	if (!rule || leave_frame(&caller, rule) != NEXT ||
	    !is_return_address(&caller, caller.r.at[REG_RA_], true))
		return false;
	enter_frame(k, &next, false);
	k->guessed = true;
	return true;
}

/*
 * Steps with the frame pointer through code without rules: generated at run time, or by compilers
 * that write none (Go). Accepted only if it leads up the stack to the return address of a call. The
 * pair of saved frame pointer and return address is at the end of a frame where calls push, so that
 * the caller's stack pointer follows; else that is only known to be above the pair.
 */
static int guess_frame(struct walk *k)
{
	struct stack_registers next = { .known = REGISTER_BIT(REG_RA_) | REGISTER_BIT(REG_FP_) |
						 (CALL_PUSHES ? REGISTER_BIT(REG_SP_) : 0) };
	uint64_t fp = k->r.at[REG_FP_], pc;

	k->guessed = true;
	if (!known(k, REG_FP_) || fp < k->r.at[REG_SP_] || fp - k->r.at[REG_SP_] > 1u << 20 ||
	    !load(k, fp, &next.at[REG_FP_]) || !load_return(k, fp + 8, &pc))
		return stack_end_truncated;
	if (next.at[REG_FP_] == 0 && is_go_exit(k, pc))
		return stack_end_complete;
	if (!is_return_address(k, pc, true))
		return stack_end_truncated;
	next.at[REG_SP_] = fp + 16;
	next.at[REG_RA_] = pc;
	enter_frame(k, &next, false);
	return NEXT;
}

static int step(struct walk *k, const struct unwind_rule *rule, bool known_module)
{
	switch (rule->cfa) {
	case CFA_END:
		return stack_end_complete;
	case CFA_SIGNAL:
		return leave_signal(k);
	case CFA_NONE:
		if ((known_module || !SIGNAL_RETURN_IN_MODULE) &&
		    is_signal_return(k, k->r.at[REG_RA_]))
			return leave_signal(k);
		return leave_plt(k) || leave_leaf(k, known_module) ? NEXT : guess_frame(k);
	case CFA_UNKNOWN:
		return stack_end_truncated;
	default:
		if (rule->base == REG_SP_ && !known(k, REG_SP_))
			return guess_frame(k);
		return leave_frame(k, rule);
	}
}

enum stack_end unwind_snapshot(const struct frame_source *source,
			       const struct stack_registers *start)
{
	struct walk k = { .source = source };
	int rc;

	enter_frame(&k, start, start->interrupted);
	do {
		bool known_module;
		const struct unwind_rule *rule = rule_of(&k, k.frame, &known_module);

		/*
		 * A return address outside of all modules: generated code, or not an address at
		 * all.
		 */
		if (!known_module && k.frame != start->at[REG_RA_] &&
		    !(k.frame & FRAME_INTERRUPTED) && !follows_call(&k, k.frame) &&
		    (SIGNAL_RETURN_IN_MODULE || !is_signal_return(&k, k.frame)))
			return stack_end_truncated;
		if (!source->store(source->context, k.frame))
			return stack_end_depth;
		rc = rule ? step(&k, rule, known_module) : stack_end_partial;
	} while (rc == NEXT);
	return rc == stack_end_complete && k.guessed ? stack_end_guessed : (enum stack_end)rc;
}
