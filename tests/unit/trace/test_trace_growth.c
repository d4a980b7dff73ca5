/* A trace that follows a growing recording holds what a trace holds that is opened at that moment. */
#include "trace_fixture.h"

#include <dirent.h>

#include "base/compiler.h"
#include "format/reader.h"

#define FILES_MAX 64
#define STEPS 120

/* ---- numbers that are the same in every run ---- */

static uint64_t state_of_random;

static uint64_t random_below(uint64_t n)
{
	uint64_t z = state_of_random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % n;
}

/* ---- a recording ---- */

static void write_work(struct maker *m, uint32_t pid, uint64_t start_ns, unsigned round)
{
	for (unsigned i = 0; i < 60; i++) {
		uint64_t n = 60 * round + i, at = start_ns + 1000 * n + random_below(9000);
		char name[32];

		snprintf(name, sizeof(name), "kernel%u of %u", (unsigned)random_below(3 + round),
			 pid);
		maker_call(m, MAKER_LAUNCH, pid, at, at + 10, n + 1);
		if (i % 3)
			maker_kernel(m, maker_config(m, name, 1, 32), 7, at + 100, at + 500, n + 1);
		else
			maker_graph_kernel(m, maker_config(m, name, 2, 64), 8, at + 100, at + 300,
					   n + 1, 2, 1 + i % 4);
		if (i % 7 == 0)
			maker_memcpy(m, copy_kind_HtoD, n, 7, at + 20, at + 30, n + 1);
		if (i % 5 == 0) {
			maker_nvtx(m, nvtx_kind_push, pid, name, at);
			maker_nvtx(m, nvtx_kind_pop, pid, NULL, at + 900);
		}
		if (i % 20 == 0) {
			maker_thread(m, pid + i, name, at);
			maker_stream(m, 9 + i, at);
		}
	}
}

static void write_process(const char *folder, uint32_t pid, uint64_t start_ns, bool crash)
{
	struct writer_options options = { .segment_bytes = 12000 };
	struct maker *m = maker_begin_with(options, folder, pid, start_ns, "./a");

	maker_device(m, 0, start_ns + 1);
	maker_clock(m, start_ns + 2);
	for (uint64_t node = 1; node <= 4; node++)
		maker_graph_node(m, node, 2, 0, pid, start_ns + node);
	for (unsigned round = 0; round < 20; round++) {
		write_work(m, pid, start_ns, round);
		if (round == 7)
			maker_loss(m, loss_reason_ring_full, 3, start_ns, start_ns + 9, "ring");
		maker_flush(m);
	}
	if (crash)
		maker_crash(m);
	else
		maker_close(m, start_ns + 2000000);
}

/* ---- files that grow ---- */

struct grown_file {
	char name[256];
	uint8_t *bytes;
	size_t size, shown;
};

struct growing {
	struct grown_file files[FILES_MAX];
	size_t count, begun;
	const char *folder;
};

static void read_files(struct growing *g, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort);

	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		struct grown_file *file = &g->files[g->count];
		FILE *f = NULL;

		assert_true(g->count < FILES_MAX);
		if (strstr(entries[i]->d_name, ".pit"))
			f = fopen(temp_file(folder, entries[i]->d_name), "r");
		if (f) {
			snprintf(file->name, sizeof(file->name), "%s", entries[i]->d_name);
			fseek(f, 0, SEEK_END);
			file->size = (size_t)ftell(f);
			rewind(f);
			file->bytes = malloc(file->size);
			assert_int_equal(fread(file->bytes, 1, file->size, f), file->size);
			fclose(f);
			g->count++;
		}
		free(entries[i]);
	}
	free(entries);
}

static void grow_file(struct growing *g, struct grown_file *file, size_t bytes)
{
	FILE *f = fopen(temp_file(g->folder, file->name), "a");

	assert_non_null(f);
	bytes = MIN(bytes, file->size - file->shown);
	assert_int_equal(fwrite(file->bytes + file->shown, 1, bytes, f), bytes);
	file->shown += bytes;
	fclose(f);
}

/* Some more bytes of some files; at the last step all. */
static void grow(struct growing *g, unsigned step)
{
	if (step == STEPS) {
		for (size_t i = 0; i < g->count; i++)
			grow_file(g, &g->files[i], SIZE_MAX);
		return;
	}
	for (size_t i = 0; i < 1 + random_below(3); i++) {
		struct grown_file *file = &g->files[random_below(g->count)];

		grow_file(g, file, file->shown ? random_below(5000) : 1200 + random_below(3000));
	}
}

static void free_files(struct growing *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->files[i].bytes);
}

/* ---- equality ---- */

static bool equal_value(const struct trace *a, const struct trace *b, enum table_id table, int c,
			uint64_t row)
{
	enum column_type type = schema_table(table)->columns[c].type;
	bool missing_a, missing_b;
	uint64_t x = trace_value(a, table, c, row, &missing_a);
	uint64_t y = trace_value(b, table, c, row, &missing_b);

	if (missing_a != missing_b)
		return false;
	if (type == COLUMN_TYPE_STRING || type == COLUMN_TYPE_BYTES)
		return strcmp(trace_string(a, (uint32_t)x), trace_string(b, (uint32_t)y)) == 0;
	return x == y;
}

