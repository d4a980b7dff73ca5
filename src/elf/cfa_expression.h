/*
 * cfa_expression.h: DWARF expressions in call frame information, as rules.
 *
 * Only linear forms occur in practice: register + constant, its dereference plus a constant, the
 * same with a scaled index, and the one expression that linkers make for PLTs. They are computed
 * symbolically; anything else is "unknown".
 */
#ifndef PITOT_ELF_CFA_EXPRESSION_H
#define PITOT_ELF_CFA_EXPRESSION_H

#include <stdbool.h>

#include "base/bytes.h"
#include "elf/unwind_rule.h"

/* Sets the CFA part of *rule: what kind it is, base, index, offset, extra. */
void cfa_expression_cfa(struct cursor code, struct unwind_rule *rule);

/* Where a register was saved, or (value) what it was. */
struct save_rule cfa_expression_save(struct cursor code, bool value);

#endif
