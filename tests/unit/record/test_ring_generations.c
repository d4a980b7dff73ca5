/* link: test_support */
/*
 * A program that makes new texts, kernels and stacks for a day of its clock, into a ring of 256 K,
 * while the ring is dumped at random moments: each segment of each dump has the definitions of all
 * that it refers to, and memory does not grow.
 *
 * The length is for every day; PITOT_GENERATIONS=1000000 and PITOT_SNAPSHOTS=10000 are the full one
 * (bench/stress.py --only generations). Memory is compared only in builds without sanitizers, which
 * have memory of their own.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "format/reader.h"
#include "record/segment_server.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)
#define RING ((uint64_t)256 << 10)
#define PARTS 8u
#define FLUSH_ROWS 500u
#define FUNCTION 7u
#define ADDRESS UINT64_C(0x100000)
#define NODES 2u /* of a stack: its own, and one that many stacks have */
#define OUTER_NODES 64u
#define GROWTH_KIB 2048

static struct {
	uint64_t texts, snapshots; /* how many are made */
	struct segment_server server;
	char launcher[LAUNCHER_TEXT_MAX + 1];
	char *folder;
	_Atomic uint64_t made; /* texts, up to now */
	atomic_bool is_enough; /* all snapshots were made */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int requested; /* folder of a dump; -1: none */
	int written; /* result of the last one */
} t = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.requested = -1,
	.server = SEGMENT_SERVER_INIT };

static uint64_t number_of(const char *variable, uint64_t usual)
{
	const char *text = getenv(variable);

	return text ? strtoull(text, NULL, 10) : usual;
}

/* --- the program --- */

struct program {
	struct writer *w;
	uint32_t epoch;
	uint32_t *stack_epoch; /* by text: when its stack was written last */
	uint32_t outer_epoch[OUTER_NODES];
	uint64_t now_ns;
	uint64_t random;
};

static uint64_t next_random(struct program *p)
{
	p->random = hash_u64(p->random + 1);
	return p->random;
}

static void write_node(struct program *p, uint32_t id, uint32_t parent, uint64_t address)
{
	struct row_stack_node row = { .missing = schema_missing(TABLE_stack_node),
				      .id = id,
				      .parent = parent,
				      .kind = frame_kind_native,
				      .address = address };

	writer_append(p->w, TABLE_stack_node, &row);
}

/* As the recorder does: what was written in an earlier epoch is written again. */
static uint32_t stack_of(struct program *p, uint32_t text)
{
	uint32_t outer = text % OUTER_NODES, node = OUTER_NODES + 1 + text;
	struct row_stack row = { .id = text + 1, .node = node, .depth = NODES };

	if (p->stack_epoch[text] == p->epoch)
		return text + 1;
	if (p->outer_epoch[outer] != p->epoch)
		write_node(p, outer + 1, 0, outer + 1);
	write_node(p, node, outer + 1, ADDRESS + text);
	writer_append(p->w, TABLE_stack, &row);
	p->outer_epoch[outer] = p->stack_epoch[text] = p->epoch;
	return text + 1;
}

/* A mark with its text, and a call with its stack and its kernel, all of that number. */
static void use(struct program *p, uint32_t text)
{
	struct row_nvtx mark = { .missing = schema_missing(TABLE_nvtx),
				 .time_ns = p->now_ns,
				 .kind = nvtx_kind_mark,
				 .thread = 1 };
	struct row_api_call call = { .missing = schema_missing(TABLE_api_call),
				     .start_ns = p->now_ns,
				     .end_ns = p->now_ns + 1,
				     .function = FUNCTION,
				     .thread = 1,
				     .correlation = text };
	struct row_kernel kernel = { .missing = schema_missing(TABLE_kernel),
				     .start_ns = p->now_ns,
				     .end_ns = p->now_ns + 1,
				     .correlation = text };
	struct row_kernel_config config = { .missing = schema_missing(TABLE_kernel_config) };
	char name[64];
	int length = snprintf(name, sizeof(name), "request %u", (unsigned)text);

	mark.message = writer_string(p->w, name, (size_t)length);
	ROW_PRESENT(&mark, nvtx, message);
	mark.payload = text;
	mark.payload_kind = nvtx_payload_u64;
	ROW_PRESENT(&mark, nvtx, payload);
	ROW_PRESENT(&mark, nvtx, payload_kind);
	writer_append(p->w, TABLE_nvtx, &mark);
	call.stack = stack_of(p, text);
	ROW_PRESENT(&call, api_call, stack);
	writer_append(p->w, TABLE_api_call, &call);
	config.name = mark.message;
	kernel.config = writer_kernel_config(p->w, &config);
	ROW_PRESENT(&kernel, kernel, start_ns);
	ROW_PRESENT(&kernel, kernel, end_ns);
	writer_append(p->w, TABLE_kernel, &kernel);
}

