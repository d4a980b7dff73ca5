/*
 * The rings of perf events, filled here instead of by the kernel: order, records that go round the
 * end, nonsense.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/perf/perf_record.h"
#include "sampler/perf/perf_ring.h"

#define RINGS 3u
#define RING_BYTES 4096u

struct fake {
	struct perf_rings all;
	struct perf_ring rings[RINGS];
	uint8_t *data[RINGS];
};

static int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->all = (struct perf_rings){ .rings = f->rings,
				      .count = RINGS,
				      .times = perf_record_times,
				      .scratch = malloc(65536) };
	for (unsigned i = 0; i < RINGS; i++) {
		f->data[i] = malloc(RING_BYTES);
		f->rings[i].page = calloc(1, sizeof(*f->rings[i].page));
		f->rings[i].data = f->data[i];
		f->rings[i].size = RING_BYTES;
		assert_true(f->data[i] && f->rings[i].page);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	for (unsigned i = 0; i < RINGS; i++) {
		free(f->data[i]);
		free(f->rings[i].page);
	}
	free(f->all.scratch);
	free(f);
	return 0;
}

static void write_bytes(struct fake *f, unsigned ring, const void *bytes, size_t size)
{
	struct perf_event_mmap_page *page = f->rings[ring].page;

	for (size_t i = 0; i < size; i++)
		f->data[ring][(page->data_head + i) % RING_BYTES] = ((const uint8_t *)bytes)[i];
	page->data_head += size;
}

/* A record of `words` words, of which one is its time and the one before it says what it is. */
static void write_record(struct fake *f, unsigned ring, uint32_t type, uint64_t time_ns,
			 uint64_t mark, unsigned words)
{
	uint64_t record[128] = { 0 };
	struct perf_event_header h = { .type = type, .size = (uint16_t)(8 * words) };
	unsigned at = type == PERF_RECORD_SAMPLE ? 3 : words - 3;

	memcpy(record, &h, sizeof(h));
	record[at] = time_ns;
	record[at - 1] = mark;
	write_bytes(f, ring, record, 8 * words);
}

static uint64_t take(struct fake *f, uint64_t until_ns)
{
	struct perf_ring *ring;
	const struct perf_event_header *h = perf_rings_next(&f->all, until_ns, &ring);
	uint64_t mark, ring_time;

	if (!h)
		return 0;
	memcpy(&mark, (const uint8_t *)h + (h->type == PERF_RECORD_SAMPLE ? 16 : h->size - 32u),
	       sizeof(mark));
	ring_time = ring->time_ns;
	perf_rings_drop(&f->all, ring);
	assert_int_equal(ring->dropped_ns, ring_time); /* a loss is said to be since then */
	return mark;
}

static void records_of_all_rings_come_in_order_of_time(void **state)
{
	struct fake *f = *state;
	uint64_t expected = 1;

	for (uint64_t n = 1; n <= 100; n++) {
		write_record(f, (unsigned)(n * 7 % RINGS),
			     n % 2 ? PERF_RECORD_SAMPLE : PERF_RECORD_FORK, 1000 + n, n,
			     5 + (unsigned)(n % 9));
		if (n % 20)
			continue;
		perf_rings_update(&f->all);
		while (expected <= n)
			assert_int_equal(take(f, UINT64_MAX), expected++);
		assert_int_equal(take(f, UINT64_MAX), 0);
	}
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(f->rings[i].page->data_tail, f->rings[i].page->data_head);
}

static void young_records_wait(void **state)
{
	struct fake *f = *state;

	write_record(f, 0, PERF_RECORD_COMM, 30, 3, 6);
	write_record(f, 1, PERF_RECORD_COMM, 10, 1, 6);
	write_record(f, 2, PERF_RECORD_COMM, 20, 2, 6);
	perf_rings_update(&f->all);
	assert_int_equal(take(f, 20), 1);
	assert_int_equal(take(f, 20), 2);
	assert_int_equal(take(f, 20), 0);
	write_record(f, 2, PERF_RECORD_COMM, 25, 4, 6);
	/* Not looked at yet. */
	assert_int_equal(take(f, 25), 0);
	perf_rings_update(&f->all);
	assert_int_equal(take(f, 30), 4);
	assert_int_equal(take(f, 30), 3);
}

