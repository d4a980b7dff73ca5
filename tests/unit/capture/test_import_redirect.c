/* Import slots of libraries that come and go, and come again where others were. */
#include "capture/cuda/client/import_redirect.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "capture/core/park.h"
#include "elf/loaded_libraries.h"
#include "support/cmocka_tests.h"

#define COPIES 40

static bool parking;

bool park_is_requested(void)
{
	return parking;
}

void *redirect_dlopen(const char *path, int flags); /* what dlopen() of other libraries leads to */

EXPORT int cuptiThing(void);
int cuptiThing(void)
{
	return 1;
}

static int our_thing(void)
{
	return 2;
}

static const char *copies[COPIES];

static void copy_library(const char *folder, unsigned number)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	char name[32];
	FILE *file;

	assert_int_equal(io_read_file(SLOTS_USER, 1 << 24, &bytes), 0);
	snprintf(name, sizeof(name), "%u.so", number);
	copies[number] = strdup(temp_file(folder, name));
	file = fopen(copies[number], "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
	fclose(file);
}

static int call(void *library)
{
	int (*function)(void) = NULL;

	assert_non_null(library);
	*(void **)&function = dlsym(library, "call_thing");
	assert_non_null(function);
	return function();
}

static unsigned visited;

static int count(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)info;
	(void)size;
	(void)user;
	visited++;
	return 0;
}

static bool is_none(uintptr_t base, void *user)
{
	(void)base;
	(void)user;
	return false;
}

static unsigned count_since(unsigned long long adds)
{
	visited = 0;
	loaded_libraries_visit_since(adds, is_none, count, NULL);
	return visited;
}

/*
 * The first library that goes, the last one, and what comes in its place; each is new to the pass
 * after it.
 */
static void test_new_libraries(void **state)
{
	unsigned long long adds = loaded_library_counts().adds;
	void *first = dlopen(copies[0], RTLD_NOW), *second = dlopen(copies[1], RTLD_NOW);

	(void)state;
	assert_int_equal(count_since(adds), 2);
	adds = loaded_library_counts().adds;
	assert_int_equal(count_since(adds), 0);
	dlclose(first);
	assert_int_equal(count_since(adds), 0);
	dlclose(second);
	second = dlopen(copies[1], RTLD_NOW); /* where it was */
	assert_int_equal(count_since(adds), 1);
	first = dlopen(copies[0], RTLD_NOW);
	assert_int_equal(count_since(adds), 2);
	dlclose(first);
	dlclose(second);
	assert_true(count_since(0) > 3);
}

static void test_every_library_is_redirected(void **state)
{
	static const struct redirected functions[] = { { "cuptiThing", our_thing, cuptiThing } };
	void *kept[COPIES] = { NULL };

	(void)state;
	kept[0] = dlopen(copies[0], RTLD_NOW);
	assert_int_equal(call(kept[0]), 11);
	import_redirect_start(functions, 1, "/nonexistent/libcupti.so", 1);
	assert_int_equal(call(kept[0]), 22);
	for (unsigned i = 0; i < 10 * COPIES; i++) {
		unsigned n = 1 + i * 7 % (COPIES - 1);

		/*
		 * One goes, which may be in the middle, and another or the same comes to its place.
		 */
		if (kept[n]) {
			dlclose(kept[n]);
			kept[n] = NULL;
			n = i % 3 ? n : 1 + i % (COPIES - 1);
		}
		if (!kept[n])
			kept[n] = redirect_dlopen(copies[n], i % 2 ? RTLD_NOW : RTLD_LAZY);
		assert_int_equal(call(kept[n]), 22);
	}
	for (unsigned i = 0; i < COPIES; i++) {
		if (!kept[i])
			continue;
		assert_int_equal(call(kept[i]), 22);
		dlclose(kept[i]);
	}
}

static int their_thing(void)
{
	return 3;
}

/*
 * It is not new any more when the loader, or another tool, has done its part: some passes come back
 * for that.
 */
static void test_slot_that_is_not_ready(void **state)
{
	void *library = dlopen(copies[2], RTLD_NOW);
	int (**slot)(void) = dlsym(library, "redirected_user_thing");

	(void)state;
	assert_non_null(slot);
	*slot = their_thing;
	import_redirect_update();
	assert_int_equal(call(library), 23);
	import_redirect_update();
	*slot = cuptiThing;
	import_redirect_update();
	assert_int_equal(call(library), 22);
	dlclose(library);
	library = dlopen(copies[3], RTLD_NOW);
	slot = dlsym(library, "redirected_user_thing");
	*slot = their_thing;
	for (int i = 0; i < 20; i++)
		import_redirect_update();
	*slot = cuptiThing; /* too late */
	import_redirect_update();
	assert_int_equal(call(library), 21);
	dlclose(library);
}

/* A pass that a fork interrupts has done nothing: the next one does it. */
static void test_interrupted_pass(void **state)
{
	void *library;

	(void)state;
	parking = true;
	library = redirect_dlopen(copies[1], RTLD_NOW);
	assert_int_equal(call(library), 11);
	import_redirect_update();
	assert_int_equal(call(library), 11);
	parking = false;
	import_redirect_update();
	assert_int_equal(call(library), 22);
	dlclose(library);
}

static int setup(void **state)
{
	int r = folder_setup(state);

	for (unsigned i = 0; i < COPIES; i++)
		copy_library(*state, i);
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_libraries),
		cmocka_unit_test(test_every_library_is_redirected),
		cmocka_unit_test(test_slot_that_is_not_ready),
		cmocka_unit_test(test_interrupted_pass),
	};

	return cmocka_run_group_tests(tests, setup, folder_teardown);
}
