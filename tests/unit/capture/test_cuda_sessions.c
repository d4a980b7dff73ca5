/*
 * Two sessions at once with CUDA, on a tape: the second one wants more and lasts shorter. Both
 * sinks have the rows of their time, and what only the second one wanted ends with it. Runs under
 * TSan, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/map.h"
#include "capture/collector.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/session.h"
#include "pitot/pitot.h"
#include "unit/capture/counting_sink.h"
#include "unit/capture/cuda_player.h"

#define KINDS_OF_CALLS (api_kind_event + 1)

struct cuda_sink {
	struct counting_sink counting;
	uint8_t kind_of[API_FUNCTIONS_MAX]; /* 1 + kind; 0: the function is not defined */
	struct map known_stacks;
	atomic_uint_fast64_t calls[API_RUNTIME + 1][KINDS_OF_CALLS], stacks, undefined, lost;
	atomic_uint_fast64_t externals[100]; /* by id */
	atomic_uint_fast64_t nodes_with_stack, clones; /* of graphs */
	atomic_uint_fast64_t samples, contexts_sampled, contexts_older,
		refusals; /* the last three: said so */
	uint32_t sampled_text, older_text, refusal_text; /* ids */
};

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
	if (table != TABLE_capability || capability->missing >> COLUMN_capability_reason & 1)
		return;
	s->contexts_older += capability->reason == s->older_text;
	s->refusals += capability->reason == s->refusal_text;
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

static void sink_free(struct cuda_sink *s)
{
	map_release(&s->known_stacks);
	free(s);
}

static struct cuda_sink *sink_new(void)
{
	struct cuda_sink *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	counting_sink_init(&s->counting);
	s->counting.on_row = on_row;
	s->counting.on_epoch = on_epoch;
	return s;
}

static struct session *open_session(struct cuda_sink *sink, const struct settings *settings,
				    enum session_way way)
{
	struct session *s = session_open(settings, &sink->counting.sink, way);

	assert_non_null(s);
	return s;
}

/*
 * What a sink has of the kinds of work, and of calls; and which rows of the tape it should have, in
 * so many rounds.
 */
static void assert_work(const struct cuda_sink *s, unsigned rounds)
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

static void assert_more(const struct cuda_sink *s, unsigned rounds)
{
	assert_int_equal(s->counting.rows[TABLE_synchronization],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
	assert_int_equal(s->counting.rows[TABLE_cuda_event],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_CUDA_EVENT));
	assert_int_equal(s->counting.rows[TABLE_allocation],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_MEMORY2));
	assert_int_equal(s->counting.rows[TABLE_memory_pool],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_MEMORY_POOL));
}

static uint64_t driver_calls(const struct cuda_sink *s, enum api_kind kind)
{
	return s->calls[API_DRIVER][kind];
}

/* Those that only --sync, --memory or --api all records. */
static uint64_t other_calls(const struct cuda_sink *s)
{
	static const enum api_kind kinds[] = { api_kind_event, api_kind_allocate, api_kind_release,
					       api_kind_other };
	uint64_t calls = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		calls += s->calls[API_DRIVER][kinds[i]] + s->calls[API_RUNTIME][kinds[i]];
	return calls;
}

static const struct settings plain = { .engine = SETTING_ENGINE_TRACE,
				       .graphs = SETTING_GRAPHS_NODE,
				       .cuda = true };
static const struct settings more = { .engine = SETTING_ENGINE_TRACE,
				      .graphs = SETTING_GRAPHS_NODE,
				      .cuda = true,
				      .sync = true,
				      .memory = true,
				      .api = SETTING_API_ALL,
				      .stacks = SETTING_STACKS_NATIVE };

/*
 * Until the open sessions have the rows of all that has been: one that ends beside them waits for
 * that.
 */
static void settle(void)
{
	struct cuda_sink *brief = sink_new();
	struct session *s = open_session(brief, &plain, SESSION_BY_CUDA);

	session_close(&s);
	assert_work(brief, 0);
	sink_free(brief);
}

