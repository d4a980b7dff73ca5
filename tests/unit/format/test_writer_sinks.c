/* Sinks of all kinds get each definition before the first row that refers to it, in every epoch. */
#include "recording_fixture.h"

#include "base/map.h"
#include "failing_alloc.h"
#include "format/definitions.h"
#include "format/writer.h"
#include "format/sink.h"

/* ---- a sink that checks what it is handed ---- */

struct toy {
	struct sink sink;
	struct map strings, configs, functions, threads, stacks; /* of the epoch */
	struct map ever; /* id → hash of the text, in all epochs */
	unsigned epochs, seals, closed, abandoned;
	uint64_t kernels, calls, samples, losses, dangling;
	uint64_t first_ns, last_ns; /* of the kernels */
	bool lenient; /* memory may have run out: counts what is missing */
};

static struct toy *toy_of(struct sink *s)
{
	return (struct toy *)s;
}

static void toy_forget(struct toy *t)
{
	map_clear(&t->strings);
	map_clear(&t->configs);
	map_clear(&t->functions);
	map_clear(&t->threads);
	map_clear(&t->stacks);
}

static void toy_epoch(struct sink *s)
{
	toy_of(s)->epochs++;
	toy_forget(toy_of(s));
}

static void expect(struct toy *t, const struct map *known, uint64_t id)
{
	uint64_t value;

	if (map_get(known, id, &value))
		return;
	t->dangling++;
	if (!t->lenient)
		fail_msg("id %llu is not known in epoch %u", (unsigned long long)id, t->epochs);
}

static void learn(struct toy *t, struct map *known, uint64_t id)
{
	if (map_put(known, id, 1) < 0)
		assert_true(t->lenient);
}

static void toy_string(struct toy *t, const struct row_string *row)
{
	uint64_t hash = hash_bytes(row->text.data, row->text.length), before;

	if (map_get(&t->ever, row->id, &before))
		assert_int_equal(before, hash);
	learn(t, &t->strings, row->id);
	if (map_put(&t->ever, row->id, hash) < 0)
		assert_true(t->lenient);
}

static void toy_kernel(struct toy *t, const struct row_kernel *row)
{
	if (row->config != UINT32_MAX)
		expect(t, &t->configs, row->config);
	t->first_ns = t->kernels ? MIN(t->first_ns, row->start_ns) : row->start_ns;
	t->last_ns = MAX(t->last_ns, row->start_ns);
	t->kernels++;
}

static void toy_append(struct sink *s, enum table_id table, const void *row)
{
	const struct table_schema *schema = schema_table(table);
	struct toy *t = toy_of(s);

	for (int c = 0; c < schema->column_count; c++)
		if (schema->columns[c].type == COLUMN_TYPE_STRING && !(load_u64(row) >> c & 1))
			expect(t, &t->strings,
			       load_u32((const uint8_t *)row + schema->columns[c].row_offset));
	switch (table) {
	case TABLE_string:
		toy_string(t, row);
		break;
	case TABLE_kernel_config:
		learn(t, &t->configs, ((const struct row_kernel_config *)row)->id);
		break;
	case TABLE_api_function:
		learn(t, &t->functions, ((const struct row_api_function *)row)->id);
		break;
	case TABLE_thread:
		learn(t, &t->threads, ((const struct row_thread *)row)->tid);
		break;
	case TABLE_stack:
		learn(t, &t->stacks, ((const struct row_stack *)row)->id);
		break;
	case TABLE_kernel:
		toy_kernel(t, row);
		break;
	case TABLE_api_call:
		expect(t, &t->functions, ((const struct row_api_call *)row)->function);
		expect(t, &t->threads, ((const struct row_api_call *)row)->thread);
		expect(t, &t->stacks, ((const struct row_api_call *)row)->stack);
		t->calls++;
		break;
	case TABLE_counter_sample:
		t->samples++;
		break;
	case TABLE_loss:
		t->losses += ((const struct row_loss *)row)->count;
		break;
	default:
		break;
	}
}

static int toy_seal(struct sink *s)
{
	toy_of(s)->seals++;
	return 0;
}

static void toy_release(struct toy *t)
{
	map_release(&t->strings);
	map_release(&t->configs);
	map_release(&t->functions);
	map_release(&t->threads);
	map_release(&t->stacks);
	map_release(&t->ever);
}

static int toy_close(struct sink *s)
{
	toy_of(s)->closed++;
	toy_release(toy_of(s));
	return 0;
}