static void *run_program(void *context)
{
	struct row_api_function function = { .id = FUNCTION, .kind = api_kind_launch };
	struct writer_options options = { .directory = t.folder, /* which it does not find */
					  .launcher = t.launcher,
					  .pid = 4711,
					  .prefix = "4711",
					  .segment_bytes = RING / PARTS };
	struct program *p = context;

	if (!launcher_folder(t.launcher, &options.folder) || writer_open(&options, &p->w, NULL) < 0)
		abort();
	function.name = writer_string(p->w, "cuLaunchKernel", 14);
	/* It goes on with texts that it has had until the last snapshot was made beside it. */
	for (uint64_t i = 0; i < t.texts || !atomic_load(&t.is_enough); i++) {
		p->epoch = writer_epoch(p->w);
		writer_api_function(p->w, FUNCTION, &function);
		p->now_ns += DAY_NS / t.texts;
		use(p, (uint32_t)(i % t.texts));
		if (next_random(p) & 1)
			use(p, (uint32_t)(next_random(p) % MIN(i + 1, t.texts)));
		if (i % FLUSH_ROWS == FLUSH_ROWS - 1 && writer_flush(p->w) < 0)
			abort();
		atomic_store_explicit(&t.made, i + 1, memory_order_relaxed);
	}
	if (writer_close(&p->w) < 0)
		abort();
	return NULL;
}

/* --- `pitot record` --- */

static void serve_dump(void)
{
	static const struct segment_interval all;

	pthread_mutex_lock(&t.lock);
	if (t.requested >= 0) {
		t.written = segment_ring_write(&t.server.ring, t.requested, &all);
		t.requested = -1;
		pthread_cond_signal(&t.changed);
	}
	pthread_mutex_unlock(&t.lock);
}

static void *run_server(void *context)
{
	atomic_bool *stop = context;

	while (!atomic_load(stop)) {
		struct pollfd polled = { .fd = t.server.fd, .events = POLLIN };

		poll(&polled, 1, 1);
		segment_server_answer(&t.server);
		segment_ring_trim(&t.server.ring);
		serve_dump();
	}
	return NULL;
}

static int dump_into(const char *path)
{
	int folder = folder_open(path, FOLDER_OWN), written;

	assert_true(folder >= 0);
	pthread_mutex_lock(&t.lock);
	t.requested = folder;
	while (t.requested >= 0)
		pthread_cond_wait(&t.changed, &t.lock);
	written = t.written;
	pthread_mutex_unlock(&t.lock);
	close(folder);
	return written;
}

/* --- what a segment says --- */

struct defined {
	struct map ids; /* table << 32 | id -> number of its text or address, or 0 */
	uint64_t rows; /* that refer to some of it */
};

static uint64_t key_of(uint32_t table, uint64_t id)
{
	return (uint64_t)table << 32 | id;
}

static bool is_defined(const struct defined *d, uint32_t table, uint64_t id, uint64_t *what)
{
	return map_get(&d->ids, key_of(table, id), what);
}

/* The columns of integers of a block, as rows of 64-bit values. */
struct columns {
	const struct table_schema *table;
	uint32_t rows;
	uint64_t *values[64];
	uint8_t *valid[64];
};

static void read_columns(struct decoder *decoder, const struct segment *s,
			 const struct block_ref *b, struct columns *out)
{
	const struct table_schema *table = schema_table(b->header.table);

	*out = (struct columns){ .table = table, .rows = b->header.rows };
	for (int i = 0; i < table->column_count; i++) {
		uint8_t width = table->columns[i].width;
		uint8_t *narrow = calloc(out->rows + 1u, 8);
		struct column_target target = { .column = i, .values = narrow };

		out->values[i] = calloc(out->rows + 1u, 8);
		out->valid[i] = calloc(out->rows + 1u, 1);
		target.valid = out->valid[i];
		if (width && block_decode(decoder, s, b, &target, 1) < 0)
			fail_msg("a block of '%s' is damaged", table->name);
		for (uint32_t row = 0; row < out->rows && width; row++)
			memcpy(&out->values[i][row], narrow + (size_t)row * width, width);
		free(narrow);
	}
}