static void test_a_second_session_that_wants_more(void **state)
{
	struct cuda_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, &plain, SESSION_BY_CUDA), *b;
	uint64_t launches, graph_launches, calls, calls_of_both;

	(void)state;
	cuda_player_play(0);
	settle();
	assert_work(first, 1);
	launches = driver_calls(first, api_kind_launch);
	graph_launches = driver_calls(first, api_kind_graph_launch);
	calls = first->counting.rows[TABLE_api_call];
	assert_true(launches > 0 && calls > launches);
	assert_int_equal(other_calls(first), 0);
	assert_more(first, 0);

	b = open_session(second, &more, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&b);
	calls_of_both = first->counting.rows[TABLE_api_call] - calls;
	assert_true(second->counting.closed && !first->counting.closed && collector_running());
	cuda_player_play(0);
	session_close(&a);
	assert_true(first->counting.closed && !collector_running());
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 1);
	/* Two at the start, and one that leaves CUPTI as others expect it. */
	assert_int_equal(standin_calls(TAPE_cuptiActivitySetAttribute), 3);

	assert_work(first, 3);
	assert_work(second, 1);
	assert_more(first, 1);
	assert_more(second, 1);
	assert_int_equal(driver_calls(first, api_kind_launch), 3 * launches);
	assert_int_equal(driver_calls(second, api_kind_launch), launches);
	assert_int_equal(driver_calls(first, api_kind_graph_launch), 3 * graph_launches);
	assert_int_equal(driver_calls(second, api_kind_graph_launch), graph_launches);
	/*
	 * All of the calls while the second one was there, in both; neither before nor after that.
	 */
	assert_true(calls_of_both > calls && other_calls(second) > 0);
	assert_int_equal(second->counting.rows[TABLE_api_call], calls_of_both);
	assert_int_equal(other_calls(first), other_calls(second));
	assert_int_equal(first->counting.rows[TABLE_api_call], 2 * calls + calls_of_both);
	assert_int_equal(second->stacks, calls_of_both);
	assert_int_equal(first->stacks, calls_of_both);
	assert_int_equal(first->undefined + second->undefined, 0);
	assert_int_equal(first->lost + second->lost, 0);
	/* What is known since before the second one. */
	assert_true(second->counting.rows[TABLE_context] >= 1 &&
		    second->counting.rows[TABLE_stream] >= 1 &&
		    second->counting.rows[TABLE_device] >= 1);
	sink_free(first);
	sink_free(second);
}

/* The program's own for its calls: of one kind 42 and within it 43, of another 7. */
static void push_ids(void)
{
	uint64_t id;

	assert_int_equal(pitot_external_push(8, 41), 0);
	assert_int_equal(pitot_external_pop(3, &id), 0);
	assert_int_equal(pitot_external_push(3, 42), 1);
	assert_int_equal(pitot_external_push(5, 7), 1);
	assert_int_equal(pitot_external_push(3, 43), 1);
	for (uint64_t i = 50; i < 55; i++)
		assert_int_equal(pitot_external_push(0, i), 1);
	assert_int_equal(pitot_external_push(0, 55), 0);
	assert_int_equal(pitot_external_pop(0, &id), 1);
	assert_int_equal(id, 54);
}

/*
 * What was known in the first recording, and what CUDA has made since then, is told again in the
 * second one.
 */
static void test_one_session_after_the_other(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct cuda_sink *sink = sink_new();
		struct session *s;
		uint64_t calls;

		assert_int_equal(pitot_external_push(3, 41), 0); /* nothing is recorded */
		s = open_session(sink, &more, SESSION_BY_CUDA);
		if (i == 0)
			push_ids();
		cuda_player_play(0);
		session_close(&s);
		assert_false(collector_running());
		assert_work(sink, 1);
		assert_more(sink, 1);
		/* What is still open is of another recording. */
		calls = i == 0 ? sink->counting.rows[TABLE_api_call] : 0;
		assert_int_equal(sink->externals[43], calls);
		assert_int_equal(sink->externals[7], calls);
		assert_int_equal(sink->externals[53], calls);
		assert_int_equal(sink->counting.rows[TABLE_external_correlation], 3 * calls);
		assert_true(sink->stacks > 0 &&
			    sink->stacks == sink->counting.rows[TABLE_api_call]);
		assert_int_equal(sink->undefined + sink->lost, 0);
		assert_int_equal(sink->counting.rows[TABLE_context],
				 cuda_player_records(CUPTI_ACTIVITY_KIND_CONTEXT));
		assert_int_equal(sink->counting.rows[TABLE_stream],
				 cuda_player_records(CUPTI_ACTIVITY_KIND_STREAM) +
					 cuda_player_records(CUPTI_ACTIVITY_KIND_CONTEXT));
		assert_true(sink->counting.rows[TABLE_device] >= 1);
		sink_free(sink);
	}
}

