/*
 * walk_reference.h: other people's unwinders, to compare with: glibc's backtrace(), and libunwind's
 * unw_step() where the machine has that library. libunwind is opened at run time: linked, it would
 * replace backtrace().
 */
#ifndef PITOT_TEST_WALK_REFERENCE_H
#define PITOT_TEST_WALK_REFERENCE_H

#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#define REFERENCE_MAX 512
#define UNW_RIP 16 /* libunwind's number of the register */
#define UNW_INIT_SIGNAL 1

struct libunwind {
	int (*getcontext)(void *);
	int (*init)(void *cursor, void *context);
	int (*init_at)(void *cursor, void *context, int flags);
	int (*step)(void *cursor);
	int (*get_reg)(void *cursor, int reg, uint64_t *value);
	int (*backtrace)(void **frames, int max);
};

/* The first call, which opens the library, must be over before threads call it. */
static inline const struct libunwind *libunwind(void)
{
	static struct libunwind u;
	static bool tried;
	void *library;

	if (tried)
		return u.step ? &u : NULL;
	tried = true;
	library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	if (library) {
		*(void **)&u.getcontext = dlsym(library, "_Ux86_64_getcontext");
		*(void **)&u.init = dlsym(library, "_ULx86_64_init_local");
		*(void **)&u.init_at = dlsym(library, "_ULx86_64_init_local2");
		*(void **)&u.step = dlsym(library, "_ULx86_64_step");
		*(void **)&u.get_reg = dlsym(library, "_ULx86_64_get_reg");
		*(void **)&u.backtrace = dlsym(library, "unw_backtrace");
	}
	if (!u.getcontext || !u.init || !u.init_at || !u.get_reg || !u.backtrace)
		u.step = NULL;
	return u.step ? &u : NULL;
}

/* The stack by libunwind from a context; a ucontext_t of ours is one of its own. */
static inline unsigned libunwind_walk(ucontext_t *context, bool interrupted, uint64_t *frames,
				      unsigned max)
{
	const struct libunwind *u = libunwind();
	uint64_t cursor[256];
	unsigned n = 0;

	if (!u || u->init_at(cursor, context, interrupted ? UNW_INIT_SIGNAL : 0) < 0)
		return 0;
	do {
		if (u->get_reg(cursor, UNW_RIP, &frames[n]) < 0 || frames[n] == 0)
			break;
		n++;
	} while (n < max && u->step(cursor) > 0);
	return n;
}

#endif
