/* perfetto_sink_calls.c: calls, scopes and NVTX ranges of threads, and losses. */
#include <errno.h>

#include "base/path.h"
#include "perfetto/perfetto_sink_state.h"
#include "schema/event_words.h"

/* Interning keys of a track's names: each source has its own range. */
#define KEY_FUNCTION (UINT64_C(1) << 32)
#define KEY_STRING (UINT64_C(2) << 32)
#define KEY_FIXED (UINT64_C(3) << 32)
#define KEY_SCOPE (UINT64_C(4) << 32)

#define LANE_IN_USE UINT64_MAX

#define SCOPE_DOMAIN "pitot"

static struct track_name named(uint64_t key, const char *text)
{
	return (struct track_name){ key, text, strlen(text) };
}

static struct track_name known(const struct perfetto_live *p, uint64_t key, uint32_t id)
{
	struct bytes_value text = definitions_text(&p->definitions, id);

	return (struct track_name){ key, text.data, text.length };
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
		.slices.sequence.id = ++*p->sequences,
	};
	if (vec_push(&p->tracks, track) == 0)
		return track;
	free(track);
	return NULL;
}

struct live_track *live_track(struct perfetto_live *p, enum live_track_kind kind, uint32_t thread,
			      uint32_t domain)
{
	uint64_t key = ((uint64_t)domain << 32 | thread) << 4 | kind;
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

static const char *track_title(struct perfetto_live *p, const struct live_track *track)
{
	static const char *const titles[] = {
		[LIVE_THREAD] = "overlapping",
		[LIVE_RANGES] = "NVTX ranges",
		[LIVE_LOSS] = "Loss",
		[LIVE_COUNTERS] = "Hardware counters",
		[LIVE_MEMORY] = "GPU memory",
		[LIVE_SYNC] = "Synchronization",
		[LIVE_OVERHEAD] = "CUPTI overhead",
	};

	if (track->kind == LIVE_DOMAIN)
		return is_scope(p, track->domain) ? "scopes" : domain_name(p, track->domain);
	if (track->kind != LIVE_GPU_RANGES)
		return titles[track->kind];
	strbuf_clear(&p->text);
	strbuf_adds(&p->text, "NVTX on ");
	p->export->text(p->export->user, PERFETTO_TEXT_QUEUE, track->domain, track->thread,
			&p->text);
	return strbuf_text(&p->text);
}

void live_describe_thread(struct perfetto_live *p, struct live_track *track, uint32_t thread)
{
	const char *name = thread_name(p, thread);

	if (!track->described) {
		live_describe_process(p);
		live_process_descriptor(p, track->slices.sequence.id);
	}
	perfetto_track_descriptor(p->out, track->slices.sequence.id,
				  &(struct perfetto_track_descriptor){
					  .uuid = live_uuid(p, LIVE_THREAD, thread),
					  .parent_uuid = live_uuid(p, LIVE_UUID_PROCESS, 0),
					  .pid = p->pid,
					  .tid = thread,
					  .name = name,
					  .name_length = strlen(name) });
}

static void describe_lane(struct perfetto_live *p, const struct live_track *track, uint32_t lane)
{
	const char *title = track_title(p, track);
	uint64_t parent = live_uuid(p, LIVE_UUID_PROCESS, 0);

	if (track->kind == LIVE_THREAD || track->kind == LIVE_DOMAIN)
		parent = live_uuid(p, LIVE_THREAD, track->thread);
	perfetto_track_descriptor(
		p->out, track->slices.sequence.id,
		&(struct perfetto_track_descriptor){ .uuid = track->slices.uuid + lane,
						     .parent_uuid = parent,
						     .pid = -1,
						     .tid = -1,
						     .name = title,
						     .name_length = strlen(title) });
}

/* Describes a lane and, before it, its parents. */
static void describe(struct perfetto_live *p, struct live_track *track, uint32_t lane)
{
	if (!track->described && (track->kind == LIVE_THREAD || track->kind == LIVE_DOMAIN)) {
		live_describe_thread(p, track, track->thread);
	} else if (!track->described) {
		live_describe_process(p);
		live_process_descriptor(p, track->slices.sequence.id);
	}
	for (; track->described <= lane; track->described++)
		if (track->kind != LIVE_THREAD || track->described)
			describe_lane(p, track, track->described);
}

/* Describes a slice's lane, and begins the slice. Returns 0 or -ENOMEM. */
static int live_begin_slice(struct perfetto_live *p, struct live_track *track,
			    struct perfetto_slice *slice, struct open_slice *open)
{
	describe(p, track, (uint32_t)slice->lane);
	return perfetto_slice_begin(&track->slices, p->out, slice, open);
}

int live_slice(struct perfetto_live *p, struct live_track *track, struct perfetto_slice *begin,
	       uint64_t end_ns, struct open_slice *open)
{
	int lane = 0;

	if (!track)
		return -ENOMEM;
	if (p->export && !begin->instant)
		lane = lanes_add(&track->lanes, begin->time_ns, end_ns);
	if (lane < 0)
		return lane;
	begin->lane = (size_t)lane;
	p->time_ns = p->export ? begin->time_ns : end_ns;
	return live_begin_slice(p, track, begin, open);
}

void live_slice_end(struct perfetto_live *p, const struct live_track *track,
		    const struct perfetto_slice *begin, uint64_t end_ns, struct open_slice *open)
{
	if (p->export && p->export->annotate)
		p->export->annotate(p->export->user, open);
	perfetto_slice_close(open);
	if (!begin->instant && live_emit(p))
		live_end_slice(p, track, begin->lane, end_ns);
}

/* --- calls --- */

struct stack_user {
	struct perfetto_live *live;
	struct live_track *track;
};

static int define_stack(void *user, struct strbuf *s, uint64_t iid)
{
	const struct stack_user *u = user;

	(void)s;
	live_define_stack(u->live, u->track, iid);
	return 0;
}

/* Whether the call's only work has its correlation id. */
static bool has_one_work(uint8_t kind)
{
	return kind == api_kind_launch || kind == api_kind_memcpy || kind == api_kind_memset ||
	       kind == api_kind_graph_launch;
}

static bool has_failed(const struct row_api_call *row)
{
	return !(row->missing >> COLUMN_api_call_result & 1) && row->result;
}

static uint32_t stack_of(const struct row_api_call *row)
{
	return row->missing >> COLUMN_api_call_stack & 1 ? 0 : row->stack;
}

/* Writes the arrows to the work that a call launched. */
static void write_arrows(struct perfetto_live *p, const struct row_api_call *row,
			 const struct live_launch *launch)
{
	size_t token = proto_open(p->out, 3000), count = launch ? launch->nodes.count : 0;

	if (!raw_reserve(p->out, count * PROTO_FIELD_MAX))
		return;
	proto_uint(p->out, 1, live_event_id(p, row->correlation));
	for (size_t i = 0; i < count; i++)
		proto_uint(p->out, 1, launch->nodes.data[i]);
	proto_close(p->out, token);
}

/* launch: of a graph; NULL: not a graph launch. */
static int write_call(struct perfetto_live *p, const struct row_api_call *row,
		      const struct live_launch *launch)
{
	const struct row_api_function *f =
		definitions_row(&p->definitions, TABLE_api_function, row->function);
	struct live_track *track = live_track(p, LIVE_THREAD, row->thread, 0);
	struct stack_user user = { p, track };
	struct perfetto_slice slice = { .time_ns = row->start_ns,
					.category = CATEGORY_RUNTIME,
					.name = named(KEY_FIXED, "CUDA call"),
					.user = &user };
	struct open_slice open;
	bool new_stack;
	int rc;

	if (!track || live_call_stack(p, track, stack_of(row), &slice.stack_iid, &new_stack) < 0)
		return -ENOMEM;
	if (new_stack)
		slice.define_stack = define_stack;
	if (p->export)
		slice.scope = p->export->scope;
	slice.scope.key |= KEY_SCOPE;
	if (f) {
		slice.name = known(p, KEY_FUNCTION | row->function, f->name);
		slice.name.length = api_name_length(slice.name.text, slice.name.length);
		if (p->export ? p->export->is_driver_call : f->id >> 16 == 1)
			slice.category = CATEGORY_DRIVER;
	}
	rc = live_slice(p, track, &slice, row->end_ns, &open);
	if (rc < 0)
		return rc;
	if (!p->export && f && has_one_work(f->kind) && !has_failed(row))
		write_arrows(p, row, launch);
	proto_uint(p->out, 3001, PERFETTO_API_CUDA);
	perfetto_annotate_unsigned(p->out, ANNOTATION_CORRELATION, row->correlation);
	if (has_failed(row))
		perfetto_annotate(p->out, ANNOTATION_RESULT, row->result);
	if (f && f->kind == api_kind_graph_launch)
		live_annotate_graph(p, row->correlation);
	live_slice_end(p, track, &slice, row->end_ns, &open);
	return 0;
}

/* --- waiting calls --- */

/* Finds or creates a launch. NULL if out of memory, or if too many wait. */
static struct live_launch *find_launch(struct perfetto_live *p, uint64_t correlation)
{
	uint64_t *position, index;

	if (p->launches.count == LIVE_LAUNCHES)
		return NULL;
	position = map_at(&p->launch_index, correlation, p->launches.count);
	if (!position)
		return NULL;
	if (*position == p->launches.count &&
	    vec_push(&p->launches, (struct live_launch){ .call.correlation = correlation }) < 0) {
		map_remove(&p->launch_index, correlation, &index);
		return NULL;
	}
	return &p->launches.data[*position];
}

int live_node(struct perfetto_live *p, uint64_t correlation, uint64_t id)
{
	struct live_launch *launch = find_launch(p, correlation);

	if (!launch || launch->nodes.count == LIVE_NODES || p->launch_nodes == LIVE_NODES_ALL)
		return 0;
	launch->is_busy = true;
	if (vec_push(&launch->nodes, id) < 0)
		return -ENOMEM;
	p->launch_nodes++;
	return 0;
}

static bool is_new_stack(struct perfetto_live *p, const struct row_api_call *row)
{
	const struct live_track *track = live_track(p, LIVE_THREAD, row->thread, 0);
	uint64_t known;

	return track && stack_of(row) && !map_get(&track->defined.stacks, stack_of(row), &known);
}

int live_call(struct perfetto_live *p, const struct row_api_call *row)
{
	const struct row_api_function *f =
		definitions_row(&p->definitions, TABLE_api_function, row->function);
	bool is_graph = f && f->kind == api_kind_graph_launch && !has_failed(row);
	struct live_launch *launch = NULL;

	if (!p->export && (is_graph || is_new_stack(p, row)))
		launch = find_launch(p, row->correlation);
	if (!launch || launch->has_call)
		return write_call(p, row, NULL);
	launch->call = *row;
	launch->has_call = true;
	launch->is_graph = is_graph;
	return 0;
}

/* A node arrives after it ran and CUPTI delivered it, which each seal makes CUPTI do. */
static bool is_complete(struct live_launch *launch)
{
	bool was_busy = launch->is_busy;

	launch->is_busy = false;
	if (launch->has_call && !launch->is_graph)
		return true; /* at the seal all modules and stacks seen so far are defined */
	return ++launch->seals >= LIVE_SEALS || (launch->seals > 2 && !was_busy);
}

void live_launches_flush(struct perfetto_live *p, bool all)
{
	size_t kept = 0;

	map_clear(&p->launch_index);
	for (size_t i = 0; i < p->launches.count; i++) {
		struct live_launch *launch = &p->launches.data[i];

		if (!is_complete(launch) && !all &&
		    map_put(&p->launch_index, launch->call.correlation, kept) == 0) {
			p->launches.data[kept++] = *launch;
			continue;
		}
		raw_reserve(p->out, 0);
		if (launch->has_call && write_call(p, &launch->call, launch) < 0)
			live_discard(p);
		p->launch_nodes -= launch->nodes.count;
		vec_release(&launch->nodes);
	}
	p->launches.count = kept;
}

void live_launches_release(struct perfetto_live *p)
{
	for (size_t i = 0; i < p->launches.count; i++)
		vec_release(&p->launches.data[i].nodes);
	vec_release(&p->launches);
	map_release(&p->launch_index);
}

/* --- ranges --- */

static struct track_name message(const struct perfetto_live *p, const struct row_nvtx *row)
{
	struct track_name text = known(p, KEY_STRING | row->message, row->message);

	return row_has(row, COLUMN_nvtx_message) && text.length
		       ? text
		       : named(KEY_FIXED | 1, "(no message)");
}

static struct perfetto_slice range_slice(const struct perfetto_live *p, const struct row_nvtx *row)
{
	return (struct perfetto_slice){
		.time_ns = row->time_ns,
		.instant = row->kind == nvtx_kind_mark,
		.category = is_scope(p, row->domain) ? CATEGORY_SCOPE : CATEGORY_NVTX,
		.name = message(p, row),
	};
}

static void annotate_domain(const struct perfetto_live *p, const struct row_nvtx *row)
{
	const char *domain = domain_name(p, row->domain);

	if (*domain)
		perfetto_annotate_text(p->out, ANNOTATION_DOMAIN, domain, strlen(domain));
}

static int begin_range(struct perfetto_live *p, struct live_track *track,
		       const struct row_nvtx *row, uint32_t lane)
{
	struct perfetto_slice slice = range_slice(p, row);
	struct open_slice open;

	slice.lane = lane;
	if (live_begin_slice(p, track, &slice, &open) < 0)
		return -ENOMEM;
	annotate_domain(p, row);
	perfetto_slice_close(&open);
	return 0;
}

/* Writes a range or a mark whose end the exporter knows. */
static int write_range(struct perfetto_live *p, const struct row_nvtx *row)
{
	const struct perfetto_export *x = p->export;
	struct live_track *track =
		x->stream ? live_track(p, LIVE_GPU_RANGES, x->stream->stream, x->stream->context)
		: row->kind == nvtx_kind_start ? live_track(p, LIVE_RANGES, 0, row->domain)
					       : live_track(p, LIVE_THREAD, row->thread, 0);
	struct perfetto_slice slice = range_slice(p, row);
	struct open_slice open;
	int rc;

	slice.time_ns = x->start_ns;
	rc = live_slice(p, track, &slice, x->end_ns, &open);
	if (rc < 0)
		return rc;
	if (!x->stream)
		annotate_domain(p, row);
	live_slice_end(p, track, &slice, x->end_ns, &open);
	return 0;
}

/*
 * Ranges that cross threads may overlap and are unordered: each gets a lane that was free at its
 * start.
 */
static uint32_t free_lane(const struct live_track *track, uint64_t time_ns)
{
	uint32_t lane = 0;

	while (lane < LIVE_LANES && track->lane_ends[lane] > time_ns)
		lane++;
	return lane;
}

static int begin_crossing(struct perfetto_live *p, struct live_track *track,
			  const struct row_nvtx *row)
{
	uint32_t lane = free_lane(track, row->time_ns);
	int r = lane == LIVE_LANES ? 0 : begin_range(p, track, row, lane);

	if (lane == LIVE_LANES || r < 0 || !live_emit(p))
		return r;
	track->lane_ends[lane] = LANE_IN_USE;
	track->ranges[lane] = row->range;
	return 0;
}

static void end_crossing(struct perfetto_live *p, struct live_track *track,
			 const struct row_nvtx *row)
{
	uint32_t lane = 0;

	while (lane < LIVE_LANES &&
	       (track->lane_ends[lane] != LANE_IN_USE || track->ranges[lane] != row->range))
		lane++;
	if (lane == LIVE_LANES)
		return; /* it began before the trace */
	track->lane_ends[lane] = row->time_ns;
	live_end_slice(p, track, lane, row->time_ns);
}

static int push(struct perfetto_live *p, struct live_track *track, const struct row_nvtx *row)
{
	int r = begin_range(p, track, row, 0);
	bool is_accepted = r == 0 && live_emit(p);

	track->depth++;
	track->lost = track->lost << 1 | !is_accepted;
	return r;
}

static void pop(struct perfetto_live *p, struct live_track *track, const struct row_nvtx *row)
{
	if (!track->depth)
		return; /* it began before the trace */
	if (!(track->lost & 1) && !live_hold_end(p, track, row))
		live_end_slice(p, track, 0, row->time_ns);
	track->depth--;
	track->lost >>= 1;
}

int live_nvtx(struct perfetto_live *p, const struct row_nvtx *row)
{
	bool crosses = row->kind == nvtx_kind_start || row->kind == nvtx_kind_end;
	enum live_track_kind kind = crosses ? LIVE_RANGES : row->domain ? LIVE_DOMAIN : LIVE_THREAD;
	struct live_track *track;

	if (p->export)
		return write_range(p, row);
	track = live_track(p, kind, crosses ? 0 : row->thread, row->domain);
	if (!track)
		return -ENOMEM;
	p->time_ns = row->time_ns;
	switch (row->kind) {
	case nvtx_kind_push:
		return push(p, track, row);
	case nvtx_kind_mark:
		return begin_range(p, track, row, 0);
	case nvtx_kind_pop:
		pop(p, track, row);
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

/* In a live trace losses are unordered, and instants, but a track's events must be in order. */
static int write_loss(struct perfetto_live *p, const struct row_loss *row, struct track_name name)
{
	struct live_track *track = live_track(p, LIVE_LOSS, 0, 0);
	struct perfetto_slice slice = { .time_ns = row->start_ns,
					.instant = !p->export || row->start_ns == row->end_ns,
					.category = CATEGORY_LOSS,
					.name = name };
	const char *detail =
		row->missing >> COLUMN_loss_detail & 1 ? "" : live_text(p, row->detail);
	struct open_slice open;
	int rc;

	if (!p->export)
		slice.time_ns = p->loss_ns = MAX(p->loss_ns, row->end_ns);
	rc = live_slice(p, track, &slice, row->end_ns, &open);
	if (rc < 0)
		return rc;
	if (row->count)
		perfetto_annotate(p->out, ANNOTATION_COUNT, (int64_t)row->count);
	if (*detail)
		perfetto_annotate_text(p->out, ANNOTATION_DETAIL, detail, strlen(detail));
	live_slice_end(p, track, &slice, row->end_ns, &open);
	return 0;
}

int live_loss(struct perfetto_live *p, const struct row_loss *row)
{
	return write_loss(p, row, named(KEY_FIXED | row->reason, loss_name(row->reason)));
}

int live_dropped(struct perfetto_live *p)
{
	struct row_loss row = { .missing = UINT64_C(1) << COLUMN_loss_detail,
				.count = p->dropped,
				.start_ns = p->time_ns,
				.end_ns = p->time_ns };
	int r = write_loss(p, &row, named(KEY_FIXED, "packets dropped (queue full)"));

	p->dropped = r == 0 && live_emit(p) ? 0 : row.count;
	return r;
}

/* --- other events --- */

int live_allocation(struct perfetto_live *p, const struct row_allocation *row)
{
	struct live_track *track = live_track(p, LIVE_MEMORY, 0, 0);
	struct perfetto_slice slice = {
		.time_ns = row->time_ns,
		.instant = true,
		.category = CATEGORY_MEMORY,
		.name = named(KEY_FIXED | row->operation, allocation_name(row->operation)),
	};
	struct open_slice open;
	int rc;

	if (row->missing >> COLUMN_allocation_time_ns & 1)
		return 0; /* a row of table loss counts it */
	rc = live_slice(p, track, &slice, row->time_ns, &open);
	if (rc < 0)
		return rc;
	perfetto_annotate(p->out, ANNOTATION_DEVICE, row->device);
	if (!(row->missing >> COLUMN_allocation_bytes & 1))
		perfetto_annotate_unsigned(p->out, ANNOTATION_BYTES, row->bytes);
	perfetto_annotate_unsigned(p->out, ANNOTATION_ADDRESS, row->address);
	perfetto_annotate_unsigned(p->out, ANNOTATION_CORRELATION, row->correlation);
	live_slice_end(p, track, &slice, row->time_ns, &open);
	return 0;
}

int live_sync(struct perfetto_live *p, const struct row_synchronization *row)
{
	struct live_track *track = live_track(p, LIVE_SYNC, 0, 0);
	struct perfetto_slice slice = {
		.time_ns = row->start_ns,
		.category = CATEGORY_SYNC,
		.name = named(KEY_FIXED | row->kind, synchronization_name(row->kind)),
	};
	struct open_slice open;
	int rc = live_slice(p, track, &slice, row->end_ns, &open);

	if (rc < 0)
		return rc;
	perfetto_annotate_wait(p->out, row);
	perfetto_annotate(p->out, ANNOTATION_CORRELATION, (int64_t)row->correlation);
	live_slice_end(p, track, &slice, row->end_ns, &open);
	return 0;
}

int live_overhead(struct perfetto_live *p, const struct row_overhead *row)
{
	struct live_track *track = live_track(p, LIVE_OVERHEAD, 0, 0);
	struct perfetto_slice slice = {
		.time_ns = row->start_ns,
		.category = CATEGORY_OVERHEAD,
		.name = named(KEY_FIXED | row->kind, overhead_name(row->kind)),
	};
	struct open_slice open;
	int rc = live_slice(p, track, &slice, row->end_ns, &open);

	if (rc < 0)
		return rc;
	if (!(row->missing >> COLUMN_overhead_thread & 1))
		perfetto_annotate(p->out, ANNOTATION_THREAD, row->thread);
	live_slice_end(p, track, &slice, row->end_ns, &open);
	return 0;
}

/* --- unavailable capabilities --- */

/* Returns the kinds of rows that a capability affects. */
static unsigned rows_about(unsigned feature)
{
	switch (feature) {
	case feature_engine:
	case feature_metrics:
	case feature_graph_metrics:
		return PERFETTO_METRICS;
	case feature_perfetto:
	case feature_nvml:
		return PERFETTO_COUNTERS;
	case feature_cupti:
		return PERFETTO_WORK | PERFETTO_CALLS;
	case feature_cpu:
		return PERFETTO_SAMPLES;
	default:
		return 0;
	}
}

/*
 * A new epoch repeats the rows; each is reported only once. Capabilities from before the trace are
 * reported at its beginning.
 */
int live_capability(struct perfetto_live *p, const struct row_capability *row, unsigned rows)
{
	const char *reason;
	const struct row_process *process = live_process(p);
	struct perfetto_packet head = { MAX(row->time_ns, p->begun_ns), PERFETTO_MONOTONIC,
					p->sequence + LIVE_SEQUENCE_GLOBAL, 0 };
	int is_new;

	if ((row->state != capability_state_degraded &&
	     row->state != capability_state_unavailable) ||
	    row->missing >> COLUMN_capability_reason & 1 || !(rows_about(row->name) & rows))
		return 0;
	reason = live_text(p, row->reason);
	is_new = map_add(&p->reported,
			 hash_u64(row->name) ^ row->time_ns ^ hash_bytes(reason, strlen(reason)));
	if (is_new <= 0)
		return is_new;
	p->text.length = 0;
	strbuf_addf(&p->text, "%s %u: %s: %s", base_name(live_text(p, process->executable)),
		    process->pid, feature_name((enum feature)row->name), reason);
	if (p->text.failed)
		return -ENOMEM;
	perfetto_log(p->out, &head, "pitot", strbuf_text(&p->text));
	return 0;
}
