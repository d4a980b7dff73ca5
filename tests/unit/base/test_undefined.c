/* What UndefinedBehaviorSanitizer finds ends a test: as a trap, or with a message. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_tests.h"

static int next(int number)
{
	return number + 1;
}

/* In a child, whose report nobody wants to read. */
static int status_of(int number)
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0) {
		int nowhere = open("/dev/null", O_WRONLY);

		dup2(nowhere, STDERR_FILENO);
		signal(SIGILL, SIG_DFL); /* not cmocka's */
		_exit(next(number) == 8 ? 0 : 77);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void a_finding_is_fatal(void **state)
{
	(void)state;
	assert_int_equal(status_of(7), 0);
	if (!UNDEFINED_IS_FATAL)
		skip();
	assert_int_not_equal(status_of(INT_MAX), 77 << 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_finding_is_fatal) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