/* The first session began before CUDA was there, and has its work all the same. */
static void test_cuda_comes_with_the_second_session(void **state)
{
	struct cuda_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, &plain, SESSION_BY_NVTX), *b;

	(void)state;
	assert_int_equal(first->counting.rows[TABLE_device], 0);
	b = open_session(second, &more, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&a);
	assert_true(first->counting.closed && collector_running());
	session_close(&b);
	assert_work(first, 1);
	assert_work(second, 1);
	assert_more(second, 1);
	assert_int_equal(first->undefined + second->undefined + first->lost + second->lost, 0);
	sink_free(first);
	sink_free(second);
}

/* CUPTI is there while a session wants it, and leaves with that one; a flush brings what it has. */
static void test_a_monitor_has_no_cupti(void **state)
{
	static const struct settings monitor = { .engine = SETTING_ENGINE_MONITOR, .cuda = true };
	struct cuda_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, &monitor, SESSION_BY_CUDA), *b;
	unsigned subscribed = standin_calls(TAPE_cuptiSubscribe_v2),
		 unsubscribed = standin_calls(TAPE_cuptiUnsubscribe);

	(void)state;
	cuda_player_play(0);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed);
	b = open_session(second, &plain, SESSION_BY_CUDA);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed + 1);
	cuda_player_play(0);
	assert_int_equal(collector_flush(10 * NS_PER_S), 0);
	assert_work(second, 1);
	session_close(&b);
	assert_work(second, 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed + 1);
	cuda_player_play(0);
	session_close(&a);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed + 1);
	assert_work(first, 1); /* what the other one wanted */
	sink_free(first);
	sink_free(second);
}

/*
 * The tape's graph and its executable are made once more: how many nodes got the stack that made
 * them.
 */
static uint64_t make_nodes(const struct cuda_sink *sink)
{
	uint64_t before = sink->nodes_with_stack;

	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0);
	assert_int_equal(collector_flush(10 * NS_PER_S), 0);
	return sink->nodes_with_stack - before;
}

/*
 * CUPTI tells of a node of an executable graph twice, made and cloned; an instantiation that fails
 * never ends.
 */
static void test_an_instantiation_that_fails(void **state)
{
	struct cuda_sink *sink = sink_new();
	struct session *s = open_session(sink, &more, SESSION_BY_CUDA);
	uint64_t all = make_nodes(sink), clones = sink->clones, counted, made;

	(void)state;
	counted = graph_nodes_instantiated();
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, 0);
	made = make_nodes(sink);
	assert_true(clones == 0 ||
		    (made > 0 && made + clones <= all)); /* else the tape has no graph */
	assert_int_equal(graph_nodes_instantiated() - counted, clones);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, 0);
	assert_int_equal(make_nodes(sink), all);
	session_close(&s);
	sink_free(sink);
}

/* What a session wants is on when it has been opened, however slow CUPTI is. */
static void test_a_slow_cupti(void **state)
{
	struct cuda_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, &plain, SESSION_BY_CUDA), *b;

	(void)state;
	cuda_player_faults("delay cuptiActivityEnable 20ms\n");
	b = open_session(second, &more, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&b);
	session_close(&a);
	assert_work(second, 1);
	assert_more(second, 1);
	sink_free(first);
	sink_free(second);
}

#define WINDOW_NS (PITOT_SLOWNESS * 500 * NS_PER_MS)

/*
 * When its window closes, work that was launched in it is still under way: it is waited for, and
 * nothing of ours is left then.
 */
static void test_a_window_that_closes(void **state)
{
	struct settings brief = plain;
	struct cuda_sink *sink = sink_new();
	unsigned unsubscribed = standin_calls(TAPE_cuptiUnsubscribe);
	struct session *s;
	uint64_t callbacks, begun = clock_monotonic_ns(), played;

	(void)state;
	brief.duration_ns = WINDOW_NS;
	s = open_session(sink, &brief, SESSION_BY_CUDA);
	cuda_player_play(0);
	played = clock_monotonic_ns() - begun;
	if (played >= WINDOW_NS)
		skip(); /* a starved machine */
	cuda_player_play(WINDOW_NS - played); /* the work runs while the window closes */
	while (standin_calls(TAPE_cuptiUnsubscribe) == unsubscribed)
		usleep(1000);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	assert_true(collector_running());
	session_close(&s);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed + 1);
	assert_work(sink, 2);
	sink_free(sink);
}

