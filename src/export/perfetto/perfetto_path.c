/*
 * perfetto_path.c: the critical path as a track of its own. A slice that is GPU work has the arrow
 * to it that calls have to the work that they launch; one that is a call has a flow to the call's
 * slice.
 */
#include "export/perfetto/perfetto_rows.h"

#include <errno.h>

#include "trace/columns.h"

#define FIELD_FLOWS 47
#define FIELD_ARROWS 3000

int perfetto_path_init(struct perfetto *p)
{
	const struct path *path = &p->merge.path.path;
	int rc = 0;

	for (size_t i = 0; i < path->pieces.count && rc >= 0; i++) {
		const struct path_piece *piece = &path->pieces.data[i];

		if (piece->kind == PIECE_CALL)
			rc = map_add(&p->path_calls,
				     p->merge.path.causes.tasks.data[piece->task].row);
	}
	return rc < 0 ? rc : 0;
}

void perfetto_path_release(struct perfetto *p)
{
	perfetto_slices_release(&p->path);
	map_release(&p->path_calls);
}

static uint64_t flow_of(const struct perfetto *p, uint64_t call)
{
	return hash_u64(p->event_base ^ call);
}

void perfetto_path_add_flow(struct perfetto *p, uint64_t call, struct strbuf *out)
{
	uint64_t value;

	if (p->path_calls.count && map_get(&p->path_calls, call, &value))
		proto_fixed64(out, FIELD_FLOWS, flow_of(p, call));
}

static void describe(struct perfetto *p)
{
	static const char name[] = "critical path";

	if (!p->path.sequence.id) {
		p->path.sequence.id = ++p->export.sequences;
		p->path.uuid = hash_u64(p->event_base);
	}
	if (!p->path.sequence.started)
		perfetto_track_descriptor(
			&p->out, p->path.sequence.id,
			&(struct perfetto_track_descriptor){ .uuid = p->path.uuid,
							     .pid = -1,
							     .tid = -1,
							     .name = name,
							     .name_length = sizeof(name) - 1 });
}

static void add_links(struct perfetto *p, const struct path_piece *piece)
{
	const struct task *task;
	size_t token;

	if (piece->kind != PIECE_WORK && piece->kind != PIECE_CALL)
		return;
	task = &p->merge.path.causes.tasks.data[piece->task];
	if (piece->kind == PIECE_CALL) {
		perfetto_path_add_flow(p, task->row, &p->out);
		return;
	}
	token = proto_open(&p->out, FIELD_ARROWS);
	proto_uint(
		&p->out, 1,
		perfetto_work_id(p, work_number(&p->view, &p->view.work[task->kind], task->row)));
	proto_close(&p->out, token);
}

int perfetto_path(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct path_piece *piece = &p->merge.path.path.pieces.data[event->row];
	struct perfetto_slice slice = { .time_ns = event->start_ns, .category = CATEGORY_PATH };
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct open_slice open;

	export_piece_name(&p->merge.path, piece, &name);
	slice.name = (struct track_name){ hash_bytes(strbuf_text(&name), name.length),
					  strbuf_text(&name), name.length };
	describe(p);
	if (name.failed || perfetto_slice_begin(&p->path, &p->out, &slice, &open) < 0)
		return -ENOMEM;
	add_links(p, piece);
	perfetto_slice_close(&open);
	perfetto_slice_end(&p->path, &p->out, 0, event->end_ns);
	return EXPORT_UNCOUNTED;
}
