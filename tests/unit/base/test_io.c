#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"

static char folder[] = "/tmp/pitot-io-XXXXXX";
static char path[64];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void a_file_is_read_whole_or_not_at_all(void **state)
{
	struct strbuf s = STRBUF_INIT;
	char block[1000];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	memset(block, 'b', sizeof(block));
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(io_write_all(fd, block, sizeof(block)), 0);
	close(fd);
	strbuf_adds(&s, "before ");
	assert_int_equal(io_read_file(path, 199999, &s), E_LIMIT);
	assert_string_equal(s.data, "before ");
	assert_int_equal(io_read_file(path, 200000, &s), 0);
	assert_int_equal(s.length, 200007);
	assert_int_equal(strlen(s.data), 200007);
	strbuf_release(&s);
}

static void files_of_proc_and_missing_ones(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	assert_int_equal(io_read_file("/proc/self/status", 1 << 20, &s), 0);
	assert_memory_equal(s.data, "Name:", 5);
	strbuf_clear(&s);
	assert_int_equal(io_read_file("/nonexistent", 10, &s), -ENOENT);
	assert_int_equal(io_read_file("/tmp", 10, &s), -EISDIR);
	assert_int_equal(s.length, 0);
	strbuf_release(&s);
}

static void *drain(void *argument)
{
	int fd = *(int *)argument;
	size_t *total = malloc(sizeof(*total));
	char block[777];
	ssize_t n;

	if (!total)
		return NULL;
	*total = 0;
	while ((n = read(fd, block, sizeof(block))) > 0)
		*total += (size_t)n;
	return total;
}

static void writes_go_through_short_ones(void **state)
{
	size_t length = 3 << 20, *total = NULL;
	char *bytes = calloc(1, length);
	pthread_t thread;
	int fds[2];

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&thread, NULL, drain, &fds[0]), 0);
	assert_int_equal(io_write_all(fds[1], bytes, length), 0);
	close(fds[1]);
	assert_int_equal(pthread_join(thread, (void **)&total), 0);
	assert_non_null(total);
	assert_int_equal(*total, length);
	close(fds[0]);
	free(total);
	free(bytes);
}

static void a_full_device_is_an_error(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(io_write_all(fd, "x", 1), -ENOSPC);
	assert_int_equal(io_write_all(fd, "", 0), 0);
	close(fd);
	assert_int_equal(io_write_all(-1, "x", 1), -EBADF);
}

static void descriptors_are_moved_above_the_standard_ones(void **state)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 100), fd;

	(void)state;
	if (kept >= 0)
		close(0);
	fd = open("/dev/null", O_RDONLY);
	assert_int_equal(fd, 0);
	fd = io_above_standard(fd);
	assert_true(fd > 2);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	fcntl(fd, F_SETFD, 0);
	assert_int_equal(io_above_standard(fd), fd);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(io_above_standard(-1), -EBADF);
	if (kept >= 0) {
		assert_int_equal(dup2(kept, 0), 0);
		close(kept);
	}
}

static void texts_of_proc_are_one_line(void **state)
{
	_cleanup_strbuf_ struct strbuf s = STRBUF_INIT;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	(void)state;
	assert_int_equal(io_write_all(fd, "\0ls\0-l\0\0x\n\0", 11), 0);
	strbuf_adds(&s, "it:");
	assert_int_equal(io_read_text(path, 64, &s), 0);
	assert_string_equal(s.data, "it: ls -l  x");
	assert_int_equal(io_read_text("/nonexistent", 64, &s), -ENOENT);
	assert_string_equal(s.data, "it: ls -l  x");
	strbuf_clear(&s);
	assert_int_equal(io_read_text(path, 4, &s), 0); /* no more than that */
	assert_string_equal(s.data, " ls");
}

static void a_process_is_what_proc_says(void **state)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct process_stat stat = { 0 }, again = { 0 };

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "a) Z 7 b"), 0); /* looks as what follows a name */
	assert_true(io_process_stat(getpid(), &stat));
	assert_int_equal(stat.parent, getppid());
	assert_int_equal(stat.state, 'R');
	assert_true(stat.start_ticks > 0);
	assert_true(io_process_stat(getppid(), &again));
	assert_true(again.start_ticks <= stat.start_ticks);
	assert_false(io_process_stat(-1, &stat));
	assert_int_equal(io_process_text(getpid(), "comm", 64, &name), 0);
	assert_string_equal(name.data, "a) Z 7 b");
}

static void a_rename_replaces_nothing(void **state)
{
	char other[sizeof(path) + 8];

	(void)state;
	snprintf(other, sizeof(other), "%s.other", path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	close(open(other, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(io_rename_new(AT_FDCWD, path, AT_FDCWD, other), -EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(other);
	assert_int_equal(io_rename_new(AT_FDCWD, path, AT_FDCWD, other), 0);
	assert_int_equal(io_rename_new(AT_FDCWD, path, AT_FDCWD, other), -ENOENT);
	assert_int_equal(unlink(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
		cmocka_unit_test(files_of_proc_and_missing_ones),
		cmocka_unit_test(texts_of_proc_are_one_line),
		cmocka_unit_test(a_process_is_what_proc_says),
		cmocka_unit_test(a_rename_replaces_nothing),
		cmocka_unit_test(writes_go_through_short_ones),
		cmocka_unit_test(a_full_device_is_an_error),
		cmocka_unit_test(descriptors_are_moved_above_the_standard_ones),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