static void toy_abandon(struct sink *s)
{
	toy_of(s)->abandoned++;
	toy_release(toy_of(s));
}

static const struct sink_ops toy_ops = {
	.name = "toy",
	.epoch = toy_epoch,
	.append = toy_append,
	.seal = toy_seal,
	.close = toy_close,
	.abandon = toy_abandon,
};

#define TOY                                                                                        \
	{                                                                                          \
		.sink.ops = &toy_ops                                                               \
	}

/* ---- a program that launches ---- */

struct program {
	struct writer *w;
	uint32_t stack_epoch; /* in which the stack's rows were appended */
	uint64_t launches;
};

static void need_stack(void *context, struct writer *w, uint32_t id)
{
	struct row_stack row = { .id = id, .node = 1, .depth = 1 };
	struct row_stack_node node = { .id = 1, .kind = frame_kind_python };
	struct program *p = context;

	if (p->stack_epoch == writer_epoch(w))
		return;
	node.function = writer_string(w, "step", 4);
	node.file = writer_string(w, "train.py", 8);
	writer_append(w, TABLE_stack_node, &node);
	writer_append(w, TABLE_stack, &row);
	p->stack_epoch = writer_epoch(w);
}

static void begin(struct program *p, const struct writer_options *options)
{
	*p = (struct program){ .w = writer_new(options) };
	assert_non_null(p->w);
	writer_on_stack(p->w, need_stack, p);
}

static void describe(struct program *p)
{
	struct row_thread thread = { .tid = 7,
				     .name = writer_string(p->w, "python", 6),
				     .time_ns = 1 };
	struct row_api_function function = { .id = 3,
					     .name = writer_string(p->w, "launch", 6),
					     .kind = api_kind_launch };

	writer_append(p->w, TABLE_thread, &thread);
	writer_api_function(p->w, 3, &function);
}

/* One launch of a kernel; of `names` different names and grids. At time 1000 * number. */
static void launch(struct program *p, unsigned names)
{
	uint64_t n = p->launches++;
	struct row_kernel_config config = { .grid_x = (uint32_t)(n % names) };
	struct row_kernel kernel = { .start_ns = 1000 * n, .end_ns = 1000 * n + 5 };
	struct row_api_call call = {
		.start_ns = 1000 * n, .end_ns = 1000 * n + 1, .function = 3, .thread = 7, .stack = 9
	};
	char name[32];

	config.name = writer_string(p->w, name,
				    (size_t)snprintf(name, sizeof(name), "k%u", config.grid_x));
	kernel.config = writer_kernel_config(p->w, &config);
	writer_api_function(p->w, 3, NULL);
	writer_append(p->w, TABLE_api_call, &call);
	writer_append(p->w, TABLE_kernel, &kernel);
}

/* ---- tests ---- */

static void test_definitions_come_first(void **state UNUSED)
{
	struct writer_options options = { .string_bytes_max = 80000 };
	struct toy toy = TOY;
	struct program p;

	begin(&p, &options);
	writer_attach(p.w, &toy.sink);
	describe(&p);
	for (unsigned i = 0; i < 5000; i++) {
		launch(&p, 1000);
		if (i % 50 == 49)
			assert_int_equal(writer_flush(p.w), 0);
	}
	/* 1000 names of about 52 bytes do not fit into an eighth of 80000 */
	assert_in_range(toy.epochs, 10, 100);
	assert_int_equal(toy.epochs + 1 + (writer_epoch(p.w) > toy.epochs + 1), writer_epoch(p.w));
	assert_int_equal(writer_close(&p.w), 0);
	assert_int_equal(toy.kernels, 5000);
	assert_int_equal(toy.calls, 5000);
	assert_int_equal(toy.seals, 101);
	assert_int_equal(toy.closed, 1);
}

/* An epoch that nobody needs does not begin. */
static void test_one_epoch(void **state UNUSED)
{
	struct writer_options options = { 0 };
	struct toy toy = TOY;
	struct program p;

	begin(&p, &options);
	writer_attach(p.w, &toy.sink);
	describe(&p);
	for (unsigned i = 0; i < 100; i++) {
		launch(&p, 10);
		writer_flush(p.w);
	}
	assert_int_equal(toy.epochs, 0);
	toy.sink.wants_epoch = true;
	writer_flush(p.w);
	assert_int_equal(writer_epoch(p.w), 2);
	writer_flush(p.w);
	assert_int_equal(toy.epochs, 0);
	launch(&p, 10);
	assert_int_equal(toy.epochs, 1);
	writer_close(&p.w);
	assert_int_equal(toy.kernels, 101);
}

