#include "analysis/cost.h"

#include <errno.h>
#include <string.h>

#include "analysis/report.h"
#include "base/vec.h"

/* Distinct reasons and details that are told apart; more go into the last one of their reason. */
#define LOSSES_MAX 256

#define OVERHEAD_COLUMNS (COLUMN_BIT(overhead, start_ns) | COLUMN_BIT(overhead, end_ns))

static void sum_costs(const struct trace *t, struct cost *out)
{
	const uint8_t *kinds = trace_u8(t, TABLE_cost, COLUMN_cost_kind);
	const uint64_t *counts = trace_u64(t, TABLE_cost, COLUMN_cost_count);
	const uint64_t *totals = trace_u64(t, TABLE_cost, COLUMN_cost_total_ns);
	const uint64_t *bytes = trace_u64(t, TABLE_cost, COLUMN_cost_bytes);
	const uint8_t *bytes_valid = trace_valid(t, TABLE_cost, COLUMN_cost_bytes);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_cost); row++) {
		struct cost_sum *sum = kinds[row] < COST_KINDS ? &out->kinds[kinds[row]] : NULL;

		if (!sum)
			continue;
		sum->any = true;
		sum->count += counts[row];
		sum->total_ns += totals[row];
		sum->bytes += !bytes_valid || bytes_valid[row] ? bytes[row] : 0;
	}
	out->target_ns = out->kinds[cost_kind_callback].total_ns +
			 out->kinds[cost_kind_setup].total_ns +
			 out->kinds[cost_kind_exit].total_ns +
			 out->kinds[cost_kind_buffer_request].total_ns +
			 out->kinds[cost_kind_timer_sample].total_ns;
}

static void sum_overhead(const struct trace *t, struct cost *out)
{
	uint64_t rows = trace_rows(t, TABLE_overhead);
	const uint64_t *starts = trace_u64(t, TABLE_overhead, COLUMN_overhead_start_ns);
	const uint64_t *ends = trace_u64(t, TABLE_overhead, COLUMN_overhead_end_ns);
	const uint8_t *starts_valid = trace_valid(t, TABLE_overhead, COLUMN_overhead_start_ns);
	const uint8_t *ends_valid = trace_valid(t, TABLE_overhead, COLUMN_overhead_end_ns);

	for (uint64_t row = 0; row < rows; row++) {
		out->overhead_count++;
		if ((!starts_valid || starts_valid[row]) && (!ends_valid || ends_valid[row]) &&
		    ends[row] > starts[row])
			out->overhead_ns += ends[row] - starts[row];
	}
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

/* Whether a loss is of events, and not of their details. */
static bool loses_events(enum loss_reason reason)
{
	switch (reason) {
	case loss_reason_ring_full:
	case loss_reason_cupti_dropped:
	case loss_reason_disk_full:
	case loss_reason_write_error:
	case loss_reason_size_limit:
	case loss_reason_no_memory:
	case loss_reason_samples_dropped:
	case loss_reason_missing_kernels:
	case loss_reason_damaged_file:
	case loss_reason_missing_segment:
		return true;
	default:
		return false;
	}
}

static uint64_t count_events(const struct trace *t)
{
	static const enum table_id tables[] = { TABLE_kernel,    TABLE_memcpy,       TABLE_memset,
						TABLE_nvtx,      TABLE_graph_launch, TABLE_api_call,
						TABLE_cpu_sample };
	uint64_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		count += trace_rows(t, tables[i]);
	return count;
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
		if (loses_events(losses[i].reason)) {
			out->lost += losses[i].count;
			out->lost_least |= !losses[i].count;
		}
		sum->count += losses[i].count;
		sum->unknown |= !losses[i].count;
		sum->start_ns = MIN(sum->start_ns, losses[i].start_ns);
		sum->end_ns = MAX(sum->end_ns, losses[i].end_ns);
	}
	return 0;
}

int cost_analyze(struct trace *t, struct cost *out, struct error *e)
{
	int r = trace_load(t, TABLE_cost, 0, e);

	*out = (struct cost){ 0 };
	if (r >= 0)
		r = trace_load(t, TABLE_overhead, OVERHEAD_COLUMNS, e);
	if (r >= 0)
		r = sum_losses(t, out, e);
	if (r < 0)
		return r;
	out->recorded = count_events(t);
	sum_costs(t, out);
	sum_overhead(t, out);
	return 0;
}

void cost_release(struct cost *c)
{
	free(c->losses);
	*c = (struct cost){ 0 };
}

static const char *value_name(enum table_id table, int column, unsigned value)
{
	const char *name = schema_value_name(&schema_table(table)->columns[column], value);

	return name ? name : "unknown";
}

const char *cost_kind_name(unsigned kind)
{
	return value_name(TABLE_cost, COLUMN_cost_kind, kind);
}

