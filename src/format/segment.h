/*
 * segment.h: constants and layouts of a segment file. docs/format.md is normative.
 *
 * A recording is a directory:
 *	recording.json		who, where, when, command; for people, not needed for reading
 *	<pid>.<n>.pit		segments written by process <pid>, n = 0, 1, 2 …
 *	record.<n>.pit		segments written by `pitot record` itself
 *
 * A segment is a header, then blocks, then (only after an orderly end) an index block and a
 * trailer. Each block contains rows of one table, column by column, and is decoded independently of
 * other blocks. Strings and kernel configurations precede their first use in the same segment, so
 * that no segment needs another one.
 */
#ifndef PITOT_FORMAT_SEGMENT_H
#define PITOT_FORMAT_SEGMENT_H

#include "base/compiler.h"

#define SEGMENT_SUFFIX ".pit"
#define SEGMENT_MAGIC "PITOTSEG" /* 8 bytes */
#define SEGMENT_VERSION 1 /* readers refuse a larger one */

/* 64 bytes at offset 0. All integers little endian. */
struct segment_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes; /* sizeof this struct; blocks start there */
	uint64_t session; /* random; equal in all segments of one process image */
	uint32_t pid;
	uint32_t number; /* 0, 1, 2 … within the session; a gap is a lost segment */
	uint64_t start_monotonic_ns; /* when the segment was created */
	uint64_t start_realtime_ns;
	uint8_t reserved[12];
	uint32_t crc; /* CRC-32C of the bytes before */
};
_Static_assert(sizeof(struct segment_header) == 64, "on disk");

#define BLOCK_MAGIC 0x4b4c4250u /* "PBLK" */
#define BLOCK_ROWS_MAX 65536u /* rows; readers refuse more */
#define BLOCK_BYTES_MAX (64u << 20) /* payload; readers refuse more */

/* 48 bytes before each block's payload. Blocks start at any offset. */
struct block_header {
	uint32_t magic;
	uint32_t header_crc; /* CRC-32C of this struct with header_crc as 0 */
	uint32_t payload_bytes;
	uint32_t payload_crc; /* CRC-32C of the payload */
	uint16_t table; /* table id, or BLOCK_TABLE_… */
	uint16_t columns; /* column chunks in the payload */
	uint32_t rows;
	/* Smallest and largest value of the table's time column; 0, 0 without one. */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t number; /* 0, 1, 2 … within the segment */
};
_Static_assert(sizeof(struct block_header) == 48, "on disk");

/* Skipped by readers; overwritten with a loss block when the disk is full. */
#define BLOCK_TABLE_PADDING 0
/* Payload: a struct index_entry for each block of a table. */
#define BLOCK_TABLE_INDEX 0xffff

/*
 * 48 bytes: offset and contents of a block's header. It has no magic, so that it cannot be mistaken
 * for the header.
 */
struct index_entry {
	uint64_t offset;
	uint32_t payload_bytes;
	uint32_t payload_crc;
	uint16_t table;
	uint16_t columns;
	uint32_t rows;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t number;
};
_Static_assert(sizeof(struct index_entry) == 48, "on disk");

/* 24 bytes at the end of a segment that was closed in order. */
struct segment_trailer {
	uint64_t index_offset; /* of the index block's header */
	uint32_t reserved;
	uint32_t crc; /* CRC-32C of magic and the fields before */
	char magic[8]; /* "PITOTEND" */
};
_Static_assert(sizeof(struct segment_trailer) == 24, "on disk");
#define TRAILER_MAGIC "PITOTEND"

/*
 * A payload is `columns` chunks, each:
 *	varint	column id (the column's index in the schema)
 *	u8	flags: low 2 bits ENCODING_…, the others CHUNK_…
 *	varint	seed: only with CHUNK_DELTA
 *	varint	decoded bytes of the data (before zstd; equals stored bytes without it)
 *	varint	stored bytes
 *	data
 *
 * A column without a chunk is missing in all rows.
 *
 * CHUNK_VALIDITY	a chunk with one value per row of the column: 0 missing, 1 present. Precedes
 *			the chunk of the column's values, which has the present values only
 *
 * Values of signed columns are sign-extended to 64 bits; arithmetic is modulo 2^64. Stored is
 *
 * CHUNK_BASE		the difference to the value of the column's base column in the same row, or
 *			to 0 where that is missing
 * CHUNK_DELTA		the difference to the previous value, for the first one to the seed; taken
 *			after CHUNK_BASE
 *
 * With either flag, and for signed columns, the result is stored as zigzag.
 */
enum {
	ENCODING_RUNS = 0, /* pairs of varints: length of a run (>= 1), value */
	/* u8 width w (1..8), then w planes of one byte per value, least significant first */
	ENCODING_PLANES = 1,
	/* varint count (1..256), the values as varints, then one byte per value: its index */
	ENCODING_DICTIONARY = 2,
	ENCODING_BYTES = 3, /* BYTES columns: a varint length per value, then all the bytes */
};

#define CHUNK_ENCODING(flags) ((flags)&0x03)
#define CHUNK_UNUSED 0x0c /* bits that are 0 in this version */
#define CHUNK_DELTA 0x10
#define CHUNK_BASE 0x20
#define CHUNK_VALIDITY 0x40
#define CHUNK_ZSTD 0x80

#endif
