/*
 * Graphs that the GPU is still at: CUPTI is asked for their records as long as there are some to
 * come, and no longer. On a tape with launches of one graph and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/core/collector.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/core/session.h"
#include "unit/capture/counting_sink.h"
#include "unit/capture/cuda_player.h"

#define LAUNCHES 20
#define GRACE_NS                                                                                   \
	(2 * NS_PER_S) /* without calls and records, from when on it is decided by their numbers */
#define PATIENCE_NS (30 * NS_PER_S) /* half of the time after which records are given up */

static struct counting_sink
	sinks[2]; /* each of a session: one that a failed test leaves open stays where it is */

static struct session *open_session(struct counting_sink *sink, int graphs,
				    enum session_trigger trigger)
{
	const struct settings settings = { .engine = SETTING_ENGINE_TRACE,
					   .cuda = true,
					   .graphs = graphs };
	struct session *s;

	counting_sink_init(sink);
	s = session_open(&settings, &sink->sink, trigger);
	assert_non_null(s);
	return s;
}

static uint64_t flushes(void)
{
	return standin_calls(TAPE_cuptiActivityFlushAll);
}

static void wait_for_launches(const struct counting_sink *sink)
{
	while (sink->rows[TABLE_api_call] < LAUNCHES)
		usleep(1000);
}

/* Whether CUPTI is not asked for so long, within our patience. */
static bool becomes_quiet(void)
{
	uint64_t begun = clock_monotonic_ns(), since = begun, seen = flushes(), now = begun;

	while (now - begun < PATIENCE_NS && now - since < GRACE_NS) {
		usleep(10000);
		now = clock_monotonic_ns();
		if (flushes() != seen)
			since = now;
		seen = flushes();
	}
	return now - since >= GRACE_NS;
}

static void test_graphs_that_run_are_waited_for(void **state)
{
	struct counting_sink *sink = &sinks[0];
	struct session *s = open_session(sink, SETTING_GRAPHS_LAUNCH, SESSION_BY_nvidia);
	uint64_t before;

	(void)state;
	cuda_player_play(3600 * NS_PER_S);
	wait_for_launches(sink);
	usleep(3 * GRACE_NS / 2 / NS_PER_US);
	before = flushes();
	for (uint64_t i = 0; flushes() < before + 3 && i < PATIENCE_NS / NS_PER_MS; i++)
		usleep(1000);
	assert_true(flushes() >= before + 3);
	session_close(&s);
	assert_int_equal(sink->rows[TABLE_graph_launch], 0);
}

/* The graph is older than the session, whose wish for one record a launch comes too late. */
static void test_launches_without_a_record_are_not(void **state)
{
	struct counting_sink *sink = &sinks[1];
	struct session *s = open_session(sink, SETTING_GRAPHS_LAUNCH, SESSION_BY_PROGRAM);

	(void)state;
	assert_true(graph_nodes_graphs_exist());
	cuda_player_play(0);
	wait_for_launches(sink);
	assert_true(becomes_quiet());
	session_close(&s);
	assert_int_equal(sink->rows[TABLE_graph_launch], 0);
	assert_int_equal(sink->rows[TABLE_kernel],
			 cuda_player_records(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	assert_int_equal(sink->rows[TABLE_loss], 1); /* that the session began late */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graphs_that_run_are_waited_for),
		cmocka_unit_test(test_launches_without_a_record_are_not),
	};

	cuda_player_open_made("graphs", "20");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