const char *loss_reason_name(unsigned reason)
{
	return value_name(TABLE_loss, COLUMN_loss_reason, reason);
}

const char *loss_reason_text(unsigned reason, uint64_t count)
{
	static const struct {
		const char *one, *many;
	} texts[] = {
		[loss_reason_unknown] = { "event lost for a reason that is not known",
					  "events lost for a reason that is not known" },
		[loss_reason_ring_full] = { "event lost: the ring of a thread was full",
					    "events lost: the ring of a thread was full" },
		[loss_reason_cupti_dropped] = { "record dropped by CUPTI",
						"records dropped by CUPTI" },
		[loss_reason_no_buffer] = { "time CUPTI found no free buffer",
					    "times CUPTI found no free buffer" },
		[loss_reason_no_time] = { "record without times, kept",
					  "records without times, kept" },
		[loss_reason_reversed_time] = { "record that ends before it starts, kept",
						"records that end before they start, kept" },
		[loss_reason_incomplete_record] = { "piece of work still running at the end",
						    "pieces of work still running at the end" },
		[loss_reason_disk_full] = { "row lost: the disk was full",
					    "rows lost: the disk was full" },
		[loss_reason_write_error] = { "row lost: it could not be written",
					      "rows lost: they could not be written" },
		[loss_reason_size_limit] = { "row left out: --max-size was reached",
					     "rows left out: --max-size was reached" },
		[loss_reason_no_memory] = { "row lost: out of memory", "rows lost: out of memory" },
		[loss_reason_unknown_record] = { "record of an unknown kind or size",
						 "records of an unknown kind or size" },
		[loss_reason_thread_limit] = { "thread that was one too many to record, or its "
					       "events",
					       "threads that were too many to record, or their "
					       "events" },
		[loss_reason_damaged_file] = { "damaged piece of a file passed over",
					       "damaged pieces of files passed over" },
		[loss_reason_truncated_file] = { "segment not closed in order: a crash, or still "
						 "recording",
						 "segments not closed in order: a crash, or still "
						 "recording" },
		[loss_reason_missing_segment] = { "segment missing", "segments missing" },
		[loss_reason_clock_step] = { "step of CUPTI's clock, times around it are less "
					     "certain",
					     "steps of CUPTI's clock, times around them are less "
					     "certain" },
		[loss_reason_missing_kernels] = { "launch without a record of its kernel",
						  "launches without a record of their kernel" },
		[loss_reason_string_limit] = { "text cut or left out", "texts cut or left out" },
		[loss_reason_late_start] = { "time recording began after CUDA was in use",
					     "times recording began after CUDA was in use" },
		[loss_reason_stack_limit] = { "call stack left out: too many distinct ones",
					      "call stacks left out: too many distinct ones" },
		[loss_reason_samples_dropped] = { "CPU sample that the kernel dropped",
						  "CPU samples that the kernel dropped" },
		[loss_reason_throttled] = { "time the kernel paused CPU sampling",
					    "times the kernel paused CPU sampling" },
		[loss_reason_process_limit] = { "process that was one too many to sample",
						"processes that were too many to sample" },
		[loss_reason_unnamed_frames] = { "Python frame that was gone before it could be "
						 "named",
						 "Python frames that were gone before they could "
						 "be named" },
		[loss_reason_unreadable_buffer] = { "buffer of records that CUPTI could not read "
						    "to its end",
						    "buffers of records that CUPTI could not read "
						    "to their end" },
		[loss_reason_cupti_failed] = { "time CUPTI broke down: GPU work after that is "
					       "missing",
					       "times CUPTI broke down: GPU work after that is "
					       "missing" },
		[loss_reason_gpu_hang] = { "call of CUPTI or the driver that did not return: "
					   "finished work is missing",
					   "calls of CUPTI or the driver that did not return: "
					   "finished work is missing" },
		[loss_reason_disk_slow] = { "row that came while the disk was too slow",
					    "rows that came while the disk was too slow" },
	};

	if (reason >= ARRAY_SIZE(texts) || !texts[reason].one)
		reason = loss_reason_unknown;
	return count == 1 ? texts[reason].one : texts[reason].many;
}

static int load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_cost, 0, e);

	if (r >= 0)
		r = trace_load(t, TABLE_loss, 0, e);
	if (r >= 0)
		r = trace_load(t, TABLE_overhead, OVERHEAD_COLUMNS, e);
	for (uint32_t id = 1; id <= TABLE_MAX && r >= 0; id++)
		r = trace_load(t, id, 1, e); /* a table's first column: checks all of its blocks */
	return r;
}

static int run(struct report *r, void *out)
{
	return cost_analyze(r->trace, out, NULL);
}

/* Damage is known of loaded tables only, so losses are collected when all the others have run. */
const struct analysis analysis_cost = {
	.size = sizeof(struct cost),
	.load = load,
	.run = run,
	OWNS(struct cost, losses),
	.reads_others = true,
};
