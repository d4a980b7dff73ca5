#include "analysis/cpu_moments.h"

#include "trace/columns.h"

struct cpu_moment cpu_moment_of(const struct trace *t, enum table_id table, uint32_t process,
				uint64_t row)
{
	const struct cpu_sample_columns *on = cpu_sample_columns(t);
	const struct off_cpu_columns *off = off_cpu_columns(t);
	uint64_t start_ns, end_ns;

	if (table == TABLE_cpu_sample)
		return (struct cpu_moment){
			.start_ns = on->time_ns[row],
			.weight_ns = on->weight_ns[row],
			.process = process,
			.thread = on->thread[row],
			.stack = column_has(on->valid.stack, row) ? on->stack[row] : 0,
			.cpu = column_has(on->valid.cpu, row) ? (int32_t)on->cpu[row] : -1,
		};
	start_ns = off->start_ns[row];
	end_ns = MAX(off->end_ns[row], start_ns);
	return (struct cpu_moment){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.weight_ns = end_ns - start_ns,
		.process = process,
		.thread = off->thread[row],
		.stack = column_has(off->valid.stack, row) ? off->stack[row] : 0,
		.cpu = -1,
		.state = off->state[row] < OFF_CPU_STATES ? off->state[row] : off_cpu_state_unknown,
	};
}
