/* test_range_choice.c: which names --kernels chooses (range_choice.h). */
#include "capture/engines/range_choice.h"

#include <stdio.h>

#include "capture/cxx_names.h"
#include "support/cmocka_tests.h"

#ifdef PITOT_HAS_PROFILER_HOST

#define PLAIN "saxpy"
#define TEMPLATE "_ZN2at6native18elementwise_kernelILi128ELi4EEEviPf"
#define HIDDEN "_ZN12_GLOBAL__N_15stageIiEEvPi" /* void (anonymous namespace)::stage<int>(int*) */

static bool chooses(const char *patterns, const char *name)
{
	struct settings s = SETTINGS_INIT;

	snprintf(s.kernels, sizeof(s.kernels), "%s", patterns);
	range_choice_set(&s);
	return range_choice_has_name(name);
}

static void test_mangled(void **state)
{
	(void)state;
	assert_true(chooses("*", NULL));
	assert_false(chooses("s*", NULL));
	assert_true(chooses("", PLAIN));
	assert_true(chooses("none,ax", PLAIN));
	assert_false(chooses("mangled=ax", PLAIN));
	assert_true(chooses("mangled=saxpy", PLAIN));
	assert_true(chooses("mangled=*ax*,none", PLAIN));
	assert_false(chooses("s?xp", PLAIN));
	assert_false(chooses("none,saxpyy", PLAIN));
}

static void test_readable(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	(void)state;
	assert_true(chooses("demangled=sax*", PLAIN));
	assert_true(chooses("function=saxpy", PLAIN));
	assert_false(chooses("function=sax", PLAIN));
	if (!cxx_demangle(HIDDEN, &text))
		skip(); /* a program without C++ */
	assert_true(chooses("demangled=void (anonymous namespace)::stage<int>(*)", HIDDEN));
	assert_true(chooses("function=stage", HIDDEN));
	assert_true(chooses("demangled=void at::native::elementwise_kernel<128? 4>(*", TEMPLATE));
	assert_true(chooses("a,function=elementwise_kernel", TEMPLATE));
	assert_false(chooses("demangled=elementwise_kernel*", TEMPLATE));
	assert_false(chooses("function=native", TEMPLATE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mangled),
		cmocka_unit_test(test_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0; /* CUDA's headers are older than the engine needs */
}

#endif
