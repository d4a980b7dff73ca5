/*
 * bench_launch: launches an empty kernel of the stand-ins again and again at a chosen depth of the
 * call stack, to count the instructions that the recorder adds to one launch: the difference
 * between LAUNCHES and twice as many, under callgrind.
 *
 *	bench_launch cuda …/standin/libcaller.so LAUNCHES DEPTH
 *	bench_launch hip …/standin/rocm/lib/libamdhip64.so.7 LAUNCHES DEPTH
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct dim3 {
	uint32_t x, y, z;
};

static void (*launch_cuda)(void);
static int (*launch_hip)(uintptr_t f, struct dim3 grid, struct dim3 block, void **args,
			 size_t shared, uint64_t stream);

static NOINLINE void launch_often(unsigned launches)
{
	struct dim3 one = { 1, 1, 1 };

	for (unsigned i = 0; i < launches; i++) {
		if (launch_hip)
			launch_hip(0, one, one, NULL, 0, 3);
		else
			launch_cuda();
	}
}

static void at_depth(unsigned depth, unsigned launches);
static void (*volatile deeper)(unsigned depth, unsigned launches) = at_depth; /* is not inlined */

static void at_depth(unsigned depth, unsigned launches)
{
	if (depth)
		deeper(depth - 1, launches);
	else
		launch_often(launches);
	__asm__ volatile("" ::: "memory"); /* neither is a jump */
}

int main(int argc, char **argv)
{
	bool is_hip = argc == 5 && strcmp(argv[1], "hip") == 0;
	void *library = argc == 5 ? dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) : NULL;

	if (library && is_hip)
		*(void **)&launch_hip = dlsym(library, "hipLaunchKernel");
	else if (library)
		*(void **)&launch_cuda = dlsym(library, "launch");
	if (!launch_hip && !launch_cuda) {
		fprintf(stderr, "bench_launch: %s\n", library ? "no launch in it" : "no library");
		return 1;
	}
	at_depth((unsigned)strtoul(argv[4], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10));
	return 0;
}
