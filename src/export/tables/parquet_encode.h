/*
 * parquet_encode.h: Parquet's encodings of values, and Thrift's compact protocol, in which headers
 * and footers are written (parquet-format 2.x).
 */
#ifndef PITOT_EXPORT_PARQUET_ENCODE_H
#define PITOT_EXPORT_PARQUET_ENCODE_H

#include "base/strbuf.h"

/*
 * RLE and bit-packed runs of numbers of `width` bits (0 to 32): definition levels, and indexes of a
 * dictionary. Without a length before them.
 */
void parquet_hybrid(struct strbuf *out, const uint32_t *values, size_t count, unsigned width);
/* DELTA_BINARY_PACKED: blocks of 128 values; of 32 bits if is_32. */
void parquet_delta(struct strbuf *out, const uint64_t *values, size_t count, bool is_32);

/* ---- Thrift ---- */

enum thrift_type {
	THRIFT_TRUE = 1,
	THRIFT_FALSE,
	THRIFT_BYTE,
	THRIFT_I32 = 5,
	THRIFT_I64,
	THRIFT_BINARY = 8,
	THRIFT_LIST,
	THRIFT_STRUCT = 12,
};

#define THRIFT_DEPTH 8

struct thrift {
	struct strbuf *out;
	int last[THRIFT_DEPTH]; /* field of each open struct */
	int depth;
};

void thrift_bool(struct thrift *t, int field, bool value);
void thrift_byte(struct thrift *t, int field, uint8_t value);
void thrift_i32(struct thrift *t, int field, int32_t value);
void thrift_i64(struct thrift *t, int field, int64_t value);
void thrift_binary(struct thrift *t, int field, const void *bytes, size_t length);
void thrift_text(struct thrift *t, int field, const char *text);
void thrift_open(struct thrift *t, int field); /* a struct; 0: an item of a list */
void thrift_close(struct thrift *t);
/* A list, whose items follow: structs, or items without a field. */
void thrift_list(struct thrift *t, int field, enum thrift_type items, size_t count);
void thrift_item_i32(struct thrift *t, int32_t value);
void thrift_item_text(struct thrift *t, const char *text);

#endif