static atomic_bool launching;

static void *launch_all_the_time(void *unused)
{
	while (atomic_load(&launching))
		cuda_player_play(0);
	return unused;
}

/*
 * Beside each other and alone, in the middle of whatever the thread is calling: what a sink has is
 * complete in itself.
 */
static void test_sessions_while_a_thread_launches(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&launching, true);
	assert_int_equal(pthread_create(&thread, NULL, launch_all_the_time, NULL), 0);
	for (unsigned i = 0; i < 6; i++) {
		struct cuda_sink *first = sink_new(), *second = sink_new();
		struct session *a = open_session(first, i % 2 ? &more : &plain, SESSION_BY_CUDA);
		struct session *b = i % 3 ? open_session(second, &more, SESSION_BY_CUDA) : NULL;

		while (first->counting.rows[TABLE_api_call] < 40 * i + 1)
			usleep(1000);
		session_close(&a);
		session_close(&b);
		assert_true(first->counting.closed && !collector_running());
		assert_int_equal(first->undefined + second->undefined, 0);
		assert_int_equal(first->lost + second->lost, 0);
		sink_free(first);
		sink_free(second);
	}
	atomic_store(&launching, false);
	pthread_join(thread, NULL);
}

/* --- with --engine pc-sampling --- */

#define STEPS "24"
#define LAUNCHES (24 * 12) /* that are sampled, in a round */
#define SAMPLES 45 /* of a launch, with a place */

static const struct settings sampling = { .engine = SETTING_ENGINE_PC_SAMPLING,
					  .graphs = SETTING_GRAPHS_NODE,
					  .cuda = true };

/* A round in a session of its own, which has everything of it and of nothing else. */
static void play_in_session(const struct settings *settings, enum session_way way, unsigned sampled)
{
	struct cuda_sink *sink = sink_new();
	struct session *s = open_session(sink, settings, way);

	cuda_player_play(0);
	session_close(&s);
	assert_work(sink, 1);
	assert_true(driver_calls(sink, api_kind_launch) >= LAUNCHES);
	assert_int_equal(sink->samples, sampled * SAMPLES * LAUNCHES);
	assert_int_equal(sink->counting.rows[TABLE_pc_reading] > 0, sampled > 0);
	assert_int_equal(sink->contexts_sampled, sampled);
	assert_int_equal(sink->contexts_older,
			 !sampled && settings->engine == SETTING_ENGINE_PC_SAMPLING);
	assert_int_equal(sink->lost, way == SESSION_BY_PROGRAM); /* it says that it is late */
	sink_free(sink);
}

static void assert_calls(unsigned enabled, unsigned disabled, unsigned subscribed,
			 unsigned unsubscribed)
{
	assert_int_equal(standin_calls(STANDIN_PCSamplingEnable), enabled);
	assert_int_equal(standin_calls(STANDIN_PCSamplingDisable), disabled);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed);
}

/*
 * A context is sampled from its creation to its destruction, through sessions with and without the
 * engine, and without any.
 */
static void test_sampled_sessions_one_after_the_other(void **state)
{
	uint64_t callbacks;

	(void)state;
	play_in_session(&sampling, SESSION_BY_CUDA, 1);
	assert_calls(1, 0, 1, 0);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	play_in_session(&sampling, SESSION_BY_CUDA, 1);
	play_in_session(&plain, SESSION_BY_CUDA, 0);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	play_in_session(&sampling, SESSION_BY_CUDA, 1);
	assert_calls(1, 0, 1, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0);
	assert_calls(1, 1, 1, 0);
	play_in_session(&plain, SESSION_BY_CUDA, 0);
	assert_calls(1, 1, 1, 1);
	play_in_session(&plain, SESSION_BY_CUDA, 0);
	assert_calls(1, 1, 2, 2);
}

/* Its context is sampled all the same, for the session that comes. */
static void test_a_window_that_does_not_open(void **state)
{
	struct settings later = sampling;
	struct cuda_sink *sink = sink_new();
	struct session *s;

	(void)state;
	later.delay_ns = 3600 * NS_PER_S;
	s = open_session(sink, &later, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&s);
	assert_int_equal(sink->counting.rows[TABLE_pc_reading], 0);
	assert_int_equal(sink->contexts_sampled, 1);
	sink_free(sink);
	assert_calls(1, 0, 1, 0);
	play_in_session(&sampling, SESSION_BY_CUDA, 1);
	assert_calls(1, 0, 1, 0);
}

