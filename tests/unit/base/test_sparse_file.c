/* link: test_support */
/* Files of which only what is asked for is read. */
#include "base/sparse_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_tests.h"

#define SIZE 1000000u

static uint8_t bytes[SIZE];

static int make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	srand(1);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(1 + rand() % 255);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, SIZE), SIZE);
	return fd;
}

static void only_what_is_asked_for(void **state)
{
	struct sparse_file f;

	assert_int_equal(sparse_file_open(&f, make_file(temp_file(*state, "a")), SIZE), 0);
	assert_int_equal(f.bytes[500000], 0);
	/* A whole piece of 16 KiB, and not the one behind it. */
	assert_true(sparse_file_load(&f, 0, 16384));
	assert_int_equal(f.read_bytes, 16384);
	assert_true(sparse_file_load(&f, 16383, 2));
	assert_int_equal(f.read_bytes, 2 * 16384);
	for (unsigned i = 0; i < 300; i++) {
		size_t offset = (size_t)rand() % SIZE, size = (size_t)rand() % 3000;
		uint64_t before = f.read_bytes;
		bool there = sparse_file_load(&f, offset, size);

		assert_int_equal(there, size <= SIZE - offset);
		if (!there)
			continue;
		assert_memory_equal(f.bytes + offset, bytes + offset, size);
		assert_true(f.read_bytes - before < size + (64u << 10));
		before = f.read_bytes;
		assert_true(sparse_file_load(&f, offset, size));
		assert_int_equal(f.read_bytes, before);
	}
	assert_true(sparse_file_load(&f, 0, SIZE));
	assert_memory_equal(f.bytes, bytes, SIZE);
	/* Each byte once. */
	assert_int_equal(f.read_bytes, SIZE);
	assert_true(sparse_file_load(&f, SIZE, 0));
	assert_false(sparse_file_load(&f, SIZE, 1));
	assert_false(sparse_file_load(&f, UINT64_MAX, 2));
	sparse_file_close(&f);
	sparse_file_close(&f);
}

static void a_part_that_is_kept(void **state)
{
	struct sparse_file f;

	assert_int_equal(sparse_file_open(&f, make_file(temp_file(*state, "b")), SIZE), 0);
	assert_true(sparse_file_load(&f, 0, 100));
	assert_true(sparse_file_load(&f, 310000, 1));
	sparse_file_trim(&f, 300000, 123456);
	assert_true(sparse_file_load(&f, 300000, 123456));
	assert_memory_equal(f.bytes + 300000, bytes + 300000, 123456);
	assert_false(sparse_file_load(&f, 0, 100));
	assert_false(sparse_file_load(&f, 290000, 20000));
	assert_false(sparse_file_load(&f, 400000, 100000));
	sparse_file_close(&f);
}

static void a_file_that_shrinks(void **state)
{
	const char *path = temp_file(*state, "c");
	struct sparse_file f;

	assert_int_equal(sparse_file_open(&f, make_file(path), SIZE), 0);
	assert_true(sparse_file_load(&f, 0, 100));
	assert_int_equal(truncate(path, 200000), 0);
	assert_memory_equal(f.bytes, bytes, 100);
	assert_true(sparse_file_load(&f, 100000, 1000));
	assert_false(sparse_file_load(&f, 190000, 20000));
	assert_false(sparse_file_load(&f, 500000, 1));
	sparse_file_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(only_what_is_asked_for),
		folder_test(a_part_that_is_kept),
		folder_test(a_file_that_shrinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
