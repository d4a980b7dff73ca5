/* NCCL's side of the profiler plug-in, in scripts that a GPU cannot be made to play. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "capture/nccl/nccl_abi.h"
#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_registry.h"
#include "capture/nvtx/nvtx_calls.h"
#include "unit/capture/captured_rows.h"
#include "unit/capture/source_ops.h"

extern const struct source nccl_source;
extern const struct nccl_plugin ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6;

atomic_bool collector_idle;

void collector_wake(void)
{
	atomic_store(&collector_idle, false);
}

static int mask;
static struct captured *captured;
static struct row_collective *rows;
static size_t row_count;

static int begin(void **state)
{
	struct source_start start = { 0 };

	(void)state;
	captured = captured_begin();
	rings_discard();
	nccl_source.begin(captured->writer, &start);
	source_window(&nccl_source, true, captured->writer);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	source_window(&nccl_source, false, NULL);
	captured_free(captured);
	return 0;
}

static void read_rows(void)
{
	source_drain(&nccl_source, captured->writer);
	captured_close(captured);
	free(rows);
	rows = captured_rows(captured, TABLE_collective, &row_count);
}

/* --- NCCL --- */

static const char kernel[] = "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgs";
static const char other_kernel[] = "_Z6matmulPfS_S_ii_and_so_on";

static void *init_v4(uint64_t hash)
{
	int (*init)(void **, int *, const char *, uint64_t, int, int, int, const void *);
	void *context = NULL;

	*(void **)&init = ncclProfiler_v4.init;
	assert_int_equal(init(&context, &mask, NULL, hash, 1, 2, 0, NULL), 0);
	return context;
}

static void *init_with(const struct nccl_plugin *plugin, int *mask_of, uint64_t hash,
		       const char *name)
{
	int (*init)(void **, uint64_t, int *, const char *, int, int, int, const void *);
	void *context = NULL;

	*(void **)&init = plugin->init;
	assert_int_equal(init(&context, hash, mask_of, name, 3, 8, 5, NULL), 0);
	return context;
}

static void *init_v5(uint64_t hash)
{
	return init_with(&ncclProfiler_v5, &mask, hash, "tensor");
}

static void *start(void *context, const struct nccl_event *e)
{
	void *handle = (void *)1; /* NCCL passes stale words on */

	assert_int_equal(ncclProfiler_v5.start_event(context, &handle, e), 0);
	return handle;
}

static void *start_group(void *context)
{
	return start(context, &(struct nccl_event){ .type = NCCL_GROUP_API });
}

static void *start_call(void *context, void *group, bool captured_call)
{
	return start(context, &(struct nccl_event){ .type = NCCL_COLLECTIVE_API,
						    .parent = group,
						    .collective_api.captured = captured_call });
}

/* What the callbacks of CUDA's calls and of graph nodes note. */
static void launch(uint32_t correlation, const char *name, uint64_t node)
{
	struct ring_launch *l = &ring_get()->launch;

	*l = (struct ring_launch){ correlation, l->count + 1, name, node };
}

static void launch_in(void *context, void *group, uint32_t correlation, uint64_t node)
{
	void *handle =
		start(context, &(struct nccl_event){ .type = NCCL_KERNEL_LAUNCH, .parent = group });

	launch(correlation, kernel, node);
	ncclProfiler_v5.stop_event(handle);
}

static struct nccl_event all_reduce(void *parent, uint64_t sequence)
{
	return (struct nccl_event){ .type = NCCL_COLLECTIVE,
				    .parent = parent,
				    .collective = { .sequence = sequence,
						    .function = "AllReduce",
						    .count = 1000,
						    .datatype = "ncclBfloat16",
						    .channels = 4,
						    .algorithm = "NVLS",
						    .protocol = "SIMPLE" } };
}

static void enqueue(void *context, void *parent, uint64_t sequence)
{
	struct nccl_event e = all_reduce(parent, sequence);

	assert_null(start(context, &e));
}

/* --- without the plug-in: NVTX --- */

struct payload {
	uint64_t hash, bytes;
	int32_t other;
};

static void *nccl_domain;

