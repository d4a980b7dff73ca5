#include "format/rows.h"

#include <string.h>

#include "base/clock.h"

uint32_t rows_text(struct writer *w, const char *text)
{
	return writer_string(w, text ? text : "", text ? strlen(text) : 0);
}

void rows_capability_at(struct writer *w, uint64_t time_ns, enum feature name,
			enum capability_state state, const char *requested, const char *actual,
			const char *reason)
{
	struct row_capability row = {
		.time_ns = time_ns,
		.state = (uint8_t)state,
		.requested = rows_text(w, requested),
		.actual = rows_text(w, actual),
		.reason = rows_text(w, reason),
		.name = (uint8_t)name,
	};

	ROW_MISSING(&row, capability, other);
	if (!requested)
		ROW_MISSING(&row, capability, requested);
	if (!actual)
		ROW_MISSING(&row, capability, actual);
	if (!reason)
		ROW_MISSING(&row, capability, reason);
	ROW_MISSING(&row, capability, method);
	writer_append(w, TABLE_capability, &row);
}

void rows_capability(struct writer *w, enum feature name, enum capability_state state,
		     const char *requested, const char *actual, const char *reason)
{
	rows_capability_at(w, clock_monotonic_ns(), name, state, requested, actual, reason);
}

void rows_loss(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t start_ns,
	       uint64_t end_ns, const char *detail)
{
	struct row_loss row = {
		.reason = (uint8_t)reason,
		.count = count,
		.start_ns = start_ns,
		.end_ns = end_ns,
	};

	if (count == 0)
		return;
	row.detail = rows_text(w, detail);
	if (!detail)
		ROW_MISSING(&row, loss, detail);
	writer_append(w, TABLE_loss, &row);
}

void rows_loss_more(struct writer *w, enum loss_reason reason, uint64_t count, uint64_t *reported,
		    uint64_t start_ns, uint64_t end_ns, const char *detail)
{
	rows_loss(w, reason, count - *reported, start_ns, end_ns, detail);
	*reported = count;
}

void rows_cost(struct writer *w, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns,
	       uint64_t count, uint64_t total_ns)
{
	struct row_cost row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.kind = (uint8_t)kind,
		.count = count,
		.total_ns = total_ns,
	};

	ROW_MISSING(&row, cost, bytes);
	if (count || total_ns)
		writer_append(w, TABLE_cost, &row);
}

void rows_writing(struct writer *w, uint64_t start_ns, uint64_t end_ns,
		  struct writer_stats *reported)
{
	struct writer_stats now;

	writer_stats(w, &now);
	if (now.writes != reported->writes)
		writer_append(w, TABLE_cost,
			      &(struct row_cost){ .start_ns = start_ns,
						  .end_ns = end_ns,
						  .kind = cost_kind_write,
						  .count = now.writes - reported->writes,
						  .total_ns = now.write_ns - reported->write_ns,
						  .bytes = now.bytes - reported->bytes });
	*reported = now;
}

struct row_clock rows_read_clocks(void)
{
	uint64_t before = clock_monotonic_ns();
	struct row_clock row = {
		.missing = schema_missing(TABLE_clock),
		.realtime_ns = clock_read_ns(CLOCK_REALTIME),
		.boottime_ns = clock_read_ns(CLOCK_BOOTTIME),
	};
	uint64_t after = clock_monotonic_ns();

	row.monotonic_ns = before + (after - before) / 2;
	row.width_ns = (uint32_t)MIN(after - before, UINT64_C(0xffffffff));
	return row;
}

void rows_clock(struct writer *w, uint64_t gpu_ns)
{
	struct row_clock row = rows_read_clocks();

	ROW_SET_IF(&row, clock, gpu_ns, gpu_ns);
	writer_append(w, TABLE_clock, &row);
}

void rows_mark(struct writer *w, const char *text)
{
	struct row_nvtx row = { .missing = schema_missing(TABLE_nvtx),
				.time_ns = clock_monotonic_ns(),
				.kind = nvtx_kind_mark,
				.thread = (uint32_t)getpid() };

	ROW_SET(&row, nvtx, message, rows_text(w, text));
	writer_append(w, TABLE_nvtx, &row);
}
