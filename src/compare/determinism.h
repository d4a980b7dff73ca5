/*
 * determinism.h: whether two runs launched the same (launch_order.h), level by level. Times are not
 * part of it.
 */
#ifndef PITOT_COMPARE_DETERMINISM_H
#define PITOT_COMPARE_DETERMINISM_H

#include "compare/launch_order.h"

/* X(name, text): each level implies those before it. Names are those in JSON. */
#define DETERMINISM_LEVELS(X)                                                                      \
	X(kernels, "the same kernels, with the same shapes, the same number of times")             \
	X(threads, "each thread launches the same kernels in the same order")                      \
	X(streams, "each stream has the same in the same order")                                   \
	X(dependencies, "streams wait for the same work of other streams")                         \
	X(allocations, "the same allocations in the same order")

#define LEVEL_NAME(name, text) LEVEL_##name,
enum determinism_level { DETERMINISM_LEVELS(LEVEL_NAME) LEVEL_COUNT };

enum level_state { LEVEL_SAME, LEVEL_DIFFERENT, LEVEL_UNKNOWN };

struct order_difference {
	enum determinism_level level; /* threads, streams or dependencies */
	size_t sequence; /* of both runs */
	size_t at; /* number of the first step that differs; an end of one of them counts */
	uint64_t inserted, deleted; /* steps of B, and of A, that the other one lacks */
	bool is_limited; /* there are more of these: at least so many */
};

struct determinism {
	struct launch_order *a, *b;
	enum level_state levels[LEVEL_COUNT];
	int reached; /* the last level before the first one that is not LEVEL_SAME; -1: none */
	uint64_t only_a, only_b; /* kernels: of those that the other run launched less often */
	VEC(struct order_difference) differences; /* by level */
};

/* The orders must outlive *d. 0 or -ENOMEM; release in any case. */
int determinism_init(struct determinism *d, struct launch_order *a,
		     struct launch_order *b) MUST_USE;
void determinism_release(struct determinism *d);

/* determinism_print.c: JSON is one object and a newline; docs/diff.md describes its keys. */
void determinism_text(const struct determinism *d, const char *path_a, const char *path_b,
		      unsigned width, bool color, struct strbuf *out);
void determinism_json(const struct determinism *d, const char *path_a, const char *path_b,
		      struct strbuf *out);

#endif