static void push_range(const char *name, const void *data, size_t size, int blocks)
{
	struct nvtx_payload_block block = { 1 << 24, size, data };
	struct nvtx_attributes a = {
		.version = NVTX_ABI_VERSION,
		.size = sizeof(a),
		.payload_type = data ? NVTX_PAYLOAD_BLOCKS : 0,
		.blocks = blocks,
		.payload = (uintptr_t)&block,
		.message_type = NVTX_MESSAGE_REGISTERED,
		.message = nvtx_name_in(NVTX_NAMED_STRING, nccl_domain, 0, NVTX_MESSAGE_TEXT, name),
	};

	nvtx_push(nvtx_domain_of(nccl_domain), nvtx_attributes_read(&a));
}

static void operate(const char *name, struct payload p)
{
	push_range(name, &p, sizeof(p), 1);
	nvtx_pop(nvtx_domain_of(nccl_domain));
}

static void group(const char *name, unsigned launches)
{
	push_range(name, NULL, 0, 0);
	for (unsigned i = 0; i < launches; i++)
		launch(500 + i, kernel, 0);
	nvtx_pop(nvtx_domain_of(nccl_domain));
}

static void begin_nvtx(void)
{
	nccl_source.start(NULL);
	nccl_domain = nvtx_name_in(NVTX_NAMED_DOMAIN, NULL, 0, NVTX_MESSAGE_TEXT, "NCCL");
	assert_non_null(nccl_domain);
}

static void ranges_of_operations_are_rows(void **state)
{
	struct payload sum = { 77, 4096, 0 };
	struct row_capability *capabilities;
	size_t count;

	(void)state;
	begin_nvtx();
	for (uint32_t i = 0; i < 2; i++) {
		push_range("ncclAllReduce", &sum, sizeof(sum), 1);
		launch(40 + i, kernel, 0);
		nvtx_pop(nvtx_domain_of(nccl_domain));
	}
	operate("ncclBroadcast", (struct payload){ 77, 64, 3 }); /* nothing was launched */
	push_range("ncclAllGather", &sum, 16, 1); /* its payload ends there */
	launch(42, other_kernel, 0);
	nvtx_pop(nvtx_domain_of(nccl_domain));
	operate("ncclCommInitRank", (struct payload){ 77, 1, 1 });
	read_rows();
	assert_int_equal(row_count, 4);
	for (size_t i = 0; i < row_count; i++) {
		static const uint8_t functions[] = { collective_function_all_reduce,
						     collective_function_all_reduce,
						     collective_function_broadcast,
						     collective_function_all_gather };

		assert_int_equal(rows[i].function, functions[i]);
		assert_int_equal(rows[i].source, collective_source_nvtx);
		assert_int_equal(rows[i].sequence, i == 1);
		assert_int_equal(rows[i].bytes, i == 2 ? 64 : 4096);
		assert_int_equal(HAS(&rows[i], collective, correlation), i < 2);
		assert_int_equal(HAS(&rows[i], collective, root), i == 2);
		assert_false(HAS(&rows[i], collective, count));
		assert_false(HAS(&rows[i], collective, datatype));
		assert_false(HAS(&rows[i], collective, algorithm));
		assert_int_equal(rows[i].communicator, rows[0].communicator);
	}
	assert_int_equal(rows[1].correlation, 41);
	assert_int_equal(rows[2].root, 3);
	capabilities = captured_rows(captured, TABLE_capability, &count);
	assert_int_equal(count, 1);
	assert_int_equal(capabilities->name, feature_collectives);
	assert_int_equal(capabilities->state, capability_state_degraded);
	free(capabilities);
}

static void a_group_is_joined_with_its_only_launch(void **state)
{
	(void)state;
	begin_nvtx();
	for (unsigned launches = 0; launches < 3; launches++) {
		group("ncclGroupStart", 0);
		operate("ncclSend", (struct payload){ 78, 8, 1 });
		operate("ncclRecv", (struct payload){ 78, 8, 1 });
		group("ncclGroupEnd", launches);
	}
	read_rows();
	assert_int_equal(row_count, 6);
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(rows[i].function,
				 i % 2 ? collective_function_recv : collective_function_send);
		assert_int_equal(rows[i].peer, 1);
		assert_int_equal(rows[i].sequence, i / 2);
		assert_int_equal(HAS(&rows[i], collective, correlation), i / 2 == 1);
	}
	assert_int_equal(rows[2].correlation, 500);
}

