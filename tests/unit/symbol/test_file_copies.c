/* Copies of files that are perhaps gone soon: which is found, and what there is no room for. */
#include "symbol/file_copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_with(const char *text)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void add(struct file_copies *k, const char *path, const char *build_id, const char *text)
{
	int fd = file_with(text);

	file_copies_add(k, path, build_id, fd, strlen(text));
	close(fd);
}

static void assert_text(int fd, const char *text)
{
	char bytes[32] = "";

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, sizeof(bytes) - 1, 0), strlen(text));
	assert_string_equal(bytes, text);
}

static void by_build_id_or_path(void **state)
{
	struct file_copies k = { .bytes = 0 };

	(void)state;
	add(&k, "/tmp/a", "ab12", "one");
	add(&k, "/tmp/a", "cd34", "two");
	add(&k, "/tmp/b (deleted)", "", "three");
	assert_text(file_copies_find(&k, "/elsewhere", "ab12"), "one");
	assert_text(file_copies_find(&k, "/tmp/a", "cd34"), "two");
	assert_text(file_copies_find(&k, "/tmp/b", ""), "three");
	assert_int_equal(file_copies_find(&k, "/tmp/a", ""), -1);
	assert_int_equal(file_copies_find(&k, "/tmp/a", "ef56"), -1);
	assert_int_equal(file_copies_find(NULL, "/tmp/a", "ab12"), -1);
	add(&k, "/tmp/other", "ab12", "one");
	assert_int_equal(k.files.count, 3);
	file_copies_release(&k);
	assert_int_equal(file_copies_find(&k, "/tmp/b", ""), -1);
}

/* Two files without a build id that were at one path: which of them is meant is not known. */
static void never_the_wrong_one(void **state)
{
	struct file_copies k = { .bytes = 0 };

	(void)state;
	add(&k, "/tmp/b", "", "three");
	add(&k, "/tmp/b", "", "four");
	assert_int_equal(file_copies_find(&k, "/tmp/b", ""), -1);
	add(&k, "/tmp/b", "", "five");
	assert_int_equal(file_copies_find(&k, "/tmp/b", ""), -1);
	file_copies_release(&k);
}

static void limits(void **state)
{
	struct file_copies k = { .bytes = 0 };
	int fd = file_with("short");
	char path[32];

	(void)state;
	file_copies_add(&k, "/large", "01", fd, FILE_COPY_BYTES_MAX + 1);
	file_copies_add(&k, "/shrunk", "02", fd, 6);
	assert_int_equal(k.files.count, 0);
	k.bytes = FILE_COPIES_BYTES_MAX - 4;
	file_copies_add(&k, "/full", "03", fd, 5);
	assert_int_equal(k.files.count, 0);
	k.bytes = 0;
	for (unsigned i = 0; i < FILE_COPIES_MAX + 5; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		file_copies_add(&k, path, "", fd, 5);
	}
	assert_int_equal(k.files.count, FILE_COPIES_MAX);
	assert_int_equal(k.bytes, FILE_COPIES_MAX * 5);
	close(fd);
	file_copies_release(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_build_id_or_path),
		cmocka_unit_test(never_the_wrong_one),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
