/*
 * cpu_samples.c: decides which CPU samples count, for every reader.
 *
 * Timers inside a process can sample it beside perf events outside (table cpu_span). Each records
 * all that it sees, and neither knows of the other. The rules, by which no CPU time counts twice
 * and none is missing:
 *
 * - While timers sample a process, its samples from outside do not count.
 * - Rows from outside without a processor are CPU time that only the perf events have no sample
 *   for. If timers have sampled the process at all, these rows do not count either.
 * - Instead, when the process has ended, the kernel's count of its CPU time minus all rows that
 *   count is one row without a stack. It takes the place of a row that does not count: without one,
 *   perf events have seen all CPU time outside of the timers' spans.
 *
 * Recordings in which no process is sampled twice are not touched, nor are early ones, whose
 * samplers have dropped these rows themselves.
 */
#include "trace/trace_state.h"

#include <errno.h>
#include <string.h>

#include "base/search.h"

#define NO_SLOT UINT64_MAX

struct span {
	uint32_t machine, pid; /* machine: boot id */
	uint64_t start_ns, end_ns;
	/* of perf events: */
	uint64_t cpu_ns;
	uint64_t sampled_ns; /* in rows that count */
	uint64_t slot; /* a row that does not count; NO_SLOT: none */
	bool has_timers;
};

struct span_list {
	VEC(struct span) items; /* by machine, pid and start */
};

struct resolution {
	struct trace *t;
	struct span_list timers, ended; /* ended: processes, by perf events */
	const struct row_column *columns; /* of cpu_sample */
	uint8_t *dropped;
};

ORDER(compare_spans, struct span, UP(machine) ?: UP(pid) ?: UP(start_ns))

/* Returns the process's last span that begins at this time or before, or NULL. */
static struct span *last_span(const struct span_list *list, uint32_t machine, uint32_t pid,
			      uint64_t time_ns)
{
	const struct span wanted = { .machine = machine, .pid = pid, .start_ns = time_ns };
	size_t count = sorted_prefix(list->items.count, i,
				     compare_spans(&list->items.data[i], &wanted) <= 0);
	struct span *found = count ? &list->items.data[count - 1] : NULL;

	return found && found->machine == machine && found->pid == pid ? found : NULL;
}

static struct span *span_at(const struct span_list *list, uint32_t machine, uint32_t pid,
			    uint64_t time_ns)
{
	struct span *found = last_span(list, machine, pid, time_ns);

	return found && time_ns <= found->end_ns ? found : NULL;
}

/* Whether timers began to sample the process in this interval. */
static bool timers_began(const struct resolution *s, uint32_t machine, uint32_t pid,
			 uint64_t start_ns, uint64_t end_ns)
{
	const struct span *timers = last_span(&s->timers, machine, pid, end_ns);

	return timers && timers->start_ns >= start_ns;
}

/* --- the spans --- */

