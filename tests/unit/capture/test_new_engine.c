/* test_new_engine.c: a client of the hub is a file and a line; on a tape. */

#include "support/cmocka_tests.h"

#include "unit/capture/cuda_player.h"
#include "unit/capture/cuda_sink.h"
#include "unit/capture/toy_engine.h"

static void test_a_new_engine(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;
	unsigned calls;

	(void)state;
	cuda_player_open_made("steps", "4");
	s = cuda_sink_session(sink, &cuda_sink_plain, SESSION_BY_nvidia);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 1);
	cuda_player_play(0);
	session_close(&s);
	calls = (unsigned)cuda_sink_driver_calls(sink, api_kind_launch);
	assert_true(toy_engine.attached > 0 && calls > 0);
	assert_int_equal(toy_engine.begun, calls);
	assert_int_equal(toy_engine.ended, calls);
	assert_true(toy_engine.contexts > 0);
	assert_true(toy_engine.held > 0);
	assert_int_equal(toy_engine.depth, 0);
	cuda_sink_assert_work(sink, 1);
	cuda_sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_new_engine) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
