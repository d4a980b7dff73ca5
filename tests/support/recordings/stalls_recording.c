/*
 * stalls_recording.c: PC samples: two processes with a GPU each. The first has two readings of
 * kernels whose device code is tests/fuzz/corpus/cubin/lineinfo (its source is in
 * tests/fuzz/seeds_cubin), the second device code that could not be stored. Nothing in it was
 * measured. Also SASS metrics of the same kernels, in two processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START NS_PER_S
#define MS UINT64_C(1000000)
#define KEPT UINT64_C(0x00c0ffee12345678)
#define LOST UINT64_C(0xdeadbeef00000001)
#define SMOOTH "_Z6smoothPfPKfi"
#define SCALE "_Z5scaleIfEvPT_i"
#define GATHER "_Z6gatherPKfi" /* a device function, in smooth's section from 0x190 on */
#define LIBRARY "_ZN3lib6reduceEPKfPfi"
#define REASON(state) "smsp__pcsamp_warps_issue_stalled_" state

struct sampled {
	uint64_t crc;
	const char *function;
	uint64_t offset;
	const char *reason;
	uint64_t samples;
};

static const struct sampled first[] = {
	{ KEPT, SMOOTH, 0xd0, REASON("long_scoreboard"), 50 },
	{ KEPT, SMOOTH, 0xd0, REASON("long_scoreboard_not_issued"), 250 },
	{ KEPT, SMOOTH, 0xd0, REASON("selected"), 20 },
	{ KEPT, SMOOTH, 0xe0, REASON("wait"), 40 }, /* in twice() in polynomial() */
	{ KEPT, SMOOTH, 0x110, REASON("wait"), 10 }, /* the same line, called from another one */
	{ KEPT, SMOOTH, 0x1d0, REASON("long_scoreboard"), 20 },
	{ KEPT, SMOOTH, 0x1d0, REASON("long_scoreboard_not_issued"), 180 },
	{ KEPT, GATHER, 0x40, REASON("long_scoreboard"), 30 }, /* 0x1d0 in the kernel */
	{ KEPT, SCALE, 0x100, REASON("math_pipe_throttle"), 60 },
	{ KEPT, SCALE, 0x100, REASON("not_selected"), 15 },
	{ KEPT, SCALE, 0x100, REASON("new_unit"), 5 },
};

static const struct sampled second[] = {
	{ KEPT, SMOOTH, 0xd0, REASON("long_scoreboard"), 100 },
	{ KEPT, SMOOTH, 0xd0, REASON("barrier"), 20 },
	{ KEPT, SCALE, 0x100, REASON("math_pipe_throttle"), 30 },
};

static const struct sampled other[] = {
	{ LOST, LIBRARY, 0x80, REASON("short_scoreboard"), 42 },
	{ LOST, LIBRARY, 0x80, REASON("short_scoreboard_not_issued"), 8 },
	{ LOST, LIBRARY, 0x90, REASON("selected"), 70 },
	{ LOST, "_ZN3lib4copyEPfPKf", 0, REASON("selected"), 10 },
	{ KEPT, SCALE, 0x100, REASON("math_pipe_throttle"), 10 },
};

/* The reading's total exceeds the rows by lost samples and those of other code. */
static void add_reading(struct maker *m, uint64_t id, uint64_t start_ms, uint64_t end_ms,
			uint64_t dropped, uint64_t others, const struct sampled *rows, size_t count)
{
	struct row_pc_reading reading = {
		.id = id,
		.start_ns = START + start_ms * MS,
		.end_ns = START + end_ms * MS,
		.device = m->device,
		.context = m->context,
		.period_cycles = 2048,
		.total = dropped + others,
		.dropped = dropped,
		.other = others,
	};

	for (size_t i = 0; i < count; i++) {
		struct row_pc_sample row = {
			.reading = id,
			.crc = rows[i].crc,
			.function = maker_string(m, rows[i].function),
			.offset = rows[i].offset,
			.reason = maker_string(m, rows[i].reason),
			.samples = rows[i].samples,
		};

		reading.total += rows[i].samples;
		writer_append(m->writer, TABLE_pc_sample, &row);
	}
	writer_append(m->writer, TABLE_pc_reading, &reading);
}

static void fail(const char *path)
{
	perror(path);
	exit(1);
}

static uint64_t copy_cubin(const char *folder, const char *name)
{
	char path[4096], bytes[1 << 16];
	size_t size;
	FILE *f = fopen(CUBINS "/lineinfo", "rb");

	if (!f)
		fail(CUBINS "/lineinfo");
	size = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	snprintf(path, sizeof(path), "%s/cubins", folder);
	if (mkdir(path, 0700) < 0)
		fail(path);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		fail(path);
	return size;
}

static void work(struct maker *m, const char *kernel, uint64_t at_ms, uint64_t ms)
{
	uint32_t config = maker_config(m, kernel, 132, 256);

	maker_call(m, MAKER_LAUNCH, m->process.pid, START + at_ms * MS, START + at_ms * MS + 4000,
		   at_ms);
	maker_kernel(m, config, 7, START + at_ms * MS + 10000, START + (at_ms + ms) * MS, at_ms);
}

