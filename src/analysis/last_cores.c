/* last_cores.c: core files of GPUs (table gpu_core) beside what had not ended. */
#include "analysis/last_words.h"

#include <errno.h>

#include "analysis/filter.h"
#include "trace/columns.h"

/*
 * The last process with that id that had begun, or else the first; TRACE_NO_ROW: it was not
 * recorded.
 */
static uint32_t process_of(const struct trace *t, uint32_t pid, uint64_t time_ns)
{
	uint32_t found = TRACE_NO_ROW;

	for (uint32_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->inside && !p->sampler && p->pid == pid &&
		    (found == TRACE_NO_ROW || p->start_ns <= time_ns))
			found = i;
	}
	return found;
}

int last_cores_find(const struct trace *t, struct last_words *out)
{
	const struct gpu_core_columns *c = gpu_core_columns(t);

	for (struct row_walk w = all_rows(t, TABLE_gpu_core); row_walk_next(&w);) {
		struct last_core core = { .row = (uint32_t)w.row, .process = TRACE_NO_ROW };

		if (column_has(c->valid.pid, w.row))
			core.process = process_of(t, c->pid[w.row], c->time_ns[w.row]);
		if (vec_push(&out->cores, core) < 0)
			return -ENOMEM;
	}
	return 0;
}
