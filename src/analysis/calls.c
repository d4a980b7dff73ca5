#include "analysis/calls.h"

#include <errno.h>
#include <string.h>

#include "schema/event_words.h"
#include "trace/columns.h"

static int load_columns(struct trace *t, struct calls *out, struct error *e)
{
	int rc = trace_load(t, TABLE_api_function, 0, e);

	if (rc >= 0)
		rc = trace_load(t, TABLE_api_call, CALLS_COLUMNS, e);
	if (rc < 0)
		return rc;
	out->rows = trace_rows(t, TABLE_api_call);
	out->start_ns = api_call_columns(t)->start_ns;
	out->end_ns = api_call_columns(t)->end_ns;
	out->functions = api_call_columns(t)->function;
	out->threads = api_call_columns(t)->thread;
	out->function_kinds = api_function_columns(t)->kind;
	out->function_count = trace_rows(t, TABLE_api_function);
	return 0;
}

int calls_join(struct trace *t, struct error *e)
{
	const uint32_t *calls;
	int rc = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++)
		if (schema_gpu_work[i]->launching_kinds && trace_rows(t, schema_gpu_work[i]->id))
			rc = trace_launches(t, schema_gpu_work[i]->id, &calls, e);
	trace_launches_done(t);
	return rc < 0 ? rc : 0;
}

int calls_load(struct trace *t, struct calls *out, struct error *e)
{
	struct calls c = { 0 };
	int rc = calls_join(t, e);

	if (rc >= 0)
		rc = load_columns(t, &c, e);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		c.launches[i] = events_of(t, schema_gpu_work[i]->id).launches;
	for (uint64_t i = 0; c.function_kinds && i < c.function_count; i++)
		c.has_all |= c.function_kinds[i] == api_kind_other;
	*out = c;
	return 0;
}

static int count_one(void *user, uint32_t process, uint32_t row)
{
	(void)process;
	(void)row;
	++*(uint64_t *)user;
	return 0;
}

int calls_count_launches(struct trace *t, uint64_t *count, struct error *e)
{
	struct calls c = { 0 };
	uint64_t found = 0;
	int rc = load_columns(t, &c, e);

	if (rc < 0)
		return rc;
	if (calls_visit(t, NULL, &c, CALLS_LAUNCH, count_one, &found) < 0)
		return error_errno(e, ENOMEM, "cannot count launches");
	*count = found;
	return 0;
}

const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length)
{
	const uint32_t *names = api_function_columns(t)->name;
	uint32_t text = function < trace_rows(t, TABLE_api_function) ? names[function] : 0;
	const char *name = trace_string(t, text);

	*length = api_name_length(name, trace_string_length(t, text));
	return name;
}

static bool has_role(const struct trace *t, const struct calls *c, uint32_t function,
		     enum call_role role)
{
	enum api_kind kind = function < c->function_count
				     ? (enum api_kind)c->function_kinds[function]
				     : api_kind_other;
	size_t length;
	const char *name;

	if (role == CALLS_ANY || kind == api_kind_untimed)
		return kind != api_kind_untimed;
	if (role == CALLS_LAUNCH)
		return kind == api_kind_launch || kind == api_kind_graph_launch;
	if (kind == api_kind_synchronize || role == CALLS_WAIT_OR_COPY)
		return kind == api_kind_synchronize || kind == api_kind_memcpy ||
		       kind == api_kind_memset;
	if (kind != api_kind_memcpy)
		return false;
	name = calls_function_name(t, function, &length);
	return !memmem(name, length, "Async", 5);
}

/* One byte per row of api_function, plus one for unknown functions; NULL: out of memory. */
static uint8_t *functions_with_role(const struct trace *t, const struct calls *c,
				    enum call_role role)
{
	uint8_t *functions = malloc(c->function_count + 1);

	for (uint32_t i = 0; functions && i <= c->function_count; i++)
		functions[i] = has_role(t, c, i, role);
	return functions;
}

int calls_visit(const struct trace *t, const struct selection *s, const struct calls *c,
		enum call_role role, int (*visit)(void *user, uint32_t process, uint32_t row),
		void *user)
{
	_cleanup_free_ uint8_t *functions = functions_with_role(t, c, role);
	struct row_walk w = s ? selection_rows(s, TABLE_api_call) : all_rows(t, TABLE_api_call);
	_cleanup_(map_release) struct map last_end =
		MAP_INIT; /* thread of this process -> end of its last call */
	uint32_t process = UINT32_MAX, thread = 0;
	uint64_t *until = NULL;
	int rc = functions ? 0 : -ENOMEM;

	while (rc >= 0 && row_walk_next(&w)) {
		if (!functions[MIN(c->functions[w.row], c->function_count)] ||
		    c->end_ns[w.row] < c->start_ns[w.row])
			continue;
		if (w.process != process) {
			process = w.process;
			map_clear(&last_end);
			until = NULL;
		}
		if (!until || c->threads[w.row] != thread)
			until = map_at(&last_end, c->threads[w.row], 0);
		thread = c->threads[w.row];
		if (!until) {
			rc = -ENOMEM;
			break;
		}
		if (c->start_ns[w.row] < *until && c->end_ns[w.row] <= *until)
			continue;
		*until = c->end_ns[w.row];
		if (!s || selection_has_time(s, true, c->start_ns[w.row]))
			rc = visit(user, process, (uint32_t)w.row);
	}
	return rc < 0 ? rc : 0;
}

/* Advances to the next table of this process, or the first of the next. False: the walk is over. */
static bool next_table(struct work_walk *w)
{
	const struct selection *s = w->selection;
	size_t tables = trace_process_count(s->trace) * GPU_WORK_KINDS;

	while (w->next_table < tables) {
		enum table_id table = schema_gpu_work[w->next_table % GPU_WORK_KINDS]->id;

		w->work = (enum gpu_work)(w->next_table % GPU_WORK_KINDS);
		w->process = w->next_table++ / GPU_WORK_KINDS;
		if (!s->processes[w->process] || !trace_rows(s->trace, table) ||
		    w->skipped >> w->work & 1)
			continue;
		w->columns = events_of(s->trace, table);
		w->next_row = trace_first_row(s->trace, table, w->process);
		w->end = trace_first_row(s->trace, table, w->process + 1);
		return true;
	}
	return false;
}

bool work_walk_next(struct work_walk *w)
{
	do {
		while (w->next_row < w->end) {
			w->row = w->next_row++;
			if (!event_is_timed(&w->columns, w->row) ||
			    !calls_select(w->calls, w->selection, &w->columns, w->work, w->row,
					  true))
				continue;
			w->call = calls_launch(w->calls, w->work, w->row);
			w->ns = w->columns.end_ns[w->row] - w->columns.start_ns[w->row];
			return true;
		}
	} while (next_table(w));
	return false;
}
