/*
 * parquet_read.h: reads Parquet files that Pitot has written (parquet.c), such as the objects of a
 * lake. Others are refused: pages are of version 1, one for each column and row group, compressed
 * by zstd; texts have a dictionary. No byte is trusted.
 */
#ifndef PITOT_EXPORT_PARQUET_READ_H
#define PITOT_EXPORT_PARQUET_READ_H

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

#define PARQUET_COLUMNS_MAX 64u

enum parquet_type { PARQUET_I32 = 1, PARQUET_I64 = 2, PARQUET_DOUBLE = 5, PARQUET_TEXT = 6 };

struct parquet_column {
	char name[64];
	enum parquet_type type;
	bool maybe; /* values can be missing */
};

struct parquet_chunk {
	uint64_t offset, bytes; /* of its pages in the file */
};

struct parquet_group {
	uint64_t rows; /* at most FLAT_ROWS */
	struct parquet_chunk chunks[PARQUET_COLUMNS_MAX];
};

struct parquet_file {
	const uint8_t *bytes; /* of the caller, who keeps them */
	size_t size;
	struct parquet_column columns[PARQUET_COLUMNS_MAX];
	size_t column_count;
	VEC(struct parquet_group) groups;
};

/* Reads the footer. Returns 0, E_FORMAT or -ENOMEM; release in any case. */
int parquet_file_open(struct parquet_file *f, const void *bytes, size_t size,
		      struct error *e) MUST_USE;
/*
 * Reads the values of a column of a group: 64 bits each, the lower half for 32-bit ones, and for
 * texts ids of `texts`. valid[i] is 0 where there is none, and its value is 0. Returns 0 or a
 * negative code.
 */
int parquet_file_read(const struct parquet_file *f, size_t group, size_t column,
		      struct interner *texts, uint64_t *values, uint8_t *valid,
		      struct error *e) MUST_USE;
void parquet_file_release(struct parquet_file *f);

#endif
