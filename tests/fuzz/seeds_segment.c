/*
 * seeds_segment: makes the corpus of fuzz_segment anew, after a change of the format:
 *
 *	seeds_segment tests/fuzz/corpus/segment
 *
 * A small segment as it is on disk, and for each table the payload of a block in the form that
 * fuzz_segment takes.
 */
#include "unit/format/recording_fixture.h"

static void save(const char *folder, const char *name, const uint8_t *head, size_t head_length,
		 const uint8_t *bytes, size_t length)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (!f || fwrite(head, 1, head_length, f) != head_length ||
	    fwrite(bytes, 1, length, f) != length || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

static void append_rows(struct writer *w, struct random *r, enum table_id table, unsigned count)
{
	uint32_t strings[3] = { writer_string(w, "one", 3), writer_string(w, "two", 3), 0 };
	struct row_style style;
	uint64_t row[64];

	style_new(&style, r);
	for (unsigned i = 0; i < count; i++) {
		random_row(schema_table(table), &style, r, strings, 3, (uint8_t *)row);
		writer_append(w, table, row);
	}
	writer_flush(w);
}

static void save_payloads(const char *folder, const struct segment *s)
{
	for (size_t b = 0; b < s->block_count; b++) {
		const struct block_header *h = &s->blocks[b].header;
		uint8_t head[4] = { (uint8_t)h->rows, (uint8_t)(h->rows >> 8), (uint8_t)h->columns,
				    (uint8_t)(h->table - 1) };
		uint8_t *payload = malloc(h->payload_bytes + 1);
		char name[64];

		if (!payload ||
		    !segment_read(s, s->blocks[b].offset + sizeof(*h), payload, h->payload_bytes))
			abort();
		snprintf(name, sizeof(name), "%s-%u", schema_table(h->table)->name,
			 (unsigned)h->number);
		save(folder, name, head, sizeof(head), payload, h->payload_bytes);
		free(payload);
	}
}

int main(int argc, char **argv)
{
	struct random r = { 2026 };
	struct fixture f;
	struct segment s;
	struct writer *w;

	if (argc != 2)
		return 2;
	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (unsigned table = 2; table <= TABLE_MAX; table++)
		append_rows(w, &r, table, 1 + table % 4 * 25);
	writer_close(&w);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	append_rows(w, &r, TABLE_kernel, 3);
	append_rows(w, &r, TABLE_thread, 2);
	writer_close(&w);
	fixture_map(&f, 0, &s);
	save_payloads(argv[1], &s);
	segment_release(&s);
	fixture_map(&f, 1, &s);
	save(argv[1], "segment", s.bytes, 0, s.bytes, s.size);
	segment_release(&s);
	fixture_close(&f);
	return 0;
}
