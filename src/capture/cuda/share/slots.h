/*
 * slots.h: has other libraries call functions of ours in place of CUPTI's, by what the loader has
 * put into their import slots.
 *
 * A slot of a routed name is changed where it holds CUPTI's function, or still leads to the
 * library's own stub for its first call. Slots of dlsym() and dlvsym() lead to stubs that give a
 * routed function where the answer is one of CUPTI's. What RTLD_DEFAULT and RTLD_NEXT find depends
 * on who asks, so for these the stub jumps to the loader's function, which sees its real caller;
 * their answers are not changed. libpitot.so, CUPTI, the driver's libraries, libc and the loader
 * are left alone, and nothing is undone.
 *
 * Libraries that come later: dlopen() of a path is routed, too, and routes what it has loaded
 * before it returns. A name without a slash is searched for on behalf of its caller (DT_RUNPATH),
 * so that call goes straight to the loader, and so does every call of a library with a DT_RPATH.
 * What these load, and what a constructor calls, is found by slots_follow(). Who opens another
 * CUPTI by its path gets the one that is shared.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_SLOTS_H
#define PITOT_CAPTURE_CUDA_SHARE_SLOTS_H

#include <stdint.h>

#include "base/compiler.h"

struct routed {
	const char *name;
	void *ours;
	void *real; /* CUPTI's; NULL: it has none, and nothing leads to ours */
};

/*
 * Changes the slots of all libraries there are. The table and the path, CUPTI's, stay; NULL: who
 * opens another CUPTI gets that. Any thread but one in a callback of CUPTI.
 */
void slots_route(const struct routed *functions, unsigned count, const char *path,
		 uint32_t version);

/* Those of libraries that have come since. Vendor thread. */
void slots_follow(void);

void slots_after_fork(void);

#endif
