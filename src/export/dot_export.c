/*
 * dot_export.c: what waited for what, as a graph for Graphviz. Each thread and each stream is a
 * cluster. A task belongs to the window if it begins in it; edges from outside of it are left out.
 * The critical path of the window is red.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/output.h"
#include "base/utf8.h"
#include "export/export_path.h"
#include "export/exporter.h"

#define TASKS_SHOWN_MAX 5000u /* Graphviz takes minutes for this many */

struct dot {
	struct trace *trace;
	const struct export_options *options;
	struct export_result *result;
	struct export_path path;
	uint8_t *on_path; /* by task */
	struct strbuf out;
	uint64_t start_ns; /* of the recording */
};

/* Appends text inside of a quoted string: names are others' bytes. */
static void put_text(struct strbuf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		uint32_t character;
		size_t bad, n = utf8_decode(text + i, length - i, &character, &bad);

		if (!n || utf8_is_harmful(character))
			strbuf_adds(out, UTF8_REPLACEMENT);
		else if (character == '"' || character == '\\')
			strbuf_addf(out, "\\%c", (char)character);
		else
			strbuf_add(out, text + i, n);
		i += n ? n : bad;
	}
}

static void put_name(struct dot *d, const struct task *task)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	export_task_name(d->trace, task, &name);
	put_text(&d->out, strbuf_text(&name), name.length);
}

static void put_task(struct dot *d, uint32_t task)
{
	const struct task *of = &d->path.causes.tasks.data[task];

	strbuf_addf(&d->out, "\t\tt%u [label=\"", task);
	put_name(d, of);
	strbuf_addf(&d->out, "\\n%.3f us at %.3f us\"", (double)(of->end_ns - of->start_ns) / 1e3,
		    ((double)of->start_ns - (double)d->start_ns) / 1e3);
	strbuf_adds(&d->out, d->on_path[task] ? ", color=red, penwidth=2];\n" : "];\n");
	if (of->kind != TASK_JOIN)
		d->result->written[of->kind == TASK_CALL ? TABLE_api_call
							 : schema_gpu_work[of->kind]->id]++;
}

static void put_lane(struct dot *d, uint32_t lane)
{
	const struct task_lane *l = &d->path.causes.lanes.data[lane];
	const struct trace_process *p = trace_process(d->trace, l->process);
	bool any = false;

	for (uint32_t i = 0; i < causes_task_count(&d->path.causes); i++) {
		if (d->path.causes.tasks.data[i].lane != lane || !export_path_has(&d->path, i))
			continue;
		if (!any)
			strbuf_addf(&d->out, "\tsubgraph cluster_%u {\n\t\tlabel=\"", lane);
		if (!any && l->is_thread)
			strbuf_addf(&d->out, "process %u, thread %u\";\n", p->pid, l->id);
		else if (!any)
			strbuf_addf(&d->out, "process %u, device %u, stream %u\";\n", p->pid,
				    l->device, l->id);
		any = true;
		put_task(d, i);
	}
	if (any)
		strbuf_adds(&d->out, "\t}\n");
}

static void put_edge(struct dot *d, uint32_t from, uint32_t to, enum edge_kind kind)
{
	if (from == TASK_NONE || !export_path_has(&d->path, from) || !export_path_has(&d->path, to))
		return;
	strbuf_addf(&d->out, "\tt%u -> t%u [", from, to);
	if (kind != EDGE_program && kind != EDGE_stream)
		strbuf_addf(&d->out, "label=\"%s\"", edge_kind_texts[kind]);
	strbuf_adds(&d->out, kind == EDGE_launch ? ", style=dashed];\n" : "];\n");
	d->result->arrows++;
}

static void put_edges(struct dot *d, uint32_t i)
{
	const struct task *task = &d->path.causes.tasks.data[i];

	put_edge(d, task->previous, i, (enum edge_kind)task->order);
	put_edge(d, task->launch, i, EDGE_launch);
	for (uint32_t e = task->edges; e < task[1].edges; e++)
		put_edge(d, d->path.causes.edges.data[e].from, i,
			 (enum edge_kind)d->path.causes.edges.data[e].kind);
	if (task->flags & TASK_BLOCKS)
		put_edge(d, i, task->launch, EDGE_copy);
}

static int load(struct dot *d, struct error *e)
{
	const struct path *path = &d->path.path;
	uint64_t end_ns;
	int rc = export_path_find(&d->path, d->trace, NULL, d->options->since_ns,
				  d->options->until_ns, e);

	if (rc < 0)
		return rc;
	trace_span(d->trace, &d->start_ns, &end_ns);
	d->on_path = calloc(causes_task_count(&d->path.causes) + 1, 1);
	if (!d->on_path)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < path->pieces.count; i++)
		if (path->pieces.data[i].task != TASK_NONE &&
		    path->pieces.data[i].kind != PIECE_UNKNOWN)
			d->on_path[path->pieces.data[i].task] = 1;
	return 0;
}

static int write_graph(struct dot *d, struct error *e)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < causes_task_count(&d->path.causes); i++)
		count += export_path_has(&d->path, i);
	if (!count)
		return -ENODATA;
	if (count > TASKS_SHOWN_MAX)
		return error_set(e, -E2BIG,
				 "too many calls and pieces of work for a graph (%llu): choose at "
				 "most %u with --since and --until",
				 (unsigned long long)count, TASKS_SHOWN_MAX);
	/*
	 * Without newrank, dot cannot place clusters whose members follow each other in both
	 * directions, as those of streams do; without limits it optimizes for minutes.
	 */
	strbuf_adds(&d->out, "digraph causes {\n\trankdir=LR;\n\tnewrank=true;\n\tnslimit=1;\n"
			     "\tnslimit1=1;\n\tnode [shape=box];\n");
	for (uint32_t lane = 0; lane < d->path.causes.lanes.count; lane++)
		put_lane(d, lane);
	for (uint32_t i = 0; i < causes_task_count(&d->path.causes); i++)
		put_edges(d, i);
	strbuf_adds(&d->out, "}\n");
	return d->out.failed ? error_set(e, -ENOMEM, "out of memory") : 0;
}

int dot_write(struct trace *t, const struct export_options *options, const char *path,
	      struct export_result *result, struct error *e)
{
	struct dot d = { .trace = t, .options = options, .result = result, .out = STRBUF_INIT };
	struct output *output;
	int rc;

	*result = (struct export_result){ 0 };
	if (options->kernel || options->scope)
		return error_set(e, -EINVAL,
				 "a graph without some of its work has no dependencies: choose a "
				 "window with --since and --until, not --kernel or --scope");
	output = output_open(path, options->overwrite, e);
	if (!output)
		return e && e->code ? e->code : -EIO;
	rc = load(&d, e);
	if (rc >= 0)
		rc = write_graph(&d, e);
	if (rc >= 0) {
		output_move(output, &d.out);
		result->files = 1;
		rc = output_commit(&output, &result->bytes, e);
	}
	output_abort(&output);
	export_path_release(&d.path);
	free(d.on_path);
	strbuf_release(&d.out);
	return rc;
}
