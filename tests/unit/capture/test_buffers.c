/* The buffers that CUPTI gets: how large, how many, in which order they come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/core/collector.h"
#include "capture/cuda/buffers.h"

#define RECORD 216u
#define QUICK_NS (BUFFER_WORK_NS / 4)

atomic_bool collector_idle;

void collector_count_progress(void)
{
}

static unsigned wakes;

void collector_wake(void)
{
	wakes++;
}

/* A buffer with CUPTI. */
struct lent {
	uint8_t *bytes;
	size_t size, records;
};

static struct lent borrow(void)
{
	struct lent l;
	size_t most;

	buffers_on_request(&l.bytes, &l.size, &most);
	l.records = most ? most : l.size / RECORD;
	return l;
}

static void complete(const struct lent *l, size_t records)
{
	memset(l->bytes, 0xff, records * RECORD);
	buffers_on_complete(NULL, 0, l->bytes, l->size, records * RECORD);
}

/* The collector decodes one, whose work took that long. */
static struct full_buffer decode(size_t records, uint64_t work_ns)
{
	struct full_buffer full;

	assert_true(buffers_take_full(&full));
	buffers_give_back(&full, records, work_ns);
	return full;
}

/* One round of a buffer that is filled; how many records it held. */
static size_t fill_one(uint64_t ns_of_each)
{
	struct lent l = borrow();

	complete(&l, l.records);
	decode(l.records, l.records * ns_of_each);
	return l.records;
}

static int start(void **state)
{
	(void)state;
	buffers_after_fork();
	return buffers_start() ? 0 : -1;
}

static void test_first_ones_are_small(void **state)
{
	struct lent l = borrow();

	(void)state;
	assert_int_equal(l.records, BUFFER_RECORDS_MIN);
	complete(&l, 0);
}

static void test_short_kernels_get_large_buffers(void **state)
{
	uint64_t requests = 0, kernels = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		fill_one(2000);
	while (kernels < 100000) {
		kernels += fill_one(2000);
		requests++;
	}
	assert_true(requests * 100 <= kernels);
}

static void test_long_kernels_get_small_ones(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		fill_one(2000);
	fill_one(20 * NS_PER_MS);
	assert_int_equal(fill_one(20 * NS_PER_MS), BUFFER_RECORDS_MIN);
	assert_true(fill_one(NS_PER_MS) <= BUFFER_WORK_NS / NS_PER_MS);
}

/* A buffer that was handed over before it was full says nothing: it was not kept back. */
static void test_partial_buffers_change_nothing(void **state)
{
	struct lent l;

	(void)state;
	for (int i = 0; i < 3; i++) {
		l = borrow();
		complete(&l, 1);
		decode(1, i ? 1000 : 5 * NS_PER_S);
	}
	l = borrow();
	assert_int_equal(l.records, BUFFER_RECORDS_MIN);
	complete(&l, 0);
}

/*
 * 300 kernels launched before the first has ended: a buffer holds 8 of them. 100,000: their number
 * stays bounded.
 */
static void test_a_burst_of_which_nothing_is_known(void **state)
{
	struct lent all[BUFFERS_MAX];
	size_t kernels = 0, count = 0;

	(void)state;
	for (; kernels < 100000; kernels += all[count++].records) {
		all[count] = borrow();
		if (kernels < 1000)
			assert_int_equal(all[count].records, BUFFER_RECORDS_MIN);
	}
	assert_true(count < 400);
	for (size_t i = 0; i < count; i++)
		complete(&all[i], 1);
	for (size_t i = 0; i < count; i++)
		decode(1, QUICK_NS);
}

/* Zeroed is all that was lent: CUPTI may have written behind the records that it hands over. */
static void test_full_ones_come_in_order_and_zeroed(void **state)
{
	struct lent l[20];
	struct full_buffer full;

	(void)state;
	for (int i = 0; i < 20; i++) {
		l[i] = borrow();
		memset(l[i].bytes, 0xff, l[i].size);
	}
	for (int i = 0; i < 10; i++)
		complete(&l[i], 2);
	for (int i = 0; i < 5; i++)
		assert_ptr_equal(decode(2, QUICK_NS).bytes, l[i].bytes);
	for (int i = 10; i < 20; i++)
		complete(&l[i], 2);
	for (int i = 5; i < 20; i++)
		assert_ptr_equal(decode(2, QUICK_NS).bytes, l[i].bytes);
	assert_false(buffers_take_full(&full));
	for (int i = 0; i < 20; i++) {
		l[i] = borrow();
		for (size_t at = 0; at < l[i].size; at++)
			assert_int_equal(l[i].bytes[at], 0);
		complete(&l[i], 0);
	}
}

/* CUPTI gives back a buffer twice, or one that is not ours. */
static void test_what_was_not_lent_is_not_taken(void **state)
{
	struct lent l = borrow(), other = { (uint8_t[64]){ 0 }, 64, 0 };
	struct full_buffer full;

	(void)state;
	complete(&other, 0);
	complete(&l, 1);
	complete(&l, 1);
	decode(1, QUICK_NS);
	assert_false(buffers_take_full(&full));
	complete(&l, 0);
	assert_false(buffers_take_full(&full));
}

