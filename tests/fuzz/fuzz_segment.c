/* layer: format */
/*
 * Any bytes as a segment. Checksums would keep a fuzzer out, so the input is read twice: as it is,
 * and as the payload of a block of each table whose header is right. The first bytes of the input
 * choose that block's rows and columns.
 */
#include "fuzz.h"

#include "base/bytes.h"
#include "format/block_build.h"
#include "format/reader.h"

#define VALUES_MAX 64

static void decode_all(struct decoder *d, const struct segment *s, const struct block_ref *b)
{
	const struct table_schema *table = schema_table(b->header.table);
	struct column_target targets[VALUES_MAX] = { 0 };
	struct bytes_column bytes[VALUES_MAX] = { 0 };
	int r;

	if (!table)
		return;
	for (int c = 0; c < table->column_count; c++) {
		unsigned width = table->columns[c].width;

		targets[c].column = c;
		targets[c].values = width ? malloc(width * b->header.rows + 1) : (void *)&bytes[c];
		targets[c].valid = malloc(b->header.rows + 1);
		if (!targets[c].values || !targets[c].valid)
			abort();
	}
	r = block_decode(d, s, b, targets, table->column_count);
	for (int c = 0; c < table->column_count; c++) {
		if (table->columns[c].width)
			free(targets[c].values);
		else if (r < 0 && (bytes[c].offsets || bytes[c].data))
			abort();
		free(bytes[c].offsets);
		free(bytes[c].data);
		free(targets[c].valid);
	}
}

static void read_as_segment(struct decoder *d, const uint8_t *bytes, size_t size)
{
	struct segment s;

	if (segment_open_bytes(bytes, size, &s, NULL) < 0)
		return;
	for (size_t b = 0; b < s.block_count; b++) {
		struct block_header *h = &s.blocks[b].header;

		decode_all(d, &s, &s.blocks[b]);
		h->payload_crc =
			crc32c(0, bytes + s.blocks[b].offset + sizeof(*h), h->payload_bytes);
		decode_all(d, &s, &s.blocks[b]);
	}
	segment_release(&s);
}

static void read_as_payload(struct decoder *d, const uint8_t *bytes, size_t size)
{
	struct block_ref b = { .header = { .magic = BLOCK_MAGIC } };
	uint8_t *file;

	if (size < 4)
		return;
	file = malloc(sizeof(b.header) + size);
	if (!file)
		return;
	b.header.rows = load_u16(bytes) % 1024;
	b.header.columns = bytes[2];
	b.header.table = 1 + bytes[3] % TABLE_MAX;
	b.header.payload_bytes = (uint32_t)(size - 4);
	memcpy(file + sizeof(b.header), bytes + 4, size - 4);
	block_header_seal(&b.header, bytes + 4);
	memcpy(file, &b.header, sizeof(b.header));
	decode_all(d, &(struct segment){ .bytes = file, .size = sizeof(b.header) + size - 4 }, &b);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct decoder *d = decoder_new();

	if (!d)
		return 0;
	read_as_segment(d, bytes, size);
	read_as_payload(d, bytes, size);
	decoder_free(d);
	return 0;
}
