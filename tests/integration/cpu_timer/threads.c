/*
 * threads MS [ALL_MS]: threads that work for so many milliseconds each, four at a time, three
 * seconds in all or so many.
 */
#include <pthread.h>
#include <stdlib.h>

#include "burn.h"

static void *work(void *ms)
{
	burn(*(int *)ms * 1e-3);
	return NULL;
}

int main(int argc, char **argv)
{
	int ms = argc > 1 ? atoi(argv[1]) : 1, all_ms = argc > 2 ? atoi(argv[2]) : 3000;
	pthread_t threads[4];

	for (int i = 0; i < all_ms / ms / 4; i++) {
		for (int k = 0; k < 4; k++)
			if (pthread_create(&threads[k], NULL, work, &ms))
				return 2;
		for (int k = 0; k < 4; k++)
			pthread_join(threads[k], NULL);
	}
	return 0;
}
