/*
 * A library with a thread-local variable whose loading takes a while, between its mapping and its
 * end.
 */
#include <sys/syscall.h>
#include <time.h>

#include "arch/processor.h"

extern __thread int slow_tls_variable;
__thread int slow_tls_variable = 1;

int slow_tls_function(void);

static int real_function(void)
{
	return slow_tls_variable;
}

/* Run while the loader relocates the library: no function of others can be called yet. */
static int (*resolve(void))(void)
{
	const struct timespec time = { .tv_nsec = 3000000 };

	arch_system_call(SYS_nanosleep, (long)&time, 0, 0, 0);
	return real_function;
}

int slow_tls_function(void) __attribute__((ifunc("resolve")));
int (*slow_tls_pointer)(void) = slow_tls_function;
