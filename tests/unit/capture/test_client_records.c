/* Copies of records for a client of CUPTI that is not well behaved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/cuda/records.h"
#include "capture/cuda/client/client_records.h"

#define KERNEL RECORD_CONCURRENT_KERNEL
#define RECORDS 100u
#define SIZE sizeof(struct record_kernel)

static uint64_t now = 1000;
static struct record_kernel made[RECORDS];
static struct {
	size_t size, most; /* of what the client lends; 0: nothing */
	unsigned requested, completed, records;
	uint32_t ids[2 * RECORDS];
	bool flushes; /* it flushes when it gets a buffer */
} client;

static CUptiResult CUPTIAPI cupti_time(uint64_t *t)
{
	*t = now;
	return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI next_kernel(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + SIZE : buffer;

	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)next;
	return CUPTI_SUCCESS;
}

static void CUPTIAPI on_request(uint8_t **buffer, size_t *size, size_t *most)
{
	client.requested++;
	*buffer = client.size ? malloc(client.size) : NULL;
	*size = client.size;
	*most = client.most;
}

static uint32_t correlation_of(const CUpti_Activity *record)
{
	const void *r = record;

	return record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION
		       ? ((const struct record_external_correlation *)r)->correlation
		       : ((const struct record_kernel *)r)->correlation;
}

static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	assert_int_equal(size, client.size);
	client.completed++;
	while (copies_next_record(buffer, valid, &record) == CUPTI_SUCCESS)
		client.ids[client.records++ % (2 * RECORDS)] = correlation_of(record);
	if (client.flushes) {
		assert_true(copies_is_inside());
		copies_deliver(COPIES_LAST);
	}
	free(buffer);
}

/*
 * Kernels of calls first … first + count - 1, each of which takes 10 ns from its number times 100
 * on.
 */
static void add(uint32_t first, unsigned count)
{
	memset(made, 0, sizeof(made));
	for (uint32_t i = 0; i < count; i++)
		made[i] = (struct record_kernel){ .kind = KERNEL,
						  .start = (first + i) * 100,
						  .end = (first + i) * 100 + 10,
						  .correlation = first + i };
	copies_add((uint8_t *)made, count * SIZE);
}

static int begin(void **state)
{
	(void)state;
	memset(&client, 0, sizeof(client));
	client.size = 4096;
	now = 1000;
	copies_start(&(struct copies_cupti){ cupti_time, next_kernel, CUPTI_13_0 });
	copies_register(on_request, on_complete);
	return 0;
}

static int end(void **state)
{
	(void)state;
	copies_deliver(COPIES_LAST); /* the open buffer */
	copies_reset();
	return 0;
}

