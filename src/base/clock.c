#include "base/clock.h"

#include <dlfcn.h>
#include <stddef.h>
#include <sys/auxv.h>

int (*clock_function)(clockid_t clock, struct timespec *t) = clock_gettime;

static bool is_of_program(void *function)
{
	Dl_info program, owner;

	return dladdr((void *)getauxval(AT_ENTRY), &program) && dladdr(function, &owner) &&
	       program.dli_fbase == owner.dli_fbase;
}

void clock_use_libc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *own = libc ? dlsym(libc, "clock_gettime") : NULL;
	void *first = dlsym(RTLD_DEFAULT, "clock_gettime");

	if (own && own != first && !is_of_program(first))
		__atomic_store(&clock_function, (__typeof__(clock_function) *)(void *)&own,
			       __ATOMIC_RELAXED);
	if (libc)
		dlclose(libc);
}