static void groups_may_be_longer_than_the_room(void **state)
{
	(void)state;
	begin_nvtx();
	group("ncclGroupStart", 0);
	for (unsigned i = 0; i < RING_NCCL_PENDING + 2; i++)
		operate("ncclReduce", (struct payload){ 79, 8, 0 });
	group("ncclGroupEnd", 1);
	read_rows();
	assert_int_equal(row_count, RING_NCCL_PENDING + 2);
	for (size_t i = 0; i < row_count; i++)
		assert_int_equal(HAS(&rows[i], collective, correlation), i >= RING_NCCL_PENDING);
}

static void strange_payloads(void **state)
{
	struct payload p = { 80, 8, -5 };

	(void)state;
	begin_nvtx();
	group("ncclGroupEnd", 1); /* without its begin */
	push_range("ncclAllReduce", &p, 15, 1);
	push_range("ncclAllReduce", &p, SIZE_MAX, 1);
	push_range("ncclAllReduce", &p, sizeof(p), 0);
	push_range("ncclAllReduce", &p, sizeof(p), -1);
	push_range("ncclAllReduce", NULL, sizeof(p), 1);
	push_range("AllReduce", &p, sizeof(p), 1);
	for (int i = 0; i < 6; i++)
		nvtx_pop(nvtx_domain_of(nccl_domain));
	nvtx_push(nvtx_domain_of(nccl_domain), nvtx_attributes_read(NULL));
	nvtx_pop(nvtx_domain_of(nccl_domain));
	operate("ncclScatter", p);
	operate("ncclGather", (struct payload){ 0, 8, 1 }); /* of a communicator that is NULL */
	read_rows();
	assert_int_equal(row_count, 2);
	assert_false(HAS(&rows[0], collective, root));
	assert_false(HAS(&rows[1], collective, communicator));
	assert_false(HAS(&rows[1], collective, sequence));
}

/* --- joins --- */

static void fused_collectives_share_a_launch(void **state)
{
	void *context = init_v5(11), *group, *calls[5];

	(void)state;
	launch(900, kernel, 0); /* an earlier launch that is not of this group */
	group = start_group(context);
	for (int i = 0; i < 5; i++)
		calls[i] = start_call(context, group, false);
	launch_in(context, group, 101, 0);
	for (uint64_t i = 0; i < 3; i++)
		enqueue(context, calls[i], i);
	launch(950, other_kernel, 0);
	launch_in(context, group, 102, 0);
	for (uint64_t i = 3; i < 5; i++)
		enqueue(context, calls[i], i);
	read_rows();
	assert_int_equal(row_count, 5);
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(rows[i].correlation, i < 3 ? 101 : 102);
		assert_int_equal(rows[i].sequence, i);
		assert_int_equal(rows[i].captured, 0);
		assert_true(HAS(&rows[i], collective, captured));
		assert_false(HAS(&rows[i], collective, graph_node));
	}
	assert_int_equal(rows->function, collective_function_all_reduce);
	assert_int_equal(rows->datatype, nccl_datatype_bfloat16);
	assert_int_equal(rows->bytes, 2000);
	assert_int_equal(rows->channels, 4);
	assert_false(HAS(rows, collective, root));
	assert_false(HAS(rows, collective, peer));
	assert_string_equal(captured_text(captured, rows->algorithm), "NVLS");
	assert_string_equal(captured_text(captured, rows->protocol), "SIMPLE");
	assert_int_equal(rows->thread, syscall(SYS_gettid));
}

static void a_launch_that_was_not_seen_is_no_join(void **state)
{
	void *context = init_v5(12), *group;

	(void)state;
	launch(900, kernel, 0);
	group = start_group(context);
	ncclProfiler_v5.stop_event(start(
		context, &(struct nccl_event){ .type = NCCL_KERNEL_LAUNCH, .parent = group }));
	enqueue(context, start_call(context, group, false), 0);
	enqueue(context, NULL, 1);
	read_rows();
	assert_int_equal(row_count, 2);
	assert_false(HAS(&rows[0], collective, correlation));
	assert_false(HAS(&rows[1], collective, correlation));
	assert_false(HAS(&rows[1], collective, captured));
}

static struct {
	void *context, *calls[2];
} replay;

static void *replay_graph(void *nothing)
{
	for (int times = 0; times < 3; times++)
		for (int i = 0; i < 2; i++)
			enqueue(replay.context, replay.calls[i], 7);
	return nothing;
}

