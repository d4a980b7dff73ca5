#include "record/kept_dumps.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/recording_dir.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

#define SIZE 1000u

/* A dump of 1,000 bytes, some of them in a folder of it. */
static void add(struct kept_dumps *dumps, const char *parent, unsigned number, unsigned rule)
{
	static const char zeros[SIZE];
	char path[4096], file[4200];
	struct folder_id id;
	char *made;
	int fd;

	snprintf(path, sizeof(path), "%s/%u.pitot", parent, number);
	made = recording_dir_create(path, "x", false, &id, NULL);
	assert_non_null(made);
	snprintf(file, sizeof(file), "%s/1.0.pit", path);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, zeros, SIZE - 300), SIZE - 300);
	close(fd);
	snprintf(file, sizeof(file), "%s/" RECORDING_GPU_CORES, path);
	assert_int_equal(mkdir(file, 0700), 0);
	snprintf(file, sizeof(file), "%s/" RECORDING_GPU_CORES "/h.1.2.nvcudmp", path);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, zeros, 300), 300);
	close(fd);
	kept_dumps_add(dumps, rule, made, &id);
	free(made);
}

static bool is_there(const char *parent, unsigned number)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%u.pitot", parent, number);
	return access(path, F_OK) == 0;
}

static void expect_removed(struct kept_dumps *dumps, uint64_t bytes, const char *parent,
			   unsigned number)
{
	char path[4096], *removed = kept_dumps_trim(dumps, bytes);

	snprintf(path, sizeof(path), "%s/%u.pitot", parent, number);
	assert_non_null(removed);
	assert_string_equal(removed, path);
	assert_false(is_there(parent, number));
	free(removed);
}

static void the_oldest_go_but_not_the_first_of_a_rule(void **state)
{
	char *folder = temp_folder_make();
	struct kept_dumps dumps = { .rules = 0 };

	(void)state;
	add(&dumps, folder, 1, 0);
	add(&dumps, folder, 2, 0);
	add(&dumps, folder, 3, 31);
	add(&dumps, folder, 4, 0);
	assert_null(kept_dumps_trim(&dumps, 4 * SIZE));
	expect_removed(&dumps, 4 * SIZE - 1, folder, 2);
	assert_null(kept_dumps_trim(&dumps, 3 * SIZE));
	add(&dumps, folder, 5, 31);
	expect_removed(&dumps, SIZE, folder, 4);
	/* The newest one stays, and so do the first ones, however little is allowed. */
	assert_null(kept_dumps_trim(&dumps, 1));
	assert_true(is_there(folder, 1) && is_there(folder, 3) && is_there(folder, 5));
	kept_dumps_release(&dumps);
	temp_folder_remove(folder);
}

/* What is not only a recording any more belongs to whoever made it so, and counts no longer. */
static void dumps_of_others_stay(void **state)
{
	char *folder = temp_folder_make();
	struct kept_dumps dumps = { .rules = 1 };
	char path[4200];

	(void)state;
	add(&dumps, folder, 1, 0);
	add(&dumps, folder, 2, 0);
	add(&dumps, folder, 3, 0);
	snprintf(path, sizeof(path), "%s/1.pitot/notes.txt", folder);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	expect_removed(&dumps, SIZE, folder, 2);
	assert_true(is_there(folder, 1));
	assert_null(kept_dumps_trim(&dumps, SIZE));
	kept_dumps_release(&dumps);
	temp_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_go_but_not_the_first_of_a_rule),
		cmocka_unit_test(dumps_of_others_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
