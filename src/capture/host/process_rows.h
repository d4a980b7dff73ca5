/* process_rows.h: what the operating system says about the target: process, threads, modules. Collector thread only. */
#ifndef PITOT_CAPTURE_HOST_PROCESS_ROWS_H
#define PITOT_CAPTURE_HOST_PROCESS_ROWS_H

#include <stdbool.h>

#include "format/writer.h"

/* end_ns 0: still running. The last row of a process counts. */
void host_process_row(struct writer *w, uint64_t start_ns, uint64_t end_ns);

/* Whether the main thread has ended, and all others but the calling one: nobody is left to end the process. */
bool host_is_deserted(void);

/* A thread's present name, from /proc; last_name where it has ended, "" if that is not known. */
void host_thread_row(struct writer *w, uint32_t tid, const char *last_name);

/* Rows for modules mapped since the last call. Cheap when there are none. */
void host_module_rows(struct writer *w);

/* Forgets which modules were written: for a new session after a fork. */
void host_reset(void);

#endif
