/*
 * Records that come out of order are handed over in order of time, each once, and not before their
 * time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sampler/ebpf/ebpf_queue.h"

#define RECORDS 2000u

struct taken {
	uint64_t last_ns, count, sum;
	uint64_t until_ns;
};

/* A record: its number, then as many bytes of it as the number says, up to 50. */
static size_t make_record(uint64_t number, uint8_t *out)
{
	size_t tail = number % 51;

	memcpy(out, &number, 8);
	memset(out + 8, (int)(number & 0xff), tail);
	return 8 + tail;
}

static void take(void *context, const struct ebpf_item *item, const void *bytes)
{
	struct taken *t = context;
	uint8_t expected[64];
	uint64_t number;

	assert_int_equal((uintptr_t)bytes % 8, 0);
	memcpy(&number, bytes, 8);
	assert_int_equal(item->size, make_record(number, expected));
	assert_memory_equal(bytes, expected, item->size);
	assert_true(item->time_ns >= t->last_ns && item->time_ns <= t->until_ns);
	t->last_ns = item->time_ns;
	t->sum += number;
	t->count++;
}

static void test_order(void **state)
{
	struct ebpf_queue q = { 0 };
	struct taken t = { 0 };
	uint8_t record[64];
	uint64_t sum = 0;

	(void)state;
	srand(7);
	for (uint64_t i = 0; i < RECORDS; i++) {
		/* Up to 50 late. */
		ebpf_queue_put(&q, 100 + i - (unsigned)rand() % 50, record, make_record(i, record));
		sum += i;
		if (i % 97 == 0) {
			t.until_ns = 100 + i - 50;
			ebpf_queue_drain(&q, t.until_ns, take, &t);
			assert_true(q.items.count <= 101);
		}
	}
	t.until_ns = UINT64_MAX;
	ebpf_queue_drain(&q, UINT64_MAX, take, &t);
	assert_int_equal(t.count, RECORDS);
	assert_int_equal(t.sum, sum);
	assert_int_equal(q.items.count, 0);
	assert_int_equal(q.lost, 0);
	ebpf_queue_release(&q);
}

static void note_order(void *context, const struct ebpf_item *item, const void *bytes)
{
	char *text = context;

	(void)item;
	strncat(text, bytes, 1);
}

static void test_equal_times_keep_their_order(void **state)
{
	struct ebpf_queue q = { 0 };
	char text[16] = "";

	(void)state;
	ebpf_queue_put(&q, 5, "c", 1);
	for (const char *p = "defgh"; *p; p++)
		ebpf_queue_put(&q, 7, p, 1);
	ebpf_queue_put(&q, 4, "b", 1);
	ebpf_queue_drain(&q, 5, note_order, text);
	assert_string_equal(text, "bc");
	ebpf_queue_put(&q, 7, "i", 1);
	ebpf_queue_put(&q, 8, "j", 1);
	ebpf_queue_drain(&q, 7, note_order, text);
	assert_string_equal(text, "bcdefghi");
	ebpf_queue_release(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_equal_times_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
