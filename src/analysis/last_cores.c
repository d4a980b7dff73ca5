/* last_cores.c: core files of GPUs (table gpu_core) beside what had not ended. */
#include "analysis/last_words.h"

#include <errno.h>
#include <string.h>

#include "analysis/callers.h"
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
		struct last_core core = { .row = (uint32_t)w.row,
					  .process = TRACE_NO_ROW,
					  .caller = CALLER_NONE };

		if (column_has(c->valid.pid, w.row))
			core.process = process_of(t, c->pid[w.row], c->time_ns[w.row]);
		if (vec_push(&out->cores, core) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Whether a piece of work is a kernel of that name and size. */
static bool is_kernel(const struct trace *t, const struct last_work *work, uint32_t row)
{
	const struct gpu_core_columns *c = gpu_core_columns(t);
	const struct kernel_config_columns *k = kernel_config_columns(t);
	uint32_t config = work->config;

	return config < trace_rows(t, TABLE_kernel_config) && column_has(c->valid.kernel, row) &&
	       !strcmp(trace_string(t, k->name[config]), trace_string(t, c->kernel[row])) &&
	       k->grid_x[config] == c->grid_x[row] && k->grid_y[config] == c->grid_y[row] &&
	       k->grid_z[config] == c->grid_z[row] && k->block_x[config] == c->block_x[row];
}

/* A launch is known by its kernel, or because it is the only one that has not ended. */
void last_cores_join(const struct trace *t, struct last_words *out)
{
	for (size_t i = 0; i < out->cores.count; i++) {
		struct last_core *core = &out->cores.data[i];

		for (size_t k = 0; k < out->processes.count; k++) {
			const struct last_process *p = &out->processes.data[k];

			if (p->process == core->process && p->open == 1 && !p->works) {
				core->caller = p->open_caller;
				core->launched_ns = p->open_ns;
			}
		}
		for (size_t k = out->works.count; k-- > 0;) {
			const struct last_work *work = &out->works.data[k];

			if (work->process != core->process || !is_kernel(t, work, core->row))
				continue;
			core->caller = work->caller;
			core->launched_ns = work->launched_ns;
		}
	}
}
