/* proc_tree.h: running processes and their descendants, from /proc. */
#ifndef PITOT_SAMPLER_PROC_TREE_H
#define PITOT_SAMPLER_PROC_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/vec.h"

struct proc_tree {
	VEC(pid_t) pids; /* roots first, each process once */
};

/*
 * Reads the running roots and their descendants. These may start processes meanwhile: to find all
 * of them, follow the processes found, then read again until there are no new ones. Returns 0,
 * -ESRCH when no root is running, or -ENOMEM.
 */
int proc_tree_read(struct proc_tree *tree, const pid_t *roots, size_t count) MUST_USE;
void proc_tree_release(struct proc_tree *tree);
/* The parent of a process; 0: the process is not running. */
pid_t proc_parent(pid_t pid);

#endif