/* Contexts of before are never set up, and every session says so. */
static void test_a_context_that_existed_before(void **state)
{
	(void)state;
	cuda_player_play(0);
	play_in_session(&sampling, SESSION_BY_PROGRAM, 0);
	play_in_session(&sampling, SESSION_BY_PROGRAM, 0);
	assert_calls(0, 0, 2, 2);
}

/*
 * One of between two sessions is not sampled, and the second one says so; those of before and after
 * that are.
 */
static void test_contexts_between_sessions(void **state)
{
	struct cuda_sink *sink = sink_new();
	struct session *s;

	(void)state;
	play_in_session(&sampling, SESSION_BY_CUDA, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 1);
	assert_calls(1, 0, 1, 0);
	s = open_session(sink, &sampling, SESSION_BY_CUDA);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 2);
	assert_calls(2, 0, 1, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0);
	assert_calls(2, 1, 1, 0);
	session_close(&s);
	assert_calls(2, 1, 1, 0);
	assert_int_equal(sink->contexts_older, 1);
	assert_int_equal(sink->contexts_sampled, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 2);
	assert_calls(2, 2, 1, 0);
	sink_free(sink);
}

/* Sampling is refused for good, and each session says so. */
static void test_refused_sessions(void **state)
{
	(void)state;
	cuda_player_faults("call cuptiPCSamplingEnable returns 35\n");
	for (unsigned i = 0; i < 2; i++) {
		struct cuda_sink *sink = sink_new();
		struct session *s = open_session(sink, &sampling, SESSION_BY_CUDA);

		cuda_player_play(0);
		session_close(&s);
		assert_work(sink, 1);
		assert_int_equal(sink->samples + sink->contexts_sampled, 0);
		assert_int_equal(sink->refusals, 1);
		sink_free(sink);
		assert_calls(1, 0, i + 1, i + 1);
	}
}

/* The subscription gets the callbacks of calls that load code with the second session. */
static void test_sampling_beside_a_session_without(void **state)
{
	struct cuda_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, &plain, SESSION_BY_CUDA),
		       *b = open_session(second, &sampling, SESSION_BY_CUDA);

	(void)state;
	cuda_player_play(0);
	session_close(&b);
	session_close(&a);
	assert_work(second, 1);
	assert_true(second->samples > 0); /* no context was there yet */
	assert_int_equal(second->contexts_older, 0);
	assert_calls(1, 0, 1, 0);
	sink_free(first);
	sink_free(second);
}

static int in_child(int (*run)(const void *), const void *argument)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0)
		exit(run(argument));
	waitpid(child, &status, 0);
	return status != 0;
}

static int play_sampled(const void *test)
{
	const struct CMUnitTest tests[] = { *(const struct CMUnitTest *)test };

	cuda_player_open_made("steps", STEPS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

static int play(const void *tape)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_second_session_that_wants_more),
		cmocka_unit_test(test_cuda_comes_with_the_second_session),
		cmocka_unit_test(test_one_session_after_the_other),
		cmocka_unit_test(test_a_monitor_has_no_cupti),
		cmocka_unit_test(test_an_instantiation_that_fails),
		cmocka_unit_test(test_a_window_that_closes),
		cmocka_unit_test(test_sessions_while_a_thread_launches),
		cmocka_unit_test(test_a_slow_cupti),
	};

	cuda_player_open(tape);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- with --engine pm-sampling --- */

static const struct settings over_time = { .engine = SETTING_ENGINE_PM_SAMPLING,
					   .graphs = SETTING_GRAPHS_NODE,
					   .pm_interval_ns = 20 * NS_PER_US,
					   .metrics = "gpu__time_duration.sum",
					   .cuda = true };

/*
 * A device is set up for each session that wants it, also where its context is older, and freed at
 * its end.
 */