static void release_columns(struct columns *c)
{
	for (int i = 0; i < c->table->column_count; i++) {
		free(c->values[i]);
		free(c->valid[i]);
	}
}

static void define_texts(struct decoder *decoder, const struct segment *s,
			 const struct block_ref *b, struct defined *d)
{
	uint32_t *ids = calloc(b->header.rows, sizeof(*ids));
	struct bytes_column texts = { NULL, NULL };
	struct column_target targets[] = { { .column = COLUMN_string_id, .values = ids },
					   { .column = COLUMN_string_text, .values = &texts } };

	assert_int_equal(block_decode(decoder, s, b, targets, 2), 0);
	for (uint32_t i = 0; i < b->header.rows; i++) {
		char text[64] = "";
		size_t length = texts.offsets[i + 1] - texts.offsets[i];
		unsigned number = UINT32_MAX;

		memcpy(text, texts.data + texts.offsets[i], MIN(length, sizeof(text) - 1));
		(void)!sscanf(text, "request %u", &number);
		assert_int_equal(map_put(&d->ids, key_of(TABLE_string, ids[i]), number), 0);
	}
	free(ids);
	free(texts.data);
	free(texts.offsets);
}

static void define(struct decoder *decoder, const struct segment *s, const struct block_ref *b,
		   struct defined *d)
{
	struct columns c;

	if (b->header.table == TABLE_string) {
		define_texts(decoder, s, b, d);
		return;
	}
	if (strcmp(schema_table(b->header.table)->columns[0].name, "id") != 0)
		return;
	read_columns(decoder, s, b, &c);
	for (uint32_t row = 0; row < c.rows; row++) {
		uint64_t what = 0;

		if (b->header.table == TABLE_stack_node)
			what = c.values[COLUMN_stack_node_address][row];
		else if (b->header.table == TABLE_stack)
			what = c.values[COLUMN_stack_node][row];
		else if (b->header.table == TABLE_kernel_config)
			what = c.values[COLUMN_kernel_config_name][row];
		assert_int_equal(map_put(&d->ids, key_of(b->header.table, c.values[0][row]), what),
				 0);
	}
	release_columns(&c);
}

static void check_reference(const struct defined *d, const struct columns *c, int column,
			    uint32_t row)
{
	const struct column_schema *schema = &c->table->columns[column];
	uint64_t id = c->values[column][row], what;
	uint32_t table = schema->type == COLUMN_TYPE_STRING ? TABLE_string : schema->ref;

	if (!c->valid[column][row] || (table == TABLE_string && !id))
		return;
	if (!is_defined(d, table, id, &what))
		fail_msg("%s.%s refers to %s %u, which its segment does not define", c->table->name,
			 schema->name, schema_table(table)->name, (unsigned)id);
}

/* Not only is there some definition, but it is that of the row. */
static void check_meaning(struct defined *d, const struct columns *c, uint32_t row)
{
	uint64_t what = 0, node = 0, address = 0;

	switch (c->table->id) {
	case TABLE_nvtx:
		assert_true(
			is_defined(d, TABLE_string, c->values[COLUMN_nvtx_message][row], &what));
		assert_int_equal(what, c->values[COLUMN_nvtx_payload][row]);
		break;
	case TABLE_api_call:
		assert_true(
			is_defined(d, TABLE_stack, c->values[COLUMN_api_call_stack][row], &node));
		assert_true(is_defined(d, TABLE_stack_node, node, &address));
		assert_int_equal(address, ADDRESS + c->values[COLUMN_api_call_correlation][row]);
		break;
	case TABLE_kernel:
		assert_true(is_defined(d, TABLE_kernel_config, c->values[COLUMN_kernel_config][row],
				       &what));
		assert_true(is_defined(d, TABLE_string, what, &address));
		assert_int_equal(address, c->values[COLUMN_kernel_correlation][row]);
		break;
	case TABLE_stack_node:
		what = c->values[COLUMN_stack_node_parent][row];
		assert_true(!what || is_defined(d, TABLE_stack_node, what, &address));
		return;
	default:
		return;
	}
	d->rows++;
}

static void check_block(struct decoder *decoder, const struct segment *s, const struct block_ref *b,
			struct defined *d)
{
	const struct table_schema *table = schema_table(b->header.table);
	struct columns c;

	read_columns(decoder, s, b, &c);
	for (uint32_t row = 0; row < c.rows; row++) {
		for (int i = 0; i < table->column_count; i++)
			if ((table->texts | table->refs) >> i & 1)
				check_reference(d, &c, i, row);
		check_meaning(d, &c, row);
	}
	release_columns(&c);
}

