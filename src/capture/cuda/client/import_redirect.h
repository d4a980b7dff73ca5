/*
 * import_redirect.h: makes other libraries call our functions in place of CUPTI's: changes their
 * import slots, which the loader has filled.
 *
 * A slot of a redirected name is changed if it holds CUPTI's function, or still leads to the
 * library's own PLT entry, as it does until the first call. Slots of dlsym() and dlvsym() are
 * changed to trampolines that return our function if the result is one of CUPTI's. The results for
 * RTLD_DEFAULT and RTLD_NEXT depend on the caller, so for these they jump to the loader's function,
 * which sees its real caller; their results are not changed. libpitot.so, CUPTI, the driver's
 * libraries, libc and the loader are left alone, and no change is ever undone.
 *
 * Libraries that are loaded later: dlopen() of a path is redirected too, and changes what it has
 * loaded before it returns. A name without a slash is searched for on behalf of the caller
 * (DT_RUNPATH), so that call goes straight to the loader, and so does every dlopen() by a library
 * with a DT_RPATH. import_redirect_update() handles the libraries that these load, and calls by
 * constructors. A program that opens another CUPTI by its path gets the shared one.
 */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_IMPORT_REDIRECT_H
#define PITOT_CAPTURE_CUDA_CLIENT_IMPORT_REDIRECT_H

#include <stdint.h>

#include "base/compiler.h"

struct redirected {
	const char *name;
	void *ours;
	void *real; /* CUPTI's; NULL: it lacks the function, which is then not redirected */
};

/*
 * Changes the slots of all loaded libraries. The table and `path`, CUPTI's, must stay valid; path
 * NULL: a program that opens another CUPTI gets it. Any thread except in a callback of CUPTI.
 */
void import_redirect_start(const struct redirected *functions, unsigned count, const char *path,
			   uint32_t version);

/* Changes the slots of libraries loaded since then. Vendor thread. */
void import_redirect_update(void);

void import_redirect_after_fork(void);

#endif
