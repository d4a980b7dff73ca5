/*
 * perfetto_live.h: registers the process as a producer with Perfetto's tracing service. While
 * nobody traces, one thread sleeps and nothing of Pitot is in the program's calls. Each data source
 * that a session of the service starts is a session of the recorder (session.h), whose sink makes
 * packets; recordings beside it are not affected.
 *
 *	PITOT_PERFETTO		1: on; a path: the service's socket; 0: off
 *	INJECTION_DATA_SOURCE_NAME, INJECTION_DATA_SOURCE_NAME_SUFFIX, INJECTION_VERBOSE
 *				have the meaning that perfetto-cupti-gpu-compute and its successor
 *				give them; any of them switches this on. INJECTION_VERBOSE also
 *				prints GPU work to standard output
 *	__TRACE_STARTUP		names of data sources that the program waits for when it begins to
 *				use CUDA or NVTX or calls pitot_init, at most 30 s
 *
 * See docs/perfetto-live.md
 */
#ifndef PITOT_CAPTURE_PERFETTO_LIVE_H
#define PITOT_CAPTURE_PERFETTO_LIVE_H

#include "capture/core/session.h"

/*
 * Starts the producer if the environment requests it, or if the environment requests nothing at all
 * and a GPU's runtime loaded this library (SESSION_BY_nvidia): it was loaded for tracing then.
 * Waits for __TRACE_STARTUP. Returns whether the producer runs. Thread-safe; must not be called
 * from within session_open.
 */
bool perfetto_live_start(enum session_trigger trigger);

/* Called at exit, after session_exit: sends what is left, for at most half a second. */
void perfetto_live_exit(void);

#endif
