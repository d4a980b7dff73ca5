/*
 * bench_format: the cost of the file format. Writes rows that resemble a training run and replays
 * of a CUDA graph, reads them back, and prints bytes and nanoseconds of CPU time per row.
 *
 *	bench_format [thousands of rows] [rows between flushes] [zstd level]
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "format/reader.h"
#include "format/writer.h"
#include "unit/format/training_rows.h"

struct rows {
	struct row_kernel *kernels;
	struct row_api_call *calls;
	size_t kernel_count, call_count;
};

static void die(const char *what)
{
	fprintf(stderr, "bench_format: %s\n", what);
	exit(1);
}

static void make_rows(struct rows *r, size_t count, bool graph)
{
	struct training t;

	training_init(&t, 1);
	*r = (struct rows){ .kernels = malloc(count * sizeof(*r->kernels)),
			    .calls = malloc(count * sizeof(*r->calls)),
			    .kernel_count = count };
	if (!r->kernels || !r->calls)
		die("no memory");
	for (size_t i = 0; i < count; i++) {
		struct row_api_call *call = &r->calls[r->call_count];

		if (graph) {
			r->call_count += training_next_node(&t, &r->kernels[i], call);
		} else {
			training_next(&t, &r->kernels[i], call);
			r->call_count++;
		}
	}
}

static uint64_t cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Writes the rows. Returns the CPU time that it took. */
static uint64_t write_rows(const struct rows *r, const char *directory, size_t flush_rows,
			   int level)
{
	struct writer_options options = { .directory = directory,
					  .prefix = "bench",
					  .segment_bytes = 1u << 30,
					  .compression_level = level };
	struct writer *w;
	struct error e = { 0 };
	size_t calls = 0;
	uint64_t start;

	if (writer_open(&options, &w, &e) < 0)
		die(e.text);
	start = cpu_ns();
	for (size_t i = 0; i < r->kernel_count; i++) {
		while (calls < r->call_count &&
		       r->calls[calls].correlation <= r->kernels[i].correlation)
			writer_append(w, TABLE_api_call, &r->calls[calls++]);
		writer_append(w, TABLE_kernel, &r->kernels[i]);
		if ((i + 1) % flush_rows == 0)
			writer_flush(w);
	}
	writer_flush(w);
	start = cpu_ns() - start;
	if (writer_close(&w) < 0)
		die("cannot write");
	return start;
}

struct table_cost {
	uint64_t rows, bytes, values, decode_ns;
};

static void decode_all(const struct segment *s, enum table_id table, struct table_cost *cost)
{
	static uint8_t space[64][BLOCK_ROWS_MAX * 8];
	const struct table_schema *schema = schema_table(table);
	struct column_target targets[64] = { 0 };
	struct decoder *d = decoder_new();

	*cost = (struct table_cost){ 0 };
	for (int c = 0; c < schema->column_count; c++)
		targets[c] = (struct column_target){ .column = c, .values = space[c] };
	for (size_t b = 0; b < s->block_count; b++) {
		const struct block_ref *ref = &s->blocks[b];
		uint64_t start = cpu_ns();

		if (ref->header.table != table)
			continue;
		if (!d || block_decode(d, s, ref, targets, schema->column_count) < 0)
			die("cannot decode");
		cost->decode_ns += cpu_ns() - start;
		cost->rows += ref->header.rows;
		cost->values += (uint64_t)ref->header.rows * schema->column_count;
		cost->bytes += ref->header.payload_bytes + sizeof(ref->header);
	}
	decoder_free(d);
}

static void print_table(const struct table_schema *schema, const struct table_cost *c)
{
	printf("  %-9s %9llu rows %6.2f bytes/row  decode %5.2f ns/value (%.0f M values/s)\n",
	       schema->name, (unsigned long long)c->rows, (double)c->bytes / (double)c->rows,
	       (double)c->decode_ns / (double)c->values,
	       1e3 * (double)c->values / (double)c->decode_ns);
}

static void run(const char *name, bool graph, size_t count, size_t flush_rows, int level)
{
	char directory[] = "/tmp/pitot-bench-XXXXXX", path[64];
	struct table_cost kernel, call;
	struct segment s;
	struct rows rows;
	uint64_t ns;

	make_rows(&rows, count, graph);
	if (!mkdtemp(directory))
		die("cannot make a folder in /tmp");
	snprintf(path, sizeof(path), "%s/bench.0.pit", directory);
	ns = write_rows(&rows, directory, flush_rows, level);
	if (segment_open(path, &s, NULL) < 0)
		die("cannot read");
	decode_all(&s, TABLE_kernel, &kernel);
	decode_all(&s, TABLE_api_call, &call);
	printf("%s: %.2f bytes and %.1f ns of CPU to write a kernel with its launch\n", name,
	       (double)s.size / (double)count, (double)ns / (double)count);
	print_table(schema_table(TABLE_kernel), &kernel);
	print_table(schema_table(TABLE_api_call), &call);
	segment_release(&s);
	unlink(path);
	rmdir(directory);
	free(rows.kernels);
	free(rows.calls);
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) * 1000 : 1000000;
	size_t flush_rows = argc > 2 ? strtoul(argv[2], NULL, 10) : SIZE_MAX;
	int level = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;

	if (count == 0 || flush_rows == 0)
		die("usage: bench_format [thousands of rows] [rows between flushes] [zstd level]");
	run("train", false, count, flush_rows, level);
	run("graph", true, count, flush_rows, level);
	return 0;
}
