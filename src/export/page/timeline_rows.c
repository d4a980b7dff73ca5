#include "export/page/timeline.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define ROWS_MAX 512 /* per track */

static bool is_gpu_track(enum timeline_track_kind kind)
{
	return kind == TIMELINE_STREAM_RANGES || kind == TIMELINE_STREAM || kind == TIMELINE_EVENTS;
}

/*
 * Returns the owner of a track; 0 if out of memory. Counters of a GPU belong to the GPU, no matter
 * which process samples them.
 */
static uint64_t owner_of(struct timeline *t, enum timeline_track_kind kind, uint32_t process,
			 uint32_t context, size_t gpu)
{
	if (is_gpu_track(kind))
		return map_number(&t->contexts, (uint64_t)process << 32 | context);
	return gpu < t->view.gpus.count ? t->view.process_count + 1 + gpu : process + 1;
}

struct timeline_track *timeline_track(struct timeline *t, enum timeline_track_kind kind,
				      uint32_t process, uint32_t context, uint32_t id, size_t gpu)
{
	struct timeline_track *track;
	uint64_t owner;
	bool of_gpu = gpu < t->view.gpus.count, is_new;

	process = t->view.processes[process].owner;
	owner = owner_of(t, kind, process, context, gpu);
	track = owner ? tracks_at(&t->tracks, (uint64_t)kind << 60 | owner << 32 | id,
				  sizeof(*track), &is_new)
		      : NULL;
	if (!track || !is_new)
		return track;
	*track = (struct timeline_track){
		.kind = kind,
		.number = (uint32_t)t->tracks.items.count - 1,
		.group = (uint32_t)(of_gpu ? gpu : t->view.gpus.count + process),
		.process = process,
		.context = context,
		.id = id,
		.lanes.exclusive = kind == TIMELINE_STREAM,
	};
	return track;
}

static void release_row(struct timeline_row *row)
{
	for (size_t c = 0; c < ROW_COLUMNS; c++)
		strbuf_release(&row->columns[c]);
	vec_release(&row->blocks);
}

void timeline_rows_release(struct timeline *t)
{
	for (size_t i = 0; i < t->tracks.items.count; i++) {
		struct timeline_track *track = (struct timeline_track *)t->tracks.items.data[i];

		for (size_t r = 0; r < track->rows.count; r++)
			release_row(&track->rows.data[r]);
		vec_release(&track->rows);
		vec_release(&track->open);
	}
	tracks_release(&t->tracks);
	map_release(&t->contexts);
}

/* Finds or adds a row. Returns 0, -E2BIG or -ENOMEM. */
static int find_row(struct timeline_track *track, uint32_t lane, size_t depth,
		    struct timeline_row **out)
{
	struct timeline_row row = { .lane = lane, .depth = (uint32_t)depth };

	for (size_t i = 0; i < track->rows.count; i++) {
		*out = &track->rows.data[i];
		if ((*out)->lane == lane && (*out)->depth == depth)
			return 0;
	}
	if (track->rows.count == ROWS_MAX)
		return -E2BIG;
	if (vec_push(&track->rows, row) < 0)
		return -ENOMEM;
	*out = &track->rows.data[track->rows.count - 1];
	return 0;
}

static void add_number(struct strbuf *column, uint64_t v)
{
	if (strbuf_reserve(column, VARINT_MAX))
		column->length += varint_put((uint8_t *)column->data + column->length, v);
}

/* Adds the next slice to the last block of the row, or to a new one. Returns 0 or -ENOMEM. */
static int add_to_block(const struct timeline *t, struct timeline_row *row, uint64_t start_ns,
			uint64_t end_ns, uint32_t class, uint64_t correlation)
{
	struct timeline_block *b;

	if (row->count % BLOCK_SLICES == 0) {
		if (vec_push(&row->blocks,
			     ((struct timeline_block){ .start_ns = start_ns,
						       .before_ns = row->count ? row->end_ns
									       : t->base_ns,
						       .before_correlation = row->correlation,
						       .least_correlation = UINT64_MAX,
						       .class = class })) < 0)
			return -ENOMEM;
		b = &row->blocks.data[row->blocks.count - 1];
		for (size_t c = 0; c < ROW_COLUMNS; c++)
			b->at[c] = row->columns[c].length;
	}
	b = &row->blocks.data[row->blocks.count - 1];
	b->count++;
	b->end_ns = end_ns;
	b->busy_ns += end_ns - start_ns;
	if (end_ns - start_ns > b->longest_ns) {
		b->longest_ns = end_ns - start_ns;
		b->class = class;
	}
	if (correlation) {
		b->least_correlation = MIN(b->least_correlation, correlation);
		b->most_correlation = MAX(b->most_correlation, correlation);
	}
	return 0;
}

