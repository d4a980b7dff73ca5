#include "export/perfetto/perfetto_writer.h"

#include <errno.h>

/* The lanes of a track have consecutive uuids. */
#define UUID_STEP (2 * (uint64_t)LANES_MAX)

static uint64_t new_uuid(struct perfetto_tracks *t)
{
	t->uuid_seed += UUID_STEP;
	return t->uuid_seed;
}

int perfetto_tracks_init(struct perfetto *p)
{
	struct perfetto_tracks *t = &p->tracks;
	size_t count = p->view.process_count;

	/*
	 * The seed is unlikely to occur in another trace, in case traces are concatenated. Ids of
	 * work are in every event, so they are kept to 35 bits.
	 */
	t->uuid_seed = 1;
	for (size_t i = 0; i < count; i++)
		t->uuid_seed = hash_u64(t->uuid_seed ^ trace_process(p->view.trace, i)->session);
	t->uuid_seed >>= 1;
	p->event_base = t->uuid_seed >> 28;
	t->process_uuids = calloc(count + 1, sizeof(*t->process_uuids));
	t->process_described = calloc(count + 1, sizeof(*t->process_described));
	if (!t->process_uuids || !t->process_described)
		return -ENOMEM;
	for (size_t i = 0; i <= count; i++)
		t->process_uuids[i] = new_uuid(t);
	return 0;
}

void perfetto_tracks_restart(struct perfetto *p)
{
	for (size_t i = 0; i < p->tracks.all.items.count; i++) {
		struct track *track = (struct track *)p->tracks.all.items.data[i];

		perfetto_slices_restart(&track->slices);
		track->lanes_described = 0;
		perfetto_defined_clear(&track->defined);
	}
	for (size_t i = 0; i < p->view.process_count; i++)
		p->tracks.process_described[i] = false;
}

void perfetto_tracks_finish(struct perfetto *p)
{
	for (size_t i = 0; i < p->tracks.all.items.count; i++)
		lanes_finish(p->tracks.all.items.data[i]);
}

void perfetto_tracks_release(struct perfetto *p)
{
	struct perfetto_tracks *t = &p->tracks;

	for (size_t i = 0; i < t->all.items.count; i++) {
		struct track *track = (struct track *)t->all.items.data[i];

		perfetto_slices_release(&track->slices);
		perfetto_defined_release(&track->defined);
	}
	tracks_release(&t->all);
	free(t->process_uuids);
	free(t->process_described);
}

void perfetto_describe_process(struct perfetto *p, uint32_t process)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	struct perfetto_tracks *t = &p->tracks;
	const struct trace_process *info;
	const struct export_process *x;
	struct perfetto_track_descriptor track;

	process = p->view.processes[process].owner;
	if (t->process_described[process])
		return;
	t->process_described[process] = true;
	info = trace_process(p->view.trace, process);
	x = &p->view.processes[process];
	track = (struct perfetto_track_descriptor){
		.uuid = t->process_uuids[process],
		.name = x->pid == info->pid ? x->name : x->title,
		.pid = x->pid,
		.tid = -1,
		.command = info->command,
	};
	track.name_length = strlen(track.name);
	perfetto_track_descriptor(&p->out, SEQUENCE_GLOBAL, &track);
	perfetto_process_tree(&p->out, &head, &track, info->parent_pid);
}

static const char *group_name(const struct track *track, struct strbuf *buffer)
{
	static const char *const names[] = {
		[TRACK_THREAD] = "overlapping",         [TRACK_RANGES] = "NVTX ranges",
		[TRACK_SYNC] = "Synchronization",       [TRACK_OVERHEAD] = "CUPTI overhead",
		[TRACK_MEMORY] = "GPU memory",          [TRACK_LOSS] = "Loss",
		[TRACK_COUNTERS] = "Hardware counters",
	};
	struct perfetto *p = track->writer;

	if (track->kind != TRACK_GPU_RANGES)
		return names[track->kind];
	strbuf_addf(buffer, "NVTX on %s", perfetto_queue_name(p, track->process, track->id));
	return strbuf_text(buffer);
}

