/*
 * test_nvtx_choice.c: whether a thread is inside ranges that patterns want (nvtx_choice.h), by the
 * calls that programs make.
 */
#include "capture/nvtx/nvtx_choice.h"

#include <pthread.h>
#include <stdio.h>

#include "capture/nvtx/nvtx_calls.h"
#include "support/cmocka_tests.h"

static void choose(const char *include, const char *exclude)
{
	struct settings s = SETTINGS_INIT;

	snprintf(s.nvtx_include, sizeof(s.nvtx_include), "%s", include);
	snprintf(s.nvtx_exclude, sizeof(s.nvtx_exclude), "%s", exclude);
	nvtx_choice_set(&s, NULL);
}

static void push(uint32_t domain, const char *text)
{
	nvtx_push(domain, nvtx_message_only(NVTX_MESSAGE_TEXT, text));
}

static void test_nesting(void **state)
{
	(void)state;
	choose("", "");
	assert_true(nvtx_choice_is_wanted());
	choose("step*,eval", "warm?p");
	assert_false(nvtx_choice_is_wanted());
	push(0, "step 1");
	assert_true(nvtx_choice_is_wanted());
	push(0, "forward");
	assert_true(nvtx_choice_is_wanted());
	push(3, "warmup");
	assert_false(nvtx_choice_is_wanted());
	nvtx_pop(0);
	assert_false(nvtx_choice_is_wanted());
	nvtx_pop(3);
	assert_true(nvtx_choice_is_wanted());
	nvtx_pop(0);
	assert_false(nvtx_choice_is_wanted());
	push(0, "other");
	assert_false(nvtx_choice_is_wanted());
	push(5, "eval");
	assert_true(nvtx_choice_is_wanted());
	nvtx_pop(5);
	nvtx_pop(0);
	nvtx_pop(0); /* one too many */
	assert_false(nvtx_choice_is_wanted());
}

static void *other_thread(void *wanted)
{
	*(bool *)wanted = nvtx_choice_is_wanted();
	return NULL;
}

static void test_threads_and_depth(void **state)
{
	pthread_t thread;
	bool wanted = true;

	(void)state;
	choose("step", "");
	push(0, "step");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &wanted), 0);
	pthread_join(thread, NULL);
	assert_false(wanted);
	for (int i = 0; i < 100; i++)
		push(0, "step");
	for (int i = 0; i < 100; i++)
		nvtx_pop(0);
	assert_true(nvtx_choice_is_wanted());
	nvtx_pop(0);
	assert_false(nvtx_choice_is_wanted());
}

static void test_names(void **state)
{
	(void)state;
	choose("", "");
	assert_true(nvtx_choice_has_name("any"));
	choose("step*", "*2");
	assert_true(nvtx_choice_has_name("step 1"));
	assert_false(nvtx_choice_has_name("step 2"));
	assert_false(nvtx_choice_has_name("other"));
	choose("", "*2");
	assert_true(nvtx_choice_has_name("other"));
	assert_false(nvtx_choice_has_name("step 2"));
}

/* A range that ends while nobody asks is not open when somebody does again. */
static void test_off_and_on(void **state)
{
	(void)state;
	choose("step", "");
	push(0, "step");
	choose("", "");
	nvtx_pop(0);
	choose("step", "");
	assert_false(nvtx_choice_is_wanted());
	nvtx_push(0, nvtx_message_only(NVTX_MESSAGE_NONE, NULL));
	assert_false(nvtx_choice_is_wanted());
	nvtx_pop(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_threads_and_depth),
		cmocka_unit_test(test_off_and_on),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