void recording_stalls(const char *folder)
{
	struct maker *m = maker_begin(folder, 100, START, "./smooth");
	struct row_cubin kept = { .crc = KEPT };
	struct row_cubin lost = { .missing =
					  1 << COLUMN_cubin_file | 1 << COLUMN_cubin_size_bytes };

	maker_device(m, 0, START);
	work(m, SMOOTH, 1, 100);
	work(m, SCALE, 102, 20);
	work(m, SMOOTH, 210, 30);
	kept.file = maker_string(m, "cubins/00c0ffee12345678.cubin");
	kept.size_bytes = copy_cubin(folder, "cubins/00c0ffee12345678.cubin");
	writer_append(m->writer, TABLE_cubin, &kept);
	add_reading(m, 1, 0, 200, 7, 13, first, ARRAY_SIZE(first));
	add_reading(m, 2, 200, 300, 0, 0, second, ARRAY_SIZE(second));
	maker_close(m, START + 400 * MS);
	m = maker_begin(folder, 101, START + MS, "./library");
	maker_device(m, 1, START + MS);
	m->device = 1;
	work(m, LIBRARY, 5, 40);
	ROW_MISSING(&lost, cubin, file);
	ROW_MISSING(&lost, cubin, size_bytes);
	writer_append(m->writer, TABLE_cubin, &lost);
	lost.crc = KEPT;
	writer_append(m->writer, TABLE_cubin, &lost);
	add_reading(m, 1, 1, 150, 2, 0, other, ARRAY_SIZE(other));
	maker_close(m, START + 400 * MS);
}

#define PREFIX "smsp__sass_"
static const char *const metrics[] = {
	PREFIX "inst_executed",
	PREFIX "thread_inst_executed",
	PREFIX "thread_inst_executed_pred_on",
	PREFIX "sectors_mem_global",
	PREFIX "sectors_mem_global_op_ld", /* part of the previous metric */
	PREFIX "sectors_mem_global_op_ld_ideal",
	PREFIX "branch_targets",
};

/* One launch of each function; values by metric, as far as there are any. */
static const struct counted {
	const char *function;
	uint64_t offset;
	unsigned count;
	uint64_t values[ARRAY_SIZE(metrics)];
} counted[] = {
	{ SMOOTH, 0xd0, 7, { 100, 3200, 3200, 410, 410, 100, 1 } }, /* a load, kernel.cu:16 */
	{ SMOOTH, 0xe0, 3, { 300, 3300, 2000 } }, /* math.h:3 in it */
	{ SMOOTH, 0x110, 3, { 100, 3200, 3200 } }, /* the same line */
	{ SMOOTH, 0x1d0, 4, { 2, 64, 64, 50 } }, /* a store: its ideal is unknown */
	{ GATHER, 0x40, 1, { 8 } }, /* 0x1d0 in the kernel */
	{ SCALE, 0x100, 6, { 90, 2880, 2880, 90, 90, 90 } }, /* kernel.cu:22 */
};

static void add_launch(struct maker *m, const char *kernel, uint64_t at_ms)
{
	work(m, kernel, at_ms, 5);
	for (size_t i = 0; i < ARRAY_SIZE(counted); i++) {
		const struct counted *c = &counted[i];
		const char *of = strcmp(c->function, GATHER) == 0 ? SMOOTH : c->function;

		for (uint32_t k = 0; k < c->count && strcmp(of, kernel) == 0; k++)
			writer_append(
				m->writer, TABLE_sass_value,
				&(struct row_sass_value){ .time_ns = START + (at_ms + 6) * MS,
							  .correlation = at_ms,
							  .device = m->device,
							  .crc = KEPT,
							  .function = maker_string(m, c->function),
							  .offset = c->offset,
							  .metric = k + 1,
							  .value = c->values[k] });
	}
}

static struct maker *begin_counted(const char *folder, uint32_t pid, uint32_t device)
{
	struct maker *m = maker_begin(folder, pid, START, "./smooth");
	struct row_cubin kept = { .crc = KEPT };

	maker_device(m, device, START);
	m->device = device;
	kept.file = maker_string(m, "cubins/00c0ffee12345678.cubin");
	kept.size_bytes = 1;
	writer_append(m->writer, TABLE_cubin, &kept);
	for (uint32_t i = 0; i < ARRAY_SIZE(metrics); i++)
		writer_append(m->writer, TABLE_metric,
			      &(struct row_metric){ .id = i + 1,
						    .name = maker_string(m, metrics[i]),
						    .unit = maker_string(m, ""),
						    .description = maker_string(m, "") });
	return m;
}

void recording_sass(const char *folder)
{
	struct maker *m = begin_counted(folder, 100, 0);

	copy_cubin(folder, "cubins/00c0ffee12345678.cubin");
	add_launch(m, SMOOTH, 10);
	add_launch(m, SMOOTH, 20);
	add_launch(m, SCALE, 30);
	maker_close(m, START + 400 * MS);
	m = begin_counted(folder, 101, 1);
	add_launch(m, SMOOTH, 10);
	maker_close(m, START + 400 * MS);
}
