#include "perfetto/perfetto_packets.h"

#include "support/cmocka_tests.h"

static struct strbuf new_buffer(void)
{
	struct strbuf s = STRBUF_INIT;

	assert_true(raw_init(&s));
	return s;
}

/*
 * One kernel `k`: process 42, GPU 0, stream 7, grid 4 x 1 x 1, block 128 x 1 x 1, start 1000000 ns,
 * 500 ns long. These bytes were imported by Perfetto v58.2 without an error.
 */
static const uint8_t golden[] = {
	0x0a, 0x9f, 0x01, 0x40, 0xc0, 0x84, 0x3d, 0xd0, 0x03, 0x06, 0x50, 0x01, 0x68, 0x01, 0x62,
	0x5b, 0xba, 0x01, 0x06, 0x08, 0x01, 0x10, 0x2a, 0x18, 0x04, 0xc2, 0x01, 0x0c, 0x08, 0x01,
	0x12, 0x06, 0x4b, 0x65, 0x72, 0x6e, 0x65, 0x6c, 0x20, 0x02, 0xc2, 0x01, 0x0e, 0x08, 0x09,
	0x12, 0x0a, 0x43, 0x68, 0x61, 0x6e, 0x6e, 0x65, 0x6c, 0x20, 0x23, 0x31, 0xca, 0x3e, 0x0a,
	0x08, 0x01, 0x12, 0x06, 0x64, 0x65, 0x76, 0x69, 0x63, 0x65, 0xca, 0x3e, 0x0a, 0x08, 0x02,
	0x12, 0x06, 0x73, 0x74, 0x72, 0x65, 0x61, 0x6d, 0xc2, 0x3e, 0x15, 0x08, 0x01, 0x12, 0x05,
	0x5f, 0x5a, 0x31, 0x6b, 0x76, 0x1a, 0x03, 0x6b, 0x28, 0x29, 0x22, 0x05, 0x43, 0x43, 0x5f,
	0x39, 0x30, 0xaa, 0x03, 0x34, 0x08, 0x07, 0x10, 0xf4, 0x03, 0x68, 0x09, 0x70, 0x01, 0x58,
	0x00, 0x28, 0x01, 0x8a, 0x01, 0x01, 0x6b, 0x98, 0x01, 0x01, 0xaa, 0x01, 0x1d, 0x0a, 0x06,
	0x08, 0x04, 0x10, 0x01, 0x18, 0x01, 0x12, 0x07, 0x08, 0x80, 0x01, 0x10, 0x01, 0x18, 0x01,
	0x1a, 0x04, 0x08, 0x01, 0x18, 0x00, 0x1a, 0x04, 0x08, 0x02, 0x18, 0x07,
};

static void test_one_kernel_is_the_golden_file(void **state)
{
	struct perfetto_packet head = { 1000000, PERFETTO_BOOTTIME, 1, PERFETTO_CLEARED };
	struct perfetto_stage stage = { .event_id = 7,
					.duration_ns = 500,
					.queue_iid = 9,
					.stage_iid = 1,
					.context_iid = 1,
					.name = "k",
					.kernel_iid = 1 };
	struct strbuf s = new_buffer();
	size_t packet, interned, event, launch;

	(void)state;
	packet = perfetto_packet_open(&s, &head);
	interned = proto_open(&s, PACKET_INTERNED_DATA);
	perfetto_intern_context(&s, 1, 42);
	perfetto_intern_specification(&s, 1, "Kernel", 6, PERFETTO_COMPUTE);
	perfetto_intern_specification(&s, 9, "Channel #1", 10, PERFETTO_OTHER);
	perfetto_intern_name(&s, 1001, 1, "device", 6);
	perfetto_intern_name(&s, 1001, 2, "stream", 6);
	proto_close(&s, perfetto_intern_kernel(&s, 1, "_Z1kv", 5, "k()", 3, "CC_90"));
	proto_close(&s, interned);
	event = perfetto_stage_open(&s, &stage);
	launch = proto_open(&s, STAGE_LAUNCH);
	perfetto_dimensions(&s, 1, (uint32_t[]){ 4, 1, 1 });
	perfetto_dimensions(&s, 2, (uint32_t[]){ 128, 1, 1 });
	perfetto_argument(&s, 3, 1, 0);
	perfetto_argument(&s, 3, 2, 7);
	proto_close(&s, launch);
	proto_close(&s, event);
	proto_close(&s, packet);
	assert_int_equal(sizeof(golden), 162);
	assert_int_equal(s.length, sizeof(golden));
	assert_memory_equal(s.data, golden, sizeof(golden));
	strbuf_release(&s);
}

