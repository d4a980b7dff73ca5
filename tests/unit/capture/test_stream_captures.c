/* test_stream_captures.c: which streams capture (stream_captures.h). */
#include "unit/capture/stream_calls.h"

#include "support/cmocka_tests.h"

static void test_which_streams_capture(void **state)
{
	(void)state;
	assert_false(stream_captures_is_function("cuStreamSynchronize"));
	assert_true(stream_captures_is_function("cuStreamBeginCaptureToGraph_ptsz"));
	assert_true(stream_captures_is_function("cuStreamEndCapture"));
	assert_true(stream_captures_is_function("cuStreamDestroy_v2"));
	assert_false(call("cuStreamBeginCapture_v2", 1, FAILS_OTHERWISE));
	assert_true(call("cuStreamBeginCapture_v2", 1, SUCCEEDS));
	assert_true(call("cuStreamBeginCaptureToGraph", 2, SUCCEEDS));
	assert_true(call("cuStreamEndCapture", 3, SUCCEEDS));
	assert_true(call("cuStreamEndCapture", 1, FAILS_OTHERWISE));
	assert_true(call("cuStreamEndCapture", 2, ON_THE_WRONG_THREAD));
	assert_true(call("cuStreamEndCapture", 1, SUCCEEDS));
	assert_false(call("cuStreamDestroy_v2", 2, FAILS_OTHERWISE));
	/* Threads have streams of their own with one handle. */
	assert_true(call("cuStreamBeginCapture_v2_ptsz", 0, SUCCEEDS));
	assert_true(call("cuStreamBeginCapture_v2", 2, SUCCEEDS)); /* CU_STREAM_PER_THREAD */
	assert_true(call("cuStreamEndCapture_ptsz", 0, SUCCEEDS));
	assert_false(call("cuStreamEndCapture", 2, SUCCEEDS));
	call_stream("cuStreamBeginCapture_v2", 7, 1, ENTERS);
	call_stream("cuStreamBeginCapture_v2", 8, 2, ENTERS);
	stream_captures_forget((CUcontext)1);
	assert_true(stream_captures_any());
	stream_captures_forget((CUcontext)2);
	assert_false(stream_captures_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_streams_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
