/* What libpitotread hands over, by its public functions and Arrow's interface alone. */
#include "pitot/read.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "support/temp_folder.h"

#define ADD "_Z3addIfEvPT_i" /* void add<float>(float*, int) */
#define PROCESSES 2
#define KERNELS 5 /* of each process; the last one has no end */

static char *folder;

static void write_process(uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, 1000, "./app");
	uint32_t add, bad;

	maker_device(m, 0, 1000);
	add = maker_config(m, ADD, 4, 128);
	bad = maker_config(m, "bad\xff name", 8, 64);
	for (uint32_t i = 0; i < KERNELS; i++) {
		struct row_kernel row = { .start_ns = 2000 + 100 * i,
					  .end_ns = 2010 + 101 * i,
					  .config = i % 2 ? bad : add,
					  .correlation = i + 1,
					  .context = 1,
					  .stream = 7 + i % 2 };

		ROW_MISSING_IF(&row, kernel, end_ns, i == KERNELS - 1);
		ROW_MISSING_IF(&row, kernel, channel, i != 1);
		row.channel = 9;
		ROW_MISSING_IF(&row, kernel, channel_type, i == 2);
		row.channel_type = i == 3 ? 200 : channel_type_compute;
		writer_append(m->writer, TABLE_kernel, &row);
	}
	maker_close(m, 9000);
}

