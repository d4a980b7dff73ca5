/* cmocka_tests.h: cmocka with the headers that it needs, and tests with a temporary folder. */
#ifndef PITOT_TESTS_CMOCKA_TESTS_H
#define PITOT_TESTS_CMOCKA_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/temp_folder.h"

static inline int folder_setup(void **state)
{
	*state = temp_folder_make();
	return 0;
}

static inline int folder_teardown(void **state)
{
	temp_folder_remove(*state);
	return 0;
}

/* A test whose *state is the path of a new, empty folder. */
#define folder_test(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

#endif
