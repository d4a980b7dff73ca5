#include "perfetto/packet_queue.h"

#include <string.h>

#include "support/cmocka_tests.h"

#define SIZE 256
#define HEAD sizeof(struct queued_packet)

static bool add(struct packet_queue *q, uint32_t sequence, const char *text, const char *end,
		size_t reserve)
{
	struct queued_packet head = { 5, sequence, (uint32_t)(strlen(text) + strlen(end)) };

	return packet_queue_add(q, &head, text, end, strlen(end), reserve);
}

static void take(struct packet_queue *q, uint32_t sequence, const char *expected)
{
	struct queued_packet head;
	char text[SIZE] = "";

	packet_queue_remove(q, &head, HEAD);
	assert_int_equal(head.instance, 5);
	assert_int_equal(head.sequence, sequence);
	assert_int_equal(head.length, strlen(expected));
	for (size_t i = 0; i < head.length; i += 3) /* in pieces */
		packet_queue_remove(q, text + i, MIN(3, head.length - i));
	assert_string_equal(text, expected);
}

static void test_around_the_end(void **state)
{
	struct packet_queue q;

	(void)state;
	assert_int_equal(packet_queue_init(&q, SIZE), 0);
	for (uint32_t i = 1; i < 3 * SIZE; i++) {
		assert_true(add(&q, i, "a packet of its", " own", 0));
		assert_true(add(&q, i + 1, "another", "", 0));
		take(&q, i, "a packet of its own");
		take(&q, i + 1, "another");
		assert_int_equal(packet_queue_used(&q), 0);
	}
	packet_queue_release(&q);
}

static void test_full(void **state)
{
	struct packet_queue q;
	struct queued_packet huge = { 5, 1, UINT32_MAX };
	char text[SIZE - 2 * HEAD + 1] = "";

	(void)state;
	assert_int_equal(packet_queue_init(&q, SIZE), 0);
	assert_false(packet_queue_add(&q, &huge, NULL, NULL, 0, 0));
	assert_true(add(&q, 1, "", "", 0));
	memset(text, 'x', sizeof(text) - 1);
	assert_false(add(&q, 2, text, "!", 0));
	assert_false(add(&q, 2, text, "", 1));
	assert_true(add(&q, 2, text, "", 0)); /* to the last byte */
	assert_int_equal(packet_queue_used(&q), SIZE);
	assert_false(add(&q, 3, "", "", 0));
	take(&q, 1, "");
	assert_true(add(&q, 3, "", "", 0));
	take(&q, 2, text);
	packet_queue_skip(&q, HEAD);
	assert_int_equal(packet_queue_used(&q), 0);
	packet_queue_release(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_around_the_end),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
