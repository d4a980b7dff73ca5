/*
 * hip_client.c: the part of a CUDA program (tape-play --client) that uses HIP: at its first step,
 * or if HIP_FIRST is set when it is loaded, before CUDA is initialized.
 */
#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

int hip_main(int argc, char **argv);
#define main hip_main
#include "hip_program.c"
#undef main

static void run(int is_load)
{
	static int done;
	char name[] = "hip_client", rounds[] = "3", *words[] = { name, rounds, NULL };

	if (!done && is_load == (getenv("HIP_FIRST") != NULL)) {
		done = 1;
		hip_main(2, words);
	}
}

__attribute__((constructor)) static void loaded(void)
{
	run(1);
}

PUBLIC void client_step(unsigned step, unsigned count, const void *function, unsigned site);
PUBLIC void client_step(unsigned step, unsigned count, const void *function, unsigned site)
{
	(void)step;
	(void)count;
	(void)function;
	(void)site;
	run(0);
}

PUBLIC void client_end(void);
PUBLIC void client_end(void)
{
}
