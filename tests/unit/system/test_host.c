/* link: -Wl,--wrap=open */
/* This machine and this process; and one that lacks a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "system/host.h"

static const char *hidden; /* no such file */
static const char *silent; /* an empty one */
static const char *broken; /* one that can be opened but not read */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	if (hidden && !strcmp(path, hidden)) {
		errno = ENOENT;
		return -1;
	}
	if (broken && !strcmp(path, broken))
		path = "/"; /* EISDIR */
	return __real_open(silent && !strcmp(path, silent) ? "/dev/null" : path, flags);
}

static int64_t values[METRIC_END];
static unsigned counts[METRIC_END], absent[METRIC_END];

static void value(void *user, uint32_t id, uint64_t time_ns, int64_t v)
{
	assert_string_equal(user, "me");
	assert_true(time_ns <= clock_monotonic_ns());
	assert_true(counts[id] == 0 || metric_find(id)->kind != METRIC_SUM || v >= values[id]);
	values[id] = v;
	counts[id]++;
}

static void note_absent(void *user, uint32_t id, const char *why)
{
	assert_string_equal(user, "me");
	assert_string_equal(why, id == METRIC_host_io_pressure || id == METRIC_host_io_pressure_full
					 ? "the system does not say"
				 : id == METRIC_host_cpu_pressure ? "Is a directory"
								  : "No such file or directory");
	absent[id]++;
}

static char me[] = "me";
static const struct metric_sink sink = { .user = me, .value = value, .absent = note_absent };

static int setup(void **state)
{
	(void)state;
	memset(values, 0, sizeof(values));
	memset(counts, 0, sizeof(counts));
	memset(absent, 0, sizeof(absent));
	hidden = silent = broken = NULL;
	return 0;
}

/* Long pauses: what is expensive on a slow machine is read each time, too. */
static void the_process(void **state)
{
	struct host h;
	uint64_t cpu_us;

	(void)state;
	assert_int_equal(host_open(&h, HOST_PROCESS, &sink), 0);
	host_read(&h, NS_PER_S, &sink);
	host_read(&h, 1000 * NS_PER_S, &sink);
	cpu_us = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000;
	for (uint32_t id = METRIC_process_cpu; id <= METRIC_process_memory; id++)
		assert_int_equal(counts[id], 2);
	assert_int_equal(counts[METRIC_host_cpu_busy], 0);
	assert_in_range(values[METRIC_process_cpu], 1, cpu_us);
	assert_in_range(values[METRIC_process_memory], 100 << 10, INT64_MAX);
	assert_int_equal(values[METRIC_process_memory] % sysconf(_SC_PAGESIZE), 0);
	assert_in_range(values[METRIC_process_page_faults], 10, INT64_MAX);
	host_close(&h);
	host_close(&h);
}

static void a_machine_without_disks(void **state)
{
	struct host h;

	(void)state;
	hidden = "/proc/diskstats";
	silent = "/proc/pressure/io";
	broken = "/proc/pressure/cpu";
	assert_int_equal(host_open(&h, HOST_MACHINE, &sink), 0);
	host_read(&h, NS_PER_S, &sink);
	host_read(&h, 1000 * NS_PER_S, &sink);
	assert_int_equal(absent[METRIC_host_disk_read], 1);
	assert_int_equal(absent[METRIC_host_disk_written], 1);
	assert_int_equal(counts[METRIC_host_disk_written], 0);
	assert_int_equal(absent[METRIC_host_io_pressure], 1);
	assert_int_equal(absent[METRIC_host_io_pressure_full], 1);
	assert_int_equal(counts[METRIC_host_io_pressure], 0);
	assert_int_equal(absent[METRIC_host_cpu_pressure], 1);
	assert_int_equal(counts[METRIC_host_cpu_pressure], 0);
	assert_int_equal(counts[METRIC_host_cpu_busy], 2);
	assert_int_equal(counts[METRIC_CORE_FIRST], 2);
	assert_int_equal(counts[METRIC_host_memory_used], 2);
	assert_int_equal(counts[METRIC_process_cpu], 0);
	assert_in_range(values[METRIC_host_memory_used] + values[METRIC_host_memory_available],
			1 << 20, INT64_MAX);
	host_close(&h);
}

/* What costs 1 ms is read every two seconds; the first reading does not count. */
static void expensive_files_are_read_less_often(void **state)
{
	struct pace p = { 0 };
	unsigned readings = 0;

	(void)state;
	for (unsigned i = 1; i <= 100; i++) {
		if (!pace_is_due(&p, 0, i * 100 * NS_PER_MS))
			continue;
		pace_add(&p, readings ? NS_PER_MS : NS_PER_S, 2000);
		readings++;
	}
	assert_int_equal(readings, 7);
}

static void a_child_has_none_of_the_files(void **state)
{
	struct host h;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(host_open(&h, HOST_PROCESS, &sink), 0);
	pid = fork();
	if (pid == 0) {
		int fd = h.files[9].fd;
		char *text = h.text;

		host_after_fork(&h);
		free(text);
		_exit(fd > 2 && !h.text && fcntl(fd, F_GETFD) < 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	host_read(&h, NS_PER_S, &sink);
	assert_int_equal(counts[METRIC_process_cpu], 1);
	host_close(&h);
}

/* A program that closes all that is open, as daemons do, and then opens files of its own. */
static void a_program_that_takes_the_files(void **state)
{
	struct host h;
	int ends[2], taken = 0;

	(void)state;
	assert_int_equal(host_open(&h, HOST_MACHINE | HOST_PROCESS, &sink), 0);
	assert_int_equal(pipe(ends), 0);
	for (size_t i = 0; i < HOST_FILES_MAX; i++)
		if (h.files[i].fd)
			taken += dup2(ends[0], h.files[i].fd) > 2;
	assert_true(taken > 3);
	for (uint64_t i = 1; i < 4; i++)
		host_read(&h, i * 10 * NS_PER_S, &sink);
	assert_true(counts[METRIC_host_memory_available] > 1);
	assert_int_equal(absent[METRIC_host_memory_available], 0);
	host_close(&h);
	close(ends[0]);
	for (int fd = 3; fd < 64; fd++) {
		struct stat st, pipe_st;

		assert_int_equal(fstat(ends[1], &pipe_st), 0);
		taken -= fd != ends[1] && fstat(fd, &st) == 0 && st.st_ino == pipe_st.st_ino;
	}
	assert_int_equal(taken, 0);
	close(ends[1]);
}

/* A file that cannot be opened again is absent, and nothing is read from the program's input. */
static void a_program_that_takes_the_files_for_good(void **state)
{
	struct host h;
	int input;

	(void)state;
	assert_int_equal(host_open(&h, HOST_MACHINE, &sink), 0);
	input = __real_open("/proc/meminfo", O_RDONLY);
	assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
	for (size_t i = 0; i < HOST_FILES_MAX; i++)
		if (h.files[i].fd)
			close(h.files[i].fd);
	hidden = "/proc/meminfo";
	host_read(&h, 10 * NS_PER_S, &sink);
	assert_int_equal(counts[METRIC_host_memory_available], 0);
	assert_int_equal(absent[METRIC_host_memory_available], 1);
	host_close(&h);
	close(input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_process, setup),
		cmocka_unit_test_setup(a_machine_without_disks, setup),
		cmocka_unit_test_setup(expensive_files_are_read_less_often, setup),
		cmocka_unit_test_setup(a_child_has_none_of_the_files, setup),
		cmocka_unit_test_setup(a_program_that_takes_the_files, setup),
		cmocka_unit_test_setup(a_program_that_takes_the_files_for_good, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
