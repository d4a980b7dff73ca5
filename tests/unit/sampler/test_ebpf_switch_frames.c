/* link: test_support */
/*
 * The stack of a thread that leaves its processor begins with the scheduler, however many tracers
 * are inside of it.
 */
#include <stdio.h>

#include "sampler/ebpf/ebpf_state.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

#define SYMBOLS                                                                                    \
	"ffffffff81000000 T _text\nffffffff81002000 t __schedule\nffffffff81003000 T schedule\n"   \
	"ffffffff81004000 T schedule_timeout\nffffffffc0000000 t __schedule\t[module]\n"           \
	"ffffffffc0001000 t later\t[module]\n"
#define HIDDEN                                                                                     \
	"0000000000000000 T _text\n0000000000000000 t __schedule\n0000000000000000 T schedule\n"

static struct switch_function find_in(const char *folder, const char *text)
{
	const char *path = temp_file(folder, "kallsyms");
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return switch_function_find(path);
}

static void stacks_begin_with_the_scheduler(void **state)
{
	struct switch_function f = find_in(*state, SYMBOLS);
	uint64_t frames[12];

	assert_true(f.start == 0xffffffff81002000 && f.end == 0xffffffff81003000);
	for (unsigned tracers = 0; tracers < 10; tracers++) {
		for (unsigned i = 0; i < tracers; i++)
			frames[i] = 0xffffffff90000000 + i;
		frames[tracers] = tracers % 2 ? f.start + 1 : f.end;
		frames[tracers + 1] = f.end + 10;
		assert_int_equal(switch_tracer_frames(&f, frames, tracers + 2), tracers);
	}
}

static void unknown_schedulers_leave_our_own_two(void **state)
{
	static const uint64_t frames[] = { 1, 2, 0xffffffff81002010, 4 };
	static const char *const texts[] = { HIDDEN, "", "nonsense\n" };
	struct switch_function elsewhere = { 100, 200 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct switch_function f = find_in(*state, texts[i]);

		assert_int_equal(switch_tracer_frames(&f, frames, 4), 2);
		assert_int_equal(switch_tracer_frames(&f, frames, 1), 1);
		assert_int_equal(switch_tracer_frames(&f, frames, 0), 0);
	}
	assert_int_equal(switch_tracer_frames(&elsewhere, frames, 4), 2);
	elsewhere = switch_function_find("/nonexistent");
	assert_int_equal(elsewhere.start, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(stacks_begin_with_the_scheduler),
		folder_test(unknown_schedulers_leave_our_own_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