/* Writes the descriptor of a lane before its first event in this file. */
static void describe_lane(struct track *track, size_t lane)
{
	struct perfetto *p = track->writer;
	struct perfetto_track_descriptor d = {
		.uuid = track->slices.uuid + lane,
		.parent_uuid = p->tracks.process_uuids[track->process],
		.pid = -1,
		.tid = -1,
	};
	_cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT;

	perfetto_describe_process(p, track->process);
	if (track->kind == TRACK_THREAD && lane == 0) {
		d.pid = p->view.processes[track->process].pid;
		d.tid = track->id;
		d.name = export_thread_name(&p->view, track->process, track->id, &d.name_length);
	} else {
		d.name = group_name(track, &buffer);
		d.name_length = strlen(d.name);
		if (track->kind == TRACK_THREAD)
			d.parent_uuid = track->slices.uuid;
	}
	perfetto_track_descriptor(&p->out, SEQUENCE_GLOBAL, &d);
}

static void describe_lanes(struct track *track, size_t lane)
{
	while (track->lanes_described <= lane)
		describe_lane(track, track->lanes_described++);
}

/* Writes the end of a slice; called in order of time within a lane. */
static void end_slice(void *user, size_t lane, uint64_t end_ns)
{
	struct track *track = user;

	perfetto_slice_end(&track->slices, &track->writer->out, lane, end_ns);
}

struct track *perfetto_track(struct perfetto *p, enum track_kind kind, uint32_t process,
			     uint32_t id)
{
	struct perfetto_tracks *t = &p->tracks;
	struct track *track;
	bool is_new;

	if (kind < TRACK_CPU_SAMPLES)
		process = p->view.processes[process].owner;
	if (t->last && t->last->kind == kind && t->last->process == process && t->last->id == id)
		return t->last;
	track = tracks_at(&t->all, (uint64_t)kind << 60 | (uint64_t)process << 32 | id,
			  sizeof(*track), &is_new);
	if (track && is_new)
		*track = (struct track){
			.lanes = { .ended = end_slice, .user = track },
			.writer = p,
			.slices.uuid = new_uuid(t),
			.slices.sequence.id = SEQUENCE_TRACKS + (uint32_t)t->all.items.count - 1,
			.process = process,
			.id = id,
			.kind = kind,
		};
	t->last = track;
	return track;
}

struct track *perfetto_samples_track(struct perfetto *p, uint32_t session, uint32_t thread,
				     bool off_cpu)
{
	struct track *track = perfetto_track(p, TRACK_THREAD, session, thread);

	if (!track)
		return NULL;
	describe_lanes(track, 0);
	return perfetto_track(p, off_cpu ? TRACK_OFF_CPU : TRACK_CPU_SAMPLES, session, 0);
}

static int define_stack(void *user, struct strbuf *s, uint64_t iid)
{
	struct track *track = user;

	return perfetto_intern_frames(track->writer, s, &track->defined, iid);
}

int perfetto_slice_open(struct perfetto *p, const struct slice *slice,
			const struct export_event *event, struct open_slice *open)
{
	struct track *track = perfetto_track(p, slice->track, slice->process, slice->id);
	struct perfetto_slice begin = { .time_ns = event->start_ns,
					.instant = slice->instant,
					.category = slice->category,
					.name = slice->name,
					.scope = slice->scope,
					.user = track };
	bool new_stack = false;
	int lane = 0;

	if (!track)
		return -ENOMEM;
	if (slice->instant)
		lanes_advance(&track->lanes, event->start_ns);
	else
		lane = lanes_add(&track->lanes, event->start_ns, event->end_ns);
	if (lane < 0)
		return lane;
	begin.lane = (size_t)lane;
	if (slice->stack && perfetto_call_stack(p, &track->defined, event->process, slice->stack,
						&begin.stack_iid, &new_stack) < 0)
		return -ENOMEM;
	if (new_stack)
		begin.define_stack = define_stack;
	if (unlikely(track->lanes_described <= begin.lane))
		describe_lanes(track, begin.lane);
	return perfetto_slice_begin(&track->slices, &p->out, &begin, open);
}
