/*
 * A library with a thread-local variable whose loading takes a while, between its mapping and its
 * end.
 */
#include <sys/syscall.h>
#include <time.h>

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
	long result = SYS_nanosleep;

	__asm__ volatile("syscall" : "+a"(result) : "D"(&time), "S"(0) : "rcx", "r11", "memory");
	return real_function;
}

int slow_tls_function(void) __attribute__((ifunc("resolve")));
int (*slow_tls_pointer)(void) = slow_tls_function;
