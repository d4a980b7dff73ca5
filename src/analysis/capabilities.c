#include "analysis/capabilities.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/calls.h"
#include "analysis/filter.h"
#include "trace/columns.h"

void capability_read(const struct trace *t, enum feature name, struct capability_note *out)
{
	const struct capability_columns *c = capability_columns(t);
	uint64_t latest = 0;

	*out = (struct capability_note){ .requested = "", .actual = "", .reason = "" };
	for (uint64_t row = 0; c->time_ns && row < trace_rows(t, TABLE_capability); row++) {
		if (c->name[row] != name || c->time_ns[row] < latest)
			continue;
		latest = c->time_ns[row];
		*out = (struct capability_note){
			.known = true,
			.state = (enum capability_state)c->state[row],
			.has_method = c->method && column_has(c->valid.method, row),
			.requested =
				row_text(t, TABLE_capability, COLUMN_capability_requested, row),
			.actual = row_text(t, TABLE_capability, COLUMN_capability_actual, row),
			.reason = row_text(t, TABLE_capability, COLUMN_capability_reason, row),
		};
		if (out->has_method)
			out->method = (enum sampling_method)c->method[row];
	}
}

int capability_find(struct trace *t, enum feature name, struct capability_note *out,
		    struct error *e)
{
	int rc = trace_load(t, TABLE_capability, 0, e);

	capability_read(t, name, out);
	return rc < 0 ? rc : 0;
}

const char *capability_app_name(const struct trace *t, const struct trace_process *process)
{
	struct row_walk w =
		process_rows(t, TABLE_capability, (size_t)(process - trace_process(t, 0)));
	const char *name = "";

	while (row_walk_next(&w))
		if (capability_columns(t)->name[w.row] == feature_app_name)
			name = row_text(t, TABLE_capability, COLUMN_capability_actual, w.row);
	return name;
}

const char *capability_name(const struct trace *t, uint64_t row)
{
	unsigned name = capability_columns(t)->name[row];
	const char *text = feature_name((enum feature)name);

	return name == feature_other || !text
		       ? row_text(t, TABLE_capability, COLUMN_capability_other, row)
		       : text;
}

/* requested: NULL: anything */
static const char *find_refusal(const struct trace *t, enum feature name, const char *requested)
{
	const struct capability_columns *c = capability_columns(t);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_capability); row++) {
		const char *reason = row_text(t, TABLE_capability, COLUMN_capability_reason, row);

		if (c->name[row] == name && c->state[row] != capability_state_on && *reason &&
		    (!requested ||
		     strcmp(row_text(t, TABLE_capability, COLUMN_capability_requested, row),
			    requested) == 0))
			return reason;
	}
	return "";
}

const char *capability_refusal(const struct trace *t, enum feature name)
{
	return find_refusal(t, name, NULL);
}

const char *capability_engine_refusal(const struct trace *t, const char *engine)
{
	return find_refusal(t, feature_engine, engine);
}

/* The first row of a capability in a state, or TRACE_NO_ROW. */
static uint64_t row_in_state(const struct trace *t, enum feature name, enum capability_state state)
{
	const struct capability_columns *c = capability_columns(t);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_capability); row++)
		if (c->name[row] == name && c->state[row] == state)
			return row;
	return TRACE_NO_ROW;
}

static bool is_on(const struct trace *t, enum feature name)
{
	return row_in_state(t, name, capability_state_on) != TRACE_NO_ROW;
}

void capability_window(const struct trace *t, uint64_t *opened_ns, uint64_t *closed_ns)
{
	const uint64_t *times = capability_columns(t)->time_ns;
	uint64_t opened = row_in_state(t, feature_window, capability_state_on);
	uint64_t closed = row_in_state(t, feature_window, capability_state_off);

	*opened_ns = opened == TRACE_NO_ROW ? 0 : times[opened];
	*closed_ns = closed == TRACE_NO_ROW ? UINT64_MAX : times[closed];
}

/* Why the window of --delay or --duration has nothing; "": it has, or there is none. */
static const char *missed_window(const struct trace *t)
{
	uint64_t row = row_in_state(t, feature_window, capability_state_unavailable);

	return row == TRACE_NO_ROW ? ""
				   : row_text(t, TABLE_capability, COLUMN_capability_reason, row);
}

