/*
 * renamed.h: kernels that have another name on the other side, such as after another choice of a
 * library, but are launched at the same place of a step with the same grid and block.
 *
 * The kernels of a typical step of each side are aligned by the longest common subsequence, in
 * which a kernel that only one side has may stand beside one that only the other side has, if their
 * shapes are equal. A run of such pairs counts if what comes before and after it is aligned as
 * well, so that nothing was added or removed there, and two names if all of their launches are
 * pairs of these two.
 *
 * What then has no partner is matched by its scope: two names if in each scope in which one of them
 * is launched, it is the only one there without a partner, and so is the other one. Their shapes
 * and numbers of launches may differ, as those of two libraries' matrix products do. Scopes count
 * only if the step has several. Nothing is matched where that is not certain.
 */
#ifndef PITOT_COMPARE_RENAMED_H
#define PITOT_COMPARE_RENAMED_H

#include "compare/measured_run.h"

struct renamed_kernel {
	const char *was, *name; /* in A and B; they belong to the runs */
	bool by_scope;
};

struct renamed_kernels {
	VEC(struct renamed_kernel) items;
};

/* 0 or -ENOMEM; release in any case. */
int renamed_init(struct renamed_kernels *r, struct run_side a, struct run_side b) MUST_USE;
void renamed_release(struct renamed_kernels *r);

#endif
