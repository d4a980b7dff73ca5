/* name_rules.h: what Pitot knows about the names of kernels of the usual libraries. */
#ifndef PITOT_SYMBOL_NAME_RULES_H
#define PITOT_SYMBOL_NAME_RULES_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "symbol/name_tree.h"

/*
 * Removes wrappers and arguments that say nothing. Returns the new root of the tree n, never NULL.
 */
struct name *name_simplify(struct name *n, struct arena *arena);

/* Whether the label means something only together with its scope, as "functor" does. */
bool name_is_vague(const struct name *n);

/* Appends a name of words joined by '_' without the words that all names of its library have. */
void word_shorten(const char *word, struct strbuf *out);

#endif
