/* The tree of running processes: a child, its child, and one that has ended. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/proc_tree.h"

/* A child that starts a child, says its pid, and waits for its end. */
static pid_t start(pid_t *grandchild)
{
	int pipes[2];
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		pid_t inner = fork();

		if (inner > 0 && write(pipes[1], &inner, sizeof(inner)) != sizeof(inner))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipes[0], grandchild, sizeof(*grandchild)), sizeof(*grandchild));
	close(pipes[0]);
	close(pipes[1]);
	return child;
}

static bool has(const struct proc_tree *tree, pid_t pid)
{
	unsigned times = 0;

	for (size_t i = 0; i < tree->pids.count; i++)
		times += tree->pids.data[i] == pid;
	assert_true(times <= 1);
	return times == 1;
}

static void test_roots_and_descendants(void **state)
{
	struct proc_tree tree = { 0 };
	pid_t inner[2], outer[2], ended, roots[4];

	(void)state;
	outer[0] = start(&inner[0]);
	outer[1] = start(&inner[1]);
	roots[0] = outer[0];
	assert_int_equal(proc_tree_read(&tree, roots, 1), 0);
	assert_int_equal(tree.pids.count, 2);
	assert_int_equal(tree.pids.data[0], outer[0]);
	assert_true(has(&tree, inner[0]));
	assert_int_equal(proc_parent(inner[0]), outer[0]);
	/* Several roots, one of them another's child, one that has ended. */
	ended = fork();
	if (ended == 0)
		_exit(0);
	assert_int_equal(waitpid(ended, NULL, 0), ended);
	roots[0] = ended;
	roots[1] = inner[1];
	roots[2] = outer[1];
	roots[3] = outer[0];
	assert_int_equal(proc_tree_read(&tree, roots, 4), 0);
	assert_int_equal(tree.pids.count, 4);
	for (int i = 0; i < 2; i++)
		assert_true(has(&tree, inner[i]) && has(&tree, outer[i]));
	assert_int_equal(proc_tree_read(&tree, roots, 1), -ESRCH);
	for (int i = 0; i < 2; i++) {
		kill(inner[i], SIGKILL);
		kill(outer[i], SIGKILL);
		waitpid(outer[i], NULL, 0);
	}
	proc_tree_release(&tree);
}

/* Four generations, of which the first is asked for. */
static void test_descendants_of_descendants(void **state)
{
	enum { GENERATIONS = 4 };
	struct proc_tree tree = { 0 };
	pid_t pids[GENERATIONS];
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	pids[0] = fork();
	assert_true(pids[0] >= 0);
	if (pids[0] == 0) {
		for (int i = 1; i < GENERATIONS && fork() == 0; i++) {
			pid_t self = getpid();

			if (write(pipes[1], &self, sizeof(self)) != sizeof(self))
				_exit(1);
		}
		for (;;)
			pause();
	}
	for (int i = 1; i < GENERATIONS; i++)
		assert_int_equal(read(pipes[0], &pids[i], sizeof(pids[i])), sizeof(pids[i]));
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(proc_tree_read(&tree, pids, 1), 0);
	assert_int_equal(tree.pids.count, GENERATIONS);
	for (int i = 0; i < GENERATIONS; i++)
		assert_true(has(&tree, pids[i]));
	proc_tree_release(&tree);
	for (int i = GENERATIONS; i--;)
		kill(pids[i], SIGKILL);
	waitpid(pids[0], NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots_and_descendants),
		cmocka_unit_test(test_descendants_of_descendants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
