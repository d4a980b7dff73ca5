#include "export/export_path.h"

#include "analysis/calls.h"
#include "names/demangle.h"
#include "trace/columns.h"

static int load(struct trace *t, struct error *e)
{
	int rc = causes_load(t, e);

	if (rc >= 0)
		rc = trace_load(t, TABLE_kernel, COLUMN_BITS(kernel, config), e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	return rc < 0 ? rc : trace_load(t, TABLE_api_function, 0, e);
}

bool export_path_has(const struct export_path *p, uint32_t task)
{
	const struct task *of = &p->causes.tasks.data[task];

	return of->start_ns >= p->since_ns && of->start_ns < p->until_ns &&
	       (!p->processes || p->processes[p->causes.lanes.data[of->lane].process]);
}

int export_path_find(struct export_path *p, struct trace *t, const uint8_t *processes,
		     uint64_t since_ns, uint64_t until_ns, struct error *e)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0, any_ns = 0;
	int rc = load(t, e);

	*p = (struct export_path){ .since_ns = since_ns,
				   .until_ns = until_ns,
				   .processes = processes };
	if (rc < 0)
		return rc;
	rc = causes_build(&p->causes, t);
	for (uint32_t i = 0; i < causes_task_count(&p->causes); i++)
		if (export_path_has(p, i)) {
			const struct task *task = &p->causes.tasks.data[i];

			start_ns = MIN(start_ns, task->start_ns);
			any_ns = MAX(any_ns, task->end_ns);
			if (path_can_end(&p->causes, i))
				end_ns = MAX(end_ns, task->end_ns);
		}
	end_ns = end_ns ?: any_ns;
	if (rc >= 0 && end_ns > start_ns)
		rc = path_find(&p->path, &p->causes, processes, start_ns, end_ns);
	for (size_t i = 0, j = p->path.pieces.count; i + 1 < j; i++) {
		struct path_piece piece = p->path.pieces.data[i];

		p->path.pieces.data[i] = p->path.pieces.data[--j];
		p->path.pieces.data[j] = piece;
	}
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

void export_path_release(struct export_path *p)
{
	causes_release(&p->causes);
	path_release(&p->path);
}

static void add_kernel(const struct trace *t, uint32_t row, struct strbuf *out)
{
	uint32_t config = kernel_columns(t)->config[row];

	if (config != TRACE_NO_ROW)
		kernel_name_short(trace_string(t, kernel_config_columns(t)->name[config]), out);
}

void export_task_name(const struct trace *t, const struct task *task, struct strbuf *out)
{
	const struct column_schema *kind = &schema_table(TABLE_memcpy)->columns[COLUMN_memcpy_kind];
	const char *name;
	size_t length;

	switch (task->kind) {
	case GPU_WORK_kernel:
		add_kernel(t, task->row, out);
		break;
	case GPU_WORK_memcpy:
		name = schema_value_name(kind, memcpy_columns(t)->kind[task->row]);
		strbuf_addf(out, "copy %s", name ? name : "");
		break;
	case TASK_CALL:
		name = calls_function_name(t, api_call_columns(t)->function[task->row], &length);
		strbuf_add(out, name, length);
		break;
	case TASK_JOIN:
		strbuf_adds(out, "all of");
		break;
	default:
		strbuf_adds(out, task->kind == GPU_WORK_memset ? "memory set" : "graph");
	}
}

void export_piece_name(const struct export_path *p, const struct path_piece *piece,
		       struct strbuf *out)
{
	const struct task *task =
		piece->task == TASK_NONE ? NULL : &p->causes.tasks.data[piece->task];

	if (!task || piece->kind == PIECE_UNKNOWN) {
		strbuf_adds(out, "unknown");
		return;
	}
	if (piece->kind == PIECE_LATENCY) {
		strbuf_adds(out, edge_kind_texts[piece->edge]);
		return;
	}
	strbuf_adds(out, piece->kind == PIECE_HOST ? "host before " : "");
	export_task_name(p->causes.trace, task, out);
}