static void test_windows(void **state UNUSED)
{
	struct writer_options options = { 0 };
	struct toy all = TOY, early = TOY, late = TOY, none = TOY;
	struct row_kernel timeless = { .config = UINT32_MAX };
	struct program p;

	early.sink.until_ns = 100000;
	late.sink.from_ns = 100000;
	late.sink.until_ns = 150000;
	none.sink.from_ns = none.sink.until_ns = 1;
	begin(&p, &options);
	writer_attach(p.w, &all.sink);
	writer_attach(p.w, &early.sink);
	writer_attach(p.w, &late.sink);
	writer_attach(p.w, &none.sink);
	describe(&p);
	for (unsigned i = 0; i < 200; i++)
		launch(&p, 10);
	ROW_MISSING(&timeless, kernel, start_ns);
	writer_append(p.w, TABLE_kernel, &timeless);
	writer_flush(p.w);
	assert_int_equal(all.kernels, 201);
	assert_int_equal(early.kernels, 101);
	assert_int_equal(early.calls, 100);
	assert_int_equal(early.last_ns, 99000);
	assert_int_equal(late.kernels, 51);
	assert_int_equal(none.kernels, 1);
	assert_int_equal(none.calls, 0);
	assert_int_equal(none.threads.count, 1);
	writer_close(&p.w);
	assert_int_equal(all.closed + early.closed + late.closed + none.closed, 4);
}

/*
 * One that comes later is told everything again, and one that goes leaves the others as they are.
 */
static void test_attach_and_detach(void **state UNUSED)
{
	struct writer_options options = { 0 };
	struct toy first = TOY, second = TOY;
	struct program p;

	begin(&p, &options);
	writer_attach(p.w, &first.sink);
	describe(&p);
	for (unsigned i = 0; i < 10; i++)
		launch(&p, 10);
	writer_attach(p.w, &second.sink);
	for (unsigned i = 0; i < 10; i++)
		launch(&p, 10);
	assert_int_equal(second.kernels, 10);
	assert_int_equal(second.threads.count, 1);
	assert_int_equal(first.epochs, 1);
	assert_int_equal(writer_close_sink(&first.sink, writer_detach(p.w, &first.sink)), 0);
	assert_int_equal(first.closed, 1);
	assert_int_equal(first.seals, 1);
	assert_int_equal(first.kernels, 20);
	launch(&p, 10);
	assert_int_equal(first.kernels, 20);
	assert_int_equal(second.kernels, 11);
	writer_abandon(&p.w);
	assert_int_equal(second.abandoned, 1);
	assert_int_equal(second.seals, 0);
}

/* A recording begins segments with epochs; a sink beside it hears of them. */
static void test_beside_a_recording(void **state UNUSED)
{
	struct writer_options options = { .segment_bytes = 3000 };
	struct toy toy = TOY;
	struct program p = { 0 };
	unsigned segments = 0;
	struct fixture f;

	fixture_open(&f);
	p.w = fixture_writer(&f, options);
	writer_on_stack(p.w, need_stack, &p);
	writer_attach(p.w, &toy.sink);
	describe(&p);
	for (unsigned i = 0; i < 20000; i++) {
		launch(&p, 100);
		if (i % 500 == 499)
			assert_int_equal(writer_flush(p.w), 0);
	}
	assert_int_equal(writer_close(&p.w), 0);
	while (access(fixture_segment(&f, segments), F_OK) == 0)
		segments++;
	assert_true(segments > 5);
	assert_int_equal(toy.epochs + 1, segments);
	assert_int_equal(toy.kernels, 20000);
	fixture_close(&f);
}

/* Held for a stack that is not known yet, but not for ever. */
static void test_hold(void **state UNUSED)
{
	struct writer_options options = { 0 };
	struct toy toy = TOY;
	struct program p;

	begin(&p, &options);
	writer_attach(p.w, &toy.sink);
	describe(&p);
	toy.sink.wants_epoch = true;
	writer_hold_epoch(p.w, true);
	writer_flush(p.w);
	assert_int_equal(writer_epoch(p.w), 1);
	writer_hold_epoch(p.w, false);
	writer_flush(p.w);
	assert_int_equal(writer_epoch(p.w), 2);
	launch(&p, 1);
	toy.sink.wants_epoch = true;
	writer_hold_epoch(p.w, true);
	for (unsigned i = 1; i < WRITER_HOLD_FLUSHES; i++)
		writer_flush(p.w);
	assert_int_equal(writer_epoch(p.w), 2);
	writer_flush(p.w);
	assert_int_equal(writer_epoch(p.w), 3);
	writer_close(&p.w);
}

