/* engine_sink.h: counts what sessions with an engine for launches and ranges say of it. */
#ifndef PITOT_TESTS_ENGINE_SINK_H
#define PITOT_TESTS_ENGINE_SINK_H

#include <string.h>

#include "capture/core/session.h"
#include "unit/capture/counting_sink.h"

struct sink_of_engine {
	struct counting_sink counting;
	atomic_uint degraded; /* rows that say so about the engine */
	atomic_uint graphs; /* rows that say that graphs are not measured */
	atomic_uint_fast64_t replay_ns;
	atomic_uint inner; /* rows of values of a scope within a scope */
	atomic_uint deep; /* such rows whose level is missing */
	atomic_uint passes; /* of the last measurement */
	atomic_uint unmeasured;
};

static inline void on_row(struct counting_sink *counting, enum table_id table, const void *row)
{
	struct sink_of_engine *s = (struct sink_of_engine *)counting;
	const struct row_capability *capability = row;
	const struct row_range_value *value = row;
	const struct row_loss *loss = row;
	const struct row_cost *cost = row;

	if (table == TABLE_cost && cost->kind == cost_kind_replay)
		s->replay_ns += cost->total_ns;
	if (table == TABLE_range_value) {
		s->inner += value->level == 1;
		s->deep += value->missing >> COLUMN_range_value_level & 1;
		s->passes = value->passes;
	}
	if (table == TABLE_loss && loss->reason == loss_reason_unmeasured)
		s->unmeasured += (unsigned)loss->count;
	if (table == TABLE_capability && capability->name == feature_engine)
		s->degraded += capability->state == capability_state_degraded;
	if (table == TABLE_capability)
		s->graphs += capability->name == feature_graph_metrics;
}

static inline struct session *begin(struct sink_of_engine *sink, const struct settings *settings)
{
	struct session *s;

	*sink = (struct sink_of_engine){ 0 };
	counting_sink_init(&sink->counting);
	sink->counting.on_row = on_row;
	s = session_open(settings, &sink->counting.sink, SESSION_BY_nvidia);
	assert_non_null(s);
	return s;
}

#endif
