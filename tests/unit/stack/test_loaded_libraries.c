/* The libraries of a process, while others load more of them. */
#include "elf/loaded_libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/strbuf.h"
#include "support/cmocka_tests.h"

#define LISTED_MAX 128
#define TLS_LIBRARIES 80 /* glibc's list of them is lengthened after 64 */
#define THREAD_LIBRARIES 6 /* that come while one thread looks */

/* ThreadSanitizer does not see the dynamic linker's own lock. */
EXPORT const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:dl_iterate_phdr_cb\nrace:ld-linux-x86-64.so\n";
}

struct listed {
	struct dl_phdr_info libraries[LISTED_MAX];
	unsigned count;
};

static int list(struct dl_phdr_info *info, size_t size, void *user)
{
	struct listed *listed = user;

	(void)size;
	assert_true(listed->count < LISTED_MAX);
	listed->libraries[listed->count++] = *info;
	return 0;
}

static void is_what_the_loader_says(void)
{
	struct listed ours = { .count = 0 }, theirs = { .count = 0 };

	loaded_libraries_visit(list, &ours);
	dl_iterate_phdr(list, &theirs);
	assert_int_equal(ours.count, theirs.count);
	for (unsigned i = 0; i < ours.count; i++) {
		const struct dl_phdr_info *a = &ours.libraries[i], *b = &theirs.libraries[i];

		assert_int_equal(a->dlpi_addr, b->dlpi_addr);
		assert_string_equal(a->dlpi_name, b->dlpi_name);
		assert_int_equal(a->dlpi_phnum, b->dlpi_phnum);
		assert_memory_equal(a->dlpi_phdr, b->dlpi_phdr,
				    a->dlpi_phnum * sizeof(*a->dlpi_phdr));
		assert_int_equal(a->dlpi_adds, b->dlpi_adds);
		assert_int_equal(a->dlpi_subs, b->dlpi_subs);
		assert_null(a->dlpi_tls_data);
	}
}

static void test_same_list(void **state)
{
	(void)state;
	is_what_the_loader_says();
}

/* Its ELF header is not at its load bias. */
static void test_library_linked_for_an_address(void **state)
{
	struct loaded_library_counts before = loaded_library_counts(), after;
	void *library = dlopen(STACK_MODULES "/placed_library.so", RTLD_NOW);

	(void)state;
	assert_non_null(library);
	is_what_the_loader_says();
	after = loaded_library_counts();
	assert_int_equal(after.adds, before.adds + 1);
	assert_int_equal(after.subs, before.subs);
	dlclose(library);
	assert_int_equal(loaded_library_counts().subs, before.subs + 1);
	is_what_the_loader_says();
}

static int stop_at_second(struct dl_phdr_info *info, size_t size, void *user)
{
	unsigned *seen = user;

	(void)info;
	(void)size;
	return ++*seen == 2 ? -7 : 0;
}

static int stop_at_first(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)info;
	(void)size;
	++*(unsigned *)user;
	return 5;
}

static void test_ends_where_told(void **state)
{
	unsigned seen = 0;

	(void)state;
	assert_int_equal(loaded_libraries_visit(stop_at_second, &seen), -7);
	assert_int_equal(seen, 2);
	assert_int_equal(loaded_libraries_visit(stop_at_first, &seen), 5);
	assert_int_equal(seen, 3);
}

static int count(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)info;
	(void)size;
	++*(unsigned *)user;
	return 0;
}

static atomic_bool stop;
static atomic_uint visits;

static void *look(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		unsigned libraries = 0;

		loaded_libraries_visit(count, &libraries);
		assert_true(libraries > 2);
		atomic_fetch_add(&visits, 1);
	}
	return NULL;
}

static void load_copy(const char *folder, unsigned number)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	char name[32];
	const char *path;
	FILE *file;

	assert_int_equal(io_read_file(STACK_MODULES "/slow_tls_library.so", 1 << 20, &bytes), 0);
	snprintf(name, sizeof(name), "%u.so", number);
	path = temp_file(folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
	fclose(file);
	assert_non_null(dlopen(path, RTLD_NOW));
}

/*
 * dl_iterate_phdr() dies here: it looks for the variables of a library that has no place in the
 * list of them yet.
 */
static void test_libraries_with_thread_local_variables(void **state)
{
	pthread_t thread = 0;

	for (unsigned i = 0; i < TLS_LIBRARIES; i++) {
		if (i % THREAD_LIBRARIES == 0) {
			atomic_store(&stop, false);
			assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
		}
		load_copy(*state, i);
		if (i % THREAD_LIBRARIES == THREAD_LIBRARIES - 1 || i == TLS_LIBRARIES - 1) {
			atomic_store(&stop, true);
			pthread_join(thread, NULL);
		}
	}
	assert_true(atomic_load(&visits) > TLS_LIBRARIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_list),
		cmocka_unit_test(test_library_linked_for_an_address),
		cmocka_unit_test(test_ends_where_told),
		folder_test(test_libraries_with_thread_local_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
