/* layer: export */
/*
 * Any bytes as a Parquet file. Compression would keep a fuzzer out of the pages, so the input is
 * also the page of a column, whose type and rows its first bytes choose.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <zstd.h>

#include "export/tables/flat_table.h"
#include "export/tables/parquet_encode.h"
#include "export/tables/parquet_read.h"

static void read_all(const void *bytes, size_t size)
{
	uint64_t *values = calloc(FLAT_ROWS, sizeof(*values));
	uint8_t *valid = calloc(FLAT_ROWS, 1);
	struct interner texts;
	struct parquet_file f;
	int rc = parquet_file_open(&f, bytes, size, NULL);

	interner_init(&texts);
	for (size_t g = 0; rc == 0 && g < f.groups.count; g++)
		for (size_t c = 0; c < f.column_count; c++) {
			if (parquet_file_read(&f, g, c, &texts, values, valid, NULL) < 0)
				continue;
			for (size_t i = 0; i < f.groups.data[g].rows; i++)
				if (valid[i] && f.columns[c].type == PARQUET_TEXT &&
				    values[i] >= texts.count)
					abort();
		}
	parquet_file_release(&f);
	interner_release(&texts);
	free(values);
	free(valid);
}

static void add_page(struct strbuf *out, int type, uint32_t values, int encoding, const void *raw,
		     size_t size)
{
	size_t bound = ZSTD_compressBound(size), length;
	void *compressed = malloc(bound);
	struct thrift t = { .out = out };

	length = ZSTD_compress(compressed, bound, raw, size, 1);
	thrift_i32(&t, 1, type);
	thrift_i32(&t, 2, (int32_t)size);
	thrift_i32(&t, 3, (int32_t)length);
	thrift_open(&t, type ? 7 : 5);
	thrift_i32(&t, 1, (int32_t)values);
	thrift_i32(&t, 2, encoding);
	thrift_close(&t);
	strbuf_addc(out, 0);
	strbuf_add(out, compressed, length);
	free(compressed);
}

static void add_footer(struct strbuf *out, int type, bool maybe, uint32_t rows, size_t end)
{
	struct thrift t = { .out = out };
	uint32_t begin = (uint32_t)out->length, length;

	thrift_list(&t, 2, THRIFT_STRUCT, 2);
	for (int i = 0; i < 2; i++) {
		thrift_open(&t, 0);
		thrift_i32(&t, i ? 1 : 5, i ? type : 1);
		if (i)
			thrift_i32(&t, 3, maybe);
		thrift_close(&t);
	}
	thrift_list(&t, 4, THRIFT_STRUCT, 1);
	thrift_open(&t, 0);
	thrift_list(&t, 1, THRIFT_STRUCT, 1);
	thrift_open(&t, 0);
	thrift_open(&t, 3);
	thrift_i32(&t, 4, 6);
	thrift_i64(&t, 7, (int64_t)end - 4);
	thrift_i64(&t, 9, 4);
	thrift_close(&t);
	thrift_close(&t);
	thrift_i64(&t, 3, rows);
	thrift_close(&t);
	strbuf_addc(out, 0);
	length = (uint32_t)out->length - begin;
	strbuf_add(out, &length, sizeof(length));
	strbuf_adds(out, "PAR1");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const struct {
		int type, encoding;
	} kinds[] = { { 1, 5 }, { 2, 5 }, { 5, 0 }, { 6, 8 }, { 6, 8 } };
	static const uint8_t dictionary[] = { 1, 0, 0, 0, 'a', 0, 0, 0, 0, 2, 0, 0, 0, 'b', 'c' };
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	unsigned kind;
	uint32_t rows;

	read_all(bytes, size);
	if (size < 3)
		return 0;
	kind = (bytes[0] >> 1) % 5;
	rows = bytes[1] | (uint32_t)bytes[2] << 8;
	strbuf_adds(&out, "PAR1");
	if (kind == 3)
		add_page(&out, 2, 3, 0, dictionary, sizeof(dictionary));
	else if (kind == 4)
		add_page(&out, 2, 3, 0, bytes + 3, size - 3);
	add_page(&out, 0, rows, kinds[kind].encoding, bytes + 3, size - 3);
	add_footer(&out, kinds[kind].type, bytes[0] & 1, rows, out.length);
	read_all(out.data, out.length);
	return 0;
}