static uint64_t check_segment(struct decoder *decoder, const char *path, uint32_t *number)
{
	struct defined d = { .ids = MAP_INIT };
	struct error e = { 0 };
	struct segment s;

	if (segment_open(path, &s, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(s.damaged_blocks, 0);
	*number = s.header.number;
	for (size_t i = 0; i < s.block_count; i++)
		define(decoder, &s, &s.blocks[i], &d);
	for (size_t i = 0; i < s.block_count; i++)
		check_block(decoder, &s, &s.blocks[i], &d);
	segment_release(&s);
	map_release(&d.ids);
	return d.rows;
}

/* Returns the number of rows that were checked. Segments follow one another. */
static uint64_t check_dump(struct decoder *decoder, const char *path, int written)
{
	int folder = folder_open(path, FOLDER_OWN), count = 0;
	uint32_t first = UINT32_MAX, last = 0;
	DIR *list = folder_list(folder);
	uint64_t rows = 0;
	const char *name;

	assert_non_null(list);
	while ((name = folder_next(list))) {
		char file[4200];
		uint32_t number;

		snprintf(file, sizeof(file), "%s/%s", path, name);
		rows += check_segment(decoder, file, &number);
		first = MIN(first, number);
		last = MAX(last, number);
		count++;
	}
	assert_int_equal(count, written);
	assert_true(!count || last - first + 1 == (uint32_t)count);
	closedir(list);
	close(folder);
	return rows;
}

static uint64_t resident_kib(void)
{
	struct strbuf text = STRBUF_INIT;
	unsigned long pages = 0;

	assert_int_equal(io_read_text("/proc/self/statm", 256, &text), 0);
	(void)!sscanf(strbuf_text(&text), "%*u %lu", &pages);
	strbuf_release(&text);
	return pages * 4;
}

static void a_day_of_new_texts(void **state)
{
	struct program program = { .random = 1 };
	struct decoder *decoder = decoder_new();
	uint64_t rows = 0, snapshots = 0, next = 0, random = 7, middle_kib = 0, end_kib = 0;
	atomic_bool stop = false;
	pthread_t writer, server;
	struct strbuf text = STRBUF_INIT;

	(void)state;
	t.folder = temp_folder_make();
	t.texts = number_of("PITOT_GENERATIONS", 20000);
	t.snapshots = number_of("PITOT_SNAPSHOTS", 40);
	program.stack_epoch = calloc(t.texts, sizeof(*program.stack_epoch));
	assert_int_equal(segment_server_open(&t.server, t.folder, &(struct folder_id){ 0 }), 0);
	t.server.ring.bytes = RING;
	segment_server_text(&t.server, false, &text);
	snprintf(t.launcher, sizeof(t.launcher), "%s", strbuf_text(&text));
	assert_int_equal(pthread_create(&server, NULL, run_server, &stop), 0);
	assert_int_equal(pthread_create(&writer, NULL, run_program, &program), 0);
	while (snapshots < t.snapshots) {
		char *to;
		int written;

		while (atomic_load(&t.made) < next)
			sched_yield();
		random = hash_u64(random);
		next = atomic_load(&t.made) + random % (2 * t.texts / t.snapshots + 1);
		to = temp_folder_make();
		written = dump_into(to);
		assert_true(written >= 0);
		rows += check_dump(decoder, to, written);
		temp_folder_remove(to);
		snapshots++;
		if (snapshots == t.snapshots / 3)
			middle_kib = resident_kib();
	}
	end_kib = resident_kib();
	atomic_store(&t.is_enough, true);
	assert_int_equal(pthread_join(writer, NULL), 0);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(server, NULL), 0);
	print_message("%llu texts, %llu snapshots, %llu rows checked, %llu segments dropped; "
		      "%llu KiB after a third of the snapshots, %llu at the end\n",
		      (unsigned long long)t.texts, (unsigned long long)snapshots,
		      (unsigned long long)rows, (unsigned long long)t.server.ring.dropped,
		      (unsigned long long)middle_kib, (unsigned long long)end_kib);
	assert_true(t.server.ring.dropped > 0);
	assert_true(atomic_load(&t.made) >= t.texts);
	assert_true(rows > t.snapshots * 1000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(end_kib < middle_kib + GROWTH_KIB);
#endif
	segment_server_close(&t.server);
	strbuf_release(&text);
	decoder_free(decoder);
	free(program.stack_epoch);
	temp_folder_remove(t.folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_day_of_new_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
