/*
 * Each allocation of a table and its schema fails once, and of one that is followed: an error with
 * a text, and nothing leaks.
 */
#include "failing_alloc.h"
#include "pitot/read.h"

#include <errno.h>
#include <sched.h>

#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "support/temp_folder.h"

#define KERNELS 20

static int use(const char *folder, struct pitot_read_error *error)
{
	static const char *const conditions[] = { "stream=7", "name=add", NULL };
	struct pitot_read_query all = { .size = sizeof(all), .table = "kernel" }, some = all;
	struct ArrowArrayStream stream;
	struct pitot_recording *r;
	struct ArrowArray array;
	int result = pitot_read_open(folder, &r, error);

	if (result < 0)
		return result;
	some.conditions = conditions;
	result = pitot_read_table(r, &all, &stream, error);
	if (result == 0) {
		stream.release(&stream);
		result = pitot_read_table(r, &some, &stream, error);
	}
	if (result == 0) {
		pitot_read_close(r);
		r = NULL; /* the stream still has it */
		assert_int_equal(stream.get_next(&stream, &array), 0);
		assert_int_equal(array.length, KERNELS / 2);
		array.release(&array);
		stream.release(&stream);
	}
	pitot_read_close(r);
	return result;
}

/* Scopes and stacks of what is new since: nothing, as nobody writes. */
static int use_followed(const char *folder, struct pitot_read_error *error)
{
	static const char *const columns[] = { "scope", "stack.frames", NULL };
	struct pitot_read_query query = { .size = sizeof(query),
					  .table = "kernel",
					  .columns = columns };
	struct pitot_recording *r, *later = NULL;
	struct ArrowArrayStream stream;
	struct ArrowArray array;
	int result = pitot_read_open(folder, &r, error);

	if (result < 0)
		return result;
	result = pitot_read_table(r, &query, &stream, error);
	if (result == 0) {
		assert_int_equal(stream.get_next(&stream, &array), 0);
		assert_int_equal(array.children[1]->children[0]->length, 2 * KERNELS);
		array.release(&array);
		stream.release(&stream);
		result = pitot_read_follow(r, "kernel", &later, error);
	}
	pitot_read_close(r);
	if (result == 0)
		result = pitot_read_table(later, &query, &stream, error);
	if (result == 0) {
		assert_int_equal(stream.get_next(&stream, &array), 0);
		assert_int_equal(array.length, 0);
		array.release(&array);
		stream.release(&stream);
	}
	pitot_read_close(later);
	return result;
}

static void write_calls(struct maker *m)
{
	uint32_t node = maker_python(m, 0, "step", "train.py", 10);

	node = maker_native(m, node, 0x1000);
	m->stack = maker_stack(m, node, 2, stack_end_complete);
	maker_scope(m, nvtx_kind_push, 100, "step", 0, 1500);
	for (unsigned i = 0; i < KERNELS; i++)
		maker_call(m, MAKER_LAUNCH, 100, 1900 + 100 * i, 1950 + 100 * i, i + 1);
}

static void check_failures(int (*function)(const char *folder, struct pitot_read_error *error),
			   const char *folder)
{
	unsigned failures = 0;

	FOR_EACH_FAILURE(n)
	{
		struct pitot_read_error error = { 0 };
		int result = function(folder, &error);

		if (result == 0)
			continue; /* the trace reads the clock's offset elsewhere without memory */
		assert_int_equal(result, -ENOMEM);
		assert_int_equal(error.code, -ENOMEM);
		assert_true(*error.text != '\0');
		failures++;
	}
	assert_true(failures * FAILURE_STEP > 50);
}

static void failing_allocations(void **state)
{
	char *folder = temp_folder_make();
	struct maker *m = maker_begin(folder, 100, 1000, "./a");
	uint32_t add = maker_config(m, "add", 1, 32);

	(void)state;
	write_calls(m);
	for (unsigned i = 0; i < KERNELS; i++)
		maker_kernel(m, add, 7 + i % 2, 2000 + 100 * i, 2050 + 100 * i, i + 1);
	maker_close(m, 9000);
	check_failures(use, folder);
	check_failures(use_followed, folder);
	temp_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(failing_allocations) };
	cpu_set_t one;

	/* Allocations are counted: one thread. */
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
