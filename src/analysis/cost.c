#include "analysis/cost.h"

#include <errno.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/report.h"
#include "schema/event_words.h"
#include "trace/events.h"

/* Number of distinct reasons and details; more are added to the last item of their reason. */
#define LOSSES_MAX 256

/* Whether a kind is measured by the program's clock rather than in CPU time. */
static bool is_clocked(unsigned kind)
{
	return kind != cost_kind_collector && kind != cost_kind_sampler;
}

static void sum_costs(const struct trace *t, struct cost *out)
{
	const struct cost_columns *c = cost_columns(t);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_cost); row++) {
		struct cost_sum *sum = c->kind[row] < COST_KINDS ? &out->kinds[c->kind[row]] : NULL;

		if (!sum || (out->clock_replaced && is_clocked(c->kind[row])))
			continue;
		sum->any = true;
		sum->count += c->count[row];
		sum->total_ns += c->total_ns[row];
		sum->bytes += column_has(c->valid.bytes, row) ? c->bytes[row] : 0;
	}
	out->target_ns =
		out->kinds[cost_kind_callback].total_ns + out->kinds[cost_kind_setup].total_ns +
		out->kinds[cost_kind_replay].total_ns + out->kinds[cost_kind_exit].total_ns +
		out->kinds[cost_kind_buffer_request].total_ns +
		out->kinds[cost_kind_timer_sample].total_ns;
}

static void sum_overhead(const struct trace *t, struct cost *out)
{
	struct event_columns c = events_of(t, TABLE_overhead);

	out->overhead_count = c.rows;
	for (uint64_t row = 0; row < c.rows; row++)
		if (event_is_timed(&c, row))
			out->overhead_ns += c.end_ns[row] - c.start_ns[row];
}

static struct loss_sum *loss_of(struct cost *c, const struct trace_loss *l)
{
	struct loss_sum *same_reason = NULL;

	for (size_t i = 0; i < c->loss_count; i++) {
		if (c->losses[i].reason != l->reason)
			continue;
		same_reason = &c->losses[i];
		if (!strcmp(same_reason->detail, l->detail))
			return same_reason;
		/* many workers may end by _exit, and each lacks the same */
		if (l->reason == loss_reason_truncated_file) {
			same_reason->detail = "";
			return same_reason;
		}
	}
	if (c->loss_count >= LOSSES_MAX && same_reason)
		return same_reason;
	if (c->loss_count >= 2 * LOSSES_MAX)
		return &c->losses[c->loss_count - 1];
	c->losses[c->loss_count] = (struct loss_sum){ .reason = l->reason,
						      .detail = l->detail,
						      .start_ns = l->start_ns };
	return &c->losses[c->loss_count++];
}

enum lost_kind { LOST_OTHER, LOST_EVENTS, LOST_GPU_RECORDS };

/* Whether the lost items are events, rather than details of events, or parts with many events. */
static enum lost_kind lost_kind(enum loss_reason reason)
{
	switch (reason) {
	case loss_reason_cupti_dropped:
	case loss_reason_missing_kernels:
	case loss_reason_own_profiler:
	case loss_reason_unknown_record:
		return LOST_GPU_RECORDS;
	case loss_reason_ring_full:
	case loss_reason_disk_full:
	case loss_reason_disk_slow:
	case loss_reason_write_error:
	case loss_reason_size_limit:
	case loss_reason_no_memory:
	case loss_reason_samples_dropped:
		return LOST_EVENTS;
	default:
		return LOST_OTHER;
	}
}

static void add_lost(struct lost_share *s, uint64_t count)
{
	s->lost += count;
	s->least |= !count;
}

static void count_events(const struct trace *t, struct cost *out)
{
	static const enum table_id gpu[] = {
		TABLE_kernel,   TABLE_memcpy,     TABLE_memset,          TABLE_graph_launch,
		TABLE_overhead, TABLE_cuda_event, TABLE_synchronization,
	};
	static const enum table_id others[] = { TABLE_nvtx, TABLE_api_call, TABLE_cpu_sample };

	for (size_t i = 0; i < ARRAY_SIZE(gpu); i++)
		out->gpu.recorded += trace_rows(t, gpu[i]);
	out->all.recorded = out->gpu.recorded;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		out->all.recorded += trace_rows(t, others[i]);
}

static int sum_losses(struct trace *t, struct cost *out, struct error *e)
{
	const struct trace_loss *losses;
	size_t count;
	int r = trace_losses(t, &losses, &count, e);

	if (r < 0)
		return r;
	out->losses = calloc(2 * LOSSES_MAX, sizeof(*out->losses));
	if (!out->losses)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct loss_sum *sum = loss_of(out, &losses[i]);

		sum->rows++;
		if (lost_kind(losses[i].reason) != LOST_OTHER)
			add_lost(&out->all, losses[i].count);
		if (lost_kind(losses[i].reason) == LOST_GPU_RECORDS)
			add_lost(&out->gpu, losses[i].count);
		sum->count += losses[i].count;
		sum->unknown |= !losses[i].count;
		sum->start_ns = MIN(sum->start_ns, losses[i].start_ns);
		sum->end_ns = MAX(sum->end_ns, losses[i].end_ns);
		sum->length_ns += MAX(losses[i].end_ns, losses[i].start_ns) - losses[i].start_ns;
	}
	return 0;
}

