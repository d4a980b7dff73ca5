#include "elf/cfa_expression.h"

#include "base/leb128.h"

enum {
	OP_deref = 0x06,
	OP_const1u = 0x08,
	OP_const1s,
	OP_const2u,
	OP_const2s,
	OP_const4u,
	OP_const4s,
	OP_const8u,
	OP_const8s,
	OP_constu,
	OP_consts,
	OP_minus = 0x1c,
	OP_mul = 0x1e,
	OP_plus = 0x22,
	OP_plus_uconst,
	OP_lit0 = 0x30,
	OP_lit31 = 0x4f,
	OP_breg0 = 0x70,
	OP_breg31 = 0x8f,
	OP_nop = 0x96,
};

#define STACK_MAX 8
#define CFA_AS_BASE                                                                                \
	REG_COUNT_ /* the CFA, which is on the stack when a register's expression begins */

/* base + scale * index + offset, or, dereferenced, *(base + scale * index + offset) + extra. */
struct linear {
	uint8_t base, index; /* REG_NONE_: absent */
	bool dereferenced;
	int64_t scale, offset, extra;
};

struct calculator {
	struct linear stack[STACK_MAX];
	unsigned depth;
	bool failed;
};

static void push(struct calculator *k, struct linear v)
{
	if (k->depth == STACK_MAX)
		k->failed = true;
	else
		k->stack[k->depth++] = v;
}

static void push_constant(struct calculator *k, int64_t v)
{
	push(k, (struct linear){ .base = REG_NONE_, .index = REG_NONE_, .offset = v });
}

static void push_register(struct calculator *k, uint8_t reg, int64_t offset)
{
	if (reg >= REG_COUNT_)
		k->failed = true;
	push(k, (struct linear){ .base = reg, .index = REG_NONE_, .offset = offset });
}

static struct linear pop(struct calculator *k)
{
	if (k->depth == 0) {
		k->failed = true;
		return (struct linear){ .base = REG_NONE_, .index = REG_NONE_ };
	}
	return k->stack[--k->depth];
}

static bool is_constant(const struct linear *v)
{
	return v->base == REG_NONE_ && v->index == REG_NONE_ && !v->dereferenced;
}

static void add_constant(struct calculator *k, struct linear v, int64_t constant)
{
	if (__builtin_add_overflow(v.dereferenced ? v.extra : v.offset, constant,
				   v.dereferenced ? &v.extra : &v.offset))
		k->failed = true;
	push(k, v);
}

static void add(struct calculator *k)
{
	struct linear b = pop(k), a = pop(k);

	if (is_constant(&b)) {
		add_constant(k, a, b.offset);
	} else if (is_constant(&a)) {
		add_constant(k, b, a.offset);
	} else if (!a.dereferenced && !b.dereferenced && a.index == REG_NONE_ &&
		   (b.index == REG_NONE_ || b.base == REG_NONE_)) {
		a.index = b.base == REG_NONE_ ? b.index : b.base;
		a.scale = b.base == REG_NONE_ ? b.scale : 1;
		add_constant(k, a, b.offset);
	} else {
		k->failed = true;
	}
}

/* Multiplies a register by a constant, which must be the second operand. */
static void multiply(struct calculator *k)
{
	struct linear b = pop(k), a = pop(k);

	if (!is_constant(&b) || a.dereferenced || a.index != REG_NONE_ || a.base == REG_NONE_ ||
	    __builtin_mul_overflow(a.offset, b.offset, &a.offset)) {
		k->failed = true;
		return;
	}
	a.index = a.base;
	a.base = REG_NONE_;
	a.scale = b.offset;
	push(k, a);
}

static void dereference(struct calculator *k)
{
	struct linear v = pop(k);

	if (v.dereferenced || v.base == REG_NONE_)
		k->failed = true;
	v.dereferenced = true;
	push(k, v);
}

static void negate_top(struct calculator *k)
{
	struct linear v = pop(k);

	if (!is_constant(&v) || v.offset == INT64_MIN)
		k->failed = true;
	else
		push_constant(k, -v.offset);
}

