/*
 * cfa_expression.h: turns DWARF expressions in call frame information into unwind rules.
 *
 * Only linear forms occur in practice: register + constant, its dereference plus a constant, both
 * with a scaled index, and the one expression that linkers emit for PLTs. They are evaluated
 * symbolically; any other expression is "unknown".
 */
#ifndef PITOT_ELF_CFA_EXPRESSION_H
#define PITOT_ELF_CFA_EXPRESSION_H

#include <stdbool.h>

#include "base/bytes.h"
#include "elf/unwind_rule.h"

/* Sets the CFA part of *rule: cfa, base, index, offset, extra. */
void cfa_expression_cfa(struct cursor code, struct unwind_rule *rule);

/* Returns where a register was saved, or (value) what its value was. */
struct save_rule cfa_expression_save(struct cursor code, bool value);

#endif