static void assert_ids(uint32_t first, unsigned count)
{
	assert_int_equal(client.records, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(client.ids[i], first + i);
}

static void test_work_is_the_clients_by_its_call(void **state)
{
	(void)state;
	copies_enable(KERNEL, true);
	copies_begin_call(40); /* the first call after that */
	assert_int_equal(client.requested, 1);
	copies_begin_call(50);
	add(30, 20); /* ten of calls before */
	copies_disable(KERNEL);
	add(50, 2); /* the second one of a call after that */
	copies_deliver(COPIES_FLUSH);
	assert_ids(40, 11);
	assert_int_equal(copies_dropped(), 0);
}

static void test_work_is_the_clients_by_its_time(void **state)
{
	(void)state;
	now = 4000;
	copies_enable(KERNEL, false);
	add(30, 20);
	now = 4500;
	copies_disable(KERNEL);
	add(30, 20);
	copies_deliver(COPIES_FLUSH);
	assert_int_equal(client.records, 10 + 6);
}

static void add_external(uint32_t first, unsigned count)
{
	memset(made, 0, sizeof(made));
	for (uint32_t i = 0; i < count; i++) {
		struct record_external_correlation record = { .kind = RECORD_EXTERNAL_CORRELATION,
							      .correlation = first + i };

		memcpy(&made[i], &record, sizeof(record));
	}
	copies_add((uint8_t *)made, count * SIZE);
}

/* They have no time, and may be of calls that are not seen to begin. The last: ids only grow. */
static void test_external_ids_are_the_clients_by_their_calls(void **state)
{
	(void)state;
	copies_begin_call(140);
	copies_enable(RECORD_EXTERNAL_CORRELATION, true);
	add_external(130, 13); /* the last two of calls after that */
	copies_begin_call(150);
	add_external(145, 3);
	copies_disable(RECORD_EXTERNAL_CORRELATION);
	add_external(150, 2);
	copies_deliver(COPIES_FLUSH);
	assert_int_equal(client.records, 2 + 3 + 1);
	assert_int_equal(client.ids[0], 141);
	assert_int_equal(client.ids[5], 150);
}

static void test_other_kinds_are_not_the_clients(void **state)
{
	(void)state;
	copies_enable(RECORD_MEMCPY, true);
	copies_begin_call(1);
	add(1, 50);
	copies_deliver(COPIES_FLUSH);
	assert_int_equal(client.records, 0);
}

static void test_small_buffers(void **state)
{
	(void)state;
	client.size = 2 * SIZE + 7;
	client.flushes = true;
	copies_enable(KERNEL, true);
	copies_begin_call(1);
	add(1, 51);
	copies_deliver(COPIES_FULL);
	assert_int_equal(client.records, 50); /* one is in the open buffer */
	copies_deliver(COPIES_FLUSH);
	assert_ids(1, 51);
	assert_int_equal(client.completed, 26);
}

static void test_one_record_a_buffer(void **state)
{
	(void)state;
	client.most = 1;
	copies_enable(KERNEL, true);
	copies_begin_call(1);
	add(1, 10);
	copies_deliver(COPIES_LAST);
	assert_ids(1, 10);
	assert_int_equal(client.completed, 10);
}

/* Too small for anything, or none: lost to the client, who is told how many. */
static void test_no_buffers(void **state)
{
	(void)state;
	for (client.size = 0; client.size <= 100; client.size += 100) {
		copies_enable(KERNEL, true);
		copies_begin_call(1);
		copies_begin_call(2);
		add(1, 50);
		copies_deliver(COPIES_LAST);
		assert_int_equal(client.records, 0);
		assert_int_equal(copies_dropped(), 50);
		assert_int_equal(copies_dropped(), 0);
	}
	assert_int_equal(client.requested,
			 4); /* each when it begins, and in place of what has no room */
	assert_int_equal(client.completed, 2);
}

/* A client that never flushes, in a program without calls: the latest are kept. */
static void test_memory_has_an_end(void **state)
{
	unsigned buffers = 2 * COPIES_BYTES_MAX / (RECORDS * SIZE);

	(void)state;
	copies_enable(KERNEL, false);
	now = 0;
	for (unsigned i = 0; i < buffers; i++)
		add(100 + i, RECORDS);
	client.size = 0;
	copies_deliver(COPIES_LAST);
	assert_int_equal(copies_dropped(), buffers * RECORDS);
	assert_true(copies_take_counts().dropped >= buffers * RECORDS);
	assert_int_equal(copies_take_counts().dropped, 0);
}

static void test_copies_are_handed_over_in_calls(void **state)
{
	(void)state;
	client.size = 1 << 20;
	copies_enable(KERNEL, true);
	copies_begin_call(1);
	for (unsigned i = 0; i < 60; i++)
		add(1, RECORDS);
	assert_int_equal(client.completed, 0);
	copies_begin_call(2);
	assert_int_equal(client.completed, 1);
}

static void test_buffers_of_nonsense(void **state)
{
	uint8_t bytes[64];
	CUpti_Activity *record = NULL;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(copies_next_record(bytes, sizeof(bytes), &record),
			 CUPTI_ERROR_INVALID_KIND);
	assert_int_equal(copies_next_record(bytes, 3, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	assert_int_equal(copies_next_record(bytes, 0, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	assert_int_equal(copies_next_record(NULL, 64, &record), CUPTI_ERROR_INVALID_PARAMETER);
	memset(bytes, 0, sizeof(bytes));
	bytes[0] = KERNEL; /* which would be longer */
	assert_int_equal(copies_next_record(bytes, sizeof(bytes), &record),
			 CUPTI_ERROR_INVALID_KIND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_work_is_the_clients_by_its_call),
		TEST(test_work_is_the_clients_by_its_time),
		TEST(test_other_kinds_are_not_the_clients),
		TEST(test_small_buffers),
		TEST(test_one_record_a_buffer),
		TEST(test_no_buffers),
		TEST(test_memory_has_an_end),
		TEST(test_copies_are_handed_over_in_calls),
		TEST(test_buffers_of_nonsense),
		TEST(test_external_ids_are_the_clients_by_their_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
