#include "export/chrome/chrome_writer.h"

#include <errno.h>

/* Above every thread id of Linux, above SYNC_TID and the usual streams. */
#define FREE_TID 5000000u

void chrome_rows_release(struct chrome *c)
{
	struct chrome_rows *r = &c->rows;

	for (size_t i = 0; i < r->items.count; i++) {
		lanes_release(&r->items.data[i]->lanes);
		vec_release(&r->items.data[i]->tids);
		free(r->items.data[i]);
	}
	vec_release(&r->items);
	map_release(&r->contexts);
	map_release(&r->index);
	map_release(&r->tids);
}

static bool is_gpu_row(enum row_kind kind)
{
	return kind == ROW_STREAM || kind == ROW_SYNC || kind == ROW_EVENTS || kind == ROW_RANGES;
}

static void write_arguments(struct chrome *c, struct chrome_row *row)
{
	struct strbuf *s = &c->out;
	size_t from, length;

	from = s->length;
	if (row->kind == ROW_STREAM) {
		TEXT(s, "\"device\":");
		text_u64(s, row->pid);
		TEXT_U64(s, "context", row->context);
		TEXT_U64(s, "stream", row->id);
		TEXT(s, ",\"correlation\":");
	} else {
		TEXT_U64(s, "pid", row->pid);
		TEXT(s, ",\"tid\":");
	}
	if (s->failed)
		return;
	length = s->length - from;
	memcpy(row->arguments, s->data + from, length);
	row->arguments_length = (uint8_t)length;
	s->length = from;
}

static struct chrome_row *new_row(struct chrome *c, enum row_kind kind, uint32_t process,
				  uint32_t context, uint32_t id, size_t gpu)
{
	struct chrome_row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	row->kind = kind;
	row->process = process;
	row->context = context;
	row->id = id;
	row->lanes.exclusive = is_gpu_row(kind) && kind != ROW_RANGES;
	if (is_gpu_row(kind))
		row->pid = (uint32_t)gpu;
	else
		row->pid = kind == ROW_OVERHEAD ? OVERHEAD_PID : c->view.processes[process].pid;
	if (kind == ROW_STREAM || kind == ROW_THREAD)
		write_arguments(c, row);
	if (vec_push(&c->rows.items, row) < 0) {
		free(row);
		return NULL;
	}
	return row;
}

/*
 * Rows of contexts are told apart by a number for the context, others by their process. 0 without
 * memory.
 */
static uint64_t owner_of(struct chrome_rows *r, enum row_kind kind, uint32_t process,
			 uint32_t context)
{
	if (!is_gpu_row(kind))
		return process + 1;
	return map_number(&r->contexts, (uint64_t)process << 32 | context);
}

struct chrome_row *chrome_row(struct chrome *c, enum row_kind kind, uint32_t process,
			      uint32_t context, uint32_t id, size_t gpu)
{
	struct chrome_rows *r = &c->rows;
	struct chrome_row *row = r->last_thread;
	uint64_t owner, *position;

	process = c->view.processes[process].owner;
	if (row && kind == ROW_THREAD && row->id == id && row->process == process)
		return row;
	owner = owner_of(r, kind, process, context);
	if (!owner)
		return NULL;
	position = map_at(&r->index, (uint64_t)kind << 60 | owner << 32 | id, UINT64_MAX);
	if (!position)
		return NULL;
	if (*position == UINT64_MAX) {
		*position = r->items.count;
		if (!new_row(c, kind, process, context, id, gpu))
			return NULL;
	}
	row = r->items.data[*position];
	if (kind == ROW_THREAD)
		r->last_thread = row;
	return row;
}

/* The tid that a row's first lane should have, or -1. */
static int64_t wanted_tid(const struct chrome_row *row)
{
	switch (row->kind) {
	case ROW_EVENTS:
	case ROW_RANGES:
	case ROW_MEMORY:
		return -1;
	case ROW_SYNC:
		return row->id == NO_STREAM ? SYNC_TID : (int64_t)row->id + SYNC_TID;
	default:
		return row->id;
	}
}

/*
 * Takes a tid that nobody has in this pid. Readers take tid 0 of a pid that is not 0 for the pid
 * itself.
 */
static int take_tid(struct chrome *c, uint32_t pid, int64_t wanted, uint32_t *tid)
{
	uint64_t taken = 0;

	if (wanted < 0 || wanted > UINT32_MAX || (wanted == 0 && pid != 0) ||
	    map_get(&c->rows.tids, (uint64_t)pid << 32 | (uint64_t)wanted, &taken))
		wanted = FREE_TID + c->rows.free_tids++;
	*tid = (uint32_t)wanted;
	return map_put(&c->rows.tids, (uint64_t)pid << 32 | *tid, 1);
}

static void name_thread(struct chrome *c, const struct chrome_row *row, struct strbuf *name)
{
	size_t length;
	const char *text = export_thread_name(&c->view, row->process, row->id, &length);

	strbuf_addf(name, "thread %u", row->id);
	if (!text)
		return;
	strbuf_adds(name, " (");
	strbuf_add(name, text, length);
	strbuf_adds(name, ")");
}

static void name_row(struct chrome *c, const struct chrome_row *row, struct strbuf *name)
{
	switch (row->kind) {
	case ROW_THREAD:
	case ROW_OVERHEAD:
		name_thread(c, row, name);
		return;
	case ROW_MEMORY:
		strbuf_adds(name, "CUDA memory");
		return;
	case ROW_SYNC:
		if (row->id == NO_STREAM)
			strbuf_addf(name, "context %u (sync)", row->context);
		else
			strbuf_addf(name, "stream %u (sync)", row->id);
		break;
	case ROW_EVENTS:
		strbuf_addf(name, "stream %u (events)", row->id);
		break;
	case ROW_RANGES:
		strbuf_addf(name, "stream %u (NVTX)", row->id);
		break;
	case ROW_STREAM:
		strbuf_addf(name, "stream %u ", row->id);
		break;
	}
	if (c->view.many_contexts && row->id != NO_STREAM)
		strbuf_addf(name, "%scontext %u", row->kind == ROW_STREAM ? "" : " ", row->context);
	if (c->view.gpu_process == NO_PROCESS)
		strbuf_addf(name, "%s(%s)", row->kind == ROW_STREAM ? "" : " ",
			    c->view.processes[row->process].title);
}

static int name_lane(struct chrome *c, struct chrome_row *row)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t tid;

	if (take_tid(c, row->pid, row->tids.count ? -1 : wanted_tid(row), &tid) < 0 ||
	    vec_push(&row->tids, tid) < 0)
		return -ENOMEM;
	name_row(c, row, &name);
	if (name.failed)
		return -ENOMEM;
	chrome_metadata(c, "thread_name", "name", row->pid, tid, name.data, name.length, 0);
	chrome_metadata(c, "thread_sort_index", "sort_index", row->pid, tid, NULL, 0,
			row->id == NO_STREAM ? 0 : row->id);
	return 0;
}

int chrome_row_place(struct chrome *c, struct chrome_row *row, uint64_t start_ns, uint64_t end_ns,
		     uint32_t *tid)
{
	int lane = row ? lanes_place(&row->lanes, start_ns, end_ns) : -ENOMEM;

	if (lane < 0)
		return lane;
	while (row->tids.count <= (size_t)lane)
		if (name_lane(c, row) < 0)
			return -ENOMEM;
	*tid = row->tids.data[lane];
	return 0;
}