static void test_a_part_of_one_is_not_taken(void **state)
{
	struct lent l = borrow(), part = { l.bytes + 64, l.size - 64, 1 };
	struct full_buffer full;

	(void)state;
	complete(&part, 1);
	assert_false(buffers_take_full(&full));
	complete(&l, 2);
	assert_int_equal(decode(2, QUICK_NS).valid, 2 * RECORD);
}

/*
 * The child of a fork has a copy of CUPTI, which has buffers, and may use them up to its end. They
 * are nobody's.
 */
static void test_what_a_parent_lent(void **state)
{
	struct lent old[4], l;
	struct full_buffer full;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(old); i++)
		old[i] = borrow();
	buffers_after_fork();
	complete(&old[0], 1);
	assert_true(buffers_start());
	complete(&old[1], 1);
	assert_false(buffers_take_full(&full));
	for (int i = 0; i < 100; i++) {
		l = borrow();
		for (size_t k = 0; k < ARRAY_SIZE(old); k++) {
			assert_ptr_not_equal(l.bytes, old[k].bytes);
			memset(old[k].bytes, 0xff, old[k].size);
		}
		for (size_t at = 0; at < l.size; at++)
			assert_int_equal(l.bytes[at], 0);
		complete(&l, 1);
		decode(1, QUICK_NS);
	}
}

static int by_address(const void *a, const void *b)
{
	const struct lent *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/*
 * Each thread that launches has one of CUPTI's, while a stalled collector has as many as may wait.
 */
static void test_as_many_as_threads(void **state)
{
	static struct lent lent[BUFFERS_MAX];
	unsigned threads = BUFFERS_MAX - BUFFERS_FULL_MAX;

	(void)state;
	for (unsigned i = 0; i < BUFFERS_MAX; i++)
		lent[i] = borrow();
	for (unsigned i = threads; i < BUFFERS_MAX; i++)
		complete(&lent[i], 1);
	qsort(lent, threads, sizeof(*lent), by_address);
	for (unsigned i = 1; i < threads; i++)
		assert_true(lent[i].bytes >= lent[i - 1].bytes + lent[i - 1].size);
	for (unsigned i = threads; i < BUFFERS_MAX; i++)
		decode(1, QUICK_NS);
	for (unsigned i = 0; i < threads; i++)
		complete(&lent[i], 0);
	for (unsigned i = 0; i < threads; i++)
		decode(0, QUICK_NS);
}

/*
 * A collector that does not come: beyond the limit records go where nobody reads them, which is
 * counted.
 */
static void test_too_many_that_wait(void **state)
{
	struct buffer_counts before, after;
	struct full_buffer full;
	struct lent l, beyond[3];

	(void)state;
	buffers_counts(&before);
	for (unsigned i = 0; i < BUFFERS_FULL_MAX; i++) {
		l = borrow();
		assert_non_null(l.bytes);
		complete(&l, 1);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(beyond);
	     i++) { /* all of them are CUPTI's at the same time */
		beyond[i] = borrow();
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(beyond[i].bytes, beyond[k].bytes);
		assert_int_equal(beyond[i].bytes[0], 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(beyond); i++)
		complete(&beyond[i], 1);
	buffers_counts(&after);
	assert_int_equal(after.refused - before.refused, 3);
	assert_int_equal(after.requests - before.requests, BUFFERS_FULL_MAX);
	for (unsigned i = 0; i < BUFFERS_FULL_MAX; i++)
		decode(1, QUICK_NS);
	assert_false(buffers_take_full(&full));
}

/* A collector that is held up gets fewer, larger ones to decode. */
static void test_many_that_wait(void **state)
{
	struct lent l;

	(void)state;
	for (unsigned i = 0; i < 4 * BUFFERS_AHEAD; i++) {
		l = borrow();
		complete(&l, 1);
	}
	assert_int_equal(l.size, BUFFER_BYTES);
	for (unsigned i = 0; i < 4 * BUFFERS_AHEAD; i++)
		decode(1, 2 * BUFFER_WORK_NS);
}

/* The collector comes for a few, and is not called again while it is on its way. */
static void test_a_few_that_wait_wake_the_collector(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		wakes = 0;
		for (unsigned i = 0; i < BUFFERS_READY; i++) {
			struct lent l = borrow();

			complete(&l, 1);
			assert_int_equal(wakes, i >= BUFFERS_READY / 2);
		}
		for (unsigned i = 0; i < BUFFERS_READY; i++)
			decode(1, QUICK_NS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_first_ones_are_small, start),
		cmocka_unit_test_setup(test_short_kernels_get_large_buffers, start),
		cmocka_unit_test_setup(test_long_kernels_get_small_ones, start),
		cmocka_unit_test_setup(test_partial_buffers_change_nothing, start),
		cmocka_unit_test_setup(test_a_burst_of_which_nothing_is_known, start),
		cmocka_unit_test_setup(test_full_ones_come_in_order_and_zeroed, start),
		cmocka_unit_test_setup(test_what_was_not_lent_is_not_taken, start),
		cmocka_unit_test_setup(test_a_part_of_one_is_not_taken, start),
		cmocka_unit_test_setup(test_what_a_parent_lent, start),
		cmocka_unit_test_setup(test_as_many_as_threads, start),
		cmocka_unit_test_setup(test_many_that_wait, start),
		cmocka_unit_test_setup(test_too_many_that_wait, start),
		cmocka_unit_test_setup(test_a_few_that_wait_wake_the_collector, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
