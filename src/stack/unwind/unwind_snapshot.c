#include "stack/unwind/unwind_snapshot.h"

#include <string.h>

#include "stack/unwind/unwind_self_state.h"

#define SWITCHES_MAX 16u /* most switches of stacks in a walk */
#define CALL_BYTES_MAX 7u /* of an indirect call with index and displacement */

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

/* A signal frame: rsp points to a struct ucontext, whose registers begin at byte 40. */
static int leave_signal(struct walk *k)
{
	static const uint8_t order[REG_COUNT_] = { 8,        9,        10,       11,       12,
						   13,       14,       15,       REG_RDI_, REG_RSI_,
						   REG_RBP_, REG_RBX_, REG_RDX_, REG_RAX_, REG_RCX_,
						   REG_RSP_, REG_RA_ };
	struct stack_registers next = { .known = (1u << REG_COUNT_) - 1 };
	uint64_t at = k->r.at[REG_RSP_] + 40;

	if (!known(k, REG_RSP_) || ++k->switches > SWITCHES_MAX)
		return stack_end_truncated;
	for (unsigned i = 0; i < REG_COUNT_; i++)
		if (!load(k, at + 8 * i, &next.at[order[i]]))
			return stack_end_truncated;
	enter_frame(k, &next, true);
	return NEXT;
}

static int leave_frame(struct walk *k, const struct unwind_rule *rule)
{
	struct stack_registers next = { .known = 1u << REG_RSP_ | 1u << REG_RA_ };
	uint64_t cfa;

	if (!compute_cfa(k, rule, &cfa) || (cfa & 7) ||
	    !restore_register(k, &rule->ra, REG_RA_, cfa, &next.at[REG_RA_]))
		return stack_end_truncated;
	/* Stacks grow down, so a caller at a lower address is on another stack. */
	if (cfa <= k->r.at[REG_RSP_] && ++k->switches > SWITCHES_MAX)
		return stack_end_truncated;
	if (walk_is_not_code(next.at[REG_RA_]))
		return next.at[REG_RA_] ? stack_end_truncated : stack_end_complete;
	next.at[REG_RSP_] = cfa;
	for (unsigned i = 0; i < SAVED_REGISTERS; i++) {
		unsigned reg = saved_registers[i];

		if (restore_register(k, &rule->saved[i], reg, cfa, &next.at[reg]))
			next.known |= 1u << reg;
	}
	enter_frame(k, &next, rule->interrupts);
	return NEXT;
}

/* --- code without rules --- */

static unsigned code_before(struct walk *k, uint64_t end, uint8_t *bytes, unsigned size)
{
	return k->source->code(k->source->context, end, bytes, size);
}

/* mov $__NR_rt_sigreturn, %rax; syscall: signal handlers return to it, with or without rules. */
static bool is_sigreturn(struct walk *k, uint64_t pc)
{
	static const uint8_t code[9] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t bytes[8];

	return code_before(k, pc + 8, bytes, 8) == 8 && memcmp(bytes, code, 8) == 0;
}

/* Whether a call instruction may end at pc. */
static bool follows_call(struct walk *k, uint64_t pc)
{
	uint8_t bytes[CALL_BYTES_MAX + 1];
	unsigned count = code_before(k, pc, bytes, sizeof(bytes));

	if (count >= 5 && bytes[count - 5] == 0xe8)
		return true;
	for (unsigned length = 2; length <= MIN(count, CALL_BYTES_MAX); length++)
		if (bytes[count - length] == 0xff && (bytes[count - length + 1] & 0x38) == 0x10)
			return true;
	return false;
}

/* Whether pc is in nop; call; nop, to which a goroutine's first function returns. */
static bool is_go_exit(struct walk *k, uint64_t pc)
{
	uint8_t bytes[7];

	return code_before(k, pc + 6, bytes, 7) == 7 && bytes[0] == 0x90 && bytes[1] == 0xe8 &&
	       bytes[6] == 0x90;
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

/*
 * Returns the words between rsp and the return address if pc is an instruction of a PLT, else -1.
 * Some linkers (lld) write no rules for PLTs. Entries are jmp *slot, then push number, jmp first,
 * of which each may be missing or have a prefix; the first entry is push link, jmp *resolver.
 */
static int plt_depth(struct walk *k, uint64_t pc)
{
	uint8_t bytes[14];
	const uint8_t *at = bytes + 6, *before = bytes;

	if (code_before(k, pc + 2, bytes, 8) != 8 || code_before(k, pc + 8, bytes + 6, 8) != 8)
		return -1;
	if (at[0] == 0xff && at[1] == 0x35)
		return 1;
	if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
		at += 4;
	if (at[0] == 0xf2) /* bnd */
		at++;
	if (at[0] == 0xff && at[1] == 0x25)
		return before[0] == 0xff && before[1] == 0x35 ? 2 : 0;
	if (at[0] == 0x68)
		return 0;
	return bytes[6] == 0xe9 && before[1] == 0x68 ? 1 : -1;
}

static bool leave_plt(struct walk *k)
{
	static const uint32_t kept = 1u << REG_RBX_ | 1u << REG_RBP_ | 0xfu << 12;
	struct stack_registers next = k->r;
	int depth;

	if (!(k->frame & FRAME_INTERRUPTED) || (depth = plt_depth(k, k->r.at[REG_RA_])) < 0 ||
	    !load(k, k->r.at[REG_RSP_] + 8 * (uint64_t)depth, &next.at[REG_RA_]) ||
	    !is_return_address(k, next.at[REG_RA_], false))
		return false;
	next.at[REG_RSP_] += 8 * (uint64_t)(depth + 1);
	next.known &= kept | 1u << REG_RSP_ | 1u << REG_RA_;
	enter_frame(k, &next, false);
	return true;
}

/*
 * Steps with rbp through code without rules: generated at run time, or by compilers that write none
 * (Go). Accepted only if it leads up the stack to the return address of a call.
 */
static int guess_frame(struct walk *k)
{
	struct stack_registers next = { .known = 1u << REG_RSP_ | 1u << REG_RA_ | 1u << REG_RBP_ };
	uint64_t fp = k->r.at[REG_RBP_], pc;

	k->guessed = true;
	if (!known(k, REG_RBP_) || fp < k->r.at[REG_RSP_] || fp - k->r.at[REG_RSP_] > 1u << 20 ||
	    !load(k, fp, &next.at[REG_RBP_]) || !load(k, fp + 8, &pc))
		return stack_end_truncated;
	if (next.at[REG_RBP_] == 0 && is_go_exit(k, pc))
		return stack_end_complete;
	if (!is_return_address(k, pc, true))
		return stack_end_truncated;
	next.at[REG_RSP_] = fp + 16;
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
		if (known_module && is_sigreturn(k, k->r.at[REG_RA_]))
			return leave_signal(k);
		return leave_plt(k) ? NEXT : guess_frame(k);
	case CFA_UNKNOWN:
		return stack_end_truncated;
	default:
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
		    !(k.frame & FRAME_INTERRUPTED) && !follows_call(&k, k.frame))
			return stack_end_truncated;
		if (!source->store(source->context, k.frame))
			return stack_end_depth;
		rc = rule ? step(&k, rule, known_module) : stack_end_partial;
	} while (rc == NEXT);
	return rc == stack_end_complete && k.guessed ? stack_end_guessed : (enum stack_end)rc;
}
