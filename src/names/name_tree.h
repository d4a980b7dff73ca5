/*
 * name_tree.h: a demangled C++ name as a tree of names with template arguments, without scopes and
 * parameters.
 *
 * "void a::f<4, b::g<float*>, h(int)::{lambda(long)#2}>(char)" is f with the arguments "4", g (with
 * the argument "float*") and h, whose lambda is "lambda#2(long)".
 */
#ifndef PITOT_NAMES_NAME_TREE_H
#define PITOT_NAMES_NAME_TREE_H

#include "base/arena.h"
#include "base/strbuf.h"

struct name {
	const char *label;	/* never NULL; may be "" */
	const char *scope;	/* last namespace, class or function around it; NULL if none */
	const char *lambda;	/* the innermost lambda in it; NULL if none */
	const char *suffix;	/* "*", "&" …; never NULL */
	struct name *args;	/* first template argument */
	struct name *next;	/* next argument of the same parent */
	bool is_number;		/* an integer or true or false */
};

/*
 * The tree of the text, in the arena. NULL: no memory, or a name of too many parts. Never fails
 * otherwise.
 */
struct name *name_tree_parse(const char *text, size_t length, struct arena *arena);

/*
 * name_rules.c, what is known about kernels of the usual libraries: removes wrappers and arguments
 * that say nothing. Returns the new root of the tree n, never NULL.
 */
struct name *name_simplify(struct name *n, struct arena *arena);

/* Whether the label means something only together with its scope, as "functor" does. */
bool name_is_vague(const struct name *n);

/* Appends a name of words joined by '_' without the words that all names of its library have. */
void word_shorten(const char *word, struct strbuf *out);

#endif