static void check_table(struct trace *a, struct trace *b, enum table_id table, uint64_t columns)
{
	const struct table_schema *schema = schema_table(table);

	load(a, table, columns);
	load(b, table, columns);
	assert_int_equal(trace_rows(a, table), trace_rows(b, table));
	for (size_t p = 0; p <= trace_process_count(a); p++)
		assert_int_equal(trace_first_row(a, table, p), trace_first_row(b, table, p));
	for (int c = 0; c < schema->column_count; c++) {
		if (!(columns >> c & 1))
			continue;
		assert_int_equal(!trace_valid(a, table, c), !trace_valid(b, table, c));
		for (uint64_t row = 0; row < trace_rows(a, table); row++)
			if (!equal_value(a, b, table, c, row))
				fail_msg("%s.%s of row %llu", schema->name, schema->columns[c].name,
					 (unsigned long long)row);
	}
}

static uint64_t all_columns(enum table_id table)
{
	return (UINT64_C(1) << schema_table(table)->column_count) - 1;
}

static void check_processes(const struct trace *a, const struct trace *b)
{
	assert_int_equal(trace_process_count(a), trace_process_count(b));
	for (size_t i = 0; i < trace_process_count(a); i++) {
		const struct trace_process *p = trace_process(a, i), *q = trace_process(b, i);

		assert_true(p->session == q->session && p->pid == q->pid);
		assert_true(p->start_ns == q->start_ns && p->end_ns == q->end_ns);
		assert_true(p->closed == q->closed && p->segments == q->segments);
		assert_true(p->missing_segments == q->missing_segments);
		assert_string_equal(p->command, q->command);
	}
}

static void check_losses(struct trace *a, struct trace *b)
{
	const struct trace_loss *x, *y;
	size_t count, count_b;

	assert_int_equal(trace_losses(a, &x, &count, NULL), 0);
	assert_int_equal(trace_losses(b, &y, &count_b, NULL), 0);
	assert_int_equal(count, count_b);
	for (size_t i = 0; i < count; i++) {
		assert_true(x[i].process == y[i].process && x[i].reason == y[i].reason);
		assert_string_equal(x[i].detail, y[i].detail);
		assert_true(x[i].count == y[i].count && x[i].start_ns == y[i].start_ns);
	}
}

static void check_launches(struct trace *a, struct trace *b)
{
	const uint32_t *x, *y;

	assert_int_equal(trace_launches(a, TABLE_kernel, &x, NULL), 0);
	assert_int_equal(trace_launches(b, TABLE_kernel, &y, NULL), 0);
	assert_memory_equal(x, y, trace_rows(a, TABLE_kernel) * sizeof(*x));
}

/* Some columns of some tables; at some steps all. */
static void check(struct trace *a, struct trace *b, bool everything)
{
	uint64_t start, end, start_b, end_b;

	check_processes(a, b);
	trace_span(a, &start, &end);
	trace_span(b, &start_b, &end_b);
	assert_true(start == start_b && end == end_b);
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		uint64_t all = all_columns((enum table_id)id);

		if (everything || random_below(3) == 0)
			check_table(a, b, (enum table_id)id, (1 + random_below(all)) & all);
		if (everything)
			check_table(a, b, (enum table_id)id, all);
	}
	if (everything)
		check_launches(a, b);
	check_losses(a, b);
}

/* everything: also what is only known of tables that have been loaded. */
static void follow(struct growing *g, unsigned threads, bool everything)
{
	struct trace *t = NULL;
	uint64_t blocks = 0;

	grow_file(g, &g->files[0], 1200);
	t = open_with(g->folder, threads);
	for (unsigned step = 1; step <= STEPS; step++) {
		struct trace *fresh;
		int found;

		grow(g, step);
		found = trace_refresh(t, NULL);
		assert_true(found >= 0);
		blocks += (uint64_t)found;
		fresh = open_with(g->folder, threads);
		check(t, fresh, everything || step % 8 == 0 || step == STEPS);
		trace_free(fresh);
	}
	assert_true(blocks > 100);
	assert_int_equal(trace_refresh(t, NULL), 0);
	trace_free(t);
}

static void make_recording(const char *folder)
{
	write_process(folder, 100, 1000000, false);
	write_process(folder, 101, 2000000, true);
	write_process(folder, 99, 3000000, false);
	maker_record(folder, 100, 50, 900000, 8000000, "./a", 0);
}

static void follows_at_any_cut(void **state)
{
	for (unsigned seed = 1; seed <= 4; seed++) {
		char *whole = temp_folder_make(), *part = temp_folder_make();
		struct growing g = { .folder = part };

		(void)state;
		state_of_random = seed;
		make_recording(whole);
		read_files(&g, whole);
		follow(&g, seed % 2 ? 1 : 2, false);
		free_files(&g);
		temp_folder_remove(whole);
		temp_folder_remove(part);
	}
}

/* A bit is wrong in the payload of some block of the file. */
static void damage(struct grown_file *file)
{
	struct segment s;
	const struct block_ref *block;

	assert_int_equal(segment_open_bytes(file->bytes, file->size, &s, NULL), 0);
	block = &s.blocks[random_below(s.block_count)];
	file->bytes[block->offset + sizeof(block->header) +
		    random_below(block->header.payload_bytes)] ^= 1 << random_below(8);
	segment_release(&s);
}

static void follows_what_is_damaged(void **state)
{
	char *whole = temp_folder_make(), *part = temp_folder_make();
	struct growing g = { .folder = part };

	(void)state;
	state_of_random = 77;
	make_recording(whole);
	read_files(&g, whole);
	for (unsigned i = 0; i < 40; i++)
		damage(&g.files[random_below(g.count)]);
	follow(&g, 2, true);
	free_files(&g);
	temp_folder_remove(whole);
	temp_folder_remove(part);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_at_any_cut),
		cmocka_unit_test(follows_what_is_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
