/* The example in docs/format.md is what the writer writes, byte by byte. */
#include "recording_fixture.h"

#define EXAMPLE_MAX 4096

/*
 * Bytes of a line of `hexdump -C`; a line "*" stands for repetitions of the one before. Returns the
 * new size.
 */
static size_t take_line(const char *line, uint8_t *bytes, size_t size, bool *repeat)
{
	size_t offset = strtoul(line, NULL, 16), n = 0;

	if (line[0] == '*') {
		*repeat = true;
		return size;
	}
	assert_true(offset + 16 <= EXAMPLE_MAX);
	while (*repeat && size < offset) {
		memcpy(bytes + size, bytes + size - 16, 16);
		size += 16;
	}
	*repeat = false;
	assert_int_equal(size, offset);
	for (const char *p = line + 9; n < 16; n++) {
		char *end;
		unsigned long byte = strtoul(p, &end, 16);

		if (end == p)
			break;
		bytes[size++] = (uint8_t)byte;
		p = end;
	}
	return size;
}

/* The bytes between the lines "```hexdump" and "```". */
static size_t read_example(uint8_t *bytes)
{
	struct strbuf text = STRBUF_INIT;
	bool repeat = false;
	size_t size = 0;
	char *line;

	assert_int_equal(io_read_file(FORMAT_DOCUMENT, 1 << 20, &text), 0);
	line = strstr(text.data, "```hexdump\n");
	assert_non_null(line);
	for (line = strchr(line, '\n') + 1; strncmp(line, "```", 3) != 0;
	     line = strchr(line, '\n') + 1)
		size = take_line(line, bytes, size, &repeat);
	strbuf_release(&text);
	return size;
}

static size_t write_example(uint8_t *bytes)
{
	static const char *const names[] = { "python", "worker", "worker" };
	struct strbuf file = STRBUF_INIT;
	struct fixture f;
	struct writer *w;
	size_t size;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (uint32_t i = 0; i < 3; i++) {
		struct row_thread row = { .tid = 4711 + i,
					  .time_ns = UINT64_C(5000000000) + 700 * i * i };

		row.name = writer_string(w, names[i], strlen(names[i]));
		writer_append(w, TABLE_thread, &row);
	}
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(io_read_file(fixture_segment(&f, 0), EXAMPLE_MAX, &file), 0);
	size = file.length;
	memcpy(bytes, file.data, size);
	strbuf_release(&file);
	fixture_close(&f);
	return size;
}

/* What differs from run to run is as in the document. */
static void set_identity(uint8_t *bytes)
{
	struct segment_header h;

	memcpy(&h, bytes, sizeof(h));
	h.session = UINT64_C(0x1122334455667788);
	h.pid = 4711;
	h.start_monotonic_ns = UINT64_C(5000000000);
	h.start_realtime_ns = UINT64_C(1700000000000000000);
	h.crc = crc32c(0, &h, offsetof(struct segment_header, crc));
	memcpy(bytes, &h, sizeof(h));
}

static void print_hexdump(const uint8_t *bytes, size_t size)
{
	bool same = false;

	for (size_t at = 0; at < size; at += 16) {
		if (at > 0 && at + 16 < size && memcmp(bytes + at, bytes + at - 16, 16) == 0) {
			if (!same)
				print_error("*\n");
			same = true;
			continue;
		}
		same = false;
		print_error("%08zx ", at);
		for (size_t i = at; i < MIN(size, at + 16); i++)
			print_error(" %02x", bytes[i]);
		print_error("\n");
	}
}

static void test_example(void **state UNUSED)
{
	uint8_t documented[EXAMPLE_MAX], written[EXAMPLE_MAX];
	size_t size = write_example(written);

	set_identity(written);
	if (read_example(documented) != size || memcmp(documented, written, size) != 0) {
		print_hexdump(written, size);
		fail_msg("the example in docs/format.md is not what the writer writes (above)");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_example) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
