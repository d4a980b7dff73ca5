/*
 * stalls_recording.c: samples of kernels: two processes on a GPU each, the first with two readings
 * of kernels whose device code is tests/fuzz/corpus/cubin/lineinfo (its source is in
 * tests/fuzz/seeds_cubin), the second with device code that could not be kept. Nothing in it was
 * measured.
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

/* total: what the rows do not have was lost or is of other code. */
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
