#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/capture/cuda_player.h"
#include "unit/capture/cuda_sink.h"

const struct settings cuda_sink_plain = { .engine = SETTING_ENGINE_TRACE,
					  .graphs = SETTING_GRAPHS_NODE,
					  .cuda = true };

static void on_call(struct cuda_sink *s, const struct row_api_call *row)
{
	uint8_t kind = s->kind_of[api_function_index(row->function)];
	bool has_stack = !(row->missing >> COLUMN_api_call_stack & 1);
	uint64_t known;

	atomic_fetch_add(&s->undefined, kind == 0);
	atomic_fetch_add(&s->undefined,
			 has_stack && !map_get(&s->known_stacks, row->stack, &known));
	atomic_fetch_add(&s->calls[row->function >> 16][kind ? kind - 1 : 0], 1);
	atomic_fetch_add(&s->stacks, has_stack);
}

static bool begins(const struct row_string *s, const char *with)
{
	return s->text.length >= strlen(with) && memcmp(s->text.data, with, strlen(with)) == 0;
}

static void on_sampling(struct cuda_sink *s, enum table_id table, const void *row)
{
	const struct row_string *string = row;
	const struct row_capability *capability = row;

	if (table == TABLE_pc_sample)
		atomic_fetch_add(&s->samples, ((const struct row_pc_sample *)row)->samples);
	if (table == TABLE_string && begins(string, "contexts that existed before are not sampled"))
		s->older_text = string->id;
	if (table == TABLE_string && begins(string, "context 1 of device 0: 4 stall reasons"))
		s->sampled_text = string->id;
	if (table == TABLE_string && begins(string, "cuptiPCSamplingEnable: "))
		s->refusal_text = string->id;
	if (table == TABLE_string && begins(string, "CUPTI cannot be configured again"))
		s->other_metrics_text = string->id;
	if (table != TABLE_capability || capability->missing >> COLUMN_capability_reason & 1)
		return;
	s->contexts_older += capability->reason == s->older_text;
	s->refusals += capability->reason == s->refusal_text;
	s->other_metrics += capability->reason == s->other_metrics_text;
	s->contexts_sampled += capability->reason == s->sampled_text;
}

static void on_node(struct cuda_sink *s, const struct row_graph_node *row)
{
	atomic_fetch_add(&s->nodes_with_stack, !(row->missing >> COLUMN_graph_node_stack & 1));
	atomic_fetch_add(&s->clones, !(row->missing >> COLUMN_graph_node_original & 1));
}

static void on_row(struct counting_sink *counting, enum table_id table, const void *row)
{
	struct cuda_sink *s = (struct cuda_sink *)counting;
	const struct row_api_function *function = row;
	const struct row_stack *stack = row;

	on_sampling(s, table, row);
	if (table == TABLE_api_function)
		s->kind_of[api_function_index(function->id)] = (uint8_t)(function->kind + 1);
	else if (table == TABLE_stack)
		assert_int_equal(map_put(&s->known_stacks, stack->id, 1), 0);
	else if (table == TABLE_api_call)
		on_call(s, row);
	else if (table == TABLE_graph_node)
		on_node(s, row);
	else if (table == TABLE_external_correlation)
		atomic_fetch_add(
			&s->externals[((const struct row_external_correlation *)row)->id % 100], 1);
	else if (table == TABLE_loss)
		atomic_fetch_add(&s->lost, ((const struct row_loss *)row)->count);
}

static void on_epoch(struct counting_sink *counting)
{
	struct cuda_sink *s = (struct cuda_sink *)counting;

	memset(s->kind_of, 0, API_FUNCTIONS_MAX);
	map_clear(&s->known_stacks);
}

void cuda_sink_free(struct cuda_sink *s)
{
	map_release(&s->known_stacks);
	free(s);
}

struct cuda_sink *cuda_sink_new(void)
{
	struct cuda_sink *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	counting_sink_init(&s->counting);
	s->counting.on_row = on_row;
	s->counting.on_epoch = on_epoch;
	return s;
}

struct session *cuda_sink_session(struct cuda_sink *sink, const struct settings *settings,
				  enum session_trigger trigger)
{
	struct session *s = session_open(settings, &sink->counting.sink, trigger);

	assert_non_null(s);
	return s;
}

void cuda_sink_assert_work(const struct cuda_sink *s, unsigned rounds)
{
	static const struct {
		enum table_id table;
		CUpti_ActivityKind kind;
	} work[] = { { TABLE_kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL },
		     { TABLE_memcpy, CUPTI_ACTIVITY_KIND_MEMCPY },
		     { TABLE_memset, CUPTI_ACTIVITY_KIND_MEMSET } };

	for (size_t i = 0; i < ARRAY_SIZE(work); i++)
		assert_int_equal(s->counting.rows[work[i].table],
				 rounds * cuda_player_records((uint32_t)work[i].kind));
}

uint64_t cuda_sink_driver_calls(const struct cuda_sink *s, enum api_kind kind)
{
	return s->calls[API_DRIVER][kind];
}
