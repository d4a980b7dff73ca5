/*
 * test_flame_failures.c: flame graphs without memory: an error and no leak, wherever an allocation
 * fails; and of recordings that hold what no recorder writes.
 */
#include "failing_alloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "export/flame/flame_formats.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

static struct trace *make_trace(const char *folder)
{
	struct trace_options options = { .threads = 1 };
	struct maker *m = maker_begin(folder, 100, 0, "./app");
	uint32_t add = maker_config(m, "_Z3addPf", 1, 32), node, stacks[2];
	struct error e = { 0 };
	struct trace *t;

	maker_device(m, 0, 0);
	maker_thread(m, 10, "main", 0);
	maker_module(m, "/usr/bin/app", "00ff", 0x1000, 0x2000, 0);
	maker_symbol(m, 0x1010, 0, "main", "/usr/bin/app", "/src/main.c", 5, 0x1000);
	maker_symbol(m, 0x1010, 1, "inlined(int)", "/usr/bin/app", "/src/main.h", 6, 0);
	node = maker_native(m, 0, 0x1010);
	stacks[0] = maker_stack(m, node, 1, stack_end_complete);
	stacks[1] = maker_stack(m, maker_python(m, node, "f", "x.py", 3), 2, stack_end_partial);
	for (uint64_t i = 1; i <= 6; i++) {
		m->stack = i < 3 ? stacks[i - 1] : 0;
		maker_call(m, i == 6 ? MAKER_DEVICE_SYNCHRONIZE : MAKER_LAUNCH, 10, 1000 * i,
			   1000 * i + 100, i);
		maker_kernel(m, add, 7, 1000 * i + 200, 1000 * i + 300, i == 5 ? 77 : i);
	}
	maker_memcpy(m, copy_kind_HtoD, 8, 7, 8000, 8100, 3);
	maker_nvtx(m, nvtx_kind_push, 10, "range", 500);
	for (uint64_t i = 1; i <= 4; i++) {
		maker_cpu_sample(m, 10, 1000 * i, 500, i < 3 ? stacks[i - 1] : 0);
		maker_off_cpu(m, 10, 1000 * i, 1000 * i + 10, off_cpu_state_sleeping, stacks[0]);
	}
	m->stack = stacks[1];
	maker_graph_node(m, 5, 1, 0, 10, 500);
	maker_graph_kernel(m, add, 7, 8200, 8300, 3, 1, 5);
	maker_close(m, 9000);
	if (trace_open(folder, &options, &t, &e) < 0)
		fail_msg("%s", e.text);
	return t;
}

static struct flame_options options_of(unsigned round)
{
	struct flame_options o = FLAME_OPTIONS_INIT;

	o.kinds = (1 << FLAME_KINDS) - 1;
	o.levels = round ? (1 << FLAME_LEVELS) - 1 : 0;
	o.detail = round ? STACK_ADDRESSES : STACK_FUNCTIONS;
	o.captures = true;
	o.scope = round ? "range" : NULL;
	return o;
}

/* All that `pitot flame` does; 0 or a negative code. */
static int make_flame(struct trace *t, unsigned round, const char *path)
{
	struct flame_write w = { .title = "app", .recording = "r.pitot", .notes = "note" };
	struct flame_options o = options_of(round);
	struct flame f, before;
	struct error e = { 0 };
	uint64_t bytes;
	int r = flame_init(&f, t, &o, &e);

	if (r < 0)
		return r;
	r = flame_init(&before, t, &o, &e);
	if (r >= 0) {
		r = flame_compare(&f, &before);
		flame_release(&before);
	}
	if (r >= 0)
		r = flame_filter(&f, "main|f|thread", "nothing", &e);
	if (r >= 0)
		r = flame_finish(&f, round);
	for (const struct flame_format *x = flame_formats; x->file.name && r >= 0; x++)
		r = flame_write(&f, x, &w, path, true, &bytes, &e);
	flame_release(&f);
	return r;
}

static void every_allocation_fails_once(void **state)
{
	struct trace *t = make_trace(*state);
	char path[4096];

	snprintf(path, sizeof(path), "%s/out", (const char *)*state);
	for (unsigned round = 0; round < 2; round++) {
		unsigned failures = 0;
		int r = make_flame(t, round, path); /* loads the tables */

		assert_int_equal(r, 0);
		FOR_EACH_FAILURE(n)
		{
			r = make_flame(t, round, path);
			failures += r < 0;
			assert_true(r == 0 || r == -ENOMEM);
			assert_true(r == 0 || failing_alloc_failed);
		}
		assert_int_equal(r, 0);
		assert_true(failures * FAILURE_STEP > 100);
	}
	trace_free(t);
}

/* splitmix64 */
static uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Mostly small, sometimes anything. */
static uint64_t odd_number(uint64_t *seed)
{
	uint64_t v = random_u64(seed);

	return v % 8 ? random_u64(seed) % 12 : random_u64(seed) >> v % 64;
}

/* A row of a table with any values; texts are such that have a text. */
static void append_odd_row(struct maker *m, enum table_id table, uint64_t *seed)
{
	static const char *const texts[] = { "",         "</script>]]>",  "a;b\n\xff\xfe",
					     "_Z3addPf", "operator()(<(", "/x/libcuda.so" };
	const struct table_schema *schema = schema_table(table);
	uint64_t row[128] = { 0 }; /* larger than any row */

	assert_true(schema->row_size <= sizeof(row));
	for (unsigned i = 0; i < schema->column_count; i++) {
		const struct column_schema *c = &schema->columns[i];
		uint64_t value = odd_number(seed);

		if (c->type == COLUMN_TYPE_STRING)
			value = maker_string(m, texts[value % ARRAY_SIZE(texts)]);
		if (c->type == COLUMN_TYPE_U64 && !strcmp(c->name, "session"))
			value = m->session;
		memcpy((char *)row + c->row_offset, &value, c->width);
		if (c->maybe && random_u64(seed) % 4 == 0)
			row[0] |= UINT64_C(1) << i;
	}
	writer_append(m->writer, table, row);
}

static void odd_recordings_do_no_harm(void **state)
{
	static const enum table_id tables[] = {
		TABLE_api_call,        TABLE_kernel,     TABLE_memcpy,  TABLE_memset,
		TABLE_graph_launch,    TABLE_stack_node, TABLE_stack,   TABLE_symbol,
		TABLE_module,          TABLE_thread,     TABLE_nvtx,    TABLE_device,
		TABLE_synchronization, TABLE_cpu_sample, TABLE_off_cpu, TABLE_graph_node,
	};
	struct trace_options options = { .threads = 1 };
	uint64_t seed = 5;

	for (unsigned round = 0; round < 40; round++) {
		struct error e = { 0 };
		char folder[4096], path[4200];
		struct maker *m;
		struct trace *t;

		snprintf(folder, sizeof(folder), "%s/%u", (const char *)*state, round);
		snprintf(path, sizeof(path), "%s/out", folder);
		m = maker_begin(folder, 100, 0, "./app");
		maker_config(m, "</script>", 1, 32);
		maker_call(m, MAKER_LAUNCH, 10, 1, 2, 3);
		for (unsigned i = 0; i < 300; i++)
			append_odd_row(m, tables[i % ARRAY_SIZE(tables)], &seed);
		maker_close(m, 9000);
		if (trace_open(folder, &options, &t, &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(make_flame(t, round % 2, path), 0);
		trace_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(every_allocation_fails_once),
		folder_test(odd_recordings_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