/* Lengths are as short as they can be, whatever size the contents turn out to have. */
static void test_lengths_around_their_limits(void **state)
{
	static const size_t sizes[] = { 0, 1, 127, 128, 16383, 16384, 70000 };
	static char text[70000];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct strbuf s = new_buffer();
		struct cursor c;
		size_t outer, inner;
		uint64_t length;

		outer = proto_open(&s, 1);
		inner = proto_open(&s, 2);
		proto_text(&s, 3, text, sizes[i]);
		proto_close(&s, inner);
		proto_close(&s, outer);
		c = cursor_of(s.data, s.length);
		for (uint64_t field = 1; field <= 3; field++) {
			assert_int_equal(cursor_varint(&c), field << 3 | PROTO_LENGTH);
			length = cursor_varint(&c);
			assert_int_equal(length, cursor_left(&c));
		}
		assert_false(c.failed);
		assert_int_equal(cursor_left(&c), sizes[i]);
		assert_memory_equal(c.p, text, sizes[i]);
		strbuf_release(&s);
	}
}

static void check_text(const char *bytes, size_t length, const char *expected)
{
	struct strbuf s = new_buffer();

	proto_text(&s, 1, bytes, length);
	assert_int_equal(s.length, 2 + strlen(expected));
	assert_memory_equal(s.data + 2, expected, strlen(expected));
	strbuf_release(&s);
}

static void test_texts_become_utf8(void **state)
{
	(void)state;
	check_text("plain", 5, "plain");
	check_text("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14,
		   "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	check_text("\xff", 1, "\xef\xbf\xbd");
	check_text("a\xc3", 2, "a\xef\xbf\xbd");
	check_text("\xed\xa0\x80", 3,
		   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* half of a surrogate pair */
}

static void test_negative_numbers_take_ten_bytes(void **state)
{
	struct strbuf s = new_buffer();
	struct cursor c;

	(void)state;
	proto_int(&s, 1, -5);
	assert_int_equal(s.length, 11);
	c = cursor_of(s.data + 1, 10);
	assert_int_equal((int64_t)cursor_varint(&c), -5);
	strbuf_release(&s);
}

static void test_snapshot_without_boottime(void **state)
{
	struct perfetto_clocks clocks = { .monotonic_ns = 1, .realtime_ns = 2 };
	static const uint8_t expected[] = { 0x0a, 0x10, 0x50, 0x01, 0x32, 0x0c, 0x0a, 0x04, 0x08,
					    0x03, 0x10, 0x01, 0x0a, 0x04, 0x08, 0x01, 0x10, 0x02 };
	struct strbuf s = new_buffer();

	(void)state;
	perfetto_clock_snapshot(&s, 1, &clocks);
	/* and, last, that MONOTONIC is the trace's clock */
	assert_int_equal(s.length, sizeof(expected) + 2);
	assert_int_equal(s.data[s.length - 2], 0x10);
	assert_int_equal(s.data[s.length - 1], PERFETTO_MONOTONIC);
	assert_memory_equal(s.data + 6, expected + 6, sizeof(expected) - 6);
	strbuf_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_kernel_is_the_golden_file),
		cmocka_unit_test(test_lengths_around_their_limits),
		cmocka_unit_test(test_texts_become_utf8),
		cmocka_unit_test(test_negative_numbers_take_ten_bytes),
		cmocka_unit_test(test_snapshot_without_boottime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
