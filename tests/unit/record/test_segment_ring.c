/* link: test_support */
/* The segments that a ring keeps: which are dropped, and what a dump has. */
#include "record/segment_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folder.h"
#include "format/segment.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

static const struct segment_interval all;

static void values_of_the_option(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t bytes, age_ns;
	} cases[] = {
		{ "256M", 0, (uint64_t)256 << 20, 0 },
		{ "10m", 0, RING_BYTES, 600 * NS_PER_S },
		{ "30s", 0, RING_BYTES, 30 * NS_PER_S },
		{ "64K", 0, 64 << 10, 0 },
		{ "1K", -EINVAL, 0, 0 },
		{ "0s", -EINVAL, 0, 0 },
		{ "", -EINVAL, 0, 0 },
		{ "x", -EINVAL, 0, 0 },
		{ "m", -EINVAL, 0, 0 },
		{ "-5m", -EINVAL, 0, 0 },
	};
	uint64_t bytes, age_ns;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(segment_ring_parse(cases[i].text, &bytes, &age_ns), cases[i].rc);
		if (cases[i].rc == 0) {
			assert_int_equal(bytes, cases[i].bytes);
			assert_int_equal(age_ns, cases[i].age_ns);
		}
	}
}

/* A process adds a segment of that size. */
static uint32_t add(struct segment_ring *ring, uint32_t pid, off_t size)
{
	uint32_t number = 0;
	int fd = segment_ring_add(ring, pid, getpid(), &number);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	return number;
}

/* As one is added. Each process has its own limit; the segment that is written does not count. */
static void the_oldest_are_dropped(void **state)
{
	struct segment_ring ring = { .bytes = 1000 };

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(add(&ring, 1, 400), i);
	assert_int_equal(add(&ring, 2, 5000), 0);
	assert_int_equal(ring.dropped, 2);
	assert_int_equal(ring.segments.count, 4);
	assert_int_equal(ring.segments.data[0].number, 2);
	segment_ring_release(&ring);
}

/* As if a process had written it that has ended. */
static void end_writer(struct ring_segment *segment)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	close(segment->process);
	segment->process = (int)syscall(SYS_pidfd_open, child, 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The age is that of the last row, and the segment that is being written has none. */
static void old_ones_are_dropped(void **state)
{
	static const struct timespec long_ago[2] = { { 1, 0 }, { 1, 0 } };
	struct segment_ring ring = { .bytes = 1000, .age_ns = 60 * NS_PER_S };

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		add(&ring, 1, 10);
	for (unsigned i = 0; i < 3; i += 2)
		assert_int_equal(futimens(ring.segments.data[i].fd, long_ago), 0);
	segment_ring_trim(&ring);
	assert_int_equal(ring.segments.count, 2);
	assert_int_equal(ring.segments.data[0].number, 1);
	end_writer(&ring.segments.data[1]);
	segment_ring_trim(&ring);
	assert_int_equal(ring.segments.count, 1);
	segment_ring_release(&ring);
}

/* A process that makes its segment huge fills no disk, and one with the same id ends no other's. */
static void hostile_processes(void **state)
{
	struct segment_ring ring = { .bytes = 1000 };
	int folder = folder_open(*state, FOLDER_ANY);
	uint32_t number = 0;
	struct stat st;
	int fd;

	add(&ring, 7, (off_t)1 << 40);
	fd = segment_ring_add(&ring, 7, 1, &number);
	assert_true(fd >= 0);
	close(fd);
	assert_false(ring.segments.data[0].is_ended);
	assert_int_equal(segment_ring_write(&ring, folder, &all), 1);
	assert_int_equal(stat(temp_file(*state, "7.0.pit"), &st), 0);
	assert_int_equal(st.st_size, 1000 + BLOCK_BYTES_MAX);
	add(&ring, 7, 10);
	segment_ring_trim(&ring);
	assert_int_equal(ring.dropped, 1);
	close(folder);
	segment_ring_release(&ring);
}

/* A full disk has the newest ones, whole. */
static void a_full_disk(void **state)
{
	struct segment_ring ring = { .bytes = 1000 };
	int folder = folder_open(*state, FOLDER_ANY);
	struct rlimit before, limit;
	struct stat st;

	for (unsigned i = 0; i < 3; i++)
		add(&ring, 7, i == 1 ? 400 : 100);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ 200, before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(segment_ring_write(&ring, folder, &all), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(stat(temp_file(*state, "7.2.pit"), &st), 0);
	assert_int_not_equal(stat(temp_file(*state, "7.1.pit"), &st), 0);
	assert_int_not_equal(stat(temp_file(*state, "7.0.pit"), &st), 0);
	close(folder);
	segment_ring_release(&ring);
}

/* A process with many small segments, whatever ids it says, leaves room for others. */
static void many_small_segments(void **state)
{
	struct segment_ring ring = { .bytes = 64 << 10 };

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		add(&ring, 100 + i, 10);
	segment_ring_trim(&ring);
	assert_true(ring.segments.count <= 2 * RING_PARTS_MAX);
	segment_ring_release(&ring);
}

static void dumps(void **state)
{
	static const struct timespec long_ago[2] = { { 1, 0 }, { 1, 0 } };
	struct segment_ring ring = { .bytes = 1000 };
	int folder = folder_open(*state, FOLDER_ANY);
	struct segment_interval interval;
	struct stat st;

	for (unsigned i = 0; i < 3; i++)
		add(&ring, 7, 10 + i);
	assert_int_equal(futimens(ring.segments.data[0].fd, long_ago), 0);
	interval = segment_interval_of_last(60 * NS_PER_S);
	assert_int_equal(segment_ring_write(&ring, folder, &interval), 2);
	assert_int_not_equal(stat(temp_file(*state, "7.0.pit"), &st), 0);
	assert_int_equal(stat(temp_file(*state, "7.2.pit"), &st), 0);
	assert_int_equal(st.st_size, 12);
	assert_int_equal(segment_ring_write(&ring, folder, &all), -EEXIST);
	/* The newest has begun after that, and the oldest was written long before. */
	interval = (struct segment_interval){ .until_ns = interval.from_ns };
	assert_int_equal(segment_ring_write(&ring, folder, &interval), 0);
	close(folder);
	assert_int_equal(segment_ring_write(&ring, -ENOENT, &all), -ENOENT);
	segment_ring_release(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_the_option),
		cmocka_unit_test(the_oldest_are_dropped),
		cmocka_unit_test(old_ones_are_dropped),
		folder_test(hostile_processes),
		folder_test(a_full_disk),
		cmocka_unit_test(many_small_segments),
		folder_test(dumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
