/* perfetto_sink_calls.c: what threads did: calls, scopes and NVTX ranges; and losses. */
#include <errno.h>

#include "perfetto/perfetto_sink_state.h"
#include "schema/event_words.h"

/* Keys of names in a track: each source has a range of its own. */
#define KEY_FUNCTION (UINT64_C(1) << 32)
#define KEY_STRING (UINT64_C(2) << 32)
#define KEY_FIXED (UINT64_C(3) << 32)

#define LANE_IN_USE UINT64_MAX

#define SCOPE_DOMAIN "pitot"

static struct track_name named(uint64_t key, const char *text)
{
	return (struct track_name){ key, text, strlen(text) };
}

/* --- tracks --- */

static const char *domain_name(const struct perfetto_live *p, uint32_t domain)
{
	const struct row_nvtx_domain *row =
		definitions_row(&p->definitions, TABLE_nvtx_domain, domain);

	return row ? live_text(p, row->name) : "";
}

static bool is_scope(const struct perfetto_live *p, uint32_t domain)
{
	return domain && !strcmp(domain_name(p, domain), SCOPE_DOMAIN);
}

static struct live_track *new_track(struct perfetto_live *p, enum live_track_kind kind,
				    uint32_t thread, uint32_t domain)
{
	struct live_track *track = calloc(1, sizeof(*track));

	if (!track)
		return NULL;
	*track = (struct live_track){
		.kind = kind,
		.thread = thread,
		.domain = domain,
		.slices.uuid = live_uuid(p, kind, (uint64_t)domain << 32 | thread),
		.slices.sequence.id = LIVE_SEQUENCE_TRACKS + (uint32_t)p->tracks.count,
	};
	if (vec_push(&p->tracks, track) == 0)
		return track;
	free(track);
	return NULL;
}

/* Made when it is new. NULL: no memory. */
static struct live_track *find_track(struct perfetto_live *p, enum live_track_kind kind,
				     uint32_t thread, uint32_t domain)
{
	uint64_t key = hash_u64((uint64_t)domain << 32 | thread) ^ kind;
	uint64_t *position = map_at(&p->track_index, key, UINT64_MAX);

	if (!position)
		return NULL;
	if (*position == UINT64_MAX) {
		if (!new_track(p, kind, thread, domain))
			return NULL;
		*position = p->tracks.count - 1;
	}
	return p->tracks.data[*position];
}

static const char *thread_name(const struct perfetto_live *p, uint32_t thread)
{
	const struct row_thread *row = definitions_row(&p->definitions, TABLE_thread, thread);

	return row ? live_text(p, row->name) : "";
}

static const char *track_title(const struct perfetto_live *p, const struct live_track *track)
{
	const char *domain = domain_name(p, track->domain);

	if (track->kind == LIVE_LOSS)
		return "Loss";
	if (track->kind == LIVE_RANGES)
		return "NVTX ranges";
	return is_scope(p, track->domain) ? "scopes" : domain;
}

static void describe_thread(struct perfetto_live *p, const struct live_track *track)
{
	const char *name = thread_name(p, track->thread);

	perfetto_track_descriptor(&p->out, track->slices.sequence.id,
				  &(struct perfetto_track_descriptor){
					  .uuid = live_uuid(p, LIVE_THREAD, track->thread),
					  .parent_uuid = live_uuid(p, LIVE_UUID_PROCESS, 0),
					  .pid = p->pid,
					  .tid = track->thread,
					  .name = name,
					  .name_length = strlen(name) });
}

static void describe_lane(struct perfetto_live *p, const struct live_track *track, uint32_t lane)
{
	const char *title = track_title(p, track);

	perfetto_track_descriptor(
		&p->out, track->slices.sequence.id,
		&(struct perfetto_track_descriptor){
			.uuid = track->slices.uuid + lane,
			.parent_uuid = track->kind == LIVE_DOMAIN
					       ? live_uuid(p, LIVE_THREAD, track->thread)
					       : live_uuid(p, LIVE_UUID_PROCESS, 0),
			.pid = -1,
			.tid = -1,
			.name = title,
			.name_length = strlen(title) });
}

/* With what a track hangs below. */
static void describe(struct perfetto_live *p, struct live_track *track, uint32_t lane)
{
	if (!track->described) {
		live_describe_process(p);
		live_process_descriptor(p, track->slices.sequence.id);
		if (track->kind == LIVE_THREAD || track->kind == LIVE_DOMAIN)
			describe_thread(p, track);
	}
	for (; track->described <= lane; track->described++)
		if (track->kind != LIVE_THREAD)
			describe_lane(p, track, track->described);
}

static int begin(struct perfetto_live *p, struct live_track *track, struct perfetto_slice *slice,
		 struct open_slice *open)
{
	describe(p, track, (uint32_t)slice->lane);
	return perfetto_slice_begin(&track->slices, &p->out, slice, open);
}

/* --- calls --- */

/* Whether the call's work is one item with its correlation id. */
static bool has_one_work(uint8_t kind)
{
	return kind == api_kind_launch || kind == api_kind_memcpy || kind == api_kind_memset ||
	       kind == api_kind_graph_launch;
}

