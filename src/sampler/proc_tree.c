#include "sampler/proc_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/io.h"

struct process_parent {
	pid_t pid, parent;
};

struct process_list {
	VEC(struct process_parent) all;
};

pid_t proc_parent(pid_t pid)
{
	struct process_stat stat = { 0 };

	io_process_stat(pid, &stat);
	return stat.parent;
}

static bool has(const struct proc_tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->pids.count; i++)
		if (tree->pids.data[i] == pid)
			return true;
	return false;
}

static int read_processes(struct process_list *list)
{
	_cleanup_list_ DIR *folder = opendir("/proc");
	struct dirent *entry;
	int err = folder ? 0 : -ESRCH;

	while (err >= 0 && (entry = readdir(folder))) {
		struct process_parent one = { .pid = (pid_t)strtol(entry->d_name, NULL, 10) };

		if (one.pid <= 0)
			continue;
		one.parent = proc_parent(one.pid);
		if (one.parent)
			err = vec_push(&list->all, one);
	}
	return err;
}

static int add_roots(struct proc_tree *tree, const pid_t *roots, size_t count)
{
	char path[64];
	int err = 0;

	for (size_t i = 0; i < count && err >= 0; i++) {
		snprintf(path, sizeof(path), "/proc/%d", (int)roots[i]);
		if (access(path, F_OK) == 0 && !has(tree, roots[i]))
			err = vec_push(&tree->pids, roots[i]);
	}
	return err < 0 ? err : tree->pids.count ? 0 : -ESRCH;
}

/* The tree grows during the loop, so that children of children are found. */
static int add_descendants(struct proc_tree *tree, const struct process_list *list)
{
	int err = 0;

	for (size_t i = 0; i < tree->pids.count; i++)
		for (size_t k = 0; k < list->all.count && err >= 0; k++) {
			const struct process_parent *p = &list->all.data[k];

			if (p->parent == tree->pids.data[i] && !has(tree, p->pid))
				err = vec_push(&tree->pids, p->pid);
		}
	return err;
}

int proc_tree_read(struct proc_tree *tree, const pid_t *roots, size_t count)
{
	struct process_list list = { 0 };
	int err;

	tree->pids.count = 0;
	err = add_roots(tree, roots, count);
	if (err >= 0)
		err = read_processes(&list);
	if (err >= 0)
		err = add_descendants(tree, &list);
	vec_release(&list.all);
	return err;
}

void proc_tree_release(struct proc_tree *tree)
{
	vec_release(&tree->pids);
}