int cost_analyze(struct trace *t, struct cost *out, struct error *e)
{
	struct capability_note clock;
	int r = trace_load(t, TABLE_cost, 0, e);

	*out = (struct cost){ 0 };
	if (r >= 0)
		r = capability_find(t, "cost", &clock, e);
	if (r >= 0)
		r = trace_load(t, TABLE_overhead, COLUMN_BITS(overhead, start_ns, end_ns), e);
	if (r >= 0)
		r = sum_losses(t, out, e);
	if (r < 0)
		return r;
	capability_read(t, "own_profiler", &out->own_profiler);
	out->clock_replaced = clock.known && clock.state != capability_state_on;
	count_events(t, out);
	sum_costs(t, out);
	sum_overhead(t, out);
	return 0;
}

void cost_release(struct cost *c)
{
	free(c->losses);
	*c = (struct cost){ 0 };
}

const struct loss_sum *cost_find_loss(const struct cost *c, enum loss_reason reason)
{
	for (size_t i = 0; i < c->loss_count; i++)
		if (c->losses[i].reason == reason)
			return &c->losses[i];
	return NULL;
}

const char *cost_kind_name(unsigned kind)
{
	return event_value_name(TABLE_cost, COLUMN_cost_kind, kind);
}

const char *loss_reason_text(unsigned reason, uint64_t count)
{
#define LOST(noun, rest)                                                                           \
	{                                                                                          \
		noun " " rest, noun "s " rest                                                      \
	}
	static const struct {
		const char *one, *many;
	} texts[] = {
		[loss_reason_unknown] = LOST("event", "lost for an unknown reason"),
		[loss_reason_ring_full] = LOST("event", "lost: the ring of a thread was full"),
		[loss_reason_cupti_dropped] = LOST("record", "dropped by CUPTI"),
		[loss_reason_no_buffer] = LOST("time", "CUPTI found no free buffer"),
		[loss_reason_no_time] = LOST("record", "without times (kept)"),
		[loss_reason_reversed_time] = LOST("record", "with an end before the start (kept)"),
		[loss_reason_incomplete_record] = LOST("operation", "still running at the end"),
		[loss_reason_disk_full] = LOST("row", "lost: the disk was full"),
		[loss_reason_write_error] = LOST("row", "lost: writing failed"),
		[loss_reason_size_limit] = LOST("row", "dropped: --max-size was reached"),
		[loss_reason_no_memory] = LOST("row", "lost: out of memory"),
		[loss_reason_unknown_record] = LOST("record", "of an unknown kind or size"),
		[loss_reason_thread_limit] = LOST("thread", "over the limit, not recorded"),
		[loss_reason_damaged_file] = LOST("damaged piece", "of the recording, skipped"),
		[loss_reason_truncated_file] =
			LOST("segment", "without an end (_exit, a signal, a crash, or still "
					"running): the last rows are missing"),
		[loss_reason_missing_segment] = LOST("segment", "missing"),
		[loss_reason_clock_step] =
			LOST("step", "of CUPTI's clock, nearby times are less certain"),
		[loss_reason_missing_kernels] = { "launch without a record of its kernel",
						  "launches without a record of their kernel" },
		[loss_reason_string_limit] = LOST("text", "cut or dropped"),
		[loss_reason_late_start] = LOST("time", "recording began after CUDA was in use"),
		[loss_reason_stack_limit] = LOST("call stack", "dropped: too many distinct ones"),
		[loss_reason_samples_dropped] =
			LOST("CPU sample", "dropped by the operating system's kernel"),
		[loss_reason_throttled] =
			LOST("time", "the operating system's kernel paused CPU sampling"),
		[loss_reason_process_limit] = { "process over the limit, not sampled",
						"processes over the limit, not sampled" },
		[loss_reason_unnamed_frames] = LOST("Python frame", "freed before it was named"),
		[loss_reason_unreadable_buffer] =
			LOST("buffer", "of records that CUPTI could not read completely"),
		[loss_reason_cupti_failed] =
			LOST("time", "CUPTI failed: later GPU work is missing"),
		[loss_reason_gpu_hang] = LOST("call", "of CUPTI or the driver did not return: "
						      "finished work is missing"),
		[loss_reason_unmeasured] = { "launch without its hardware counters",
					     "launches without their hardware counters" },
		[loss_reason_disk_slow] = LOST("row", "lost: the disk was too slow"),
		[loss_reason_own_profiler] = { "launch while the program's own profiler had CUPTI",
					       "launches while the program's own profiler had "
					       "CUPTI" },
	};
#undef LOST

	if (reason >= ARRAY_SIZE(texts) || !texts[reason].one)
		reason = loss_reason_unknown;
	return count == 1 ? texts[reason].one : texts[reason].many;
}

static int load(struct trace *t, struct error *e)
{
	int r = 0;

	for (uint32_t id = 1; id <= TABLE_MAX && r >= 0; id++)
		r = trace_load(t, id, 1, e); /* loading any column verifies all blocks of a table */
	return r;
}

static int run(struct report *r, void *out)
{
	return cost_analyze(r->trace, out, NULL);
}

/* Damage is known only for loaded tables, so losses are collected after all other analyses. */
const struct analysis analysis_cost = {
	.size = sizeof(struct cost),
	.needs = { { TABLE_cost, 0 },
		   { TABLE_loss, 0 },
		   { TABLE_overhead, COLUMN_BITS(overhead, start_ns, end_ns) } },
	.load = load,
	.run = run,
	OWNS(struct cost, losses),
	.reads_others = true,
};
