/*
 * ranges_recording.c: measured ranges and graph launches, on two threads and two GPUs, and another
 * process that has the same ranges and measured none. Times are in us after START.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START (NS_PER_S)
#define US UINT64_C(1000)
#define SCOPES 9 /* the domain of maker_scope */
#define NO_LEVEL UINT8_MAX

enum { TIME = 1, TIME_OF_SECOND_GPU, BYTES }; /* ids of metrics */

/* A row of table nvtx with a level, which maker_nvtx does not write. */
static void event(struct maker *m, enum nvtx_kind kind, struct row_nvtx row, const char *name,
		  uint64_t us)
{
	row.time_ns = START + us * US;
	row.kind = (uint8_t)kind;
	ROW_MISSING(&row, nvtx, range);
	ROW_MISSING(&row, nvtx, category);
	ROW_MISSING(&row, nvtx, color);
	ROW_MISSING(&row, nvtx, payload_kind);
	ROW_MISSING(&row, nvtx, payload);
	if (kind == nvtx_kind_push)
		row.message = maker_string(m, name);
	else
		ROW_MISSING(&row, nvtx, message);
	writer_append(m->writer, TABLE_nvtx, &row);
}

static void range(struct maker *m, struct row_nvtx row, const char *name, uint64_t start_us,
		  uint64_t end_us)
{
	event(m, nvtx_kind_push, row, name, start_us);
	event(m, nvtx_kind_pop, row, name, end_us);
}

/* The values of a measurement that begins just before a range, and ends just after it. */
static void measured(struct maker *m, struct row_range_value row, const char *name,
		     uint64_t start_us, uint64_t end_us, double time, double bytes)
{
	const double values[] = { time, bytes };

	row.start_ns = START + start_us * US - 10;
	row.end_ns = START + end_us * US + 10;
	row.name = maker_string(m, name);
	row.passes = MAX(row.passes, 1);
	for (uint32_t i = 0; i < 2; i++) {
		row.metric = i ? BYTES : row.device ? TIME_OF_SECOND_GPU : TIME;
		row.missing = 0;
		memcpy(&row.value, &values[i], sizeof(row.value));
		ROW_MISSING_IF(&row, range_value, value, isnan(values[i]));
		ROW_MISSING_IF(&row, range_value, correlation, !row.correlation);
		ROW_MISSING_IF(&row, range_value, domain, row.level == NO_LEVEL);
		ROW_MISSING_IF(&row, range_value, level, row.level == NO_LEVEL);
		writer_append(m->writer, TABLE_range_value, &row);
	}
}

static struct maker *begin(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, START, "./app");

	for (uint32_t id = TIME; id <= BYTES; id++) {
		struct row_metric row = {
			.id = id,
			.name = maker_string(m, id == BYTES ? "dram__bytes_read.sum"
							    : "gpu__time_duration.sum"),
			.unit = maker_string(m, id == BYTES ? "byte" : "nanosecond"),
			.description = maker_string(m, "what it is"),
		};

		writer_append(m->writer, TABLE_metric, &row);
	}
	range(m, (struct row_nvtx){ .thread = 100 }, "step", 3000, 4000);
	return m;
}

#define RANGE(...)                                                                                 \
	(struct row_nvtx)                                                                          \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define VALUES(...)                                                                                \
	(struct row_range_value)                                                                   \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

void recording_ranges(const char *folder)
{
	struct maker *m = begin(folder, 100);

	maker_device(m, 0, START);
	maker_device(m, 1, START);
	/* The second of two occurrences, with one of equal name inside and others beside it. */
	range(m, RANGE(.thread = 100), "step", 1000, 2000);
	range(m, RANGE(.thread = 100, .level = 1), "step", 3200, 3800);
	range(m, RANGE(.thread = 100, .domain = 2), "step", 3100, 3900);
	range(m, RANGE(.thread = 101), "step", 3000, 4000);
	measured(m, VALUES(.thread = 100, .passes = 2), "step", 3000, 4000, 700, 4096);
	/* Another thread's, on the other GPU. */
	range(m, RANGE(.thread = 100), "step", 5100, 5900);
	range(m, RANGE(.thread = 101), "step", 5000, 6000);
	measured(m, VALUES(.thread = 101, .device = 1), "step", 5000, 6000, 800, 64);
	/* An inner one, without one of its values. */
	range(m, RANGE(.thread = 100), "outer", 7000, 9000);
	range(m, RANGE(.thread = 100, .level = 1), "outer", 7500, 8500);
	measured(m, VALUES(.thread = 100, .level = 1), "outer", 7500, 8500, 900, NAN);
	/* A scope, and a range without any value. */
	maker_scope(m, nvtx_kind_token, 100, NULL, 1, START + 9500 * US);
	range(m, RANGE(.thread = 100, .domain = SCOPES), "forward", 10000, 11000);
	measured(m, VALUES(.thread = 100, .kind = range_kind_scope, .domain = SCOPES), "forward",
		 10000, 11000, 1000, 0);
	range(m, RANGE(.thread = 100), "empty", 11200, 11800);
	measured(m, VALUES(.thread = 100), "empty", 11200, 11800, NAN, NAN);
	/* Launches of a graph; the call of the second was lost. */
	maker_call(m, MAKER_GRAPH_LAUNCH, 100, START + 12000 * US, START + 12500 * US, 50);
	measured(m,
		 VALUES(.thread = 100, .kind = range_kind_graph, .level = NO_LEVEL, .passes = 3,
			.correlation = 50),
		 "graph 7", 12000, 12500, 1100, 1);
	measured(m,
		 VALUES(.thread = 100, .kind = range_kind_graph, .level = NO_LEVEL,
			.correlation = 51),
		 "graph 7", 12600, 12700, 1200, 2);
	/* Ranges whose push or pop was lost, around others of equal name. */
	range(m, RANGE(.thread = 100, .level = 1), "lost", 13100, 13900);
	range(m, RANGE(.thread = 100, .domain = 2), "lost", 13200, 13300);
	range(m, RANGE(.thread = 101), "lost", 13200, 13300);
	event(m, nvtx_kind_pop, RANGE(.thread = 100), NULL, 14000);
	measured(m, VALUES(.thread = 100), "lost", 13000, 14000, 1300, 3);
	event(m, nvtx_kind_push, RANGE(.thread = 101), "open", 15000);
	range(m, RANGE(.thread = 101, .level = 1), "open", 15100, 15900);
	measured(m, VALUES(.thread = 101), "open", 15000, 16000, 1400, 4);
	maker_close(m, START + 20000 * US);
	maker_close(begin(folder, 200), START + 20000 * US);
}
