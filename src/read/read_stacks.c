#include "read/read_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/columns.h"

static int stack_column(const struct table_schema *table)
{
	return schema_column_by_name(table, "stack");
}

bool read_stacks_available(const struct table_schema *table)
{
	return stack_column(table) >= 0 || table->launching_kinds;
}

static int add_name(struct read_stacks *s, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int64_t number;

	strbuf_add_utf8(&text, name, strlen(name));
	number = text.failed ? -ENOMEM
			     : interner_add(&s->texts, strbuf_text(&text), text.length, NULL);
	return number < 0 ? -ENOMEM : vec_push(&s->names, (uint32_t)number);
}

/* Appends the names of a stack's frames; each function inlined at an address is a frame. */
static int add_stack(struct read_stacks *s, size_t process, uint32_t id, bool of_call)
{
	struct export_stacks *x = &s->export;
	struct stack_frames frames = { .first = s->names.count };

	if (export_stacks_find(x, process, id, of_call) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < x->frames.count; i++) {
		uint32_t frame = x->frames.data[i];

		for (size_t line = MAX(x->stacks.frames.data[frame].line_count, 1); line-- > 0;)
			if (add_name(s, export_frame_name(x, frame, line)) < 0)
				return -ENOMEM;
	}
	frames.count = s->names.count - frames.first;
	return vec_push(&s->stacks, frames);
}

struct stack_source {
	const uint32_t *ids;
	const uint8_t *valid;
	const uint32_t *rows; /* of api_call, which have the stacks; NULL: the table's own rows */
	bool of_call;
};

static int find_of_process(struct read_stacks *s, struct trace *t, enum table_id table,
			   const struct stack_source *source, size_t process)
{
	_cleanup_(map_release) struct map known = MAP_INIT;
	int rc = 0;

	for (uint64_t row = trace_first_row(t, table, process);
	     row < trace_first_row(t, table, process + 1) && rc >= 0; row++) {
		uint64_t from = source->rows ? source->rows[row] : row, *slot;

		s->stack_of_row[row] = TRACE_NO_ROW;
		if (from == TRACE_NO_ROW || !column_has(source->valid, from) || !source->ids[from])
			continue;
		slot = map_at(&known, source->ids[from], s->stacks.count);
		if (!slot)
			rc = -ENOMEM;
		else if (*slot == s->stacks.count)
			rc = add_stack(s, process, source->ids[from], source->of_call);
		if (rc >= 0)
			s->stack_of_row[row] = (uint32_t)*slot;
	}
	return rc;
}

static int find_source(struct trace *t, const struct table_schema *table,
		       struct stack_source *source, struct error *e)
{
	int column = stack_column(table), rc;
	enum table_id id = table->id;

	if (column < 0) {
		rc = trace_launches(t, table->id, &source->rows, e);
		id = TABLE_api_call;
		column = COLUMN_api_call_stack;
		if (rc < 0)
			return rc;
	}
	rc = trace_load(t, id, UINT64_C(1) << column, e);
	source->ids = trace_u32(t, id, column);
	source->valid = trace_valid(t, id, column);
	source->of_call = id == TABLE_api_call || id == TABLE_graph_node;
	return rc;
}

int read_stacks_load(struct read_stacks *s, struct trace *t, const struct table_schema *table,
		     struct error *e)
{
	struct stack_source source = { 0 };
	int rc = s->stack_of_row ? 0 : find_source(t, table, &source, e);

	if (rc < 0 || s->stack_of_row)
		return rc;
	interner_init(&s->texts);
	rc = export_stacks_init(&s->export, t, e);
	if (rc < 0)
		return rc;
	s->stack_of_row = malloc((trace_rows(t, table->id) + 1) * sizeof(*s->stack_of_row));
	if (!s->stack_of_row)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t p = 0; p < trace_process_count(t) && rc >= 0 && source.ids; p++)
		rc = find_of_process(s, t, table->id, &source, p);
	if (!source.ids)
		for (uint64_t row = 0; row < trace_rows(t, table->id); row++)
			s->stack_of_row[row] = TRACE_NO_ROW;
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

void read_stacks_release(struct read_stacks *s)
{
	export_stacks_release(&s->export);
	interner_release(&s->texts);
	vec_release(&s->names);
	vec_release(&s->stacks);
	free(s->stack_of_row);
}