static int64_t read_constant(struct cursor *c, uint8_t op)
{
	switch (op) {
	case OP_const1u:
		return cursor_u8(c);
	case OP_const1s:
		return (int8_t)cursor_u8(c);
	case OP_const2u:
		return cursor_u16(c);
	case OP_const2s:
		return (int16_t)cursor_u16(c);
	case OP_const4u:
		return cursor_u32(c);
	case OP_const4s:
		return (int32_t)cursor_u32(c);
	case OP_constu:
		return (int64_t)cursor_varint(c);
	case OP_consts:
		return cursor_sleb(c);
	default:
		return (int64_t)cursor_u64(c);
	}
}

static void step(struct calculator *k, struct cursor *c)
{
	uint8_t op = cursor_u8(c);

	switch (op) {
	case OP_breg0 ... OP_breg31:
		push_register(k, op - OP_breg0, cursor_sleb(c));
		break;
	case OP_lit0 ... OP_lit31:
		push_constant(k, op - OP_lit0);
		break;
	case OP_const1u ... OP_consts:
		push_constant(k, read_constant(c, op));
		break;
	case OP_deref:
		dereference(k);
		break;
	case OP_plus_uconst:
		push_constant(k, (int64_t)cursor_varint(c));
		add(k);
		break;
	case OP_plus:
		add(k);
		break;
	case OP_minus:
		negate_top(k);
		add(k);
		break;
	case OP_mul:
		multiply(k);
		break;
	case OP_nop:
		break;
	default:
		k->failed = true;
	}
}

static bool calculate(struct cursor c, bool with_cfa, struct linear *result)
{
	struct calculator k = { .depth = 0 };

	if (with_cfa)
		push(&k, (struct linear){ .base = CFA_AS_BASE, .index = REG_NONE_ });
	while (cursor_left(&c) && !c.failed && !k.failed)
		step(&k, &c);
	*result = pop(&k);
	return !c.failed && !k.failed;
}

static bool fits(int64_t v)
{
	return v == (int32_t)v;
}

static bool is_plt(const struct cursor *c, struct unwind_rule *rule)
{
	if (!arch_plt_expression(c->p, cursor_left(c), &rule->offset, &rule->extra))
		return false;
	rule->cfa = CFA_PLT;
	rule->base = REG_SP_;
	rule->index = 0;
	return true;
}

void cfa_expression_cfa(struct cursor code, struct unwind_rule *rule)
{
	struct linear v;

	if (is_plt(&code, rule))
		return;
	rule->cfa = CFA_UNKNOWN;
	if (!calculate(code, false, &v) || v.base >= REG_RA_ || !fits(v.offset) || !fits(v.extra))
		return;
	if (v.index != REG_NONE_ && (!v.dereferenced || v.scale != 8 || v.index >= REG_RA_))
		return;
	rule->cfa = v.dereferenced ? CFA_DEREF : CFA_REGISTER;
	rule->base = v.base;
	rule->index = v.dereferenced ? v.index : 0;
	rule->offset = (int32_t)v.offset;
	rule->extra = v.dereferenced ? (int32_t)v.extra : 0;
}

struct save_rule cfa_expression_save(struct cursor code, bool value)
{
	struct save_rule lost = { .kind = SAVE_LOST };
	struct linear v;
	bool in_memory;

	if (!calculate(code, true, &v) || v.index != REG_NONE_ || !fits(v.offset) || v.extra != 0 ||
	    (v.dereferenced && !value))
		return lost;
	in_memory = !value || v.dereferenced;
	if (v.base == CFA_AS_BASE)
		return (struct save_rule){ in_memory ? SAVE_CFA : SAVE_VALUE, 0, 0,
					   (int32_t)v.offset };
	if (v.base >= REG_RA_)
		return lost;
	return (struct save_rule){ in_memory ? SAVE_MEMORY : SAVE_COPY, v.base, 0,
				   (int32_t)v.offset };
}
