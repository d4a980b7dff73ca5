/*
 * clients.c: the clients of the hub. A new one is a file and a line here. Calls begin in this order
 * and end in reverse: what engines do for a launch lies outside the recorded call, and the
 * program's own profiler is called within it, as if it were a part of the CUDA call.
 */
#include "capture/cuda/hub/hub.h"

#define CLIENTS(C)                                                                                 \
	C(pc_sampling) /* samples must not be read while code is loaded, by the engines either */  \
	C(launches)                                                                                \
	C(pm_sampling)                                                                             \
	C(trace)                                                                                   \
	C(profiler)

#define C(name) extern const struct hub_client name##_client;
CLIENTS(C)
#undef C

const struct hub_client *const hub_clients[] = {
#define C(name) &name##_client,
	CLIENTS(C)
#undef C
		NULL,
};