/* With network work NCCL enqueues from a host function of the graph, on a thread of the driver. */
static void replays_on_another_thread_are_one_row_each(void **state)
{
	pthread_t thread;
	void *group;

	(void)state;
	replay.context = init_v5(13);
	group = start_group(replay.context);
	for (int i = 0; i < 2; i++)
		replay.calls[i] = start_call(replay.context, group, true);
	launch_in(replay.context, group, 55, 4444);
	for (unsigned i = 0; i < 100; i++) /* other groups of this thread */
		launch_in(replay.context, start_group(replay.context), 60 + i, 0);
	assert_int_equal(pthread_create(&thread, NULL, replay_graph, NULL), 0);
	pthread_join(thread, NULL);
	read_rows();
	assert_int_equal(row_count, 2);
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(rows[i].captured, 1);
		assert_int_equal(rows[i].graph_node, 4444);
		assert_int_equal(rows[i].correlation, 55);
		assert_int_not_equal(rows[i].thread, syscall(SYS_gettid));
	}
}

static void *enqueue_elsewhere(void *call)
{
	enqueue(replay.context, call, 0);
	return NULL;
}

/* On another thread the launch of a group with several is unknown, and no guess. */
static void several_launches_are_no_join_on_another_thread(void **state)
{
	pthread_t thread;
	void *group, *call;

	(void)state;
	replay.context = init_v5(14);
	group = start_group(replay.context);
	call = start_call(replay.context, group, false);
	launch_in(replay.context, group, 71, 0);
	launch_in(replay.context, group, 72, 0);
	assert_int_equal(pthread_create(&thread, NULL, enqueue_elsewhere, call), 0);
	pthread_join(thread, NULL);
	read_rows();
	assert_int_equal(row_count, 1);
	assert_false(HAS(rows, collective, correlation));
}

/* --- other interfaces --- */

/* Its type has one byte; what follows it is undefined. */
static void *start_v4(void *context, struct nccl_event e)
{
	void *handle = (void *)1;

	e.type |= 0xabcdef00;
	assert_int_equal(ncclProfiler_v4.start_event(context, &handle, &e), 0);
	ncclProfiler_v4.stop_event(handle);
	return handle;
}

static void interface_4_takes_the_last_launch_of_nccl(void **state)
{
	static const struct {
		const char *name;
		uint32_t correlation;
		bool joins;
	} launches[] = { { kernel, 31, true }, { other_kernel, 32, false }, { NULL, 0, false } };
	void *context = init_v4(21);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		launch(launches[i].correlation, launches[i].name, 0);
		start_v4(context, (struct nccl_event){ .type = NCCL_GROUP });
		start_v4(context, all_reduce(NULL, i));
	}
	read_rows();
	assert_int_equal(row_count, ARRAY_SIZE(launches));
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(HAS(&rows[i], collective, correlation), launches[i].joins);
		if (launches[i].joins)
			assert_int_equal(rows[i].correlation, launches[i].correlation);
		assert_false(HAS(&rows[i], collective, captured));
	}
}

/* Behind the data type, its descriptor has other fields than that of collectives with a kernel. */
static void interface_6_has_collectives_by_copy_engines(void **state)
{
	void *context = init_with(&ncclProfiler_v6, &mask, 22, NULL);
	struct nccl_event e = all_reduce(NULL, 3);

	(void)state;
	e.type = NCCL_COPY_COLLECTIVE;
	e.collective.function = "AllGather";
	e.collective.algorithm = (const char *)(uintptr_t)0x17; /* numbers */
	e.collective.protocol = (const char *)(uintptr_t)0x2a;
	start(context, &e);
	read_rows();
	assert_int_equal(row_count, 1);
	assert_int_equal(rows->function, collective_function_all_gather);
	assert_string_equal(captured_text(captured, rows->algorithm), "CE");
	assert_false(HAS(rows, collective, protocol));
	assert_false(HAS(rows, collective, channels));
	assert_false(HAS(rows, collective, correlation));
}