static void records_go_round_the_end(void **state)
{
	struct fake *f = *state;

	for (uint64_t n = 1; n <= 1000; n++) {
		write_record(f, 1, PERF_RECORD_SAMPLE, n, n, 5 + (unsigned)(n * 13 % 100));
		perf_rings_update(&f->all);
		assert_int_equal(take(f, n), n);
	}
	assert_false(f->all.corrupt);
}

static void a_ring_that_is_half_full_is_told(void **state)
{
	struct fake *f = *state;

	while (f->rings[0].page->data_head <= RING_BYTES / 2) {
		assert_false(perf_rings_update(&f->all));
		write_record(f, 0, PERF_RECORD_FORK, 1, 1, 10);
	}
	assert_true(perf_rings_update(&f->all));
}

static void nonsense_empties_the_ring(void **state)
{
	static const uint16_t sizes[] = { 0, 8, 16, 33, 39, 4097, 65535 };
	struct fake *f = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t words[8] = { 0 };
		struct perf_event_header h = { .type = PERF_RECORD_FORK, .size = sizes[i] };

		memcpy(words, &h, sizeof(h));
		write_bytes(f, 0, words, sizeof(words));
		write_record(f, 1, PERF_RECORD_FORK, 5, 7, 6);
		perf_rings_update(&f->all);
		assert_true(f->all.corrupt);
		assert_int_equal(f->rings[0].page->data_tail, f->rings[0].page->data_head);
		assert_int_equal(take(f, 10), 7);
		assert_int_equal(take(f, 10), 0);
		f->all.corrupt = false;
	}
	f->rings[0].page->data_head += 10 * RING_BYTES;
	perf_rings_update(&f->all);
	assert_true(f->all.corrupt);
}

/*
 * Another thread reads the ring, too: it sees each record, gives nothing back, and believes nothing
 * that was.
 */
static void a_second_reader(void **state)
{
	struct fake *f = *state;
	uint8_t *copy = malloc(PERF_RECORD_BYTES_MAX);
	const struct perf_event_header *h;
	uint64_t at = 0, mark;

	assert_non_null(copy);
	for (uint64_t n = 1; n <= 200; n++) {
		write_record(f, 0, PERF_RECORD_SAMPLE, n, n, 5 + (unsigned)(n * 13 % 100));
		h = perf_ring_copy(&f->rings[0], &at, copy);
		assert_non_null(h);
		memcpy(&mark, copy + 16, sizeof(mark));
		assert_int_equal(mark, n);
		assert_null(perf_ring_copy(&f->rings[0], &at, copy));
		perf_rings_update(&f->all);
		assert_int_equal(take(f, UINT64_MAX), n);
	}
	/* It was away while the first reader gave two records back. */
	for (uint64_t n = 1; n <= 3; n++)
		write_record(f, 0, PERF_RECORD_SAMPLE, n, n, 6);
	perf_rings_update(&f->all);
	assert_int_equal(take(f, UINT64_MAX), 1);
	assert_int_equal(take(f, UINT64_MAX), 2);
	assert_non_null(perf_ring_copy(&f->rings[0], &at, copy));
	memcpy(&mark, copy + 16, sizeof(mark));
	assert_int_equal(mark, 3);
	/* Sizes that are none. */
	for (unsigned size = 0; size < 8; size++) {
		uint64_t word = (uint64_t)size << 48;

		write_bytes(f, 0, &word, sizeof(word));
		assert_null(perf_ring_copy(&f->rings[0], &at, copy));
		assert_int_equal(at, f->rings[0].page->data_head);
	}
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_of_all_rings_come_in_order_of_time, setup,
						teardown),
		cmocka_unit_test_setup_teardown(young_records_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(records_go_round_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(a_ring_that_is_half_full_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(nonsense_empties_the_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(a_second_reader, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
