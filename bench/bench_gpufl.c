/* layer: gpufl */
/*
 * bench_gpufl: the cost of gpufl's logs: kernels with their launches in nested scopes, like those
 * of a training run, in both forms. Prints the CPU time of the thread that appends the rows, and of
 * the process (compression has its own thread). In the faithful form, a kernel is two records.
 *
 *	bench_gpufl [thousands of kernels]
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "format/writer.h"
#include "gpufl/gpufl_folder.h"
#include "gpufl/gpufl_sink.h"
#include "unit/format/training_rows.h"

static void die(const char *what)
{
	fprintf(stderr, "bench_gpufl: %s\n", what);
	exit(1);
}

#define ROW(sink, table, ...)                                                                      \
	(sink)->ops->append((sink), TABLE_##table, &(struct row_##table){ __VA_ARGS__ })

static void text(struct sink *s, uint32_t id, const char *text)
{
	ROW(s, string, .id = id, .text = { text, (uint32_t)strlen(text) });
}

static void define(struct sink *s)
{
	char name[256];

	text(s, 1, "pitot");
	text(s, 2, "forward");
	text(s, 3, "/usr/bin/python3.12");
	ROW(s, process, .pid = 4242, .executable = 3);
	ROW(s, device, .id = 0, .compute_major = 9, .warp_size = 32,
	    .max_threads_per_multiprocessor = 2048, .registers_per_multiprocessor = 65536,
	    .shared_per_multiprocessor_bytes = 233472, .multiprocessors = 132);
	ROW(s, nvtx_domain, .id = 1, .name = 1);
	for (uint32_t i = 0; i < 300; i++) {
		snprintf(name, sizeof(name),
			 "_ZN2at6native29vectorized_elementwise_kernelILi4E%uEvT_", i);
		text(s, 1000 + i, name);
		ROW(s, kernel_config, .id = i, .name = 1000 + i, .grid_x = i + 1, .grid_y = 1,
		    .grid_z = 1, .block_x = 256, .block_y = 1, .block_z = 1, .registers = 32);
	}
	for (uint8_t level = 0; level < 3; level++)
		ROW(s, nvtx, .kind = nvtx_kind_push, .time_ns = 1, .thread = 0, .domain = 1,
		    .message = 2, .level = level, .missing = 1u << COLUMN_nvtx_range);
}

struct cost {
	uint64_t thread_ns, process_ns, wall_ns, bytes;
};

static void run(const char *name, const char *folder, size_t count, bool compact)
{
	struct gpufl_options o = { .files = { .log_path = folder,
					      .session = "01234567-89ab-4def-8123-456789abcdef",
					      .background = true,
					      .max_bytes = UINT64_C(64) << 30 },
				   .compact = compact };
	struct row_kernel *kernels = calloc(count, sizeof(*kernels));
	struct row_api_call *calls = calloc(count, sizeof(*calls));
	struct training t;
	struct writer_stats stats = { 0 };
	struct error e = { 0 };
	struct sink *s;
	uint64_t thread, all, wall;

	if (!kernels || !calls)
		die("no memory");
	training_init(&t, 1);
	for (size_t i = 0; i < count; i++) {
		training_next(&t, &kernels[i], &calls[i]);
		calls[i].thread = 0;
	}
	if (gpufl_sink_new(&o, &s, &e) < 0)
		die(e.text);
	define(s);
	s->ops->seal(s);
	thread = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	all = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall = clock_monotonic_ns();
	for (size_t i = 0; i < count; i++) {
		s->ops->append(s, TABLE_api_call, &calls[i]);
		s->ops->append(s, TABLE_kernel, &kernels[i]);
	}
	s->ops->seal(s);
	thread = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - thread;
	wall = clock_monotonic_ns() - wall;
	s->ops->stats(s, &stats);
	if (s->ops->close(s) < 0 || stats.lost_rows)
		die("something was lost");
	all = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - all;
	printf("%-8s %4.0f bytes per kernel, %4.0f ns of CPU on the thread (%.2f M records/s), "
	       "%4.0f ns in total, %4.0f ns elapsed\n",
	       name, (double)stats.bytes / (double)count, (double)thread / (double)count,
	       1e3 * (compact ? 1 : 2) * (double)count / (double)thread,
	       (double)all / (double)count, (double)wall / (double)count);
	if (gpufl_folder_remove_session(folder, o.files.session) < 0)
		die("cannot remove the logs");
	free(kernels);
	free(calls);
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) * 1000 : 1000000;
	char folder[] = "/tmp/pitot-bench-XXXXXX";

	if (!count || !mkdtemp(folder))
		die("usage: bench_gpufl [thousands of kernels]");
	run("faithful", folder, count, false);
	run("compact", folder, count, true);
	rmdir(folder);
	return 0;
}