static void peers_are_counted_by_communicator_and_direction(void **state)
{
	static const struct {
		int communicator;
		const char *function;
		int peer;
		uint64_t sequence;
	} operations[] = { { 0, "Send", 1, 0 }, { 0, "Send", 1, 1 }, { 0, "Recv", 1, 0 },
			   { 0, "Send", 2, 0 }, { 1, "Send", 1, 0 }, { 0, "Recv", 1, 1 } };
	void *contexts[] = { init_v5(23), init_v5(24) };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		start(contexts[operations[i].communicator],
		      &(struct nccl_event){ .type = NCCL_PEER,
					    .peer = { .function = operations[i].function,
						      .count = 6,
						      .datatype = "ncclFloat64",
						      .peer = operations[i].peer } });
	read_rows();
	assert_int_equal(row_count, ARRAY_SIZE(operations));
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(rows[i].sequence, operations[i].sequence);
		assert_int_equal(rows[i].peer, operations[i].peer);
		assert_int_equal(rows[i].bytes, 48);
		assert_false(HAS(&rows[i], collective, root));
	}
	assert_int_not_equal(rows[0].communicator, rows[4].communicator);
}

/* --- masks --- */

static void masks_follow_the_sessions(void **state)
{
	static int second_mask = 99;
	int *unknown = malloc(sizeof(*unknown)); /* of no library: it may be gone later */

	(void)state;
	source_window(&nccl_source, false, captured->writer);
	init_v4(31);
	assert_int_equal(mask, 0);
	source_window(&nccl_source, true, captured->writer);
	assert_int_equal(mask, 6);
	init_v5(32);
	assert_int_equal(mask, 3846);
	init_with(&ncclProfiler_v6, &second_mask, 33, NULL);
	assert_int_equal(second_mask, 7942);
	assert_int_equal(mask, 3846);
	*unknown = 5;
	init_with(&ncclProfiler_v5, unknown, 34, NULL);
	assert_int_equal(*unknown, 0);
	free(unknown);
	source_window(&nccl_source, false, captured->writer);
	assert_int_equal(mask | second_mask, 0);
	init_v5(35);
	assert_int_equal(mask, 0);
	source_window(&nccl_source, true, captured->writer);
	nccl_source.after_fork();
	assert_int_equal(mask | second_mask, 0);
}

static void nothing_is_recorded_while_no_window_is_open(void **state)
{
	void *context = init_v5(36);

	(void)state;
	source_window(&nccl_source, false, captured->writer);
	assert_null(start_group(context));
	enqueue(context, NULL, 0);
	read_rows();
	assert_int_equal(row_count, 0);
}

/* --- what must do no harm --- */

static void strange_events(void **state)
{
	static const char unterminated[24] = "AllReduceAllReduceAllRed";
	void *context = init_v5(41), *group = start_group(context);
	void *foreign = (void *)((uintptr_t)group ^ (uintptr_t)1 << 50), *handles[3];
	struct nccl_event e = all_reduce(foreign, 0);

	(void)state;
	for (uint64_t type = 0; type < 64; type++) /* of no type that Pitot wants */
		assert_null(start(context, &(struct nccl_event){ .type = UINT64_C(1) << type |
									 UINT64_C(1) << 40 }));
	assert_null(start_call(context, foreign, false)); /* of another process */
	assert_null(start_call(context, NULL, false));
	assert_null(start_call(context, (void *)(uintptr_t)0xdeadbeef, false));
	handles[0] = NULL, handles[1] = foreign, handles[2] = (void *)(uintptr_t)0x7fffffffffffff;
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		ncclProfiler_v5.stop_event(handles[i]);
		ncclProfiler_v5.record_event_state(handles[i], 23, NULL);
	}
	start(NULL, &e); /* without a communicator */
	start((void *)(uintptr_t)0x123456789, &e);
	e.collective.function = NULL;
	e.collective.datatype = unterminated;
	e.collective.algorithm = e.collective.protocol = NULL;
	start(context, &e);
	e = all_reduce(NULL, 1);
	e.collective.count = SIZE_MAX;
	start(context, &e);
	ncclProfiler_v5.finalize(NULL);
	ncclProfiler_v5.finalize(context);
	enqueue(context, NULL, 2); /* after its end */
	read_rows();
	assert_int_equal(row_count, 5);
	assert_false(HAS(&rows[0], collective, communicator));
	assert_false(HAS(&rows[1], collective, communicator));
	assert_int_equal(rows[2].function, collective_function_other);
	assert_false(HAS(&rows[2], collective, datatype));
	assert_false(HAS(&rows[2], collective, bytes));
	assert_false(HAS(&rows[2], collective, algorithm));
	assert_false(HAS(&rows[3], collective, bytes));
	assert_true(HAS(&rows[4], collective, communicator));
}

