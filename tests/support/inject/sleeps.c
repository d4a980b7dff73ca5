/* A library whose constructor does not return. */
#include <poll.h>

__attribute__((constructor)) static void loaded(void)
{
	poll(0, 0, -1);
}