int live_call(struct perfetto_live *p, const struct row_api_call *row)
{
	const struct row_api_function *f =
		definitions_row(&p->definitions, TABLE_api_function, row->function);
	struct live_track *track = find_track(p, LIVE_THREAD, row->thread, 0);
	bool failed = !(row->missing >> COLUMN_api_call_result & 1) && row->result;
	struct perfetto_slice slice = { .time_ns = row->start_ns,
					.category = CATEGORY_RUNTIME,
					.name = named(KEY_FIXED, "CUDA call") };
	struct open_slice open;

	if (!track)
		return -ENOMEM;
	p->time_ns = row->end_ns;
	if (f) {
		slice.name = named(KEY_FUNCTION | row->function, live_text(p, f->name));
		slice.name.length = api_name_length(slice.name.text, slice.name.length);
		if (f->id >> 16 == 1)
			slice.category = CATEGORY_DRIVER;
	}
	if (begin(p, track, &slice, &open) < 0)
		return -ENOMEM;
	if (f && has_one_work(f->kind) && !failed) {
		size_t token = proto_open(&p->out, 3000);

		proto_uint(&p->out, 1, live_event_id(p, row->correlation));
		proto_close(&p->out, token);
	}
	proto_uint(&p->out, 3001, PERFETTO_API_CUDA);
	perfetto_note(&p->out, NOTE_CORRELATION, (int64_t)row->correlation);
	if (failed)
		perfetto_note(&p->out, NOTE_RESULT, row->result);
	perfetto_slice_close(&open);
	perfetto_slice_end(&track->slices, &p->out, 0, row->end_ns);
	return 0;
}

/* --- ranges --- */

static struct track_name message(const struct perfetto_live *p, const struct row_nvtx *row)
{
	const char *text =
		row->missing >> COLUMN_nvtx_message & 1 ? "" : live_text(p, row->message);

	return *text ? named(KEY_STRING | row->message, text)
		     : named(KEY_FIXED | 1, "(no message)");
}

static int begin_range(struct perfetto_live *p, struct live_track *track,
		       const struct row_nvtx *row, uint32_t lane)
{
	struct perfetto_slice slice = {
		.time_ns = row->time_ns,
		.lane = lane,
		.instant = row->kind == nvtx_kind_mark,
		.category = is_scope(p, row->domain) ? CATEGORY_SCOPE : CATEGORY_NVTX,
		.name = message(p, row),
	};
	const char *domain = domain_name(p, row->domain);
	struct open_slice open;

	if (begin(p, track, &slice, &open) < 0)
		return -ENOMEM;
	if (*domain && slice.category == CATEGORY_NVTX)
		perfetto_note_text(&p->out, NOTE_DOMAIN, domain, strlen(domain));
	perfetto_slice_close(&open);
	return 0;
}

/* Ranges that cross threads overlap as they like, and come in no order: each has a lane that was free at its time. */
static uint32_t free_lane(const struct live_track *track, uint64_t time_ns)
{
	uint32_t lane = 0;

	while (lane < LIVE_LANES && track->lanes[lane] > time_ns)
		lane++;
	return lane;
}

static int begin_crossing(struct perfetto_live *p, struct live_track *track,
			  const struct row_nvtx *row)
{
	uint32_t lane = free_lane(track, row->time_ns);

	if (lane == LIVE_LANES)
		return 0;
	track->lanes[lane] = LANE_IN_USE;
	track->ranges[lane] = row->range;
	return begin_range(p, track, row, lane);
}

static void end_crossing(struct perfetto_live *p, struct live_track *track,
			 const struct row_nvtx *row)
{
	uint32_t lane = 0;

	while (lane < LIVE_LANES &&
	       (track->lanes[lane] != LANE_IN_USE || track->ranges[lane] != row->range))
		lane++;
	if (lane == LIVE_LANES)
		return; /* it began before the trace */
	track->lanes[lane] = row->time_ns;
	perfetto_slice_end(&track->slices, &p->out, lane, row->time_ns);
}

int live_nvtx(struct perfetto_live *p, const struct row_nvtx *row)
{
	bool crosses = row->kind == nvtx_kind_start || row->kind == nvtx_kind_end;
	enum live_track_kind kind = crosses ? LIVE_RANGES : row->domain ? LIVE_DOMAIN : LIVE_THREAD;
	struct live_track *track = find_track(p, kind, crosses ? 0 : row->thread, row->domain);

	if (!track)
		return -ENOMEM;
	p->time_ns = row->time_ns;
	switch (row->kind) {
	case nvtx_kind_push:
		track->depth++;
		return begin_range(p, track, row, 0);
	case nvtx_kind_mark:
		return begin_range(p, track, row, 0);
	case nvtx_kind_pop:
		if (track->depth) {
			track->depth--;
			perfetto_slice_end(&track->slices, &p->out, 0, row->time_ns);
		}
		return 0;
	case nvtx_kind_start:
		return begin_crossing(p, track, row);
	case nvtx_kind_end:
		end_crossing(p, track, row);
		return 0;
	default:
		return 0;
	}
}

/* --- losses --- */

/* Losses come in no order; the track's events do. */
static int write_loss(struct perfetto_live *p, uint64_t time_ns, struct track_name name,
		      uint64_t count)
{
	struct live_track *track = find_track(p, LIVE_LOSS, 0, 0);
	struct perfetto_slice slice = {
		.time_ns = time_ns, .instant = true, .category = CATEGORY_LOSS, .name = name
	};
	struct open_slice open;

	if (!track)
		return -ENOMEM;
	slice.time_ns = p->loss_ns = MAX(p->loss_ns, time_ns);
	if (begin(p, track, &slice, &open) < 0)
		return -ENOMEM;
	perfetto_note(&p->out, NOTE_COUNT, (int64_t)count);
	perfetto_slice_close(&open);
	return 0;
}

int live_loss(struct perfetto_live *p, const struct row_loss *row)
{
	return write_loss(p, row->end_ns, named(KEY_FIXED | row->reason, loss_name(row->reason)),
			  row->count);
}

int live_dropped(struct perfetto_live *p)
{
	uint64_t count = p->dropped;

	p->dropped = 0;
	return write_loss(p, p->time_ns, named(KEY_FIXED, "packets that nobody took in time"),
			  count);
}
