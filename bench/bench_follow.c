/* layer: trace */
/*
 * bench_follow: what it takes to follow a growing recording. Writes kernels with their calls, in a twentieth of them at a
 * time; after each, a trace that follows is refreshed and has its tables loaded, and another one is opened and has them
 * loaded from the beginning. Times are of the clock on the wall, with all that was asked for loaded.
 *
 *	bench_follow [thousands of kernels]
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "format/writer.h"
#include "trace/trace.h"
#include "unit/format/training_rows.h"

#define STEPS 20
#define FLUSH_ROWS 25000 /* a quarter of a second of eager PyTorch */

static void die(const char *what)
{
	fprintf(stderr, "bench_follow: %s\n", what);
	exit(1);
}

static void append(struct writer *w, struct training *t)
{
	struct row_api_function function = { .kind = api_kind_launch };
	struct row_kernel_config config = { .grid_x = 1 };
	struct row_api_call call;
	struct row_kernel kernel;
	char name[32];

	training_next(t, &kernel, &call);
	function.name = writer_string(w, "launch", 6);
	writer_api_function(w, call.function, &function);
	config.name = writer_string(
		w, name, (size_t)snprintf(name, sizeof(name), "kernel%u", kernel.config));
	kernel.config = writer_kernel_config(w, &config);
	writer_append(w, TABLE_api_call, &call);
	writer_append(w, TABLE_kernel, &kernel);
}

static void load(struct trace *t)
{
	struct error e = { 0 };

	if (trace_load(t, TABLE_kernel, 0, &e) < 0 || trace_load(t, TABLE_api_call, 0, &e) < 0)
		die(e.text);
}

static double milliseconds_since(uint64_t start)
{
	return (double)(clock_monotonic_ns() - start) / 1e6;
}

static double open_and_load(const char *directory, struct trace **t)
{
	uint64_t start = clock_monotonic_ns();
	struct error e = { 0 };

	if (trace_open(directory, NULL, t, &e) < 0)
		die(e.text);
	load(*t);
	return milliseconds_since(start);
}

static double refresh_and_load(struct trace *t)
{
	uint64_t start = clock_monotonic_ns();
	struct error e = { 0 };

	if (trace_refresh(t, &e) < 0)
		die(e.text);
	load(t);
	return milliseconds_since(start);
}

static void follow(struct writer *w, const char *directory, size_t kernels)
{
	struct trace *follower = NULL;
	struct training training;
	size_t written = 0;

	training_init(&training, 1);
	printf("  kernels   opened anew   refreshed   nothing new\n");
	for (size_t step = 1; step <= STEPS; step++) {
		struct trace *fresh;
		double opened, refreshed;

		for (; written < kernels * step / STEPS; written++) {
			append(w, &training);
			if (written % FLUSH_ROWS == 0)
				writer_flush(w);
		}
		writer_flush(w);
		if (!follower)
			open_and_load(directory, &follower);
		opened = open_and_load(directory, &fresh);
		trace_free(fresh);
		refreshed = refresh_and_load(follower);
		if (step % 5 == 0)
			printf("%9zu %10.1f ms %8.1f ms %10.3f ms\n", written, opened, refreshed,
			       refresh_and_load(follower));
	}
	trace_free(follower);
}

static void remove_folder(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *entry;
	char path[512];

	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(directory);
}

int main(int argc, char **argv)
{
	size_t kernels = argc > 1 ? strtoul(argv[1], NULL, 10) * 1000 : 1000000;
	char directory[] = "/tmp/pitot-bench-XXXXXX";
	struct writer_options options = { .directory = directory };
	struct error e = { 0 };
	struct writer *w;

	if (kernels < STEPS)
		die("usage: bench_follow [thousands of kernels]");
	if (!mkdtemp(directory))
		die("cannot make a folder in /tmp");
	if (writer_open(&options, &w, &e) < 0)
		die(e.text);
	follow(w, directory, kernels);
	writer_close(&w);
	remove_folder(directory);
	return 0;
}
