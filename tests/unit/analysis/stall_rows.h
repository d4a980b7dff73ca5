/*
 * stall_rows.h: samples of kernels for tests; the device code is tests/fuzz/corpus/cubin, its
 * source is in tests/fuzz/seeds_cubin.
 */
#ifndef PITOT_TESTS_STALL_ROWS_H
#define PITOT_TESTS_STALL_ROWS_H

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define SMOOTH "_Z6smoothPfPKfi"
#define SCALE "_Z5scaleIfEvPT_i"
#define GATHER "_Z6gatherPKfi" /* in smooth's section, from GATHER_START on */
#define GATHER_START 0x190
#define REASON(state) "smsp__pcsamp_warps_issue_stalled_" state
#define MEMORY REASON("long_scoreboard")

static inline void add_reading(struct maker *m, uint64_t id, uint64_t start_ns, uint64_t total,
			       uint64_t dropped, uint64_t other)
{
	struct row_pc_reading row = {
		.id = id,
		.start_ns = start_ns,
		.end_ns = start_ns + 1000,
		.device = m->device,
		.context = m->context,
		.period_cycles = 1024,
		.total = total,
		.dropped = dropped,
		.other = other,
	};

	writer_append(m->writer, TABLE_pc_reading, &row);
}

static inline void add_sample(struct maker *m, uint64_t reading, uint64_t crc, const char *function,
			      uint64_t offset, const char *reason, uint64_t samples)
{
	struct row_pc_sample row = {
		.reading = reading,
		.crc = crc,
		.function = maker_string(m, function),
		.offset = offset,
		.reason = maker_string(m, reason),
		.samples = samples,
	};

	writer_append(m->writer, TABLE_pc_sample, &row);
}

/* file NULL: it could not be kept. */
static inline void add_cubin(struct maker *m, uint64_t crc, const char *file)
{
	struct row_cubin row = { .crc = crc };

	if (file)
		row.file = maker_string(m, file);
	else
		ROW_MISSING(&row, cubin, file);
	ROW_MISSING(&row, cubin, size_bytes);
	writer_append(m->writer, TABLE_cubin, &row);
}

/* A file of the corpus as one of the recording. */
static inline void put_cubin(const char *folder, const char *name, const char *of)
{
	char path[512], target[512];

	snprintf(path, sizeof(path), "%s/cubins", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/cubins/%s", folder, name);
	snprintf(target, sizeof(target), "%s/%s", CUBINS, of);
	assert_int_equal(symlink(target, path), 0);
}

#endif
