/*
 * name_tree.h: parses a demangled C++ name into a tree of names with template arguments, without
 * scopes and parameters.
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
	const char *scope;	/* innermost namespace, class or function around it, or NULL */
	const char *lambda;	/* the innermost lambda in it, or NULL */
	const char *suffix;	/* "*", "&" …; never NULL */
	struct name *args;	/* first template argument */
	struct name *next;	/* next argument of the same parent */
	bool is_number;		/* an integer, "true" or "false" */
};

/* Parses a text into a tree in the arena. NULL: no memory, or too many parts. Never fails else. */
struct name *name_tree_parse(const char *text, size_t length, struct arena *arena);

/*
 * Applies what name_rules.c knows about kernels of common libraries: removes wrappers and
 * meaningless arguments. Returns the new root of the tree n, never NULL.
 */
struct name *name_simplify(struct name *n, struct arena *arena);

/* Whether the label is meaningful only together with its scope, like "functor". */
bool name_is_vague(const struct name *n);

/* Appends a name of words joined by '_', without the words common to all names of its library. */
void word_shorten(const char *word, struct strbuf *out);

#endif