#define THREADS 4
#define EACH 500

static void *train(void *number)
{
	uint32_t id = (uint32_t)(uintptr_t)number;
	void *context = init_v5(100 + id);

	for (uint32_t i = 0; i < EACH; i++) {
		void *group = start_group(context), *call = start_call(context, group, false);

		launch_in(context, group, 1 + id * EACH + i, 0);
		enqueue(context, call, i);
	}
	return NULL;
}

static void threads_do_not_mix(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, train, (void *)i), 0);
	for (int i = 0; i < 20; i++) { /* sessions come and go */
		nccl_plugin_record(true);
		source_drain(&nccl_source, captured->writer);
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	read_rows();
	assert_int_equal(row_count, THREADS * EACH);
	for (size_t i = 0; i < row_count; i++)
		assert_int_equal((rows[i].correlation - 1) % EACH, rows[i].sequence);
}

static void communicators_have_rows(void **state)
{
	size_t count;
	struct row_communicator *c;
	const struct row_communicator *last;

	(void)state;
	init_with(&ncclProfiler_v5, &mask, 0xabcd,
		  "a name that is longer than Pitot keeps: "
		  "0123456789012345678901234567890123456789");
	nccl_source.collect(captured->writer, 0);
	read_rows();
	c = captured_rows(captured, TABLE_communicator, &count);
	assert_int_equal(count, nccl_communicator_count());
	last = &c[count - 1];
	assert_int_equal(last->id, count);
	assert_int_equal(last->hash, 0xabcd);
	assert_int_equal(last->nodes, 3);
	assert_int_equal(last->ranks, 8);
	assert_int_equal(last->rank, 5);
	assert_int_equal(strlen(captured_text(captured, last->name)), NCCL_NAME_MAX - 1);
	free(c);
}

static void communicators_beyond_the_limit_are_counted(void **state)
{
	size_t count;
	struct row_loss *losses;
	void *context = NULL;

	(void)state;
	while (nccl_communicators_refused() < 3)
		context = init_v5(1);
	assert_null(context);
	enqueue(context, NULL, 0);
	nccl_source.periodic(captured->writer, 1, 2);
	read_rows();
	assert_int_equal(row_count, 1);
	assert_false(HAS(rows, collective, communicator));
	losses = captured_rows(captured, TABLE_loss, &count);
	assert_int_equal(count, 1);
	assert_int_equal(losses->count, 3);
	free(losses);
	free(rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* NCCL's ranges are ignored once it has loaded the plug-in */
		cmocka_unit_test_setup_teardown(ranges_of_operations_are_rows, begin, finish),
		cmocka_unit_test_setup_teardown(a_group_is_joined_with_its_only_launch, begin,
						finish),
		cmocka_unit_test_setup_teardown(groups_may_be_longer_than_the_room, begin, finish),
		cmocka_unit_test_setup_teardown(strange_payloads, begin, finish),
		/* before what allocates: the child of a fork leaks what others have allocated */
		cmocka_unit_test_setup_teardown(masks_follow_the_sessions, begin, finish),
		cmocka_unit_test_setup_teardown(fused_collectives_share_a_launch, begin, finish),
		cmocka_unit_test_setup_teardown(a_launch_that_was_not_seen_is_no_join, begin,
						finish),
		cmocka_unit_test_setup_teardown(replays_on_another_thread_are_one_row_each, begin,
						finish),
		cmocka_unit_test_setup_teardown(several_launches_are_no_join_on_another_thread,
						begin, finish),
		cmocka_unit_test_setup_teardown(interface_4_takes_the_last_launch_of_nccl, begin,
						finish),
		cmocka_unit_test_setup_teardown(interface_6_has_collectives_by_copy_engines, begin,
						finish),
		cmocka_unit_test_setup_teardown(peers_are_counted_by_communicator_and_direction,
						begin, finish),
		cmocka_unit_test_setup_teardown(nothing_is_recorded_while_no_window_is_open, begin,
						finish),
		cmocka_unit_test_setup_teardown(strange_events, begin, finish),
		cmocka_unit_test_setup_teardown(threads_do_not_mix, begin, finish),
		cmocka_unit_test_setup_teardown(communicators_have_rows, begin, finish),
		cmocka_unit_test_setup_teardown(communicators_beyond_the_limit_are_counted, begin,
						finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
