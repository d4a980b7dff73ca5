#include <inttypes.h>
#include <string.h>

#include "replay/replay_plan_state.h"

static uint32_t process_of(const struct causes *c, uint32_t task)
{
	return c->lanes.data[c->tasks.data[task].lane].process;
}

int select_process(struct plan_maker *m, struct error *e)
{
	const struct causes *c = m->c;
	uint32_t count = (uint32_t)causes_task_count(c);
	uint64_t most = 0, all = 0, chosen = 0;
	bool found = false;

	for (uint32_t first = 0, end = 0; first < count; first = end) {
		uint64_t work = 0, ns = 0;

		for (; end < count && process_of(c, end) == process_of(c, first); end++)
			if (task_is_work(&c->tasks.data[end])) {
				work++;
				ns += c->tasks.data[end].end_ns - c->tasks.data[end].start_ns + 1;
			}
		all += work;
		if (m->o->process >= 0 ? trace_process(c->trace, process_of(c, first))->pid ==
							 (uint64_t)m->o->process &&
						 ns > most
				       : ns > most) {
			m->first = first;
			m->end = end;
			chosen = work;
			most = ns;
			found = true;
		}
	}
	if (!found && m->o->process >= 0)
		return error_set(e, E_USAGE, "process %u has no GPU work in this recording",
				 (unsigned)m->o->process);
	if (!found)
		return error_set(e, E_UNSUPPORTED,
				 "there is no GPU work to replay in this recording: `pitot report` "
				 "says why");
	m->p->process = process_of(c, m->first);
	m->p->skipped[SKIP_processes] = all - chosen;
	m->p->skipped[SKIP_untimed] = c->unknown.untimed;
	return 0;
}

/* --- which work --- */

bool is_node(const struct plan_maker *m, const struct task *task)
{
	const struct event_columns *c = &m->work[task->kind];

	return task->launch != TASK_NONE && task->kind != GPU_WORK_graph_launch && c->graph &&
	       column_has(c->graph_valid, task->row) && c->graph[task->row];
}

uint32_t group_end(const struct plan_maker *m, uint32_t i)
{
	uint32_t launch = task_at(m, i)->launch;

	if (!is_node(m, task_at(m, i)))
		return i + 1;
	while (i < m->end && task_is_work(task_at(m, i)) && task_at(m, i)->launch == launch &&
	       is_node(m, task_at(m, i)))
		i++;
	return i;
}

static uint64_t call_time(const struct plan_maker *m, uint32_t i)
{
	const struct task *task = task_at(m, i);

	return task->launch == TASK_NONE ? task->start_ns : task_at(m, task->launch)->start_ns;
}

static bool is_chosen_stream(const struct plan_maker *m, uint32_t lane)
{
	bool found = !m->o->stream_count;

	for (size_t i = 0; i < m->o->stream_count; i++)
		found |= m->o->streams[i] == m->c->lanes.data[lane].id;
	return found;
}

bool is_in_flight(const struct plan_maker *m, uint32_t i)
{
	return !m->o->first_op && call_time(m, i) < m->o->since_ns &&
	       task_at(m, i)->end_ns > m->o->since_ns && is_chosen_stream(m, task_at(m, i)->lane);
}

/* Whether the work is replayed; else it is counted. */
static bool choose(struct plan_maker *m, uint32_t i, uint32_t end, uint64_t number)
{
	uint64_t ns = call_time(m, i), *skipped = m->p->skipped, in_flight = 0;

	if (!is_chosen_stream(m, task_at(m, i)->lane)) {
		skipped[SKIP_streams] += end - i;
	} else if (ns < m->o->since_ns || ns >= m->o->until_ns) {
		for (uint32_t k = i; k < end; k++)
			in_flight += is_in_flight(m, k);
		m->p->substituted[SUBSTITUTION_in_flight] += in_flight;
		skipped[SKIP_window] += end - i - in_flight;
	} else if (m->o->first_op && (number < m->o->first_op || number > m->o->last_op)) {
		skipped[SKIP_numbers] += end - i;
	} else {
		return true;
	}
	return false;
}

bool is_selected(const struct plan_maker *m, uint32_t i)
{
	const struct task *task = task_at(m, i);

	if (i < m->first || i >= m->end)
		return false;
	if (task_is_work(task))
		return m->selected[i - m->first];
	if (task->kind == TASK_JOIN)
		return i >= m->from && i <= m->to && is_chosen_stream(m, task->lane);
	return i >= m->from && task->start_ns < m->o->until_ns && (!m->o->first_op || i < m->to);
}

bool is_by_event(const struct task *task, enum edge_kind kind)
{
	return task->kind == TASK_CALL
		       ? kind == EDGE_sync_event || kind == EDGE_query || kind == EDGE_wait
		       : kind == EDGE_event;
}

/* Counts who will wait for each task by an event. */
static void count_uses(struct plan_maker *m)
{
	for (uint32_t i = m->first; i < m->end; i++) {
		const struct task *task = task_at(m, i);

		for (size_t k = task->edges; k < task[1].edges && is_selected(m, i); k++) {
			const struct task_edge *edge = &m->c->edges.data[k];

			if (!is_by_event(task, edge->kind))
				continue;
			if (is_selected(m, edge->from))
				m->uses[edge->from - m->first]++;
			else
				m->p->skipped[SKIP_waits]++;
		}
	}
}

int select_work(struct plan_maker *m, struct error *e)
{
	uint64_t start_ns = UINT64_MAX;
	uint32_t end;

	m->from = m->to = m->end;
	for (uint32_t i = m->first; i < m->end; i = end) {
		end = i + 1;
		if (!task_is_work(task_at(m, i)))
			continue;
		end = group_end(m, i);
		if (!choose(m, i, end, ++m->p->work))
			continue;
		if (m->from == m->end)
			m->from = MIN(i, task_at(m, i)->launch);
		m->to = end;
		start_ns = MIN(start_ns, call_time(m, i));
		memset(m->selected + (i - m->first), 1, end - i);
	}
	if (m->from == m->end && !m->p->substituted[SUBSTITUTION_in_flight])
		return error_set(e, E_UNSUPPORTED,
				 "these options select none of the %" PRIu64
				 " operations of the process: `pitot timeline` shows when there "
				 "were some",
				 m->p->work);
	m->p->start_ns = m->p->end_ns = m->o->since_ns ?: start_ns;
	count_uses(m);
	return 0;
}
