#include "export/chrome/chrome_writer.h"

#include <errno.h>

/* Exceeds every Linux thread id, and SYNC_TID plus any usual stream id. */
#define FREE_TID 5000000u

void chrome_tracks_release(struct chrome *c)
{
	struct chrome_tracks *r = &c->tracks;

	for (size_t i = 0; i < r->all.items.count; i++)
		vec_release(&((struct chrome_track *)r->all.items.data[i])->tids);
	tracks_release(&r->all);
	map_release(&r->contexts);
	map_release(&r->tids);
}

static bool is_gpu_track(enum chrome_track_kind kind)
{
	return kind == CHROME_STREAM || kind == CHROME_SYNC || kind == CHROME_EVENTS ||
	       kind == CHROME_RANGES;
}

static void write_arguments(struct chrome *c, struct chrome_track *track)
{
	struct strbuf *s = &c->out;
	size_t from, length;

	from = s->length;
	if (track->kind == CHROME_STREAM) {
		TEXT(s, "\"device\":");
		text_u64(s, track->pid);
		TEXT_U64(s, "context", track->context);
		TEXT_U64(s, "stream", track->id);
		TEXT(s, ",\"correlation\":");
	} else {
		TEXT_U64(s, "pid", track->pid);
		TEXT(s, ",\"tid\":");
	}
	if (s->failed)
		return;
	length = s->length - from;
	memcpy(track->arguments, s->data + from, length);
	track->arguments_length = (uint8_t)length;
	s->length = from;
}

static void describe(struct chrome *c, struct chrome_track *track, enum chrome_track_kind kind,
		     uint32_t process, uint32_t context, uint32_t id, size_t gpu)
{
	track->kind = kind;
	track->process = process;
	track->context = context;
	track->id = id;
	track->lanes.exclusive = is_gpu_track(kind) && kind != CHROME_RANGES;
	if (is_gpu_track(kind))
		track->pid = (uint32_t)gpu;
	else
		track->pid =
			kind == CHROME_OVERHEAD ? OVERHEAD_PID : c->view.processes[process].pid;
	if (kind == CHROME_STREAM || kind == CHROME_THREAD)
		write_arguments(c, track);
}

/*
 * Returns a key that separates GPU tracks by context and other tracks by process; 0 if out of
 * memory.
 */
static uint64_t owner_of(struct chrome_tracks *r, enum chrome_track_kind kind, uint32_t process,
			 uint32_t context)
{
	if (!is_gpu_track(kind))
		return process + 1;
	return map_number(&r->contexts, (uint64_t)process << 32 | context);
}

struct chrome_track *chrome_track(struct chrome *c, enum chrome_track_kind kind, uint32_t process,
				  uint32_t context, uint32_t id, size_t gpu)
{
	struct chrome_tracks *r = &c->tracks;
	struct chrome_track *track = r->last_thread;
	uint64_t owner;
	bool is_new;

	process = c->view.processes[process].owner;
	if (track && kind == CHROME_THREAD && track->id == id && track->process == process)
		return track;
	owner = owner_of(r, kind, process, context);
	if (!owner)
		return NULL;
	track = tracks_at(&r->all, (uint64_t)kind << 60 | owner << 32 | id, sizeof(*track),
			  &is_new);
	if (track && is_new)
		describe(c, track, kind, process, context, id, gpu);
	if (kind == CHROME_THREAD)
		r->last_thread = track;
	return track;
}

/* Returns the preferred tid of a track's first lane, or -1 if it has none. */
static int64_t preferred_tid(const struct chrome_track *track)
{
	switch (track->kind) {
	case CHROME_EVENTS:
	case CHROME_RANGES:
	case CHROME_MEMORY:
		return -1;
	case CHROME_SYNC:
		return track->id == NO_STREAM ? SYNC_TID : (int64_t)track->id + SYNC_TID;
	default:
		return track->id;
	}
}

/*
 * Assigns a tid that is unused in this pid. Readers take tid 0 of a nonzero pid for the pid itself.
 */
static int assign_tid(struct chrome *c, uint32_t pid, int64_t preferred, uint32_t *tid)
{
	uint64_t used = 0;

	if (preferred < 0 || preferred > UINT32_MAX || (preferred == 0 && pid != 0) ||
	    map_get(&c->tracks.tids, (uint64_t)pid << 32 | (uint64_t)preferred, &used))
		preferred = FREE_TID + c->tracks.free_tids++;
	*tid = (uint32_t)preferred;
	return map_put(&c->tracks.tids, (uint64_t)pid << 32 | *tid, 1);
}

static void name_track(struct chrome *c, const struct chrome_track *track, struct strbuf *name)
{
	switch (track->kind) {
	case CHROME_THREAD:
	case CHROME_OVERHEAD:
		export_thread_title(&c->view, track->process, track->id, name);
		return;
	case CHROME_MEMORY:
		strbuf_adds(name, "CUDA memory");
		return;
	case CHROME_SYNC:
		if (track->id == NO_STREAM)
			strbuf_addf(name, "context %u (sync)", track->context);
		else
			strbuf_addf(name, "stream %u (sync)", track->id);
		break;
	case CHROME_EVENTS:
		strbuf_addf(name, "stream %u (events)", track->id);
		break;
	case CHROME_RANGES:
		strbuf_addf(name, "stream %u (NVTX)", track->id);
		break;
	case CHROME_STREAM:
		strbuf_addf(name, "stream %u ", track->id);
		break;
	}
	if (c->view.many_contexts && track->id != NO_STREAM)
		strbuf_addf(name, "%scontext %u", track->kind == CHROME_STREAM ? "" : " ",
			    track->context);
	if (c->view.gpu_process == NO_PROCESS)
		strbuf_addf(name, "%s(%s)", track->kind == CHROME_STREAM ? "" : " ",
			    c->view.processes[track->process].title);
}

static int name_lane(struct chrome *c, struct chrome_track *track)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t tid;

	if (assign_tid(c, track->pid, track->tids.count ? -1 : preferred_tid(track), &tid) < 0 ||
	    vec_push(&track->tids, tid) < 0)
		return -ENOMEM;
	name_track(c, track, &name);
	if (name.failed)
		return -ENOMEM;
	chrome_metadata(c, "thread_name", "name", track->pid, tid, name.data, name.length, 0);
	chrome_metadata(c, "thread_sort_index", "sort_index", track->pid, tid, NULL, 0,
			track->id == NO_STREAM ? 0 : track->id);
	return 0;
}

int chrome_track_add(struct chrome *c, struct chrome_track *track, uint64_t start_ns,
		     uint64_t end_ns, uint32_t *tid)
{
	int lane = track ? lanes_add(&track->lanes, start_ns, end_ns) : -ENOMEM;

	if (lane < 0)
		return lane;
	while (track->tids.count <= (size_t)lane)
		if (name_lane(c, track) < 0)
			return -ENOMEM;
	*tid = track->tids.data[lane];
	return 0;
}