/* Begins the next slice or sample of a row. Returns 0 or -ENOMEM. */
static int begin_next(struct timeline *t, struct timeline_row *row, uint64_t start_ns,
		      uint64_t end_ns, uint32_t class, uint64_t correlation)
{
	if (t->is_served && add_to_block(t, row, start_ns, end_ns, class, correlation) < 0)
		return -ENOMEM;
	add_number(&row->columns[COLUMN_GAP], start_ns - (row->count ? row->end_ns : t->base_ns));
	row->count++;
	row->end_ns = end_ns;
	t->end_ns = MAX(t->end_ns, end_ns);
	return 0;
}

static int add_slice(struct timeline *t, struct timeline_row *row, uint64_t start_ns,
		     uint64_t end_ns, int64_t class, uint64_t correlation)
{
	if (begin_next(t, row, start_ns, end_ns, (uint32_t) class, correlation) < 0)
		return -ENOMEM;
	add_number(&row->columns[COLUMN_DURATION], end_ns - start_ns);
	add_number(&row->columns[COLUMN_CLASS], (uint64_t) class);
	add_number(&row->columns[COLUMN_CORRELATION],
		   correlation ? 1 + zigzag((int64_t)(correlation - row->correlation)) : 0);
	if (correlation)
		row->correlation = correlation;
	return 0;
}

int timeline_slice(struct timeline *t, struct timeline_track *track,
		   const struct export_event *event, int64_t class, uint64_t correlation)
{
	int lane = track && class >= 0 ? lanes_add(&track->lanes, event->start_ns, event->end_ns)
				       : -ENOMEM;
	struct timeline_row *row;
	int r;

	if (lane < 0)
		return lane;
	r = find_row(track, (uint32_t)lane, track->lanes.items.data[lane].ends.count - 1, &row);
	if (r < 0)
		return r;
	track->last_row = (size_t)(row - track->rows.data);
	return add_slice(t, row, event->start_ns, event->end_ns, class, correlation);
}

int timeline_put(struct timeline *t, struct timeline_track *track, uint32_t lane, size_t depth,
		 uint64_t start_ns, uint64_t end_ns, int64_t class)
{
	struct timeline_row *row;
	int r = class < 0 ? -ENOMEM : find_row(track, lane, depth, &row);

	if (r < 0)
		return r;
	start_ns = MAX(start_ns, row->count ? row->end_ns : t->base_ns);
	return end_ns < start_ns ? -E2BIG : add_slice(t, row, start_ns, end_ns, class, 0);
}

int timeline_reading(struct timeline *t, struct timeline_track *track, uint64_t time_ns,
		     double value)
{
	struct timeline_row *row;

	if (!track || find_row(track, 0, 0, &row) < 0 ||
	    begin_next(t, row, time_ns, time_ns, 0, 0) < 0)
		return -ENOMEM;
	strbuf_add(&row->columns[COLUMN_DURATION], &value, sizeof(value));
	return 0;
}

const char *timeline_track_word(enum timeline_track_kind kind)
{
#define TRACK_WORD(name, word) word,
	static const char *const words[] = { TRACK_KINDS(TRACK_WORD) };

	return words[kind];
}

void timeline_track_name(const struct timeline *t, const struct timeline_track *track,
			 struct strbuf *out)
{
	static const char *const names[] = {
		[TIMELINE_PATH] = "critical path",
		[TIMELINE_LOSS] = "loss",
		[TIMELINE_STREAM_RANGES] = "NVTX on stream ",
		[TIMELINE_STREAM] = "stream ",
		[TIMELINE_EVENTS] = "events of stream ",
		[TIMELINE_RANGES] = "ranges",
		[TIMELINE_SYNC] = "synchronization",
		[TIMELINE_MEMORY] = "GPU memory",
		[TIMELINE_OVERHEAD] = "CUPTI overhead",
	};
	size_t length;
	const char *text;

	if (track->kind == TIMELINE_THREAD || track->kind == TIMELINE_CPU) {
		strbuf_adds(out, track->kind == TIMELINE_CPU ? "CPU of " : "");
		export_thread_title(&t->view, track->process, track->id, out);
	} else if (track->kind == TIMELINE_LEVEL) {
		export_memory_name(&t->view, track->process, track->context, out);
	} else if (track->kind == TIMELINE_COUNTER) {
		text = export_text(&t->view, TABLE_counter, COLUMN_counter_name, track->context,
				   &length);
		strbuf_add(out, text, length);
	} else {
		strbuf_adds(out, names[track->kind]);
	}
	if (!is_gpu_track(track->kind))
		return;
	strbuf_addu(out, track->id);
	if (t->view.many_contexts)
		strbuf_addf(out, " context %u", track->context);
	if (t->view.gpu_process == NO_PROCESS)
		strbuf_addf(out, " (%s)", t->view.processes[track->process].title);
}
