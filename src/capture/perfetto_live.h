/*
 * perfetto_live.h: the process as a producer of Perfetto's tracing service. While nobody traces
 * there is a thread that sleeps, and nothing in the program's calls. Each data source that a
 * session of the service starts is a session of the recorder (session.h), whose sink makes packets;
 * recordings beside them are not touched.
 *
 *	PITOT_PERFETTO		1: on; a path: of the service's socket; 0: off
 *	INJECTION_DATA_SOURCE_NAME, INJECTION_DATA_SOURCE_NAME_SUFFIX, INJECTION_VERBOSE
 *				as perfetto-cupti-gpu-compute and its successor have them; any of
 *				them switches it on
 *	__TRACE_STARTUP		names of data sources that the program waits for, when it begins to
 *				use CUDA or NVTX or calls pitot_init, for 30 s at most
 *
 * docs/perfetto-live.md
 */
#ifndef PITOT_CAPTURE_PERFETTO_LIVE_H
#define PITOT_CAPTURE_PERFETTO_LIVE_H

#include "capture/session.h"

/*
 * Starts the producer if the environment asks for it, or if nothing asks for anything and the CUDA
 * driver loaded this library (SESSION_BY_CUDA): then that is what it was loaded for. Waits for
 * __TRACE_STARTUP. Returns whether it runs. Thread-safe; not from within session_open.
 */
bool perfetto_live_start(enum session_way way);

/* The process ends, after session_exit: what is left is sent, for half a second at most. */
void perfetto_live_exit(void);

/*
 * In the child of a fork: the producer is the parent's; the child gets its own when it comes to
 * perfetto_live_start.
 */
void perfetto_live_after_fork(void);

#endif