/* Between two flushes there is room for so many texts; what is more is told. */
static void test_too_many_texts(void **state UNUSED)
{
	struct writer_options options = { .string_bytes_max = 10000 };
	struct toy toy = TOY;
	struct program p;
	char text[32];
	uint32_t id = 0;
	unsigned unknown = 0;

	begin(&p, &options);
	writer_attach(p.w, &toy.sink);
	for (unsigned i = 0; i < 1000; i++) {
		id = writer_string(p.w, text, (size_t)snprintf(text, sizeof(text), "text %u", i));
		unknown += id == 1;
	}
	assert_int_equal(writer_string(p.w, "text 5", 6), 2 + 5);
	assert_in_range(unknown, 700, 900);
	writer_flush(p.w);
	assert_int_equal(toy.losses, unknown);
	id = writer_string(p.w, "text 999", 8);
	assert_true(id > 100);
	writer_close(&p.w);
}

/*
 * What there is no memory for is counted, or told as "?"; nothing else refers to what is not there.
 */
static void test_no_memory(void **state UNUSED)
{
	FOR_EACH_FAILURE(n)
	{
		struct writer_options options = { .string_bytes_max = 8000 };
		struct toy toy = TOY;
		struct program p = { .w = writer_new(&options) };
		bool failed;

		if (!p.w)
			continue;
		toy.lenient = true;
		writer_on_stack(p.w, need_stack, &p);
		writer_attach(p.w, &toy.sink);
		describe(&p);
		for (unsigned i = 0; i < 60; i++) {
			launch(&p, 40);
			if (i % 10 == 9)
				writer_flush(p.w);
		}
		failed = failing_alloc_failed;
		assert_int_equal(toy.kernels, 60);
		if (!failed)
			assert_int_equal(toy.dangling, 0);
		writer_close(&p.w);
	}
}

/* Large keys of a few rows take no array up to them; they are found, also when it has grown. */
static void test_definitions_with_large_keys(void **state UNUSED)
{
	static const uint32_t ids[] = { 60000, 100000, UINT32_MAX };
	struct definitions d = { 0 };
	struct row_string row = { 0 };
	char text[16];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		row.id = ids[i];
		row.text.data = text;
		row.text.length = (uint32_t)snprintf(text, sizeof(text), "%u", ids[i]);
		definitions_add(&d, TABLE_string, &row);
	}
	assert_int_equal(d.rows[TABLE_string].dense.count, 0);
	row.text = (struct bytes_value){ "x", 1 };
	for (row.id = 1; row.id < 70000; row.id++)
		if (row.id != ids[0])
			definitions_add(&d, TABLE_string, &row);
	assert_int_equal(d.rows[TABLE_string].dense.count, DENSE_KEYS);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(text, sizeof(text), "%u", ids[i]);
		assert_string_equal(definitions_text(&d, ids[i]).data, text);
	}
	assert_string_equal(definitions_text(&d, 59999).data, "x");
	assert_string_equal(definitions_text(&d, 70000).data, "");
	assert_int_equal(d.lost, 0);
	definitions_release(&d);
}

/* Rows of other tables are found by their id; the last one with it counts. */
static void test_definitions_by_id(void **state UNUSED)
{
	struct definitions d = { .tables = UINT64_C(1) << TABLE_kernel_config };
	const struct row_kernel_config *found;

	for (uint32_t i = 0; i < 4; i++) {
		struct row_kernel_config row = { .id = 7 + i % 3, .name = 20, .grid_x = i };

		assert_true(definitions_add(&d, TABLE_kernel_config, &row));
	}
	assert_false(definitions_add(&d, TABLE_kernel, &(struct row_kernel){ .config = 7 }));
	for (uint32_t i = 0; i < 3; i++) {
		found = definitions_row(&d, TABLE_kernel_config, 7 + i);
		assert_non_null(found);
		assert_int_equal(found->grid_x, i ? i : 3);
	}
	assert_null(definitions_row(&d, TABLE_kernel_config, 20));
	definitions_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definitions_come_first),
		cmocka_unit_test(test_definitions_with_large_keys),
		cmocka_unit_test(test_definitions_by_id),
		cmocka_unit_test(test_one_epoch),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_attach_and_detach),
		cmocka_unit_test(test_beside_a_recording),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_too_many_texts),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