/* A span is written when it begins, and again when it ends: the last row is valid. */
static int add_spans(struct resolution *s)
{
	const struct cpu_span_columns *c = cpu_span_columns(s->t);

	for (uint64_t row = 0; row < trace_rows(s->t, TABLE_cpu_span); row++) {
		size_t process = trace_row_process(s->t, TABLE_cpu_span, row);
		bool by_timers = c->method[row] == sampling_method_timer;
		struct span_list *list = by_timers ? &s->timers : &s->ended;
		struct span span = {
			.machine = trace_process(s->t, process)->boot_id,
			.pid = c->pid[row],
			.start_ns = c->start_ns[row],
			.end_ns = column_has(c->valid.end_ns, row) ? c->end_ns[row] : UINT64_MAX,
			.cpu_ns = c->cpu_ns[row],
			.slot = NO_SLOT,
		};
		struct span *last =
			list->items.count ? &list->items.data[list->items.count - 1] : NULL;

		if (!by_timers &&
		    (c->method[row] != sampling_method_perf_events ||
		     !column_has(c->valid.cpu_ns, row) || !column_has(c->valid.end_ns, row)))
			continue;
		if (last && compare_spans(last, &span) == 0)
			*last = span;
		else if (vec_push(&list->items, span) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void release(struct resolution *s)
{
	vec_release(&s->timers.items);
	vec_release(&s->ended.items);
	free(s->dropped);
}

int cpu_samples_overlap(struct trace *t, struct error *e)
{
	int result = trace_load(t, TABLE_cpu_span, 0, e);
	bool outside = false, inside = false;

	for (size_t i = 0; i < t->processes.count; i++)
		outside |= t->processes.data[i].sampler && !t->processes.data[i].imported;
	for (uint64_t row = 0; result == 0 && row < trace_rows(t, TABLE_cpu_span); row++)
		inside |= cpu_span_columns(t)->method[row] == sampling_method_timer;
	return result < 0 ? result : outside && inside;
}

/* --- the rows --- */

static uint64_t *time_of(const struct resolution *s, uint64_t row)
{
	return (uint64_t *)s->columns[COLUMN_cpu_sample_time_ns].values + row;
}

static uint64_t *weight_of(const struct resolution *s, uint64_t row)
{
	return (uint64_t *)s->columns[COLUMN_cpu_sample_weight_ns].values + row;
}

static uint32_t *thread_of(const struct resolution *s, uint64_t row)
{
	return (uint32_t *)s->columns[COLUMN_cpu_sample_thread].values + row;
}

/*
 * The process that a row from outside without a processor belongs to: a process without segments is
 * a thread of another one.
 */
static struct span *ended_process(const struct resolution *s, const struct trace_process *p,
				  uint64_t row)
{
	struct span *other = NULL;

	if (*thread_of(s, row) != p->pid)
		other = span_at(&s->ended, p->boot_id, *thread_of(s, row), *time_of(s, row));
	return other ? other : span_at(&s->ended, p->boot_id, p->pid, *time_of(s, row));
}

static void resolve_outside(struct resolution *s, const struct trace_process *p, uint64_t row)
{
	uint64_t time_ns = *time_of(s, row);
	const uint8_t *has_cpu = s->columns[COLUMN_cpu_sample_cpu].valid;
	struct span *process = span_at(&s->ended, p->boot_id, p->pid, time_ns);
	const struct span *timers = span_at(&s->timers, p->boot_id, p->pid, time_ns);

	if (has_cpu && !has_cpu[row]) {
		process = ended_process(s, p, row);
		s->dropped[row] =
			process ? process->has_timers
				: timers_began(s, p->boot_id, p->pid, p->start_ns, p->end_ns);
	} else {
		/* Timers without an end were those of an earlier image. */
		s->dropped[row] = timers && timers->start_ns >= p->start_ns;
	}
	if (process && s->dropped[row])
		process->slot = row;
	else if (process)
		process->sampled_ns += *weight_of(s, row);
}

static void resolve_row(struct resolution *s, const struct trace_process *p, uint64_t row)
{
	struct span *process;

	if (p->sampler) {
		resolve_outside(s, p, row);
		return;
	}
	process = span_at(&s->ended, p->boot_id, p->pid, *time_of(s, row));
	if (process)
		process->sampled_ns += *weight_of(s, row);
}

/* Makes the row CPU time of the process without a stack. */
static void fill_slot(struct resolution *s, const struct span *process)
{
	static const int unknown[] = { COLUMN_cpu_sample_cpu, COLUMN_cpu_sample_stack };
	uint64_t row = process->slot;

	s->dropped[row] = false;
	*time_of(s, row) = process->end_ns;
	*weight_of(s, row) = process->cpu_ns - process->sampled_ns;
	*thread_of(s, row) = process->pid;
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		memset(s->columns[unknown[i]].values + row * sizeof(uint32_t), 0, sizeof(uint32_t));
		s->columns[unknown[i]].valid[row] = false;
	}
}

static void resolve_table(struct resolution *s, const struct table_data *table)
{
	for (size_t i = 0; i < table->items.count; i++) {
		const struct block_item *item = &table->items.data[i];
		const struct trace_process *p =
			&s->t->processes.data[item_session(s->t, item)->process];

		for (uint64_t row = item->row;
		     item->state != BLOCK_DAMAGED && row < item->row + item->rows; row++)
			resolve_row(s, p, row);
	}
	for (size_t i = 0; i < s->ended.items.count && !table->is_partial; i++) {
		const struct span *process = &s->ended.items.data[i];

		if (process->slot != NO_SLOT && process->cpu_ns > process->sampled_ns)
			fill_slot(s, process);
	}
}

int cpu_samples_resolve(struct trace *t, const struct row_column *columns, struct error *e)
{
	struct table_data *table = &t->tables[TABLE_cpu_sample];
	struct resolution s = { .t = t, .columns = columns, .dropped = calloc(table->rows + 1, 1) };
	int result = s.dropped ? add_spans(&s) : -ENOMEM;

	vec_sort(&s.timers.items, compare_spans);
	vec_sort(&s.ended.items, compare_spans);
	for (size_t i = 0; i < s.ended.items.count; i++) {
		struct span *process = &s.ended.items.data[i];

		process->has_timers = timers_began(&s, process->machine, process->pid,
						   process->start_ns, process->end_ns);
	}
	if (result == 0) {
		resolve_table(&s, table);
		result = rows_drop(t, table, columns, COLUMNS_cpu_sample, s.dropped, e);
	}
	release(&s);
	return result;
}
