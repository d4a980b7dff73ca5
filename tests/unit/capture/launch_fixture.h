/* launch_fixture.h: sessions with the engine for ranges, and tests of them in a child each. */
#ifndef PITOT_TESTS_LAUNCH_FIXTURE_H
#define PITOT_TESTS_LAUNCH_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/engines/launch_calls.h"
#include "pitot/pitot.h"
#include "unit/capture/cuda_player.h"
#include "unit/capture/engine_sink.h"

#define METRICS 4 /* of_ranges.metrics, which need two passes */

static const struct settings of_ranges = {
	.engine = SETTING_ENGINE_RANGE_PROFILER,
	.graphs = SETTING_GRAPHS_NODE,
	.measure = SETTING_MEASURE_RANGE,
	.metrics = "gpu__time_duration.sum,launch__correlation.sum,sm__cycles_active.avg,"
		   "dram__bytes_read.sum",
	.kernels = "*",
	.cuda = true,
};

/* Opens and closes a scope in this context so many times. */
static inline void scopes(uintptr_t context, unsigned count)
{
	atomic_store(&standin_current_context, context);
	while (count--) {
		pitot_scope_begin("scope");
		pitot_scope_end();
	}
}

static inline void *destroy(void *context)
{
	CUpti_ResourceData data = { .context = context };

	launch_calls_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, &data);
	return NULL;
}

static inline void destroy_on_another_thread(uintptr_t context)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, destroy, (void *)context), 0);
	pthread_join(thread, NULL);
}

static inline int run_alone(const void *test)
{
	const struct CMUnitTest tests[] = { *(const struct CMUnitTest *)test };

	cuda_player_open_made("steps", "1");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A process has one recorder, whose engines remember. */
static inline int run_each_alone(const struct CMUnitTest *tests, size_t count)
{
	int failed = 0;

	for (size_t i = 0; i < count; i++)
		failed += cuda_player_in_child(run_alone, &tests[i]);
	return failed;
}

#endif