static int setup(void **state)
{
	(void)state;
	folder = temp_folder_make();
	for (uint32_t i = 0; i < PROCESSES; i++)
		write_process(100 + i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	temp_folder_remove(folder);
	return 0;
}

static struct pitot_recording *open_folder(void)
{
	struct pitot_read_error error;
	struct pitot_recording *r = NULL;

	if (pitot_read_open(folder, &r, &error) < 0)
		fail_msg("%s", error.text);
	return r;
}

struct table {
	struct ArrowSchema schema;
	struct ArrowArray array;
};

static struct table read_table(struct pitot_recording *r, struct pitot_read_query query)
{
	struct ArrowArrayStream stream;
	struct pitot_read_error error;
	struct ArrowArray end;
	struct table t;

	query.size = sizeof(query);
	if (pitot_read_table(r, &query, &stream, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(stream.get_schema(&stream, &t.schema), 0);
	assert_int_equal(stream.get_schema(&stream, &t.schema), EINVAL);
	assert_int_equal(stream.get_next(&stream, &t.array), 0);
	assert_int_equal(stream.get_next(&stream, &end), 0);
	assert_null(end.release);
	stream.release(&stream);
	assert_null(stream.release);
	assert_int_equal(t.schema.n_children, t.array.n_children);
	for (int64_t i = 0; i < t.array.n_children; i++)
		assert_int_equal(t.array.children[i]->n_buffers, 2); /* numbers and lists */
	return t;
}

static void release(struct table *t)
{
	t->schema.release(&t->schema);
	t->array.release(&t->array);
	assert_null(t->array.release);
}

static size_t find(const struct table *t, const char *name)
{
	for (int64_t i = 0; i < t->schema.n_children; i++)
		if (!strcmp(t->schema.children[i]->name, name))
			return (size_t)i;
	fail_msg("no column %s", name);
	return 0;
}

static bool has(const struct ArrowArray *a, size_t row)
{
	const uint8_t *bits = a->buffers[0];

	return !bits || bits[row / 8] >> row % 8 & 1;
}

static uint64_t number(const struct table *t, const char *name, size_t row)
{
	size_t column = find(t, name);
	const struct ArrowArray *a = t->array.children[column];

	assert_true(has(a, row) && row < (size_t)a->length && a->offset == 0);
	switch (*t->schema.children[column]->format) {
	case 'C':
		return ((const uint8_t *)a->buffers[1])[row];
	case 'I':
	case 'i':
		return ((const uint32_t *)a->buffers[1])[row];
	case 'L':
		return ((const uint64_t *)a->buffers[1])[row];
	}
	fail_msg("column %s has format %s", name, t->schema.children[column]->format);
	return 0;
}

/* In one of a few buffers. */
static const char *text(const struct table *t, const char *name, size_t row)
{
	static char texts[4][64];
	static unsigned next;
	const struct ArrowArray *d = t->array.children[find(t, name)]->dictionary;
	uint64_t i = number(t, name, row);
	const int32_t *offsets = d->buffers[1];
	char *out = texts[next++ % 4];

	assert_true(i < (uint64_t)d->length);
	snprintf(out, sizeof(texts[0]), "%.*s", (int)(offsets[i + 1] - offsets[i]),
		 (const char *)d->buffers[2] + offsets[i]);
	return out;
}

static void a_table_has_all_its_columns(void **state)
{
	struct pitot_recording *r = open_folder();
	struct table t = read_table(r, (struct pitot_read_query){ .table = "kernel" });
	const struct ArrowArray *channels = t.array.children[find(&t, "channel")],
				*durations = t.array.children[find(&t, "duration_ns")];

	(void)state;
	pitot_read_close(r); /* the arrays stay */
	assert_int_equal(t.array.length, PROCESSES * KERNELS);
	for (size_t i = 0; i < PROCESSES * KERNELS; i++) {
		size_t k = i % KERNELS;

		assert_int_equal(number(&t, "pid", i), 100 + i / KERNELS);
		assert_int_equal(number(&t, "start_ns", i), 2000 + 100 * k);
		assert_int_equal(number(&t, "stream", i), 7 + k % 2);
		assert_int_equal(has(channels, i), k == 1);
		assert_int_equal(has(durations, i), k != KERNELS - 1);
		if (has(durations, i))
			assert_int_equal(number(&t, "duration_ns", i), 10 + k);
		if (k != 2)
			assert_string_equal(text(&t, "channel_type", i),
					    k == 3 ? "200" : "compute");
		assert_string_equal(text(&t, "config", i), k % 2 ? "bad? name" : "add<float>");
		assert_int_equal(number(&t, "config.row", i), i / KERNELS * 2 + k % 2);
	}
	assert_int_equal(channels->null_count, PROCESSES * (KERNELS - 1));
	assert_int_equal(durations->null_count, PROCESSES);
	assert_int_equal(t.array.children[find(&t, "config")]->dictionary->length, 2);
	release(&t);
}

static void columns_and_rows_are_chosen(void **state)
{
	static const char *const columns[] = { "full_name", "mangled_name", "name",    "grid_x",
					       "pid",       "end",          "channel", NULL };
	const char *conditions[] = { "stream=7", "name=*add*", NULL };
	struct pitot_recording *r = open_folder();
	struct table t = read_table(r, (struct pitot_read_query){ .table = "kernel",
								  .columns = columns,
								  .conditions = conditions,
								  .since_ns = 1200,
								  .until_ns = 1400 });

	(void)state;
	assert_int_equal(t.schema.n_children, ARRAY_SIZE(columns) - 1);
	assert_int_equal(t.array.length, PROCESSES); /* the third kernel of each */
	for (size_t i = 0; i < PROCESSES; i++) {
		assert_string_equal(text(&t, "full_name", i), "void add<float>(float*, int)");
		assert_string_equal(text(&t, "mangled_name", i), ADD);
		assert_string_equal(text(&t, "name", i), "add<float>");
		assert_int_equal(number(&t, "grid_x", i), 4);
		assert_int_equal(number(&t, "pid", i), 100 + i);
		assert_int_equal(number(&t, "end", i), 2212);
		assert_false(has(t.array.children[find(&t, "channel")], i));
	}
	release(&t);
	conditions[0] = "stream=8";
	conditions[1] = NULL;
	t = read_table(r, (struct pitot_read_query){ .table = "kernel",
						     .columns = columns,
						     .conditions = conditions });
	assert_int_equal(t.array.length, PROCESSES * (KERNELS / 2));
	assert_string_equal(text(&t, "full_name", 0), "bad\xef\xbf\xbd name");
	assert_string_equal(text(&t, "mangled_name", 1), "bad\xef\xbf\xbd name");
	release(&t);
	pitot_read_close(r);
}

/* Numbers of all rows are the trace's own. */
static void numbers_are_not_copied(void **state)
{
	static const char *const columns[] = { "start_ns", "stream", "name", NULL };
	struct pitot_read_query query = { .table = "kernel", .columns = columns };
	struct pitot_recording *r = open_folder();
	struct table a = read_table(r, query), b = read_table(r, query);

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(a.array.children[i]->buffers[1] == b.array.children[i]->buffers[1],
				 i < 2);
	release(&b);
	pitot_read_close(r);
	assert_int_equal(number(&a, "start_ns", 1), 2100);
	release(&a);
}

static void every_table_can_be_read(void **state)
{
	struct pitot_recording *r = open_folder();
	struct pitot_read_info info;
	size_t i;

	(void)state;
	for (i = 0; pitot_read_info(r, i, &info, NULL) == 1; i++) {
		struct table t = read_table(r, (struct pitot_read_query){ .table = info.name });

		assert_int_equal(t.array.length, info.rows);
		release(&t);
	}
	assert_int_equal(i, TABLE_MAX);
	pitot_read_close(r);
}

/* What the metadata of a field says: int32 count, then lengths and bytes of keys and values. */
static bool says(const struct ArrowSchema *s, const char *key, const char *value)
{
	const char *at = s->metadata;
	int32_t count, length;
	bool found = false;

	memcpy(&count, at, 4);
	at += 4;
	for (int32_t i = 0; i < 2 * count; i++) {
		memcpy(&length, at, 4);
		if (i % 2 && found)
			return (size_t)length == strlen(value) &&
			       !memcmp(at + 4, value, (size_t)length);
		found = (size_t)length == strlen(key) && !memcmp(at + 4, key, (size_t)length);
		at += 4 + length;
	}
	return false;
}

static void fields_say_what_they_mean(void **state)
{
	struct pitot_recording *r = open_folder();
	struct pitot_read_query query = { .size = sizeof(query), .table = "kernel" };
	struct table t;

	(void)state;
	assert_int_equal(pitot_read_schema(r, &query, &t.schema, NULL), 0);
	assert_true(says(&t.schema, "table", "kernel"));
	assert_true(says(t.schema.children[find(&t, "start_ns")], "unit", "ns"));
	assert_true(says(t.schema.children[find(&t, "start_ns")], "meaning", "start on the GPU"));
	assert_true(says(t.schema.children[find(&t, "start_ns")], "clock", "CLOCK_MONOTONIC"));
	assert_false(says(t.schema.children[find(&t, "stream")], "unit", ""));
	assert_true(says(t.schema.children[find(&t, "config.row")], "refers_to", "kernel_config"));
	t.schema.release(&t.schema);
	pitot_read_close(r);
}

static void check_error(struct pitot_recording *r, struct pitot_read_query query,
			const char *expected)
{
	struct ArrowArrayStream stream;
	struct pitot_read_error error;

	query.size = sizeof(query);
	assert_int_equal(pitot_read_table(r, &query, &stream, &error), PITOT_READ_USAGE);
	assert_int_equal(error.code, PITOT_READ_USAGE);
	assert_string_equal(error.text, expected);
}

static void mistakes_are_answered_with_the_nearest_name(void **state)
{
	static const char *const columns[] = { "sream", NULL }, *const conditions[] = { "stream~7",
											NULL };
	struct pitot_recording *r = open_folder(), *none;
	struct pitot_read_export export = { .size = sizeof(export) };
	struct pitot_read_report report = PITOT_READ_REPORT_INIT;
	struct pitot_read_error error;
	uint64_t events;
	char *json;

	(void)state;
	check_error(r, (struct pitot_read_query){ .table = "kernels" },
		    "unknown table 'kernels', did you mean 'kernel'?");
	check_error(r, (struct pitot_read_query){ .table = "kernel", .columns = columns },
		    "table kernel has no column 'sream', did you mean 'stream'?");
	check_error(r, (struct pitot_read_query){ .table = "kernel", .conditions = conditions },
		    "'stream~7' is no condition: write COLUMN=VALUE (or != < <= > >=)");
	check_error(r, (struct pitot_read_query){ .table = "string", .since_ns = 1 },
		    "table string has no times to select by");
	report.by = "kernels";
	assert_int_equal(pitot_read_report(r, &report, &json, &error), PITOT_READ_USAGE);
	assert_string_equal(error.text,
			    "kernels cannot be grouped by 'kernels', did you mean 'kernel'?");
	report.by = NULL;
	report.pid = 7;
	assert_int_equal(pitot_read_report(r, &report, &json, &error), PITOT_READ_USAGE);
	assert_string_equal(error.text, "no process 7 in this recording; its processes: 100, 101");
	assert_int_equal(pitot_read_export(r, "x.txt", &export, &events, &error), PITOT_READ_USAGE);
	assert_non_null(strstr(error.text, "no format matches 'x.txt'"));
	assert_int_equal(pitot_read_open("/nothing/here", &none, &error), -ENOENT);
	assert_string_equal(error.text,
			    "cannot open recording '/nothing/here': No such file or directory");
	pitot_read_close(r);
}

static void the_report_and_exports_are_written(void **state)
{
	struct pitot_recording *r = open_folder();
	struct pitot_read_report report = PITOT_READ_REPORT_INIT;
	struct pitot_read_export export = { .size = sizeof(export) };
	char path[512];
	struct pitot_read_error error;
	uint64_t events = 0;
	char *json = NULL;

	(void)state;
	snprintf(path, sizeof(path), "%s.json", folder);
	assert_int_equal(pitot_read_report(r, &report, &json, NULL), 0);
	assert_non_null(strstr(json, "\"verdict\": {"));
	free(json);
	assert_int_equal(pitot_read_export(r, path, &export, &events, NULL), 0);
	assert_true(events >= PROCESSES * (KERNELS - 1));
	assert_int_equal(pitot_read_export(r, path, &export, &events, &error), -EEXIST);
	unlink(path);
	export.kernel = "no such kernel";
	assert_int_equal(pitot_read_export(r, path, &export, &events, &error), -ENODATA);
	report.since_ns = export.since_ns = 20;
	report.until_ns = export.until_ns = 10;
	assert_int_equal(pitot_read_report(r, &report, &json, &error), PITOT_READ_USAGE);
	assert_int_equal(pitot_read_export(r, path, &export, &events, &error), PITOT_READ_USAGE);
	assert_string_equal(error.text, "since must be before until");
	pitot_read_close(r);
}

static void *read_often(void *recording)
{
	for (int i = 0; i < 20; i++) {
		struct table t =
			read_table(recording, (struct pitot_read_query){ .table = "kernel" });

		assert_int_equal(number(&t, "start_ns", KERNELS + 1), 2100);
		release(&t);
	}
	return NULL;
}

static void threads_share_a_recording(void **state)
{
	struct pitot_recording *r = open_folder();
	pthread_t threads[3];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_often, r), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	pitot_read_close(r);
}

static const char *text_of(const struct ArrowArray *dictionary, int64_t index)
{
	static char text[128];
	const int32_t *offsets = dictionary->buffers[1];

	assert_true(index >= 0 && index < dictionary->length);
	snprintf(text, sizeof(text), "%.*s", offsets[index + 1] - offsets[index],
		 (const char *)dictionary->buffers[2] + offsets[index]);
	return text;
}

/*
 * Kernel i is launched by call i, the first in a scope, the others with a stack; the last row has
 * neither. Nothing is closed.
 */
static struct maker *write_launches(const char *directory)
{
	struct maker *m = maker_begin(directory, 100, 1000, "./app");
	uint32_t add = maker_config(m, ADD, 4, 128), node = maker_native(m, 0, 0x1000);

	node = maker_python(m, node, "step", "/src/train.py", 10);
	maker_scope(m, nvtx_kind_push, 100, "bad\xff", 0, 1100);
	for (uint32_t i = 1; i <= 3; i++) {
		if (i == 2) {
			maker_scope(m, nvtx_kind_pop, 100, NULL, 0, 1250);
			m->stack = maker_stack(m, node, 2, stack_end_complete);
		}
		maker_call(m, MAKER_LAUNCH, 100, 1100 + 100 * i, 1150 + 100 * i, i);
		maker_kernel(m, add, 7, 2000 + 100 * i, 2050 + 100 * i, i);
	}
	maker_kernel(m, add, 7, 3000, 3100, 99);
	maker_flush(m);
	return m;
}

static void scopes_and_stacks_are_columns(void **state)
{
	static const char *const columns[] = { "scope", "stack.frames", "stream", NULL };
	static const char *const in_scope[] = { "scope=bad*", NULL }, *const in_none[] = {
		"scope=x*", NULL
	};
	struct pitot_read_query query = { .table = "kernel", .columns = columns };
	char *own = temp_folder_make();
	struct maker *m = write_launches(own);
	struct pitot_recording *r, *later;
	struct pitot_read_error error;
	const struct ArrowArray *list;
	struct table t;

	(void)state;
	assert_int_equal(pitot_read_open(own, &r, &error), 0);
	t = read_table(r, query);
	assert_int_equal(t.array.length, 4);
	assert_int_equal(t.array.children[0]->null_count, 3);
	assert_string_equal(text_of(t.array.children[0]->dictionary,
				    ((const int32_t *)t.array.children[0]->buffers[1])[0]),
			    "bad\xef\xbf\xbd");
	list = t.array.children[1];
	assert_string_equal(t.schema.children[1]->format, "+l");
	assert_memory_equal(list->buffers[1], ((const int32_t[]){ 0, 0, 2, 4, 4 }), 20);
	assert_int_equal(list->null_count, 2);
	assert_int_equal(*(const uint8_t *)list->buffers[0], 6);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(text_of(list->children[0]->dictionary,
					    ((const int32_t *)list->children[0]->buffers[1])[i]),
				    i % 2 ? "step (train.py:10)" : "[unknown]");
	release(&t);
	query.conditions = in_scope;
	t = read_table(r, query);
	assert_int_equal(t.array.length, 1);
	release(&t);
	query.conditions = in_none;
	t = read_table(r, query);
	assert_int_equal(t.array.length, 0);
	release(&t);
	query.conditions = NULL;
	assert_int_equal(pitot_read_follow(r, "device", &later, &error), PITOT_READ_USAGE);
	assert_int_equal(pitot_read_follow(r, NULL, &later, &error), PITOT_READ_USAGE);
	maker_kernel(m, 1, 8, 2500, 2600, 2);
	maker_close(m, 9000);
	assert_int_equal(pitot_read_follow(r, "kernel", &later, &error), 0);
	pitot_read_close(r);
	t = read_table(later, query);
	assert_int_equal(t.array.length, 1);
	assert_int_equal(*(const uint32_t *)t.array.children[2]->buffers[1], 8);
	assert_int_equal(t.array.children[1]->children[0]->length, 2);
	release(&t);
	pitot_read_close(later);
	temp_folder_remove(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_has_all_its_columns),
		cmocka_unit_test(columns_and_rows_are_chosen),
		cmocka_unit_test(numbers_are_not_copied),
		cmocka_unit_test(every_table_can_be_read),
		cmocka_unit_test(fields_say_what_they_mean),
		cmocka_unit_test(mistakes_are_answered_with_the_nearest_name),
		cmocka_unit_test(the_report_and_exports_are_written),
		cmocka_unit_test(threads_share_a_recording),
		cmocka_unit_test(scopes_and_stacks_are_columns),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
