#include "capture/cuda/hub/callback_guard.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

atomic_bool callback_guard_closed;

/* The collector has registered the process for membarrier. */
void callback_guard_close(void)
{
	atomic_store(&callback_guard_closed, true);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

bool callback_guard_is_empty(void)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load_explicit(&r->in_cupti, memory_order_acquire))
			return false;
	return true;
}

void callback_guard_open(void)
{
	atomic_store(&callback_guard_closed, false);
}
