#include "capture/counters/counters_shared.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "capture/core/ring.h"
#include "capture/engines/socket_lock.h"

void counters_push(uint32_t id, uint32_t device, uint64_t time_ns, int64_t value)
{
	const struct ring_event event = {
		.a = time_ns, .b = (uint64_t)value, .c = id, .d = device, .kind = RING_COUNTER
	};
	struct ring *r = ring_get();

	if (r)
		ring_push(r, &event, 1);
}

bool counters_lock(struct counters_lock *locks, size_t count, size_t i, const char *directory,
		   const char *what)
{
	char name[96];

	for (size_t k = 0; k < count; k++)
		if (strncmp(locks[k].what, what, sizeof(locks[k].what) - 1) == 0)
			return true;
	snprintf(name, sizeof(name), "pitot-counters-%016llx-%.32s",
		 (unsigned long long)hash_bytes(directory, strlen(directory)), what);
	if (!socket_lock_take(&locks[i].socket, name))
		return false;
	snprintf(locks[i].what, sizeof(locks[i].what), "%s", what);
	return true;
}

void counters_unlock(struct counters_lock *locks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		own_fd_close(&locks[i].socket);
}
