#include "perfetto/perfetto_sink.h"

#include <string.h>

#include "failing_alloc.h"
#include "base/proto_read.h"
#include "perfetto/perfetto_packets.h"
#include "perfetto/perfetto_slice_packets.h"
#include "support/cmocka_tests.h"

#define SEQUENCES 16
#define ROUNDS 20000
#define ROW(sink, table, ...)                                                                      \
	(sink)->ops->append((sink), TABLE_##table, &(struct row_##table){ __VA_ARGS__ })

#define CALLS 8
#define GRAPH_NODES 20000 /* whose arrows need more than RAW_ROOM */

enum text { EXECUTABLE = 1, LAUNCH, STEP, FIRST_PCI, LAST_PCI };

/* A sequence as a reader counts its slices. */
struct sequence {
	bool valid; /* its incremental state is known */
	bool has_lost; /* since the last packet */
	unsigned open;
};

/* A service that rejects many packets, but never the end of a slice. */
struct service {
	struct sequence sequences[SEQUENCES];
	uint32_t random, refusing; /* packets still to reject */
	uint64_t begun, ended, told;
	uint64_t annotated; /* ends of slices with annotations */
	unsigned arrows[CALLS]; /* by correlation */
};

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Returns the count in the annotations of an instant, which is a loss. */
static uint64_t count_of(struct cursor event)
{
	struct proto_field f, note;
	uint64_t count = 0;

	while (proto_next(&event, &f)) {
		struct cursor c = proto_message(&f);

		while (f.number == 4 && proto_next(&c, &note))
			if (note.number == 3 || note.number == 4) /* uint, int */
				count = note.value;
	}
	return count;
}

static unsigned count_fields(struct cursor message)
{
	struct proto_field f;
	unsigned count = 0;

	while (proto_next(&message, &f))
		count++;
	return count;
}

static void read_event(struct service *s, struct sequence *q, struct cursor event, bool defaults)
{
	struct cursor c = event;
	struct proto_field f;
	uint64_t type = 0, uuid = 0;
	bool annotated = false;

	while (proto_next(&c, &f)) {
		annotated |= f.number == 4;
		type = f.number == 9 ? f.value : type;
		uuid = f.number == 11 ? f.value : uuid;
		if (f.number == 3000)
			s->arrows[count_of(event) % CALLS] = count_fields(proto_message(&f));
	}
	assert_true(!type || uuid || defaults);
	if (type == 1) {
		q->open++;
		s->begun++;
	} else if (type == 2) {
		assert_int_not_equal(q->open, 0);
		q->open--;
		s->ended++;
		s->annotated += annotated;
	} else if (type == 3) {
		s->told += count_of(event);
	}
}

static bool take(void *user, uint32_t number, const void *packet, size_t length, bool is_end)
{
	struct service *s = user;
	struct sequence *q = &s->sequences[number];
	struct cursor c = cursor_of(packet, length), event = { 0 };
	struct proto_field f;
	uint64_t flags = 0;

	assert_in_range(number, 1, SEQUENCES - 1);
	if (!s->refusing && next_random(&s->random) % 8 == 0)
		s->refusing = next_random(&s->random) % 20;
	if (s->refusing && !is_end) {
		s->refusing--;
		q->has_lost = true;
		return false;
	}
	while (proto_next(&c, &f)) {
		flags = f.number == 13 ? f.value : flags;
		if (f.number == PACKET_TRACK_EVENT)
			event = proto_message(&f);
	}
	assert_false(c.failed);
	q->valid = (q->valid && !q->has_lost) || flags & PERFETTO_CLEARED;
	q->has_lost = false;
	assert_true(q->valid || !(flags & PERFETTO_NEEDS_STATE));
	read_event(s, q, event, flags & PERFETTO_NEEDS_STATE);
	return true;
}

static void nvtx(struct sink *sink, enum nvtx_kind kind, uint64_t time_ns, uint64_t range)
{
	ROW(sink, nvtx, .time_ns = time_ns, .kind = (uint8_t)kind, .thread = 7, .message = STEP,
	    .range = range);
}

/* A value of the range of level 0 that was popped at this time. */
static void range_value(struct sink *sink, uint64_t time_ns)
{
	ROW(sink, range_value, .start_ns = time_ns - 1, .end_ns = time_ns + 1, .thread = 7,
	    .name = STEP, .passes = 1, .metric = 1);
}

static struct sink *new_sink(struct service *s, const atomic_uint *rows)
{
	struct sink *sink = perfetto_sink_new(
		&(struct perfetto_sink_options){ .rows = rows, .user = s, .write = take });

	if (!sink)
		return NULL;
	ROW(sink, string, .id = EXECUTABLE, .text = { "/bin/app", 8 });
	ROW(sink, string, .id = LAUNCH, .text = { "cuLaunchKernel", 14 });
	ROW(sink, string, .id = STEP, .text = { "step", 4 });
	ROW(sink, process, .pid = 7, .executable = EXECUTABLE);
	ROW(sink, api_function, .id = 1 << 16 | 307, .name = LAUNCH, .kind = api_kind_launch);
	return sink;
}

static void assert_whole(const struct service *s)
{
	assert_int_equal(s->ended, s->begun);
	for (unsigned i = 0; i < SEQUENCES; i++)
		assert_int_equal(s->sequences[i].open, 0);
}

/*
 * Slices are lost as a whole: no end without its beginning, which would end the slice around it,
 * and no beginning without its end.
 */
static void serve_slowly(unsigned more_rows)
{
	const atomic_uint rows = PERFETTO_CALLS | PERFETTO_RANGES | more_rows;
	struct service s = { .random = 1 };
	struct sink *sink = new_sink(&s, &rows);
	uint64_t time_ns = 0, slices = 0;
	unsigned pushed = 0, crossing = 0;

	assert_non_null(sink);
	ROW(sink, metric, .id = 1, .name = STEP, .description = STEP, .unit = STEP);
	for (unsigned i = 0; i < ROUNDS; i++, time_ns += 10) {
		unsigned choice = next_random(&s.random) % 8;

		if (choice == 0 && pushed < 60) {
			nvtx(sink, nvtx_kind_push, time_ns, 0);
			pushed++;
			slices++;
		} else if (choice == 1 && pushed) {
			nvtx(sink, nvtx_kind_pop, time_ns, 0);
			range_value(sink, time_ns);
			sink->ops->seal(sink);
			pushed--;
		} else if (choice == 2 && !crossing) {
			nvtx(sink, nvtx_kind_start, time_ns, i + 1);
			crossing = i + 1;
			slices++;
		} else if (choice == 3 && crossing) {
			nvtx(sink, nvtx_kind_end, time_ns, crossing);
			crossing = 0;
		} else {
			ROW(sink, api_call, .start_ns = time_ns, .end_ns = time_ns + 5,
			    .function = 1 << 16 | 307, .thread = 7, .correlation = i + 1,
			    .missing = 1u << COLUMN_api_call_result | 1u << COLUMN_api_call_stack);
			slices++;
		}
	}
	for (; pushed; pushed--)
		nvtx(sink, nvtx_kind_pop, time_ns++, 0);
	nvtx(sink, nvtx_kind_end, time_ns, crossing);
	assert_int_equal(sink->ops->close(sink), 0);
	assert_in_range(s.begun, slices / 4, slices - slices / 4);
	assert_whole(&s);
	assert_in_range(s.told, slices - s.begun, 8 * (slices - s.begun)); /* with descriptions */
	assert_true(more_rows ? s.annotated > ROUNDS / 100 : !s.annotated);
}

static void test_slices_of_a_slow_service(void **state)
{
	(void)state;
	serve_slowly(0);
	serve_slowly(PERFETTO_RANGE_METRICS);
}

/* Values that arrive before or soon after the end of their range are arguments of its end. */
static void test_values_of_ranges(void **state)
{
	static const struct row_nvtx others[] = {
		{ .time_ns = 300, .message = STEP, .thread = 7, .level = 1 },
		{ .time_ns = 300, .message = STEP, .thread = 7, .domain = 2 },
		{ .time_ns = 300, .message = STEP, .thread = 8 },
		{ .time_ns = 302, .message = STEP, .thread = 7 }, /* ends later */
		{ .time_ns = 290, .message = STEP, .thread = 7 }, /* ends before */
	};
	const atomic_uint rows = PERFETTO_RANGES | PERFETTO_RANGE_METRICS;
	struct service s = { 0 };
	struct sink *sink = new_sink(&s, &rows);

	(void)state;
	assert_non_null(sink);
	ROW(sink, metric, .id = 1, .name = STEP, .description = STEP, .unit = STEP);
	for (unsigned i = 1; i <= 2; i++) {
		nvtx(sink, nvtx_kind_push, 100 * i, 0);
		if (i == 1)
			range_value(sink, 100 * i + 50);
		nvtx(sink, nvtx_kind_pop, 100 * i + 50, 0);
		assert_int_equal(s.ended, i - 1);
		if (i == 2) {
			sink->ops->seal(sink);
			assert_int_equal(s.ended, 1);
			range_value(sink, 100 * i + 50);
		}
		sink->ops->seal(sink);
		assert_int_equal(s.ended, i);
		assert_int_equal(s.annotated, i);
	}
	/* Others and late ones are not its arguments: they make a slice. */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		for (uint8_t pop = 0; pop < 2; pop++) {
			struct row_nvtx row = others[i];

			row.kind = pop ? nvtx_kind_pop : nvtx_kind_push;
			row.time_ns += pop ? 50 : 0;
			sink->ops->append(sink, TABLE_nvtx, &row);
		}
	range_value(sink, 350);
	sink->ops->seal(sink);
	assert_int_equal(s.ended, 2);
	sink->ops->seal(sink);
	assert_int_equal(s.ended, 3 + ARRAY_SIZE(others));
	nvtx(sink, nvtx_kind_push, 400, 0);
	nvtx(sink, nvtx_kind_pop, 450, 0);
	sink->ops->seal(sink);
	sink->ops->seal(sink);
	range_value(sink, 450);
	assert_int_equal(sink->ops->close(sink), 0);
	assert_int_equal(s.ended, 5 + ARRAY_SIZE(others));
	assert_int_equal(s.annotated, 2);
	assert_whole(&s);
}

/* --- without memory --- */

static void add_definitions(struct sink *sink)
{
	ROW(sink, device, .id = 0, .pci = FIRST_PCI);
	ROW(sink, counter, .id = 1, .name = STEP, .unit = STEP);
	ROW(sink, metric, .id = 1, .name = STEP, .description = STEP, .unit = STEP);
	ROW(sink, kernel_config, .id = 1, .name = LAUNCH);
	ROW(sink, module, .path = EXECUTABLE, .start_address = 0, .end_address = 1000);
	for (uint32_t i = 1; i < 9; i++)
		ROW(sink, stack_node, .id = i, .parent = i - 1, .address = 100 * i,
		    .kind = i % 2 ? frame_kind_native : frame_kind_python, .function = STEP,
		    .file = EXECUTABLE);
	ROW(sink, stack, .id = 1, .node = 8);
}

static void add_rows(struct sink *sink, uint64_t time_ns)
{
	nvtx(sink, nvtx_kind_push, time_ns, 0);
	nvtx(sink, nvtx_kind_start, time_ns, time_ns);
	ROW(sink, metric_value, .correlation = time_ns, .metric = 1);
	ROW(sink, kernel, .start_ns = time_ns, .end_ns = time_ns + 1, .config = 1,
	    .correlation = time_ns);
	ROW(sink, api_call, .start_ns = time_ns, .end_ns = time_ns + 1, .function = 1 << 16 | 307,
	    .thread = 7, .correlation = time_ns, .stack = 1,
	    .missing = 1u << COLUMN_api_call_result);
	ROW(sink, counter_sample, .time_ns = time_ns, .counter = 1);
	ROW(sink, counter_sample, .time_ns = time_ns, .counter = 1,
	    .missing = 1u << COLUMN_counter_sample_device);
	ROW(sink, cpu_sample, .time_ns = time_ns, .thread = 8, .stack = 1);
	ROW(sink, capability, .time_ns = time_ns, .name = feature_cupti,
	    .state = capability_state_unavailable, .reason = STEP);
	ROW(sink, loss, .end_ns = time_ns, .count = 1);
	sink->ops->seal(sink);
	nvtx(sink, nvtx_kind_end, time_ns + 1, time_ns);
	nvtx(sink, nvtx_kind_pop, time_ns + 1, 0);
	range_value(sink, time_ns + 1);
	range_value(sink, time_ns + 3); /* without its range */
}

/* Rows are lost; packets, slices and sequences remain whole, and memory that returns is used. */
static void without_memory(bool stays)
{
	const atomic_uint rows = PERFETTO_WORK | PERFETTO_CALLS | PERFETTO_RANGES |
				 PERFETTO_COUNTERS | PERFETTO_METRICS | PERFETTO_SAMPLES |
				 PERFETTO_RANGE_METRICS;

	failing_alloc_stays = stays;
	FOR_EACH_FAILURE(n)
	{
		struct service s = { 0 };
		struct sink *sink = new_sink(&s, &rows);
		uint64_t begun;

		if (!sink)
			continue;
		add_definitions(sink);
		add_rows(sink, 10);
		add_rows(sink, 20);
		if (stays && failing_alloc_failed)
			failing_alloc_left = -1;
		begun = s.begun;
		add_rows(sink, 30);
		assert_true(s.begun > begun || failing_alloc_failed);
		sink->ops->close(sink);
		assert_whole(&s);
	}
}

static void test_without_memory_once(void **state)
{
	(void)state;
	without_memory(false);
}

static void test_without_memory_for_a_while(void **state)
{
	(void)state;
	without_memory(true);
}

static void graph_launch(struct sink *sink, uint64_t correlation)
{
	ROW(sink, api_call, .start_ns = 1, .end_ns = 2, .function = 2, .thread = 7,
	    .correlation = correlation,
	    .missing = 1u << COLUMN_api_call_result | 1u << COLUMN_api_call_stack);
}

static void nodes(struct sink *sink, uint64_t correlation, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ROW(sink, memset, .start_ns = 3, .end_ns = 4, .correlation = correlation,
		    .graph_node = i + 1);
}

static void test_without_memory_for_arrows(void **state)
{
	const atomic_uint rows = PERFETTO_CALLS;

	(void)state;
	failing_alloc_stays = false;
	FOR_EACH_FAILURE(n)
	{
		struct service s = { 0 };
		struct sink *sink = new_sink(&s, &rows);

		if (!sink)
			continue;
		ROW(sink, api_function, .id = 2, .name = LAUNCH, .kind = api_kind_graph_launch);
		graph_launch(sink, 5);
		nodes(sink, 5, GRAPH_NODES);
		sink->ops->close(sink);
		assert_whole(&s);
	}
}

/* A node that is lost does not lead the next ones to another launch. */
static void test_arrows_of_two_launches(void **state)
{
	const atomic_uint rows = PERFETTO_CALLS;

	(void)state;
	failing_alloc_stays = false;
	FOR_EACH_FAILURE(n)
	{
		struct service s = { 0 };
		struct sink *sink = new_sink(&s, &rows);

		if (!sink)
			continue;
		ROW(sink, api_function, .id = 2, .name = LAUNCH, .kind = api_kind_graph_launch);
		nodes(sink, 5, 1);
		graph_launch(sink, 6);
		nodes(sink, 5, 3);
		graph_launch(sink, 5);
		sink->ops->close(sink);
		assert_in_range(s.arrows[6], 0, 1);
		assert_true(s.arrows[5] == 5 || failing_alloc_failed);
	}
}

/* --- numbers of GPUs --- */

struct gpus {
	uint64_t listed, named; /* GPUs in GpuInfo, and how many of them have a name */
	char vendors[16]; /* initials of their makers */
	uint64_t of_work[2]; /* numbers */
	size_t works;
	unsigned searched; /* GPUs whose number was searched */
};

static void read_gpu_info(struct gpus *g, struct cursor info)
{
	struct proto_field gpu, f;

	size_t known = 0;

	g->listed = g->named = 0;
	while (proto_next(&info, &gpu)) {
		struct cursor c = proto_message(&gpu);

		g->listed++;
		while (proto_next(&c, &f)) {
			g->named += f.number == 1;
			if (f.number == 2)
				g->vendors[known++] = (char)*f.bytes;
		}
	}
}

static bool take_gpus(void *user, uint32_t number, const void *packet, size_t length, bool is_end)
{
	struct cursor c = cursor_of(packet, length);
	struct proto_field f, field;
	struct gpus *g = user;

	(void)number;
	(void)is_end;
	while (proto_next(&c, &f)) {
		struct cursor stage = proto_message(&f);

		if (f.number == PACKET_GPU_INFO)
			read_gpu_info(g, stage);
		while (f.number == PACKET_GPU_RENDER_STAGE_EVENT && proto_next(&stage, &field))
			if (field.number == 11 && g->works < ARRAY_SIZE(g->of_work))
				g->of_work[g->works++] = field.value;
	}
	return true;
}

static int number_of_pci(void *user, const char *pci)
{
	struct gpus *g = user;

	g->searched++;
	return strcmp(pci, "last") == 0 ? 5 : -1;
}

/* The sixth GPU of the machine has its number, and an unknown GPU has CUDA's ordinal. */
static void test_numbers_of_gpus(void **state)
{
	const atomic_uint rows = PERFETTO_WORK;
	struct gpus g = { 0 };
	struct sink *sink = perfetto_sink_new(&(struct perfetto_sink_options){
		.rows = &rows, .user = &g, .write = take_gpus, .gpu_number = number_of_pci });

	(void)state;
	assert_non_null(sink);
	ROW(sink, string, .id = FIRST_PCI, .text = { "first", 5 });
	ROW(sink, string, .id = LAST_PCI, .text = { "last", 4 });
	ROW(sink, device, .id = 0, .pci = LAST_PCI, .vendor = gpu_vendor_amd);
	ROW(sink, device, .id = 1, .pci = FIRST_PCI);
	ROW(sink, device, .id = 64, .pci = FIRST_PCI); /* too many */
	for (uint32_t device = 0; device < 2; device++)
		ROW(sink, memset, .start_ns = 1, .end_ns = 2, .device = device, .context = device);
	assert_int_equal(sink->ops->close(sink), 0);
	assert_int_equal(g.searched, 2);
	assert_int_equal(g.listed, 6);
	assert_int_equal(g.named, 2);
	assert_string_equal(g.vendors, "A"); /* not the second one's, which is unknown */
	assert_int_equal(g.works, 2);
	assert_int_equal(g.of_work[0], 5);
	assert_int_equal(g.of_work[1], 1);
}

static bool take_dimensions(void *user, uint32_t number, const void *packet, size_t length,
			    bool is_end)
{
	struct cursor c = cursor_of(packet, length);
	struct proto_field f, field, part;

	(void)number;
	(void)is_end;
	while (proto_next(&c, &f)) {
		struct cursor stage = proto_message(&f);

		while (f.number == PACKET_GPU_RENDER_STAGE_EVENT && proto_next(&stage, &field)) {
			struct cursor launch = proto_message(&field);

			while (field.number == STAGE_LAUNCH && proto_next(&launch, &part))
				*(unsigned *)user |= part.number < 3 ? 1u << part.number : 0;
		}
	}
	return true;
}

/* A grid or a block that is unknown is left out. */
static void test_unknown_dimensions(void **state)
{
	const atomic_uint rows = PERFETTO_WORK;
	const uint64_t grid = UINT64_C(7) << COLUMN_kernel_config_grid_x,
		       block = UINT64_C(7) << COLUMN_kernel_config_block_x;
	const uint64_t missing[] = { 0, grid, block, grid | block };
	const unsigned expected[] = { 6, 4, 2, 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		unsigned dimensions = 0;
		struct sink *sink = perfetto_sink_new(&(struct perfetto_sink_options){
			.rows = &rows, .user = &dimensions, .write = take_dimensions });

		assert_non_null(sink);
		ROW(sink, kernel_config, .id = 1, .missing = missing[i]);
		ROW(sink, kernel, .start_ns = 1, .end_ns = 2, .config = 1);
		assert_int_equal(sink->ops->close(sink), 0);
		assert_int_equal(dimensions, expected[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices_of_a_slow_service),
		cmocka_unit_test(test_values_of_ranges),
		cmocka_unit_test(test_without_memory_once),
		cmocka_unit_test(test_without_memory_for_a_while),
		cmocka_unit_test(test_without_memory_for_arrows),
		cmocka_unit_test(test_arrows_of_two_launches),
		cmocka_unit_test(test_numbers_of_gpus),
		cmocka_unit_test(test_unknown_dimensions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