/* Why a recorder could not write its data; "": it could. */
static const char *write_failure(struct trace *t)
{
	static const char *const reasons[] = {
		[loss_reason_disk_full] = "the disk was full",
		[loss_reason_disk_slow] = "the disk was too slow",
		[loss_reason_write_error] = "the recording could not be written",
		[loss_reason_size_limit] = "--max-size was reached",
	};
	const uint8_t *lost = loss_columns(t)->reason;
	const char *refused = "";

	for (uint64_t row = 0; row < trace_rows(t, TABLE_loss); row++)
		if (lost[row] < ARRAY_SIZE(reasons) && reasons[lost[row]])
			return reasons[lost[row]];
		else if (lost[row] == loss_reason_refused_segment)
			refused = row_text(t, TABLE_loss, COLUMN_loss_detail, row);
	return refused;
}

/* Whether there is damage, found when it was made or read, in which the GPU work may have been. */
static int find_damage(struct trace *t, bool *damaged, struct error *e)
{
	const struct trace_loss *losses;
	size_t count = 0;
	int rc = trace_losses(t, &losses, &count, e);

	*damaged = trace_cut(t).partial_bytes;
	for (size_t i = 0; i < count; i++)
		*damaged |= losses[i].reason == loss_reason_damaged_file ||
			    losses[i].reason == loss_reason_missing_segment;
	return rc;
}

int capability_cpu_only(struct trace *t, bool *cpu_only, struct error *e)
{
	struct capability_note gpu;
	int rc = capability_find(t, feature_gpu, &gpu, e);

	*cpu_only = gpu.known && gpu.state == capability_state_off;
	return rc;
}

int capability_no_gpu(struct trace *t, struct strbuf *why, struct error *e)
{
	struct capability_note ring;
	const char *reason = "";
	uint64_t launches;
	bool cpu_only, damaged = false;
	int rc = capability_cpu_only(t, &cpu_only, e);

	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		if (trace_rows(t, schema_gpu_work[i]->id))
			return 0;
	if (rc >= 0)
		rc = calls_count_launches(t, &launches, e);
	if (rc >= 0)
		rc = find_damage(t, &damaged, e);
	if (rc < 0)
		return rc;
	if (cpu_only)
		reason = "only the CPU was sampled";
	if (!*reason)
		reason = write_failure(t);
	if (!*reason)
		reason = missed_window(t);
	capability_read(t, feature_ring, &ring);
	if (!*reason && ring.known && ring.state == capability_state_off)
		reason = ring.reason;
	if (!*reason)
		reason = capability_refusal(t, feature_cupti);
	if (!*reason)
		reason = capability_refusal(t, feature_rocm);
	if (!*reason)
		reason = capability_refusal(t, feature_device);
	if (!*reason && damaged)
		reason = "the recording is damaged or cut, and what can be read of it has none";
	if (!*reason && (is_on(t, feature_cupti) || is_on(t, feature_rocm))) {
		reason = capability_refusal(t, feature_kernel);
		if (!*reason)
			reason = launches
					 ? "work was launched, but the GPU's profiling library "
					   "delivered no records of it"
					 : "the command ran nothing on a GPU while it was recorded";
	}
	if (!*reason)
		reason = capability_refusal(t, feature_gpu);
	if (!*reason && is_on(t, feature_import))
		reason = "what was imported contains none";
	strbuf_adds(why,
		    *reason ? reason : "the command did not use CUDA, or HIP with ROCprofiler-SDK");
	return 0;
}

/* Of such a process all rows "cupti" say that it is unavailable. */
int capability_refused_processes(const struct trace *t, struct refused_processes *out)
{
	enum { NONE, REFUSED, WORKED };
	size_t count = trace_process_count(t);
	_cleanup_free_ uint8_t *seen = calloc(count + 1, sizeof(*seen));
	const struct capability_columns *c = capability_columns(t);
	uint64_t rows = trace_rows(t, TABLE_capability);

	*out = (struct refused_processes){ .why = "" };
	if (!seen)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++) {
		uint8_t *s = &seen[MIN(trace_row_process(t, TABLE_capability, row), count)];
		bool refused = c->state[row] == capability_state_unavailable;

		if (c->name[row] != feature_cupti)
			continue;
		*s = MAX(*s, refused ? REFUSED : WORKED);
	}
	for (size_t i = 0; i < count; i++)
		out->count += seen[i] == REFUSED;
	if (out->count)
		out->why = capability_refusal(t, feature_cupti);
	return 0;
}

void capability_no_samples(const struct trace *t, const struct capability_note *cpu,
			   struct strbuf *out)
{
	const char *missed = missed_window(t);

	/* a timer may have been in no process, or not in the threads that ran */
	if (*missed && cpu->state != capability_state_off)
		strbuf_adds(out, missed);
	else if (cpu->has_method && cpu->method != sampling_method_timer)
		strbuf_addf(out, "nothing ran long enough to be sampled (%s)", cpu->actual);
	else
		strbuf_adds(out, cpu->reason);
}
