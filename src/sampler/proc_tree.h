/* proc_tree.h: processes that run, with all that descend from them, as /proc says. */
#ifndef PITOT_SAMPLER_PROC_TREE_H
#define PITOT_SAMPLER_PROC_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/vec.h"

struct proc_tree {
	VEC(pid_t) pids; /* the roots first, each process once */
};

/*
 * Reads the roots that run, and their descendants. A process may start others meanwhile: who wants
 * all of them makes sure that those found are followed and reads again until nothing new is found.
 * 0, -ESRCH when no root runs, or -ENOMEM.
 */
int proc_tree_read(struct proc_tree *tree, const pid_t *roots, size_t count) MUST_USE;
void proc_tree_release(struct proc_tree *tree);
/* The process that started this one; 0: it does not run. */
pid_t proc_parent(pid_t pid);

#endif
