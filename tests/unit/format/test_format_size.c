/* link: -lm */
/* Rows that resemble a training run need few bytes: docs and the README say how many. */
#include "recording_fixture.h"
#include "training_rows.h"

static uint64_t bytes_of(bool graph, unsigned kernels, unsigned rows_between_flushes)
{
	struct row_api_call call;
	struct row_kernel kernel;
	struct training t;
	struct fixture f;
	struct segment s;
	struct writer *w;
	uint64_t bytes;

	fixture_open(&f);
	training_init(&t, 1);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (unsigned i = 1; i <= kernels; i++) {
		bool launched = true;

		if (graph)
			launched = training_next_node(&t, &kernel, &call);
		else
			training_next(&t, &kernel, &call);
		if (launched)
			writer_append(w, TABLE_api_call, &call);
		writer_append(w, TABLE_kernel, &kernel);
		if (i % rows_between_flushes == 0)
			assert_int_equal(writer_flush(w), 0);
	}
	assert_int_equal(writer_close(&w), 0);
	fixture_map(&f, 0, &s);
	assert_int_equal(for_each_block(&s, TABLE_kernel, NULL, NULL), kernels);
	bytes = s.size;
	segment_release(&s);
	fixture_close(&f);
	return bytes;
}

static void test_kernel_with_launch(void **state UNUSED)
{
	assert_true(bytes_of(false, 100000, 100000) <= 6.1 * 100000);
	/* flushed every 250 ms at 27,000 launches a second */
	assert_true(bytes_of(false, 100000, 6800) <= 7 * 100000);
	/* every 200 ms at 46,000: one block, not a large one and a small one */
	assert_true(bytes_of(false, 92000, 9200) <= 6.1 * 92000);
	assert_true(bytes_of(false, 50000, 1000) <= 12 * 50000);
}

static void test_graph_node(void **state UNUSED)
{
	assert_true(bytes_of(true, 100000, 100000) <= 2 * 100000);
	assert_true(bytes_of(true, 100000, 6800) <= 2 * 100000);
	assert_true(bytes_of(true, 100000, 1200) <= 4 * 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_with_launch),
		cmocka_unit_test(test_graph_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
