/* How much memory the host has left: limits of groups at every level, in both hierarchies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "system/free_memory.h"
#include "support/temp_folder.h"

static char *root;

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int set_up(void **state)
{
	(void)state;
	root = temp_folder_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	temp_folder_remove(root);
	return 0;
}

static void without_anything_it_is_unknown(void **state)
{
	(void)state;
	assert_true(free_memory(root) == UINT64_MAX);
	put("/proc/meminfo", "MemTotal: 99 kB\nNotMemAvailable: 5 kB\n");
	assert_true(free_memory(root) == UINT64_MAX);
	put("/proc/meminfo", "MemTotal: 99 kB\nMemAvailable:");
	assert_true(free_memory(root) == UINT64_MAX);
	put("/proc/meminfo", "MemTotal: 99 kB\nMemAvailable:       70 kB\nBuffers: 1 kB\n");
	assert_int_equal(free_memory(root), 70 * 1024);
	assert_true(free_memory("") != UINT64_MAX);
}

static void the_narrowest_group_counts(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemAvailable: 1000 kB\n");
	put("/proc/self/cgroup", "0::/job/step\n");
	put("/sys/fs/cgroup/job/step/memory.max", "max\n");
	put("/sys/fs/cgroup/job/step/memory.current", "400000\n");
	assert_int_equal(free_memory(root), 1000 * 1024);
	put("/sys/fs/cgroup/job/memory.max", "700000\n");
	put("/sys/fs/cgroup/job/memory.current", "500000\n");
	assert_int_equal(free_memory(root), 200000);
	put("/sys/fs/cgroup/job/memory.stat", "anon 7\nactive_file 8\ninactive_file 150000\n");
	assert_int_equal(free_memory(root), 350000);
	put("/sys/fs/cgroup/memory.max", "300000\n"); /* as in a container */
	put("/sys/fs/cgroup/memory.current", "290000\n");
	assert_int_equal(free_memory(root), 10000);
	put("/sys/fs/cgroup/memory.current", "310000\n");
	assert_int_equal(free_memory(root), 0);
	put("/sys/fs/cgroup/memory.max", "99999999999999999999999\n"); /* not a number of bytes */
	assert_int_equal(free_memory(root), 350000);
}

static void the_older_hierarchy(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemAvailable: 1000 kB\n");
	put("/proc/self/cgroup", "5:cpu:/x\n4:memory:/slurm/job\n1:name=systemd:/\n");
	put("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "800000\n");
	put("/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "700000\n");
	put("/sys/fs/cgroup/memory/slurm/memory.stat",
	    "inactive_file 1\ntotal_inactive_file 50000\n");
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5\n");
	put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "5\n");
	assert_int_equal(free_memory(root), 150000);
}

static void kills_are_those_of_the_own_group(void **state)
{
	uint64_t kills = 7;

	(void)state;
	assert_false(memory_oom_kills(root, &kills));
	put("/proc/self/cgroup", "0::/job/step\n");
	assert_false(memory_oom_kills(root, &kills));
	put("/sys/fs/cgroup/job/memory.events", "oom_kill 99\n");
	put("/sys/fs/cgroup/job/step/memory.events", "low 0\noom 9\noom_group_kill 4\n");
	assert_false(memory_oom_kills(root, &kills));
	assert_int_equal(kills, 7);
	put("/sys/fs/cgroup/job/step/memory.events",
	    "low 0\noom 9\noom_kill 3\noom_group_kill 4\n");
	assert_true(memory_oom_kills(root, &kills));
	assert_int_equal(kills, 3);
	put("/proc/self/cgroup", "5:cpu:/x\n4:memory:/slurm\n");
	put("/sys/fs/cgroup/memory/slurm/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n");
	assert_true(memory_oom_kills(root, &kills));
	assert_int_equal(kills, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_anything_it_is_unknown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_narrowest_group_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_older_hierarchy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kills_are_those_of_the_own_group, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