static void play_over_time(unsigned session, enum session_way way)
{
	struct timespec moment = { .tv_nsec = 2 * NS_PER_MS };
	struct cuda_sink *sink = sink_new();
	struct session *s = open_session(sink, &over_time, way);

	for (unsigned i = 0; i < 1000 && standin_calls(STANDIN_PmSamplingStart) < session; i++) {
		cuda_player_play(0);
		nanosleep(&moment, NULL);
	}
	nanosleep(&moment, NULL);
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_PmSamplingEnable), session);
	assert_int_equal(standin_calls(STANDIN_PmSamplingStop), session);
	assert_int_equal(standin_calls(STANDIN_PmSamplingDisable), session);
	assert_int_equal(sink->counting.rows[TABLE_counter], 1);
	assert_true(sink->counting.rows[TABLE_counter_sample] > 50);
	sink_free(sink);
}

static void test_samples_of_sessions_one_after_the_other(void **state)
{
	struct cuda_sink *sink = sink_new();
	struct session *s;

	(void)state;
	play_over_time(1, SESSION_BY_CUDA);
	s = open_session(sink, &plain, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&s);
	assert_int_equal(sink->counting.rows[TABLE_counter_sample], 0);
	sink_free(sink);
	play_over_time(2, SESSION_BY_CUDA);
	play_over_time(3, SESSION_BY_PROGRAM);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 4);
}

/* --- with --engine sass-metrics --- */

static const struct settings of_instructions = { .engine = SETTING_ENGINE_SASS_METRICS,
						 .graphs = SETTING_GRAPHS_NODE,
						 .metrics = "default",
						 .kernels = "*",
						 .kernel_count = 5,
						 .cuda = true };
#define VALUES_OF_A_LAUNCH 13 /* four metrics of three instructions, and one of one */

/* Counts anew, and of what the device was configured for in the first one. */
static void play_instructions(const char *metrics, unsigned rounds)
{
	struct settings wanted = of_instructions;
	struct cuda_sink *sink = sink_new();
	struct session *s;

	snprintf(wanted.metrics, sizeof(wanted.metrics), "%s", metrics);
	s = open_session(sink, &wanted, SESSION_BY_CUDA);
	for (unsigned i = 0; i < rounds; i++)
		cuda_player_play(0);
	session_close(&s);
	assert_work(sink, rounds);
	assert_int_equal(sink->counting.rows[TABLE_sass_value], 5 * VALUES_OF_A_LAUNCH);
	assert_int_equal(sink->counting.rows[TABLE_metric], 5);
	assert_int_equal(sink->lost, 0);
	sink_free(sink);
}

static void test_instructions_of_sessions_one_after_the_other(void **state)
{
	struct cuda_sink *sink = sink_new();
	struct session *s;

	(void)state;
	play_instructions("default", 2);
	s = open_session(sink, &plain, SESSION_BY_CUDA);
	cuda_player_play(0);
	session_close(&s);
	assert_work(sink, 1);
	assert_int_equal(sink->counting.rows[TABLE_sass_value], 0);
	sink_free(sink);
	play_instructions("smsp__sass_branch_targets", 1);
	assert_int_equal(standin_calls(STANDIN_SassMetricsSetConfig), 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 3);
}

/* The other one has all kernels, too, before, meanwhile and after that. */
static void test_instructions_beside_a_session_without(void **state)
{
	struct cuda_sink *sink = sink_new();
	struct session *s = open_session(sink, &plain, SESSION_BY_CUDA);

	(void)state;
	cuda_player_play(0);
	play_instructions("default", 1);
	cuda_player_play(0);
	session_close(&s);
	assert_work(sink, 3);
	assert_int_equal(sink->lost, 0);
	sink_free(sink);
}

/* A process has one tape, and creates its context once. */
int main(void)
{
	static const char *const tapes[] = { TAPES "/kinds.tape", TAPES "/sync.tape" };
	const struct CMUnitTest sampled[] = {
		cmocka_unit_test(test_sampled_sessions_one_after_the_other),
		cmocka_unit_test(test_a_window_that_does_not_open),
		cmocka_unit_test(test_a_context_that_existed_before),
		cmocka_unit_test(test_contexts_between_sessions),
		cmocka_unit_test(test_sampling_beside_a_session_without),
		cmocka_unit_test(test_refused_sessions),
		cmocka_unit_test(test_samples_of_sessions_one_after_the_other),
		cmocka_unit_test(test_instructions_of_sessions_one_after_the_other),
		cmocka_unit_test(test_instructions_beside_a_session_without),
	};
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tapes); i++)
		failed += in_child(play, tapes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(sampled); i++)
		failed += in_child(play_sampled, &sampled[i]);
	return failed;
}
